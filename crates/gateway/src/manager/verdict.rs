//! What a failure is for whoever called: its word, whether calling again can help, and what else does.
//!
//! One table for MCP clients and REST. The words are stable; a failure that is not `is_retryable` may
//! be mended too, but not by doing the same again. Not here: what each protocol calls it beside.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;

use super::Error;

/// The word for a kind of failure, `data.type` and `error_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// What was sent is not what is wanted.
    InvalidParams,
    /// Somebody refused credentials: ours, or those of the caller.
    AuthenticationError,
    /// The server, or what is behind it, is not there or does not work.
    ServiceUnavailable,
    /// No answer in time.
    Timeout,
    /// Our breaker refused the call.
    CircuitOpen,
    /// Too much at a time.
    RateLimited,
    /// Too many connections.
    ConnectionLimitExceeded,
    /// Nobody has that.
    NotFound,
    /// The gateway failed.
    InternalError,
}

/// What is said of one failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Its word.
    pub word: Word,
    /// Whether the same call can succeed when it is made again.
    pub is_retryable: bool,
    /// When that is worth it, if somebody said so.
    pub retry_after: Option<Duration>,
}

impl Verdict {
    /// A failure that calling again does not mend.
    pub const fn of(word: Word) -> Self {
        Self { word, is_retryable: false, retry_after: None }
    }

    /// A failure that passes.
    pub const fn passing(word: Word, retry_after: Option<Duration>) -> Self {
        Self { word, is_retryable: true, retry_after }
    }
}

impl Error {
    /// What is said of it.
    pub fn verdict(&self) -> Verdict {
        match self {
            // A server that was not reached yet may have the name.
            Self::NameNotFound { unreached, .. } if !unreached.is_empty() => {
                Verdict::passing(Word::NotFound, None)
            }
            Self::ServerNotFound { .. } | Self::NameNotFound { .. } | Self::ResourceNotFound { .. } => {
                Verdict::of(Word::NotFound)
            }
            Self::Ambiguous { .. }
            | Self::AmbiguousUri { .. }
            | Self::AmbiguousArgument { .. }
            | Self::OtherDefinition { .. } => Verdict::of(Word::InvalidParams),
            Self::ToolChanged { .. } => Verdict::of(Word::ServiceUnavailable),
            Self::Upstream { source, retry_in, .. } => {
                let verdict = of_upstream(source);
                Verdict { retry_after: verdict.retry_after.or(*retry_in), ..verdict }
            }
        }
    }
}

impl Error {
    /// Whether it is a refusal, which its client mends or waits out, and no failure of ours or of a server. Over
    /// HTTP the one is a status from 400, the other one from 500 on.
    pub const fn is_refusal(&self) -> bool {
        use upstream::Error as E;
        match self {
            Self::Upstream { source, .. } => {
                matches!(
                    source,
                    E::Overloaded { .. } | E::Leased { .. } | E::Paced { .. } | E::Status { status: 429, .. }
                )
            }
            Self::ServerNotFound { .. }
            | Self::NameNotFound { .. }
            | Self::Ambiguous { .. }
            | Self::AmbiguousUri { .. }
            | Self::AmbiguousArgument { .. }
            | Self::ToolChanged { .. }
            | Self::OtherDefinition { .. }
            | Self::ResourceNotFound { .. } => true,
        }
    }
}

impl Error {
    /// What to do about the failure of a server; the other failures name what there is instead.
    pub fn guidance(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Upstream { server, source, .. } => Some(guidance_of(server, source)),
            Self::ToolChanged { server, .. } => Some(Cow::Owned(format!(
                "an operator looks at `changed_tools` of {server} in GET /api/v1/mcp/servers and approves with POST /api/v1/mcp/servers/{server}/tools/approve"
            ))),
            Self::OtherDefinition { server, .. } => Some(Cow::Owned(format!(
                "look at `changed_tools` of {server} in GET /api/v1/mcp/servers again"
            ))),
            Self::ServerNotFound { .. }
            | Self::NameNotFound { .. }
            | Self::ResourceNotFound { .. }
            | Self::AmbiguousArgument { .. }
            | Self::AmbiguousUri { .. }
            | Self::Ambiguous { .. } => None,
        }
    }
}

/// What to do about an answer that is none of MCP.
pub const NO_MCP: &str = "check that the server speaks MCP at its configured address";

fn guidance_of(server: &str, error: &upstream::Error) -> Cow<'static, str> {
    use upstream::Error as E;
    Cow::Borrowed(match error {
        E::CircuitOpen { .. } => {
            return Cow::Owned(format!(
                "wait for the next probe, or POST /api/v1/mcp/circuit-breakers/{server}/reset once the server is well"
            ));
        }
        E::AuthFailed { .. } => {
            return Cow::Owned(format!(
                "mend the credentials and POST /api/v1/mcp/reload, or POST /api/v1/mcp/servers/{server}/reconnect once the server accepts them"
            ));
        }
        E::Unavailable { state } => return guidance_of_state(server, state),
        E::Overloaded { .. } | E::Leased { .. } | E::Paced { .. } => {
            "try again after the seconds in retry_after_seconds"
        }
        E::Connect { .. } | E::NotSent { .. } => {
            "check that the server runs and is reachable from the gateway, GET /api/v1/mcp/health"
        }
        E::Lost { .. } | E::Cut { .. } => "the tool may have run: find out before calling it again",
        E::TimedOut { .. } => {
            "the tool may have run; give it longer: the server's `timeout`, or \"timeout\" of a REST call, in seconds"
        }
        E::Backend { status, facts, .. } => match facts.as_ref().and_then(|facts| facts.get_as("guidance")) {
            Some(theirs) => return Cow::Owned(theirs),
            None => guidance_of_status(*status),
        },
        E::Status { status, .. } => guidance_of_status(*status),
        E::Malformed { .. } => NO_MCP,
        E::MemoryExhausted => {
            "the tool may have run: find out before calling it again; ask for less at a time, or raise `memory_budget` of the gateway"
        }
        E::TooLarge { .. } => "ask for less at a time, or raise the server's limit for one message",
    })
}

/// What brings back a server that takes no calls in `state`.
fn guidance_of_state(server: &str, state: &str) -> Cow<'static, str> {
    match state {
        // The words of `upstream::State` and of the end.
        "disabled" => Cow::Owned(format!(
            "set `enabled: true` for {server} in the registry file and POST /api/v1/mcp/reload"
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

const fn guidance_of_status(status: u16) -> &'static str {
    match status {
        429 | 502..=504 => "try again later, after the seconds in retry_after_seconds where they are given",
        401 | 403 => "check which credentials the gateway was given for it, and what they allow",
        404 | 410 => "check the name or the id: what is asked for is not there",
        400..=499 => "change what is asked; `detail` has what it says of it",
        _ => "what is behind the server failed: look there, and at GET /api/v1/mcp/health",
    }
}

const fn of_upstream(error: &upstream::Error) -> Verdict {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { retry_in } => Verdict::passing(Word::CircuitOpen, Some(*retry_in)),
        E::Overloaded { retry_in } | E::Leased { retry_in } | E::Paced { retry_in, .. } => {
            Verdict::passing(Word::RateLimited, Some(*retry_in))
        }
        E::Connect { .. } | E::NotSent { .. } => Verdict::passing(Word::ServiceUnavailable, None),
        // It may have run: to do it again is the caller's decision, not a matter of course.
        E::Lost { .. } | E::Cut { .. } => Verdict::of(Word::ServiceUnavailable),
        E::TimedOut { .. } => Verdict::of(Word::Timeout),
        E::Status { status, retry_after } | E::Backend { status, retry_after, .. } => {
            of_status(*status, *retry_after)
        }
        // The call was made, so making it again is for the caller to decide.
        E::MemoryExhausted => Verdict::of(Word::RateLimited),
        E::AuthFailed { .. } => Verdict::of(Word::AuthenticationError),
        E::Malformed { .. } | E::TooLarge { .. } | E::Unavailable { .. } => {
            Verdict::of(Word::ServiceUnavailable)
        }
    }
}

const fn of_status(status: u16, retry_after: Option<Duration>) -> Verdict {
    match status {
        429 => Verdict::passing(Word::RateLimited, retry_after),
        502..=504 => Verdict::passing(Word::ServiceUnavailable, retry_after),
        401 | 403 => Verdict::of(Word::AuthenticationError),
        404 | 410 => Verdict::of(Word::NotFound),
        400..=499 => Verdict::of(Word::InvalidParams),
        _ => Verdict::of(Word::ServiceUnavailable),
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
            let advice = error.guidance().expect("advice");
            assert!(advised.iter().all(|part| advice.contains(part)), "{advice}");
            assert!(!advice.contains(idle) && !advice.contains('{'), "{advice}");
        }
    }

    #[test]
    fn the_answer_of_a_back_end_is_judged_by_its_status() {
        let soon = Some(Duration::from_secs(3));
        for (status, word, is_retryable) in [
            (400, Word::InvalidParams, false),
            (401, Word::AuthenticationError, false),
            (403, Word::AuthenticationError, false),
            (404, Word::NotFound, false),
            (409, Word::InvalidParams, false),
            (429, Word::RateLimited, true),
            (500, Word::ServiceUnavailable, false),
            (502, Word::ServiceUnavailable, true),
            (503, Word::ServiceUnavailable, true),
            (504, Word::ServiceUnavailable, true),
        ] {
            let detail = String::new();
            let error = upstream::Error::Backend { status, detail, retry_after: soon, facts: None };
            let verdict = of_upstream(&error);
            assert_eq!((verdict.word, verdict.is_retryable), (word, is_retryable), "{status}");
            assert_eq!(verdict.retry_after, soon.filter(|_| is_retryable), "{status}");
        }
    }
}
