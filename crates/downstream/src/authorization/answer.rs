//! Answers to clients, as JSON that no cache keeps.
//!
//! Source: RFC 6749, sections 5.1 and 5.2; RFC 6585, section 4.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde_json::json;

/// An answer with `body`, which is JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (PRAGMA, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The answer to a request that the authorization server refused.
pub(super) fn error(error: &authorization::Error) -> Response {
    let mut answer = json(error.status(), error.json().to_string());
    if let Some(seconds) = error.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// The answer to a request that is refused before anything else of it is read.
pub(super) fn refused(status: StatusCode, code: &'static str, description: &'static str) -> Response {
    json(status, json!({ "error": code, "error_description": description }).to_string())
}

/// The answer to a method that an endpoint does not have. The router adds those that it has.
pub(super) async fn method_not_allowed() -> Response {
    refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "invalid_request",
        "this endpoint has no such method; see `Allow`",
    )
}
