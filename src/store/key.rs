//! Under which key an answer is kept: a group that is dropped together, and all that changes the answer.

use std::fmt::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Keys that are dropped together, such as those of one collection of one server for one identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group(String);

impl Group {
    /// The group that `path` leads to, from the general to the particular: the kind of answers, the
    /// server, whose they are. A group contains every group whose path begins with its own.
    pub fn new(path: &[&str]) -> Self {
        let mut text = String::new();
        for step in path {
            // A step holds no separator, so none reaches into another's group.
            text.extend(percent_encoding::utf8_percent_encode(step, percent_encoding::NON_ALPHANUMERIC));
            text.push(':');
        }
        Self(text)
    }

    /// What the keys of the group begin with.
    pub fn prefix(&self) -> &str {
        &self.0
    }
}

/// The key of one answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The key in `group` of the answer that depends on `inputs` and on nothing else.
    pub fn new<T: Serialize + ?Sized>(group: &Group, inputs: &T) -> Self {
        let inputs = serde_json::to_vec(inputs).unwrap_or_default();
        let mut key = group.0.clone();
        for byte in Sha256::digest(&inputs) {
            let _ = write!(key, "{byte:02x}"); // into a String: never fails
        }
        Self(key)
    }

    /// It as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_contains_what_begins_with_its_path_and_nothing_else() {
        let group = Group::new(&["r2r", "a"]);
        let key = |path: &[&str]| Key::new(&Group::new(path), &("q", 1));
        assert!(key(&["r2r", "a", "x"]).as_str().starts_with(group.prefix()));
        for other in [["r2r", "ab"], ["r2r", "a:x"], ["r2", "r:a"]] {
            assert!(!key(&other).as_str().starts_with(group.prefix()), "{other:?}");
        }
    }

    #[test]
    fn every_input_counts() {
        let group = Group::new(&["g"]);
        assert_ne!(Key::new(&group, &("q", 1)), Key::new(&group, &("q", 2)));
        assert_eq!(Key::new(&group, &("q", 1)), Key::new(&group, &("q", 1)));
    }
}
