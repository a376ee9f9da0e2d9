//! JSON in the form that editors accept: with comments and trailing commas; members keep their order.
//!
//! Comments and trailing commas are replaced by blanks and `serde_json` parses the rest, so positions in
//! errors are those of the file. A repeated key is an error, because clients would use only one of the
//! two.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::Error;
use settings::{Mark, Node, Value, one_line};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As a client would write it into a string.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Members),
}

/// The members of an object, in the order of the file.
pub(super) type Members = Vec<(String, Json)>;

impl Json {
    /// Its type, for error texts.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    /// Its string, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Calls `visit` with every string in it, except keys.
    pub(super) fn texts<'j>(&'j self, visit: &mut dyn FnMut(&'j str)) {
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

/// References stay unchanged.
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

/// The member `name` of `members`.
pub(super) fn member<'j>(members: &'j Members, name: &str) -> Option<&'j Json> {
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Whether `text` is meant to be JSON: it is empty, or begins with an object, a list or a comment.
pub(super) fn begins(text: &str) -> bool {
    text.trim_start().chars().next().is_none_or(|first| "{[/".contains(first))
}

/// Parses `text`.
pub(super) fn read(text: &str) -> Result<Json, Error> {
    serde_json::from_slice(&plain(text)).map_err(|error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let message = message.strip_suffix(&place).unwrap_or(&message);
        let hint = None;
        Error { mark: mark(text, &error), message: format!("this is not valid JSON: {message}"), hint }
    })
}

/// Converts the position of `error` from bytes to characters.
fn mark(text: &str, error: &serde_json::Error) -> Mark {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or("");
    let before = line.char_indices().filter(|(at, _)| *at < error.column()).count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
    Mark { line: count(error.line()), column: count(before) }
}

/// Replaces everything that JSON does not allow by blanks; all other bytes keep their positions.
fn plain(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut last, mut comma) = (0, b'[', None);
    while let Some(&byte) = bytes.get(at) {
        let length = match byte {
            b'"' => string(&bytes[at..]),
            b'/' => comment(&bytes[at..]),
            _ => 1,
        };
        if byte == b'/' && length > 1 {
            bytes[at..at + length].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        } else if !byte.is_ascii_whitespace() {
            if let (b']' | b'}', Some(comma)) = (byte, comma) {
                bytes[comma] = b' ';
            }
            comma = (byte == b',' && !b"[{,:".contains(&last)).then_some(at);
            last = byte;
        }
        at += length;
    }
    bytes
}

/// The length in bytes of the string at the start of `bytes`; all of `bytes` if it is not closed.
fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length in bytes of the comment at the start of `bytes`; 1 if there is none.
fn comment(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(b'/') => bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len()),
        Some(b'*') => {
            let end = bytes[2..].windows(2).position(|pair| pair == b"*/");
            end.map_or(bytes.len(), |end| end + 4)
        }
        _ => 1,
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let (mut members, mut seen) = (Members::new(), HashSet::new());
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key `{}` stands twice", one_line(&key))));
            }
            members.push((key, map.next_value()?));
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_are_no_error_and_texts_are_left_alone() {
        for (text, wanted) in [
            ("[1, 2,]", "[1, 2 ]"),
            ("{\"a\": 1, // é\n}", "{\"a\": 1          \n}"),
            ("/* a\n * b */ {}", "    \n      {}"),
            ("[\"// no, ]\", \"/* \\\" */\",\n]", "[\"// no, ]\", \"/* \\\" */\" \n]"),
            ("[\"http://a\" /* , */ , ]", "[\"http://a\"             ]"),
        ] {
            let blanked = String::from_utf8(plain(text)).expect("UTF-8");
            assert_eq!(blanked.replace(' ', ""), wanted.replace(' ', ""), "{text}");
            assert_eq!(blanked.len(), text.len());
            read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }

    #[test]
    fn what_is_broken_is_an_error_with_its_place() {
        for (text, wanted) in [
            ("{\n\"é\": nux}", "2:8: error: this is not valid JSON: expected ident"),
            ("{\"a\": 1\n \"b\": 2}", "2:2: error: this is not valid JSON: expected `,` or `}`"),
            (
                "{\"a\": {\"b\": 1, \"b\": 2}}",
                "1:18: error: this is not valid JSON: the key `b` stands twice",
            ),
            ("[,]", "1:2: error: this is not valid JSON: expected value"),
            ("{\"a\": 1,,}", "1:9: error: this is not valid JSON: key must be a string"),
            ("", "1:1: error: this is not valid JSON: EOF while parsing a value"),
            ("/*", "1:2: error: this is not valid JSON: EOF while parsing a value"),
            ("\"\\", "1:2: error: this is not valid JSON: EOF while parsing a string"),
            ("{} x", "1:4: error: this is not valid JSON: trailing characters"),
        ] {
            assert_eq!(read(text).expect_err(text).to_string(), wanted, "{text}");
        }
        let deep = "[".repeat(1000);
        assert!(read(&deep).expect_err("too deep").message.contains("recursion limit exceeded"));
    }
}
