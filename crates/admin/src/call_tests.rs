//! Tests of `POST /call` through the router, against servers in memory.

use axum::http::{Method, Request};
use serde_json::json;

use super::super::fixture::{Answer as Fake, Dial, Gateway, raw, request, server, server_with_tools};
use super::*;
use auth::Role;
use protocol::ErrorObject;
use protocol::error::code;
use upstream::Error;

/// A gateway with one server, `docs`, whose tool `echo` answers like this.
async fn answering(answer: Fake) -> Gateway {
    let docs = server("docs");
    docs.1.answer_calls(answer);
    Gateway::of(vec![docs]).await
}

const ECHO: &str = r#"{"server":"docs","tool":"echo","timeout":5}"#;

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_tool_arrives_with_its_numbers_untouched() {
    let result = r#"{"content":[{"type":"text","text":"{\"id\": 36893488147419103232}","x":1.0}],"y":null}"#;
    let gateway = answering(Fake::Reply(Ok(raw(result)))).await;
    let answered = gateway.call(ECHO).await;
    assert_eq!(answered.status, 200);
    let text = answered.text();
    assert!(text.contains(r#""data":{"id": 36893488147419103232}"#), "{text}");
    assert!(text.contains(r#""content":[{"type":"text","text":"{\"id\": 36893488147419103232}","x":1.0}]"#));
    let answer = answered.json();
    assert_eq!(answer["success"], true);
    assert_eq!((&answer["server_name"], &answer["tool_name"]), (&json!("docs"), &json!("echo")));
    assert_eq!(answer["request_id"], answered.header("x-request-id"));
    assert!(answer["execution_time_ms"].is_f64());
    assert_eq!(answered.header("content-type"), "application/json");
}

#[tokio::test(start_paused = true)]
async fn arguments_reach_the_server_as_they_were_written() {
    let docs = server("docs");
    docs.1.answer(|call| {
        let arguments = call.params.as_ref()?.get("arguments")?;
        let text = json::Raw::of(arguments.as_str());
        let result = format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, text.as_str());
        Some(Fake::Reply(Ok(raw(&result))))
    });
    let gateway = Gateway::of(vec![docs]).await;
    let arguments = r#"{"z":1.0000000000000000001,"a":[1.0, 18446744073709551616],"n":null}"#;
    let answered = gateway.call(&format!(r#"{{"tool":"echo","arguments":{arguments}}}"#)).await;
    assert!(answered.text().contains(&format!("\"data\":{arguments}")), "{}", answered.text());
}

#[tokio::test(start_paused = true)]
async fn without_a_server_the_name_decides() {
    let gateway =
        Gateway::of(vec![server("one"), server_with_tools("two", r#"[{"name":"echo"},{"name":"own"}]"#)])
            .await;
    let answered = gateway.call(r#"{"tool":"own"}"#).await.json();
    assert_eq!((&answered["server_name"], &answered["tool_name"]), (&json!("two"), &json!("own")));
    let answered = gateway.call(r#"{"tool":"two__echo"}"#).await.json();
    assert_eq!((&answered["server_name"], &answered["tool_name"]), (&json!("two"), &json!("echo")));
    let ambiguous = gateway.call(r#"{"tool":"echo"}"#).await;
    assert_eq!(ambiguous.problem(), (400, "ambiguous_tool".into()));
    assert_eq!(ambiguous.json()["candidates"], json!(["one__echo", "two__echo"]));
    let unknown = gateway.call(r#"{"tool":"ownn"}"#).await;
    assert_eq!(unknown.problem(), (404, "tool_not_found".into()));
    assert_eq!(unknown.json()["nearest"][0], "own");
    let unknown = gateway.call(r#"{"server":"tow","tool":"own"}"#).await;
    assert_eq!(unknown.problem(), (404, "server_not_found".into()));
    assert_eq!(unknown.json()["available"], json!(["one", "two"]));
    let unknown = gateway.call(r#"{"server":"one","tool":"own"}"#).await;
    assert_eq!(unknown.problem(), (404, "tool_not_found".into()));
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_told_by_the_name_the_operator_gave_it() {
    let (mut config, fake) = server("docs");
    config.tools.rename.insert("echo".into(), "say".into());
    let gateway = Gateway::of(vec![(config, fake)]).await;
    let answered = gateway.call(r#"{"server":"docs","tool":"say"}"#).await;
    assert_eq!(answered.json()["tool_name"], "say");
    let listed = gateway.get("/api/v1/mcp/tools").await.json();
    assert_eq!(listed["tools"][0]["tool"], "say");
}

#[tokio::test(start_paused = true)]
async fn error_reported_by_a_tool_is_an_answer() {
    let failed = json!({"isError": true, "content": [{"type": "text", "text": "no such issue"}]});
    let answered = answering(Fake::result(&failed)).await.call(ECHO).await;
    assert_eq!(answered.status, 200);
    let answer = answered.json();
    assert_eq!((&answer["success"], &answer["error"]), (&json!(false), &json!("no such issue")));
    assert_eq!((&answer["code"], &answer["retryable"]), (&json!("tool_error"), &json!(false)));
    assert!(answer["hint"].is_string(), "{answer}");
    let error = ErrorObject::new(code::INTERNAL_ERROR, "out of order");
    let answered = answering(Fake::Reply(Err(error))).await.call(ECHO).await;
    assert_eq!(answered.status, 200);
    assert_eq!(answered.json()["rpc_error"], json!({"code": -32603, "message": "out of order"}));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_the_server_refuses_are_a_bad_request() {
    let error = ErrorObject::new(code::INVALID_PARAMS, "title is required");
    let answered = answering(Fake::Reply(Err(error))).await.call(ECHO).await;
    assert_eq!(answered.problem(), (400, "invalid_arguments".into()));
    let document = answered.json();
    assert_eq!(document["detail"], "title is required");
    assert_eq!(document["rpc_error"]["code"], -32602);
    assert_eq!((&document["server"], &document["tool"]), (&json!("docs"), &json!("echo")));
}

#[tokio::test(start_paused = true)]
async fn each_way_to_fail_has_its_problem() {
    let reason = || "it broke".to_owned();
    for (answer, status, code) in [
        (Fake::Fail(Error::NotSent { reason: reason() }), 502, "connection_failed"),
        (Fake::Fail(Error::Lost { reason: reason() }), 502, "outcome_unknown"),
        (Fake::Fail(Error::Malformed { reason: reason() }), 502, "invalid_answer"),
        (Fake::Reply(Ok(raw("5"))), 502, "invalid_answer"),
        (Fake::Silence, 504, "timed_out"),
    ] {
        let answered = answering(answer.clone()).await.call(ECHO).await;
        assert_eq!(answered.problem(), (status, code.to_owned()), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_says_when_to_come_back() {
    let gateway = answering(Fake::Fail(Error::Lost { reason: "gone".into() })).await;
    for _ in 0..5 {
        gateway.call(ECHO).await;
    }
    let answered = gateway.call(ECHO).await;
    assert_eq!(answered.problem(), (503, "circuit_open".into()));
    assert_eq!(answered.header("retry-after"), "30");
    let ms = answered.json()["retry_after_ms"].as_u64().expect("milliseconds");
    assert!((29_000..=30_000).contains(&ms), "{ms}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_refused_with_a_time_to_wait() {
    let (mut config, fake) = server("docs");
    (config.limits.concurrent_calls, config.limits.waiting_calls) = (1, 0);
    fake.answer_calls(Fake::Silence);
    let gateway = Gateway::of(vec![(config, fake)]).await;
    let (slow, refused) = tokio::join!(gateway.call(ECHO), gateway.call(ECHO));
    assert_eq!(slow.problem(), (504, "timed_out".into()));
    assert_eq!(refused.problem(), (429, "overloaded".into()));
    assert!(!refused.header("retry-after").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_off_or_away_is_told_apart() {
    let (mut config, fake) = server_with_tools("off", "[]");
    config.enabled = false;
    let away = server("away");
    away.1.dial(Dial::Refuse);
    let gateway = Gateway::of(vec![(config, fake), away]).await;
    for (name, status, code) in [("off", 503, "server_unavailable"), ("away", 502, "connection_failed")] {
        let answered = gateway.call(&format!(r#"{{"server":"{name}","tool":"echo","timeout":1}}"#)).await;
        assert_eq!(answered.problem(), (status, code.to_owned()), "nothing is known of its tools");
        assert_eq!((&answered.json()["server"], &answered.json()["tool"]), (&json!(name), &json!("echo")));
    }
    let answered = gateway.call(r#"{"server":"away","tool":"echo"}"#).await;
    assert!(answered.text().contains("connection refused"), "{}", answered.text());
    let answered = gateway.call(r#"{"tool":"echo"}"#).await;
    assert_eq!(answered.problem(), (404, "tool_not_found".into()), "no server was named");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_the_call_wins() {
    let gateway = answering(Fake::Silence).await;
    let started = tokio::time::Instant::now();
    let answered = gateway.call(r#"{"tool":"echo","timeout":0.25}"#).await;
    assert_eq!(answered.problem(), (504, "timed_out".into()));
    assert_eq!(started.elapsed(), std::time::Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_may_yet_become_known_is_waited_for_within_the_timeout() {
    let docs = server("docs");
    docs.1.dial(Dial::AcceptAfter(std::time::Duration::from_secs(2)));
    let gateway = Gateway::starting(vec![docs]);
    let started = tokio::time::Instant::now();
    let unknown = gateway.call(r#"{"tool":"echo","timeout":0.5}"#).await;
    assert_eq!(unknown.problem(), (404, "tool_not_found".into()));
    assert_eq!(started.elapsed(), std::time::Duration::from_millis(500));
    assert_eq!(gateway.call(r#"{"tool":"echo"}"#).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cancels_its_call() {
    let docs = server("docs");
    docs.1.answer_calls(Fake::Silence);
    let fake = docs.1.clone();
    let gateway = Gateway::of(vec![docs]).await;
    let limit = std::time::Duration::from_millis(10);
    assert!(tokio::time::timeout(limit, gateway.call(ECHO)).await.is_err());
    assert_eq!((fake.open_requests(), fake.cancelled()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn bad_bodies_are_refused_before_anything_is_called() {
    let docs = server("docs");
    let fake = docs.1.clone();
    let gateway = Gateway::of(vec![docs]).await;
    let large = format!(r#"{{"tool":"echo","arguments":{{"x":"{}"}}}}"#, "y".repeat(70_000));
    for (body, status, code) in [
        ("{", 400, "invalid_request"),
        (r#"{"tool":"echo","arguments":[]}"#, 400, "invalid_request"),
        (r#"{"tool":"echo","verbose":true}"#, 400, "invalid_request"),
        (large.as_str(), 413, "body_too_large"),
    ] {
        assert_eq!(gateway.call(body).await.problem(), (status, code.to_owned()));
    }
    let form = Request::post("/api/v1/mcp/call").header("content-type", "application/x-www-form-urlencoded");
    let mut form = form.body(Body::from("tool=echo")).expect("a request");
    form.extensions_mut().insert(auth::Principal::anonymous());
    assert_eq!(gateway.ask(form).await.problem(), (415, "unsupported_media_type".into()));
    assert_eq!(fake.executed("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn unauthorized_caller_learns_nothing_of_the_body() {
    let gateway = answering(Fake::Silence).await;
    for (role, expected) in [(None, (401, "unauthorized")), (Some(Role::Reader), (403, "forbidden"))] {
        for body in [ECHO, "{", ""] {
            let answered = gateway.ask(request(Method::POST, "/api/v1/mcp/call", role, body)).await;
            assert_eq!(answered.problem(), (expected.0, expected.1.to_owned()));
            assert_eq!(answered.header("www-authenticate"), if role.is_none() { "Bearer" } else { "" });
        }
    }
}
