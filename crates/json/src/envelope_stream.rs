//! The result of one JSON-RPC response, taken out of its envelope while the response arrives.
//!
//! [`EnvelopeEdit::take`] receives the response piece by piece. It returns the part of each piece that belongs to the result,
//! without a copy. The closing brace of the result is withheld until the whole envelope was read and found correct
//! ([`EnvelopeEdit::finish`]). The complete result of an incorrect response is therefore never passed on.
//!
//! Invariants: it accepts and refuses the same envelopes as `protocol::Message::from_server`, wherever the text is cut.
//! The one exception is a result that is not an object, which is refused here. Each byte is read once, and at most one
//! short token is buffered.
//!
//! Does not judge the values inside of the result, apart from `NaN` and `Infinity`: the receiver finds out whether they
//! are JSON.

use bytes::Bytes;

use super::skip::{Nested, Quoted};
use crate::decimal;

/// The conditions under which a result may be passed on before it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Values of `resultType` with which the result is refused.
    pub refused: &'static [&'static str],
    /// Members of the result that must not be objects.
    pub refused_objects: &'static [&'static str],
    /// Members that a result gets if its server did not write them.
    pub added: &'static [Added],
}

/// A member that is added to a result without a member of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// The name, in printable ASCII.
    pub name: &'static str,
    /// The value, as JSON.
    pub value: &'static str,
    /// Whether only a final result gets the member: its `resultType` is `complete` or missing.
    pub only_final: bool,
}

/// Why a response cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A JSON-RPC error, or a result that is not an object. Neither is ever large.
    #[error("it is not an object as the result")]
    Unfit,
    /// The [`Terms`] refuse a result of this type.
    #[error("a result of this type cannot be passed on while it arrives")]
    Refused,
    /// The text is not a JSON object, or something follows the object.
    #[error("it is not one JSON object")]
    Malformed,
    /// `jsonrpc` is missing or not `"2.0"`.
    #[error("\"jsonrpc\" must be \"2.0\"")]
    Version,
    /// The id is missing, or is that of another request.
    #[error("it does not answer the request")]
    Id,
    /// The message is a request or a notification.
    #[error("it is not a response")]
    NotResponse,
    /// The result contains `NaN` or `Infinity`.
    #[error("it contains NaN or Infinity, which JSON does not have")]
    Number,
    /// The text ended before the envelope did.
    #[error("it ended too early")]
    Cut,
}

/// Takes the result out of the response to one request.
///
/// ```text
///  Begin ─{─► Name? ─"─► Name ─"─► Colon ─:─► Value ─┬─► Word, Text, Nested ─┐
///               ▲                                    │                       │
///               │          the result: one level in ─┘                       ▼
///               └──────────────────── , ──────────────────────────────── Comma? ─}─► End
/// ```
#[derive(Debug)]
pub struct EnvelopeEdit {
    id: u64,
    terms: Terms,
    state: State,
    /// Whether the position is on the first level of the result.
    is_inside: bool,
    /// The member at the position.
    member: EnvelopeMember,
    token: Token,
    seen: SeenMembers,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Begin,
    /// A name, or the end of the object if `or_end`.
    Name {
        or_end: bool,
    },
    InName(Quoted),
    Colon,
    Value,
    /// A number or a literal.
    Word,
    Text(Quoted),
    Nested(Nested),
    Comma,
    End,
}

/// The parts of the envelope that were read so far.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // facts that have nothing to do with each other
struct SeenMembers {
    version: bool,
    id: bool,
    result: bool,
    /// Whether `method` or `error` stood there as `null`, which counts as a missing member.
    method: bool,
    error: bool,
    /// Whether the result has any member.
    members: bool,
    /// The members of [`Terms::added`] that the result has, as bits.
    added: u32,
    /// Whether the type of the result is not `complete`.
    not_final: bool,
}

impl EnvelopeEdit {
    /// Returns a splice for the response to the request with the number `id`.
    pub fn new(id: u64, terms: Terms) -> Self {
        Self {
            id,
            terms,
            state: State::Begin,
            is_inside: false,
            member: EnvelopeMember::Other,
            token: Token::default(),
            seen: SeenMembers::default(),
        }
    }

    /// Whether the result has begun.
    pub const fn has_started(&self) -> bool {
        self.seen.result
    }

    /// Reads `piece` and returns the part of it that belongs to the result. After an error the splice cannot be used.
    pub fn take(&mut self, piece: &Bytes) -> Result<Bytes, Error> {
        let mut at = 0;
        // The result is one contiguous range, so its part of this piece is one too.
        let (mut begin, mut end) = (self.is_inside.then_some(0), None);
        while at < piece.len() {
            let (was_inside, before) = (self.is_inside, at);
            at += self.step(&piece[at..])?;
            match (was_inside, self.is_inside) {
                (false, true) => begin = Some(before),
                // Without the closing brace.
                (true, false) => end = Some(at - 1),
                _ => {}
            }
        }
        Ok(begin.map_or_else(Bytes::new, |begin| piece.slice(begin..end.unwrap_or(piece.len()))))
    }

    /// Returns the end of the result after a complete and correct response: missing members and the closing brace.
    pub fn finish(&self) -> Result<Bytes, Error> {
        match self.state {
            State::End if !self.seen.result => Err(Error::Unfit),
            State::End if !self.seen.version => Err(Error::Version),
            State::End if !self.seen.id => Err(Error::Id),
            State::End => Ok(self.ending()),
            _ => Err(Error::Cut),
        }
    }

    fn ending(&self) -> Bytes {
        let mut ending = String::new();
        let mut comma = if self.seen.members { "," } else { "" };
        for (number, added) in self.terms.added.iter().enumerate() {
            let is_there = self.seen.added >> number & 1 == 1;
            let is_wanted = !(added.only_final && self.seen.not_final);
            if is_wanted && !is_there {
                ending.extend([comma, "\"", added.name, "\":", added.value]);
                comma = ",";
            }
        }
        if ending.is_empty() {
            return Bytes::from_static(b"}");
        }
        ending.push('}');
        ending.into()
    }

    /// Reads the beginning of `text`, which is not empty, and returns the number of bytes read.
    fn step(&mut self, text: &[u8]) -> Result<usize, Error> {
        let first = text[0];
        match self.state {
            State::InName(quoted) => return Ok(self.in_name(quoted, text)),
            State::Text(quoted) => return self.in_text(quoted, text),
            State::Nested(mut nested) => {
                let end = nested.end(text);
                if nested.is_broken() {
                    return Err(Error::Number);
                }
                self.state = if end.is_some() { State::Comma } else { State::Nested(nested) };
                return Ok(end.unwrap_or(text.len()));
            }
            State::Word if is_word(first) => {
                self.token.push(&text[..1]);
                return Ok(1);
            }
            State::Word => {
                self.value_ended()?;
                return Ok(0);
            }
            _ if is_space(first) => return Ok(1),
            State::Begin if first == b'{' => self.state = State::Name { or_end: true },
            State::Name { .. } if first == b'"' => {
                self.token.clear();
                self.token.push(b"\"");
                self.state = State::InName(Quoted::default());
            }
            State::Name { or_end: true } | State::Comma if first == b'}' => self.leave(),
            State::Colon if first == b':' => self.state = State::Value,
            State::Comma if first == b',' => self.state = State::Name { or_end: false },
            State::Value => self.value(first)?,
            _ => return Err(Error::Malformed),
        }
        Ok(1)
    }

    fn in_name(&mut self, mut quoted: Quoted, text: &[u8]) -> usize {
        let end = quoted.end(text);
        self.token.push(&text[..end.unwrap_or(text.len())]);
        self.state = State::InName(quoted);
        if end.is_some() {
            self.state = State::Colon;
            self.named();
        }
        end.unwrap_or(text.len())
    }

    fn in_text(&mut self, mut quoted: Quoted, text: &[u8]) -> Result<usize, Error> {
        let end = quoted.end(text);
        self.token.push(&text[..end.unwrap_or(text.len())]);
        self.state = State::Text(quoted);
        if end.is_some() {
            self.value_ended()?;
        }
        Ok(end.unwrap_or(text.len()))
    }

    /// Handles the end of a name. If two members have the same name, the first counts.
    fn named(&mut self) {
        if self.is_inside {
            self.seen.members = true;
            self.member = EnvelopeMember::in_result(&self.token, self.terms.refused_objects);
            if let Some(number) = self.terms.added.iter().position(|added| self.token.is(added.name)) {
                self.seen.added |= 1 << number;
            }
            return;
        }
        self.member = match EnvelopeMember::in_envelope(&self.token) {
            EnvelopeMember::Method if self.seen.method => EnvelopeMember::Other,
            EnvelopeMember::Error if self.seen.error => EnvelopeMember::Other,
            EnvelopeMember::Version if self.seen.version => EnvelopeMember::Other,
            EnvelopeMember::Id if self.seen.id => EnvelopeMember::Other,
            EnvelopeMember::Result if self.seen.result => EnvelopeMember::Other,
            member => member,
        };
    }

    /// Handles the first byte of a value.
    fn value(&mut self, first: u8) -> Result<(), Error> {
        self.token.clear();
        self.state = match (self.member, first) {
            (EnvelopeMember::Result, b'{') => {
                (self.is_inside, self.seen.result) = (true, true);
                State::Name { or_end: true }
            }
            (EnvelopeMember::Result, _) => return Err(Error::Unfit),
            (EnvelopeMember::Method, byte) if byte != b'n' => return Err(Error::NotResponse),
            (EnvelopeMember::Error, byte) if byte != b'n' => return Err(Error::Unfit),
            (EnvelopeMember::Version, b'{' | b'[') => return Err(Error::Version),
            (EnvelopeMember::Id, b'{' | b'[') => return Err(Error::Id),
            (EnvelopeMember::NoObject, b'{') => return Err(Error::Refused),
            (EnvelopeMember::Type, b'{' | b'[') => {
                self.seen.not_final = true;
                State::Nested(Nested::opened())
            }
            (_, b'{' | b'[') => State::Nested(Nested::opened()),
            (_, b'"') => State::Text(Quoted::default()),
            (_, byte) if is_word(byte) => State::Word,
            _ => return Err(Error::Malformed),
        };
        self.token.push(&[first]);
        Ok(())
    }

    /// Handles the end of a string, a number or a literal.
    fn value_ended(&mut self) -> Result<(), Error> {
        self.state = State::Comma;
        match self.member {
            EnvelopeMember::Version if self.token.bytes() == Some(b"\"2.0\"") => self.seen.version = true,
            EnvelopeMember::Version => return Err(Error::Version),
            EnvelopeMember::Id if self.token.number() == Some(self.id) => self.seen.id = true,
            EnvelopeMember::Id => return Err(Error::Id),
            EnvelopeMember::Method if self.token.bytes() == Some(b"null") => self.seen.method = true,
            EnvelopeMember::Method => return Err(Error::NotResponse),
            EnvelopeMember::Error if self.token.bytes() == Some(b"null") => self.seen.error = true,
            EnvelopeMember::Error => return Err(Error::Unfit),
            EnvelopeMember::Type if self.terms.refused.iter().any(|kind| self.token.is(kind)) => {
                return Err(Error::Refused);
            }
            EnvelopeMember::Type => self.seen.not_final |= !self.token.is("complete"),
            EnvelopeMember::Other if self.token.is_odd_number() => return Err(Error::Number),
            _ => {}
        }
        Ok(())
    }

    /// Handles the end of an object.
    fn leave(&mut self) {
        self.state = if self.is_inside { State::Comma } else { State::End };
        self.is_inside = false;
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether `byte` can be part of a number or a literal.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

/// The longest token that can matter, in bytes. No word that matters has more than 20 letters, and an escape of one
/// letter takes 6 bytes.
const LONGEST: usize = 128;

/// A member by its meaning for a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnvelopeMember {
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
    fn in_envelope(name: &Token) -> Self {
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
    fn in_result(name: &Token, no_objects: &[&str]) -> Self {
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
struct Token {
    text: Vec<u8>,
    is_too_long: bool,
}

impl Token {
    fn clear(&mut self) {
        self.text.clear();
        self.is_too_long = false;
    }

    fn push(&mut self, part: &[u8]) {
        if self.is_too_long || self.text.len() + part.len() > LONGEST {
            self.is_too_long = true;
        } else {
            self.text.extend_from_slice(part);
        }
    }

    /// The text of the token, unless it is too long.
    fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_long).then_some(&self.text)
    }

    /// Whether the token is one of the numbers that JSON does not have.
    fn is_odd_number(&self) -> bool {
        matches!(self.bytes(), Some(b"NaN" | b"Infinity" | b"-Infinity"))
    }

    /// Whether the token is a string that means `word`, with or without escapes.
    fn is(&self, word: &str) -> bool {
        let Some(inner) = self.bytes().and_then(|text| text.strip_prefix(b"\"")?.strip_suffix(b"\"")) else {
            return false;
        };
        if inner.contains(&b'\\') {
            return serde_json::from_slice::<String>(&self.text).is_ok_and(|text| text == word);
        }
        inner == word.as_bytes()
    }

    /// The number of a request, also if it is written as text.
    fn number(&self) -> Option<u64> {
        decimal::whole(self.bytes()?)
    }
}
