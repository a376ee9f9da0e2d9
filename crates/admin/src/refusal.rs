//! Errors of MCP methods as problem documents.
//!
//! REST joins some calls at the methods of the gateway, whose failures are JSON-RPC errors with the members that all
//! errors have. This module turns them back. Invariant: the code, hint and retryability are those of the table
//! (`protocol::error_code`); `data` of a server is never read as one of Switchyard.
//!
//! Not here: failures of the manager (`error`).

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;

use super::error::of_rest;
use super::problem::{Problem, clipped};
use protocol::error::code::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use protocol::error_code::TABLE;
use protocol::{ErrorCode, ErrorObject, Origin};

/// Members of `error.data` that a problem document has too.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Facts {
    code: String,
    detail: String,
    hint: String,
    retryable: bool,
    retry_after_ms: Option<u64>,
    server: Option<String>,
    tool: Option<String>,
    available: Vec<String>,
    nearest: Vec<String>,
    unreached: Vec<String>,
    candidates: Vec<String>,
    status_code: Option<u16>,
}

/// Whether the call failed because the server needs input that it did not get.
pub(super) fn needs_input(error: &ErrorObject) -> bool {
    use ErrorCode as C;
    let codes = [C::InputRefused, C::ClientCannotBeAsked, C::TooManyRounds, C::TooManyQuestions];
    error.origin() != Origin::Answer && codes.contains(&facts(error).1)
}

/// The problem of `error`, which Switchyard made.
pub(super) fn problem(error: &ErrorObject) -> Problem {
    let (facts, code) = facts(error);
    let detail = if facts.detail.is_empty() { error.message() } else { facts.detail };
    Problem::new(shown(code), detail).with(|document| {
        if !facts.hint.is_empty() {
            document.hint = Cow::Owned(clipped(facts.hint));
        }
        document.retryable = facts.retryable;
        document.retry_after = facts.retry_after_ms.map(Duration::from_millis);
        (document.server, document.tool) = (facts.server, facts.tool);
        (document.available, document.nearest) = (facts.available, facts.nearest);
        (document.unreached, document.candidates) = (facts.unreached, facts.candidates);
        document.server_status = facts.status_code;
        document.backend = error.data().and_then(|data| data.get("backend")).filter(json::Raw::is_object);
    })
}

/// The problem of a read that ended with `error`, an answer of the server or an error of Switchyard.
pub(super) fn of_read(error: &ErrorObject, server: Option<&str>) -> Problem {
    let code = match error.code() {
        _ if error.origin() != Origin::Answer => return problem(error),
        INVALID_PARAMS => ErrorCode::InvalidArguments,
        RESOURCE_NOT_FOUND => ErrorCode::NotFound,
        _ => ErrorCode::ServerError,
    };
    let text = match error.message() {
        text if text.is_empty() => format!("the server answered with the error {}", error.code()),
        text => text,
    };
    Problem::new(code, text).answered_by(server, Some(error))
}

/// The problem of a read that ended with no object.
pub(super) fn not_an_object(server: Option<&str>) -> Problem {
    Problem::new(ErrorCode::InvalidAnswer, "the result is not an object").answered_by(server, None)
}

fn facts(error: &ErrorObject) -> (Facts, ErrorCode) {
    let facts: Facts = error.data().and_then(|data| data.read().ok()).unwrap_or_default();
    let row = TABLE.iter().find(|row| row.name == facts.code);
    (facts, row.map_or(ErrorCode::InternalError, |row| row.code))
}

/// The code over REST. A server that asks during a request without a stream gave no answer.
fn shown(code: ErrorCode) -> ErrorCode {
    match of_rest(code) {
        code if code.row().is_of_rest() => code,
        ErrorCode::InternalError => ErrorCode::InternalError,
        _ => ErrorCode::InvalidAnswer,
    }
}
