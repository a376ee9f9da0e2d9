//! Why a call to one server failed on our side: what happened, was it delivered, whose fault is it.
//!
//! An answer of the *server*, errors included, is a [`protocol::Reply`] and never one of these.
//! The answers here are exhaustive matches, so a new kind of failure cannot forget to decide.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use json::Raw;
use protocol::{ErrorObject, ParseError, Version};
use runtime::memory::Exhausted;

/// A failure between Switchyard and one server. Texts are for people; they hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Our breaker refused the call.
    #[error("the circuit breaker is open, next probe in {:.1} s", retry_in.as_secs_f64())]
    CircuitOpen {
        /// Time until a probe is let through.
        retry_in: Duration,
    },
    /// Our bulkhead refused the call: too many are running and waiting.
    #[error("too many calls are already running or waiting")]
    Overloaded {
        /// When it is worth trying again.
        retry_in: Duration,
    },
    /// A table of connections to the server is full, and none in it may end. Nothing was sent.
    #[error("all {most} {what} are in use")]
    Full {
        /// How many there may be.
        most: usize,
        /// The name of the table.
        what: &'static str,
        /// When it is worth trying again.
        retry_in: Duration,
    },
    /// The server was sent as many requests in the last minute as it may get. Nothing was sent.
    #[error("more than {most} requests in a minute (`limits.requests_per_minute`)")]
    Paced {
        /// How many it may get.
        most: usize,
        /// When there is room for the next one.
        retry_in: Duration,
    },
    /// No connection could be made, its handshake failed, or the server refused to list its tools. The call was not sent.
    #[error("{reason}")]
    Connect {
        /// Description of the failure.
        reason: String,
    },
    /// The connection died before it took the call. The call was not sent.
    #[error("the connection closed before the call was sent: {reason}")]
    NotSent {
        /// Description of the failure.
        reason: String,
    },
    /// The connection died after the call was sent and before any byte of an answer.
    #[error("the connection was lost after the call was sent, its outcome is unknown: {reason}")]
    Lost {
        /// Description of the failure.
        reason: String,
    },
    /// The answer had begun when it was cut off.
    #[error("the answer was cut off: {reason}")]
    Cut {
        /// Description of the failure.
        reason: String,
    },
    /// No answer within the deadline. The call was cancelled.
    #[error("no answer within {:.1} s", after.as_secs_f64())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// An HTTP status without a JSON-RPC body.
    #[error("the server answered HTTP {status}{detail}")]
    Status {
        /// The status code.
        status: u16,
        /// The text of its body or its headers, behind a colon; empty if there is none.
        detail: String,
        /// The time to wait that `Retry-After` asked for.
        retry_after: Option<Duration>,
    },
    /// The service behind a built-in server answered with an error.
    #[error("{detail}")]
    Backend {
        /// The HTTP status of its answer.
        status: u16,
        /// Its error text, for people: clipped, without the contents of the request.
        detail: String,
        /// The time to wait that `Retry-After` or the body of the answer asked for.
        retry_after: Option<Duration>,
        /// The other facts of its answer, an object: `code`, `field`, `guidance`. On the heap, because few
        /// answers have any and every error would be larger.
        facts: Option<Box<Raw>>,
    },
    /// It refuses our credentials. Nothing is tried again until an operator does something about it, or the
    /// file of its token holds another one.
    #[error("the server refuses our credentials: {reason}")]
    AuthFailed {
        /// Description of the credential that was refused.
        reason: String,
    },
    /// Somebody has to log in to it first (`auth: oauth`). Nothing is sent to it until then.
    #[error("the server needs a login: {reason}")]
    LoginRequired {
        /// Why there is no valid token, in words.
        reason: String,
        /// Whether only this call needs it, because it needs more scopes than others.
        only_this_call: bool,
    },
    /// The server is sent a secret of each principal, and the one of the call has none. Nothing is sent.
    #[error("{}", secret_required(secret, principal.as_deref()))]
    SecretRequired {
        /// The name of the secret.
        secret: Arc<str>,
        /// The principal, if it is known and can have secrets.
        principal: Option<Arc<str>>,
    },
    /// The server forgot the session of the request, so nothing ran. Another session is opened for one more attempt.
    #[error("{}", .0.bare)]
    SessionEnded(Box<SessionRefusal>),
    /// The server answered this call, and its answer cannot be read: its content coding is broken, it is not JSON, or no
    /// response to the request. Other calls are not affected.
    #[error("the answer is not a valid MCP message: {reason}")]
    Unreadable {
        /// The fault and its position.
        reason: String,
        /// Advice, if the fault is a known one.
        advice: Option<String>,
    },
    /// The body of the answer is nothing that an MCP server, or the service behind a built-in one, writes, such as a page.
    #[error("the answer is not valid: {reason}")]
    Malformed {
        /// Description of the fault.
        reason: String,
    },
    /// The answer is larger than allowed; it was discarded.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The cap in bytes.
        limit: usize,
    },
    /// The memory budget has no room for the answer; it was discarded.
    #[error(
        "the server answered, and the memory budget of the gateway has no room for the answer, so it was discarded; the call may have taken effect"
    )]
    MemoryExhausted,
    /// The operator disconnected or disabled this server, or Switchyard is shutting down, or the client that a
    /// connection was to be made for is gone.
    #[error("the server is {state}")]
    Unavailable {
        /// `disabled`, `disconnected` or `shutting down`, or in words what it is to that client.
        state: &'static str,
    },
}

fn secret_required(secret: &str, principal: Option<&str>) -> String {
    match principal {
        Some(principal) => format!("the server needs a secret of the caller: {principal} has no `{secret}`"),
        None => format!("the server needs a secret `{secret}` of each caller, and this one has none"),
    }
}

/// Whether a call reached its server, as far as that can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Switchyard refused it.
    Refused,
    /// Nothing of it was sent.
    NotSent,
    /// It was sent; whether it ran is unknown.
    Unknown,
    /// It was sent and answered, at least in part.
    Answered,
}

impl From<Exhausted> for Error {
    fn from(_: Exhausted) -> Self {
        Self::MemoryExhausted
    }
}

impl From<net::http::Error> for Error {
    fn from(error: net::http::Error) -> Self {
        use net::http::Error as Http;
        match error {
            Http::Unwritable { .. } => Self::backend(400, error.to_string()),
            Http::Connect { reason } => Self::Connect { reason },
            Http::NotSent { reason } => Self::NotSent { reason },
            Http::Lost { reason } => Self::Lost { reason },
            Http::Cut { reason } => Self::Cut { reason },
            Http::Malformed { reason } => Self::Malformed { reason },
            Http::Undecodable { reason } => Self::Unreadable { reason, advice: None },
            Http::TooLarge { limit } => Self::TooLarge { limit },
            Http::MemoryExhausted => Self::MemoryExhausted,
            Http::TimedOut { after } => Self::TimedOut { after },
        }
    }
}

/// The answer to a request on a session that the server forgot, which is returned if a new session does not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRefusal {
    /// The error in the body, if there is one.
    pub error: Option<ErrorObject>,
    /// The failure apart from that.
    pub bare: Error,
    /// The revision of the session.
    pub version: Version,
}

impl Error {
    /// It, where what failed is what every call begins with: who refuses our credentials there refuses
    /// them for all. One that says when to come again refuses something else (RFC 9110, 15.5.4).
    pub(crate) fn of_all_calls(self) -> Self {
        match self {
            Self::Status { status: status @ 401, detail, .. }
            | Self::Status { status: status @ 403, retry_after: None, detail } => {
                Self::AuthFailed { reason: format!("HTTP {status}{detail}") }
            }
            Self::LoginRequired { reason, .. } => Self::LoginRequired { reason, only_this_call: false },
            other => other,
        }
    }

    /// The answer `status` of the service behind a built-in server, without a time to wait or facts.
    pub fn backend(status: u16, detail: impl Into<String>) -> Self {
        Self::Backend { status, detail: detail.into(), retry_after: None, facts: None }
    }

    /// Whether the server refuses whatever is sent with the present credential.
    pub(super) const fn refuses_credentials(&self) -> bool {
        matches!(
            self,
            Self::AuthFailed { .. }
                | Self::LoginRequired { only_this_call: false, .. }
                | Self::SecretRequired { .. }
        )
    }

    /// The failure without the offer of another attempt on a new session.
    pub(super) fn without_session(self) -> Self {
        match self {
            Self::SessionEnded(refusal) => refusal.bare,
            other => other,
        }
    }

    /// The failure of a call to which the server answered `text`, which is no message because of `error`.
    pub(super) fn of_text(text: &[u8], error: &ParseError) -> Self {
        let begin = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().first();
        if !matches!(begin, Some(b'{' | b'[')) {
            return Self::Malformed { reason: error.to_string() };
        }
        Self::unreadable(error)
    }

    /// The failure of one call whose response is no message because of `error`.
    pub(super) fn unreadable(error: &ParseError) -> Self {
        let reason = error.to_string();
        let advice = if let ParseError::NotJson(fault) = error { Some(fault.advice()) } else { None };
        Self::Unreadable { reason, advice }
    }

    /// Whether the call reached the server.
    pub const fn delivery(&self) -> Delivery {
        match self {
            Self::CircuitOpen { .. }
            | Self::Overloaded { .. }
            | Self::Full { .. }
            | Self::Paced { .. }
            | Self::AuthFailed { .. }
            | Self::LoginRequired { .. }
            | Self::SecretRequired { .. }
            | Self::Unavailable { .. } => Delivery::Refused,
            Self::Connect { .. } | Self::NotSent { .. } | Self::SessionEnded(_) => Delivery::NotSent,
            Self::Lost { .. } | Self::TimedOut { .. } => Delivery::Unknown,
            Self::Cut { .. }
            | Self::Status { .. }
            | Self::Backend { .. }
            | Self::Malformed { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::MemoryExhausted => Delivery::Answered,
        }
    }

    /// Rewrites the texts of the failure with `say`.
    #[must_use]
    pub fn reworded(self, say: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Connect { reason } => Self::Connect { reason: say(reason) },
            Self::NotSent { reason } => Self::NotSent { reason: say(reason) },
            Self::Lost { reason } => Self::Lost { reason: say(reason) },
            Self::Cut { reason } => Self::Cut { reason: say(reason) },
            Self::AuthFailed { reason } => Self::AuthFailed { reason: say(reason) },
            Self::LoginRequired { reason, only_this_call } => {
                Self::LoginRequired { reason: say(reason), only_this_call }
            }
            Self::Malformed { reason } => Self::Malformed { reason: say(reason) },
            Self::Status { status, detail, retry_after } if !detail.is_empty() => {
                Self::Status { status, detail: say(detail), retry_after }
            }
            Self::Unreadable { reason, advice } => Self::Unreadable { reason: say(reason), advice },
            Self::Backend { status, detail, retry_after, facts } => {
                Self::Backend { status, detail: say(detail), retry_after, facts }
            }
            Self::SessionEnded(refusal) => {
                let bare = refusal.bare.reworded(say);
                Self::SessionEnded(Box::new(SessionRefusal { bare, ..*refusal }))
            }
            Self::CircuitOpen { .. }
            | Self::Overloaded { .. }
            | Self::Full { .. }
            | Self::Paced { .. }
            | Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::MemoryExhausted
            | Self::SecretRequired { .. }
            | Self::Status { .. }
            | Self::Unavailable { .. } => self,
        }
    }

    /// The error of an HTTP status, with what its body says.
    #[must_use]
    pub(super) fn saying(self, text: Option<String>) -> Self {
        match (self, text) {
            (Self::Status { status, detail, retry_after }, Some(text)) if detail.is_empty() => {
                Self::Status { status, detail: format!(": {text}"), retry_after }
            }
            (error, _) => error,
        }
    }

    /// Rewrites the JSON text of the facts with `redact`. Facts that are no JSON after
    /// that are dropped.
    #[must_use]
    pub(super) fn with_facts(mut self, redact: impl FnOnce(&str) -> String) -> Self {
        if let Self::Backend { facts, .. } = &mut self {
            let blanked = facts.take().map(|facts| Raw::parse(&Bytes::from(redact(facts.as_str()))));
            *facts = blanked.and_then(Result::ok).map(Box::new);
        }
        self
    }

    /// The facts that the service behind a built-in server gave beside its text.
    pub fn facts(&self) -> Option<&Raw> {
        match self {
            Self::Backend { facts, .. } => facts.as_deref(),
            _ => None,
        }
    }

    /// The HTTP status that the server, or the service behind a built-in one, answered with.
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } | Self::Backend { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server, or the service behind a built-in one, answered with an HTTP status of 500 or more.
    pub const fn is_server_error(&self) -> bool {
        matches!(self, Self::Status { status: 500.., .. } | Self::Backend { status: 500.., .. })
    }

    /// Whether it counts for the circuit breaker: transport faults, timeouts, answers that come from no MCP server, and
    /// HTTP 502, 503 and 504 do. A result that cannot be read is one tool's fault. HTTP 500 of a server does not count:
    /// the server is there and answers, and one broken tool must not shut out the callers of all others. All tools of a
    /// built-in server need the same service, so every 5xx of that service counts.
    pub const fn trips_breaker(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::NotSent { .. }
            | Self::Lost { .. }
            | Self::Cut { .. }
            | Self::TimedOut { .. }
            | Self::Malformed { .. } => true,
            Self::Status { status, .. } => matches!(status, 502..=504),
            Self::Backend { status, .. } => *status >= 500,
            Self::CircuitOpen { .. }
            | Self::Overloaded { .. }
            | Self::Full { .. }
            | Self::Paced { .. }
            | Self::AuthFailed { .. }
            | Self::LoginRequired { .. }
            | Self::SecretRequired { .. }
            | Self::SessionEnded(_)
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::MemoryExhausted
            | Self::Unavailable { .. } => false,
        }
    }
}
