//! JSON as indented text.
//!
//! Invariants: the text means the same value. Numbers, the order of members and repeated members stay as they were
//! written. Invisible characters are written as `\u` escapes.
//!
//! Not here: YAML (`config::import::yaml`).

use std::fmt::Write as _;

use json::Raw;
use protocol::visible::is_visible;

/// Returns `value` with an indentation of two spaces, and without a line end.
pub(super) fn indented(value: &Raw) -> String {
    let mut out = String::with_capacity(2 * value.as_str().len());
    let mut characters = value.as_str().chars().filter(|c| !c.is_ascii_whitespace() || *c == ' ').peekable();
    let mut depth = 0;
    while let Some(c) = characters.next() {
        match c {
            ' ' => {}
            '"' => copy_string(&mut characters, &mut out),
            '{' | '[' => {
                out.push(c);
                while characters.next_if_eq(&' ').is_some() {}
                if let Some(end) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => out.push(c),
        }
    }
    out
}

/// Returns `value` on one line. Only strings have characters that act on a terminal, and line ends only separate tokens.
pub(super) fn line(value: &Raw) -> String {
    let mut out = String::with_capacity(value.as_str().len());
    for c in value.as_str().chars() {
        put(if c.is_ascii_whitespace() { ' ' } else { c }, &mut out);
    }
    out
}

/// Copies the rest of a string whose opening quote was read.
fn copy_string(characters: &mut impl Iterator<Item = char>, out: &mut String) {
    out.push('"');
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(characters.next());
            }
            '"' => break,
            c => put(c, out),
        }
    }
    out.push('"');
}

/// Writes a character of a string, as an escape if it is invisible.
fn put(c: char, out: &mut String) {
    if is_visible(c) {
        out.push(c);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        // A string can always be written to.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(&text.to_owned().into()).expect("JSON")
    }

    #[test]
    fn numbers_order_and_repeated_members_stay_as_they_were_written() {
        let text = r#" { "z" : 1e400,"a":[1.50 ,{ } , [ ]],"a": "x y\"\n" } "#;
        let expected =
            "{\n  \"z\": 1e400,\n  \"a\": [\n    1.50,\n    {},\n    []\n  ],\n  \"a\": \"x y\\\"\\n\"\n}";
        assert_eq!(indented(&raw(text)), expected);
    }

    #[test]
    fn characters_that_act_on_a_terminal_are_escaped() {
        let shown = indented(&raw("{\"\u{9b}\":\"\u{7f}\u{202e}\u{e0001}\"}"));
        assert_eq!(shown, "{\n  \"\\u009b\": \"\\u007f\\u202e\\udb40\\udc01\"\n}");
    }

    proptest! {
        #[test]
        fn the_text_means_the_same_value(text in any::<String>(), other in any::<Vec<String>>()) {
            let value = serde_json::json!({&text: {"list": other, "text": text}, "n": null});
            let shown = indented(&Raw::of(&value));
            prop_assert!(shown.chars().all(|c| c == '\n' || is_visible(c)));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).expect("JSON"), value);
        }
    }
}
