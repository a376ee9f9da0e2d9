//! Tests of the codes and names of Switchyard's own errors, in both eras.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::manager::ItemKind;
use protocol::error::code;
use upstream::Error as U;

fn reported(source: U, era: Era) -> (i64, Value) {
    let error = Error::Upstream { server: "docs".into(), tool: Some("find".into()), source, retry_in: None };
    let object = object(&error, era);
    (object.code(), value(&object))
}

fn value(object: &ErrorObject) -> Value {
    let data = object.data().expect("data");
    serde_json::from_slice(data.bytes()).expect("JSON")
}

fn backend(status: u16) -> U {
    U::Backend { status, detail: "it said no".into(), retry_after: Some(Duration::from_secs(2)), facts: None }
}

fn status(status: u16, retry_after: Option<Duration>) -> U {
    U::Status { status, detail: String::new(), retry_after }
}

#[test]
fn each_failure_has_a_number_and_a_word_in_both_eras() {
    let (reason, retry_in) = (|| "it broke".to_owned(), Duration::from_millis(1500));
    for (source, case, word, retryable, retry_after) in [
        (U::Connect { reason: reason() }, 0, "service_unavailable", true, json!(null)),
        (U::NotSent { reason: reason() }, 0, "service_unavailable", true, json!(null)),
        (U::Lost { reason: reason() }, 0, "service_unavailable", false, json!(null)),
        (U::Cut { reason: reason() }, 0, "service_unavailable", false, json!(null)),
        (U::Unavailable { state: "disabled" }, 0, "service_unavailable", false, json!(null)),
        (backend(400), 1, "invalid_params", false, json!(null)),
        (backend(401), 2, "authentication_error", false, json!(null)),
        (backend(404), 1, "not_found", false, json!(null)),
        (backend(500), 1, "service_unavailable", false, json!(null)),
        (backend(503), 1, "service_unavailable", true, json!(2)),
        (status(500, None), 1, "service_unavailable", false, json!(null)),
        (status(503, Some(retry_in)), 1, "service_unavailable", true, json!(2)),
        (status(429, Some(retry_in)), 4, "rate_limited", true, json!(2)),
        (status(401, None), 2, "authentication_error", false, json!(null)),
        (U::AuthFailed { reason: reason() }, 2, "authentication_error", false, json!(null)),
        (U::CircuitOpen { retry_in }, 3, "circuit_open", true, json!(2)),
        (backend(429), 4, "rate_limited", true, json!(2)),
        (U::Overloaded { retry_in }, 4, "rate_limited", true, json!(2)),
        (U::TimedOut { after: retry_in }, 5, "timeout", false, json!(null)),
    ] {
        let detail = source.to_string();
        for (era, first) in [(Era::Legacy, -32000), (Era::Modern, -31000)] {
            let (number, data) = reported(source.clone(), era);
            assert_eq!(number, first - case, "{source:?}");
            assert_eq!((&data["type"], &data["detail"]), (&json!(word), &json!(detail)), "{source:?}");
            assert_eq!((&data["retryable"], &data["retry_after"]), (&json!(retryable), &retry_after));
            let exact = if matches!(source, U::Backend { .. }) { 2_000 } else { 1_500 };
            let ms = (!retry_after.is_null()).then_some(exact);
            assert_eq!(data["retry_after_ms"], json!(ms), "{source:?}");
            assert_eq!((&data["server"], &data["tool"]), (&json!("docs"), &json!("find")));
        }
    }
}

#[test]
fn standard_codes_are_the_same_in_both_eras_and_have_words_too() {
    for era in [Era::Legacy, Era::Modern] {
        let (number, data) = reported(U::TooLarge { limit: 5 }, era);
        assert_eq!((number, &data["code"]), (code::INTERNAL_ERROR, &json!("invalid_answer")));
        let missing = object(&Error::server_not_found("x", std::iter::empty()), era);
        assert_eq!((missing.code(), &value(&missing)["type"]), (code::INVALID_PARAMS, &json!("not_found")));
    }
    for (object, number, word) in [
        (forbidden("call tools"), code::INVALID_REQUEST, "authentication_error"),
        (no_resource(Era::Legacy, "a://b"), -32002, "not_found"),
        (invalid_answer("odd"), code::INTERNAL_ERROR, "service_unavailable"),
    ] {
        let data = value(&object);
        assert_eq!((object.code(), &data["type"], &data["retryable"]), (number, &json!(word), &json!(false)));
        assert_eq!(data["detail"], object.message());
    }
}

#[test]
fn invalid_input_is_named_with_the_correct_form() {
    let found = Raw::of(&"x".repeat(1_000));
    let wrong = InvalidParam {
        field: "params.a",
        found: Some(&found),
        valid: "a number",
        suggestion: "send a number",
    };
    let data = value(&bad_input("params.a must be a number", wrong));
    assert_eq!((&data["type"], &data["code"]), (&json!("invalid_params"), &json!("invalid_params")));
    assert_eq!((&data["field"], &data["valid_range"]), (&json!("params.a"), &json!("a number")));
    assert_eq!((&data["suggestion"], &data["hint"]), (&json!("send a number"), &json!("send a number")));
    let shown = data["rejected_value"].as_str().expect("text");
    assert!(shown.len() < 250 && shown.ends_with('…'), "{shown}");
    let missing = value(&bad_input("params.a is missing", InvalidParam { found: None, ..wrong }));
    assert_eq!(missing.get("rejected_value"), Some(&json!(null)));
    assert_eq!(value(&bad_cursor(&Raw::of(&7)))["rejected_value"], 7);
    let several = Error::Ambiguous {
        kind: ItemKind::Tool,
        name: "find".into(),
        candidates: vec!["a__find".into()],
        before: None,
    };
    let data = value(&object(&several, Era::Modern));
    assert_eq!((&data["field"], &data["rejected_value"]), (&json!("params.name"), &json!("find")));
}

#[test]
fn a_failure_says_what_to_do_and_when() {
    let (_, data) = reported(U::CircuitOpen { retry_in: Duration::from_millis(1500) }, Era::Modern);
    assert_eq!((&data["retry_after_ms"], &data["retry_after"]), (&json!(1500), &json!(2)));
    for source in [
        U::Connect { reason: "no route".into() },
        U::Lost { reason: "reset".into() },
        U::TimedOut { after: Duration::from_secs(1) },
        backend(500),
        U::Unavailable { state: "disabled" },
        U::TooLarge { limit: 1 },
    ] {
        let (_, data) = reported(source, Era::Legacy);
        assert!(data["hint"].as_str().is_some_and(|text| !text.is_empty()), "{data}");
        let is_named = data["type"] == "service_unavailable";
        assert_eq!(data.get("guidance"), is_named.then_some(&data["hint"]), "{data}");
    }
}

#[test]
fn bug_has_the_id_of_its_line_in_the_log() {
    let id = RequestId::new();
    let data = value(&internal("it failed", id));
    let id = json!(id.to_string());
    assert_eq!((&data["type"], &data["request_id"], &data["error_id"]), (&json!("internal_error"), &id, &id));
}
