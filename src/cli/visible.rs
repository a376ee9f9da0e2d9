//! Text of servers as it may be shown on a terminal.
//!
//! Invariants: no character is left that moves the cursor, changes colors or the direction of writing, or hides text. It
//! is written as its escape, such as `\u{1b}`, so that a reader sees that it was there.
//!
//! Not here: shortening (`operate::table`), and JSON (`operate::json_text`), which has escapes of its own.

use std::fmt::Write as _;

use runtime::telemetry::is_harmless;

/// Returns `text` on one line: line ends and tabs become spaces.
pub(super) fn line(text: &str) -> String {
    escaped(text, |c| match c {
        '\n' | '\t' => Some(' '),
        _ => None,
    })
}

/// Returns `text` with its line ends and tabs.
pub(super) fn lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t').then_some(c))
}

fn escaped(text: &str, allowed: impl Fn(char) -> Option<char>) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match allowed(c).or_else(|| is_harmless(c).then_some(c)) {
            Some(c) => shown.push(c),
            // A string can always be written to.
            None => drop(write!(shown, "{}", c.escape_unicode())),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_act_on_a_terminal_are_escaped() {
        for (text, one, many) in [
            ("a\r\nb\tc", "a b c", "a\nb\tc"),
            ("\u{1b}[2J\u{7}", r"\u{1b}[2J\u{7}", r"\u{1b}[2J\u{7}"),
            ("\u{9b}31m", r"\u{9b}31m", r"\u{9b}31m"),
            ("a\rb", r"a\u{d}b", r"a\u{d}b"),
            ("\u{202e}gpj.exe", r"\u{202e}gpj.exe", r"\u{202e}gpj.exe"),
            ("Ünïcode 世界", "Ünïcode 世界", "Ünïcode 世界"),
        ] {
            assert_eq!((line(text).as_str(), lines(text).as_str()), (one, many), "{text:?}");
        }
    }
}
