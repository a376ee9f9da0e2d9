//! [`Raw`]: one JSON value kept as the bytes it arrived in.
//!
//! Parameters and results travel through the gateway as `Raw`, so unknown members, the order of
//! keys, the spelling of numbers (`1e400`, 2^70, `1.0`) and explicit `null`s arrive as they were
//! sent. Invariant: the bytes are exactly one JSON value, valid UTF-8, no white space around it.
//!
//! Not here: anything that prints a parsed value again. Parse-and-print is what loses data.

use std::borrow::Cow;
use std::fmt;

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::scan;

/// One JSON value as a cheap, reference-counted slice of the bytes it was received in.
///
/// Cloning copies a pointer. Equality is byte equality, so `1.0` and `1` differ.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Raw(Bytes);

impl Raw {
    /// Checks that `bytes` hold exactly one JSON value (RFC 8259) and keeps it, less the white
    /// space around it.
    pub fn parse(bytes: &Bytes) -> Result<Self, serde_json::Error> {
        let value: &RawValue = serde_json::from_slice(bytes)?;
        Ok(Self(bytes.slice_ref(value.get().as_bytes())))
    }

    /// The JSON text of `value`.
    ///
    /// # Panics
    /// When the `Serialize` implementation of `value` fails, which none of ours can: it is a
    /// programming error (a map with keys that are not strings), not an input.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(Bytes::from(serde_json::to_vec(value).expect("own types print as JSON")))
    }

    /// `{}`.
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// The bytes, exactly as received.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        // `parse` and `of` only ever keep what serde_json accepted, and that is UTF-8.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// Whether this is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether this is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }

    /// The deepest nesting of arrays and objects: 0 for a scalar, 1 for `{}`.
    pub fn depth(&self) -> usize {
        scan::depth(&self.0)
    }

    /// A typed view that borrows from these bytes.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value of the first member called `name`, if this is an object that has one.
    pub fn get(&self, name: &str) -> Option<Self> {
        scan::members(&self.0)
            .find(|member| key_is(&self.0[member.key.clone()], name))
            .map(|member| Self(self.0.slice(member.value)))
    }

    /// The member called `name`, read as an owned `T`; `None` when it is absent or of another type.
    pub fn get_as<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.get(name).and_then(|value| serde_json::from_slice(&value.0).ok())
    }

    /// The members in the order they stand, keys decoded.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'_, str>, Self)> {
        scan::members(&self.0)
            .map(|member| (decode_key(&self.0[member.key]), Self(self.0.slice(member.value))))
    }

    /// The elements in the order they stand; none when this is not an array.
    pub fn elements(&self) -> impl Iterator<Item = Self> {
        scan::elements(&self.0).map(|range| Self(self.0.slice(range)))
    }

    /// The first key that stands twice in this object, decoded (so `"a"` and `"\u0061"` are one).
    pub fn duplicate_key(&self) -> Option<String> {
        let mut seen = std::collections::HashSet::new();
        scan::members(&self.0)
            .map(|member| decode_key(&self.0[member.key]))
            .find(|key| !seen.insert(key.clone()))
            .map(Cow::into_owned)
    }

    /// This object with the member `name` set to `value`: replaced where it stands, or appended.
    /// Every other byte stays as it is. Anything but an object is returned unchanged.
    pub fn with(&self, name: &str, value: &Self) -> Self {
        self.edit(&[(name, Some(value))])
    }

    /// This object without the member `name`; every other member keeps its bytes.
    pub fn without(&self, name: &str) -> Self {
        self.edit(&[(name, None)])
    }

    /// This value with parts of it replaced. Each part is a slice of this value that [`Raw::get`] or
    /// [`Raw::elements`] found, at any depth, and none is inside another; what is no slice of this
    /// value is left alone. Every other byte stays as it is.
    pub fn replacing(&self, changes: &[(Self, Self)]) -> Self {
        let base = self.0.as_ptr() as usize;
        let place = |part: &Self| {
            let start = (part.0.as_ptr() as usize).checked_sub(base)?;
            let end = start.checked_add(part.0.len()).filter(|end| *end <= self.0.len())?;
            Some((start, end))
        };
        let mut places: Vec<((usize, usize), &Self)> =
            changes.iter().filter_map(|(part, new)| Some((place(part)?, new))).collect();
        if places.is_empty() {
            return self.clone();
        }
        places.sort_by_key(|(place, _)| *place);
        let (mut out, mut copied) = (BytesMut::with_capacity(self.0.len() + 64), 0);
        for ((start, end), new) in places {
            if start < copied {
                continue;
            }
            out.extend_from_slice(&self.0[copied..start]);
            out.extend_from_slice(&new.0);
            copied = end;
        }
        out.extend_from_slice(&self.0[copied..]);
        Self(out.freeze())
    }

    /// Several changes in one pass: `Some` sets a member, `None` removes it.
    ///
    /// A member that is set keeps its place; one that was absent is appended, in the order given.
    /// Anything but an object is returned unchanged.
    pub fn edit(&self, changes: &[(&str, Option<&Self>)]) -> Self {
        if !self.is_object() {
            return self.clone();
        }
        let mut edit = Edit::new(self.0.len() + 64);
        let mut done = vec![false; changes.len()];
        let mut copied = 1; // behind the opening brace
        for member in scan::members(&self.0) {
            let key = &self.0[member.key.clone()];
            let Some(index) = changes.iter().position(|(name, _)| key_is(key, name)) else {
                edit.keep(&self.0[copied..member.value.end]);
                copied = member.value.end;
                continue;
            };
            match changes[index].1 {
                // Of two members with one name only the first survives: what was read is what is sent.
                Some(value) if !done[index] => {
                    edit.keep(&self.0[copied..member.value.start]);
                    edit.out.extend_from_slice(&value.0);
                }
                _ => {}
            }
            done[index] = true;
            copied = member.value.end;
        }
        let appended = changes.iter().zip(&done).filter(|(_, done)| !**done);
        for ((name, value), _) in appended {
            if let Some(value) = value {
                edit.append(name, value);
            }
        }
        edit.finish(&self.0[copied..])
    }
}

/// The output of [`Raw::edit`]: keeps the commas right while members come and go.
struct Edit {
    out: BytesMut,
    empty: bool,
}

impl Edit {
    fn new(capacity: usize) -> Self {
        let mut out = BytesMut::with_capacity(capacity);
        out.extend_from_slice(b"{");
        Self { out, empty: true }
    }

    /// Copies a member together with what stands before it, less a comma that lost its left side.
    fn keep(&mut self, chunk: &[u8]) {
        let first = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let start = if self.empty && chunk.get(first) == Some(&b',') { first + 1 } else { 0 };
        self.out.extend_from_slice(&chunk[start..]);
        self.empty = false;
    }

    fn append(&mut self, name: &str, value: &Raw) {
        if !self.empty {
            self.out.extend_from_slice(b",");
        }
        self.out.extend_from_slice(Raw::of(name).bytes());
        self.out.extend_from_slice(b":");
        self.out.extend_from_slice(&value.0);
        self.empty = false;
    }

    fn finish(mut self, tail: &[u8]) -> Raw {
        // What is left is white space and the closing brace; a comma can only stand there when the
        // member behind it was removed.
        let tail_start = tail.iter().position(|&b| b != b',').unwrap_or(0);
        self.out.extend_from_slice(&tail[tail_start..]);
        Raw(self.out.freeze())
    }
}

fn key_is(token: &[u8], name: &str) -> bool {
    let inner = &token[1..token.len().saturating_sub(1).max(1)];
    if inner.contains(&b'\\') { decode_key(token) == name } else { inner == name.as_bytes() }
}

fn decode_key(token: &[u8]) -> Cow<'_, str> {
    let inner = &token[1..token.len().saturating_sub(1).max(1)];
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner);
    }
    // A lone surrogate escape is legal JSON text but no string; it compares as its own spelling.
    serde_json::from_slice::<String>(token).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Owned)
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Payloads do not belong in logs; the length is enough to tell two apart.
        write!(f, "Raw({} bytes)", self.0.len())
    }
}

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(String::from(Box::<str>::from(value)))))
    }
}

#[cfg(test)]
#[path = "raw_tests.rs"]
mod tests;
