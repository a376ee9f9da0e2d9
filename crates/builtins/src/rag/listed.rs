//! Reads the list of techniques that a service sends. It may have any names and any length.
//!
//! Invariants: at most [`MOST`] distinct names are kept while reading. A long name is kept only as far as
//! needed to see that it is too long. Elements that are not strings are counted.

use std::collections::BTreeSet;

use json::Raw;

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
    /// Reads a list, or the list that is the member `techniques` of an object, which leaves a service room
    /// for further members. `None` if there is no list.
    pub(super) fn of(answer: &Raw) -> Option<Self> {
        let list = if answer.is_object() { answer.get("techniques")? } else { answer.clone() };
        if !list.as_str().starts_with('[') {
            return None;
        }
        let mut listed = Self::default();
        for element in list.elements() {
            listed.take(&element);
        }
        Some(listed)
    }

    fn take(&mut self, element: &Raw) {
        match element.read::<String>() {
            Ok(mut name) if self.names.len() < MOST => {
                name.truncate(name.floor_char_boundary(LONGEST + 4));
                self.names.insert(name);
            }
            _ => self.others += 1,
        }
    }
}
