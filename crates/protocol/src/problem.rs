//! One failure of Switchyard as its clients read it, whatever the surface.
//!
//! A [`Problem`] is made where the failure is known: the table (`error_code`) gives what is true of its code, and the
//! failure adds what it knows. Over REST it is a problem document (RFC 9457), which is how it serializes. Over MCP it is
//! a JSON-RPC error ([`Problem::error`]), whose `data` is [`ErrorData`]. Both have the same code, hint and retryability.
//!
//! Invariant: text of others in a problem document is truncated. This module does not decide which failure has which
//! code; the layers do.

use std::borrow::Cow;
// A span of time; `core` has no clock, and this crate may not read one.
use core::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::error_code::{ErrorCode, ErrorKind, Numbers};
use crate::json_object::JsonObject;
use crate::sanitize;
use json::Raw;

/// Seconds until a service that is missing may be back, if nothing tells (specification of `rag`).
pub const USUAL_WAIT: u64 = 30;

/// One failure as a client reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(
    description = "A problem document: RFC 9457, with a stable `code` and the facts a program needs to continue."
)]
pub struct Problem {
    /// Reference to the explanation of `code`.
    #[serde(rename = "type")]
    #[schema(examples("/docs/errors#tool_not_found"))]
    reference: String,
    /// The kind of problem in words, the same for every case of it.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    code: ErrorCode,
    /// Description of this occurrence.
    #[serde(serialize_with = "clipped")]
    pub detail: String,
    /// Advice for the caller.
    #[serde(serialize_with = "clipped")]
    #[schema(value_type = String)]
    pub hint: Cow<'static, str>,
    /// Whether the same call can succeed when it is made again.
    pub retryable: bool,
    /// Milliseconds until it is worth trying again.
    #[serde(rename = "retry_after_ms", skip_serializing_if = "Option::is_none", serialize_with = "in_ms")]
    #[schema(value_type = u64, minimum = 0)]
    pub retry_after: Option<Duration>,
    /// The id of the request, which the gateway's log has too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = true)]
    pub request_id: Option<String>,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "clipped_name")]
    #[schema(nullable = false)]
    pub server: Option<String>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "clipped_name")]
    #[schema(nullable = false)]
    pub tool: Option<String>,
    /// Names there are instead, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
    /// Names that look like the one asked for, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
    /// Servers that may have what was asked for, because they were not reached yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
    /// Names that are not ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// The members of a tool's definition that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<&'static str>,
    /// Faults of the body, one for each member; at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The JSON-RPC error object of the server, as it sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonObject, nullable = false)]
    pub rpc_error: Option<Raw>,
    /// The facts that the service behind a built-in server gave about its error, such as `code` and `field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonObject, nullable = false)]
    pub backend: Option<Raw>,
    /// The HTTP status the server answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub server_status: Option<u16>,
    /// Where all connections are taken: how many there can be. Only the listener tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_connections: Option<usize>,
    /// How many are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    current_connections: Option<usize>,
    /// JSON-RPC error codes, legacy first: those of the code, unless an HTTP status says more.
    #[serde(skip)]
    pub numbers: Numbers,
    /// Kind of the error, `type` of `error.data`: that of the code, unless an HTTP status says more.
    #[serde(skip)]
    pub kind: ErrorKind,
    /// `detail` of `error.data`, if it is shorter than the message, which names the server.
    #[serde(skip)]
    pub cause: Option<String>,
    /// The parameter that is the cause, if one is.
    #[serde(skip)]
    rejected: Option<Rejected>,
    /// Members of `error.data` that this one code has, and no problem document.
    #[serde(skip)]
    mcp_members: Vec<(&'static str, Raw)>,
}

/// A fault of one member of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The member, such as `timeout`; empty for the body as a whole.
    pub field: String,
    /// The value that was sent.
    pub found: String,
    /// The values that are accepted.
    pub expected: String,
}

/// A parameter that was rejected, as in `invalid_params` (specification of the built-in `rag`, "Error words"). Its
/// `suggestion` is the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rejected {
    /// Path of the parameter, such as `params.name`.
    field: String,
    /// Its value; null if there is none, or if it is sealed.
    value: Option<Raw>,
    /// The values that it may have.
    range: String,
}

impl Problem {
    /// Returns the problem with what the table says of `code`.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        let row = code.row();
        Self {
            reference: code.reference(),
            title: row.title,
            status: row.status,
            code,
            detail: detail.into(),
            hint: Cow::Borrowed(row.action),
            retryable: code.is_retryable(),
            retry_after: None,
            request_id: None,
            server: None,
            tool: None,
            available: Vec::new(),
            nearest: Vec::new(),
            unreached: Vec::new(),
            candidates: Vec::new(),
            changed: Vec::new(),
            errors: Vec::new(),
            rpc_error: None,
            backend: None,
            server_status: None,
            max_connections: None,
            current_connections: None,
            numbers: code.numbers(),
            kind: row.kind,
            cause: None,
            rejected: None,
            mcp_members: Vec::new(),
        }
    }

    /// Returns it after `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Sets more exact advice than that of the table.
    #[must_use]
    pub fn hinting(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Says that the unchanged request can succeed after `pause`.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self { retryable: true, retry_after: Some(pause), ..self }
    }

    /// Names the server that it is about, and the tool.
    #[must_use]
    pub fn about(self, server: Option<&str>, tool: Option<&str>) -> Self {
        Self { server: server.map(str::to_owned), tool: tool.map(str::to_owned), ..self }
    }

    /// Says that all `most` connections or sessions are taken.
    #[must_use]
    pub fn at_limit(self, most: usize) -> Self {
        Self { max_connections: Some(most), current_connections: Some(most), ..self }
    }

    /// Names the parameter that is the cause, its value and the `valid` ones. `suggestion` becomes the hint.
    #[must_use]
    pub fn rejecting(
        self,
        field: impl Into<String>,
        found: Option<&Raw>,
        valid: impl Into<String>,
        suggestion: impl Into<Cow<'static, str>>,
    ) -> Self {
        let value = found.map(sanitize::value);
        let rejected = Rejected { field: field.into(), value, range: valid.into() };
        Self { rejected: Some(rejected), ..self.hinting(suggestion) }
    }

    /// Returns it with a member that only `error.data` has.
    #[must_use]
    pub fn with_mcp<T: Serialize + ?Sized>(mut self, name: &'static str, value: &T) -> Self {
        self.add_mcp(name, value);
        self
    }

    /// Adds a member that only `error.data` has.
    pub fn add_mcp<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        self.mcp_members.push((name, Raw::of(value)));
    }

    /// Returns it with the code that it has over REST; hint and retryability stay.
    #[must_use]
    pub fn over_rest(self) -> Self {
        let code = self.code.over_rest();
        let row = code.row();
        Self { code, reference: code.reference(), title: row.title, status: row.status, ..self }
    }

    /// Its code.
    pub const fn code(&self) -> ErrorCode {
        self.code
    }

    /// Whether Switchyard or a server failed. Otherwise the request was refused, and its client can correct it.
    pub const fn is_failure(&self) -> bool {
        self.status >= 500
    }

    /// The value of `Retry-After`: whole seconds, rounded up so that no client retries too early.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|pause| whole_seconds(pause).max(1))
    }
}

/// `error.data` of a problem: the members of problem documents under the same names, and those that specifications
/// promised to clients, only where they promised them.
pub(crate) struct ErrorData<'a>(pub(crate) &'a Problem);

impl ErrorData<'_> {
    /// Writes the names that specifications demand beside those that every error has.
    fn promised<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Problem { kind, hint, retryable, request_id, rejected, .. } = self.0;
        let (is_away, is_full) =
            (*kind == ErrorKind::ServiceUnavailable, *kind == ErrorKind::ConnectionLimitExceeded);
        let seconds = self.0.retry_after.map(whole_seconds);
        let usual = (is_away && *retryable).then_some(USUAL_WAIT);
        let error_id = request_id.as_deref().filter(|_| *kind == ErrorKind::InternalError);
        // Specifications of `r2r` and `rag`.
        map.serialize_entry("type", kind)?;
        // Specification of `r2r`: wherever a time to wait is known.
        entry(map, "retry_after", seconds)?;
        // Specification of `rag`.
        entry(map, "retry_after_seconds", seconds.filter(|_| is_away || is_full).or(usual))?;
        entry(map, "guidance", is_away.then_some(hint))?;
        entry(map, "error_id", error_id)?;
        if let Some(Rejected { field, value, range }) = rejected {
            map.serialize_entry("field", field)?;
            map.serialize_entry("rejected_value", value)?;
            map.serialize_entry("valid_range", range)?;
            map.serialize_entry("suggestion", hint)?;
        }
        Ok(())
    }
}

impl Serialize for ErrorData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let problem = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &problem.code)?;
        map.serialize_entry("detail", problem.cause.as_ref().unwrap_or(&problem.detail))?;
        map.serialize_entry("hint", &problem.hint)?;
        map.serialize_entry("retryable", &problem.retryable)?;
        entry(&mut map, "retry_after_ms", problem.retry_after.map(whole_ms))?;
        entry(&mut map, "request_id", problem.request_id.as_ref())?;
        entry(&mut map, "server", problem.server.as_ref())?;
        entry(&mut map, "tool", problem.tool.as_ref())?;
        self.promised(&mut map)?;
        for (name, value) in &problem.mcp_members {
            map.serialize_entry(name, value)?;
        }
        entry(&mut map, "nearest", some(&problem.nearest))?;
        entry(&mut map, "available", some(&problem.available))?;
        entry(&mut map, "candidates", some(&problem.candidates))?;
        entry(&mut map, "unreached", some(&problem.unreached))?;
        entry(&mut map, "changed", some(&problem.changed))?;
        entry(&mut map, "status_code", problem.server_status)?;
        entry(&mut map, "backend", problem.backend.as_ref())?;
        entry(&mut map, "max_connections", problem.max_connections)?;
        entry(&mut map, "current_connections", problem.current_connections)?;
        map.end()
    }
}

fn entry<M: SerializeMap>(map: &mut M, name: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, &value))
}

fn some<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

fn whole_seconds(pause: Duration) -> u64 {
    pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0))
}

/// Milliseconds of a time to wait, rounded up, so that no client retries too early.
fn whole_ms(pause: Duration) -> u64 {
    let sub_ms = u128::from(!pause.subsec_nanos().is_multiple_of(1_000_000));
    u64::try_from(pause.as_millis() + sub_ms).unwrap_or(u64::MAX)
}

#[allow(clippy::ref_option)] // serde passes a reference
fn in_ms<S: Serializer>(pause: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    pause.map(whole_ms).serialize(serializer)
}

fn clipped<S: Serializer>(text: &impl AsRef<str>, serializer: S) -> Result<S::Ok, S::Error> {
    sanitize::clipped(text.as_ref().to_owned()).serialize(serializer)
}

#[allow(clippy::ref_option)] // serde passes a reference
fn clipped_name<S: Serializer>(name: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    name.clone().map(sanitize::clipped).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn data(problem: &Problem) -> Value {
        Raw::of(&ErrorData(problem)).read().expect("JSON")
    }

    #[test]
    fn names_of_the_specifications_stand_only_where_they_are_demanded() {
        let limited = Problem::new(ErrorCode::Overloaded, "busy").after(Duration::from_millis(1500));
        assert_eq!(
            data(&limited),
            json!({
                "code": "overloaded", "detail": "busy", "hint": ErrorCode::Overloaded.row().action, "retryable": true,
                "retry_after_ms": 1500, "type": "rate_limited", "retry_after": 2,
            })
        );
        let away = Problem::new(ErrorCode::ConnectionFailed, "no route").after(Duration::from_secs(2));
        let away = data(&away);
        assert_eq!((&away["retry_after_seconds"], &away["guidance"]), (&json!(2), &away["hint"]));
        let bug =
            Problem { request_id: Some("7".into()), ..Problem::new(ErrorCode::InternalError, "failed") };
        let bug = data(&bug);
        assert_eq!((&bug["error_id"], &bug["request_id"]), (&json!("7"), &json!("7")));
        let bad = Problem::new(ErrorCode::InvalidParams, "no a");
        let bad = data(&bad.rejecting("params.a", None, "a string", "send one"));
        assert_eq!((&bad["hint"], &bad["suggestion"]), (&json!("send one"), &json!("send one")));
        assert_eq!((bad.get("guidance"), bad.get("rejected_value")), (None, Some(&json!(null))));
        let full =
            data(&Problem::new(ErrorCode::TooManySessions, "no").after(Duration::from_secs(5)).at_limit(3));
        assert_eq!((&full["max_connections"], &full["retry_after_seconds"]), (&json!(3), &json!(5)));
    }

    #[test]
    fn document_has_no_name_of_error_data_alone() {
        let problem = Problem::new(ErrorCode::ConnectionFailed, "server \"a\": no route")
            .about(Some("a"), None)
            .after(Duration::from_millis(1500))
            .with_mcp("uri", "a://b");
        let problem = Problem { cause: Some("no route".into()), server_status: Some(502), ..problem };
        let (document, data): (Value, _) = (Raw::of(&problem).read().expect("JSON"), data(&problem));
        let row = ErrorCode::ConnectionFailed.row();
        assert_eq!(
            document,
            json!({
                "type": "/docs/errors#connection_failed", "title": row.title, "status": 502,
                "code": "connection_failed", "detail": "server \"a\": no route", "hint": row.action,
                "retryable": true, "retry_after_ms": 1500, "server": "a", "server_status": 502,
            })
        );
        assert_eq!(problem.retry_after_seconds(), Some(2));
        assert_eq!(
            (&data["detail"], &data["uri"], &data["status_code"]),
            (&json!("no route"), &json!("a://b"), &json!(502))
        );
    }

    #[test]
    fn foreign_text_is_clipped_in_documents() {
        let long = "é".repeat(100_000);
        let problem = Problem::new(ErrorCode::NotFound, &*long).about(Some(&long), Some(&long)).hinting(long);
        assert!(Raw::of(&problem).bytes().len() < 20_000);
    }

    #[test]
    fn code_of_mcp_alone_has_another_one_over_rest_and_keeps_its_hint() {
        let problem = Problem::new(ErrorCode::PromptNotFound, "none").over_rest();
        assert_eq!((problem.code(), problem.status), (ErrorCode::NotFound, 404));
        assert_eq!(problem.hint, ErrorCode::PromptNotFound.row().action);
    }

    #[test]
    fn a_time_to_wait_is_rounded_up_and_never_overflows() {
        for (pause, ms) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(1), 1),
            (Duration::from_micros(1_001), 2),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_ms(pause), ms, "{pause:?}");
        }
        let far = Problem::new(ErrorCode::Overloaded, "").after(Duration::MAX);
        assert_eq!(far.retry_after_seconds(), Some(u64::MAX));
        assert_eq!(far.after(Duration::ZERO).retry_after_seconds(), Some(1));
    }
}
