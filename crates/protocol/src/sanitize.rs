//! Makes text from servers and clients safe to show in an error or a log: escaped, and short.

use crate::visible::{escaped, visible};
use json::raw::Raw;

/// The longest text that is shown, in characters.
const LONGEST: usize = 200;
/// The longest URI that is repeated, in characters.
const LONGEST_URI: usize = 1_000;
/// The longest text of an answer, in characters.
const LONGEST_TEXT: usize = 2_000;
/// The most names of a list that are shown.
const NAMES: usize = 5;
/// The longest such name, in characters.
const LONGEST_NAME: usize = 32;
/// The longest value that is shown unchanged, in bytes.
const VALUE: usize = 200;

/// `text` as one short line of visible characters.
pub fn shown(text: &str) -> String {
    cut(text, LONGEST)
}

/// A name that a peer sent, or its beginning, unchanged: the caller escapes it.
pub fn name(text: &str) -> String {
    cut_raw(text, LONGEST)
}

/// A URI that a peer sent, or its beginning, unchanged. The limit is higher, because a URI is useless when cut.
pub fn uri(text: &str) -> String {
    cut_raw(text, LONGEST_URI)
}

/// `text`, or its beginning, for an answer. The limit is that of a text which explains something.
pub fn clipped(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A value for an answer to the peer that sent it: unchanged if it is short, otherwise the beginning of its text.
pub fn value(value: &Raw) -> Raw {
    // A number that no reader accepts would make the whole answer unreadable.
    if value.bytes().len() <= VALUE && value.read::<serde_json::Value>().is_ok() {
        return value.clone();
    }
    let text = value.as_str();
    let cut = text.floor_char_boundary(VALUE);
    let end = if cut < text.len() { "…" } else { "" };
    Raw::of(&format!("{}{end}", &text[..cut]))
}

/// The first few of `names`, each of them short, and the number of the others.
pub fn listed(names: &[String]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(NAMES)
        .map(|name| format!("\"{}\"", visible(&cut_raw(name, LONGEST_NAME))))
        .collect();
    match names.len().saturating_sub(NAMES) {
        0 => format!("[{}]", first.join(", ")),
        more => format!("[{}, and {more} more]", first.join(", ")),
    }
}

fn cut(text: &str, most: usize) -> String {
    let mut shown: String = text.trim().chars().take(most).flat_map(escaped).collect();
    if text.trim().chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Cuts `text` without escaping it.
fn cut_raw(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_one_short_line() {
        assert_eq!(shown(" a\nb\u{1b}[31m '\"\\ "), r#"a\nb\u{1b}[31m '"\"#);
        assert_eq!(shown(&"x".repeat(500)).chars().count(), 201);
    }

    #[test]
    fn a_name_is_given_back_as_it_was_written_while_it_is_short() {
        let short = "a \"b\"\n ".to_owned();
        assert_eq!((name(&short), uri(&short)), (short.clone(), short));
        let long = "é".repeat(100_000);
        assert_eq!((name(&long).chars().count(), uri(&long).chars().count()), (201, 1_001));
        assert!(name(&long).ends_with('…'));
    }

    #[test]
    fn a_list_of_foreign_names_is_short_however_many_and_long_they_are() {
        assert_eq!(listed(&[]), "[]");
        assert_eq!(listed(&["2031-01-01".into(), "a\nb".into()]), r#"["2031-01-01", "a\nb"]"#);
        let many = vec!["x".repeat(1_000_000); 1_000];
        let text = listed(&many);
        assert!(text.ends_with("and 995 more]") && text.chars().count() <= 220, "{text}");
    }
}
