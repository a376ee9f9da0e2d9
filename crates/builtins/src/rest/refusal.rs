//! An answer that says failure, as an error for people.
//!
//! Invariants: of the body only what the service says itself is shown, never a member that repeats
//! what was sent (`input` of a validation error); no secret of the request, should the text have it;
//! no trace of the service's program (`trace`); one short line. A body that is not JSON is not shown: it
//! may be anything.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::{facts, trace};
use json::Raw;
use net::http::{Response, retry_after, whole};
use runtime::secret::{ExposeSecret, SecretString};
use upstream::api::{Error, Secrets};

/// Bytes of such an answer that are read.
const MOST_BYTES: usize = 64 << 10;
/// Characters of what it says that are shown.
const LONGEST: usize = 300;
/// Problems of one validation error that are shown.
const MOST_PROBLEMS: usize = 5;

/// The error that `response` is. `secrets` were sent with the request, and `origin` pays while it is read.
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

/// Makes texts of a service safe to show: without secrets, traces and line ends, and short.
pub(crate) struct Cleaner<'a> {
    secrets: &'a [SecretString],
    /// The secrets in any other form, such as Base64.
    forms: Secrets,
}

impl<'a> Cleaner<'a> {
    /// Removes `secrets`.
    pub(crate) fn new(secrets: &'a [SecretString]) -> Self {
        Self { secrets, forms: Secrets::new(secrets) }
    }

    /// `text` as one short line. It is empty if it was nothing but a trace.
    pub(crate) fn line(&self, text: String) -> String {
        line(&trace::cut(&self.without_secrets(text)))
    }

    fn without_secrets(&self, text: String) -> String {
        let shown = self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| !secret.is_empty());
        let text = shown.fold(text, |text, secret| text.replace(secret, "…"));
        self.forms.blank(&text)
    }
}

/// What a service says for people: one short line with none of `secrets` and no trace in it; empty when it
/// says nothing else.
pub(crate) fn plain(text: String, secrets: &[SecretString]) -> String {
    Cleaner::new(secrets).line(text)
}

fn of_status(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    }
}

/// What the usual shapes of errors say: `{message}`, `{detail: text}`, `{detail: {message}}`,
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

/// Where a validation error is: `body.params.depth`.
pub(super) fn place(problem: &Value) -> String {
    let parts = problem.get("loc").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let parts = parts.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned));
    parts.collect::<Vec<_>>().join(".")
}

/// Where each problem is and what it is.
fn invalid(problems: &[Value]) -> String {
    let one = |problem: &Value| {
        let what = problem.get("msg").and_then(Value::as_str).unwrap_or("invalid");
        format!("{}: {what}", place(problem))
    };
    problems.iter().take(MOST_PROBLEMS).map(one).collect::<Vec<_>>().join("; ")
}

/// `text` as one short line without control characters. Quotes stay: it is shown to people.
fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let whole = words.collect::<Vec<_>>().join(" ");
    let mut line: String = whole.chars().take(LONGEST).collect();
    if line.len() < whole.len() {
        line.push('…');
    }
    line
}
