//! Refusals of MCP requests before a method is called, as HTTP status and JSON-RPC error.
//!
//! Not here: errors of methods (`gateway::error`), refusals by the checks of requests (`guard`). Source: the
//! transports page of each revision.

use std::time::Duration;

use axum::body::Body;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::admission::Full;
use auth::Principal;
use gateway::Caller;
use gateway::caller::MAX_DESCRIPTION;
use gateway::manager::{self, Scope};
use json::Raw;
use protocol::error::code::{self, UNSUPPORTED_PROTOCOL_VERSION};
use protocol::{Era, ErrorCode, ErrorObject, Message, ParseError, Problem, RequestId, Version};
use runtime::memory::Exhausted;
use runtime::telemetry;

/// When the client may try to open a session again.
const SESSION_RETRY_IN: Duration = Duration::from_secs(5);
/// When the client may send another request.
const REQUEST_RETRY_IN: Duration = Duration::from_secs(1);

/// Why a request does not reach its method.
#[derive(Debug, thiserror::Error)]
pub enum MessageRefusal {
    /// The body is not exactly one message.
    #[error("{0}")]
    Message(#[from] ParseError),
    /// The body is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive.
    #[error("the body could not be read")]
    Body,
    /// Not declared as JSON, or declared more than once.
    #[error("Content-Type must be application/json, and stand once")]
    ContentType,
    /// The client does not accept all forms of answers.
    #[error("Accept must allow {0}")]
    Accept(&'static str),
    /// Not GET, POST or DELETE, or not allowed in this era.
    #[error("this method is not allowed here")]
    Method {
        /// The allowed methods.
        allow: &'static str,
    },
    /// `/mcp/{server}` with an unknown server.
    #[error("{0}")]
    Server(manager::Error),
    /// A legacy request outside of a session.
    #[error("there is no session here; begin with initialize, or describe each request in its _meta")]
    NoSession,
    /// An ended session, or one of another client.
    #[error("there is no such session; begin again with initialize")]
    UnknownSession,
    /// An event id that was never sent, that belongs to another client, or whose stream was dropped.
    #[error("nothing can be resumed behind this event: it is unknown, or its stream is not kept any more")]
    UnknownEvent,
    /// The limit of sessions is reached.
    #[error(
        "too many sessions are open; come back when one has ended, or have the operator raise max_sessions"
    )]
    TooManySessions {
        /// The limit.
        most: usize,
    },
    /// The limit of clients is reached.
    #[error(
        "all {most} connections are taken, or all that one principal may have; come back when one has ended, or have the operator raise max_connections"
    )]
    NoPlace {
        /// The limit.
        most: usize,
    },
    /// The memory budget has no room for the description of a session's client.
    #[error(
        "the memory budget of the gateway has no room for this session; describe the client in fewer bytes, or come back later"
    )]
    MemoryExhausted,
    /// The client's description of itself is too long.
    #[error("{member} of `initialize` is larger than {MAX_DESCRIPTION} bytes; describe the client in fewer")]
    DescriptionTooLarge {
        /// The parameter.
        member: &'static str,
    },
    /// A request with this id is already running.
    #[error("a request with this id is already running")]
    IdInUse,
    /// The limit of concurrent requests of one session is reached.
    #[error("too many requests of this session are running; try again when one has ended")]
    TooManyRequests,
    /// A version header with an unknown revision.
    #[error("MCP-Protocol-Version {0:?} is not a known revision")]
    VersionHeader(String),
    /// Modern: a header is missing or differs from the body.
    #[error("header mismatch: {0}")]
    HeaderMismatch(String),
    /// Modern: `_meta` lacks a member.
    #[error("params._meta must have {0}")]
    Meta(&'static str),
    /// Modern: a revision that is not supported.
    #[error("protocol version {requested:?} is not supported")]
    UnsupportedVersion {
        /// The requested revision.
        requested: String,
    },
    /// Modern clients answer server requests by a retry, not by posted responses.
    #[error("responses cannot be posted in this protocol revision")]
    PostedResponse,
}

/// Returns the client of a legacy session that `params` of its `initialize` describe.
pub fn described(principal: Principal, scope: Scope, params: Option<&Raw>) -> Result<Caller, MessageRefusal> {
    for member in ["capabilities", "clientInfo"] {
        let size = params.and_then(|params| params.get(member)).map_or(0, |value| value.bytes().len());
        if size > MAX_DESCRIPTION {
            return Err(MessageRefusal::DescriptionTooLarge { member });
        }
    }
    Ok(Caller::legacy(principal, scope, params).charged()?)
}

impl From<Exhausted> for MessageRefusal {
    fn from(_: Exhausted) -> Self {
        Self::MemoryExhausted
    }
}

impl From<Full> for MessageRefusal {
    fn from(full: Full) -> Self {
        Self::NoPlace { most: full.most }
    }
}

impl MessageRefusal {
    /// The refusal as clients read it.
    fn problem(&self) -> Problem {
        let problem = Problem::new(self.code(), self.to_string());
        match self {
            Self::Server(error) => error.problem(),
            // Its number depends on whether the body is JSON.
            Self::Message(error) => problem.with(|problem| problem.numbers = [error.code(); 2]),
            // Members that the protocol requires.
            Self::UnsupportedVersion { requested } => problem
                .with(|problem| problem.numbers = [UNSUPPORTED_PROTOCOL_VERSION; 2])
                .with_mcp("supported", &[Version::NEWEST_MODERN.as_str()])
                .with_mcp("requested", requested),
            Self::TooManySessions { most } | Self::NoPlace { most } => {
                problem.after(SESSION_RETRY_IN).at_limit(*most)
            }
            Self::MemoryExhausted => problem.after(SESSION_RETRY_IN),
            Self::TooManyRequests => problem.after(REQUEST_RETRY_IN),
            _ => problem,
        }
    }

    /// Returns the JSON-RPC error. Only clients of older revisions have sessions, and other errors have one number in
    /// both eras.
    pub fn object(&self) -> ErrorObject {
        self.problem().error(Era::Legacy)
    }

    const fn code(&self) -> ErrorCode {
        match self {
            Self::Message(_) => ErrorCode::InvalidMessage,
            Self::BodyTooLarge { .. } => ErrorCode::BodyTooLarge,
            Self::Body => ErrorCode::BodyIncomplete,
            Self::ContentType => ErrorCode::UnsupportedMediaType,
            Self::Accept(_) => ErrorCode::NotAcceptable,
            Self::Method { .. } => ErrorCode::MethodNotAllowed,
            Self::Server(_) => ErrorCode::ServerNotFound,
            Self::NoSession => ErrorCode::NoSession,
            Self::UnknownSession => ErrorCode::UnknownSession,
            Self::UnknownEvent => ErrorCode::UnknownEvent,
            Self::TooManySessions { .. } => ErrorCode::TooManySessions,
            Self::NoPlace { .. } => ErrorCode::TooManyConnections,
            Self::MemoryExhausted => ErrorCode::MemoryExhausted,
            Self::DescriptionTooLarge { .. } => ErrorCode::DescriptionTooLarge,
            Self::IdInUse => ErrorCode::IdInUse,
            Self::TooManyRequests => ErrorCode::TooManyRequests,
            Self::VersionHeader(_) | Self::UnsupportedVersion { .. } => ErrorCode::UnsupportedVersion,
            Self::HeaderMismatch(_) => ErrorCode::HeaderMismatch,
            Self::Meta(_) => ErrorCode::InvalidMeta,
            Self::PostedResponse => ErrorCode::PostedResponse,
        }
    }

    /// The complete answer to the HTTP request `named`. `id` is that of the message, if it could be read.
    pub fn into_response(self, id: Option<RequestId>, named: Option<telemetry::RequestId>) -> Response<Body> {
        let problem = self.problem();
        let (status, pause) = (problem.code().status(), problem.retry_after_seconds());
        let reply = Err(problem.error(Era::Legacy).of_request(named));
        let body = Message::Response(protocol::Response { id, reply }).encode();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Self::Method { allow } = self {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = pause {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// The HTTP status of a modern response: some errors require a certain one.
pub(crate) fn status_of(reply: &protocol::Reply) -> StatusCode {
    match reply {
        Ok(_) => StatusCode::OK,
        Err(error) => match error.code() {
            code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::OK,
        },
    }
}
