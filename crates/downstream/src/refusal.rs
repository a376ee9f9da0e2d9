//! What the door answers when it does not let a request in: one list, and its two renderings.
//!
//! Texts say what the rule is and nothing about what else would be let in. MCP clients get a
//! JSON-RPC error response without `id` (the body was not read, so there is none), everybody else a
//! problem document (RFC 9457).

use std::time::Duration;

use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use auth::Denied;
use gateway::error::Limit;
use gateway::manager::Word;
use json::Raw;
use protocol::ErrorObject;
use protocol::error::code;
use runtime::telemetry::RequestId;

/// When the check of a key is worth another try, in seconds.
const BUSY_RETRY_IN: u64 = 1;
/// When there may be a place for another connection, in seconds.
const FULL_RETRY_IN: u64 = 5;

/// Who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// An MCP client.
    Mcp,
    /// A program or a person.
    Rest,
}

impl Face {
    /// Who asks for `path`: what is at or below one of three paths belongs to MCP.
    pub fn of(path: &str) -> Self {
        let is_below =
            |of: &str| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if ["/mcp", "/sse", "/messages"].into_iter().any(is_below) { Self::Mcp } else { Self::Rest }
    }
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// RFC 9112, section 3.2: a request names exactly one host.
    #[error("the request must have exactly one Host")]
    HostCount,
    /// `Host` is not one of ours.
    #[error("this Host is not served here")]
    Host,
    /// `Origin` is not one of those that may ask.
    #[error("this Origin may not ask here")]
    Origin,
    /// The body is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The cap in bytes.
        limit: usize,
    },
    /// The body did not come in time.
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
    /// No room for its head.
    #[error(
        "too many large heads of requests are being read; send it again in a moment, or with fewer headers"
    )]
    HeadsFull,
    /// RFC 9112, section 6.1: a coding of the message that is not understood here.
    #[error("the only transfer coding supported is `chunked`, named once; send the body without another one")]
    TransferCoding,
    /// No principal.
    #[error("{}", text_of(*.0))]
    Denied(Denied),
    /// A path that OAuth clients try and that does not exist here.
    #[error("there is no such path; clients of this gateway send a credential that they were given")]
    NoSuchPath,
    /// No place for one more connection.
    #[error("all {most} connections are taken; come back when one has ended")]
    Full {
        /// How many there may be.
        most: usize,
    },
    /// A bug of ours.
    #[error("the gateway failed; its log tells more under the request id")]
    Panicked,
}

/// The same text whatever is wrong with a credential: why it was refused helps only who guesses.
const fn text_of(denied: Denied) -> &'static str {
    match denied {
        Denied::Missing | Denied::Credential(_) | Denied::Unchecked => "a valid credential is required",
        Denied::Busy => "too many keys are being checked for the first time; try again in a moment",
        Denied::NoRole => "the credential gives no role here",
    }
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    request_id: RequestId,
    error_type: Word,
    #[serde(flatten)]
    more: More,
}

#[derive(Serialize)]
struct ErrorResponse<'a> {
    jsonrpc: &'static str,
    error: &'a Raw,
}

#[derive(Serialize)]
struct Details<'a> {
    r#type: Word,
    code: &'static str,
    detail: &'a str,
    retryable: bool,
    request_id: RequestId,
    #[serde(flatten)]
    more: More,
}

/// What only some refusals have.
#[derive(Serialize)]
struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<f64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_id: Option<RequestId>,
}

impl Refusal {
    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::HostCount | Self::BodyCut => StatusCode::BAD_REQUEST,
            Self::Host | Self::Origin | Self::Denied(Denied::NoRole) => StatusCode::FORBIDDEN,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimedOut => StatusCode::REQUEST_TIMEOUT,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Denied(Denied::Missing | Denied::Credential(_) | Denied::Unchecked) => {
                StatusCode::UNAUTHORIZED
            }
            Self::Denied(Denied::Busy) | Self::Full { .. } | Self::MemoryExhausted | Self::HeadsFull => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The word programs tell refusals apart by; stable.
    pub const fn code(self) -> &'static str {
        match self {
            Self::HostCount => "bad_host",
            Self::Host => "host_not_allowed",
            Self::Origin => "origin_not_allowed",
            Self::TooLarge { .. } => "body_too_large",
            Self::BodyTimedOut => "body_timeout",
            Self::NoSuchPath => "not_found",
            Self::BodyCut => "body_incomplete",
            Self::MemoryExhausted => "memory_exhausted",
            Self::HeadsFull => "too_many_heads",
            Self::TransferCoding => "transfer_coding_not_supported",
            Self::Denied(Denied::Missing | Denied::Credential(_) | Denied::Unchecked) => "unauthorized",
            Self::Denied(Denied::Busy) => "authentication_busy",
            Self::Denied(Denied::NoRole) => "forbidden",
            Self::Full { .. } => "too_many_connections",
            Self::Panicked => "internal_error",
        }
    }

    /// The word for its kind.
    const fn word(self) -> Word {
        match self {
            Self::HostCount | Self::TooLarge { .. } | Self::BodyCut | Self::TransferCoding => {
                Word::InvalidParams
            }
            Self::Denied(Denied::Busy) | Self::MemoryExhausted | Self::HeadsFull => Word::RateLimited,
            Self::Host | Self::Origin | Self::Denied(_) => Word::AuthenticationError,
            Self::BodyTimedOut => Word::Timeout,
            Self::NoSuchPath => Word::NotFound,
            Self::Full { .. } => Word::ConnectionLimitExceeded,
            Self::Panicked => Word::InternalError,
        }
    }

    /// Seconds until it is worth trying again, where that is known.
    pub const fn retry_after(self) -> Option<u64> {
        match self {
            Self::Denied(Denied::Busy) | Self::MemoryExhausted | Self::HeadsFull => Some(BUSY_RETRY_IN),
            Self::Full { .. } => Some(FULL_RETRY_IN),
            _ => None,
        }
    }

    /// How many connections there may be, where that is the reason.
    const fn limit(self) -> Option<Limit> {
        match self {
            Self::Full { most } => Some(Limit { most, now: most }),
            _ => None,
        }
    }

    fn more(self, id: RequestId) -> More {
        let retry_after_seconds =
            self.retry_after().map(|seconds| Duration::from_secs(seconds).as_secs_f64());
        // It finds the line of a bug in the log.
        let error_id = (self == Self::Panicked).then_some(id);
        More { retry_after_seconds, limit: self.limit(), error_id }
    }

    /// The same in words, as the REST API has it for the same code.
    const fn title(self) -> &'static str {
        match self {
            Self::HostCount => "The request must name exactly one host",
            Self::Host => "This host is not served here",
            Self::Origin => "This origin may not ask here",
            Self::TooLarge { .. } => "The body is too large",
            Self::BodyTimedOut => "The body did not arrive in time",
            Self::NoSuchPath => "There is no such path",
            Self::BodyCut => "The body is not complete",
            Self::MemoryExhausted => "The memory budget is exhausted",
            Self::HeadsFull => "Too many large heads are being read",
            Self::TransferCoding => "The transfer coding is not supported",
            Self::Denied(Denied::Missing | Denied::Credential(_) | Denied::Unchecked) => {
                "A credential is needed"
            }
            Self::Denied(Denied::Busy) => "Too many keys are being checked",
            Self::Denied(Denied::NoRole) => "The credential does not allow this",
            Self::Full { .. } => "All connections are taken",
            Self::Panicked => "The gateway failed",
        }
    }

    /// The whole answer.
    pub fn response(self, face: Face, id: RequestId) -> Response {
        let (kind, body) = match face {
            Face::Rest => ("application/problem+json", self.problem(id)),
            Face::Mcp => ("application/json", self.json_rpc(id)),
        };
        let mut response = Response::new(body.bytes().clone().into());
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge() {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    fn problem(self, id: RequestId) -> Raw {
        Raw::of(&Problem {
            r#type: format!("urn:switchyard:problem:{}", self.code()),
            title: self.title(),
            status: self.status().as_u16(),
            code: self.code(),
            detail: &self.to_string(),
            request_id: id,
            error_type: self.word(),
            more: self.more(id),
        })
    }

    fn json_rpc(self, id: RequestId) -> Raw {
        let code = if self == Self::Panicked { code::INTERNAL_ERROR } else { code::INVALID_REQUEST };
        let error = ErrorObject::new(code, &self.to_string()).with_data(&Details {
            r#type: self.word(),
            code: self.code(),
            detail: &self.to_string(),
            retryable: matches!(
                self,
                Self::BodyTimedOut
                    | Self::Denied(Denied::Busy)
                    | Self::Full { .. }
                    | Self::MemoryExhausted
                    | Self::HeadsFull
            ),
            request_id: id,
            more: self.more(id),
        });
        Raw::of(&ErrorResponse { jsonrpc: "2.0", error: error.raw() })
    }

    /// RFC 6750, section 3: a challenge names an error only where a credential was sent.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::Denied(Denied::Missing) => Some("Bearer"),
            Self::Denied(Denied::Credential(_)) => Some("Bearer error=\"invalid_token\""),
            Self::Denied(Denied::NoRole) => Some("Bearer error=\"insufficient_scope\""),
            _ => None,
        }
    }
}

/// Adds to the challenge in `answer` where the client learns whose tokens are taken (RFC 9728, section 5.1). Nothing
/// in `url` has to be escaped.
pub fn lead_to(url: &str, answer: &mut Response) {
    let challenge = answer.headers().get(WWW_AUTHENTICATE).and_then(|challenge| challenge.to_str().ok());
    let Some(challenge) = challenge else { return };
    let comma = if challenge.contains(' ') { "," } else { "" };
    if let Ok(longer) = HeaderValue::try_from(format!("{challenge}{comma} resource_metadata=\"{url}\"")) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, longer);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::{Value, json};

    use super::*;
    use auth::Reason;

    async fn body(refusal: Refusal, face: Face, id: RequestId) -> Value {
        let body = refusal.response(face, id).into_body().collect().await.expect("a body").to_bytes();
        serde_json::from_slice(&body).expect("JSON")
    }

    #[tokio::test]
    async fn a_refusal_is_rendered_for_its_reader() {
        let id = RequestId::new();
        assert_eq!(
            body(Refusal::TooLarge { limit: 10 }, Face::Rest, id).await,
            json!({"type": "urn:switchyard:problem:body_too_large", "title": "The body is too large", "status": 413,
                "detail": "the body is larger than 10 bytes", "code": "body_too_large", "request_id": id.to_string(), "error_type": "invalid_params"})
        );
        assert_eq!(
            body(Refusal::Host, Face::Mcp, id).await,
            json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "this Host is not served here",
                "data": {"type": "authentication_error", "code": "host_not_allowed",
                    "detail": "this Host is not served here", "retryable": false, "request_id": id.to_string()}}})
        );
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_credential_is_not_told() {
        let id = RequestId::new();
        let missing = body(Refusal::Denied(Denied::Missing), Face::Rest, id).await;
        for reason in
            [Reason::Expired, Reason::UnknownKey, Reason::Signature, Reason::Issuer, Reason::Ambiguous]
        {
            let refusal = Refusal::Denied(Denied::Credential(reason));
            assert_eq!(body(refusal, Face::Rest, id).await, missing);
            let challenge = refusal.response(Face::Mcp, id).headers()[WWW_AUTHENTICATE].clone();
            assert_eq!(challenge, "Bearer error=\"invalid_token\"");
        }
    }

    #[test]
    fn paths_of_the_transports_are_for_clients() {
        for (path, face) in [
            ("/mcp", Face::Mcp),
            ("/mcp/", Face::Mcp),
            ("/mcp/files", Face::Mcp),
            ("/sse", Face::Mcp),
            ("/sse/files", Face::Mcp),
            ("/messages", Face::Mcp),
            ("/mcpx", Face::Rest),
            ("/api/v1/mcp/call", Face::Rest),
            ("/", Face::Rest),
            ("", Face::Rest),
        ] {
            assert_eq!(Face::of(path), face, "{path}");
        }
    }
}
