//! The record of what the readers of a document expect.
//!
//! Not here: how it is made ([`crate::Problems::recording`]).

/// The values that the readers of a document expect. The JSON Schema and the tables of pages are made of them. A path is
/// the names of settings with dots between them; `*` is any key, and `[]` any element.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The expected values, in the order of the reads.
    pub expected: Vec<(String, Expected)>,
    /// The declared settings, in the order of their declarations.
    pub described: Vec<Description>,
}

/// A declared setting.
#[derive(Debug, Clone)]
pub struct Description {
    /// Its path.
    pub path: String,
    /// Its meaning, as the lines of a doc comment.
    pub text: &'static str,
    /// Its default, for a page.
    pub default: String,
}

/// The value that a reader expects.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Any string.
    Text,
    /// The path of a file or folder.
    Path,
    /// A URL.
    Url,
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
    /// Any value of JSON.
    Any,
}
