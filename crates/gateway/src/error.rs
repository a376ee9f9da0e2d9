//! What failed on our side, as a JSON-RPC error for a client.
//!
//! One match. `data.type`, `detail`, `retryable` and `retry_after` say what a program needs to know;
//! `data.code` holds the same stable code as the REST API's problem documents; texts name what to do.
//! Invariant: every error of our own is made here and has a `type`. What was sent wrong is named with what would be
//! right; a bug of ours has an id that its line in the log has too.
//! Our own failures have a number for each era (`Number`); standard codes keep their meaning.
//! Not here: what servers answered, which passes untouched.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::manager::{Error, NO_MCP, Named, Verdict, Word};
use auth::Role;
use json::Raw;
use protocol::error::code;
use protocol::{Era, ErrorObject, Origin, sanitize};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{Full, RETRY_IN};

/// A failure of ours that JSON-RPC has no code for. Up to 2025-11-25 codes of the range for
/// implementations, −32000 and below; since 2026-07-28 that range belongs to the protocol, and ours
/// begin at −31000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    /// The server could not be used, or its answer was lost.
    Connection = 0,
    /// What is behind the server answered with an error.
    Backend = 1,
    /// Somebody refuses our credentials.
    Authentication = 2,
    /// Our breaker refused the call.
    CircuitOpen = 3,
    /// Too much at a time.
    RateLimit = 4,
    /// No answer in time.
    TimedOut = 5,
}

impl Number {
    const fn code(self, era: Era) -> i64 {
        let first = match era {
            Era::Legacy => code::CONNECTION_CLOSED,
            Era::Modern => code::OURS_MODERN,
        };
        first - self as i64
    }
}

/// The `data` member of our errors.
#[derive(Debug, Default, Serialize)]
struct Facts<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<f64>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    word: Option<Word>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    retryable: bool,
    /// The same as `retry_after_seconds`, under the name that clients of R2R know.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guidance: Option<Cow<'a, str>>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    wrong: Option<Shown<'a>>,
    /// The facts that the service behind a built-in server told of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'a Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<RequestId>,
    #[serde(rename = "requiredCapabilities", skip_serializing_if = "Option::is_none")]
    required_capabilities: Option<&'a Raw>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
}

/// What was sent wrong, and what would be right.
#[derive(Debug, Clone, Copy)]
pub struct Wrong<'a> {
    /// Where it stands: `params.name`.
    pub field: &'a str,
    /// What stands there, if anything does.
    pub found: Option<&'a Raw>,
    /// What may stand there.
    pub valid: &'a str,
    /// What to do.
    pub suggestion: &'a str,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    field: &'a str,
    rejected_value: Option<Raw>,
    valid_range: &'a str,
    suggestion: &'a str,
}

impl<'a> From<Wrong<'a>> for Shown<'a> {
    fn from(wrong: Wrong<'a>) -> Self {
        let Wrong { field, found, valid, suggestion } = wrong;
        Self { field, rejected_value: found.map(sanitize::value), valid_range: valid, suggestion }
    }
}

/// How many there may be, and how many there are.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limit {
    /// The limit.
    #[serde(rename = "max_connections")]
    pub most: usize,
    /// What counts against it.
    #[serde(rename = "current_connections")]
    pub now: usize,
}

impl<'a> Facts<'a> {
    fn of(code: &'static str, word: Word, detail: &str) -> Self {
        Self { code, word: Some(word), detail: Some(detail.to_owned()), ..Self::default() }
    }

    fn judged(self, verdict: Verdict) -> Self {
        let retry_after = verdict.retry_after.map(|pause| pause.as_secs_f64());
        Self {
            word: Some(verdict.word),
            retryable: verdict.is_retryable,
            retry_after,
            retry_after_seconds: retry_after,
            ..self
        }
    }

    fn named(self, kind: Named, name: &'a str) -> Self {
        match kind {
            Named::Tool => Self { tool: Some(name), ..self },
            Named::Prompt => Self { prompt: Some(name), ..self },
        }
    }
}

/// The error object that tells a client of `era` what happened.
pub fn object(error: &Error, era: Era) -> ErrorObject {
    let (text, verdict) = (error.to_string(), error.verdict());
    let (number, facts) = match error {
        Error::ServerNotFound { server, available, nearest } => (
            code::INVALID_PARAMS,
            Facts { code: "server_not_found", server: Some(server), nearest, available, ..Facts::default() },
        ),
        Error::NameNotFound { kind, name, server, available, nearest, unreached } => {
            let code = match kind {
                Named::Tool => "tool_not_found",
                Named::Prompt => "prompt_not_found",
            };
            let server = server.as_deref();
            let facts = Facts { code, server, nearest, available, unreached, ..Facts::default() };
            (code::INVALID_PARAMS, facts.named(*kind, name))
        }
        Error::Ambiguous { kind, name, candidates, .. } => {
            let code = match kind {
                Named::Tool => "ambiguous_tool",
                Named::Prompt => "ambiguous_prompt",
            };
            let wrong = Shown {
                field: "params.name",
                rejected_value: Some(sanitize::value(&Raw::of(name))),
                valid_range: "one of the candidates",
                suggestion: "use one of the candidates, or ask at the address of one server",
            };
            let facts = Facts { code, candidates, wrong: Some(wrong), ..Facts::default() };
            (code::INVALID_PARAMS, facts.named(*kind, name))
        }
        Error::AmbiguousArgument { server, tool, member } => {
            let wrong = Shown {
                field: member,
                rejected_value: None,
                valid_range: "one value",
                suggestion: "send it once",
            };
            let facts = Facts {
                code: "invalid_params",
                server: Some(server),
                wrong: Some(wrong),
                ..Facts::default()
            };
            (code::INVALID_PARAMS, facts.named(Named::Tool, tool))
        }
        Error::ToolChanged { server, tool, changed } => {
            let guidance = error.guidance();
            let facts =
                Facts { code: "tool_changed", server: Some(server), changed, guidance, ..Facts::default() };
            (Number::Connection.code(era), facts.named(Named::Tool, tool))
        }
        Error::OtherDefinition { server, tool, .. } => {
            let facts = Facts { code: "other_definition", server: Some(server), ..Facts::default() };
            (code::INVALID_PARAMS, facts.named(Named::Tool, tool))
        }
        Error::AmbiguousUri { uri, candidates } => {
            let wrong = Shown {
                field: "params.uri",
                rejected_value: Some(sanitize::value(&Raw::of(uri))),
                valid_range: "one of the candidates",
                suggestion: "use one of the candidates, which name their servers",
            };
            let facts = Facts {
                code: "ambiguous_uri",
                uri: Some(uri),
                candidates,
                wrong: Some(wrong),
                ..Facts::default()
            };
            (code::INVALID_PARAMS, facts)
        }
        Error::ResourceNotFound { uri } => {
            (code::INVALID_PARAMS, Facts { code: "resource_not_found", uri: Some(uri), ..Facts::default() })
        }
        Error::Upstream { server, tool, source, .. } => {
            let (number, code) = of_upstream(source);
            let facts = Facts {
                code,
                server: Some(server),
                tool: tool.as_deref(),
                detail: Some(source.to_string()),
                guidance: error.guidance(),
                backend: source.facts(),
                ..Facts::default()
            };
            (number.map_or(code::INTERNAL_ERROR, |number| number.code(era)), facts)
        }
    };
    let mut facts = facts.judged(verdict);
    facts.detail.get_or_insert_with(|| text.clone());
    let origin = if error.is_refusal() { Origin::Refusal } else { Origin::Failure };
    ErrorObject::new(number, &text).with_data(&facts).from_us(origin)
}

/// The number, none where JSON-RPC has one, and the stable code of a failure to reach a server.
const fn of_upstream(error: &upstream::Error) -> (Option<Number>, &'static str) {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { .. } => (Some(Number::CircuitOpen), "circuit_open"),
        E::Overloaded { .. } | E::Leased { .. } | E::Paced { .. } => (Some(Number::RateLimit), "overloaded"),
        E::Connect { .. } | E::NotSent { .. } => (Some(Number::Connection), "connection_failed"),
        E::Lost { .. } | E::Cut { .. } => (Some(Number::Connection), "outcome_unknown"),
        E::TimedOut { .. } => (Some(Number::TimedOut), "timed_out"),
        E::MemoryExhausted => (Some(Number::RateLimit), "memory_exhausted"),
        E::Status { status: 401 | 403, .. } | E::AuthFailed { .. } => {
            (Some(Number::Authentication), "auth_failed")
        }
        E::Status { status: 429, .. } => (Some(Number::RateLimit), "rate_limited"),
        E::Status { status: 500.., .. } => (Some(Number::Backend), "server_error"),
        E::Status { .. } => (Some(Number::Backend), "invalid_answer"),
        E::Backend { status: 401 | 403, .. } => (Some(Number::Authentication), "backend_error"),
        E::Backend { status: 429, .. } => (Some(Number::RateLimit), "backend_error"),
        E::Backend { .. } => (Some(Number::Backend), "backend_error"),
        E::Malformed { .. } | E::TooLarge { .. } => (None, "invalid_answer"),
        E::Unavailable { .. } => (Some(Number::Connection), "server_unavailable"),
    }
}

/// The refusal of one more than a client of an older revision may have; `code` is stable.
pub fn limited(code: &'static str, text: &str, retry_after: Duration, limit: Option<Limit>) -> ErrorObject {
    let word = if limit.is_some() { Word::ConnectionLimitExceeded } else { Word::RateLimited };
    let facts = Facts { limit, ..Facts::of(code, word, text) };
    let facts = facts.judged(Verdict::passing(word, Some(retry_after)));
    refused(Number::RateLimit.code(Era::Legacy), text, &facts)
}

/// The memory budget has no room for the answer of a call that was made.
pub fn memory_exhausted(era: Era) -> ErrorObject {
    let source = upstream::Error::MemoryExhausted;
    let text = source.to_string();
    refusal(Number::RateLimit.code(era), "memory_exhausted", Word::RateLimited, &text)
}

/// The refusal of an action whose audit line could not be written.
pub fn audit_full(full: Full, era: Era) -> ErrorObject {
    let text = full.to_string();
    let facts = Facts::of(Full::CODE, Word::RateLimited, &text);
    let facts = facts.judged(Verdict::passing(Word::RateLimited, Some(RETRY_IN)));
    refused(Number::RateLimit.code(era), &text, &facts)
}

/// An error of ours with a number of the protocol, its stable `code` and its word.
pub fn refusal(number: i64, code: &'static str, word: Word, text: &str) -> ErrorObject {
    refused(number, text, &Facts::of(code, word, text))
}

/// What a client can mend, or wait out.
fn refused(number: i64, text: &str, facts: &Facts<'_>) -> ErrorObject {
    ErrorObject::new(number, text).with_data(facts).from_us(Origin::Refusal)
}

/// A bug of ours; `id` stands in its line of the log, which whoever noticed it writes.
pub fn internal(text: &str, id: RequestId) -> ErrorObject {
    let facts = Facts { error_id: Some(id), ..Facts::of("internal_error", Word::InternalError, text) };
    ErrorObject::new(code::INTERNAL_ERROR, text).with_data(&facts)
}

/// The refusal of something the caller's role does not allow. Nothing that MCP has operates the gateway, so
/// what is refused here is what a reader may not do.
pub fn forbidden(action: &str) -> ErrorObject {
    let text = format!("this credential may not {action}; it needs the role {}", Role::Caller);
    refusal(code::INVALID_REQUEST, "forbidden", Word::AuthenticationError, &text)
}

/// Nobody has the resource `uri`; `number` is the code of the client's era.
pub(super) fn no_resource(number: i64, uri: &str) -> ErrorObject {
    let text = format!("there is no resource \"{}\"", sanitize::shown(uri));
    let uri = sanitize::uri(uri);
    let facts = Facts { uri: Some(&uri), ..Facts::of("resource_not_found", Word::NotFound, &text) };
    refused(number, &text, &facts)
}

/// `server`, which was asked to tell of the resource `uri`, acknowledged other things only.
pub(super) fn not_told(server: &str, uri: &str) -> ErrorObject {
    let text = format!(
        "the server \"{server}\" does not tell of the resource \"{}\": it has none of that URI, or does not \
         announce its changes",
        sanitize::shown(uri)
    );
    let uri = sanitize::uri(uri);
    let facts =
        Facts { server: Some(server), uri: Some(&uri), ..Facts::of("not_told", Word::NotFound, &text) };
    refused(code::INVALID_PARAMS, &text, &facts)
}

/// What a client sent that does not fit the method.
pub fn bad_input(text: &str, wrong: Wrong<'_>) -> ErrorObject {
    let facts = Facts::of("invalid_params", Word::InvalidParams, text);
    refused(code::INVALID_PARAMS, text, &Facts { wrong: Some(wrong.into()), ..facts })
}

/// A cursor that this list did not give.
pub fn bad_cursor(found: &Raw) -> ErrorObject {
    let wrong = Wrong {
        field: "params.cursor",
        found: Some(found),
        valid: "the nextCursor of a page of this list",
        suggestion: "list again from the beginning, without cursor",
    };
    bad_input("the cursor is not one of this list; list again from the beginning", wrong)
}

/// The end of a request whose credential was taken back while it was answered.
pub fn taken_back() -> ErrorObject {
    let text = "the credential of this request was taken back or changed; send one that is valid";
    refusal(code::INVALID_REQUEST, "unauthorized", Word::AuthenticationError, text)
}

/// The end of a request that needed input from its client and did not get it. `code` is stable.
pub fn input(code: &'static str, text: &str) -> ErrorObject {
    refusal(code::INVALID_REQUEST, code, Word::InvalidParams, text)
}

/// A server's answer that is none of its revision.
pub fn invalid_answer(text: &str) -> ErrorObject {
    let facts = Facts::of("invalid_answer", Word::ServiceUnavailable, text);
    ErrorObject::new(code::INTERNAL_ERROR, text)
        .with_data(&Facts { guidance: Some(Cow::Borrowed(NO_MCP)), ..facts })
        .from_us(Origin::Failure)
}

/// A server's refusal, which came because a modern client lacks capabilities.
pub fn lacking(refusal: &ErrorObject, capabilities: &Raw) -> ErrorObject {
    let said: String = refusal.message().chars().take(256).collect();
    needs(capabilities, &format!("the server needs capabilities that the client did not declare: {said}"))
}

/// A modern client lacks `capabilities`.
pub fn needs(capabilities: &Raw, text: &str) -> ErrorObject {
    let facts = Facts::of("capability_missing", Word::InvalidParams, text);
    let facts = Facts { required_capabilities: Some(capabilities), ..facts };
    refused(code::MISSING_CLIENT_CAPABILITY, text, &facts)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
