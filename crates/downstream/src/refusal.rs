//! Answers to requests that `guard` refuses: one list, rendered in two forms.
//!
//! The texts state the rule, but not what would be accepted. MCP clients get a JSON-RPC error response without `id`,
//! because the body was not read. All others get a problem document (RFC 9457).

use std::time::Duration;

use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use auth::Denied;
use json::Raw;
use protocol::error::code;
use protocol::{ErrorCode, Problem};
use runtime::telemetry::RequestId;

/// When the check of a key is worth a retry.
const BUSY_RETRY_IN: Duration = Duration::from_secs(1);
/// When another connection may be accepted.
const FULL_RETRY_IN: Duration = Duration::from_secs(5);

/// The form of the answer, by its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFormat {
    /// An MCP client.
    Mcp,
    /// A program or a person.
    Rest,
}

impl AnswerFormat {
    /// Chooses the form by `path`: three paths and all paths below them belong to MCP.
    pub(crate) fn of(path: &str) -> Self {
        let is_below =
            |of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if ["/mcp", "/sse", "/messages"].into_iter().any(is_below) { Self::Mcp } else { Self::Rest }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// RFC 9112, section 3.2: a request names exactly one host.
    #[error("the request must have exactly one Host")]
    HostCount,
    /// `Host` is not an accepted name of Switchyard.
    #[error("this Host is not served here")]
    Host,
    /// `Origin` is not an allowed one.
    #[error("this Origin may not ask here")]
    Origin,
    /// A request of a browser session may come from another site.
    #[error(
        "a browser session must send this from a page of the gateway, with its token in X-Switchyard-CSRF"
    )]
    Csrf,
    /// An OAuth client of a Switchyard sent the request, because the metadata of a server led it here.
    #[error("the metadata of a server may not name a route of the gateway as its endpoint")]
    Loop,
    /// A browser shows a page of others that sent an action of an operator, and nothing else names the sender.
    #[error(
        "without a credential, an action of an operator is accepted from the pages of this gateway and from programs only"
    )]
    OperatorPage,
    /// The body is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive in time")]
    BodyTimedOut,
    /// The body ended before it was complete.
    #[error("the body is not complete")]
    BodyCut,
    /// The memory budget has no room for the body.
    #[error(
        "the memory budget of the gateway has no room for this body; send it again in a moment, or ask its operator to raise `memory_budget`"
    )]
    MemoryExhausted,
    /// The memory budget has no room for the head.
    #[error(
        "too many large heads of requests are being read; send it again in a moment, or with fewer headers"
    )]
    HeadsFull,
    /// RFC 9112, section 6.1: a transfer coding that is not supported.
    #[error("the only transfer coding supported is `chunked`, named once; send the body without another one")]
    TransferCoding,
    /// The request has no principal.
    #[error("{}", text_of(*.0))]
    Denied(Denied),
    /// A path that OAuth clients try and that does not exist here.
    #[error("there is no such path; clients of this gateway send a credential that they were given")]
    NoSuchPath,
    /// The limit of connections is reached.
    #[error("all {most} connections are taken; come back when one has ended")]
    Full {
        /// The limit.
        most: usize,
    },
    /// The principal has as many connections as it may.
    #[error(
        "calls, streams or unread answers of this principal take {held} connections, its share; end some, then try again"
    )]
    ShareTaken {
        /// How many it has.
        held: usize,
    },
    /// A bug in Switchyard.
    #[error("the gateway failed; its log tells more under the request id")]
    Panicked,
}

/// The text is the same for every bad credential: the reason would only help an attacker.
const fn text_of(denied: Denied) -> &'static str {
    match denied {
        Denied::Missing | Denied::Credential(_) | Denied::Unchecked => "a valid credential is required",
        Denied::Busy => "too many keys are being checked for the first time; try again in a moment",
        Denied::KeysUnavailable { .. } => {
            "the key of this token is not known yet, or the login service cannot be reached; try again later"
        }
        Denied::NoRole => "the credential gives no role here",
    }
}

#[derive(Serialize)]
struct ErrorResponse<'a> {
    jsonrpc: &'static str,
    error: &'a Raw,
}

impl Refusal {
    /// The HTTP status.
    pub fn status(self) -> StatusCode {
        self.code().status()
    }

    /// The stable code by which programs distinguish refusals.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::HostCount => ErrorCode::BadHost,
            Self::Host => ErrorCode::HostNotAllowed,
            Self::Origin | Self::OperatorPage => ErrorCode::OriginNotAllowed,
            Self::Csrf => ErrorCode::CsrfTokenRequired,
            Self::TooLarge { .. } => ErrorCode::BodyTooLarge,
            Self::BodyTimedOut => ErrorCode::BodyTimeout,
            Self::NoSuchPath => ErrorCode::NotFound,
            Self::BodyCut => ErrorCode::BodyIncomplete,
            Self::MemoryExhausted => ErrorCode::MemoryExhausted,
            Self::HeadsFull => ErrorCode::TooManyHeads,
            Self::TransferCoding => ErrorCode::TransferCodingNotSupported,
            Self::Denied(Denied::Missing | Denied::Credential(_) | Denied::Unchecked) => {
                ErrorCode::Unauthorized
            }
            Self::Denied(Denied::Busy | Denied::KeysUnavailable { .. }) => ErrorCode::AuthenticationBusy,
            Self::Loop | Self::Denied(Denied::NoRole) => ErrorCode::Forbidden,
            Self::Full { .. } | Self::ShareTaken { .. } => ErrorCode::TooManyConnections,
            Self::Panicked => ErrorCode::InternalError,
        }
    }

    /// The refusal of the request `id` as its client reads it.
    fn problem(self, id: RequestId) -> Problem {
        let problem = Problem::new(self.code(), self.to_string());
        let problem = problem.with(|problem| problem.request_id = Some(id.to_string()));
        match self {
            Self::Denied(Denied::Busy) | Self::MemoryExhausted | Self::HeadsFull => {
                problem.after(BUSY_RETRY_IN)
            }
            Self::Denied(Denied::KeysUnavailable { retry_after }) => {
                problem.after(Duration::from_secs(retry_after.into()))
            }
            Self::Full { most } | Self::ShareTaken { held: most } => {
                problem.after(FULL_RETRY_IN).at_limit(most)
            }
            _ => problem,
        }
    }

    /// The complete response.
    pub fn response(self, format: AnswerFormat, id: RequestId) -> Response {
        let problem = self.problem(id);
        let pause = problem.retry_after_seconds();
        let (kind, body) = match format {
            AnswerFormat::Rest => ("application/problem+json", Raw::of(&problem)),
            AnswerFormat::Mcp => ("application/json", self.json_rpc(problem)),
        };
        let mut response = Response::new(body.bytes().clone().into());
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = pause {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge() {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    /// The body was not read, so the era is unknown: the code is one that both eras have.
    fn json_rpc(self, problem: Problem) -> Raw {
        let number = if self == Self::Panicked { code::INTERNAL_ERROR } else { code::INVALID_REQUEST };
        Raw::of(&ErrorResponse { jsonrpc: "2.0", error: problem.numbered(number).raw() })
    }

    /// RFC 6750, section 3: a challenge names an error only if a credential was sent.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::Denied(Denied::Missing) => Some("Bearer"),
            Self::Denied(Denied::Credential(_)) => Some("Bearer error=\"invalid_token\""),
            Self::Denied(Denied::NoRole) => Some("Bearer error=\"insufficient_scope\""),
            _ => None,
        }
    }
}

/// Adds a parameter to the challenge in `answer`: `scope` (RFC 6750, section 3) or `resource_metadata` (RFC 9728,
/// section 5.1). `value` contains no character that needs escaping.
pub(super) fn add_to_challenge((name, value): (&str, &str), answer: &mut Response) {
    let challenge = answer.headers().get(WWW_AUTHENTICATE).and_then(|challenge| challenge.to_str().ok());
    let Some(challenge) = challenge else { return };
    let comma = if challenge.contains(' ') { "," } else { "" };
    if let Ok(longer) = HeaderValue::try_from(format!("{challenge}{comma} {name}=\"{value}\"")) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, longer);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;
    use auth::Reason;

    async fn body(refusal: Refusal, format: AnswerFormat, id: RequestId) -> Value {
        let body = refusal.response(format, id).into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    #[tokio::test]
    async fn a_refusal_is_rendered_for_its_reader() {
        let id = RequestId::new();
        assert_eq!(
            body(Refusal::TooLarge { limit: 10 }, AnswerFormat::Rest, id).await,
            json!({"type": "/docs/errors#body_too_large", "title": "The body is too large", "status": 413,
                "detail": "the body is larger than 10 bytes", "code": "body_too_large", "retryable": false,
                "hint": ErrorCode::BodyTooLarge.row().action, "request_id": id.to_string()})
        );
        assert_eq!(
            body(Refusal::Host, AnswerFormat::Mcp, id).await,
            json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "this Host is not served here",
                "data": {"type": "authentication_error", "code": "host_not_allowed",
                    "detail": "this Host is not served here", "hint": ErrorCode::HostNotAllowed.row().action,
                    "retryable": false, "request_id": id.to_string()}}})
        );
    }

    #[tokio::test]
    async fn refusal_does_not_say_what_is_wrong_with_a_credential() {
        let id = RequestId::new();
        let missing = body(Refusal::Denied(Denied::Missing), AnswerFormat::Rest, id).await;
        for reason in
            [Reason::Expired, Reason::UnknownKey, Reason::Signature, Reason::Issuer, Reason::Ambiguous]
        {
            let refusal = Refusal::Denied(Denied::Credential(reason));
            assert_eq!(body(refusal, AnswerFormat::Rest, id).await, missing);
            let challenge = refusal.response(AnswerFormat::Mcp, id).headers()[WWW_AUTHENTICATE].clone();
            assert_eq!(challenge, "Bearer error=\"invalid_token\"");
        }
    }

    #[test]
    fn paths_of_the_transports_are_for_clients() {
        for (path, format) in [
            ("/mcp", AnswerFormat::Mcp),
            ("/mcp/", AnswerFormat::Mcp),
            ("/mcp/files", AnswerFormat::Mcp),
            ("/sse", AnswerFormat::Mcp),
            ("/sse/files", AnswerFormat::Mcp),
            ("/messages", AnswerFormat::Mcp),
            ("/mcpx", AnswerFormat::Rest),
            ("/api/v1/mcp/call", AnswerFormat::Rest),
            ("/", AnswerFormat::Rest),
            ("", AnswerFormat::Rest),
        ] {
            assert_eq!(AnswerFormat::of(path), format, "{path}");
        }
    }
}
