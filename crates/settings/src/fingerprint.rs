//! Fingerprints, which show whether settings have changed, and hashes that a setting pins.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::node::{Node, Value};

/// Reads the SHA-256 that is written `sha256:` and 64 digits, in either case.
pub fn read_sha256(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(text.strip_prefix("sha256:")?, &mut hash).ok()?;
    Some(hash)
}

/// A hash (SHA-256) of settings by their meaning. Two are equal if the settings have the same values, in any order and
/// position. The settings may contain secrets, so it has no text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of an absent setting.
    pub const ABSENT: Self = Self([0; 32]);

    /// The fingerprint of a document, or a part of one.
    pub fn of(node: &Node) -> Self {
        let mut hash = Sha256::new();
        add(&mut hash, node);
        Self(hash.finalize().into())
    }

    /// The fingerprint of a mapping without some of its keys; that of an absent setting if no other key is left.
    pub fn without(node: &Node, keys: &[&str]) -> Self {
        let Value::Map(entries) = &node.value else { return Self::of(node) };
        let left: Vec<_> =
            entries.iter().filter(|entry| !keys.contains(&entry.key.as_str())).cloned().collect();
        if left.is_empty() {
            return Self::ABSENT;
        }
        Self::of(&Node { mark: node.mark, value: Value::Map(left) })
    }

    /// Combines the fingerprint with `more`.
    #[must_use]
    pub fn and(self, more: &str) -> Self {
        Self(Sha256::new_with_prefix(self.0).chain_update(more).finalize().into())
    }

    /// The bytes, to be hashed together with other data.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl Default for Fingerprint {
    /// Returns a unique fingerprint, for settings that no document has.
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(Sha256::new_with_prefix("unique").chain_update(number.to_le_bytes()).finalize().into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(_)")
    }
}

/// Adds every value with its kind and its length, so that no two documents have the same input.
fn add(hash: &mut Sha256, node: &Node) {
    match &node.value {
        Value::Null => piece(hash, b'n', b""),
        Value::Bool(value) => piece(hash, b'b', &[u8::from(*value)]),
        Value::Integer { value, .. } => piece(hash, b'i', &value.to_le_bytes()),
        Value::Float { value, .. } => piece(hash, b'f', &value.to_le_bytes()),
        Value::Text(text) => piece(hash, b't', text.value().as_bytes()),
        Value::List(items) => {
            piece(hash, b'l', &items.len().to_le_bytes());
            for item in items {
                add(hash, item);
            }
        }
        Value::Map(entries) => {
            piece(hash, b'm', &entries.len().to_le_bytes());
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|one, other| one.key.cmp(&other.key));
            for entry in entries {
                piece(hash, b'k', entry.key.as_bytes());
                add(hash, &entry.node);
            }
        }
        Value::Unusable => piece(hash, b'u', b""),
    }
}

fn piece(hash: &mut Sha256, kind: u8, bytes: &[u8]) {
    hash.update([kind]);
    hash.update(bytes.len().to_le_bytes());
    hash.update(bytes);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(value: Value) -> Fingerprint {
        Fingerprint::of(&Node::from(value))
    }

    #[test]
    fn it_is_the_same_for_the_same_in_another_order() {
        let one = of(json!({"a": [1, "x", null], "b": {"c": true, "d": 0.5}}));
        assert_eq!(one, of(json!({"b": {"d": 0.5, "c": true}, "a": [1, "x", null]})));
        assert_eq!(one.and("more"), one.and("more"));
        assert_eq!(format!("{one:?}"), "Fingerprint(_)");
    }

    #[test]
    fn excluded_member_does_not_change_the_fingerprint() {
        let without = |value: Value| Fingerprint::without(&Node::from(value), &["key", "other"]);
        assert_eq!(without(json!({"a": 1, "key": 2})), of(json!({"a": 1})));
        assert_eq!(without(json!({"key": 2, "other": 3})), Fingerprint::ABSENT);
        assert_ne!(without(json!({"a": {"key": 1}})), without(json!({"a": {}})), "only its own keys");
    }

    #[test]
    fn it_is_another_for_anything_else() {
        let all = [
            json!({}),
            json!({"a": null}),
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": 1.5}),
            json!({"a": true}),
            json!({"a": []}),
            json!({"a": {}}),
            json!({"a": ["x", "y"]}),
            json!({"a": ["y", "x"]}),
            json!({"a": ["xy"]}),
            json!({"a": [["x"], "y"]}),
            json!({"a": [["x", "y"]]}),
            json!({"a": {"b": 1}}),
            json!({"a": {}, "b": 1}),
            json!([]),
        ];
        let mut found: Vec<_> = all.into_iter().map(of).collect();
        found.extend([
            of(json!({})).and(""),
            of(json!({})).and("x"),
            Fingerprint::default(),
            Fingerprint::default(),
        ]);
        let distinct: std::collections::HashSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), found.len());
    }

    #[test]
    fn a_hash_is_read_as_it_is_written_and_in_upper_case() {
        let digits = hex::encode(std::array::from_fn::<u8, 32, _>(|at| u8::try_from(8 * at).expect("small")));
        let hash = read_sha256(&format!("sha256:{digits}")).expect("a hash");
        assert_eq!(hex::encode(hash), digits);
        assert_eq!(read_sha256(&format!("sha256:{}", digits.to_uppercase())), Some(hash));
        let cut = &digits[1..];
        for other in
            [digits.clone(), format!("sha256:{cut}"), format!("sha256:{cut}g"), format!("sha256:{digits}0")]
        {
            assert_eq!(read_sha256(&other), None, "{other}");
        }
    }
}
