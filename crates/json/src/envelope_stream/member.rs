//! The members whose names and values matter, and the short token that is buffered to recognize them.

use crate::decimal;

/// The longest token that can matter, in bytes. No word that matters has more than 20 letters, and an escape of one
/// letter takes 6 bytes.
const LONGEST: usize = 128;

/// A member by its meaning for a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnvelopeMember {
    /// `jsonrpc`.
    Version,
    Id,
    Result,
    Error,
    Method,
    /// `resultType` of a result.
    Type,
    /// A member of a result that must not be an object.
    NoObject,
    Other,
}

impl EnvelopeMember {
    /// The member of an envelope that is called `name`.
    pub(super) fn in_envelope(name: &Token) -> Self {
        let known = [
            ("jsonrpc", Self::Version),
            ("id", Self::Id),
            ("result", Self::Result),
            ("error", Self::Error),
            ("method", Self::Method),
        ];
        known.iter().find(|(word, _)| name.is(word)).map_or(Self::Other, |(_, member)| *member)
    }

    /// The member of a result that is called `name`.
    pub(super) fn in_result(name: &Token, no_objects: &[&str]) -> Self {
        if name.is("resultType") {
            Self::Type
        } else if no_objects.iter().any(|other| name.is(other)) {
            Self::NoObject
        } else {
            Self::Other
        }
    }
}

/// A string, a number or a literal as it is written, if it is short enough to matter.
#[derive(Debug, Default)]
pub(super) struct Token {
    text: Vec<u8>,
    is_too_long: bool,
}

impl Token {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.is_too_long = false;
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        if self.is_too_long || self.text.len() + part.len() > LONGEST {
            self.is_too_long = true;
        } else {
            self.text.extend_from_slice(part);
        }
    }

    /// The text of the token, unless it is too long.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_long).then_some(&self.text)
    }

    /// Whether the token is one of the numbers that JSON does not have.
    pub(super) fn is_odd_number(&self) -> bool {
        matches!(self.bytes(), Some(b"NaN" | b"Infinity" | b"-Infinity"))
    }

    /// Whether the token is a string that means `word`, with or without escapes.
    pub(super) fn is(&self, word: &str) -> bool {
        let Some(inner) = self.bytes().and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\"")) else {
            return false;
        };
        if inner.contains(&b'\\') {
            return serde_json::from_slice::<String>(&self.text).is_ok_and(|text| text == word);
        }
        inner == word.as_bytes()
    }

    /// The number of a request, also if it is written as text.
    pub(super) fn number(&self) -> Option<u64> {
        decimal::whole(self.bytes()?)
    }
}
