//! Problem documents (RFC 9457): their members.
//!
//! Invariant: foreign text in a document is truncated. Not here: the codes (`code`), and the mapping of
//! failures to problems (`error`).

use std::borrow::Cow;
use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::code::ProblemCode;
use super::json_object::JsonObject;
use json::Raw;
use protocol::error_data::in_ms;
use protocol::{ErrorCode, ErrorObject};
use runtime::memory::{self, Account, ChargeKind};
use runtime::telemetry::RequestId;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";
/// Limit of foreign text that a document repeats, in characters.
const MAX_TEXT: usize = 2000;

/// A problem document: RFC 9457, with a stable `code` and the facts a program needs to continue.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Document {
    /// Reference to the explanation of `code`.
    #[serde(rename = "type")]
    #[schema(examples("/docs/errors#tool_not_found"))]
    kind: String,
    /// The kind of problem in words, the same for every case of it.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    #[schema(value_type = ProblemCode)]
    code: ErrorCode,
    /// Description of this occurrence.
    detail: String,
    /// Advice for the caller.
    #[schema(value_type = String)]
    pub(super) hint: Cow<'static, str>,
    /// Whether the same call can succeed when it is made again.
    pub(super) retryable: bool,
    /// Milliseconds until it is worth trying again.
    #[serde(rename = "retry_after_ms", skip_serializing_if = "Option::is_none", serialize_with = "in_ms")]
    #[schema(value_type = u64, minimum = 0)]
    pub(super) retry_after: Option<Duration>,
    /// The id of the request, which the gateway's log has too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = true)]
    request_id: Option<RequestId>,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) server: Option<String>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) tool: Option<String>,
    /// Names there are instead, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) available: Vec<String>,
    /// Names that look like the one asked for, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nearest: Vec<String>,
    /// Servers that may have what was asked for, because they were not reached yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unreached: Vec<String>,
    /// Names that are not ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) candidates: Vec<String>,
    /// The members of a tool's definition that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changed: Vec<&'static str>,
    /// Faults of the body, one for each member; at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The JSON-RPC error object of the server, as it sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonObject, nullable = false)]
    rpc_error: Option<Raw>,
    /// The facts that the service behind a built-in server gave about its error, such as `code` and `field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = JsonObject, nullable = false)]
    pub(super) backend: Option<Raw>,
    /// The HTTP status the server answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) server_status: Option<u16>,
    /// Where all connections are taken: how many there can be. Only the listener tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_connections: Option<usize>,
    /// How many are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    current_connections: Option<usize>,
}

/// A fault of one member of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct FieldError {
    /// The member, such as `timeout`; empty for the body as a whole.
    pub(super) field: String,
    /// The value that was sent.
    pub(super) found: String,
    /// The values that are accepted.
    pub(super) expected: String,
}

/// A problem before it is printed; [`super::error::finish`] prints it with the id of its request.
#[derive(Debug, Clone)]
pub(super) struct Problem(Box<Document>);

impl Problem {
    pub(super) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: code.reference(),
            title: code.row().title,
            status: code.row().status,
            code,
            detail: clipped(detail.into()),
            hint: Cow::Borrowed(code.row().action),
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
        }))
    }

    /// A problem of a body that does not match the documentation; the first error becomes the detail.
    pub(super) fn of_fields(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map_or_else(String::new, |error| {
            let at = if error.field.is_empty() { "the body" } else { &error.field };
            format!("{at}: found {}, expected {}", error.found, error.expected)
        });
        Self::new(ErrorCode::InvalidRequest, detail).with(|document| document.errors = errors)
    }

    /// A problem of arguments that the server refused.
    pub(super) fn of_arguments(server: &str, tool: &str, error: &ErrorObject) -> Self {
        Self::new(ErrorCode::InvalidArguments, error.message()).with(|document| {
            document.server = Some(server.to_owned());
            document.tool = Some(tool.to_owned());
            document.rpc_error = Some(error.raw().clone());
        })
    }

    /// A problem of an invalid answer of a server.
    pub(super) fn of_answer(server: &str, tool: &str, detail: &str) -> Self {
        Self::new(ErrorCode::InvalidAnswer, detail).with(|document| {
            document.server = Some(server.to_owned());
            document.tool = Some(tool.to_owned());
        })
    }

    /// Names the server that answered, and the JSON-RPC error object that it sent.
    pub(super) fn answered_by(self, server: Option<&str>, error: Option<&ErrorObject>) -> Self {
        self.with(|document| {
            document.server = server.map(str::to_owned);
            document.rpc_error = error.map(|error| error.raw().clone());
        })
    }

    pub(super) fn hinting(self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.with(|document| document.hint = hint.into())
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Document)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) const fn code(&self) -> ErrorCode {
        self.0.code
    }

    pub(super) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The server and the tool that the problem concerns, if any.
    pub(super) fn about(&self) -> [Option<&str>; 2] {
        [self.0.server.as_deref(), self.0.tool.as_deref()]
    }

    /// The header with the value of `retry_after_ms` in whole seconds, rounded up so that a client does not
    /// retry too early.
    pub(crate) fn retry_after(&self) -> Option<HeaderValue> {
        let pause = self.0.retry_after?;
        let seconds = pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0));
        Some(HeaderValue::from(seconds.max(1)))
    }

    /// Prints the document as JSON, charged to `account` until it was written. If the budget has no room for it, what
    /// the server sent is left out.
    pub(super) fn print(&self, id: RequestId, account: &Account) -> Bytes {
        let mut document = self.0.clone();
        document.request_id = Some(id);
        let printed = Raw::of(&*document).bytes().clone();
        memory::hold(printed, || account.clone(), ChargeKind::Answer).unwrap_or_else(|_| {
            (document.rpc_error, document.backend) = (None, None);
            Raw::of(&*document).bytes().clone()
        })
    }
}

/// Truncates `text` to the limit of foreign text.
pub(super) fn clipped(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl IntoResponse for Problem {
    /// Returns the status and the facts; [`super::error::finish`] adds the body, because it knows the
    /// request.
    fn into_response(self) -> Response {
        let mut response = self.0.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
