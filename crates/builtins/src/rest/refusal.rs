//! Error responses, as errors for people.
//!
//! Invariants: the error shows only the service's own message. It shows no member that repeats the request
//! (`input` of a validation error), no secret of the request, and no stack trace (`trace`). The message is
//! one short line. A body that is not JSON is not shown, because it may contain anything.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::{facts, trace};
use json::Raw;
use net::http::{Response, retry_after, whole};
use runtime::secret::{ExposeSecret, SecretString};
use upstream::api::{Error, Secrets};

/// Most bytes of an error response that are read.
const MOST_BYTES: usize = 64 << 10;
/// Most characters of the message that are shown.
const LONGEST: usize = 300;
/// Most problems of one validation error that are shown.
const MOST_PROBLEMS: usize = 5;

/// Returns the error of `response`. `secrets` were sent with the request. The bytes that are read count for
/// `origin`.
pub(super) async fn of(response: Response, secrets: &[SecretString], origin: &Arc<str>) -> Error {
    let status = response.status();
    let waits = retry_after(response.headers());
    let body = whole(response.into_body(), MOST_BYTES, origin).await.unwrap_or_default();
    let cleaner = Cleaner::new(secrets);
    let said = said(&body).map(|text| cleaner.line(text)).filter(|text| !text.is_empty());
    let detail = said.unwrap_or_else(|| of_status(status));
    let facts = Raw::parse(&body).ok().and_then(|body| facts::facts(&body, &cleaner));
    let retry_after = waits.or_else(|| facts::retry_after(facts.as_ref()?));
    Error::Backend { status: status.as_u16(), detail, retry_after, facts: facts.map(Box::new) }
}

/// Makes text of a service safe to show: short, on one line, and without secrets and stack traces.
pub(crate) struct Cleaner<'a> {
    secrets: &'a [SecretString],
    /// The secrets in other forms, such as Base64.
    forms: Secrets,
}

impl<'a> Cleaner<'a> {
    /// Makes a cleaner that removes `secrets`.
    pub(crate) fn new(secrets: &'a [SecretString]) -> Self {
        Self { secrets, forms: Secrets::new(secrets) }
    }

    /// Returns `text` as one short line, or an empty string if it was only a stack trace.
    pub(crate) fn line(&self, text: String) -> String {
        line(&trace::cut(&self.without_secrets(text)))
    }

    fn without_secrets(&self, text: String) -> String {
        let shown = self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
        let text = shown.fold(text, |text, secret| text.replace(secret, "…"));
        self.forms.blank(&text)
    }
}

/// Returns the message of a service as one short line, without `secrets` and stack traces. It is empty if
/// nothing else is left.
pub(crate) fn plain(text: String, secrets: &[SecretString]) -> String {
    Cleaner::new(secrets).line(text)
}

fn of_status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    }
}

/// Returns the message from the usual forms of errors: `{message}`, `{detail: text}`, `{detail: {message}}`,
/// `{detail: [{loc, msg}]}`, `{error: {message}}`, `{error: text}`.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let nested = |value: &Value| text(value).or_else(|| text(value.get("message")?));
    let said = (body.get("message").and_then(text))
        .or_else(|| body.get("detail").and_then(nested))
        .or_else(|| body.get("detail")?.as_array().map(|problems| invalid(problems)))
        .or_else(|| body.get("error").and_then(nested))?;
    (!said.trim().is_empty()).then_some(said)
}

/// Returns the place of a validation error, such as `body.params.depth`.
pub(super) fn place(problem: &Value) -> String {
    let parts = problem.get("loc").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let parts = parts.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned));
    parts.collect::<Vec<_>>().join(".")
}

/// Returns the place and message of each problem.
fn invalid(problems: &[Value]) -> String {
    let one = |problem: &Value| {
        let what = problem.get("msg").and_then(Value::as_str).unwrap_or("invalid");
        format!("{}: {what}", place(problem))
    };
    problems.iter().take(MOST_PROBLEMS).map(one).collect::<Vec<_>>().join("; ")
}

/// Returns `text` as one short line without control characters. Quotes stay, because people read it.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let whole = words.collect::<Vec<_>>().join(" ");
    let mut line: String = whole.chars().take(LONGEST).collect();
    if line.len() < whole.len() {
        line.push('…');
    }
    line
}
