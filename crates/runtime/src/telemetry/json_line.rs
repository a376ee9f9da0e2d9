//! Escapes the invisible characters of a log line in JSON.
//!
//! Invariant: the line means the same object. A line of plain ASCII, which most are, is not copied.

use std::borrow::Cow;
use std::fmt::Write as _;

use protocol::visible::is_visible;

/// Returns `line` with its invisible characters as `\u` escapes, except the line end.
pub(super) fn visible(line: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0x7f;
    let Some(text) = std::str::from_utf8(line).ok().filter(|_| !line.iter().all(is_plain)) else {
        return line.into();
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) || c == '\n' {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A string can always be written to.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_means_the_same_and_is_visible() {
        let text = "a\u{7f}\u{202e}\u{e0041}\u{3164}é";
        let line = format!("{{\"text\":\"{text}\"}}\n");
        let shown = visible(line.as_bytes());
        assert_eq!(
            std::str::from_utf8(&shown).expect("text"),
            "{\"text\":\"a\\u007f\\u202e\\udb40\\udc41\\u3164é\"}\n"
        );
        let read: serde_json::Value = serde_json::from_slice(&shown).expect("JSON");
        assert_eq!(read["text"], text);
        assert!(matches!(visible(b"{\"a\":1}\n"), Cow::Borrowed(_)));
    }
}
