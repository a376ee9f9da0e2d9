//! JSON-RPC errors of Switchyard towards its clients.
//!
//! Invariant: every error of Switchyard is made here, from the table of codes (`protocol::error_code`) and with the
//! members that all errors have (`protocol::error_data`). An invalid parameter is named with what it may be. A bug has
//! the id of its line in the log.
//!
//! This module does not change answers of servers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use crate::invalid_answer::invalid_answer;
use crate::manager::{Error, Named};
use auth::Role;
use json::Raw;
use protocol::error_data::Rejected;
use protocol::{Era, ErrorCode, ErrorData, ErrorObject, Origin, sanitize};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{Full, RETRY_IN};

/// Members of `data` that only some codes have.
#[derive(Debug, Default, Serialize)]
struct Facts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    nearest: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    available: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    candidates: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unreached: &'a [Arc<str>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    changed: &'a [&'static str],
    /// The HTTP status that the server, or the service behind a built-in one, answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// Details of the error of the service behind a built-in server.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a Raw>,
}

impl<'a> Facts<'a> {
    fn of(error: &'a Error) -> Self {
        let facts = Self::default();
        match error {
            Error::ServerNotFound { available, nearest, .. } => Self { nearest, available, ..facts },
            Error::NameNotFound { kind, name, nearest, unreached, .. } => {
                let prompt = (*kind == Named::Prompt).then_some(&**name);
                Self { prompt, nearest, unreached, ..facts }
            }
            Error::Ambiguous { kind, name, candidates, .. } => {
                let prompt = (*kind == Named::Prompt).then_some(&**name);
                Self { prompt, candidates, ..facts }
            }
            Error::AmbiguousUri { uri, candidates } => Self { uri: Some(uri), candidates, ..facts },
            Error::ResourceNotFound { uri } => Self { uri: Some(uri), ..facts },
            Error::ToolChanged { changed, .. } => Self { changed, ..facts },
            Error::Upstream { source, .. } => {
                Self { status_code: source.status(), backend: source.facts(), ..facts }
            }
            Error::AmbiguousArgument { .. } | Error::OtherDefinition { .. } => facts,
        }
    }
}

/// The URI of a request.
#[derive(Serialize)]
struct OfResource<'a> {
    uri: &'a str,
}

/// An invalid parameter, and what it may be.
#[derive(Debug, Clone, Copy)]
pub struct InvalidParam<'a> {
    /// Its path: `params.name`.
    pub field: &'a str,
    /// Its value, if it has one.
    pub found: Option<&'a Raw>,
    /// The values that it may have.
    pub valid: &'a str,
    /// Advice for the caller.
    pub suggestion: &'a str,
}

impl<'a> From<InvalidParam<'a>> for Rejected<'a> {
    fn from(wrong: InvalidParam<'a>) -> Self {
        let InvalidParam { field, found, valid, suggestion } = wrong;
        Self { field, value: found.map(sanitize::value), range: valid, suggestion }
    }
}

/// The limit and the current number.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limit {
    /// The limit.
    #[serde(rename = "max_connections")]
    pub most: usize,
    /// The number in use.
    #[serde(rename = "current_connections")]
    pub now: usize,
}

/// The JSON-RPC error for a client of `era`.
pub fn object(error: &Error, era: Era) -> ErrorObject {
    let (text, class, hint) = (error.to_string(), error.class(), error.hint());
    let detail = match error {
        Error::Upstream { source, .. } => Cow::Owned(source.to_string()),
        _ => Cow::Borrowed(&*text),
    };
    let mut data = ErrorData::new(class.code, detail);
    if let Some(rejected) = rejected(error, &hint) {
        data = data.rejecting(rejected);
    }
    data.kind = class.kind;
    data.members.hint = Cow::Borrowed(&hint);
    (data.members.retryable, data.members.retry_after) = (class.is_retryable, class.retry_after);
    (data.members.server, data.members.tool) = (error.server(), error.tool());
    let origin = if error.is_refusal() { Origin::Refusal } else { Origin::Failure };
    let number = class.numbered.number(era);
    ErrorObject::new(number, &text).with_data(&data.with(Facts::of(error))).from_us(origin)
}

/// The parameter that is the cause of `error`, if one is.
fn rejected<'a>(error: &'a Error, suggestion: &'a str) -> Option<Rejected<'a>> {
    let (field, value, range) = match error {
        Error::Ambiguous { name, .. } => ("params.name", Some(name), "one of the candidates"),
        Error::AmbiguousUri { uri, .. } => ("params.uri", Some(uri), "one of the candidates"),
        Error::AmbiguousArgument { member, .. } => (&**member, None, "one value"),
        _ => return None,
    };
    Some(Rejected { field, value: value.map(|value| sanitize::value(&Raw::of(value))), range, suggestion })
}

/// Refuses a request over a limit of the client; `limit` has the number.
pub fn limited(
    code: ErrorCode,
    era: Era,
    text: &str,
    retry_after: Duration,
    limit: Option<Limit>,
) -> ErrorObject {
    let mut data = ErrorData::new(code, text);
    (data.members.retryable, data.members.retry_after) = (true, Some(retry_after));
    refused(code.number(era), text, &data.with(limit))
}

/// The memory budget has no room for the answer of a call that was made.
pub fn memory_exhausted(era: Era) -> ErrorObject {
    let source = upstream::Error::MemoryExhausted;
    let text = source.to_string();
    let mut data = ErrorData::new(ErrorCode::MemoryExhausted, &*text);
    data.members.hint = Cow::Borrowed(crate::manager::MEMORY_EXHAUSTED);
    refused(ErrorCode::MemoryExhausted.number(era), &text, &data)
}

/// The refusal of an action whose audit line could not be written.
pub fn audit_full(full: Full, era: Era) -> ErrorObject {
    limited(ErrorCode::AuditFull, era, &full.to_string(), RETRY_IN, None)
}

/// Refuses the request of a client of `era` with `code`.
pub fn refusal(code: ErrorCode, era: Era, text: &str) -> ErrorObject {
    numbered(code.number(era), code, text)
}

/// An error with another number than the table has for `code`.
pub fn numbered(number: i64, code: ErrorCode, text: &str) -> ErrorObject {
    refused(number, text, &ErrorData::new(code, text))
}

/// An error that the client can correct, or wait out.
fn refused<F: Serialize>(number: i64, text: &str, data: &ErrorData<'_, F>) -> ErrorObject {
    ErrorObject::new(number, text).with_data(data).from_us(Origin::Refusal)
}

/// A bug of Switchyard; `id` is in its line of the log, which the caller writes.
pub fn internal(text: &str, id: RequestId) -> ErrorObject {
    let mut data = ErrorData::new(ErrorCode::InternalError, text);
    data.members.request_id = Some(id.to_string());
    ErrorObject::new(ErrorCode::InternalError.number(Era::Modern), text).with_data(&data)
}

/// The refusal of an action that the caller's role does not allow. No MCP method operates Switchyard, so the role
/// *caller* is enough for everything that is refused here.
pub fn forbidden(action: &str) -> ErrorObject {
    let text = format!("this credential may not {action}; it needs the role {}", Role::Caller);
    let mut data = ErrorData::new(ErrorCode::Forbidden, &*text);
    data.members.hint = Cow::Owned(format!("use a credential with the role {}", Role::Caller));
    refused(ErrorCode::Forbidden.number(Era::Modern), &text, &data)
}

/// No server has the resource `uri`.
pub(super) fn no_resource(era: Era, uri: &str) -> ErrorObject {
    let text = format!("there is no resource \"{}\"", sanitize::shown(uri));
    let data = ErrorData::new(ErrorCode::ResourceNotFound, &*text);
    let number = ErrorCode::ResourceNotFound.number(era);
    refused(number, &text, &data.with(OfResource { uri: &sanitize::uri(uri) }))
}

/// `server`, which was asked to announce changes of the resource `uri`, acknowledged other things only.
pub(super) fn not_acknowledged(server: &str, uri: &str) -> ErrorObject {
    let text = format!(
        "the server \"{server}\" does not tell of the resource \"{}\": it has none of that URI, or does not \
         announce its changes",
        sanitize::shown(uri)
    );
    let mut data = ErrorData::new(ErrorCode::NotTold, &*text);
    data.members.server = Some(server);
    refused(
        ErrorCode::NotTold.number(Era::Modern),
        &text,
        &data.with(OfResource { uri: &sanitize::uri(uri) }),
    )
}

/// A parameter that does not fit the method.
pub fn bad_input(text: &str, wrong: InvalidParam<'_>) -> ErrorObject {
    let data = ErrorData::new(ErrorCode::InvalidParams, text).rejecting(wrong.into());
    refused(ErrorCode::InvalidParams.number(Era::Modern), text, &data)
}

/// A cursor that is not from this list.
pub(crate) fn bad_cursor(found: &Raw) -> ErrorObject {
    let wrong = InvalidParam {
        field: "params.cursor",
        found: Some(found),
        valid: "the nextCursor of a page of this list",
        suggestion: "list again from the beginning, without cursor",
    };
    bad_input("the cursor is not one of this list; list again from the beginning", wrong)
}

/// The end of a request whose credential was revoked while it was answered.
pub fn revoked() -> ErrorObject {
    let text = "the credential of this request was revoked or changed; send one that is valid";
    refusal(ErrorCode::Unauthorized, Era::Modern, text)
}

/// The end of a request that needed input from its client and did not get it.
pub fn input(code: ErrorCode, text: &str) -> ErrorObject {
    refusal(code, Era::Modern, text)
}

/// A server's refusal, which came because a modern client lacks capabilities.
pub fn lacking(refusal: &ErrorObject, capabilities: &Raw) -> ErrorObject {
    let said: String = refusal.message().chars().take(256).collect();
    needs(capabilities, &format!("the server needs capabilities that the client did not declare: {said}"))
}

/// A modern client lacks `capabilities`.
pub fn needs(capabilities: &Raw, text: &str) -> ErrorObject {
    /// The member that 2026-07-28 requires.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct RequiredCapabilities<'a> {
        required_capabilities: &'a Raw,
    }
    let data = ErrorData::new(ErrorCode::CapabilityMissing, text);
    let number = ErrorCode::CapabilityMissing.number(Era::Modern);
    refused(number, text, &data.with(RequiredCapabilities { required_capabilities: capabilities }))
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
