//! JSON-RPC error objects: those of servers, and those of Switchyard. Also why a text is not a message of JSON-RPC.
//!
//! Invariants: an [`ErrorObject`] that a server sent keeps its bytes, `data` and unknown members included. An error object
//! of Switchyard carries its [`Problem`], so that no layer reads it back from JSON.
//!
//! This module does not decide which failure is which problem.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use crate::Era;
use crate::problem::{ErrorData, Problem};
use json::{Fault, Raw};

pub use crate::error_code::code;

/// The answer of a server: a result or an error object. Neither is a failure of Switchyard.
pub type Reply = Result<Raw, ErrorObject>;

/// The `error` member of a response, with the bytes it was received in.
#[derive(Clone)]
pub struct ErrorObject {
    raw: Raw,
    /// None if a server made it. Nothing that a server writes changes that.
    problem: Option<Box<Problem>>,
}

#[derive(Serialize)]
struct Fields<'a, D> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<D>,
}

impl Problem {
    /// Renders it as the JSON-RPC error towards clients of `era`.
    pub fn error(self, era: Era) -> ErrorObject {
        let [legacy, modern] = self.numbers;
        self.numbered(match era {
            Era::Legacy => legacy,
            Era::Modern => modern,
        })
    }

    /// Renders it as a JSON-RPC error with a number of its own.
    pub fn numbered(self, number: i64) -> ErrorObject {
        let raw = Raw::of(&Fields { code: number, message: &self.detail, data: Some(ErrorData(&self)) });
        ErrorObject { raw, problem: Some(Box::new(self)) }
    }
}

impl ErrorObject {
    /// Returns an error as a server sends it.
    pub fn new(code: i64, message: &str) -> Self {
        Self { raw: Raw::of(&Fields { code, message, data: None::<()> }), problem: None }
    }

    /// Returns the error as an answer of a server, which a built-in server gives.
    #[must_use]
    pub fn into_answer(self) -> Self {
        Self { problem: None, ..self }
    }

    /// Hands its bytes to `keep`, which must not change them, and continues with what it returns.
    pub fn try_map_bytes<E>(self, keep: impl FnOnce(Bytes) -> Result<Bytes, E>) -> Result<Self, E> {
        Ok(Self { raw: self.raw.try_map_bytes(keep)?, ..self })
    }

    /// The failure of Switchyard that it reports; none if it is the answer of a server.
    pub fn problem(&self) -> Option<&Problem> {
        self.problem.as_deref()
    }

    /// Renders the error of Switchyard again after `change`. An error that a server sent stays as it is.
    #[must_use]
    pub fn amended(self, change: impl FnOnce(&mut Problem)) -> Self {
        let number = self.code();
        let Some(mut problem) = self.problem else { return self };
        change(&mut problem);
        problem.numbered(number)
    }

    /// Returns the error with `data`.
    pub fn with_data<T: Serialize + ?Sized>(&self, data: &T) -> Self {
        Self { raw: self.raw.with("data", &Raw::of(data)), problem: self.problem.clone() }
    }

    /// Adds the id of the HTTP request to an error of Switchyard. An error that a server sent stays as it is.
    #[must_use]
    pub fn of_request(self, id: Option<impl fmt::Display>) -> Self {
        match (&self.problem, id, self.data()) {
            (Some(_), Some(id), Some(data)) => {
                self.with_data(&data.with("request_id", &Raw::of(&id.to_string())))
            }
            _ => self,
        }
    }

    /// Returns the error with another code. Every other byte stays as it is.
    pub fn with_code(&self, code: i64) -> Self {
        Self { raw: self.raw.with("code", &Raw::of(&code)), problem: self.problem.clone() }
    }

    /// Reads an error object that a peer sent. `None` when it has no integer `code`.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        raw.get_as::<i64>("code").map(|_| Self { raw, problem: None })
    }

    /// Reads the `error` of a server's response, whatever it is. One that clients could not read gets an integer `code` and
    /// a string `message`; where its `code` is no number, it becomes the `data` of another one.
    pub(crate) fn from_server(raw: Raw) -> Self {
        let has_message = raw.part("message").is_some_and(|message| message.bytes().starts_with(b"\""));
        if has_message && raw.get_as::<i64>("code").is_some() {
            return Self { raw, problem: None };
        }
        let code = raw.get("code").and_then(|code| whole_number(code.as_str()));
        let given = raw.get("message").filter(|message| !message.is_null());
        let text = match (&given, code) {
            (Some(message), _) => spoken(message),
            (None, Some(code)) => format!("error {code}"),
            (None, None) => spoken(&raw),
        };
        let (number, text) = (Raw::of(&code.unwrap_or(code::INTERNAL_ERROR)), Raw::of(&text));
        let raw = match code {
            Some(_) => raw.edit(&[("code", Some(&number)), ("message", Some(&text))]),
            None => Raw::object(&[("code", &number), ("message", &text), ("data", &raw)]),
        };
        Self { raw, problem: None }
    }

    /// The JSON-RPC error code.
    pub fn code(&self) -> i64 {
        // Both constructors made sure that there is one.
        self.raw.get_as("code").unwrap_or(code::INTERNAL_ERROR)
    }

    /// The message, empty when there is none.
    pub fn message(&self) -> String {
        self.raw.get_as("message").unwrap_or_default()
    }

    /// The `data` member.
    pub fn data(&self) -> Option<Raw> {
        self.raw.get("data")
    }

    /// The whole object.
    pub const fn raw(&self) -> &Raw {
        &self.raw
    }
}

/// The integer that `text`, a JSON value, means: also a string of digits, or a number with a fraction of zeros.
fn whole_number(text: &str) -> Option<i64> {
    let text = text.trim_matches('"');
    let whole = text.split_once('.').filter(|(_, fraction)| fraction.bytes().all(|digit| digit == b'0'));
    whole.map_or(text, |(whole, _)| whole).parse().ok()
}

/// The text of a string, or the JSON of another value.
fn spoken(value: &Raw) -> String {
    value.read().unwrap_or_else(|_| value.as_str().to_owned())
}

/// Compares the bytes.
impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for ErrorObject {}

impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorObject({}, {:?})", self.code(), self.message())
    }
}

/// Why a text is not a message. [`ParseError::code`] gives the JSON-RPC code of the refusal.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseError {
    /// Not JSON at all.
    #[error("the message is not valid JSON: {0}")]
    NotJson(Fault),
    /// A batch.
    #[error("batches of messages are not accepted; send each message alone")]
    Batch,
    /// A batch of a server without a message.
    #[error("the batch is empty")]
    EmptyBatch,
    /// A batch of a server with more messages than `MAX_BATCH`.
    #[error("the batch has more than 1,024 messages")]
    LargeBatch,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn a_foreign_error_keeps_its_bytes() {
        let text = br#"{"message":"no","code":-32042,"data":{"x":1e400},"hint":null}"#;
        let raw = Raw::parse(&bytes::Bytes::from_static(text)).expect("JSON");
        let error = ErrorObject::from_raw(raw).expect("has a code");
        assert_eq!((error.code(), error.message().as_str()), (-32042, "no"));
        assert_eq!(error.raw().bytes().as_ref(), text);
        let same = error.clone().amended(|problem| problem.retryable = true).of_request(Some(7));
        assert_eq!(same, error);
        let without_code = Raw::of(&serde_json::json!({"message": "no"}));
        assert!(ErrorObject::from_raw(without_code).is_none());
    }

    #[test]
    fn error_of_a_server_whose_code_is_replaced_is_kept_whole() {
        let read = |text: &'static str| {
            let error =
                ErrorObject::from_server(Raw::parse(&Bytes::from_static(text.as_bytes())).expect("JSON"));
            assert_eq!(
                ErrorObject::from_server(error.raw().clone()).raw(),
                error.raw(),
                "it can be read now"
            );
            error
        };
        for (text, message) in [
            (r#"{"code":"E_PAPER","message":"no paper","data":{"tray":1}}"#, "no paper"),
            (r#"{"code":"E_PAPER","message":"no paper","data":null,"hint":1e400}"#, "no paper"),
            (r#"{"code":1.5,"message":{"text":"no"}}"#, r#"{"text":"no"}"#),
            (r#"{"data":7}"#, r#"{"data":7}"#),
            (r#"["no paper"]"#, r#"["no paper"]"#),
            (r#""no paper""#, "no paper"),
            ("false", "false"),
        ] {
            let error = read(text);
            assert_eq!((error.code(), error.message().as_str()), (code::INTERNAL_ERROR, message), "{text}");
            assert_eq!(error.data().expect("data").as_str(), text);
        }
        let error = read(r#"{"code":"-7","data":null,"hint":1}"#);
        assert_eq!(error.raw().as_str(), r#"{"code":-7,"data":null,"hint":1,"message":"error -7"}"#);
    }

    #[test]
    fn own_error_carries_its_problem_and_a_servers_error_never_does() {
        let own = Problem::new(ErrorCode::NotFound, "no").error(Era::Legacy);
        let edited = own.with_code(-32002).with_data("x");
        assert_eq!((edited.code(), edited.problem().map(Problem::code)), (-32002, Some(ErrorCode::NotFound)));
        let sent = ErrorObject::from_raw(own.raw().clone()).expect("has a code");
        assert_eq!((sent.problem().is_none(), &sent), (true, &own));
        assert!(own.into_answer().problem().is_none());
        assert_eq!(size_of::<ErrorObject>(), size_of::<Raw>() + size_of::<i64>());
        assert_eq!(ErrorObject::new(i64::MAX, "no").code(), i64::MAX);
    }

    #[test]
    fn amended_error_keeps_its_number() {
        let error = Problem::new(ErrorCode::LoginRequired, "no").error(Era::Legacy);
        let amended = error.clone().amended(|problem| problem.hint = "ask the operator".into());
        assert_eq!((amended.code(), amended.message()), (error.code(), "no".to_owned()));
        let hint: Option<String> = amended.data().and_then(|data| data.get_as("hint"));
        assert_eq!(hint.as_deref(), Some("ask the operator"));
    }

    #[test]
    fn data_is_added_to_a_servers_error() {
        let error = ErrorObject::new(code::INVALID_PARAMS, "bad \"x\"").with_data(&[1, 2]);
        assert_eq!(error.raw().as_str(), r#"{"code":-32602,"message":"bad \"x\"","data":[1,2]}"#);
    }
}
