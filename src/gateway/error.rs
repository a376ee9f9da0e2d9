//! What failed on our side, as a JSON-RPC error for a client.
//!
//! One match. `data.type`, `detail`, `retryable` and `retry_after` say what a program needs to know;
//! `data.code` holds the same stable code as the REST API's problem documents; texts name what to do.
//! Our own failures have a number for each era (`Number`); standard codes keep their meaning.
//! Not here: what servers answered, which passes untouched.

use std::time::Duration;

use serde::Serialize;

use crate::manager::{Error, Named, Verdict, Word};
use crate::protocol::error::code;
use crate::protocol::{Era, ErrorObject, Raw, foreign};
use crate::upstream;

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
#[serde(rename_all = "camelCase")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<f64>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    word: Option<Word>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    retryable: bool,
    /// In seconds; `retryAfterSeconds` is the older name of the same.
    #[serde(rename = "retry_after", skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
}

impl<'a> Facts<'a> {
    fn of(code: &'static str, word: Word, detail: &str) -> Self {
        Self { code, word: Some(word), detail: Some(detail.to_owned()), ..Self::default() }
    }

    fn judged(self, verdict: Verdict) -> Self {
        let retry_after = verdict.retry_after.map(|pause| pause.as_secs_f64());
        Self { word: Some(verdict.word), retryable: verdict.is_retryable, retry_after, ..self }
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
        Error::NameNotFound { kind, name, server, available, nearest } => {
            let code = match kind {
                Named::Tool => "tool_not_found",
                Named::Prompt => "prompt_not_found",
            };
            let facts = Facts { code, server: server.as_deref(), nearest, available, ..Facts::default() };
            (code::INVALID_PARAMS, facts.named(*kind, name))
        }
        Error::Ambiguous { kind, name, candidates } => {
            let code = match kind {
                Named::Tool => "ambiguous_tool",
                Named::Prompt => "ambiguous_prompt",
            };
            (code::INVALID_PARAMS, Facts { code, candidates, ..Facts::default() }.named(*kind, name))
        }
        Error::ResourceNotFound { uri } => {
            (code::INVALID_PARAMS, Facts { code: "resource_not_found", uri: Some(uri), ..Facts::default() })
        }
        Error::Upstream { server, tool, source } => {
            let (number, code) = of_upstream(source);
            let facts = Facts {
                code,
                server: Some(server),
                tool: tool.as_deref(),
                detail: Some(source.to_string()),
                retry_after_seconds: verdict.retry_after.map(|pause| pause.as_secs_f64()),
                ..Facts::default()
            };
            (number.map_or(code::INTERNAL_ERROR, |number| number.code(era)), facts)
        }
    };
    let mut facts = facts.judged(verdict);
    facts.detail.get_or_insert_with(|| text.clone());
    ErrorObject::new(number, &text).with_data(&facts)
}

/// The number, none where JSON-RPC has one, and the stable code of a failure to reach a server.
const fn of_upstream(error: &upstream::Error) -> (Option<Number>, &'static str) {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { .. } => (Some(Number::CircuitOpen), "circuit_open"),
        E::Overloaded { .. } | E::Leased { .. } => (Some(Number::RateLimit), "overloaded"),
        E::Connect { .. } | E::NotSent { .. } => (Some(Number::Connection), "connection_failed"),
        E::Lost { .. } | E::Cut { .. } => (Some(Number::Connection), "outcome_unknown"),
        E::TimedOut { .. } => (Some(Number::TimedOut), "timed_out"),
        E::Status { status: 429, .. } => (Some(Number::RateLimit), "invalid_answer"),
        E::Status { .. } => (Some(Number::Backend), "invalid_answer"),
        E::Backend { status: 429, .. } => (Some(Number::RateLimit), "backend_error"),
        E::Backend { .. } => (Some(Number::Backend), "backend_error"),
        E::AuthFailed { .. } => (Some(Number::Authentication), "auth_failed"),
        E::Malformed { .. } | E::TooLarge { .. } => (None, "invalid_answer"),
        E::Unavailable { .. } => (Some(Number::Connection), "server_unavailable"),
    }
}

/// The refusal of one more than a client of an older revision may have; `code` is stable.
pub fn limited(code: &'static str, word: Word, text: &str, retry_after: Duration) -> ErrorObject {
    let facts = Facts::of(code, word, text).judged(Verdict::passing(word, Some(retry_after)));
    ErrorObject::new(Number::RateLimit.code(Era::Legacy), text).with_data(&facts)
}

/// The refusal of something the caller's role does not allow.
pub fn forbidden(action: &str) -> ErrorObject {
    let text = format!("this credential may not {action}; it needs the role superuser");
    let facts = Facts::of("forbidden", Word::AuthenticationError, &text);
    ErrorObject::new(code::INVALID_REQUEST, &text).with_data(&facts)
}

/// Nobody has the resource `uri`; `number` is the code of the client's era.
pub(super) fn no_resource(number: i64, uri: &str) -> ErrorObject {
    let text = format!("there is no resource \"{}\"", foreign::shown(uri));
    let facts = Facts { uri: Some(uri), ..Facts::of("resource_not_found", Word::NotFound, &text) };
    ErrorObject::new(number, &text).with_data(&facts)
}

/// What a client sent that does not fit the method.
pub fn bad_input(text: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_PARAMS, text)
}

/// The end of a request that needed input from its client and did not get it. `code` is stable.
pub fn input(code: &'static str, text: &str) -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, text).with_data(&Facts::of(code, Word::InvalidParams, text))
}

/// A server's answer that is none of its revision.
pub fn invalid_answer(text: &str) -> ErrorObject {
    let facts = Facts::of("invalid_answer", Word::ServiceUnavailable, text);
    ErrorObject::new(code::INTERNAL_ERROR, text).with_data(&facts)
}

/// A server's refusal, which came because a modern client lacks capabilities.
pub fn lacking(refusal: &ErrorObject, capabilities: &Raw) -> ErrorObject {
    let said: String = refusal.message().chars().take(256).collect();
    needs(capabilities, &format!("the server needs capabilities that the client did not declare: {said}"))
}

/// A modern client lacks `capabilities`.
pub fn needs(capabilities: &Raw, text: &str) -> ErrorObject {
    ErrorObject::new(code::MISSING_CLIENT_CAPABILITY, text)
        .with_data(&Raw::empty_object().with("requiredCapabilities", capabilities))
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
