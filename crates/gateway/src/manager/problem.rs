//! The [`Problem`] of a failure of the manager, made once for MCP and REST.
//!
//! Invariant: only a failure that repeating the call can cure has a time to wait.
//!
//! This module does not say what a code means (`protocol::error_code`), nor how a protocol shows it.

use std::borrow::Cow;
use std::time::Duration;

use super::{Error, ItemKind};
use json::Raw;
use protocol::problem::{FieldError, USUAL_WAIT};
use protocol::sanitize::clipped;
use protocol::{ErrorCode, ErrorKind, Problem};

impl Error {
    /// The failure as clients read it.
    pub fn problem(&self) -> Problem {
        let (server, tool) = self.about();
        let mut problem = Problem::new(self.code(), self.to_string()).about(server, tool);
        match self {
            Self::ServerNotFound { available, nearest, .. } => {
                problem.available.clone_from(available);
                suggesting(problem, nearest)
            }
            Self::NotConfigured(_) => problem,
            Self::ViewNotFound { nearest, .. } => suggesting(problem, nearest),
            Self::NameNotFound { kind, name, nearest, unreached, hidden, .. } => {
                // A server that was not reached yet may have the name.
                problem.retryable = !unreached.is_empty();
                problem.unreached = unreached.iter().map(ToString::to_string).collect();
                let problem = suggesting(of_kind(problem, *kind, name), nearest);
                match hidden {
                    Some(by) => {
                        problem.hinting(format!("change `{}` of `{}` and reload", by.setting, by.server))
                    }
                    None => problem,
                }
            }
            Self::Ambiguous { kind, name, candidates, .. } => {
                let problem = of_kind(problem, *kind, name);
                ambiguous(problem, ("params.name", name), candidates)
            }
            Self::AmbiguousUri { uri, candidates } => {
                ambiguous(problem.with_mcp("uri", uri), ("params.uri", uri), candidates)
            }
            Self::AmbiguousArgument { member, .. } => {
                problem.errors = vec![several(member)];
                problem.rejecting(&**member, None, "one value", "send it once")
            }
            Self::FixedArgument { argument, .. } => {
                let member = format!("arguments.{argument}");
                problem.rejecting(&*clipped(member), None, "no value", "leave it out")
            }
            Self::ToolChanged { server, changed, .. } => {
                problem.changed.clone_from(changed);
                problem.hinting(format!(
                    "an operator looks at `changed_tools` of {server} in GET /api/v1/mcp/servers and approves it by its sha256 with POST /api/v1/mcp/servers/{server}/tools/approve"
                ))
            }
            Self::OtherDefinition { server, .. } => problem
                .hinting(format!("look at `changed_tools` of {server} in GET /api/v1/mcp/servers again")),
            Self::ResourceNotFound { uri } => problem.with_mcp("uri", uri),
            Self::Limited(limited) => problem.after(limited.retry_in),
            Self::Upstream { server, source, retry_in, .. } => {
                of_upstream(&mut problem, server, source);
                problem.retry_after = problem.retry_after.or(*retry_in);
                problem
            }
        }
    }

    /// The code of its problem.
    pub const fn code(&self) -> ErrorCode {
        use ErrorCode as C;
        match self {
            Self::ServerNotFound { .. } => C::ServerNotFound,
            Self::ViewNotFound { .. } => C::ViewNotFound,
            Self::NotConfigured(_) => C::ServerNotConfigured,
            Self::NameNotFound { kind: ItemKind::Tool, .. } => C::ToolNotFound,
            Self::NameNotFound { kind: ItemKind::Prompt, .. } => C::PromptNotFound,
            Self::Ambiguous { kind: ItemKind::Tool, .. } => C::AmbiguousTool,
            Self::Ambiguous { kind: ItemKind::Prompt, .. } => C::AmbiguousPrompt,
            Self::AmbiguousUri { .. } => C::AmbiguousUri,
            Self::AmbiguousArgument { .. } | Self::FixedArgument { .. } => C::InvalidParams,
            Self::ToolChanged { .. } => C::ToolChanged,
            Self::OtherDefinition { .. } => C::OtherDefinition,
            Self::ResourceNotFound { .. } => C::ResourceNotFound,
            Self::Limited(_) => C::LimitReached,
            Self::Upstream { source, .. } => code_of(source),
        }
    }

    /// The server and the tool it is about, as far as they are known.
    fn about(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::ServerNotFound { server, .. } => (Some(server), None),
            Self::NotConfigured(wrong) => (Some(&wrong.name), None),
            Self::NameNotFound { kind, server, name, .. } => {
                (server.as_deref(), (*kind == ItemKind::Tool).then_some(&**name))
            }
            Self::Ambiguous { kind, name, .. } => (None, (*kind == ItemKind::Tool).then_some(&**name)),
            Self::AmbiguousArgument { server, tool, .. }
            | Self::FixedArgument { server, tool, .. }
            | Self::ToolChanged { server, tool, .. }
            | Self::OtherDefinition { server, tool, .. } => (Some(server), Some(tool)),
            Self::Upstream { server, tool, .. } => (Some(server), tool.as_deref()),
            Self::Limited(limited) => (Some(&limited.server), limited.tool.as_deref()),
            Self::AmbiguousUri { .. } | Self::ResourceNotFound { .. } | Self::ViewNotFound { .. } => {
                (None, None)
            }
        }
    }
}

/// Names the prompt, which MCP clients read beside `tool`.
fn of_kind(problem: Problem, kind: ItemKind, name: &str) -> Problem {
    match kind {
        ItemKind::Tool => problem,
        ItemKind::Prompt => problem.with_mcp("prompt", name),
    }
}

/// Adds similar names. The best one becomes the hint.
fn suggesting(mut problem: Problem, nearest: &[String]) -> Problem {
    problem.nearest = nearest.to_vec();
    match nearest.first() {
        Some(name) => problem.hinting(format!("did you mean {name:?}?")),
        None => problem,
    }
}

/// Names the parameter that may be one of `candidates`.
fn ambiguous(mut problem: Problem, (field, value): (&str, &str), candidates: &[String]) -> Problem {
    problem.candidates = candidates.to_vec();
    let usual = problem.hint.clone();
    problem.rejecting(field, Some(&Raw::of(value)), "one of the candidates", usual)
}

/// A member of the arguments that must have one value.
fn several(member: &str) -> FieldError {
    FieldError {
        field: clipped(member.to_owned()),
        found: "more than one value".to_owned(),
        expected: "one, because the server has it in a header too".to_owned(),
    }
}

const fn code_of(error: &upstream::Error) -> ErrorCode {
    use ErrorCode as C;
    use upstream::Error as E;
    match error {
        E::CircuitOpen { .. } => C::CircuitOpen,
        E::Overloaded { .. } | E::Full { .. } | E::Paced { .. } => C::Overloaded,
        E::Connect { .. } | E::NotSent { .. } | E::SessionEnded(_) => C::ConnectionFailed,
        // It may have run: to do it again is the caller's decision, not a matter of course.
        E::Lost { .. } | E::Cut { .. } => C::OutcomeUnknown,
        E::TimedOut { .. } => C::TimedOut,
        E::Status { status: 401 | 403, .. } | E::AuthFailed { .. } => C::AuthFailed,
        E::Status { status: 429, .. } | E::Backend { status: 429, .. } => C::RateLimited,
        E::Status { status: 500.., .. } => C::ServerError,
        E::Backend { .. } => C::BackendError,
        // The call was made, so making it again is for the caller to decide.
        E::MemoryExhausted => C::MemoryExhausted,
        E::LoginRequired { .. } => C::LoginRequired,
        E::SecretRequired { .. } => C::SecretRequired,
        E::Status { .. } | E::Malformed { .. } | E::Unreadable { .. } | E::TooLarge { .. } => {
            C::InvalidAnswer
        }
        E::Unavailable { .. } => C::ServerUnavailable,
    }
}

/// Adds to the problem of `server` what `error` knows.
fn of_upstream(problem: &mut Problem, server: &str, error: &upstream::Error) {
    use upstream::Error as E;
    problem.cause = Some(error.to_string());
    problem.server_status = error.status();
    problem.backend = error.facts().cloned();
    match error {
        E::CircuitOpen { retry_in }
        | E::Overloaded { retry_in }
        | E::Full { retry_in, .. }
        | E::Paced { retry_in, .. } => problem.retry_after = Some(*retry_in),
        E::Status { status, retry_after, .. } => of_status(problem, *status, *retry_after),
        E::Backend { status, retry_after, facts, .. } => {
            of_status(problem, *status, *retry_after);
            if facts.as_ref().is_some_and(|facts| says_internal(facts)) {
                // A bug of the service, which no repetition avoids.
                problem.kind = ErrorKind::InternalError;
                (problem.retryable, problem.retry_after) = (false, None);
            }
        }
        _ => {}
    }
    if let Some(hint) = hint_of(server, error) {
        problem.hint = hint;
    }
}

/// Adds what the HTTP status of a server, or of the service behind a built-in one, says.
fn of_status(problem: &mut Problem, status: u16, retry_after: Option<Duration>) {
    problem.kind = match status {
        429 => ErrorKind::RateLimited,
        401 | 403 => ErrorKind::AuthenticationError,
        404 | 410 => ErrorKind::NotFound,
        400..=499 => ErrorKind::InvalidParams,
        _ => ErrorKind::ServiceUnavailable,
    };
    let numbered = match status {
        429 => ErrorCode::RateLimited,
        401 | 403 => ErrorCode::AuthFailed,
        _ => ErrorCode::BackendError,
    };
    problem.numbers = numbered.numbers();
    problem.retryable = matches!(status, 429 | 502..=504);
    // Every rate limit has a time to wait (specification of `r2r`).
    let usual = (status == 429).then_some(Duration::from_secs(USUAL_WAIT));
    problem.retry_after = retry_after.or(usual).filter(|_| problem.retryable);
}

/// Whether the service says that it has a bug, in the word of the specification of `rag`.
fn says_internal(facts: &Raw) -> bool {
    let word: Option<String> = facts.get("data").and_then(|data| data.get_as("type"));
    word.is_some_and(|word| word == "internal_error")
}

/// Advice about the failure of `server`; none where the table says all.
fn hint_of(server: &str, error: &upstream::Error) -> Option<Cow<'static, str>> {
    use upstream::Error as E;
    Some(Cow::Borrowed(match error {
        E::CircuitOpen { .. } => {
            return Some(Cow::Owned(format!(
                "wait for the next probe, or POST /api/v1/mcp/circuit-breakers/{server}/reset once the server is well"
            )));
        }
        E::AuthFailed { .. } => {
            return Some(Cow::Owned(format!(
                "correct the credentials and POST /api/v1/mcp/reload, or POST /api/v1/mcp/servers/{server}/reconnect once the server accepts them"
            )));
        }
        E::LoginRequired { .. } => {
            return Some(Cow::Owned(format!(
                "run `switchyard login {server}`, or POST /api/v1/mcp/servers/{server}/login and open the URL in a browser; then call again"
            )));
        }
        E::SecretRequired { secret, principal: Some(principal) } => {
            return Some(Cow::Owned(format!(
                "run `switchyard secret set {secret} --for {principal}`, PUT /api/v1/mcp/secrets/{secret}, or set it on the page of logins of the dashboard; then call again"
            )));
        }
        E::SecretRequired { principal: None, .. } => {
            "a caller with a credential, such as an API key, sets it on the page of logins of the dashboard or with PUT /api/v1/mcp/secrets/NAME; a caller without a credential has no secrets"
        }
        E::Unavailable { state } => return Some(hint_of_state(server, state)),
        E::Backend { status, facts, .. } => match facts.as_ref().and_then(|facts| facts.get_as("guidance")) {
            Some(theirs) => return Some(Cow::Owned(theirs)),
            None => hint_of_status(*status),
        },
        E::Status { status, .. } => hint_of_status(*status),
        E::MemoryExhausted => MEMORY_EXHAUSTED,
        E::TooLarge { .. } => "ask for less at a time, or raise the server's limit for one message",
        E::Overloaded { .. }
        | E::Full { .. }
        | E::Paced { .. }
        | E::SessionEnded(_)
        | E::Connect { .. }
        | E::NotSent { .. }
        | E::Lost { .. }
        | E::Cut { .. }
        | E::TimedOut { .. }
        | E::Malformed { .. } => return None,
        E::Unreadable { advice, .. } => return advice.clone().map(Cow::Owned),
    }))
}

/// Advice for a caller whose answer was discarded because the memory budget had no room.
pub const MEMORY_EXHAUSTED: &str = "the tool may have run: find out before calling it again; ask for less at a time, or raise `memory_budget` of the gateway";

/// Advice for a server that takes no calls in `state`.
fn hint_of_state(server: &str, state: &str) -> Cow<'static, str> {
    match state {
        // The words of `upstream::State` and of the end.
        "disabled" => Cow::Owned(format!(
            "an operator can enable it until the next reload: POST /api/v1/mcp/servers/{server}/enable; to keep it enabled, set `enabled: true` for {server} in the configuration file and POST /api/v1/mcp/reload"
        )),
        "disconnected" => {
            Cow::Owned(format!("POST /api/v1/mcp/servers/{server}/reconnect connects it again"))
        }
        "shutting down" => {
            Cow::Borrowed("try again when the gateway, or this server of it, has been started anew")
        }
        _ => Cow::Borrowed("try again in a moment"),
    }
}

const fn hint_of_status(status: u16) -> &'static str {
    match status {
        429 => "try again after retry_after_ms",
        502..=504 => "try again later, after retry_after_ms where it is given",
        401 | 403 => "check which credentials the gateway was given for it, and what they allow",
        404 | 410 => "check the name or the id: what is asked for is not there",
        400..=499 => "change what is asked; `detail` has what it says of it",
        _ => "what is behind the server failed: look there, and at GET /api/v1/mcp/health",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_the_state_of_the_server_and_names_it() {
        use upstream::Error as E;
        let reason = || "HTTP 401".to_owned();
        for (source, advised, idle) in [
            (
                E::Unavailable { state: "disabled" },
                &["`enabled: true` for docs", "/mcp/reload"][..],
                "reconnect",
            ),
            (E::Unavailable { state: "disconnected" }, &["/mcp/servers/docs/reconnect"][..], "enabled"),
            (E::Unavailable { state: "shutting down" }, &["started anew"][..], "POST"),
            (E::Unavailable { state: "connecting" }, &["try again"][..], "POST"),
            (E::CircuitOpen { retry_in: Duration::ZERO }, &["/mcp/circuit-breakers/docs/reset"][..], "{"),
            (E::AuthFailed { reason: reason() }, &["/mcp/reload", "/mcp/servers/docs/reconnect"][..], "{"),
        ] {
            let error = Error::Upstream { server: "docs".into(), tool: None, source, retry_in: None };
            let advice = error.problem().hint;
            assert!(advised.iter().all(|part| advice.contains(part)), "{advice}");
            assert!(!advice.contains(idle) && !advice.contains('{'), "{advice}");
        }
    }

    #[test]
    fn the_answer_of_a_back_end_is_judged_by_its_status() {
        let soon = Some(Duration::from_secs(3));
        for (status, kind, is_retryable) in [
            (400, ErrorKind::InvalidParams, false),
            (401, ErrorKind::AuthenticationError, false),
            (403, ErrorKind::AuthenticationError, false),
            (404, ErrorKind::NotFound, false),
            (409, ErrorKind::InvalidParams, false),
            (429, ErrorKind::RateLimited, true),
            (500, ErrorKind::ServiceUnavailable, false),
            (502, ErrorKind::ServiceUnavailable, true),
            (503, ErrorKind::ServiceUnavailable, true),
            (504, ErrorKind::ServiceUnavailable, true),
        ] {
            let detail = String::new();
            let error = upstream::Error::Backend { status, detail, retry_after: soon, facts: None };
            let error = Error::Upstream { server: "docs".into(), tool: None, source: error, retry_in: None };
            let problem = error.problem();
            assert_eq!((problem.kind, problem.retryable), (kind, is_retryable), "{status}");
            assert_eq!(problem.retry_after, soon.filter(|_| is_retryable), "{status}");
        }
    }
}
