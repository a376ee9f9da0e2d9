//! [`Part`]: a value inside a [`Raw`](super::Raw), borrowed, for reading without an allocation. And the positions of the members
//! of an object, kept so that a lookup does not scan the text again.
//!
//! The scanner ([`crate::scanner`]) passes every member of `params` and of its `_meta` anyway and notes its position. A
//! later lookup compares a few keys.
//!
//! Invariants: the list of an object is complete and in the order of its members, so a name that is not in it is not a
//! member. No key in it has an escape or occurs twice. Objects with very many members have no list.
//!
//! Not here: values that outlive their message. Those are slices, as [`Raw`](super::Raw).

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;

use crate::tokens;
use crate::tokens::{Member, plain};

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

/// The most members of one object whose positions are kept.
pub const MOST: usize = 16;

/// One member. Positions count from the first byte of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The first byte of the key, behind its quote.
    name: u32,
    /// The length of the key.
    length: u16,
    /// The part of the list with the members of the value.
    inner: Span,
    /// The value, without white space around it.
    value: (u32, u32),
}

/// A range of the list of positions. The members of a value follow those of its object, so only the range of the outer
/// object can begin at zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: u8,
    to: u8,
}

impl Span {
    /// The range of an object whose members are not known.
    const NONE: Self = Self { from: 0, to: 0 };
}

impl Place {
    /// A placeholder for an empty entry of a list.
    pub(super) const NOWHERE: Self = Self { name: 0, length: 0, inner: Span::NONE, value: (0, 0) };

    /// The member with this key, without its quotes; `None` if a number is too large.
    pub(super) fn new(name: &Range<usize>, value: &Range<usize>) -> Option<Self> {
        let length = u16::try_from(name.len()).ok()?;
        // No other position is larger than the end.
        let end = u32::try_from(value.end).ok()?;
        let place = |at: usize| u32::try_from(at).unwrap_or(end);
        Some(Self { name: place(name.start), length, inner: Span::NONE, value: (place(value.start), end) })
    }

    /// The key token, quotes included.
    pub(super) const fn key(&self) -> Range<usize> {
        (self.name as usize).saturating_sub(1)..self.name as usize + self.length as usize + 1
    }

    /// The value.
    pub(super) const fn value(&self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }

    /// The key, without its quotes.
    pub(super) fn name<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        text.get(self.name as usize..)?.get(..usize::from(self.length))
    }

    /// Whether this is the member of `text` called `name`.
    pub(super) fn is(&self, text: &[u8], name: &[u8]) -> bool {
        usize::from(self.length) == name.len() && self.name(text) == Some(name)
    }

    /// Returns the member with positions relative to `start`.
    fn counted_from(self, start: u32) -> Self {
        let less = |at: u32| at.wrapping_sub(start);
        Self { name: less(self.name), value: (less(self.value.0), less(self.value.1)), ..self }
    }
}

/// The positions of the members of one object, if they are known. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct MemberIndex {
    all: Option<Arc<[Place]>>,
    own: Span,
}

impl MemberIndex {
    /// The members are not known.
    pub(super) const UNKNOWN: Self = Self { all: None, own: Span::NONE };

    /// The positions of `members`. For the value of one member, `inner` may give its start and its own members. All
    /// positions count from the beginning of one text, in which the object begins at `start`.
    pub(super) fn of(start: usize, members: &[Place], inner: Option<(usize, &[Place])>) -> Self {
        let (Ok(start), Ok(count)) = (u32::try_from(start), u8::try_from(members.len())) else {
            return Self::UNKNOWN;
        };
        let (at, deeper) = inner.unwrap_or((0, &[]));
        let total = u8::try_from(members.len() + deeper.len()).unwrap_or(count);
        let mark = |place: &Place| match inner {
            Some((at, _)) if place.value.0 as usize == at => {
                Place { inner: Span { from: count, to: total }, ..place.counted_from(start) }
            }
            _ => place.counted_from(start),
        };
        let at = u32::try_from(at).unwrap_or(0);
        let all = members.iter().map(mark).chain(deeper.iter().map(|place| place.counted_from(at)));
        Self { all: Some(all.collect()), own: Span { from: 0, to: count } }
    }

    /// Returns the known members, borrowed.
    pub(super) fn view(&self) -> Option<View<'_>> {
        let all = self.all.as_deref()?;
        Some(View { all, own: own(all, self.own)? })
    }

    /// The positions after the value of `changed`, which is one of these members, became `length` bytes long.
    pub(super) fn replaced(&self, changed: &Place, length: usize) -> Self {
        let Some(all) = self.all.as_deref() else { return Self::UNKNOWN };
        let (start, end) = changed.value;
        let Some(new_end) = u32::try_from(length).ok().and_then(|length| start.checked_add(length)) else {
            return Self::UNKNOWN;
        };
        let shifted = |at: u32| if at < end { at } else { at.wrapping_sub(end).wrapping_add(new_end) };
        let own = usize::from(self.own.from)..usize::from(self.own.to);
        let moved = |(index, place): (usize, &Place)| match place {
            _ if !own.contains(&index) => *place,
            place if place.value.0 == start => Place { value: (start, new_end), inner: Span::NONE, ..*place },
            Place { name, value, .. } => {
                Place { name: shifted(*name), value: (shifted(value.0), shifted(value.1)), ..*place }
            }
        };
        Self { all: Some(all.iter().enumerate().map(moved).collect()), own: self.own }
    }

    /// Returns the known members of the value of `place`, which is one of these members.
    pub(super) fn inside(&self, place: &Place) -> Self {
        match place.inner {
            Span::NONE => Self::UNKNOWN,
            own => Self { all: self.all.clone(), own },
        }
    }
}

/// [`MemberIndex`] that are known, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    all: &'a [Place],
    own: &'a [Place],
}

impl<'a> View<'a> {
    /// The members, in order.
    pub(super) const fn own(self) -> &'a [Place] {
        self.own
    }

    /// The member of `text` called `name`.
    pub(super) fn find(self, text: &[u8], name: &str) -> Option<&'a Place> {
        self.own.iter().find(|place| place.is(text, name.as_bytes()))
    }

    /// Returns the known members of the value of `place`, which is one of these members.
    pub(super) fn inside(self, place: &Place) -> Option<Self> {
        let own = (place.inner != Span::NONE).then(|| own(self.all, place.inner))?;
        Some(Self { all: self.all, own: own? })
    }
}

fn own(all: &[Place], span: Span) -> Option<&[Place]> {
    all.get(usize::from(span.from)..usize::from(span.to))
}
