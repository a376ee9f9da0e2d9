//! JSON-RPC errors of MCP methods towards clients.
//!
//! Invariant: every error of Switchyard is a `protocol::Problem`, rendered for the era of its client. An invalid parameter
//! is named with what it may be. A bug has the id of its line in the log.
//!
//! This module does not change answers of servers.

use crate::manager::{Error, MEMORY_EXHAUSTED};
use auth::Role;
use json::Raw;
use protocol::{Era, ErrorCode, ErrorObject, Problem, sanitize};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::Full;

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

/// The JSON-RPC error for a client of `era`.
pub fn object(error: &Error, era: Era) -> ErrorObject {
    error.problem().error(era)
}

/// The memory budget has no room for the answer of a call that was made.
pub fn answer_discarded() -> Problem {
    let text = upstream::Error::MemoryExhausted.to_string();
    Problem::new(ErrorCode::MemoryExhausted, text).hinting(MEMORY_EXHAUSTED)
}

/// The memory budget has no room for the answer of a call that was made.
pub fn memory_exhausted(era: Era) -> ErrorObject {
    answer_discarded().error(era)
}

/// The refusal of an action whose audit line could not be written.
pub fn audit_full(full: Full, era: Era) -> ErrorObject {
    Problem::from(full).error(era)
}

/// Refuses the request of a client of `era` with `code`.
pub fn refusal(code: ErrorCode, era: Era, text: &str) -> ErrorObject {
    Problem::new(code, text).error(era)
}

/// A bug of Switchyard; `id` is in its line of the log, which the caller writes.
pub fn internal(text: &str, id: RequestId) -> ErrorObject {
    let problem = Problem::new(ErrorCode::InternalError, text);
    problem.with(|problem| problem.request_id = Some(id.to_string())).error(Era::Modern)
}

/// A server's answer that does not fit its revision.
pub fn invalid_answer(text: &str) -> ErrorObject {
    refusal(ErrorCode::InvalidAnswer, Era::Modern, text)
}

/// The refusal of an action that the caller's role does not allow. No MCP method operates Switchyard, so the role
/// *caller* is enough for everything that is refused here.
pub fn forbidden(action: &str) -> ErrorObject {
    let text = format!("this credential may not {action}; it needs the role {}", Role::Caller);
    let hint = format!("use a credential with the role {}", Role::Caller);
    Problem::new(ErrorCode::Forbidden, text).hinting(hint).error(Era::Modern)
}

/// No server has the resource `uri`.
pub(super) fn no_resource(era: Era, uri: &str) -> ErrorObject {
    let text = format!("there is no resource \"{}\"", sanitize::shown(uri));
    Problem::new(ErrorCode::ResourceNotFound, text).with_mcp("uri", &sanitize::uri(uri)).error(era)
}

/// `server`, which was asked to announce changes of the resource `uri`, acknowledged other things only.
pub(super) fn not_acknowledged(server: &str, uri: &str) -> ErrorObject {
    let text = format!(
        "the server \"{server}\" does not tell of the resource \"{}\": it has none of that URI, or does not \
         announce its changes",
        sanitize::shown(uri)
    );
    let problem = Problem::new(ErrorCode::NotTold, text).about(Some(server), None);
    problem.with_mcp("uri", &sanitize::uri(uri)).error(Era::Modern)
}

/// A parameter that does not fit the method.
pub fn bad_input(text: &str, wrong: InvalidParam<'_>) -> ErrorObject {
    let InvalidParam { field, found, valid, suggestion } = wrong;
    let problem = Problem::new(ErrorCode::InvalidParams, text);
    problem.rejecting(field, found, valid, suggestion.to_owned()).error(Era::Modern)
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
    let text: String = refusal.message().chars().take(256).collect();
    needs(capabilities, &format!("the server needs capabilities that the client did not declare: {text}"))
}

/// A modern client lacks `capabilities`, which 2026-07-28 requires in `requiredCapabilities`.
pub fn needs(capabilities: &Raw, text: &str) -> ErrorObject {
    let problem = Problem::new(ErrorCode::CapabilityMissing, text);
    problem.with_mcp("requiredCapabilities", capabilities).error(Era::Modern)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
