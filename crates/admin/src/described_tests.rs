//! Random requests to every operation of the `OpenAPI` document: none is answered by 5xx, and each answer is one that
//! the document describes.
//!
//! `SWITCHYARD_CASES` is the number of cases per operation; `scripts/test cases` runs 10,000.

use axum::body::Body;
use axum::http::{Method, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use super::fixture::{Answer, Gateway, server};
use auth::{Principal, Role};

/// Cases per operation in a run of the whole suite.
const CASES: u32 = 1_000;

/// One request, less its method and path.
#[derive(Debug, Clone)]
struct Case {
    /// Stands for the parameter of the path.
    name: String,
    query: String,
    content_type: Option<&'static str>,
    body: Vec<u8>,
    role: Option<Role>,
}

/// Names that exist, names that do not, and pieces of paths that no name may become.
fn names() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "%",
        "%zz",
        "%ff%fe",
        "%00",
        "..",
        "%2e%2e",
        "%2F",
        "docs%2Fx",
        "%E2%80%AE",
    ]);
    let encoded = "\\PC{0,40}".prop_map(|text| utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string());
    prop_oneof![2 => Just("docs".to_owned()), 1 => odd.prop_map(str::to_owned), 2 => encoded]
}

fn queries() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "tool", "sha256", "timeout", "query", "server", "limit", "cursor", "x", "",
    ]);
    let pair = (key, names()).prop_map(|(key, value)| format!("{key}={value}"));
    prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join("&"))
}

/// Texts that are often almost a call, and bytes that are none.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("\"echo\"".to_owned()),
        Just("\"docs\"".to_owned()),
        Just("{\"a\":1e999}".to_owned()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        "\\PC{0,12}",
        "\"\\PC{0,12}\"",
    ];
    let key = prop_oneof![
        Just("tool".to_owned()),
        Just("server".to_owned()),
        Just("arguments".to_owned()),
        Just("uri".to_owned()),
        Just("id".to_owned()),
        Just("result".to_owned()),
        Just("timeout".to_owned()),
        "[a-z\\\\u0]{0,8}",
    ];
    let member = (key, value).prop_map(|(key, value)| format!("\"{key}\":{value}"));
    let object = prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(",")));
    prop_oneof![
        4 => object.prop_map(String::into_bytes),
        1 => "\\PC{0,60}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..100),
        1 => Just(Vec::new()),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let types =
        vec![Some("application/json"), Some("Application/JSON; charset=utf-8"), Some("text/plain"), None];
    let json = prop_oneof![3 => Just(Some("application/json")), 1 => prop::sample::select(types)];
    let roles =
        vec![None, Some(Role::Reader), Some(Role::Caller), Some(Role::Superuser), Some(Role::Superuser)];
    let parts = (names(), queries(), json, bodies(), prop::sample::select(roles));
    parts.prop_map(|(name, query, content_type, body, role)| Case { name, query, content_type, body, role })
}

/// None where the path is no URI, which never reaches the router.
fn request(method: &Method, path: &str, case: Case) -> Option<Request<Body>> {
    let path = path.replace("{name}", &case.name).replace("{call}", &case.name);
    let mut request = Request::builder().method(method).uri(format!("{path}?{}", case.query));
    if let Some(content_type) = case.content_type {
        request = request.header("content-type", content_type);
    }
    let mut request = request.body(Body::from(case.body)).ok()?;
    if let Some(role) = case.role {
        request.extensions_mut().insert(Principal::new("somebody", role));
    }
    Some(request)
}

/// RULES G5: 1,000 cases for each operation, or as many as `SWITCHYARD_CASES` says.
#[test]
fn random_requests_are_answered_as_described() {
    let count = std::env::var("SWITCHYARD_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(CASES);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let docs = server("docs");
    docs.1.answer_calls(Answer::result(&json!({"content": []})));
    let gateway = runtime.block_on(async { Gateway::of(vec![docs]).await.with_grants().await });
    let operations = gateway.operations();
    // A stream of events has no end that could be awaited.
    for (method, path) in operations.iter().filter(|(_, path)| !path.ends_with("/events")) {
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(count) });
        let tried = runner.run(&cases(), |case| {
            let Some(request) = request(method, path, case) else { return Ok(()) };
            let answered = runtime.block_on(gateway.ask(request));
            prop_assert!(!answered.status.is_server_error(), "{} {}", answered.status, answered.text());
            Ok(())
        });
        tried.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    }
    eprintln!("{count} cases for each of {} operations: none answered by 5xx", operations.len());
    assert!(operations.len() >= 14, "{operations:?}");
}
