//! What is wrong with an HTTP request before any method is called, as status and JSON-RPC error.
//!
//! One match. Source: the transports page of each revision. Not here: what a method answers
//! (`gateway::error`), refusals at the door (`guard`).

use std::time::Duration;

use axum::body::Body;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::admission::Full;
use auth::Principal;
use gateway::Caller;
use gateway::caller::MAX_DESCRIPTION;
use gateway::error::{self, Limit, limited};
use gateway::manager::{self, Scope, Word};
use json::Raw;
use protocol::error::code;
use protocol::{Era, ErrorObject, Message, ParseError, RequestId, Version};
use runtime::memory::Exhausted;

/// When it is worth asking for a session again.
const SESSION_RETRY_IN: Duration = Duration::from_secs(5);
/// When it is worth making another request.
const REQUEST_RETRY_IN: Duration = Duration::from_secs(1);

/// Why a request is not answered by its method.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The body is not one message.
    #[error("{0}")]
    Message(#[from] ParseError),
    /// The body is larger than allowed.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The cap in bytes.
        limit: usize,
    },
    /// The body did not arrive.
    #[error("the body could not be read")]
    Body,
    /// Not declared as JSON, or as more than that.
    #[error("Content-Type must be application/json, and stand once")]
    ContentType,
    /// The client cannot read what we may answer.
    #[error("Accept must allow {0}")]
    Accept(&'static str),
    /// Not GET, POST or DELETE, or not in this era.
    #[error("this method is not allowed here")]
    Method {
        /// Those that are.
        allow: &'static str,
    },
    /// `/mcp/{server}` with a name nobody has.
    #[error("{0}")]
    Server(manager::Error),
    /// A legacy request outside of a session.
    #[error("there is no session here; begin with initialize, or describe each request in its _meta")]
    NoSession,
    /// A session that is over, or somebody else's.
    #[error("there is no such session; begin again with initialize")]
    UnknownSession,
    /// An event id that was never given, or somebody else's, or one whose stream is forgotten.
    #[error("nothing can be resumed behind this event: it is unknown, or its stream is not kept any more")]
    UnknownEvent,
    /// The table is full.
    #[error(
        "too many sessions are open; come back when one has ended, or have the operator raise max_sessions"
    )]
    TooManySessions {
        /// How many there may be.
        most: usize,
    },
    /// No place for one more client.
    #[error(
        "all {most} connections are taken; come back when one has ended, or have the operator raise max_connections"
    )]
    NoPlace {
        /// How many there may be.
        most: usize,
    },
    /// The memory budget has no room for the description of a session's client.
    #[error(
        "the memory budget of the gateway has no room for this session; describe the client in fewer bytes, or come back later"
    )]
    MemoryExhausted,
    /// A session's client describes itself at too much length.
    #[error("{member} of `initialize` is larger than {MAX_DESCRIPTION} bytes; describe the client in fewer")]
    DescriptionTooLarge {
        /// Which parameter.
        member: &'static str,
    },
    /// The same id twice at a time.
    #[error("a request with this id is already running")]
    IdInUse,
    /// More requests at a time than one session may have.
    #[error("too many requests of this session are running; try again when one has ended")]
    TooManyRequests,
    /// A version header nobody knows.
    #[error("MCP-Protocol-Version {0:?} is not a known revision")]
    VersionHeader(String),
    /// Modern: a header is missing or says something else than the body.
    #[error("header mismatch: {0}")]
    HeaderMismatch(String),
    /// Modern: `_meta` lacks a member.
    #[error("params._meta must have {0}")]
    Meta(&'static str),
    /// Modern: a revision that is not spoken here.
    #[error("protocol version {requested:?} is not supported")]
    UnsupportedVersion {
        /// What was asked for.
        requested: String,
    },
    /// Modern clients answer by retrying, not by posting responses.
    #[error("responses cannot be posted in this protocol revision")]
    PostedResponse,
}

/// The client of a legacy session that `params` of its `initialize` describe.
pub fn described(principal: Principal, scope: Scope, params: Option<&Raw>) -> Result<Caller, Refusal> {
    for member in ["capabilities", "clientInfo"] {
        let size = params.and_then(|params| params.get(member)).map_or(0, |value| value.bytes().len());
        if size > MAX_DESCRIPTION {
            return Err(Refusal::DescriptionTooLarge { member });
        }
    }
    Ok(Caller::legacy(principal, scope, params).charged()?)
}

impl From<Exhausted> for Refusal {
    fn from(_: Exhausted) -> Self {
        Self::MemoryExhausted
    }
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        Self::NoPlace { most: full.most }
    }
}

/// What the protocol wants to be said of it, and what every error of ours says.
fn unsupported(text: &str, requested: &str) -> ErrorObject {
    let object =
        error::refusal(code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported_version", Word::InvalidParams, text);
    let supported = Raw::of(&[Version::NEWEST_MODERN.as_str()]);
    let data = object.data().unwrap_or_else(Raw::empty_object);
    object.with_data(&data.with("supported", &supported).with("requested", &Raw::of(requested)))
}

impl Refusal {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Message(_)
            | Self::DescriptionTooLarge { .. }
            | Self::Body
            | Self::NoSession
            | Self::VersionHeader(_)
            | Self::HeaderMismatch(_)
            | Self::Meta(_)
            | Self::UnsupportedVersion { .. }
            | Self::PostedResponse
            | Self::UnknownEvent
            | Self::IdInUse => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Accept(_) => StatusCode::NOT_ACCEPTABLE,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Server(_) | Self::UnknownSession => StatusCode::NOT_FOUND,
            Self::TooManySessions { .. } | Self::NoPlace { .. } | Self::MemoryExhausted => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The JSON-RPC error that says it.
    pub fn object(&self) -> ErrorObject {
        let number = match self {
            Self::Message(error) => error.code(),
            Self::HeaderMismatch(_) => code::HEADER_MISMATCH,
            Self::Meta(_) => code::INVALID_PARAMS,
            // Only clients of older revisions have sessions.
            Self::TooManySessions { most } | Self::NoPlace { most } => {
                let limit = Limit { most: *most, now: *most };
                return limited(self.case().0, &self.to_string(), SESSION_RETRY_IN, Some(limit));
            }
            Self::MemoryExhausted => {
                return limited(self.case().0, &self.to_string(), SESSION_RETRY_IN, None);
            }
            Self::TooManyRequests => {
                return limited("too_many_requests", &self.to_string(), REQUEST_RETRY_IN, None);
            }
            Self::Server(error) => return error::object(error, Era::Legacy),
            Self::UnsupportedVersion { requested } => return unsupported(&self.to_string(), requested),
            _ => code::INVALID_REQUEST,
        };
        let (code, word) = self.case();
        error::refusal(number, code, word, &self.to_string())
    }

    /// The stable code of what has no facts of its own, and its word.
    const fn case(&self) -> (&'static str, Word) {
        match self {
            Self::Message(_) => ("invalid_message", Word::InvalidParams),
            Self::BodyTooLarge { .. } => ("body_too_large", Word::InvalidParams),
            Self::Body => ("body_incomplete", Word::InvalidParams),
            Self::ContentType => ("unsupported_media_type", Word::InvalidParams),
            Self::Accept(_) => ("not_acceptable", Word::InvalidParams),
            Self::Method { .. } => ("method_not_allowed", Word::InvalidParams),
            Self::Server(_) => ("server_not_found", Word::NotFound),
            Self::NoSession => ("no_session", Word::InvalidParams),
            Self::UnknownSession => ("unknown_session", Word::NotFound),
            Self::UnknownEvent => ("unknown_event", Word::NotFound),
            Self::TooManySessions { .. } => ("too_many_sessions", Word::ConnectionLimitExceeded),
            Self::NoPlace { .. } => ("too_many_connections", Word::ConnectionLimitExceeded),
            Self::MemoryExhausted => ("memory_exhausted", Word::RateLimited),
            Self::DescriptionTooLarge { .. } => ("description_too_large", Word::InvalidParams),
            Self::IdInUse => ("id_in_use", Word::InvalidParams),
            Self::TooManyRequests => ("too_many_requests", Word::RateLimited),
            Self::VersionHeader(_) | Self::UnsupportedVersion { .. } => {
                ("unsupported_version", Word::InvalidParams)
            }
            Self::HeaderMismatch(_) => ("header_mismatch", Word::InvalidParams),
            Self::Meta(_) => ("invalid_meta", Word::InvalidParams),
            Self::PostedResponse => ("posted_response", Word::InvalidParams),
        }
    }

    /// The whole answer; `id` is the request's where it could be read.
    pub fn into_response(self, id: Option<RequestId>) -> Response<Body> {
        let body = Message::Response(protocol::Response { id, reply: Err(self.object()) }).encode();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self {
            Self::Method { allow } => headers.insert(ALLOW, HeaderValue::from_static(allow)),
            Self::TooManySessions { .. } | Self::NoPlace { .. } | Self::MemoryExhausted => {
                headers.insert(RETRY_AFTER, SESSION_RETRY_IN.as_secs().into())
            }
            Self::TooManyRequests => headers.insert(RETRY_AFTER, REQUEST_RETRY_IN.as_secs().into()),
            _ => None,
        };
        response
    }
}

/// The status that carries a modern response: some errors have one of their own.
pub fn status_of(reply: &protocol::Reply) -> StatusCode {
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
