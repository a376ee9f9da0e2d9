//! JSON as YAML, for people.
//!
//! Invariants: a YAML 1.2 reader gets the same value. Text that a reader could take for something else is quoted, as is
//! text with characters that act on a terminal.
//!
//! Not here: reading YAML (`settings`).

use json::Raw;

use super::json_text;

/// Plain words that some readers take for a boolean, nothing or a number.
const RESERVED: [&str; 12] =
    ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];

/// Returns `value` as a YAML document, with a line end.
pub(super) fn document(value: &Raw) -> String {
    let mut out = String::new();
    if is_block(value) {
        block(value, 0, &mut out);
    } else {
        out.push_str(&flow(value));
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn is_array(value: &Raw) -> bool {
    value.bytes().first() == Some(&b'[')
}

/// Whether `value` has members or elements, and so lines of its own.
fn is_block(value: &Raw) -> bool {
    value.members().next().is_some() || value.elements().next().is_some()
}

/// Writes the members or elements of `value`. The caller has indented the first line.
fn block(value: &Raw, depth: usize, out: &mut String) {
    let mut is_first = true;
    let mut begin = |out: &mut String| {
        if !std::mem::take(&mut is_first) {
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    if is_array(value) {
        for element in value.elements() {
            begin(out);
            out.push_str("- ");
            if is_block(&element) { block(&element, depth + 1, out) } else { line(&element, out) }
        }
        return;
    }
    for (key, member) in value.members() {
        begin(out);
        out.push_str(&text(&key));
        out.push(':');
        if is_block(&member) {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth + 1));
            block(&member, depth + 1, out);
        } else {
            out.push(' ');
            line(&member, out);
        }
    }
}

fn line(value: &Raw, out: &mut String) {
    out.push_str(&flow(value));
    out.push('\n');
}

/// A scalar, `{}` or `[]`.
fn flow(value: &Raw) -> String {
    match value.as_part().text() {
        Some(said) => text(&said),
        None => json_text::indented(value),
    }
}

/// A string, quoted unless it reads as nothing else.
fn text(said: &str) -> String {
    let mut characters = said.chars();
    let is_plain = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '/')
        && said.chars().all(|c| c.is_ascii_alphanumeric() || "_-./ +()".contains(c))
        && !said.ends_with(' ')
        && !RESERVED.contains(&said.to_ascii_lowercase().as_str());
    if is_plain { said.to_owned() } else { json_text::string(said) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn members_and_elements_have_lines_of_their_own() {
        let value = json!({"a": {"b": [1, {"c": "d", "e": [[]]}, "yes"], "f": {}}, "g": "x: y", "h": null});
        let wanted = "a:\n  b:\n    - 1\n    - c: d\n      e:\n        - []\n    - \"yes\"\n  f: {}\ng: \"x: y\"\nh: null\n";
        assert_eq!(document(&Raw::of(&value)), wanted);
        assert_eq!(document(&Raw::of("\u{9b}")), "\"\\u009b\"\n");
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
