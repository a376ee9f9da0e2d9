//! Changes to a [`Raw`]: members set and removed, parts replaced. Every other byte stays as it is.

use bytes::Bytes;

use super::Raw;
use crate::part::{MOST, MemberIndex, Part, Place, key_is};
use crate::tokens::plain;

/// The number of changes that are tracked without an allocation.
const FEW: usize = 8;

impl Raw {
    /// The object with these members, whose names are different and plain ASCII.
    pub fn object(members: &[(&str, &Self)]) -> Self {
        let length = members.iter().map(|(name, value)| name.len() + value.bytes.len() + 4).sum::<usize>();
        let (mut out, mut places) = (Vec::with_capacity(length + 2), Vec::with_capacity(members.len()));
        out.push(b'{');
        for (name, value) in members {
            if out.len() > 1 {
                out.push(b',');
            }
            write_string(&mut out, name);
            let (end, start) = (out.len() - 1, out.len() + 1);
            out.push(b':');
            out.extend_from_slice(&value.bytes);
            places.extend(Place::new(&(end - name.len()..end), &(start..out.len())));
        }
        out.push(b'}');
        let is_whole = places.len() == members.len() && (1..=MOST).contains(&places.len());
        let places = if is_whole { MemberIndex::of(0, &places, None) } else { MemberIndex::UNKNOWN };
        Self::indexed(Bytes::from(out), places)
    }

    /// This object with the member `name` set to `value`: replaced in its position, or appended. Every other byte stays
    /// as it is. Anything but an object is returned unchanged.
    pub fn with(&self, name: &str, value: &Self) -> Self {
        let place = self.places.view().and_then(|view| view.find(&self.bytes, name));
        let Some(place) = place else { return self.edit(&[(name, Some(value))]) };
        let range = place.value();
        let mut out = Vec::with_capacity(self.bytes.len() - range.len() + value.bytes.len());
        out.extend_from_slice(&self.bytes[..range.start]);
        out.extend_from_slice(&value.bytes);
        out.extend_from_slice(&self.bytes[range.end..]);
        Self { bytes: Bytes::from(out), places: self.places.replaced(place, value.bytes.len()) }
    }

    /// This object without the member `name`; every other member keeps its bytes.
    pub fn without(&self, name: &str) -> Self {
        self.edit(&[(name, None)])
    }

    /// This object split around the value of the member `name`, or around the position for a new member, if the members
    /// are known.
    pub fn around(&self, name: &str) -> Option<(&[u8], Option<Part<'_>>, &[u8])> {
        let view = self.places.view()?;
        let place = view.find(&self.bytes, name);
        let value = match place {
            Some(place) => place.value(),
            None => view.own().last().map(|last| last.value().end..last.value().end)?,
        };
        let part = place.map(|place| Part::new(&self.bytes[place.value()], view.inside(place)));
        Some((&self.bytes[..value.start], part, &self.bytes[value.end..]))
    }

    /// Returns this value with parts of it replaced. Each part is a slice of this value that [`Raw::get`] or
    /// [`Raw::elements`] found, at any depth, and no part is inside another. A part that is not a slice of this value
    /// is ignored. Every other byte stays as it is.
    pub fn replacing(&self, changes: &[(Self, Self)]) -> Self {
        let base = self.bytes.as_ptr() as usize;
        let place = |part: &Self| {
            let start = (part.bytes.as_ptr() as usize).checked_sub(base)?;
            let end = start.checked_add(part.bytes.len()).filter(|end| *end <= self.bytes.len())?;
            Some((start, end))
        };
        let mut places: Vec<((usize, usize), &Self)> =
            changes.iter().filter_map(|(part, new)| Some((place(part)?, new))).collect();
        if places.is_empty() {
            return self.clone();
        }
        places.sort_by_key(|(place, _)| *place);
        let (mut out, mut copied) = (Vec::with_capacity(self.bytes.len() + 64), 0);
        for ((start, end), new) in places {
            if start < copied {
                continue;
            }
            out.extend_from_slice(&self.bytes[copied..start]);
            out.extend_from_slice(&new.bytes);
            copied = end;
        }
        out.extend_from_slice(&self.bytes[copied..]);
        Self::unindexed(Bytes::from(out))
    }

    /// Several changes in one pass: `Some` sets a member, `None` removes it.
    ///
    /// A member that is set keeps its place; one that was absent is appended, in the order given.
    /// Anything but an object is returned unchanged.
    pub fn edit(&self, changes: &[(&str, Option<&Self>)]) -> Self {
        let changes_it = |(name, value): &(&str, Option<&Self>)| value.is_some() || self.part(name).is_some();
        if !self.is_object() || self.is_indexed() && !changes.iter().any(changes_it) {
            return self.clone();
        }
        let new = |(name, value): &(&str, Option<&Self>)| {
            value.map_or(0, |value| name.len() + value.bytes.len() + 4)
        };
        let mut out = Vec::with_capacity(self.bytes.len() + changes.iter().map(new).sum::<usize>());
        write_edited(&mut out, self.as_part(), changes);
        Self::unindexed(Bytes::from(out))
    }
}

/// Writes `object` with `changes`, as [`Raw::edit`] makes them.
pub fn write_edited<V: AsRef<[u8]>>(out: &mut Vec<u8>, object: Part<'_>, changes: &[(&str, Option<V>)]) {
    let text = object.bytes();
    let (mut few, mut many) = ([false; FEW], Vec::new());
    let done = few.get_mut(..changes.len()).unwrap_or_else(|| {
        many.resize(changes.len(), false);
        &mut many
    });
    let mut edit = Edit::new(out);
    let mut copied = 1; // behind the opening brace
    for member in object.places() {
        let key = &text[member.key.clone()];
        let Some(index) = changes.iter().position(|(name, _)| key_is(key, name)) else {
            edit.keep(&text[copied..member.value.end]);
            copied = member.value.end;
            continue;
        };
        match &changes[index].1 {
            // Only the first of two members with one name is kept, because only the first was read.
            Some(value) if !done[index] => {
                edit.keep(&text[copied..member.value.start]);
                edit.out.extend_from_slice(value.as_ref());
            }
            _ => {}
        }
        done[index] = true;
        copied = member.value.end;
    }
    let appended = changes.iter().zip(done.iter()).filter(|(_, done)| !**done);
    for ((name, value), _) in appended {
        if let Some(value) = value {
            edit.append(name, value.as_ref());
        }
    }
    edit.finish(&text[copied..]);
}

/// The output of [`write_edited`]: writes correct commas when members are added or removed.
struct Edit<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Edit<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.extend_from_slice(b"{");
        Self { out, empty: true }
    }

    /// Copies a member and the text before it. A leading comma is dropped if no member precedes it.
    fn keep(&mut self, chunk: &[u8]) {
        let first = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let start = if self.empty && chunk.get(first) == Some(&b',') { first + 1 } else { 0 };
        self.out.extend_from_slice(&chunk[start..]);
        self.empty = false;
    }

    fn append(&mut self, name: &str, value: &[u8]) {
        if !self.empty {
            self.out.extend_from_slice(b",");
        }
        write_string(self.out, name);
        self.out.extend_from_slice(b":");
        self.out.extend_from_slice(value);
        self.empty = false;
    }

    fn finish(self, tail: &[u8]) {
        // The rest is white space and the closing brace. A comma can only occur here if the next member was
        // removed.
        let tail_start = tail.iter().position(|&b| b != b',').unwrap_or(0);
        self.out.extend_from_slice(&tail[tail_start..]);
    }
}

/// Writes `text` as a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    if plain(text.as_bytes(), 0) == text.len() {
        out.extend_from_slice(b"\"");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\"");
    } else {
        out.extend_from_slice(Raw::of(text).bytes());
    }
}
