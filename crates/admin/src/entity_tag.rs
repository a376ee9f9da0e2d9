//! Entity tags of answers (RFC 9110, section 8.8.3).
//!
//! Invariant: a tag is a digest of the body, so it stays the same after a restart. A weak one leaves out what changes with time
//! alone. It never names a body that the client may not see. Not here: which answers have one.

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::IntoParams;

use super::json_bytes;

/// The header of a conditional request.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // describes the header, which `is_known` reads
pub(super) struct IfNoneMatch {
    /// The `ETag` of the answer that the client has. If the answer is still the same, the status is 304.
    #[param(rename = "If-None-Match", nullable = false)]
    if_none_match: Option<String>,
}

/// A JSON text that is charged already, and its tag.
#[derive(Debug)]
pub(super) struct Tagged {
    pub(super) body: Bytes,
    pub(super) tag: HeaderValue,
}

impl Tagged {
    /// `body` and its tag.
    pub(super) fn of(body: Bytes) -> Self {
        let tag = of(&body);
        Self { body, tag }
    }

    /// The text, or 304 for a client that has it.
    pub(super) fn answer(self, request: &HeaderMap) -> Response {
        let Self { body, tag } = self;
        answer(request, tag, || json_bytes(body))
    }
}

/// The answer that `make` makes, or 304 for a client that has the one with `tag`.
pub(super) fn answer(request: &HeaderMap, tag: HeaderValue, make: impl FnOnce() -> Response) -> Response {
    let mut response =
        if is_known(request, &tag) { StatusCode::NOT_MODIFIED.into_response() } else { make() };
    let headers = response.headers_mut();
    headers.insert(ETAG, tag);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

/// The weak tag of an answer in which `text` is all that counts.
pub(super) fn weak(text: &[u8]) -> HeaderValue {
    let tag = HeaderValue::from_str(&format!("W/\"{}\"", digest_of(text)));
    tag.unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// The strong tag of `body`.
pub(super) fn of(body: &[u8]) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", digest_of(body))).unwrap_or(HeaderValue::from_static("\"\""))
}

/// A digest of `text` that is short enough for a header or a query, in hexadecimal digits.
pub(super) fn digest_of(text: &[u8]) -> String {
    hex::encode(&digest(&SHA256, text).as_ref()[..16])
}

/// Whether `If-None-Match` lists `tag` (RFC 9110, section 13.1.2). Weak tags compare as strong ones.
pub(super) fn is_known(request: &HeaderMap, tag: &HeaderValue) -> bool {
    let lists = request.get_all(IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let own = tag.to_str().map(opaque).unwrap_or_default();
    tags.any(|listed| listed == "*" || opaque(listed) == own)
}
