//! Refusals of the Chroma tools: each names the argument that could not be used. And an address without a Chroma.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::{Gateway, Registry, eventually};
use testkit::served::Served;

/// A Chroma that is there, has no collections, and refuses to make one with `cause`.
fn refusing(cause: &'static str) -> Served {
    Served::start(Router::new().fallback(move |request: Request| async move { answer(&request, cause) }))
}

fn answer(request: &Request, cause: &str) -> Response {
    let path = request.uri().path();
    let (status, body) = match (request.method().as_str(), path.rsplit('/').next().unwrap_or_default()) {
        ("GET", "heartbeat") => (200, json!({"nanosecond heartbeat": 1})),
        ("GET", "pre-flight-checks") => (200, json!({"max_batch_size": 100})),
        ("GET", "collections") => (200, json!([])),
        ("POST", "collections") => (400, json!({"error": "InvalidArgumentError", "message": cause})),
        ("GET", _) if path.contains("/databases/") && !path.contains("/collections") => (200, json!({})),
        _ => (404, json!({"error": "NotFoundError", "message": "not here"})),
    };
    (StatusCode::from_u16(status).expect("a status"), body.to_string()).into_response()
}

fn registry(url: &str) -> Registry {
    let lines = [
        "transport: builtin".to_owned(),
        "builtin: chroma".to_owned(),
        format!("url: {url}"),
        "chroma: {embedding: {provider: none}}".to_owned(),
    ];
    Registry::new().server("chroma", &lines)
}

async fn before(chroma: &Served) -> Running {
    let gateway = Gateway::of(&registry(&chroma.url())).start().await;
    gateway.offers(&["create_collection", "delete_collection"]).await;
    gateway
}

#[tokio::test]
async fn creating_a_collection_names_the_argument_that_was_wrong() {
    for (cause, arguments, field) in [
        ("", json!({"name": "team docs"}), "name"),
        ("", json!({"name": "docs", "metadata": {"a": {"b": 1}}}), "metadata.a"),
        ("Expected a name containing 3-512 characters", json!({"name": "docs"}), "name"),
        ("Invalid metadata value", json!({"name": "docs", "metadata": {"a": 1}}), "metadata"),
    ] {
        let chroma = refusing(cause);
        let gateway = before(&chroma).await;
        let answer = gateway.call("chroma", "create_collection", arguments.clone()).await.json();
        let refused = &answer["data"];
        assert_eq!(
            (&refused["field"], &refused["type"]),
            (&json!(field), &json!("invalid_params")),
            "{answer}"
        );
        let member = field.split('.').next().expect("a name");
        let given = field.split('.').fold(&arguments, |value, part| &value[part]);
        assert!(given == &refused["rejected_value"] || member == "metadata", "{answer}");
        let message = refused["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("create_collection") && message.contains(cause), "{answer}");
    }
    let chroma = refusing("");
    let gateway = before(&chroma).await;
    let answer: Value = gateway.call("chroma", "delete_collection", json!({"name": "a b"})).await.json();
    assert_eq!(answer["data"]["field"], "name", "{answer}");
}

#[tokio::test]
async fn an_address_without_a_chroma_is_reported_as_a_wrong_url() {
    let other = Served::start(Router::new());
    let gateway = Gateway::of(&registry(&other.url())).start().await;
    let told = eventually("the reason is shown", async || {
        let shown = gateway.get("/servers").await.json().to_string();
        shown.contains("404").then_some(shown)
    })
    .await;
    assert!(told.contains("check `url`, which does not contain /api/v2"), "{told}");
}
