//! The key of a cached value: a group that is invalidated together, and a hash of all that changes the value.

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Ends each step of a group's path. No step contains it.
const SEPARATOR: char = ':';

/// Keys that are invalidated together, such as those of one collection of one server for one identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group(String);

impl Group {
    /// The group with this path, from the general to the particular: the kind of values, the server, the owner. A group
    /// contains every group whose path begins with its own. The first step is the area for which hits and misses are
    /// counted, so there must be few of them.
    pub fn new(path: &[&str]) -> Self {
        let mut text = String::new();
        for step in path {
            // Encoded, so that no step contains a separator and reaches into another group.
            text.extend(percent_encoding::utf8_percent_encode(step, percent_encoding::NON_ALPHANUMERIC));
            text.push(SEPARATOR);
        }
        Self(text)
    }

    /// The prefix of the keys of the group.
    pub fn prefix(&self) -> &str {
        &self.0
    }

    /// The first step of the path.
    pub(super) fn area(&self) -> &str {
        area(&self.0)
    }

    /// Whether `key` is in the group.
    pub fn contains(&self, key: &Key) -> bool {
        key.text.starts_with(&self.0)
    }
}

/// The key of one value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: String,
}

impl Key {
    /// The key in `group` of the value that depends on `inputs` and on nothing else.
    pub fn new<T: Serialize + ?Sized>(group: &Group, inputs: &T) -> Self {
        let inputs = serde_json::to_vec(inputs).unwrap_or_default();
        let mut text = group.0.clone();
        text.push_str(&hex::encode(Sha256::digest(&inputs)));
        Self { text }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The prefixes of the groups of the key, from the general to the particular. The first is empty, which is the
    /// group of all keys.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let ends = self.text.match_indices(SEPARATOR).map(|(at, _)| at + 1);
        std::iter::once(0).chain(ends).map(|end| &self.text[..end])
    }

    /// The first step of the path of its group, as in a key.
    pub(super) fn area(&self) -> &str {
        area(&self.text)
    }
}

fn area(path: &str) -> &str {
    path.split_once(SEPARATOR).map_or("", |(area, _)| area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_contains_what_begins_with_its_path_and_nothing_else() {
        let group = Group::new(&["r2r", "a"]);
        let key = |path: &[&str]| Key::new(&Group::new(path), &("q", 1));
        assert!(group.contains(&key(&["r2r", "a", "x"])));
        for other in [["r2r", "ab"], ["r2r", "a:x"], ["r2", "r:a"]] {
            assert!(!group.contains(&key(&other)), "{other:?}");
        }
    }

    #[test]
    fn every_input_counts() {
        let group = Group::new(&["g"]);
        assert_ne!(Key::new(&group, &("q", 1)), Key::new(&group, &("q", 2)));
        assert_eq!(Key::new(&group, &("q", 1)), Key::new(&group, &("q", 1)));
    }

    #[test]
    fn a_key_knows_its_groups() {
        let key = Key::new(&Group::new(&["r2r", "a b", "c"]), &1);
        assert_eq!(key.groups().collect::<Vec<_>>(), ["", "r2r:", "r2r:a%20b:", "r2r:a%20b:c:"]);
        assert_eq!(key.area(), "r2r");
    }
}
