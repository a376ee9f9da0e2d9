//! Tests of `problem`: every failure of the facade as a problem document, and the layer that prints.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Router, middleware};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::fixture::Answered;
use super::*;
use gateway::manager::{Error as E, ItemKind};
use upstream::Error as U;

async fn answered(router: Router) -> Answered {
    let request = Request::get("/").body(Body::empty()).expect("a request");
    let answer = router.layer(middleware::from_fn(finish)).oneshot(request).await.expect("infallible");
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body in memory");
    Answered { status: parts.status, headers: parts.headers, body }
}

async fn document_of(error: E) -> (Answered, Value) {
    let problem = Problem::from(error);
    let router = Router::new().route("/", get(|| async move { Err::<(), _>(problem) }));
    let answered = answered(router).await;
    let document = answered.json();
    (answered, document)
}

fn upstream(source: U) -> E {
    E::Upstream { server: "docs".into(), tool: Some("find".into()), source, retry_in: None }
}

#[tokio::test]
async fn each_failure_of_a_server_has_its_status_and_code() {
    let reason = || "it broke".to_owned();
    let soon = Duration::from_millis(2100);
    for (error, status, code, retry_after) in [
        (U::CircuitOpen { retry_in: soon }, 503, "circuit_open", "3"),
        (U::Overloaded { retry_in: Duration::from_millis(1) }, 429, "overloaded", "1"),
        (U::Connect { reason: reason() }, 502, "connection_failed", ""),
        (U::NotSent { reason: reason() }, 502, "connection_failed", ""),
        (U::Lost { reason: reason() }, 502, "outcome_unknown", ""),
        (U::Cut { reason: reason() }, 502, "outcome_unknown", ""),
        (U::TimedOut { after: soon }, 504, "timed_out", ""),
        (
            U::Status { status: 503, retry_after: Some(Duration::MAX), detail: String::new() },
            502,
            "server_error",
            "18446744073709551615",
        ),
        (U::Status { status: 429, retry_after: Some(soon), detail: String::new() }, 429, "rate_limited", "3"),
        (U::Status { status: 429, retry_after: None, detail: String::new() }, 429, "rate_limited", "30"),
        (U::Status { status: 500, retry_after: None, detail: String::new() }, 502, "server_error", ""),
        (U::Status { status: 504, retry_after: Some(soon), detail: String::new() }, 502, "server_error", "3"),
        (U::Status { status: 404, retry_after: None, detail: String::new() }, 502, "invalid_answer", ""),
        (U::Status { status: 401, retry_after: None, detail: String::new() }, 503, "auth_failed", ""),
        (U::Status { status: 403, retry_after: Some(soon), detail: String::new() }, 503, "auth_failed", ""),
        (
            U::Backend { status: 429, detail: reason(), retry_after: Some(soon), facts: None },
            429,
            "rate_limited",
            "3",
        ),
        (U::backend(429, reason()), 429, "rate_limited", "30"),
        (U::backend(404, reason()), 502, "backend_error", ""),
        (U::AuthFailed { reason: reason() }, 503, "auth_failed", ""),
        (U::Malformed { reason: reason() }, 502, "invalid_answer", ""),
        (U::TooLarge { limit: 5 }, 502, "invalid_answer", ""),
        (U::Unavailable { state: "disabled" }, 503, "server_unavailable", ""),
    ] {
        let text = upstream(error.clone()).to_string();
        let (answered, document) = document_of(upstream(error.clone())).await;
        assert_eq!(answered.problem(), (status, code.to_owned()), "{error:?}");
        assert_eq!(answered.header("retry-after"), retry_after, "{error:?}");
        assert_eq!((&document["server"], &document["tool"]), (&json!("docs"), &json!("find")));
        assert_eq!(document["detail"], text);
        assert_eq!(document["retry_after_ms"].is_u64(), !retry_after.is_empty());
        assert_eq!(document["server_status"].is_u64(), matches!(error, U::Status { .. } | U::Backend { .. }));
    }
}

#[test]
fn mcp_clients_are_told_the_same_codes() {
    let reason = || "it broke".to_owned();
    for error in [
        upstream(U::CircuitOpen { retry_in: Duration::ZERO }),
        upstream(U::Overloaded { retry_in: Duration::ZERO }),
        upstream(U::Connect { reason: reason() }),
        upstream(U::NotSent { reason: reason() }),
        upstream(U::Lost { reason: reason() }),
        upstream(U::Cut { reason: reason() }),
        upstream(U::TimedOut { after: Duration::ZERO }),
        upstream(U::Status { status: 500, retry_after: None, detail: String::new() }),
        upstream(U::Status { status: 401, retry_after: None, detail: String::new() }),
        upstream(U::Status { status: 429, retry_after: None, detail: String::new() }),
        upstream(U::Status { status: 400, retry_after: None, detail: String::new() }),
        upstream(U::backend(500, reason())),
        upstream(U::AuthFailed { reason: reason() }),
        upstream(U::Malformed { reason: reason() }),
        upstream(U::TooLarge { limit: 5 }),
        upstream(U::Unavailable { state: "disabled" }),
        E::server_not_found("x", std::iter::empty()),
        E::name_not_found(ItemKind::Tool, "x", None, std::iter::empty()),
        E::Ambiguous { kind: ItemKind::Tool, name: "x".into(), candidates: Vec::new(), before: None },
        E::ToolChanged { server: "docs".into(), tool: "x".into(), changed: Vec::new() },
        upstream(U::Overloaded { retry_in: Duration::ZERO }),
        upstream(U::backend(429, reason())),
    ] {
        let object = gateway::error::object(&error, protocol::Era::Modern);
        let is_refusal = object.problem().is_some_and(|problem| !problem.is_failure());
        let data = object.data().expect("facts");
        let document =
            serde_json::from_slice::<Value>(&Problem::from(error).print(RequestId::new(), &Account::Nobody))
                .expect("JSON");
        for member in ["code", "hint", "retryable"] {
            assert_eq!(data.get_as::<Value>(member).as_ref(), Some(&document[member]), "{member}");
        }
        for member in ["retry_after_ms", "server", "tool"] {
            assert_eq!(data.get_as::<Value>(member).as_ref(), document.get(member), "{member}");
        }
        assert!(document["detail"].as_str().is_some_and(|text| !text.is_empty()), "{document}");
        for double in
            ["error_type", "error_id", "suggestion", "guidance", "retry_after_seconds", "retry_after"]
        {
            assert_eq!(document.get(double), None, "{document}");
        }
        // And their lines in the log have the same level.
        assert_eq!(is_refusal, document["status"].as_u64() < Some(500), "{document}");
    }
}

#[tokio::test]
async fn unknown_names_come_with_what_there_is() {
    let names = ["search_handbook", "ping"];
    let (answered, document) =
        document_of(E::name_not_found(ItemKind::Tool, "serch_handbook", Some("docs"), names.into_iter()))
            .await;
    assert_eq!(answered.problem(), (404, "tool_not_found".to_owned()));
    assert_eq!(document["tool"], "serch_handbook");
    assert_eq!(document["server"], "docs");
    assert!(document.get("available").is_none(), "thousands may exist");
    assert_eq!(document["nearest"][0], "search_handbook");
    assert_eq!(document["hint"], "did you mean \"search_handbook\"?");
    let (answered, document) = document_of(E::server_not_found("zzz", ["docs"].into_iter())).await;
    assert_eq!(answered.problem(), (404, "server_not_found".to_owned()));
    assert_eq!(document["available"], json!(["docs"]));
    assert!(document.get("nearest").is_none() && document.get("tool").is_none());
    assert!(
        document["hint"].as_str().is_some_and(|text| text.contains("GET /api/v1/mcp/servers")),
        "{document}"
    );
    let candidates = ["a__t".to_owned(), "b__t".to_owned()].to_vec();
    let (answered, document) =
        document_of(E::Ambiguous { kind: ItemKind::Tool, name: "t".into(), candidates, before: None }).await;
    assert_eq!(answered.problem(), (400, "ambiguous_tool".to_owned()));
    assert_eq!(document["candidates"], json!(["a__t", "b__t"]));
}

#[tokio::test]
async fn foreign_text_is_clipped() {
    let (answered, _) = document_of(E::server_not_found(&"é".repeat(100_000), std::iter::empty())).await;
    assert!(answered.body.len() < 20_000, "{} bytes", answered.body.len());
}

#[tokio::test]
async fn a_panic_is_a_problem_and_tells_nothing() {
    async fn broken() -> StatusCode {
        panic!("secret {}", 1)
    }
    let answered = answered(Router::new().route("/", get(broken))).await;
    assert_eq!(answered.problem(), (500, "internal_error".to_owned()));
    assert!(!answered.text().contains("secret"));
}

#[tokio::test]
async fn every_answer_has_an_id_and_is_not_stored() {
    let answered = answered(Router::new().route("/", get(|| async { "fine" }))).await;
    assert_eq!(answered.text(), "fine");
    assert_eq!(answered.header("x-request-id").len(), 36);
    assert_eq!(answered.header("cache-control"), "no-store");
}
