//! Differences of two texts, line by line, for a terminal.
//!
//! Values beside a key that sounds like a secret are hidden, also in a setting that is commented out. Sentences in
//! comments are shown. The search for common lines has a time limit; after it, the rest is shown as removed and added.

use std::time::Duration;

use similar::TextDiff;

use crate::config::is_public_setting;
use protocol::visible::escaped;

/// Unchanged lines shown around a change.
const CONTEXT: usize = 2;
/// How long common lines are searched for.
const MAX_TIME: Duration = Duration::from_secs(1);
const SECRET_WORDS: [&str; 7] = ["key", "token", "secret", "passw", "auth", "credential", "cookie"];

/// Returns the changed lines, with `-` and `+`, and some lines around them. Values that may be secrets are hidden.
pub fn diff(before: &str, after: &str) -> String {
    difference(before, after, shown)
}

/// Returns the changed lines of two public texts.
pub fn public_diff(before: &str, after: &str) -> String {
    difference(before, after, visible_line)
}

fn difference(before: &str, after: &str, shown: impl Fn(&str) -> String) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let diff = TextDiff::configure().timeout(MAX_TIME).diff_slices(&old, &new);
    let hunks = diff.grouped_ops(CONTEXT).into_iter().map(|hunk| {
        let lines = hunk.iter().flat_map(|part| diff.iter_changes(part));
        lines.map(|line| format!("{} {}\n", line.tag(), shown(line.value()))).collect::<String>()
    });
    hunks.collect::<Vec<_>>().join("  ...\n")
}

/// Returns `line` with its tabs and with its invisible characters as escapes.
fn visible_line(line: &str) -> String {
    line.split('\t')
        .map(|part| part.chars().flat_map(escaped).collect::<String>())
        .collect::<Vec<_>>()
        .join("\t")
}

/// Returns `line` with visible characters only, and without a value that may be a secret.
fn shown(line: &str) -> String {
    let line = visible_line(line);
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
    let is_secret = !is_known && SECRET_WORDS.iter().any(|word| name_lower.contains(word));
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
            assert_eq!(shown(line), expected);
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
