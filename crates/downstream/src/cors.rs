//! Cross-origin requests (CORS) of web pages with an allowed origin.
//!
//! Invariants: an answer to another origin has no CORS header. `*` is sent by the authorization server only, to its
//! clients. Credentials of the browser are never allowed: tokens travel in headers, so a page must have one itself.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, OPTIONS");
/// Headers of an answer that a page may read, beside the default ones.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "mcp-session-id, mcp-protocol-version, x-request-id, retry-after, www-authenticate, etag",
);
/// How long a browser may remember the permission, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Headers that a page may send, beside those that begin with `mcp-`.
const SENT: [&str; 6] =
    ["accept", "authorization", "content-type", "if-none-match", "last-event-id", "x-api-key"];
/// Limit of requested header names that are checked.
const MAX_NAMES: usize = 64;

/// Whether the request is a preflight, which asks for permission to send the real request.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of an allowed origin: the permitted part of the requested headers.
pub(super) fn preflight(headers: &HeaderMap) -> axum::response::Response {
    let mut response = axum::response::Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let granted = granted(headers);
    if let Some(granted) = HeaderValue::from_str(&granted).ok().filter(|value| !value.is_empty()) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, granted);
    }
    response
}

fn granted(headers: &HeaderMap) -> String {
    let headers_requested =
        headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
    let names =
        headers_requested.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    let may_be_sent = |name: &String| {
        let protocol = name.starts_with("mcp-") && http::HeaderName::try_from(name.as_str()).is_ok();
        protocol || SENT.contains(&name.as_str())
    };
    names.take(MAX_NAMES).filter(may_be_sent).collect::<Vec<_>>().join(", ")
}

/// Lets the page of `origin`, which is allowed, read the answer.
pub(super) fn allow(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    // A cache must not give the answer for one origin to another.
    answer.append(VARY, HeaderValue::from_static("origin"));
}
