//! Text of servers as it may be shown on a terminal: with the invisible characters of [`protocol::visible`] as escapes.
//!
//! Not here: shortening (`operate::table`), and JSON (`operate::json_text`), which has escapes of its own.

use std::io::{self, Write};

use protocol::visible::visible;

/// A stream to which texts of others are written: invisible characters are escaped, except line ends and tabs.
pub(super) struct VisibleWriter<W>(pub(super) W);

impl<W: Write> Write for VisibleWriter<W> {
    /// Expects whole characters, as the macros of formatting write them.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(text) {
            Ok(text) => self.0.write_all(lines(text).as_bytes())?,
            Err(_) => self.0.write_all(text)?,
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns `text` on one line: line ends and tabs become spaces.
pub(super) fn line(text: &str) -> String {
    visible(&text.replace("\r\n", "\n").replace(['\n', '\t'], " ")).to_string()
}

/// Returns `text` with its line ends and tabs.
pub(super) fn lines(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let parts = text.split_inclusive(['\n', '\t']).map(|part| {
        let end = part.len() - usize::from(part.ends_with(['\n', '\t']));
        format!("{}{}", visible(&part[..end]), &part[end..])
    });
    parts.collect()
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
            ("a\rb", r"a\rb", r"a\rb"),
            ("\u{202e}gpj.exe", r"\u{202e}gpj.exe", r"\u{202e}gpj.exe"),
            ("Ünïcode 世界", "Ünïcode 世界", "Ünïcode 世界"),
        ] {
            assert_eq!((line(text).as_str(), lines(text).as_str()), (one, many), "{text:?}");
        }
    }
}
