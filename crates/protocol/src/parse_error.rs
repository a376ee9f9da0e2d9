//! Why a text is not a message of JSON-RPC.

use super::error::{ErrorObject, code};
use json::Fault;

/// Why a text is not a message. [`ParseError::code`] gives the JSON-RPC code of the refusal.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseError {
    /// Not JSON at all.
    #[error("the message is not valid JSON: {0}")]
    NotJson(Fault),
    /// A batch.
    #[error("batches of messages are not accepted; send each message alone")]
    Batch,
    /// JSON, but not an object.
    #[error("a message must be a JSON object")]
    NotObject,
    /// Nested deeper than [`super::message::MAX_DEPTH`].
    #[error("the message is nested {0} levels deep, at most 64 are accepted")]
    TooDeep(usize),
    /// A key occurs twice, in the envelope, `params` or `_meta`.
    #[error("the key {key:?} stands twice in {place}")]
    Duplicate {
        /// `the message`, `params` or `_meta`.
        place: &'static str,
        /// The key, decoded, or its beginning.
        key: String,
    },
    /// More members than `MAX_MEMBERS`.
    #[error("{place} has more than 1,024 members; send what belongs to a tool in its arguments")]
    TooMany {
        /// `the message`, `params` or `_meta`.
        place: &'static str,
    },
    /// `jsonrpc` is missing or not `"2.0"`.
    #[error("\"jsonrpc\" must be \"2.0\"")]
    Version,
    /// `id` is neither a string nor an integer.
    #[error("\"id\" must be a string or an integer")]
    Id,
    /// `method` is not a string.
    #[error("\"method\" must be a string")]
    Method,
    /// `params` is not an object.
    #[error("\"params\" must be an object")]
    Params,
    /// Neither a request, nor a notification, nor a response.
    #[error("a message has either \"method\", or \"id\" and one of \"result\" and \"error\"")]
    Shape,
}

impl ParseError {
    /// The JSON-RPC error code that answers it.
    pub const fn code(&self) -> i64 {
        match self {
            Self::NotJson(_) => code::PARSE_ERROR,
            _ => code::INVALID_REQUEST,
        }
    }
}

impl From<&ParseError> for ErrorObject {
    fn from(error: &ParseError) -> Self {
        Self::new(error.code(), &error.to_string())
    }
}
