//! [`Part`]: a value inside a [`Raw`](super::Raw), borrowed, for reading without an allocation.
//!
//! Not here: values that outlive their message. Those are slices, as [`Raw`](super::Raw).

use std::borrow::Cow;

use serde::Deserialize;

use crate::member_index::{Place, View};
use crate::string_scan::plain;
use crate::tokens::{self, Member};

/// One JSON value, borrowed from its message.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    text: &'a [u8],
    places: Option<View<'a>>,
}

impl<'a> Part<'a> {
    /// `text` is one JSON value, and `places` are those of its members.
    pub const fn new(text: &'a [u8], places: Option<View<'a>>) -> Self {
        Self { text, places }
    }

    /// The JSON text.
    pub const fn bytes(self) -> &'a [u8] {
        self.text
    }

    /// Whether this is an object.
    pub fn is_object(self) -> bool {
        self.text.first() == Some(&b'{')
    }

    /// Whether this is the literal `null`.
    pub fn is_null(self) -> bool {
        self.text == b"null"
    }

    /// The first member called `name`, if this is an object that has one.
    pub fn get(self, name: &str) -> Option<Self> {
        if let Some(view) = self.places {
            let place = view.find(self.text, name)?;
            return Some(Self { text: self.text.get(place.value())?, places: view.inside(place) });
        }
        let member =
            tokens::members(self.text).find(|member| key_is(&self.text[member.key.clone()], name))?;
        Some(Self { text: &self.text[member.value], places: None })
    }

    /// How many members are called `name`.
    pub fn count(self, name: &str) -> usize {
        self.places().filter(|member| key_is(&self.text[member.key.clone()], name)).count()
    }

    /// The positions of its members, in order.
    pub fn places(self) -> impl Iterator<Item = Member> + 'a {
        let (known, scanned) = match self.places {
            Some(view) => (view.own(), None),
            None => (&[][..], Some(tokens::members(self.text))),
        };
        let member = |place: &Place| Member { key: place.key(), value: place.value() };
        known.iter().map(member).chain(scanned.into_iter().flatten())
    }

    /// The decoded text of this string; `None` if the value is not a string or cannot be decoded.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inner = self.text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if plain(inner, 0) < inner.len() {
            return serde_json::from_slice(self.text).ok().map(Cow::Owned);
        }
        std::str::from_utf8(inner).ok().map(Cow::Borrowed)
    }

    /// Whether this is a string that means `text`. A string without escapes is not decoded.
    pub fn says(self, text: &str) -> bool {
        let spelled = self.text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        match spelled {
            Some(spelled) if !spelled.contains(&b'\\') => spelled == text.as_bytes(),
            Some(_) => self.text().is_some_and(|decoded| decoded == text),
            None => false,
        }
    }

    /// A typed view that borrows from these bytes.
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.text)
    }
}

/// Whether the key `token`, quotes included, means `name`.
pub fn key_is(token: &[u8], name: &str) -> bool {
    let inner = inside(token);
    if !inner.contains(&b'\\') {
        return inner == name.as_bytes();
    }
    let (plain, escaped) = inner.split_at(plain(inner, 0));
    let rest = name.as_bytes().strip_prefix(plain);
    rest.is_some_and(|rest| may_mean(escaped, rest)) && decode_key(token) == name
}

/// Whether a key that begins with an escape may mean `name`. Without this check, a message full of escaped keys would
/// be decoded once for each member that is looked up.
fn may_mean(escape: &[u8], name: &[u8]) -> bool {
    let digits = || std::str::from_utf8(escape.get(2..6)?).ok();
    let meant = match escape.get(1) {
        Some(b'u') => digits().and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        Some(b'n') => Some(b'\n'),
        Some(b't') => Some(b'\t'),
        Some(b'r') => Some(b'\r'),
        Some(b'b') => Some(8),
        Some(b'f') => Some(12),
        other => other.copied(),
    };
    match (meant.filter(u8::is_ascii), name.first()) {
        (Some(meant), first) => first == Some(&meant),
        // The character is not ASCII, so it must be decoded.
        (None, first) => first.is_some_and(|first| !first.is_ascii()),
    }
}

/// Returns the decoded text of the key `token`.
pub fn decode_key(token: &[u8]) -> Cow<'_, str> {
    let inner = inside(token);
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner);
    }
    // A lone surrogate escape is legal JSON but not a Unicode string. It is compared as it is written.
    serde_json::from_slice::<String>(token).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Owned)
}

fn inside(token: &[u8]) -> &[u8] {
    &token[1..token.len().saturating_sub(1).max(1)]
}
