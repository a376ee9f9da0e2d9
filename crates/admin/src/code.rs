//! The closed list of the codes of problem documents, and what each of them always means.
//!
//! Invariant: a [`Code`] and its status never change their meaning, programs decide by them. Not here: the document
//! that has one (`problem`).

use std::fmt;

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use gateway::manager::{NO_MCP, Word};

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
    /// The server changed the tool's definition, and it is held back until an operator approves it. The call was
    /// not made.
    ToolChanged,
    /// The server shows another definition of the tool than the one to be approved. Nothing was approved.
    OtherDefinition,
    /// The path has no such method; `Allow` lists those it has.
    MethodNotAllowed,
    /// The request does not name exactly one host. Refused at the door.
    BadHost,
    /// This host is not served. Refused at the door.
    HostNotAllowed,
    /// Pages of this origin may not ask. Refused at the door.
    OriginNotAllowed,
    /// All connections there may be are taken. Refused at the door.
    TooManyConnections,
    /// Too many keys are being checked for the first time. Refused at the door.
    AuthenticationBusy,
    /// The memory budget has no room for the request, or none for the answer of a call that was made; `retryable`
    /// tells which.
    MemoryExhausted,
    /// The audit log cannot be written at present, and nothing was done.
    AuditFull,
    /// The heads of requests take all the room there is for them. Refused before authentication.
    TooManyHeads,
    /// A transfer coding other than `chunked`. Refused before authentication.
    TransferCodingNotSupported,
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
    /// The server answered HTTP 429: it limits how often it is called. The call was not made.
    RateLimited,
    /// The server could not be reached. The call was not made.
    ConnectionFailed,
    /// The connection was lost while the call ran. The tool may have run.
    OutcomeUnknown,
    /// The server, or what stands before it, failed; `server_status` is the HTTP status it answered with.
    ServerError,
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
            Self::ToolChanged | Self::OtherDefinition => StatusCode::CONFLICT,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Overloaded | Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::ConnectionFailed
            | Self::OutcomeUnknown
            | Self::ServerError
            | Self::InvalidAnswer
            | Self::BackendError => StatusCode::BAD_GATEWAY,
            Self::CircuitOpen
            | Self::AuthFailed
            | Self::ServerUnavailable
            | Self::TooManyConnections
            | Self::AuthenticationBusy
            | Self::MemoryExhausted
            | Self::AuditFull
            | Self::TooManyHeads => StatusCode::SERVICE_UNAVAILABLE,
            Self::TransferCodingNotSupported => StatusCode::NOT_IMPLEMENTED,
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
            Self::ToolChanged => "The tool changed and is held back",
            Self::OtherDefinition => "The server shows another definition",
            Self::MethodNotAllowed => "The path does not have this method",
            Self::BadHost => "The request must name exactly one host",
            Self::HostNotAllowed => "This host is not served here",
            Self::OriginNotAllowed => "This origin may not ask here",
            Self::TooManyConnections => "All connections are taken",
            Self::AuthenticationBusy => "Too many keys are being checked",
            Self::MemoryExhausted => "The memory budget is exhausted",
            Self::AuditFull => "The audit log cannot be written",
            Self::TooManyHeads => "Too many large heads are being read",
            Self::TransferCodingNotSupported => "The transfer coding is not supported",
            Self::BodyIncomplete => "The body is not complete",
            Self::BodyTimeout => "The body did not arrive in time",
            Self::BodyTooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body must be JSON",
            Self::Overloaded => "The server is busy",
            Self::RateLimited => "The server limits how often it is called",
            Self::ConnectionFailed => "The server could not be reached",
            Self::OutcomeUnknown => "The connection was lost during the call",
            Self::ServerError => "The server failed",
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
    pub(super) const fn word(self) -> Word {
        match self {
            Self::InvalidRequest
            | Self::InvalidArguments
            | Self::AmbiguousTool
            | Self::MethodNotAllowed
            | Self::BadHost
            | Self::BodyIncomplete
            | Self::BodyTooLarge
            | Self::UnsupportedMediaType
            | Self::OtherDefinition
            | Self::InvalidConfiguration
            | Self::TransferCodingNotSupported => Word::InvalidParams,
            Self::Unauthorized
            | Self::Forbidden
            | Self::HostNotAllowed
            | Self::OriginNotAllowed
            | Self::AuthFailed => Word::AuthenticationError,
            Self::NotFound | Self::ServerNotFound | Self::ToolNotFound => Word::NotFound,
            Self::BodyTimeout | Self::TimedOut => Word::Timeout,
            Self::Overloaded
            | Self::RateLimited
            | Self::AuthenticationBusy
            | Self::MemoryExhausted
            | Self::AuditFull
            | Self::TooManyHeads => Word::RateLimited,
            Self::TooManyConnections => Word::ConnectionLimitExceeded,
            Self::ConnectionFailed
            | Self::OutcomeUnknown
            | Self::ServerError
            | Self::InvalidAnswer
            | Self::BackendError
            | Self::ToolChanged
            | Self::ServerUnavailable => Word::ServiceUnavailable,
            Self::CircuitOpen => Word::CircuitOpen,
            Self::InternalError => Word::InternalError,
        }
    }

    /// Whether the document may say when it is worth trying again.
    pub(super) const fn may_be_temporary(self) -> bool {
        matches!(
            self,
            Self::Overloaded
                | Self::RateLimited
                | Self::CircuitOpen
                | Self::ServerError
                | Self::InvalidAnswer
                | Self::BackendError
                | Self::TooManyConnections
                | Self::AuthenticationBusy
                | Self::MemoryExhausted
                | Self::AuditFull
                | Self::TooManyHeads
        )
    }

    /// What the reader can do about it, where that does not depend on the case. Of failures of servers the table
    /// of the facade says it.
    pub(super) const fn suggestion(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidArguments => {
                "compare the arguments with the tool's inputSchema, GET /api/v1/mcp/tools"
            }
            Self::AmbiguousTool => "name the server in \"server\", or use one of the candidates",
            Self::Unauthorized => "send \"Authorization: Bearer <token>\"",
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
