//! What a failure to send a request, or to read its answer, means; and what an answer says that is
//! nothing but its status.
//!
//! Invariant: reasons name neither the URL nor a header, because both may hold secrets.

use std::error::Error as StdError;
use std::iter;
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;

use crate::error::Error;
use net::transfer_coding;
use runtime::telemetry::limit::Limit;

/// What is known of a request that a connection took and did not answer.
pub(super) fn unanswered(error: &hyper::Error) -> Error {
    let reason = reason(error);
    if error.is_canceled() { Error::NotSent { reason } } else { Error::Lost { reason } }
}

/// The error for a server that sends interim responses, or a head, beyond the limit.
pub(super) fn flooded() -> Error {
    let reason =
        "the server sent more than 64 KiB before the final head of its answer; the connection is closed";
    Limit::ServerFloods.met(Error::Cut { reason: reason.into() })
}

/// Why, in words: the causes from the outside in, each once.
pub fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut reason = String::new();
    for cause in iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string) {
        if cause.is_empty() || reason.contains(&cause) {
            continue;
        }
        if !reason.is_empty() {
            reason.push_str(": ");
        }
        reason.push_str(&cause);
    }
    if reason.is_empty() { "the connection failed".into() } else { reason }
}

/// `answer`, if it has no other transfer coding than `chunked`.
pub fn decoded(answer: Response<Incoming>) -> Result<Response<Incoming>, Error> {
    if transfer_coding::is_supported(answer.headers(), answer.body()) {
        return Ok(answer);
    }
    let reason = "the answer has a transfer coding other than `chunked`, which was not asked for";
    Err(Error::Malformed { reason: reason.into() })
}

/// The error for an answer that is nothing but its status.
pub(in super::super) fn status_error(status: StatusCode, headers: &HeaderMap) -> Error {
    Error::Status { status: status.as_u16(), retry_after: retry_after(headers) }
}

/// RFC 9110, 10.2.3: seconds or a date.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A date that has passed means now.
    Some(date.duration_since(std::time::SystemTime::now()).unwrap_or_default())
}

/// Whether `headers` announce the media type `wanted`; parameters and case do not matter.
pub(in super::super) fn is_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    // What nearly everybody writes needs no look at its parts.
    if value == wanted || value == "application/json" {
        return value == wanted;
    }
    let value = value.to_str().unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after = |value| retry_after(&headers(RETRY_AFTER, value));
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        assert!(after("Fri, 31 Dec 2100 23:59:59 GMT").is_some_and(|pause| pause > Duration::from_hours(1)));
        assert_eq!(after("soon"), None);
        assert_eq!(after("-1"), None);
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let is = |value| is_media_type(&headers(CONTENT_TYPE, value), "text/event-stream");
        assert!(
            is("text/event-stream") && is("Text/Event-Stream; charset=utf-8") && is(" text/event-stream ;x")
        );
        assert!(!is("application/json") && !is("text/event-streams") && !is(""));
    }

    #[test]
    fn a_reason_names_each_cause_once() {
        let inner = std::io::Error::other("no route");
        assert_eq!(reason(&std::io::Error::other(inner)), "no route");
    }
}
