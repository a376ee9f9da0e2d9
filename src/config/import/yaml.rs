//! Writes values as YAML that every reader takes for the same value: parts of a configuration file, and answers for people.
//!
//! Invariants: unambiguous strings are plain. All others are in double quotes with unusual characters escaped, so
//! no string changes the structure of the document or controls a terminal.
//!
//! Not here: reading YAML (`settings`), and edits of a file that keep its form (`connect::document`).

use std::fmt::Write as _;

use super::json::{Json, Members};
use json::Raw;
use protocol::visible::{is_visible, visible};

/// Words that a reader of YAML 1.1 or 1.2 does not take for a string.
const WORDS: [&str; 13] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "none", "nan", "inf", "infinity"];

/// Writes a value on its own line.
pub(crate) fn scalar(text: &str) -> String {
    if is_plain(text, "_-./@:") && !text.ends_with(':') { text.to_owned() } else { quoted(text) }
}

/// Writes a key.
pub(crate) fn key(text: &str) -> String {
    if is_plain(text, "_-.") { text.to_owned() } else { quoted(text) }
}

/// Writes a list on one line.
pub(crate) fn list(texts: &[String]) -> String {
    let items: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", items.join(", "))
}

/// Writes a value of a server or of the gateway as a document.
pub(crate) fn document(value: &Raw) -> String {
    lines_of(&value.into())
}

/// Writes the lines of a mapping.
pub(crate) fn block(members: Members) -> String {
    lines_of(&Json::Object(members))
}

fn lines_of(value: &Json) -> String {
    let mut lines = String::new();
    add_block(value, 0, &mut lines);
    lines
}

/// Whether a value has lines of its own. A list without mappings stands on one line.
fn is_block(value: &Json) -> bool {
    match value {
        Json::Object(members) => !members.is_empty(),
        Json::List(items) => items.iter().any(is_block),
        _ => false,
    }
}

/// Adds a value whose first line is indented already.
fn add_block(value: &Json, depth: usize, lines: &mut String) {
    let indent = |depth| "  ".repeat(depth);
    match value {
        Json::Object(members) if !members.is_empty() => {
            for (at, (name, value)) in members.iter().enumerate() {
                let before = if at == 0 { String::new() } else { indent(depth) };
                let _ = write!(lines, "{before}{}:", key(name));
                let before =
                    if is_block(value) { "\n".to_owned() + &indent(depth + 1) } else { " ".to_owned() };
                lines.push_str(&before);
                add_block(value, depth + 1, lines);
            }
        }
        Json::List(items) if is_block(value) => {
            for (at, item) in items.iter().enumerate() {
                let before = if at == 0 { String::new() } else { indent(depth) };
                let _ = write!(lines, "{before}- ");
                add_block(item, depth + 1, lines);
            }
        }
        value => {
            let _ = writeln!(lines, "{}", in_line(value, scalar));
        }
    }
}

/// Writes a value on one line; `text` writes its strings.
fn in_line(value: &Json, text: fn(&str) -> String) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(number) => number.clone(),
        Json::Text(value) => text(value),
        Json::List(items) => {
            let items: Vec<_> = items.iter().map(|item| in_line(item, quoted)).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(members) => {
            let member =
                |(name, value): &(String, Json)| format!("{}: {}", key(name), in_line(value, quoted));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

fn is_plain(text: &str, marks: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' && marks.contains('/'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Writes a string in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            _ if !is_visible(c) => {
                // A string can always be written to.
                let _ = match u32::from(c) {
                    code @ ..=0xffff => write!(quoted, "\\u{code:04X}"),
                    code => write!(quoted, "\\U{code:08X}"),
                };
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a comment on one line.
pub(super) fn comment(text: &str) -> String {
    visible(&text.replace(['\n', '\r', '\t'], " ")).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn mappings_and_lists_of_them_have_lines_of_their_own() {
        let value = json!({"a": {"b": [1, {"c": "d", "e": [[]]}, "yes"], "f": {}}, "g": "x: y", "h": null});
        let expected =
            "a:\n  b:\n    - 1\n    - c: d\n      e: [[]]\n    - \"yes\"\n  f: {}\ng: \"x: y\"\nh: null\n";
        assert_eq!(document(&Raw::of(&value)), expected);
        assert_eq!(document(&Raw::of("\u{9b}")), "\"\\u009B\"\n");
        let half = Raw::parse(&"\"\\ud800\u{9b}2J\"".into()).expect("JSON may have half of a pair");
        assert_eq!(document(&half), "\"\\\\ud800\\u009B2J\"\n", "nothing reaches the terminal as it is");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            "[a-z0-9 .:~#-]{0,6}".prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::from(serde_json::Map::from_iter(members))),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reader_gets_the_same_value(value in value()) {
            let written = document(&Raw::of(&value));
            let read: Value = serde_saphyr::from_str(&written).map_err(|error| TestCaseError::fail(format!("{error}: {written}")))?;
            prop_assert_eq!(read, value, "{}", written);
        }
    }
}
