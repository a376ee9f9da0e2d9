//! Answers to clients, as JSON that no cache keeps, and the lines of refused requests in the log.
//!
//! Invariants: any stranger can cause a refusal, so its line is rate-limited. It has the error and no text of the request.
//!
//! Source: RFC 6749, sections 5.1 and 5.2; RFC 6585, section 4.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde_json::json;

use authorization::Error;
use runtime::telemetry::{RequestId, pace};

/// The media type of answers, and of the bodies of registrations.
pub(super) const JSON: &str = "application/json";
/// The error code of requests that are refused for now.
const LATER: &str = "temporarily_unavailable";
/// The error code of requests that are not valid as such.
const INVALID: &str = "invalid_request";

/// An answer with `body`, which is JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, JSON),
        (CACHE_CONTROL, "no-store"),
        (PRAGMA, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The answer to the request `id`, which the authorization server refused.
pub(super) fn error(error: &Error, id: RequestId) -> Response {
    log_refused(error, id);
    let answer = json(error.status(), error.json().to_string());
    match error.retry_after {
        Some(seconds) => after(answer, seconds),
        None => answer,
    }
}

/// The answer to a request that is not valid as such.
pub(super) fn invalid(status: StatusCode, description: &str) -> Response {
    json(status, json!({ "error": INVALID, "error_description": description }).to_string())
}

/// The answer to a request of an address that sends too many.
pub(super) fn too_many(seconds: u64) -> Response {
    let description = "too many requests come from this address; try again later";
    let body = json!({ "error": LATER, "error_description": description });
    after(json(StatusCode::TOO_MANY_REQUESTS, body.to_string()), seconds)
}

/// The answer while the audit log has no room.
pub(super) fn busy() -> Response {
    let body = json!({ "error": LATER, "error_description": "the gateway is busy; try again" });
    after(json(StatusCode::SERVICE_UNAVAILABLE, body.to_string()), 1)
}

/// The answer to a method that an endpoint does not have. The router adds those that it has.
pub(super) async fn method_not_allowed() -> Response {
    invalid(StatusCode::METHOD_NOT_ALLOWED, "this endpoint has no such method; see `Allow`")
}

/// Logs a refused request, unless this error was logged too often.
pub(super) fn log_refused(error: &Error, id: RequestId) {
    let code = error.code.as_str();
    if let Some(suppressed) = pace::refusal(code) {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::info!(request_id = %id, code, reason = %error.description, suppressed, "the authorization server refused a request");
    }
}

fn after(mut answer: Response, seconds: u64) -> Response {
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    answer
}
