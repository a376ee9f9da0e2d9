//! The tree of a configuration document: values and their positions. Fingerprints show whether settings have changed.
//!
//! Pure data. `Debug` shows the structure and no strings, because any string may contain a secret.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use sha2::{Digest, Sha256};

/// A position in the document. Lines and columns (in characters) begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Mark {
    /// The beginning of the document.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its position.
#[derive(Debug, Clone)]
pub struct Node {
    /// The position of its first character.
    pub mark: Mark,
    /// The value.
    pub value: Value,
}

/// The value of a node. Numbers keep their spelling, so that a problem can quote it.
#[derive(Clone)]
pub enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer {
        /// The text in the document.
        written: String,
        /// The number.
        value: i64,
    },
    /// Any other number.
    Float {
        /// The text in the document.
        written: String,
        /// The nearest floating-point number.
        value: f64,
    },
    /// A string, with its environment references expanded.
    Text(Text),
    /// A sequence.
    List(Vec<Node>),
    /// A sequence.
    Map(Vec<Entry>),
    /// A value whose problem was reported. It is present but cannot be read.
    Unusable,
}

/// A string as written and as expanded. It is wiped when it is dropped, because any string may be a secret.
#[derive(Clone)]
pub struct Text {
    written: Zeroizing<String>,
    expanded: Option<Expanded>,
}

#[derive(Clone)]
struct Expanded {
    value: Zeroizing<String>,
    shown: String,
    inserted: Vec<SecretString>,
}

/// One key of a mapping and its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub key_mark: Mark,
    /// The value.
    pub node: Node,
}

impl Text {
    /// A string without references.
    pub(crate) fn literal(written: impl Into<String>) -> Self {
        Self { written: Zeroizing::new(written.into()), expanded: None }
    }

    /// A string with references, and its expansion. `shown` is for operators: defaults in effect are expanded, and a
    /// variable of the environment stays as its reference.
    pub fn expanded(written: impl Into<String>, value: impl Into<String>, shown: impl Into<String>) -> Self {
        let value = Zeroizing::new(value.into());
        let expanded = Expanded { value, shown: shown.into(), inserted: Vec::new() };
        Self { written: Zeroizing::new(written.into()), expanded: Some(expanded) }
    }

    /// Returns the string with the values of the variables in it.
    #[must_use]
    pub fn with_inserted(mut self, inserted: Vec<SecretString>) -> Self {
        if let Some(expanded) = &mut self.expanded {
            expanded.inserted = inserted;
        }
        self
    }

    /// The values of the variables in it. Defaults and the home folder do not count.
    pub(crate) fn inserted(&self) -> &[SecretString] {
        self.expanded.as_ref().map_or(&[], |expanded| &expanded.inserted)
    }

    /// The text in the document.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The expanded text.
    pub fn value(&self) -> &str {
        self.expanded.as_ref().map_or(&self.written, |expanded| &expanded.value)
    }

    /// The text for operators: defaults are expanded, variables of the environment are not.
    pub fn shown(&self) -> &str {
        self.expanded.as_ref().map_or(&self.written, |expanded| &expanded.shown)
    }

    /// Whether it contained a reference to the environment.
    pub(crate) fn is_reference(&self) -> bool {
        self.expanded.is_some()
    }
}

impl Node {
    /// The values in it that must not be shown: the values of variables, and each string that contains one.
    pub fn secrets(&self) -> Vec<SecretString> {
        match &self.value {
            Value::Text(text) if !text.inserted().is_empty() => {
                text.inserted().iter().cloned().chain([text.value().into()]).collect()
            }
            Value::List(items) => items.iter().flat_map(Self::secrets).collect(),
            Value::Map(entries) => entries.iter().flat_map(|entry| entry.node.secrets()).collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(_)")
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Integer { .. } => f.write_str("Integer(_)"),
            Self::Float { .. } => f.write_str("Float(_)"),
            Self::Text(text) => text.fmt(f),
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Map(entries) => f.debug_list().entries(entries).finish(),
            Self::Unusable => f.write_str("Unusable"),
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        Self { mark: Mark::START, value }
    }
}

/// Converts settings that a program makes. Every mark is the start of the document.
impl From<serde_json::Value> for Node {
    fn from(json: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::String(text) => Value::Text(Text::literal(text)),
            Json::Array(items) => Value::List(items.into_iter().map(Self::from).collect()),
            Json::Object(members) => Value::Map(members.into_iter().map(entry).collect()),
            Json::Number(number) => {
                let written = number.to_string();
                match number.as_i64() {
                    Some(value) => Value::Integer { written, value },
                    None => Value::Float { written, value: number.as_f64().unwrap_or(f64::NAN) },
                }
            }
        }
        .into()
    }
}

fn entry((key, value): (String, serde_json::Value)) -> Entry {
    Entry { key, key_mark: Mark::START, node: Node::from(value) }
}

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
    pub(crate) fn of(node: &Node) -> Self {
        let mut hash = Sha256::new();
        add(&mut hash, node);
        Self(hash.finalize().into())
    }

    /// The fingerprint of a mapping without some of its keys; that of an absent setting if no other key is left.
    pub(crate) fn without(node: &Node, keys: &[&str]) -> Self {
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
