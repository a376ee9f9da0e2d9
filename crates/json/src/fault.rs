//! The fault that makes a text invalid JSON, and its position, in words for people.
//!
//! Invariant: a fault quotes nothing of the text apart from the words `NaN` and `Infinity`, so it can be shown anywhere.
//!
//! Not here: what a valid text means.

use std::fmt;

/// Words that common printers write for numbers that JSON does not have.
const NUMBERS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// The first fault of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the fault.
    pub cause: Cause,
    /// The number of valid bytes before it.
    pub at: usize,
}

/// The kind of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// `NaN` or `Infinity`.
    Number(&'static str),
    /// A byte that is not UTF-8.
    Encoding(u8),
    /// The text ends before its value does.
    Truncated,
    /// Anything else, in the words of the parser.
    Other(String),
}

impl Fault {
    /// Describes the fault of `text` for which `serde_json` gave `error`.
    pub fn of(text: &[u8], error: &serde_json::Error) -> Self {
        let valid = std::str::from_utf8(text).err();
        let at = position(text, error).min(valid.map_or(text.len(), |error| error.valid_up_to()));
        let number = NUMBERS.into_iter().find_map(|word| Some((word, begin_of(word, text, at)?)));
        match (valid, number) {
            (_, Some((word, at))) => Self { cause: Cause::Number(word), at },
            (Some(valid), None) if valid.valid_up_to() == at && valid.error_len().is_some() => {
                Self { cause: Cause::Encoding(text[at]), at }
            }
            (Some(_), None) => Self { cause: Cause::Truncated, at },
            (None, None) if error.is_eof() => Self { cause: Cause::Truncated, at: text.len() },
            (None, None) => {
                let words = error.to_string();
                let words = words.split(" at line ").next().unwrap_or_default();
                Self { cause: Cause::Other(words.to_owned()), at }
            }
        }
    }

    /// Advice for the author of the text.
    pub fn advice(&self) -> String {
        let at = self.at;
        match &self.cause {
            Cause::Number(word) => format!(
                "{word} at byte {at} is no JSON value; the server has to write null or a text there (Python's json module writes {word} unless allow_nan=False is set)"
            ),
            Cause::Encoding(_) => format!(
                "the server has to write UTF-8, and byte {at} belongs to another encoding (on Windows, PYTHONUTF8=1 makes Python write UTF-8)"
            ),
            Cause::Truncated => format!(
                "the server stopped after byte {at}, inside of its answer; look into its log for the reason"
            ),
            Cause::Other(_) => {
                format!("look at byte {at} of what the server wrote, and correct the server")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match &self.cause {
            Cause::Number(word) => write!(f, "{word} at byte {at}"),
            Cause::Encoding(byte) => write!(f, "byte {at} (0x{byte:02x}) is not UTF-8"),
            Cause::Truncated => write!(f, "it ends at byte {at}, before its end"),
            Cause::Other(words) => write!(f, "{words} at byte {at}"),
        }
    }
}

/// The offset of the byte at which `error` was found.
fn position(text: &[u8], error: &serde_json::Error) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => memchr::memchr_iter(b'\n', text).nth(line - 2).map_or(0, |end| end + 1),
    };
    (line_start + error.column().saturating_sub(1)).min(text.len())
}

/// Where `word` begins, if the parser stopped at `at` because of it. It stops at the first letter, or at the second one
/// where the first letters could begin another token.
fn begin_of(word: &str, text: &[u8], at: usize) -> Option<usize> {
    let begins = [Some(at), at.checked_sub(1)].into_iter().flatten();
    begins.into_iter().find(|begin| text[*begin..].starts_with(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &[u8]) -> Option<Fault> {
        let error = serde_json::from_slice::<&serde_json::value::RawValue>(text).err()?;
        Some(Fault::of(text, &error))
    }

    fn of(text: &[u8]) -> (Cause, usize) {
        let fault = fault(text).expect("a fault");
        (fault.cause, fault.at)
    }

    #[test]
    fn cause_and_position_of_each_fault_are_named() {
        for (text, cause, at) in [
            (&br#"{"a":NaN}"#[..], Cause::Number("NaN"), 5),
            (br#"{"a":[1,Infinity]}"#, Cause::Number("Infinity"), 8),
            (br#"{"a":-Infinity}"#, Cause::Number("-Infinity"), 5),
            (b"{\n\"a\": 1,\n\"b\":NaN}", Cause::Number("NaN"), 14),
            (b"{\"a\":\"caf\xe9\"}", Cause::Encoding(0xe9), 9),
            (b"{\"a\":\"\xed\xa0\x80\"}", Cause::Encoding(0xed), 6),
            (b"\xff\xfe{\0", Cause::Encoding(0xff), 0),
            (br#"{"a":{"b":1"#, Cause::Truncated, 11),
            (b"{\"a\":\"caf\xc3", Cause::Truncated, 9),
            (b"", Cause::Truncated, 0),
        ] {
            assert_eq!(of(text), (cause, at), "{}", String::from_utf8_lossy(text));
        }
        let (cause, at) = of(br#"{"a":'b'}"#);
        assert!(matches!(cause, Cause::Other(words) if !words.contains("line")) && (4..=6).contains(&at));
        assert_eq!(fault(br#"{"a":"\ud800"}"#), None, "a lone surrogate is legal text");
    }

    #[test]
    fn texts_of_a_fault_name_position_and_cause() {
        let fault = fault(br#"{"a":NaN}"#).expect("a fault");
        assert_eq!(fault.to_string(), "NaN at byte 5");
        assert!(fault.advice().contains("NaN at byte 5"), "{}", fault.advice());
    }
}
