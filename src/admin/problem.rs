//! Problem documents (RFC 9457): what they hold, and the closed list of their codes.
//!
//! Invariants: a [`Code`] and its status never change their meaning, programs decide by them; foreign
//! text in a document is clipped. Not here: which failure is which problem (`error`).

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::manager::{NO_MCP, Word};
use crate::protocol::{ErrorObject, Raw};
use crate::telemetry::RequestId;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";
/// Longest piece of a foreign text that is repeated in a document, in characters.
const MAX_TEXT: usize = 2000;

/// What kind of problem it is. Stable: programs may decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Code {
    /// The request is not one that is understood: not JSON, unknown members, wrong types.
    InvalidRequest,
    /// The server refused the arguments (JSON-RPC error -32602).
    InvalidArguments,
    /// A bare tool name that several servers offer.
    AmbiguousTool,
    /// No credential, or not a good one.
    Unauthorized,
    /// The credential does not allow this.
    Forbidden,
    /// There is nothing at this path.
    NotFound,
    /// No server has that name.
    ServerNotFound,
    /// No tool has that name.
    ToolNotFound,
    /// The path has no such method; `Allow` lists those it has.
    MethodNotAllowed,
    /// The request does not name exactly one host. Refused at the door.
    BadHost,
    /// This host is not served. Refused at the door.
    HostNotAllowed,
    /// Pages of this origin may not ask. Refused at the door.
    OriginNotAllowed,
    /// The body ended too early.
    BodyIncomplete,
    /// The body did not come in time. Refused at the door.
    BodyTimeout,
    /// The body is larger than accepted.
    BodyTooLarge,
    /// The body is not JSON by its content type.
    UnsupportedMediaType,
    /// Too many calls of this server are running or waiting.
    Overloaded,
    /// The server could not be reached. The call was not made.
    ConnectionFailed,
    /// The connection was lost while the call ran. The tool may have run.
    OutcomeUnknown,
    /// What the server answered is not an MCP answer.
    InvalidAnswer,
    /// The service behind the server answered with an error; `server_status` is its status.
    BackendError,
    /// The server refuses the gateway's credentials. Nothing is sent until an operator connects it again.
    AuthFailed,
    /// The server failed too often and is left alone for a while.
    CircuitOpen,
    /// The server is disabled or disconnected, or the gateway is shutting down.
    ServerUnavailable,
    /// No answer within the deadline. The tool may have run.
    TimedOut,
    /// The registry file has problems, or can not be read. The running configuration stays as it was.
    InvalidConfiguration,
    /// A bug of the gateway; its log has more under the request id.
    InternalError,
}

impl Code {
    /// The status it is answered with.
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest
            | Self::InvalidArguments
            | Self::AmbiguousTool
            | Self::BadHost
            | Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::HostNotAllowed | Self::OriginNotAllowed => StatusCode::FORBIDDEN,
            Self::NotFound | Self::ServerNotFound | Self::ToolNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Self::ConnectionFailed | Self::OutcomeUnknown | Self::InvalidAnswer | Self::BackendError => {
                StatusCode::BAD_GATEWAY
            }
            Self::CircuitOpen | Self::AuthFailed | Self::ServerUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::InvalidConfiguration => StatusCode::UNPROCESSABLE_ENTITY,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The problem in words, the same for every case of it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "The request is not valid",
            Self::InvalidArguments => "The server refused the arguments",
            Self::AmbiguousTool => "Several servers offer a tool of this name",
            Self::Unauthorized => "A credential is needed",
            Self::Forbidden => "The credential does not allow this",
            Self::NotFound => "There is nothing at this path",
            Self::ServerNotFound => "There is no such server",
            Self::ToolNotFound => "There is no such tool",
            Self::MethodNotAllowed => "The path does not have this method",
            Self::BadHost => "The request must name exactly one host",
            Self::HostNotAllowed => "This host is not served here",
            Self::OriginNotAllowed => "This origin may not ask here",
            Self::BodyIncomplete => "The body is not complete",
            Self::BodyTimeout => "The body did not arrive in time",
            Self::BodyTooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body must be JSON",
            Self::Overloaded => "The server is busy",
            Self::ConnectionFailed => "The server could not be reached",
            Self::OutcomeUnknown => "The connection was lost during the call",
            Self::InvalidAnswer => "The server's answer is not valid",
            Self::BackendError => "The service behind the server answered with an error",
            Self::AuthFailed => "The server refuses the gateway's credentials",
            Self::CircuitOpen => "The server's circuit breaker is open",
            Self::ServerUnavailable => "The server is not available",
            Self::TimedOut => "The server did not answer in time",
            Self::InvalidConfiguration => "The registry file is not valid",
            Self::InternalError => "The gateway failed",
        }
    }

    /// The word for its kind, where the failure of a server does not say it more exactly.
    const fn word(self) -> Word {
        match self {
            Self::InvalidRequest
            | Self::InvalidArguments
            | Self::AmbiguousTool
            | Self::MethodNotAllowed
            | Self::BadHost
            | Self::BodyIncomplete
            | Self::BodyTooLarge
            | Self::UnsupportedMediaType
            | Self::InvalidConfiguration => Word::InvalidParams,
            Self::Unauthorized
            | Self::Forbidden
            | Self::HostNotAllowed
            | Self::OriginNotAllowed
            | Self::AuthFailed => Word::AuthenticationError,
            Self::NotFound | Self::ServerNotFound | Self::ToolNotFound => Word::NotFound,
            Self::BodyTimeout | Self::TimedOut => Word::Timeout,
            Self::Overloaded => Word::RateLimited,
            Self::ConnectionFailed
            | Self::OutcomeUnknown
            | Self::InvalidAnswer
            | Self::BackendError
            | Self::ServerUnavailable => Word::ServiceUnavailable,
            Self::CircuitOpen => Word::CircuitOpen,
            Self::InternalError => Word::InternalError,
        }
    }

    /// Whether the document may say when it is worth trying again.
    pub(super) const fn may_be_temporary(self) -> bool {
        matches!(self, Self::Overloaded | Self::CircuitOpen | Self::InvalidAnswer | Self::BackendError)
    }

    /// What the reader can do about it, where that does not depend on the case. Of failures of servers the table
    /// of the facade says it.
    const fn suggestion(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidArguments => {
                "compare the arguments with the tool's inputSchema, GET /api/v1/mcp/tools"
            }
            Self::AmbiguousTool => "name the server in \"server\", or use one of the candidates",
            Self::Unauthorized => "send \"Authorization: Bearer <token>\"",
            Self::Forbidden => "use a credential with the role superuser",
            Self::NotFound => "GET /openapi.json describes every path",
            Self::UnsupportedMediaType => "send the header \"Content-Type: application/json\"",
            Self::InvalidAnswer => NO_MCP,
            Self::InvalidConfiguration => {
                "mend the file and reload again; `switchyard check` shows the same problems"
            }
            Self::InternalError => "look for the request_id in the gateway's log",
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A problem document: RFC 9457, with a stable `code` and the facts a program needs to go on.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct Document {
    /// Names the kind of problem, as `code` does.
    #[serde(rename = "type")]
    #[schema(examples("urn:switchyard:problem:tool_not_found"))]
    kind: String,
    /// The kind of problem in words, the same for every case of it.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    code: Code,
    /// What happened in this case.
    detail: String,
    /// The id of the request, which the gateway's log has too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", required = true)]
    request_id: Option<RequestId>,
    /// The server it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) server: Option<String>,
    /// The tool it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) tool: Option<String>,
    /// Names there are instead, at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) available: Vec<String>,
    /// Names that look like the one asked for, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) nearest: Vec<String>,
    /// Names that are not ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) candidates: Vec<String>,
    /// What kind of failure it is; MCP clients find the same word in `data.type`.
    pub(super) error_type: ErrorType,
    /// Of a bug of the gateway: the id that its line in the log has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = "uuid", nullable = false)]
    error_id: Option<RequestId>,
    /// Whether the same call can succeed when it is made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) retryable: Option<bool>,
    /// Seconds until it is worth trying again.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_seconds")]
    #[schema(value_type = f64, minimum = 0)]
    pub(super) retry_after_seconds: Option<Duration>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) suggestion: Option<String>,
    /// What is wrong with the body, member by member; at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// The JSON-RPC error object of the server, as it sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    rpc_error: Option<Raw>,
    /// The HTTP status the server answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) server_status: Option<u16>,
}

/// The word for a kind of failure, the same for MCP clients and here.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(value_type = String, examples("service_unavailable"))]
pub(super) struct ErrorType(pub(super) Word);

/// What is wrong with one member of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct FieldError {
    /// The member, such as `timeout`; empty for the body as a whole.
    pub(super) field: String,
    /// What stands there.
    pub(super) found: String,
    /// What should.
    pub(super) expected: String,
}

/// A problem on its way to the client; [`super::error::finish`] prints it with the id of its request.
#[derive(Debug, Clone)]
pub(super) struct Problem(Box<Document>);

impl Problem {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Document {
            kind: format!("urn:switchyard:problem:{code}"),
            title: code.title(),
            status: code.status().as_u16(),
            code,
            detail: clipped(detail.into()),
            request_id: None,
            server: None,
            tool: None,
            available: Vec::new(),
            nearest: Vec::new(),
            candidates: Vec::new(),
            error_type: ErrorType(code.word()),
            error_id: None,
            retryable: None,
            retry_after_seconds: None,
            suggestion: code.suggestion().map(str::to_owned),
            errors: Vec::new(),
            rpc_error: None,
            server_status: None,
        }))
    }

    /// A body that is not as documented; the first error is the detail.
    pub(super) fn of_fields(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map_or_else(String::new, |error| {
            let at = if error.field.is_empty() { "the body" } else { &error.field };
            format!("{at}: found {}, expected {}", error.found, error.expected)
        });
        Self::new(Code::InvalidRequest, detail).with(|document| document.errors = errors)
    }

    /// Arguments that the server refused.
    pub(super) fn of_arguments(server: &str, tool: &str, error: &ErrorObject) -> Self {
        Self::new(Code::InvalidArguments, error.message()).with(|document| {
            document.server = Some(server.to_owned());
            document.tool = Some(tool.to_owned());
            document.rpc_error = Some(error.raw().clone());
        })
    }

    /// An answer that no sense can be made of.
    pub(super) fn of_answer(server: &str, tool: &str, detail: &str) -> Self {
        Self::new(Code::InvalidAnswer, detail).with(|document| {
            document.server = Some(server.to_owned());
            document.tool = Some(tool.to_owned());
        })
    }

    pub(super) fn suggesting(self, suggestion: String) -> Self {
        self.with(|document| document.suggestion = Some(suggestion))
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Document)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) const fn code(&self) -> Code {
        self.0.code
    }

    pub(super) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The header that says the same as `retry_after_seconds`: whole seconds, rounded up, so that
    /// whoever waits that long is not too early.
    pub(super) fn retry_after(&self) -> Option<HeaderValue> {
        let pause = self.0.retry_after_seconds?;
        let seconds = pause.as_secs().saturating_add(u64::from(pause.subsec_nanos() > 0));
        Some(HeaderValue::from(seconds.max(1)))
    }

    /// The document as JSON.
    pub(super) fn print(&self, id: RequestId) -> Bytes {
        let mut document = self.0.clone();
        document.request_id = Some(id);
        document.error_id = (document.code == Code::InternalError).then_some(id);
        Raw::of(&*document).bytes().clone()
    }
}

#[expect(clippy::ref_option, reason = "the signature that serde calls")]
fn in_seconds<S: Serializer>(pause: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    pause.map(|pause| pause.as_secs_f64()).serialize(serializer)
}

/// `text`, cut where it is longer than a document should repeat.
pub(super) fn clipped(text: String) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl IntoResponse for Problem {
    /// The status and the facts; [`super::error::finish`] adds the body, because it knows the request.
    fn into_response(self) -> Response {
        let mut response = self.0.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
