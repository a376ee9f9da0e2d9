//! Every kind of argument that does not fit is refused by name, and nothing else is.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::hostile;
use crate::tool::{Effect, Tool, ToolInfo};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Fast,
    Slow,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)] // read to see that they can be
struct Input {
    #[schemars(length(min = 1, max = 20), regex(pattern = NOT_BLANK), example = "a question")]
    query: String,
    #[schemars(range(min = 1, max = 100))]
    limit: Option<u32>,
    offset: Option<u32>,
    #[schemars(range(min = 0.0, max = 2.0))]
    heat: Option<f64>,
    mode: Option<Mode>,
    #[schemars(extend("format" = "uuid"))]
    id: Option<String>,
    filters: Option<Map<String, Value>>,
    sure: Option<bool>,
    list: Option<Vec<Item>>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Item {
    number: i64,
}

fn tool() -> Tool {
    let about = ToolInfo { name: "t", title: "T", description: "A tool.", effect: Effect::Reads };
    Tool::new::<Input, Item>(&about)
}

fn refused(arguments: &str) -> Value {
    let raw = Raw::parse(&bytes::Bytes::copy_from_slice(arguments.as_bytes())).expect("JSON");
    let refusal = tool().read::<Input>(&raw).err().unwrap_or_else(|| panic!("{arguments} passes"));
    refusal.raw().read().expect("JSON")
}

#[test]
fn value_that_does_not_fit_is_refused_by_name() {
    for (arguments, field, said) in [
        ("[]", "arguments", "{}"),
        ("{}", "query", "a question"),
        (r#"{"query":null}"#, "query", "a question"),
        (r#"{"query":"  "}"#, "query", "a question"),
        (r#"{"query":7}"#, "query", "quotation"),
        (r#"{"query":"a\ud800"}"#, "query", "surrogate"),
        (r#"{"query":"a","offset":4294967296}"#, "offset", "Use 4294967295"),
        (r#"{"query":"123456789012345678901"}"#, "query", "shorter"),
        (r#"{"query":"a","query":"b"}"#, "query", "once"),
        (r#"{"query":"a","querry":"b"}"#, "querry", "query"),
        (r#"{"query":"a","limit":0}"#, "limit", "Use 1,"),
        (r#"{"query":"a","limit":101}"#, "limit", "Use 100"),
        (r#"{"query":"a","limit":"7"}"#, "limit", "Use 7"),
        (r#"{"query":"a","limit":1.5}"#, "limit", "whole"),
        (r#"{"query":"a","limit":1e400}"#, "limit", "whole"),
        (r#"{"query":"a","limit":{}}"#, "limit", "whole"),
        (r#"{"query":"a","offset":-1}"#, "offset", "from 0 to"),
        (r#"{"query":"a","heat":2.1}"#, "heat", "from 0 to 2"),
        (r#"{"query":"a","mode":"fsat"}"#, "mode", "fast"),
        (r#"{"query":"a","mode":3}"#, "mode", "text"),
        (r#"{"query":"a","id":"7"}"#, "id", "UUID"),
        (r#"{"query":"a","filters":"x"}"#, "filters", "object"),
        (r#"{"query":"a","filters":{"x":{"y":1,"y":2}}}"#, "filters", "twice"),
        (r#"{"query":"a","filters":{"x":1e999}}"#, "filters", "out of range"),
        (r#"{"query":"a","filters":{"x":18446744073709551616}}"#, "filters", "64 bits"),
        (r#"{"query":"a","sure":"true"}"#, "sure", "Use true or false"),
        (r#"{"query":"a","list":{}}"#, "list", "a list"),
        (r#"{"query":"a","list":[{"number":1},{"number":"x"}]}"#, "list[1].number", "whole"),
        (r#"{"query":"a","list":[{}]}"#, "list[0].number", "required"),
        (r#"{"query":"a","list":[{"number":1,"nummer":2}]}"#, "list[0].nummer", "number"),
    ] {
        let refusal = refused(arguments);
        assert_eq!(refusal["field"], field, "{arguments}: {refusal}");
        assert!(refusal.to_string().contains(said), "{arguments}: {refusal}");
    }
}

#[test]
fn value_that_fits_is_read() {
    let text = r#"{"query":"a","limit":5.0,"mode":null,"id":"0B8AA2E5-2b7c-4b5c-9f0e-3a1f2d4c5b6a","heat":1,
        "filters":{"a":{"$in":[1,null]}},"list":[{"number":-3}]}"#;
    let raw = Raw::parse(&bytes::Bytes::copy_from_slice(text.as_bytes())).expect("JSON");
    let Ok(input) = tool().read::<Input>(&raw) else { panic!("refused") };
    assert_eq!((input.query.as_str(), input.limit, input.heat), ("a", Some(5), Some(1.0)));
    assert!(input.mode.is_none());
    assert_eq!(Value::Object(input.filters.expect("filters")), json!({"a": {"$in": [1, null]}}));
    assert!(tool().is_known());
}

#[test]
fn a_large_value_is_not_sent_back() {
    let refusal = refused(&json!({"query": "x".repeat(100_000), "y".repeat(100_000): 1}).to_string());
    assert!(refusal.to_string().len() < 2_000);
}

// RULES S28
#[test]
fn any_arguments_are_read_or_refused_by_name() {
    hostile::judges::<Input>(&tool(), 256);
}

fn read_text(text: &str) -> Result<Value, String> {
    read_strictly(&Raw::parse(&Bytes::copy_from_slice(text.as_bytes())).expect("JSON"))
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
