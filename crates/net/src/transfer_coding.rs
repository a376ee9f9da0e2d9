//! The transfer coding of a message (RFC 9112, section 6.1): none, or exactly `chunked`.
//!
//! Other codings would have to be undone before the content is read. Parties that disagree about them disagree
//! about where a message ends.

use http::HeaderMap;
use http::header::TRANSFER_ENCODING;
use http_body::Body;

/// Whether the message has no transfer coding, or `chunked` once and no other. A body of known size has none, so its
/// headers are not checked.
pub fn is_supported(headers: &HeaderMap, body: &impl Body) -> bool {
    if body.size_hint().exact().is_some() {
        return true;
    }
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let first = lines.next();
    lines.next().is_none() && first.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}
