//! Records of the reads of a document, from which a JSON Schema is made.
//!
//! A [`Problems`](crate::Problems) that records keeps one [`Record`] for each typed read. Reading a document that uses a
//! setting therefore tells the type that its reader expects, and each mapping tells all keys that its reader knows.
//!
//! Not here: the schema (`docs_tests::schema` of the program).

/// One read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The setting, such as `mcp_servers.files.timeout`.
    pub path: String,
    /// The expected value.
    pub expected: Expected,
}

/// The value that a reader expects.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Any string.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number, as the text of its least and its greatest value.
    Integer(String, String),
    /// A time in seconds, at least and at most.
    Seconds(f64, f64),
    /// One of these strings.
    Words(Vec<String>),
    /// A whole number or a string.
    NumberOrText,
    /// A list.
    List,
    /// A list, or one element of it.
    OneOrMore,
    /// A mapping with any keys.
    Mapping,
    /// A mapping with these keys.
    Fields(Vec<&'static str>),
    /// Nothing: an empty value counts as absent.
    Nothing,
}
