//! The outcome of a request: the response, or a refusal that does not name the request.
//!
//! Not here: reading it from the response (`answer`).

use http::StatusCode;

use crate::connection::Call;
use crate::error::Error;
use crate::response_stream::{ResponseBody, ResponseStream};
use protocol::sanitize::shown;
use protocol::{ErrorObject, Reply, method};

/// Statuses that say something about the path to the server, not about the request. 425 is Too Early.
const NOT_NOW: [u16; 5] = [425, 429, 502, 503, 504];

/// The result of a request.
#[derive(Debug)]
pub(super) enum RequestOutcome {
    /// The server answered the request, with this status.
    Reply(Reply, StatusCode),
    /// A result that is still arriving.
    Streaming(Box<ResponseStream>),
    /// An HTTP error status without an answer to the request, or an error that names another request or none.
    Refusal(HttpRefusal),
}

/// A refusal that does not name the request.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    pub(super) status: StatusCode,
    /// The JSON-RPC error in the body, which names no request.
    pub(super) error: Option<ErrorObject>,
    /// Whether a 401 asks for credentials.
    pub(super) is_challenge: bool,
    /// Status, `Retry-After`, and what the body says.
    pub(super) bare: Error,
}

impl RequestOutcome {
    /// Returns the response, or the error of the HTTP status.
    pub(super) fn into_body(self) -> Result<ResponseBody, Error> {
        match self {
            Self::Reply(reply, _) => Ok(ResponseBody::Buffered(reply)),
            Self::Streaming(stream) => Ok(ResponseBody::Streaming(stream)),
            Self::Refusal(HttpRefusal { status, error: Some(error), .. })
                if !NOT_NOW.contains(&status.as_u16()) =>
            {
                Ok(ResponseBody::Buffered(Err(error)))
            }
            Self::Refusal(refusal) => Err(refusal.bare),
        }
    }

    /// Returns the response to `call`. A refusal answers no health check, because it comes from a server or proxy that
    /// does not know who asks.
    pub(super) fn into_body_of(self, call: &Call) -> Result<ResponseBody, Error> {
        match self {
            Self::Refusal(refusal) if matches!(&*call.method, method::PING | method::DISCOVER) => {
                Err(refusal.into_error())
            }
            outcome => outcome.into_body(),
        }
    }
}

impl HttpRefusal {
    /// The refusal with the text of its body.
    pub(super) fn saying(self, text: Option<String>) -> Self {
        Self { bare: self.bare.saying(text), ..self }
    }

    /// The refusal with the error in its body.
    pub(super) fn with(self, error: ErrorObject) -> RequestOutcome {
        let text = shown(&error.message());
        RequestOutcome::Refusal(Self { error: Some(error), ..self.saying(Some(text)) })
    }

    /// Returns the error of the status alone.
    pub(super) fn into_error(self) -> Error {
        match self.error {
            Some(_) if self.status.is_success() => not_an_answer(),
            _ => self.bare,
        }
    }
}

/// The failure of a call that was answered with something that is no response to it.
pub(super) fn not_an_answer() -> Error {
    Error::Unreadable { reason: "it does not answer the request".into(), advice: None }
}
