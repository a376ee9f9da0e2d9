//! What a failure is for whoever called: its word, whether calling again can help, and what else does.
//!
//! One table for MCP clients and REST. The words are stable; a failure that is not `is_retryable` may
//! be mended too, but not by doing the same again. Not here: what each protocol calls it beside.

use std::time::Duration;

use serde::Serialize;

use super::Error;
use crate::upstream;

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
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::ServerNotFound { .. } | Self::NameNotFound { .. } | Self::ResourceNotFound { .. } => {
                Verdict::of(Word::NotFound)
            }
            Self::Ambiguous { .. } => Verdict::of(Word::InvalidParams),
            Self::Upstream { source, .. } => of_upstream(source),
        }
    }
}

impl Error {
    /// What to do about the failure of a server; the other failures name what there is instead.
    pub const fn guidance(&self) -> Option<&'static str> {
        match self {
            Self::Upstream { source, .. } => Some(guidance_of(source)),
            Self::ServerNotFound { .. }
            | Self::NameNotFound { .. }
            | Self::ResourceNotFound { .. }
            | Self::Ambiguous { .. } => None,
        }
    }
}

/// What to do about an answer that is none of MCP.
pub const NO_MCP: &str = "check that the server speaks MCP at its configured address";

const fn guidance_of(error: &upstream::Error) -> &'static str {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { .. } => {
            "wait for the next probe, or POST /api/v1/mcp/circuit-breakers/{server}/reset once the server is well"
        }
        E::Overloaded { .. } | E::Leased { .. } => "try again after the seconds in retry_after_seconds",
        E::Connect { .. } | E::NotSent { .. } => {
            "check that the server runs and is reachable from the gateway, GET /api/v1/mcp/health"
        }
        E::Lost { .. } | E::Cut { .. } => "the tool may have run: find out before calling it again",
        E::TimedOut { .. } => {
            "the tool may have run; give it longer: the server's `timeout`, or \"timeout\" of a REST call, in seconds"
        }
        E::Status { status, .. } | E::Backend { status, .. } => guidance_of_status(*status),
        E::AuthFailed { .. } => {
            "mend the credentials and POST /api/v1/mcp/reload, or POST /api/v1/mcp/servers/{name}/reconnect once the server accepts them"
        }
        E::Malformed { .. } => NO_MCP,
        E::TooLarge { .. } => "ask for less at a time, or raise the server's limit for one message",
        E::Unavailable { .. } => "have an operator enable it, or POST /api/v1/mcp/servers/{name}/reconnect",
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
        E::Overloaded { retry_in } | E::Leased { retry_in } => {
            Verdict::passing(Word::RateLimited, Some(*retry_in))
        }
        E::Connect { .. } | E::NotSent { .. } => Verdict::passing(Word::ServiceUnavailable, None),
        // It may have run: to do it again is the caller's decision, not a matter of course.
        E::Lost { .. } | E::Cut { .. } => Verdict::of(Word::ServiceUnavailable),
        E::TimedOut { .. } => Verdict::of(Word::Timeout),
        E::Status { status, retry_after } | E::Backend { status, retry_after, .. } => {
            of_status(*status, *retry_after)
        }
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
            let verdict =
                of_upstream(&upstream::Error::Backend { status, detail: String::new(), retry_after: soon });
            assert_eq!((verdict.word, verdict.is_retryable), (word, is_retryable), "{status}");
            assert_eq!(verdict.retry_after, soon.filter(|_| is_retryable), "{status}");
        }
    }
}
