//! JSON as editors write it: with comments, trailing commas, and members in their order.
//!
//! Invariants: an error has its place in the file, and a duplicate key is an error, because a client uses only one of the
//! two values.
//!
//! It does not write JSON.

use std::collections::HashSet;

use jsonc_parser::ast::{ObjectProp, Value as Parsed};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::Error;
use json::Raw;
use settings::{Mark, Node, Value, one_line};

/// Allows comments and trailing commas, and nothing else beyond JSON.
pub(crate) const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_extended_string_escapes: false,
    allow_non_finite_numbers: false,
};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// As a client would write it into a text.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Members),
}

/// The members of an object, in the order of the file.
pub(crate) type Members = Vec<(String, Json)>;

/// Members of a server that were not read yet.
pub(super) type Unread<'j> = Vec<(&'j str, &'j Json)>;

impl Json {
    /// The name of the kind, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Its text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Calls `visit` with every text below it that is no key.
    pub(crate) fn texts<'j>(&'j self, visit: &mut dyn FnMut(&'j str)) {
        match self {
            Self::Text(text) => visit(text),
            Self::List(items) => {
                for item in items {
                    item.texts(visit);
                }
            }
            Self::Object(members) => {
                for (_, value) in members {
                    value.texts(visit);
                }
            }
            _ => {}
        }
    }
}

/// References stay as they are written.
impl From<Node> for Json {
    fn from(node: Node) -> Self {
        match node.value {
            Value::Null | Value::Unusable => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Integer { written, .. } | Value::Float { written, .. } => Self::Number(written),
            Value::Text(text) => Self::Text(text.written().to_owned()),
            Value::List(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Map(entries) => {
                Self::Object(entries.into_iter().map(|entry| (entry.key, entry.node.into())).collect())
            }
        }
    }
}

impl From<&Raw> for Json {
    fn from(value: &Raw) -> Self {
        match value.as_str() {
            "null" => Self::Null,
            "true" => Self::Bool(true),
            "false" => Self::Bool(false),
            text if text.starts_with('[') => {
                Self::List(value.elements().map(|item| (&item).into()).collect())
            }
            text if text.starts_with('{') => Self::Object(
                value.members().map(|(key, value)| (key.into_owned(), (&value).into())).collect(),
            ),
            text => match value.as_part().text() {
                Some(text) => Self::Text(text.into_owned()),
                // Half of a surrogate pair has no text. It stays escaped, and the rest is escaped like any text.
                None => match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                    Some(escaped) => Self::Text(escaped.to_owned()),
                    None => Self::Number(text.to_owned()),
                },
            },
        }
    }
}

/// The member `name` of `members`.
pub(crate) fn member<'j>(members: &'j Members, name: &str) -> Option<&'j Json> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Reads `text`.
pub(crate) fn read(text: &str) -> Result<Json, Error> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &SYNTAX).map_err(|error| {
        let mark = Mark { line: count(error.line_display()), column: count(error.column_display()) };
        let mut reason = error.kind().to_string();
        if let Some(first) = reason.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        invalid(mark, &reason)
    })?;
    let root = parsed.value.ok_or_else(|| invalid(Mark::START, "it is empty"))?;
    value(text, root)
}

/// Converts one value of `text`, and all that it contains.
fn value(text: &str, parsed: Parsed<'_>) -> Result<Json, Error> {
    Ok(match parsed {
        Parsed::NullKeyword(_) => Json::Null,
        Parsed::BooleanLit(literal) => Json::Bool(literal.value),
        Parsed::NumberLit(literal) => match number(literal.value) {
            Some(number) => Json::Number(number),
            None => return Err(invalid(mark(text, literal.range.start), "the number is out of range")),
        },
        Parsed::StringLit(literal) => Json::Text(literal.value.into_owned()),
        Parsed::Array(array) => {
            let items = array.elements.into_iter().map(|item| value(text, item));
            Json::List(items.collect::<Result<_, _>>()?)
        }
        Parsed::Object(object) => members(text, object.properties)?,
    })
}

fn members(text: &str, properties: Vec<ObjectProp<'_>>) -> Result<Json, Error> {
    let (mut members, mut seen) = (Members::new(), HashSet::new());
    for property in properties {
        let start = property.name.start();
        let key = property.name.into_string();
        if !seen.insert(key.clone()) {
            let duplicate = format!("the key `{}` is there twice", one_line(&key));
            return Err(invalid(mark(text, start), &duplicate));
        }
        members.push((key, value(text, property.value)?));
    }
    Ok(Json::Object(members))
}

/// Prints a number as JavaScript does. None if it is out of range.
fn number(literal: &str) -> Option<String> {
    if literal.parse::<i64>().is_ok() || literal.parse::<u64>().is_ok() {
        return Some(literal.to_owned());
    }
    literal.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number.to_string())
}

fn invalid(mark: Mark, reason: &str) -> Error {
    Error { mark, message: format!("this is not valid JSON: {reason}"), hint: None }
}

/// The place of the byte `at`.
fn mark(text: &str, at: usize) -> Mark {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    Mark { line: count(before.matches('\n').count() + 1), column: count(line.chars().count() + 1) }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_allowed_and_strings_are_unchanged() {
        for (text, expected) in [
            ("[1, 2,]", "[1,2]"),
            ("{\"a\": 1, // é\n}", "{\"a\":1}"),
            ("/* a\n * b */ {}", "{}"),
            ("[\"// no, ]\", \"/* \\\" */\",\n]", "[\"// no, ]\",\"/* \\\" */\"]"),
            ("[\"http://a\" /* , */ , ]", "[\"http://a\"]"),
        ] {
            let found = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(found, read(expected).expect("plain JSON"), "{text}");
        }
    }

    #[test]
    fn numbers_are_printed_as_a_client_prints_them() {
        for (literal, expected) in [
            ("1", "1"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("-0.5", "-0.5"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(read(literal), Ok(Json::Number(expected.to_owned())));
        }
        assert!(read("1e999").is_err());
    }

    #[test]
    fn invalid_json_is_an_error_with_its_place() {
        for (text, expected) in [
            ("{\n\"é\": nux}", "2:6: error: this is not valid JSON: unexpected token"),
            ("{\"a\": 1\n \"b\": 2}", "1:8: error: this is not valid JSON: expected comma"),
            (
                "{\"a\": {\"b\": 1, \"b\": 2}}",
                "1:16: error: this is not valid JSON: the key `b` is there twice",
            ),
            ("[,]", "1:2: error: this is not valid JSON: unexpected comma"),
            ("{\"a\": 1,,}", "1:9: error: this is not valid JSON: unexpected token in object"),
            ("{'a': 1}", "1:2: error: this is not valid JSON: single-quoted strings are not allowed"),
            ("{a: 1}", "1:2: error: this is not valid JSON: expected string for object property"),
            ("", "1:1: error: this is not valid JSON: it is empty"),
            ("/*", "1:1: error: this is not valid JSON: unterminated comment block"),
            ("\"\\", "1:1: error: this is not valid JSON: unterminated string literal"),
            ("{} x", "1:4: error: this is not valid JSON: text cannot contain more than one JSON value"),
        ] {
            assert_eq!(read(text).expect_err(text).to_string(), expected, "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(read(&deep).expect_err("too deep").message.contains("nesting depth"));
    }
}
