//! The list of techniques as it arrives: names of somebody else, as many as they like.
//!
//! Invariants: at most [`MOST`] names are kept while it is read, each once, and of each only
//! so much that it can be told to be too long; what is no text is counted.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Names that are looked at.
const MOST: usize = 10_000;
/// The longest name that can be one, in bytes.
pub(super) const LONGEST: usize = 60;

/// A list, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// In the order of the alphabet, so that one that comes in any order is the same list.
    pub names: BTreeSet<String>,
    /// Elements that are no texts, and those beyond what is looked at.
    pub others: usize,
}

impl Listed {
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

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Listed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Listed, A::Error> {
        let mut listed = Listed::default();
        while let Some(element) = elements.next_element::<Box<RawValue>>()? {
            listed.take(&element);
        }
        Ok(listed)
    }

    /// The same list under the name `techniques`, as services wrap one whose makers want room for more.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Listed, A::Error> {
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

/// A list that stands by itself.
struct Bare(Listed);

impl<'de> Deserialize<'de> for Bare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Reader).map(Self)
    }
}
