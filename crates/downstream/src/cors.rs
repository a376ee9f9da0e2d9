//! Cross-origin requests (CORS) of web pages whose origin is on the list.
//!
//! Invariants: no answer to any other origin has a CORS header; never `*`, and never credentials of
//! the browser: tokens travel in headers, so a page has to hold one itself.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
/// What a page may read of an answer beyond the usual.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "mcp-session-id, mcp-protocol-version, x-request-id, retry-after, www-authenticate",
);
/// How long a browser may remember the permission, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// What a page may send, besides everything that begins with `mcp-`.
const SENT: [&str; 5] = ["accept", "authorization", "content-type", "last-event-id", "x-api-key"];
/// More is not looked at.
const MAX_NAMES: usize = 64;

/// Whether a browser asks for permission to send the real request.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of a listed origin: what may be sent, of what was asked for.
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
    let asked =
        headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|value| value.to_str().ok());
    let names = asked.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase());
    let may_be_sent = |name: &String| {
        let protocol = name.starts_with("mcp-") && http::HeaderName::try_from(name.as_str()).is_ok();
        protocol || SENT.contains(&name.as_str())
    };
    names.take(MAX_NAMES).filter(may_be_sent).collect::<Vec<_>>().join(", ")
}

/// Lets the page from `origin`, which is on the list, read the answer.
pub(super) fn allow(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    // A cache must not give the answer for one origin to another.
    answer.append(VARY, HeaderValue::from_static("origin"));
}
