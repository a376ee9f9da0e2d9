//! Paths in Rust code, also those of lists in braces, read from the text.

/// The paths in `code` that begin with `start`, such as `crate::`; a list in braces gives one for each of its parts.
pub(crate) fn starting_with(code: &str, start: &str) -> Vec<Vec<String>> {
    let is_start = |at: &usize| {
        let before = code[..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || ['_', ':', '$'].contains(&c))
    };
    let starts = code.match_indices(start).map(|(at, _)| at).filter(is_start);
    starts.flat_map(|at| paths(&code[at..])).collect()
}

/// The paths that `text` begins with: several if it has a list in braces.
fn paths(text: &str) -> Vec<Vec<String>> {
    let (mut prefix, mut rest) = (Vec::new(), text);
    loop {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest = &rest[name.len()..];
        if name.is_empty() {
            break;
        }
        prefix.push(name);
        let Some(after) = rest.strip_prefix("::") else { return vec![prefix] };
        rest = after;
    }
    let Some(list) = rest.strip_prefix('{') else { return vec![prefix] };
    let all = items(list).into_iter().flat_map(|item| paths(item.trim_start()));
    all.map(|path| prefix.iter().cloned().chain(path).collect()).collect()
}

/// The parts of a list in braces, whose opening brace has been read.
fn items(list: &str) -> Vec<&str> {
    let (mut depth, mut found, mut start) = (0, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(&list[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn paths_are_found_in_every_form_they_are_written_in() {
    let code =
        "use crate::{wire::{a, b}, auth};\nlet x = crate::store::memory::new();\nuse mycrate::no; $crate::no";
    let found: Vec<String> = starting_with(code, "crate::").iter().map(|path| path.join("/")).collect();
    assert_eq!(found, ["crate/wire/a", "crate/wire/b", "crate/auth", "crate/store/memory/new"]);
}
