//! Reads the list of techniques that a service sends. It may have any names and any length.
//!
//! Invariants: at most [`MOST`] distinct names are kept while reading. A long name is kept only as far as
//! needed to see that it is too long. Elements that are not strings are counted.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Most names that are read.
const MOST: usize = 10_000;
/// Longest valid name, in bytes.
pub(super) const LONGEST: usize = 60;

/// A list that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TechniqueNames {
    /// Sorted, so that two lists with equal names are equal.
    pub names: BTreeSet<String>,
    /// Number of elements that are not strings, or come after the limit.
    pub others: usize,
}

impl TechniqueNames {
    fn take(&mut self, element: &RawValue) {
        match serde_json::from_str::<String>(element.get()) {
            Ok(mut name) if self.names.len() < MOST => {
                name.truncate(name.floor_char_boundary(LONGEST + 4));
                self.names.insert(name);
            }
            _ => self.others += 1,
        }
    }
}

impl<'de> Deserialize<'de> for TechniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = TechniqueNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<TechniqueNames, A::Error> {
        let mut listed = TechniqueNames::default();
        while let Some(element) = elements.next_element::<Box<RawValue>>()? {
            listed.take(&element);
        }
        Ok(listed)
    }

    /// Reads an object with the list as member `techniques`, which leaves a service room for further members.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<TechniqueNames, A::Error> {
        let mut listed = None;
        while let Some(name) = members.next_key::<String>()? {
            if name == "techniques" && listed.is_none() {
                listed = Some(members.next_value::<Bare>()?.0);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        listed.ok_or_else(|| A::Error::missing_field("techniques"))
    }
}

/// A list that is not wrapped in an object.
struct Bare(TechniqueNames);

impl<'de> Deserialize<'de> for Bare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NamesVisitor).map(Self)
    }
}
