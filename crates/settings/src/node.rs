//! The tree of a configuration document: values and where they stand.
//!
//! Pure data. `Debug` shows the structure and no text, because any text may hold a secret.

use std::fmt;

use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;

/// A place in the document; lines and columns (in characters) begin at 1.
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

/// A value and where it begins.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it begins.
    pub mark: Mark,
    /// What it is.
    pub value: Value,
}

/// What a value is. Numbers keep their spelling, so that a problem can quote it.
#[derive(Clone)]
pub enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer {
        /// As in the document.
        written: String,
        /// The number.
        value: i64,
    },
    /// Any other number.
    Float {
        /// As in the document.
        written: String,
        /// The number, nearest to what is written.
        value: f64,
    },
    /// A text, with its environment references expanded.
    Text(Text),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the document; no key stands twice.
    Map(Vec<Entry>),
    /// Something whose problem is already reported: it is there, and nothing can be read from it.
    Unusable,
}

/// A text as written and as meant. It is wiped when it is dropped, because any text may be a secret.
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
    /// Where the key begins.
    pub key_mark: Mark,
    /// Its value.
    pub node: Node,
}

impl Text {
    /// A text without references.
    pub fn literal(written: impl Into<String>) -> Self {
        Self { written: Zeroizing::new(written.into()), expanded: None }
    }

    /// A text with references, and what they expand to. `shown` may be seen by operators: it has the
    /// defaults that are in effect, and a variable of the environment as its reference.
    pub fn expanded(written: impl Into<String>, value: impl Into<String>, shown: impl Into<String>) -> Self {
        let value = Zeroizing::new(value.into());
        let expanded = Expanded { value, shown: shown.into(), inserted: Vec::new() };
        Self { written: Zeroizing::new(written.into()), expanded: Some(expanded) }
    }

    /// The same, with the values of variables that stand in it now.
    #[must_use]
    pub fn with_inserted(mut self, inserted: Vec<SecretString>) -> Self {
        if let Some(expanded) = &mut self.expanded {
            expanded.inserted = inserted;
        }
        self
    }

    /// The values of variables that stand in it; defaults and the home folder are none.
    pub fn inserted(&self) -> &[SecretString] {
        self.expanded.as_ref().map_or(&[], |expanded| &expanded.inserted)
    }

    /// As in the document.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// What is meant.
    pub fn value(&self) -> &str {
        self.expanded.as_ref().map_or(&self.written, |expanded| &expanded.value)
    }

    /// What may be seen of it: no value of the environment is in it, defaults are.
    pub fn shown(&self) -> &str {
        self.expanded.as_ref().map_or(&self.written, |expanded| &expanded.shown)
    }

    /// Whether it held a reference to the environment.
    pub fn is_reference(&self) -> bool {
        self.expanded.is_some()
    }
}

impl Node {
    /// What must not be shown of the texts in it: the values of variables, and each text that holds
    /// one.
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

/// For settings that are made by a program instead of read from a file; every mark is the start.
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
