//! Differences of two texts, line by line, for a terminal.
//!
//! Values beside a key that sounds like a secret are hidden, also in a setting that is commented out, and so are secrets in
//! arguments and URLs. Sentences in comments are shown. The search for common lines has a time limit; after it, the rest is
//! shown as removed and added.

use std::time::Duration;

use similar::TextDiff;

use crate::config::import::secrets::{in_argument, parts, sounds_secret};
use crate::config::is_public_setting;
use protocol::visible::escaped;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 2;
/// How long common lines are searched for.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Stands for a secret.
const BLANK: &str = "***";

/// Returns the changed lines, with `-` and `+`, and some lines around them. Values that may be secrets are hidden.
pub(crate) fn diff(before: &str, after: &str) -> String {
    let hidden = |text: &str| {
        let mut hiding = Hiding::default();
        text.lines().map(|line| hiding.line(line)).collect()
    };
    difference(before, after, hidden)
}

/// Returns the changed lines of two public texts.
pub(crate) fn public_diff(before: &str, after: &str) -> String {
    difference(before, after, |text| text.lines().map(visible_line).collect())
}

fn difference(before: &str, after: &str, shown: impl Fn(&str) -> Vec<String>) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let (shown_old, shown_new) = (shown(before), shown(after));
    let diff = TextDiff::configure().timeout(MAX_TIME).diff_slices(&old, &new);
    let hunks = diff.grouped_ops(CONTEXT).into_iter().map(|hunk| {
        let lines = hunk.iter().flat_map(|part| diff.iter_changes(part));
        let text = |line: &similar::Change<&str>| {
            let new = line.new_index().and_then(|at| shown_new.get(at));
            new.or_else(|| shown_old.get(line.old_index()?)).cloned().unwrap_or_default()
        };
        lines
            .flat_map(|line| [line.tag().to_string(), " ".into(), text(&line), "\n".into()])
            .collect::<String>()
    });
    hunks.collect::<Vec<_>>().join("  ...\n")
}

/// Hides the secrets of a text, line by line.
#[derive(Default)]
struct Hiding {
    /// The key or the option whose value stands on the next line.
    name: String,
}

impl Hiding {
    fn line(&mut self, line: &str) -> String {
        let line = visible_line(line);
        let hidden = shown(&line);
        if hidden != line {
            self.name.clear();
            return hidden;
        }
        let is_comment = line.trim_start().starts_with('#');
        let (mut found, mut has_key) = (Vec::new(), false);
        for Word { range, is_key } in words(&line) {
            let text = &line[range.clone()];
            if is_key {
                // The value of the first key was judged with the whole line.
                let is_judged = !has_key
                    && !line[range.end..].trim_matches(['"', '\'', ':', '=', ' ', '[', '{']).is_empty();
                has_key = true;
                let name = if is_judged || is_comment || is_public_setting(text) { "" } else { text };
                name.clone_into(&mut self.name);
                continue;
            }
            let is_option = self.name.starts_with('-');
            let secret = if has_key && !is_option && !self.name.is_empty() {
                parts(&self.name, text)
            } else {
                in_argument(&self.name, text)
            };
            found.extend(secret.into_iter().map(|part| range.start + part.start..range.start + part.end));
            if text.starts_with('-') && text.len() > 1 && !text.contains('=') {
                text.clone_into(&mut self.name);
            } else if is_option {
                self.name.clear();
            }
        }
        let mut hidden = line.clone();
        for part in found.into_iter().rev() {
            hidden.replace_range(part, BLANK);
        }
        hidden
    }
}

/// A word of a line in JSON, YAML or TOML, without its quotes.
struct Word {
    range: std::ops::Range<usize>,
    /// Whether a colon or an equals sign follows it.
    is_key: bool,
}

/// Returns the words of a line.
fn words(line: &str) -> Vec<Word> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = line[at..].chars().next() {
        if first.is_whitespace()
            || ",[]{}".contains(first)
            || ("=-".contains(first) && line[at + 1..].starts_with(' '))
        {
            at += first.len_utf8();
            continue;
        }
        let (range, next) = if matches!(first, '"' | '\'') {
            let end = quoted_end(line, at + 1, first);
            (at + 1..end, (end + 1).min(line.len()))
        } else {
            let end = line[at..].find(|c: char| c.is_whitespace() || ",[]{}".contains(c));
            let end = at + end.unwrap_or(line.len() - at);
            // A colon at the end is that of a key.
            let end = if line[at..end].ends_with(':') { end - 1 } else { end };
            (at..end, end)
        };
        let after = line[next..].trim_start();
        let is_key = after.starts_with(':') || after.starts_with("= ");
        at = next + usize::from(line[next..].starts_with(':'));
        found.push(Word { range, is_key });
    }
    found
}

/// The place of the quote that closes what begins at `at`, or the end of the line.
fn quoted_end(line: &str, at: usize, quote: char) -> usize {
    let mut is_escaped = false;
    for (offset, c) in line[at..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return at + offset,
            _ => {}
        }
    }
    line.len()
}

/// Returns `line` with its tabs and with its invisible characters as escapes.
fn visible_line(line: &str) -> String {
    line.split('\t')
        .map(|part| part.chars().flat_map(escaped).collect::<String>())
        .collect::<Vec<_>>()
        .join("\t")
}

/// Returns `line` without its value if the key before it sounds like a secret.
fn shown(line: &str) -> String {
    let line = line.to_owned();
    let Some(at) = line.find([':', '=']) else { return line };
    let (name, value) = line.split_at(at + 1);
    if is_prose(name, value) {
        return line;
    }
    let name_lower = name.to_ascii_lowercase();
    let key = name.trim_end_matches([':', '=']).trim_matches([' ', '-', '"']);
    let word = value.trim().trim_matches(['"', '\'', ',']);
    // In the files of clients, `auth` may be a token.
    let is_known = if key == "auth" { word == "oauth" } else { is_public_setting(key) };
    let is_secret = !is_known && sounds_secret(name);
    // A reference to a variable is no secret, and a bracket begins a value on further lines.
    let is_harmless = value.contains(['$', '{', '[']) || value.trim().len() < 3 || name_lower.contains("env");
    if is_secret && !is_harmless { format!("{name} ***") } else { line }
}

/// Whether a line is a sentence in a comment, and not a setting that was commented out. Then the parts before and after
/// its colon have several words, the line ends with a period, and no word after the colon looks like a secret.
fn is_prose(name: &str, value: &str) -> bool {
    let Some(name) = name.trim_start().strip_prefix('#') else { return false };
    let is_plain = |word: &str| !word.contains(|c: char| c.is_ascii_digit() || matches!(c, '_' | '=' | '+'));
    let words = |text: &str| text.split_whitespace().count();
    words(name) > 1 && words(value) > 2 && value.ends_with('.') && value.split_whitespace().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_those_around_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = "a\nb\nc\nD\ne\nf\ng\nh\ni\nj\n";
        assert_eq!(diff(before, after), "  b\n  c\n- d\n+ D\n  e\n  f\n  ...\n  h\n  i\n+ j\n");
        assert_eq!(diff(before, before), "");
        assert_eq!(diff("", "a\n"), "+ a\n");
    }

    #[test]
    fn values_that_sound_like_secrets_are_hidden_and_references_are_not() {
        for (line, expected) in [
            (r#"  "API_KEY": "s3cr3t","#, r#"  "API_KEY": ***"#),
            ("api_token: s3cr3t", "api_token: ***"),
            (r#""Authorization": "Bearer ${NAME}""#, r#""Authorization": "Bearer ${NAME}""#),
            (r#""Authorization": "Bearer s3cr3t""#, r#""Authorization": ***"#),
            ("  auth_mode: api_key", "  auth_mode: api_key"),
            ("    auth: oauth", "    auth: oauth"),
            (r#"  "auth": "oauth","#, r#"  "auth": "oauth","#),
            (r#"  "auth": "s3cr3t","#, r#"  "auth": ***"#),
            ("token_endpoint: https://a/token", "token_endpoint: https://a/token"),
            (r#"bearer_token_env_var = "NAME""#, r#"bearer_token_env_var = "NAME""#),
            (r#""url": "http://127.0.0.1:8080/mcp""#, r#""url": "http://127.0.0.1:8080/mcp""#),
            (
                "# The value of a secret: see the page about the vault.",
                "# The value of a secret: see the page about the vault.",
            ),
            ("  # api_token: correct horse battery staple", "  # api_token: ***"),
            ("# My database password: correct horse battery", "# My database password: ***"),
            ("# The token of ann: s3cr3t", "# The token of ann: ***"),
            ("# The token of ann: it is s3cr3t", "# The token of ann: ***"),
            ("command: sh\u{202e}txt\u{200b}\u{1b}[2J", r"command: sh\u{202e}txt\u{200b}\u{1b}[2J"),
        ] {
            assert_eq!(Hiding::default().line(line), expected);
        }
    }

    #[test]
    fn secrets_in_arguments_urls_and_inner_mappings_are_hidden() {
        for (text, expected) in [
            (
                r#"    args: ["-y", "--api-key", "canary", "x"]"#,
                r#"    args: ["-y", "--api-key", "***", "x"]"#,
            ),
            (r#"    args: ["--token=canary"]"#, r#"    args: ["--token=***"]"#),
            ("    - --api-key\n    - canary\n    - x", "    - --api-key\n    - ***\n    - x"),
            ("  \"--api-key\",\n  \"canary\",\n  \"x\"", "  \"--api-key\",\n  \"***\",\n  \"x\""),
            (r#""args": ["postgresql://me:canary@db/x"],"#, r#""args": ["postgresql://me:***@db/x"],"#),
            (
                "    url: https://a.example/mcp?token=canary&x=1",
                "    url: https://a.example/mcp?token=***&x=1",
            ),
            ("url = \"https://me:canary@a.example/mcp\"", "url = \"https://me:***@a.example/mcp\""),
            (r#""env": {"API_KEY": "canary", "A": "b"}"#, r#""env": {"API_KEY": "***", "A": "b"}"#),
            ("env = { API_KEY = \"canary\", A = \"b\" }", "env = { API_KEY = \"***\", A = \"b\" }"),
            (
                r#"{"headers": {"Authorization": "Bearer canary"}}"#,
                r#"{"headers": {"Authorization": "Bearer ***"}}"#,
            ),
            ("  args: [\"--header\", \"X-Api-Key: canary\"]", "  args: [\"--header\", \"X-Api-Key: ***\"]"),
            ("    url: https://a.example/mcp?x=${TOKEN}", "    url: https://a.example/mcp?x=${TOKEN}"),
            ("    command: npx", "    command: npx"),
        ] {
            let mut hiding = Hiding::default();
            let shown: Vec<_> = text.lines().map(|line| hiding.line(line)).collect();
            assert_eq!(shown.join("\n"), expected);
        }
    }

    #[test]
    fn a_change_that_is_too_long_is_shown_as_removed_and_added() {
        let lines = |word: &str| (0..3_000).fold(String::new(), |text, n| text + &format!("{word}{n}\n"));
        let shown = diff(&lines("a"), &lines("b"));
        assert_eq!(shown.lines().filter(|line| line.starts_with('-')).count(), 3_000);
        assert_eq!(shown.lines().filter(|line| line.starts_with('+')).count(), 3_000);
    }
}
