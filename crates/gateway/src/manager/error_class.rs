//! Code, retryability and hint of a failure, decided once for MCP clients and REST.
//!
//! Invariant: only a failure that repeating the call can cure has a time to wait.
//!
//! This module does not say what a code means (`protocol::error_code`), nor how a protocol shows it.

use std::borrow::Cow;
use std::time::Duration;

use super::{Error, Named};
use json::Raw;
use protocol::{ErrorCode, ErrorKind};

/// Public code, kind and retryability of one failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorClass {
    /// Its code.
    pub code: ErrorCode,
    /// Its kind, which follows the HTTP status where there is one.
    pub kind: ErrorKind,
    /// The code whose JSON-RPC number it has: its own, unless an HTTP status says more.
    pub numbered: ErrorCode,
    /// Whether the same call can succeed when it is made again.
    pub is_retryable: bool,
    /// When a retry is useful, if known.
    pub retry_after: Option<Duration>,
}

impl ErrorClass {
    /// The usual class of `code`.
    pub const fn of(code: ErrorCode) -> Self {
        let kind = code.row().kind;
        Self { code, kind, numbered: code, is_retryable: code.is_retryable(), retry_after: None }
    }

    /// The class of `code`, with a known time to wait.
    const fn after(code: ErrorCode, pause: Duration) -> Self {
        Self { retry_after: Some(pause), ..Self::of(code) }
    }

    /// The class of `code` for an answer with the HTTP status `status`.
    const fn of_status(code: ErrorCode, status: u16, retry_after: Option<Duration>) -> Self {
        let kind = match status {
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
        let is_retryable = matches!(status, 429 | 502..=504);
        let retry_after = if is_retryable { retry_after } else { None };
        Self { code, kind, numbered, is_retryable, retry_after }
    }

    /// The class of a bug of a service, which no repetition avoids.
    const fn internal(self) -> Self {
        Self { kind: ErrorKind::InternalError, is_retryable: false, retry_after: None, ..self }
    }
}

impl Error {
    /// Code, kind and retryability as clients read them.
    pub fn class(&self) -> ErrorClass {
        use ErrorCode as C;
        match self {
            Self::ServerNotFound { .. } => ErrorClass::of(C::ServerNotFound),
            Self::NameNotFound { kind, unreached, .. } => {
                let code = match kind {
                    Named::Tool => C::ToolNotFound,
                    Named::Prompt => C::PromptNotFound,
                };
                // A server that was not reached yet may have the name.
                ErrorClass { is_retryable: !unreached.is_empty(), ..ErrorClass::of(code) }
            }
            Self::Ambiguous { kind: Named::Tool, .. } => ErrorClass::of(C::AmbiguousTool),
            Self::Ambiguous { kind: Named::Prompt, .. } => ErrorClass::of(C::AmbiguousPrompt),
            Self::AmbiguousUri { .. } => ErrorClass::of(C::AmbiguousUri),
            Self::AmbiguousArgument { .. } => ErrorClass::of(C::InvalidParams),
            Self::ToolChanged { .. } => ErrorClass::of(C::ToolChanged),
            Self::OtherDefinition { .. } => ErrorClass::of(C::OtherDefinition),
            Self::ResourceNotFound { .. } => ErrorClass::of(C::ResourceNotFound),
            Self::Upstream { source, retry_in, .. } => {
                let class = of_upstream(source);
                ErrorClass { retry_after: class.retry_after.or(*retry_in), ..class }
            }
        }
    }

    /// The server it is about, if one is known.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::ServerNotFound { server, .. } => Some(server),
            Self::NameNotFound { server, .. } => server.as_deref(),
            Self::AmbiguousArgument { server, .. }
            | Self::ToolChanged { server, .. }
            | Self::OtherDefinition { server, .. }
            | Self::Upstream { server, .. } => Some(server),
            Self::Ambiguous { .. } | Self::AmbiguousUri { .. } | Self::ResourceNotFound { .. } => None,
        }
    }

    /// The tool it is about, if it is about one.
    pub fn tool(&self) -> Option<&str> {
        match self {
            Self::NameNotFound { kind: Named::Tool, name, .. }
            | Self::Ambiguous { kind: Named::Tool, name, .. } => Some(name),
            Self::AmbiguousArgument { tool, .. }
            | Self::ToolChanged { tool, .. }
            | Self::OtherDefinition { tool, .. } => Some(tool),
            Self::Upstream { tool, .. } => tool.as_deref(),
            Self::NameNotFound { .. }
            | Self::Ambiguous { .. }
            | Self::ServerNotFound { .. }
            | Self::AmbiguousUri { .. }
            | Self::ResourceNotFound { .. } => None,
        }
    }

    /// Whether it is a refusal that its client can correct or wait out, not a failure of Switchyard or of a server. Over
    /// HTTP a refusal has a status from 400 to 499.
    pub const fn is_refusal(&self) -> bool {
        use upstream::Error as E;
        match self {
            Self::Upstream { source, .. } => {
                matches!(
                    source,
                    E::Overloaded { .. } | E::Full { .. } | E::Paced { .. } | E::Status { status: 429, .. }
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

    /// Advice for the caller: more exact than that of the table, where that is possible.
    pub fn hint(&self) -> Cow<'static, str> {
        match self {
            Self::NameNotFound { hidden: Some(hidden), .. } => {
                Cow::Owned(format!("change `{}` of `{}` and reload", hidden.setting, hidden.server))
            }
            Self::ServerNotFound { nearest, .. } | Self::NameNotFound { nearest, .. } => nearest
                .first()
                .map_or_else(|| self.usual_hint(), |name| format!("did you mean {name:?}?").into()),
            Self::Upstream { server, source, .. } => {
                hint_of(server, source).unwrap_or_else(|| self.usual_hint())
            }
            Self::ToolChanged { server, .. } => Cow::Owned(format!(
                "an operator looks at `changed_tools` of {server} in GET /api/v1/mcp/servers and approves it by its sha256 with POST /api/v1/mcp/servers/{server}/tools/approve"
            )),
            Self::OtherDefinition { server, .. } => {
                Cow::Owned(format!("look at `changed_tools` of {server} in GET /api/v1/mcp/servers again"))
            }
            Self::AmbiguousArgument { .. } => Cow::Borrowed("send it once"),
            Self::ResourceNotFound { .. } | Self::AmbiguousUri { .. } | Self::Ambiguous { .. } => {
                self.usual_hint()
            }
        }
    }

    fn usual_hint(&self) -> Cow<'static, str> {
        Cow::Borrowed(self.class().code.row().action)
    }
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
        429 | 502..=504 => "try again later, after retry_after_ms where it is given",
        401 | 403 => "check which credentials the gateway was given for it, and what they allow",
        404 | 410 => "check the name or the id: what is asked for is not there",
        400..=499 => "change what is asked; `detail` has what it says of it",
        _ => "what is behind the server failed: look there, and at GET /api/v1/mcp/health",
    }
}

/// Whether the service says that it has a bug, in the word of the specification of `rag`.
fn says_internal(facts: &Raw) -> bool {
    let word: Option<String> = facts.get("data").and_then(|data| data.get_as("type"));
    word.is_some_and(|word| word == "internal_error")
}

fn of_upstream(error: &upstream::Error) -> ErrorClass {
    use ErrorCode as C;
    use upstream::Error as E;
    match error {
        E::CircuitOpen { retry_in } => ErrorClass::after(C::CircuitOpen, *retry_in),
        E::Overloaded { retry_in } | E::Full { retry_in, .. } | E::Paced { retry_in, .. } => {
            ErrorClass::after(C::Overloaded, *retry_in)
        }
        E::Connect { .. } | E::NotSent { .. } | E::SessionEnded(_) => ErrorClass::of(C::ConnectionFailed),
        // It may have run: to do it again is the caller's decision, not a matter of course.
        E::Lost { .. } | E::Cut { .. } => ErrorClass::of(C::OutcomeUnknown),
        E::TimedOut { .. } => ErrorClass::of(C::TimedOut),
        E::Status { status, retry_after, .. } => {
            let code = match status {
                401 | 403 => C::AuthFailed,
                429 => C::RateLimited,
                500.. => C::ServerError,
                _ => C::InvalidAnswer,
            };
            ErrorClass::of_status(code, *status, *retry_after)
        }
        E::Backend { status, retry_after, facts, .. } => {
            let class = ErrorClass::of_status(C::BackendError, *status, *retry_after);
            if facts.as_ref().is_some_and(|facts| says_internal(facts)) { class.internal() } else { class }
        }
        // The call was made, so making it again is for the caller to decide.
        E::MemoryExhausted => ErrorClass::of(C::MemoryExhausted),
        E::AuthFailed { .. } => ErrorClass::of(C::AuthFailed),
        E::LoginRequired { .. } => ErrorClass::of(C::LoginRequired),
        E::Malformed { .. } | E::Unreadable { .. } | E::TooLarge { .. } => ErrorClass::of(C::InvalidAnswer),
        E::Unavailable { .. } => ErrorClass::of(C::ServerUnavailable),
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
            let advice = error.hint();
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
            let class = of_upstream(&error);
            assert_eq!((class.kind, class.is_retryable), (kind, is_retryable), "{status}");
            assert_eq!(class.retry_after, soon.filter(|_| is_retryable), "{status}");
        }
    }
}
