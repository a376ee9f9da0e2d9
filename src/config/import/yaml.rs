//! Texts as YAML that every reader takes for the same text.
//!
//! Plain where nothing can be mistaken, else between double quotes with every odd character escaped: no
//! text changes the structure of the document or draws on a terminal.

use std::fmt::Write as _;

/// What a reader of YAML 1.1 or 1.2 takes for something else than a text.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "none"];

/// A value on a line of its own.
pub(super) fn scalar(text: &str) -> String {
    if is_plain(text, "_-./@:") && !text.ends_with(':') { text.to_owned() } else { quoted(text) }
}

/// A key.
pub(super) fn key(text: &str) -> String {
    if is_plain(text, "_-.") { text.to_owned() } else { quoted(text) }
}

/// A list on one line.
pub(super) fn list(texts: &[String]) -> String {
    let items: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", items.join(", "))
}

fn is_plain(text: &str, marks: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' && marks.contains('/'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || marks.contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Between double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            _ if is_odd(c) => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c)); // all of them have four digits
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Control characters, what some readers take for the end of a line, and what turns writing round.
fn is_odd(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A comment in one line.
pub(super) fn comment(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}
