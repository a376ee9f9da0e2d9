//! JSON-RPC error objects and the codes MCP gives a meaning to.
//!
//! Invariant: an [`ErrorObject`] that a server sent keeps its bytes, `data` and unknown members
//! included. Not here: our own failures (`upstream::Error` and the mapping tables above it).

use std::fmt;

use serde::Serialize;

use super::raw::Raw;

/// What a server answered: a result or an error object. Both are answers; neither is our failure.
pub type Reply = Result<Raw, ErrorObject>;

/// Codes of JSON-RPC 2.0 section 5.1 and of MCP (2026-07-28, `basic/index`, Error Codes).
pub mod code {
    /// The text is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not one request, notification or response.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist (HTTP 404 in the modern era).
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method, or name an unknown tool.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The gateway failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// A server could not be reached or its answer was lost; the first of our own codes towards legacy
    /// clients. Grandfathered range, widely used.
    pub const CONNECTION_CLOSED: i64 = -32000;
    /// The first of our own codes towards modern clients: the protocol keeps −32000…−32099 to itself.
    pub const OURS_MODERN: i64 = -31000;
    /// Up to 2025-11-25: there is no such resource. Since then `INVALID_PARAMS`.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// 2025-11-25: somebody has to visit the pages in `data.elicitations` first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern: a header says something else than the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the request needs a capability the client did not declare.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern: the revision is not spoken here; `data.supported` lists those that are.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The `error` member of a response, with the bytes it was received in.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorObject {
    code: i64,
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
    /// An error of our own.
    pub fn new(code: i64, message: &str) -> Self {
        Self { code, raw: Raw::of(&Fields { code, message, data: None }) }
    }

    /// The same error with `data`.
    pub fn with_data<T: Serialize + ?Sized>(&self, data: &T) -> Self {
        Self { code: self.code, raw: self.raw.with("data", &Raw::of(data)) }
    }

    /// The same error, every other byte of it, with another code.
    pub fn with_code(&self, code: i64) -> Self {
        Self { code, raw: self.raw.with("code", &Raw::of(&code)) }
    }

    /// Reads an error object somebody sent. `None` when it has no integer `code`.
    pub fn from_raw(raw: Raw) -> Option<Self> {
        raw.get_as("code").map(|code| Self { code, raw })
    }

    /// The JSON-RPC error code.
    pub const fn code(&self) -> i64 {
        self.code
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

impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorObject({}, {:?})", self.code, self.message())
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
    fn data_is_added_to_our_own() {
        let error = ErrorObject::new(code::INVALID_PARAMS, "bad \"x\"").with_data(&[1, 2]);
        assert_eq!(error.raw().as_str(), r#"{"code":-32602,"message":"bad \"x\"","data":[1,2]}"#);
    }
}
