//! Tasks from one era into the other, and back.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")
}

#[test]
fn a_legacy_task_becomes_one_of_the_extension() {
    for (legacy, modern) in [
        (
            r#"{"taskId":"t","status":"working","ttl":60000,"pollInterval":5000,"x":1e400}"#,
            r#"{"taskId":"t","status":"working","x":1e400,"ttlMs":60000,"pollIntervalMs":5000}"#,
        ),
        (r#"{"ttl":null,"taskId":"t"}"#, r#"{"taskId":"t","ttlMs":null}"#),
        (r#"{"taskId":"t"}"#, r#"{"taskId":"t","ttlMs":null}"#),
        (r#"{"ttl":1.5,"pollInterval":2.0}"#, r#"{"ttlMs":2,"pollIntervalMs":2}"#),
        (r#"{"ttl":-1,"pollInterval":"5"}"#, r#"{"ttlMs":null}"#),
        (r#"{"ttl":1e400,"pollInterval":null}"#, r#"{"ttlMs":null}"#),
        ("null", "null"),
        ("[]", "[]"),
    ] {
        assert_eq!(task_to_modern(&raw(legacy)).as_str(), modern);
    }
}

#[test]
fn a_task_of_the_extension_becomes_a_legacy_one() {
    for (modern, legacy) in [
        (
            r#"{"resultType":"complete","taskId":"t","status":"working","ttlMs":60000,"pollIntervalMs":5000,"x":1e400}"#,
            r#"{"taskId":"t","status":"working","x":1e400,"ttl":60000,"pollInterval":5000}"#,
        ),
        (
            r#"{"taskId":"t","status":"completed","result":{"isError":true},"ttlMs":null}"#,
            r#"{"taskId":"t","status":"failed","ttl":null}"#,
        ),
        (
            r#"{"taskId":"t","status":"completed","result":{"isError":false},"ttlMs":null}"#,
            r#"{"taskId":"t","status":"completed","ttl":null}"#,
        ),
        (
            r#"{"taskId":"t","status":"input_required","inputRequests":{"k":{}},"ttlMs":1}"#,
            r#"{"taskId":"t","status":"input_required","ttl":1}"#,
        ),
        (r#"{"status":"failed","error":{"code":1}}"#, r#"{"status":"failed","ttl":null}"#),
        ("5", "5"),
    ] {
        assert_eq!(task_to_legacy(&raw(modern)).as_str(), legacy);
    }
}

#[test]
fn the_answer_that_made_a_task_is_flat_or_wrapped() {
    let legacy = r#"{"task":{"taskId":"t","status":"working","ttl":5},"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}"#;
    let modern = r#"{"taskId":"t","status":"working","ttlMs":5,"resultType":"task","_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}"#;
    assert_eq!(created_to_modern(&raw(legacy)).expect("a task").as_str(), modern);
    assert_eq!(created_to_legacy(&raw(modern)).expect("a task").as_str(), legacy);
    for other in [
        r#"{"content":[]}"#,
        r#"{"task":"t"}"#,
        r#"{"task":{"taskId":5}}"#,
        "null",
        r#"{"resultType":"complete","taskId":"t"}"#,
    ] {
        assert_eq!(created_to_modern(&raw(other)), None, "{other}");
        assert_eq!(created_to_legacy(&raw(other)), None, "{other}");
    }
}

#[test]
fn how_a_legacy_task_ended_stands_in_the_task() {
    let task = raw(r#"{"taskId":"t","status":"failed","ttl":5}"#);
    let result = raw(
        r#"{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
    );
    assert_eq!(
        finished(&task, &Ok(result)).as_str(),
        r#"{"taskId":"t","status":"completed","ttlMs":5,"result":{"content":[],"isError":true}}"#
    );
    let error = ErrorObject::new(-32603, "no").with_data(&1);
    assert_eq!(
        finished(&task, &Err(error)).as_str(),
        r#"{"taskId":"t","status":"failed","ttlMs":5,"error":{"code":-32603,"message":"no","data":1}}"#
    );
}

#[test]
fn a_legacy_client_gets_the_result_once_the_task_has_ended() {
    let ended = |text| outcome(&raw(text));
    assert_eq!(
        ended(r#"{"taskId":"t","status":"completed","result":{"content":[],"_meta":{"x":1.0}}}"#),
        Some(Ok(raw(
            r#"{"content":[],"_meta":{"x":1.0,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#
        )))
    );
    let failed =
        ended(r#"{"status":"failed","error":{"code":-7,"message":"m","more":null}}"#).expect("ended");
    assert_eq!(failed.expect_err("failed").raw().as_str(), r#"{"code":-7,"message":"m","more":null}"#);
    for text in [
        r#"{"status":"cancelled"}"#,
        r#"{"status":"failed"}"#,
        r#"{"status":"failed","error":5}"#,
        r#"{"status":"completed"}"#,
    ] {
        assert!(ended(text).expect("ended").is_err(), "{text}");
    }
    for text in [
        r#"{"status":"working"}"#,
        r#"{"status":"input_required"}"#,
        r#"{"status":"dreaming"}"#,
        "{}",
        "null",
    ] {
        assert_eq!(ended(text), None, "{text}");
    }
}

#[test]
fn the_mark_of_a_task_comes_and_goes_without_a_trace() {
    for text in [r#"{"a":1}"#, r#"{"a":1,"_meta":{"b":1e400}}"#] {
        let marked = with_related(&raw(text), &raw("\"t\""));
        assert!(marked.as_str().contains(r#""io.modelcontextprotocol/related-task":{"taskId":"t"}"#));
        assert_eq!(without_related(&marked).as_str(), text);
        assert_eq!(without_related(&raw(text)).as_str(), text);
    }
}

proptest! {
    #[test]
    fn a_task_comes_back_as_it_was(
        status in prop::sample::select(vec!["working", "input_required", "completed", "failed", "cancelled"]),
        ttl in prop::option::of(0_u32..), poll in prop::option::of(1_u32..), message: String,
    ) {
        let mut task = serde_json::json!({"taskId": "t", "status": status, "statusMessage": message, "ttl": ttl});
        if let Some(poll) = poll {
            task["pollInterval"] = poll.into();
        }
        let back = task_to_legacy(&task_to_modern(&Raw::of(&task)));
        prop_assert_eq!(back.read::<serde_json::Value>().expect("JSON"), task);
    }

    #[test]
    fn nothing_panics(text in "[{}\\[\\]\":,a-z0-9.-]{0,40}") {
        if let Ok(value) = Raw::parse(&Bytes::from(text)) {
            let _ = (task_to_modern(&value), task_to_legacy(&value), created_to_modern(&value));
            let _ = (created_to_legacy(&value), outcome(&value), without_related(&value));
        }
    }
}
