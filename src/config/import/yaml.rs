//! Writes strings as YAML that every reader takes for the same string.
//!
//! Unambiguous strings are plain. All others are in double quotes with unusual characters escaped, so
//! no string changes the structure of the document or controls a terminal.

use std::fmt::Write as _;

use super::json::{Json, Members};
use protocol::visible::{is_visible, visible};

/// Words that a reader of YAML 1.1 or 1.2 does not take for a string.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "none"];

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

/// Writes the lines of a mapping.
pub(crate) fn block(members: &Members) -> String {
    let mut lines = String::new();
    add_block(members, 0, &mut lines);
    lines
}

fn add_block(members: &Members, depth: usize, lines: &mut String) {
    for (name, value) in members {
        let (indent, name) = ("  ".repeat(depth), key(name));
        match value {
            Json::Object(members) if !members.is_empty() => {
                let _ = writeln!(lines, "{indent}{name}:");
                add_block(members, depth + 1, lines);
            }
            value => {
                let _ = writeln!(lines, "{indent}{name}: {}", in_line(value, scalar));
            }
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
