//! [`Raw`]: one JSON value kept as the bytes it arrived in.
//!
//! Parameters and results pass through Switchyard as `Raw`. Unknown members, the order of keys, the spelling of numbers
//! (`1e400`, 2^70, `1.0`) and explicit `null`s therefore arrive as they were sent. Invariant: the bytes are exactly one
//! JSON value in valid UTF-8, without white space around it.
//!
//! Not here: printing of parsed values. Parsing and printing loses data.

pub mod edit;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::part::{Part, decode_key};
use crate::part::MemberIndex;
use crate::scanner::Survey;
use crate::tokens;

/// One JSON value as a cheap, reference-counted slice of the bytes it was received in.
///
/// Cloning copies pointers. Equality is byte equality, so `1.0` and `1` differ.
#[derive(Clone)]
pub struct Raw {
    bytes: Bytes,
    /// The positions of the members, if the reader recorded them.
    places: MemberIndex,
}

impl Raw {
    /// Checks that `bytes` contain exactly one JSON value (RFC 8259) and keeps it without the white space around it.
    pub fn parse(bytes: &Bytes) -> Result<Self, serde_json::Error> {
        let mut survey = Survey::new();
        if let Some(range) = survey.read_value(bytes) {
            let places = survey.payload().map_or(MemberIndex::UNKNOWN, |(_, places)| places);
            return Ok(Self::indexed(bytes.slice(range), places));
        }
        Self::judged(bytes)
    }

    /// Parses with `serde_json`, which says what is wrong. The positions of members are not recorded.
    pub fn judged(bytes: &Bytes) -> Result<Self, serde_json::Error> {
        let value: &RawValue = serde_json::from_slice(bytes)?;
        Ok(Self::unindexed(bytes.slice_ref(value.get().as_bytes())))
    }

    /// One JSON value whose members are not known.
    pub const fn unindexed(bytes: Bytes) -> Self {
        Self { bytes, places: MemberIndex::UNKNOWN }
    }

    /// One JSON value and the positions of its members.
    pub const fn indexed(bytes: Bytes, places: MemberIndex) -> Self {
        Self { bytes, places }
    }

    /// Whether the positions of its members are known. Then no name occurs twice.
    pub(super) fn is_indexed(&self) -> bool {
        self.places.view().is_some()
    }

    /// The JSON text of `value`.
    ///
    /// # Panics
    /// When the `Serialize` implementation of `value` fails. None of this crate can: it is a programming error (a
    /// map with keys that are not strings), not an input.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        let text = serde_json::to_vec(value).expect("own types print as JSON");
        Self::unindexed(Bytes::from(text))
    }

    /// `{}`.
    pub const fn empty_object() -> Self {
        Self::unindexed(Bytes::from_static(b"{}"))
    }

    /// Returns a copy that does not keep the whole received message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::unindexed(Bytes::copy_from_slice(&self.bytes))
    }

    /// Returns the value backed by `copy`, which must be equal to its bytes.
    #[must_use]
    pub fn moved_to(&self, copy: Bytes) -> Self {
        debug_assert_eq!(self.bytes, copy);
        Self::unindexed(copy)
    }

    /// Hands its bytes to `keep`, which must not change them, and continues with what it returns.
    pub fn try_map_bytes<E>(self, keep: impl FnOnce(Bytes) -> Result<Bytes, E>) -> Result<Self, E> {
        Ok(Self { bytes: keep(self.bytes)?, places: self.places })
    }

    /// The bytes, exactly as received.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        // `parse` and `of` only ever keep what serde_json accepted, and that is UTF-8.
        std::str::from_utf8(&self.bytes).unwrap_or("null")
    }

    /// Whether this is an object.
    pub fn is_object(&self) -> bool {
        self.bytes.first() == Some(&b'{')
    }

    /// Whether this is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.bytes.as_ref() == b"null"
    }

    /// The deepest nesting of arrays and objects: 0 for a scalar, 1 for `{}`.
    pub fn depth(&self) -> usize {
        tokens::depth(&self.bytes)
    }

    /// The numbers at any depth, as they are written.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        tokens::numbers(&self.bytes).map(|number| &self.as_str()[number])
    }

    /// A typed view that borrows from these bytes.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    /// The value as a borrowed [`Part`].
    pub fn as_part(&self) -> Part<'_> {
        Part::new(&self.bytes, self.places.view())
    }

    /// The value of the first member called `name`, borrowed, if this is an object that has one.
    pub fn part(&self, name: &str) -> Option<Part<'_>> {
        self.as_part().get(name)
    }

    /// Returns `part`, which was found in this value, as a slice of the same bytes.
    pub fn slice(&self, part: Part<'_>) -> Self {
        Self::unindexed(self.bytes.slice_ref(part.bytes()))
    }

    /// The value of the first member called `name`, if this is an object that has one.
    pub fn get(&self, name: &str) -> Option<Self> {
        let Some(view) = self.places.view() else {
            return self.part(name).map(|part| self.slice(part));
        };
        let place = view.find(&self.bytes, name)?;
        Some(Self { bytes: self.bytes.slice(place.value()), places: self.places.inside(place) })
    }

    /// The member called `name`, read as an owned `T`; `None` when it is absent or of another type.
    pub fn get_as<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.part(name).and_then(|value| value.read().ok())
    }

    /// The text of the member called `name`; `None` when it is absent or no string.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.part(name).and_then(Part::text)
    }

    /// The members in their order, keys decoded.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, Self)> {
        self.as_part().places().map(|member| {
            (decode_key(&self.bytes[member.key]), Self::unindexed(self.bytes.slice(member.value)))
        })
    }

    /// The elements in their order; none when this is not an array.
    pub fn elements(&self) -> impl Iterator<Item = Self> {
        tokens::elements(&self.bytes).map(|range| Self::unindexed(self.bytes.slice(range)))
    }

    /// The first key that occurs twice in this object, decoded (so `"a"` and `"\u0061"` are equal).
    pub fn duplicate_key(&self) -> Option<String> {
        if self.is_indexed() {
            return None;
        }
        let mut seen = std::collections::BTreeSet::new();
        self.as_part()
            .places()
            .map(|member| decode_key(&self.bytes[member.key]))
            .find(|key| !seen.insert(key.clone()))
            .map(Cow::into_owned)
    }

    /// The first key that occurs twice in this object or in one inside this value, decoded.
    pub fn repeated_key(&self) -> Option<String> {
        tokens::repeated_key(&self.bytes, decode_key).map(Cow::into_owned)
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Raw {}

impl Hash for Raw {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl AsRef<[u8]> for Raw {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Payloads do not belong in logs; the length is enough to tell two apart.
        write!(f, "Raw({} bytes)", self.bytes.len())
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_slice(&self.bytes).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::unindexed(Bytes::from(String::from(Box::<str>::from(value)))))
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the text behind a leading byte order mark; `None` if `text` begins with none.
pub fn without_byte_order_mark(text: &Bytes) -> Option<Bytes> {
    text.starts_with(BYTE_ORDER_MARK).then(|| text.slice(BYTE_ORDER_MARK.len()..))
}

#[cfg(test)]
#[path = "raw_tests.rs"]
pub(super) mod tests;
