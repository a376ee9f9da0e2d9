//! JSON-RPC error objects, and the codes that have a meaning in MCP.
//!
//! Invariant: an [`ErrorObject`] that a server sent keeps its bytes, `data` and unknown members included. Not here:
//! failures of Switchyard (`upstream::Error` and the mapping tables above it).

use std::fmt;

use bytes::Bytes;
use serde::Serialize;

use json::raw::Raw;

/// The answer of a server: a result or an error object. Neither is a failure of Switchyard.
pub type Reply = Result<Raw, ErrorObject>;

/// Codes of JSON-RPC 2.0 section 5.1 and of MCP (2026-07-28, `basic/index`, Error Codes).
pub mod code {
    /// The text is not JSON.
    pub(crate) const PARSE_ERROR: i64 = -32700;
    /// The JSON is not one request, notification or response.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist (HTTP 404 in the modern era).
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method, or name an unknown tool.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The gateway failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A server could not be reached, or its answer was lost. The first of Switchyard's codes towards legacy clients;
    /// the range is grandfathered and widely used.
    pub const CONNECTION_CLOSED: i64 = -32000;
    /// The first of Switchyard's codes towards modern clients. The protocol reserves −32000…−32099.
    pub(crate) const OURS_MODERN: i64 = -31000;
    /// Up to 2025-11-25: there is no such resource. Later revisions use `INVALID_PARAMS`.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2025-11-25: a user must visit the pages in `data.elicitations` first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern: a header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request needs a capability the client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern: the revision is not supported; `data.supported` lists the supported ones.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The author of an error object. Nothing that a server writes changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A server made it, as its answer.
    Answer,
    /// Switchyard refused the request. The client can fix it or send it later.
    Refusal,
    /// Switchyard or the connection to a server failed.
    Failure,
}

/// The `error` member of a response, with the bytes it was received in.
#[derive(Clone)]
pub struct ErrorObject {
    /// The code, or the nearest `i32`. Every code with a meaning fits.
    code: i32,
    origin: Origin,
    raw: Raw,
}

#[derive(Serialize)]
struct Fields<'a> {
    code: i64,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Raw>,
}

impl ErrorObject {
    /// Returns an error with the origin [`Origin::Answer`]; [`ErrorObject::from_us`] changes the origin.
    pub fn new(code: i64, message: &str) -> Self {
        let raw = Raw::of(&Fields { code, message, data: None });
        Self { code: narrow(code), origin: Origin::Answer, raw }
    }

    /// Returns the error with another origin.
    #[must_use]
    pub fn from_us(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// Hands its bytes to `keep`, which must not change them, and continues with what it returns.
    pub fn kept<E>(self, keep: impl FnOnce(Bytes) -> Result<Bytes, E>) -> Result<Self, E> {
        Ok(Self { raw: self.raw.kept(keep)?, ..self })
    }

    /// The author of the error.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the error with `data`.
    pub fn with_data<T: Serialize + ?Sized>(&self, data: &T) -> Self {
        Self { raw: self.raw.with("data", &Raw::of(data)), ..*self }
    }

    /// Adds the id of the HTTP request to an error of Switchyard. An error that a server sent stays as it is.
    #[must_use]
    pub fn of_request(self, id: Option<impl fmt::Display>) -> Self {
        let ours = if self.origin == Origin::Answer { None } else { id };
        match (ours, self.data()) {
            (Some(id), Some(data)) => self.with_data(&data.with("request_id", &Raw::of(&id.to_string()))),
            _ => self,
        }
    }

    /// Returns the error with another code. Every other byte stays as it is.
    pub fn with_code(&self, code: i64) -> Self {
        Self { code: narrow(code), origin: self.origin, raw: self.raw.with("code", &Raw::of(&code)) }
    }

    /// Reads an error object that a peer sent. `None` when it has no integer `code`.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        raw.get_as("code").map(|code| Self { code: narrow(code), origin: Origin::Answer, raw })
    }

    /// The JSON-RPC error code, or the nearest `i32` if it has more than 32 bits. The object keeps the exact code.
    pub fn code(&self) -> i64 {
        self.code.into()
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

/// Compares the bytes. The origin does not count.
impl PartialEq for ErrorObject {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for ErrorObject {}

fn narrow(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(if code < 0 { i32::MIN } else { i32::MAX })
}

impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorObject({}, {:?})", self.code(), self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_error_keeps_its_bytes() {
        let text = br#"{"message":"no","code":-32042,"data":{"x":1e400},"hint":null}"#;
        let raw = Raw::parse(&bytes::Bytes::from_static(text)).expect("JSON");
        let error = ErrorObject::from_raw(raw).expect("has a code");
        assert_eq!((error.code(), error.message().as_str()), (-32042, "no"));
        assert_eq!(error.raw().bytes().as_ref(), text);
        let without_code = Raw::of(&serde_json::json!({"message": "no"}));
        assert!(ErrorObject::from_raw(without_code).is_none());
    }

    #[test]
    fn whose_it_is_is_said_by_us_and_costs_no_room() {
        let ours = ErrorObject::new(1, "no").from_us(Origin::Failure);
        assert_eq!(ours.with_data("x").with_code(2).origin(), Origin::Failure);
        let sent = ErrorObject::from_raw(ours.raw().clone()).expect("has a code");
        assert_eq!((sent.origin(), &sent), (Origin::Answer, &ours));
        assert_eq!(size_of::<ErrorObject>(), size_of::<Raw>() + size_of::<i64>());
        let far = ErrorObject::new(i64::MAX, "no");
        assert_eq!(far.code(), i64::from(i32::MAX));
        assert_eq!(far.raw().as_str(), r#"{"code":9223372036854775807,"message":"no"}"#);
    }

    #[test]
    fn data_is_added_to_our_own() {
        let error = ErrorObject::new(code::INVALID_PARAMS, "bad \"x\"").with_data(&[1, 2]);
        assert_eq!(error.raw().as_str(), r#"{"code":-32602,"message":"bad \"x\"","data":[1,2]}"#);
    }
}
