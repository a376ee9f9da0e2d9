//! Refusals of MCP requests before a method is called, as HTTP status and JSON-RPC error.
//!
//! Not here: errors of methods (`gateway::error`), refusals by the checks of requests (`guard`). Source: the
//! transports page of each revision.

use std::fmt::Display;
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
use protocol::error::code;
use protocol::{Era, ErrorCode, ErrorObject, Message, ParseError, Problem, RequestId, Version};
use runtime::memory::Exhausted;
use runtime::telemetry;

/// When the client may try to open a session again.
const SESSION_RETRY_IN: Duration = Duration::from_secs(5);
/// When the client may send another request.
const REQUEST_RETRY_IN: Duration = Duration::from_secs(1);

/// Why a request does not reach its method.
#[derive(Debug)]
pub struct MessageRefusal {
    problem: Box<Problem>,
    /// The methods of HTTP that are allowed, if the request has another one.
    allow: Option<&'static str>,
}

/// Returns the client of a legacy session that `params` of its `initialize` describe.
pub fn described(principal: Principal, scope: Scope, params: Option<&Raw>) -> Result<Caller, MessageRefusal> {
    for member in ["capabilities", "clientInfo"] {
        let size = params.and_then(|params| params.get(member)).map_or(0, |value| value.bytes().len());
        if size > MAX_DESCRIPTION {
            let text = format!(
                "{member} of `initialize` is larger than {MAX_DESCRIPTION} bytes; describe the client in fewer"
            );
            return Err(MessageRefusal::new(ErrorCode::DescriptionTooLarge, text));
        }
    }
    Ok(Caller::legacy(principal, scope, params).charged()?)
}

impl From<Problem> for MessageRefusal {
    fn from(problem: Problem) -> Self {
        Self { problem: Box::new(problem), allow: None }
    }
}

/// The body is not exactly one message.
impl From<ParseError> for MessageRefusal {
    fn from(error: ParseError) -> Self {
        let problem = Problem::new(ErrorCode::InvalidMessage, error.to_string());
        // Its number depends on whether the body is JSON.
        problem.with(|problem| problem.numbers = [error.code(); 2]).into()
    }
}

/// `/mcp/{server}` with an unknown server.
impl From<manager::Error> for MessageRefusal {
    fn from(error: manager::Error) -> Self {
        error.problem().into()
    }
}

/// The memory budget has no room for the description of a session's client.
impl From<Exhausted> for MessageRefusal {
    fn from(_: Exhausted) -> Self {
        let text = "the memory budget of the gateway has no room for this session; describe the client in fewer bytes, or come back later";
        Problem::new(ErrorCode::MemoryExhausted, text).after(SESSION_RETRY_IN).into()
    }
}

/// The limit of clients is reached.
impl From<Full> for MessageRefusal {
    fn from(Full { most, .. }: Full) -> Self {
        let text = format!(
            "all {most} connections are taken, or all that one principal may have; come back when one has ended, or have the operator raise max_connections"
        );
        Problem::new(ErrorCode::TooManyConnections, text).after(SESSION_RETRY_IN).at_limit(most).into()
    }
}

impl MessageRefusal {
    /// Refuses a request with `code`.
    pub(crate) fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Problem::new(code, text).into()
    }

    /// The method of HTTP is not among those of `allow`, or not allowed in this era.
    pub(crate) fn method(allow: &'static str) -> Self {
        let refusal = Self::new(ErrorCode::MethodNotAllowed, "this method is not allowed here");
        Self { allow: Some(allow), ..refusal }
    }

    /// Says what the client of this request should do.
    pub(crate) fn hinting(self, hint: &'static str) -> Self {
        Self { problem: Box::new(self.problem.hinting(hint)), ..self }
    }

    /// The client does not accept the media `types` of answers.
    pub(crate) fn accept(types: &str) -> Self {
        Self::new(ErrorCode::NotAcceptable, format!("Accept must allow {types}"))
    }

    /// A legacy request outside of a session.
    pub(crate) fn no_session() -> Self {
        let text = "there is no session here; begin with initialize, or describe each request in its _meta";
        Self::new(ErrorCode::NoSession, text)
    }

    /// An ended session, or one of another client.
    pub(crate) fn unknown_session() -> Self {
        Self::new(ErrorCode::UnknownSession, "there is no such session; begin again with initialize")
    }

    /// The limit of `most` sessions is reached.
    pub(crate) fn too_many_sessions(most: usize) -> Self {
        let text = "too many sessions are open; come back when one has ended, or have the operator raise max_sessions";
        Problem::new(ErrorCode::TooManySessions, text).after(SESSION_RETRY_IN).at_limit(most).into()
    }

    /// The limit of concurrent requests of one session is reached.
    pub(crate) fn too_many_requests() -> Self {
        let text = "too many requests of this session are running; try again when one has ended";
        Problem::new(ErrorCode::TooManyRequests, text).after(REQUEST_RETRY_IN).into()
    }

    /// The body is larger than `limit` bytes.
    pub(crate) fn body_too_large(limit: usize) -> Self {
        Self::new(ErrorCode::BodyTooLarge, format!("the body is larger than {limit} bytes"))
    }

    /// Modern: a header is missing or differs from the body.
    pub(crate) fn header_mismatch(text: impl Display) -> Self {
        Self::new(ErrorCode::HeaderMismatch, format!("header mismatch: {text}"))
    }

    /// Modern: `_meta` lacks `member`.
    pub(crate) fn meta(member: &str) -> Self {
        Self::new(ErrorCode::InvalidMeta, format!("params._meta must have {member}"))
    }

    /// Modern: the revision `requested` is not supported. The protocol requires two members.
    pub(crate) fn unsupported_version(requested: &str) -> Self {
        let text = format!("protocol version {requested:?} is not supported");
        Problem::new(ErrorCode::UnsupportedVersion, text)
            .with(|problem| problem.numbers = [code::UNSUPPORTED_PROTOCOL_VERSION; 2])
            .with_mcp("supported", &[Version::NEWEST_MODERN.as_str()])
            .with_mcp("requested", requested)
            .into()
    }

    /// The stable code of the refusal.
    #[cfg(test)]
    pub(crate) fn code(&self) -> ErrorCode {
        self.problem.code()
    }

    /// Returns the JSON-RPC error. Only clients of older revisions have sessions, and other errors have one number in
    /// both eras.
    pub fn object(&self) -> ErrorObject {
        Problem::clone(&self.problem).error(Era::Legacy)
    }

    /// The complete answer to the HTTP request `named`. `id` is that of the message, if it could be read.
    pub fn into_response(self, id: Option<RequestId>, named: Option<telemetry::RequestId>) -> Response<Body> {
        let Self { problem, allow } = self;
        let (status, pause) = (problem.code().status(), problem.retry_after_seconds());
        let reply = Err(problem.error(Era::Legacy).of_request(named));
        let body = Message::Response(protocol::Response { id, reply }).encode();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(allow) = allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = pause {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Whether the role of the client does not allow its request.
pub(crate) fn is_forbidden(reply: &protocol::Reply) -> bool {
    let problem = reply.as_ref().err().and_then(ErrorObject::problem);
    problem.is_some_and(|problem| problem.code() == ErrorCode::Forbidden)
}

/// The HTTP status of a modern response: some errors require a certain one. HTTP clients and proxies know what 429 means.
pub(crate) fn status_of(reply: &protocol::Reply) -> StatusCode {
    match reply {
        Ok(_) => StatusCode::OK,
        Err(error) if error.problem().map(Problem::code) == Some(ErrorCode::LimitReached) => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Err(error) => match error.code() {
            code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::OK,
        },
    }
}
