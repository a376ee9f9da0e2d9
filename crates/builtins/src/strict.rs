//! Strict JSON, for values that are checked and then printed again: no duplicate keys, and no number that
//! changes on the way.
//!
//! Two readers may take different values of a duplicate key. So an object that is checked and passed on must
//! not have any.

use serde_json::Value;

use json::Raw;

/// Deepest nesting of an argument.
const DEEPEST: usize = 64;

/// Reads `raw`. An error describes what is wrong.
pub(super) fn read(raw: &Raw) -> Result<Value, String> {
    if raw.depth() > DEEPEST {
        return Err(format!("it is nested more than {DEEPEST} deep"));
    }
    if raw.numbers().any(is_rounded) {
        return Err("a whole number has more than 64 bits".to_owned());
    }
    if let Some(key) = raw.repeated_key() {
        return Err(format!("the key {:?} stands twice", clipped(&key)));
    }
    raw.read().map_err(|error| error.to_string())
}

/// Whether `number` is whole and would be read as the nearest one with a fraction.
fn is_rounded(number: &str) -> bool {
    let is_whole = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

fn clipped(key: &str) -> &str {
    &key[..key.floor_char_boundary(80)]
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn read_text(text: &str) -> Result<Value, String> {
        read(&Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON"))
    }

    #[test]
    fn a_value_is_read_as_it_stands() {
        let text = r#"{"a":[1,-1,1.5,true,null,"ä"],"b":{"c":{}},"d":18446744073709551615}"#;
        let known =
            json!({"a": [1, -1, 1.5, true, null, "ä"], "b": {"c": {}}, "d": 18_446_744_073_709_551_615_u64});
        assert_eq!(read_text(text), Ok(known));
    }

    #[test]
    fn keys_of_different_objects_and_texts_may_be_equal() {
        for text in [r#"[{"x":1},{"x":{"x":["x","x"]}}]"#, r#"{"x":"x","y":"x","z":["\"x\":","\"x\":"]}"#] {
            assert!(read_text(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn digits_in_texts_and_behind_a_point_are_as_many_as_they_are() {
        for text in [
            r#"["\"18446744073709551616"]"#,
            r#"{"18446744073709551616":"ä\\"}"#,
            "1.00000000000000000000001",
            "1e30",
        ] {
            assert!(read_text(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn value_that_would_change_on_the_way_is_refused() {
        let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
        for (text, why) in [
            (r#"{"a":{"x":1,"\u0078":2}}"#, "twice"),
            (r#"[{"x":1,"x":1}]"#, "twice"),
            (r#"{"x":{"a":[{"b":"x"}]},"y":[{}] , "x" : 2}"#, "twice"),
            ("[1e400]", "out of range"),
            (r#"{"a\"\\":[18446744073709551616]}"#, "64 bits"),
            ("-9223372036854775809", "64 bits"),
            (deep.as_str(), "nested"),
        ] {
            let reason = read_text(text).expect_err(text);
            assert!(reason.contains(why), "{text}: {reason}");
        }
    }
}
