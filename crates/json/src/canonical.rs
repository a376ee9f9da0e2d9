//! The canonical text of a JSON value, so that two values can be compared by a hash.
//!
//! The order of keys, white space and the escapes of a string make no difference. A number counts as it is written,
//! because some readers distinguish `1.0` from `1`. A member or element that occurs twice is written twice, in its
//! order, so that a duplicate cannot hide another value.
//!
//! Not here: the hash. Forwarded values are never rewritten.

use super::Raw;
use super::part::{Part, decode_key};
use crate::tokens;

/// The canonical text of `value`: no white space, keys in the order of their bytes.
pub fn text(value: &Raw) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.bytes().len());
    write(value.bytes(), &mut out);
    out
}

fn write(value: &[u8], out: &mut Vec<u8>) {
    match value.first() {
        Some(b'{') => write_object(value, out),
        Some(b'[') => {
            out.push(b'[');
            for (index, element) in tokens::elements(value).enumerate() {
                separate(index, out);
                write(&value[element], out);
            }
            out.push(b']');
        }
        Some(b'"') => match Part::new(value, None).text() {
            Some(text) => write_string(&text, out),
            // A lone surrogate counts as it is written.
            None => out.extend_from_slice(value),
        },
        _ => out.extend_from_slice(value),
    }
}

fn write_object(object: &[u8], out: &mut Vec<u8>) {
    let member = |member: tokens::Member| (decode_key(&object[member.key]), member.value);
    let mut members: Vec<_> = tokens::members(object).map(member).collect();
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.push(b'{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        separate(index, out);
        write_string(&key, out);
        out.push(b':');
        write(&object[value], out);
    }
    out.push(b'}');
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::raw::tests::json;

    fn canonical(text: &str) -> String {
        let value = Raw::parse(&Bytes::from(text.to_owned())).expect("JSON");
        String::from_utf8(super::text(&value)).expect("UTF-8")
    }

    #[test]
    fn equal_values_have_one_spelling() {
        for (spelled, expected) in [
            (
                r#" { "b" : [ 1 , {"d":null, "c":true} ] , "a" : "x" } "#,
                r#"{"a":"x","b":[1,{"c":true,"d":null}]}"#,
            ),
            (r#"{"\u0061":"\u0041\/\n"}"#, r#"{"a":"A/\n"}"#),
            (r#"{"é":1,"z":2,"":3}"#, r#"{"":3,"z":2,"é":1}"#),
            ("[]", "[]"),
            ("{}", "{}"),
            (r#""\u00e9""#, r#""é""#),
        ] {
            assert_eq!(canonical(spelled), expected);
        }
    }

    #[test]
    fn different_values_have_different_spellings() {
        for (one, other) in [
            ("1", "1.0"),
            ("1e400", "1e401"),
            ("1.0000000000000000001", "1.0"),
            (r#"{"a":null}"#, "{}"),
            (r#"["a","b"]"#, r#"["b","a"]"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"["\ud800"]"#, r#"["\ud801"]"#),
            (r#"{"a":"b"}"#, r#"["a","b"]"#),
        ] {
            assert_ne!(canonical(one), canonical(other), "{one} and {other}");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_value_itself_and_spelling_it_again_changes_nothing(value in json(".{0,4}")) {
            let pretty = serde_json::to_string_pretty(&value).expect("JSON");
            let spelled = canonical(&pretty);
            prop_assert_eq!(&canonical(&spelled), &spelled);
            prop_assert_eq!(canonical(&value.to_string()), spelled.clone());
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&spelled).expect("JSON"), value);
        }
    }
}
