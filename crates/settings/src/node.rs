//! The tree of a configuration document: values and their positions.
//!
//! Pure data. `Debug` shows the structure and no strings, because any string may contain a secret.

use std::fmt;

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

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
    pub fn literal(written: impl Into<String>) -> Self {
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
    pub fn inserted(&self) -> &[SecretString] {
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
