//! Error responses, and responses that cannot be read, as errors for people.
//!
//! Invariants: the error shows only the service's own message. It shows no member that repeats the request
//! (`input` of a validation error), no secret of the request, and no stack trace (`cleaner`). The message is
//! one short line. A body that is not JSON is not shown, because it may contain anything.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::cleaner::Cleaner;
use super::facts::{self, place};
use json::Raw;
use json::fault::{Cause, Fault};
use net::http::{Response, retry_after, whole};
use runtime::secret::SecretString;
use upstream::api::Error;

/// Most bytes of an error response that are read.
const MOST_BYTES: usize = 64 << 10;
/// Most problems of one validation error that are shown.
const MOST_PROBLEMS: usize = 5;

/// Returns the error of `response`. `secrets` were sent with the request. The bytes that are read count for
/// `origin`.
pub(super) async fn of(response: Response, secrets: &[SecretString], origin: &Arc<str>) -> Error {
    let status = response.status();
    let waits = retry_after(response.headers());
    let body = whole(response.into_body(), MOST_BYTES, origin).await.unwrap_or_default();
    let cleaner = Cleaner::new(secrets);
    let said = error_text(&body).map(|text| cleaner.line(text)).filter(|text| !text.is_empty());
    let detail = said.unwrap_or_else(|| of_status(status));
    let facts = Raw::parse(&body).ok().and_then(|body| facts::facts(&body, &cleaner));
    let retry_after = waits.or_else(|| facts::retry_after(facts.as_ref()?));
    Error::Backend { status: status.as_u16(), detail, retry_after, facts: facts.map(Box::new) }
}

/// Returns the error of a `body` with a status of success that is not the JSON that was expected. Some services send their
/// errors so.
pub(super) fn of_success(body: &[u8], error: &serde_json::Error, secrets: &[SecretString]) -> Error {
    let said = error_text(body).map(|text| Cleaner::new(secrets).line(text)).filter(|text| !text.is_empty());
    match said {
        Some(said) => {
            Error::Malformed { reason: format!("it is an error with the status of a success: {said}") }
        }
        None if error.is_data() => {
            let (line, column) = (error.line(), error.column());
            Error::Malformed {
                reason: format!("it is other JSON than was expected, at line {line} column {column}"),
            }
        }
        None => not_json(body, error),
    }
}

/// Returns the error of a `body` that is no JSON because of `error`.
pub(crate) fn not_json(body: &[u8], error: &serde_json::Error) -> Error {
    let fault = Fault::of(body, error);
    let reason = match fault.cause {
        Cause::Number(_) => fault.advice(),
        _ => format!("it is not JSON: {fault}"),
    };
    Error::Malformed { reason }
}

fn of_status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    }
}

/// Returns the message from the usual forms of errors: `{message}`, `{detail: text}`, `{detail: {message}}`,
/// `{detail: [{loc, msg}]}`, `{error: {message}}`, `{error: text}`.
fn error_text(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let nested = |value: &Value| text(value).or_else(|| text(value.get("message")?));
    let said = (body.get("message").and_then(text))
        .or_else(|| body.get("detail").and_then(nested))
        .or_else(|| body.get("detail")?.as_array().map(|problems| invalid(problems)))
        .or_else(|| body.get("error").and_then(nested))?;
    (!said.trim().is_empty()).then_some(said)
}

/// Returns the place and message of each problem.
fn invalid(problems: &[Value]) -> String {
    let one = |problem: &Value| {
        let what = problem.get("msg").and_then(Value::as_str).unwrap_or("invalid");
        format!("{}: {what}", place(problem))
    };
    problems.iter().take(MOST_PROBLEMS).map(one).collect::<Vec<_>>().join("; ")
}
