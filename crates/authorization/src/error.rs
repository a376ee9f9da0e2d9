//! Refusals in the words of OAuth.
//!
//! Invariants: a description holds no secret, and no text that a client sent. It has only characters that a header and a
//! redirect may carry.
//!
//! Source: RFC 6749, sections 4.1.2.1 and 5.2; RFC 7009, section 2.2.1; RFC 7591, section 3.2.2; RFC 8707, section 2; `OpenID` Connect
//! Core 1.0, section 3.1.2.6.

use std::borrow::Cow;
use std::fmt;

use http::StatusCode;

use crate::store::StoreError;

/// Seconds after which a client may try again when the store failed.
const STORE_RETRY: u64 = 5;

/// The error codes of OAuth that this server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A parameter is missing, repeated or malformed.
    InvalidRequest,
    /// The client is unknown, or could not prove who it is.
    InvalidClient,
    /// The code or refresh token is not valid (any more), or belongs to another client.
    InvalidGrant,
    /// Another grant than the two that exist here.
    UnsupportedGrantType,
    /// Another response type than `code`.
    UnsupportedResponseType,
    /// The scopes contradict each other, or exceed what was granted.
    InvalidScope,
    /// `resource` is none of this gateway.
    InvalidTarget,
    /// The person refused, or may not have what the client requests.
    AccessDenied,
    /// A request as an object, which is not supported.
    RequestNotSupported,
    /// A redirect URI of a registration that is not accepted.
    InvalidRedirectUri,
    /// Other metadata of a registration that is not accepted.
    InvalidClientMetadata,
    /// A token for the metadata of a registration that is not valid.
    InvalidToken,
    /// The request forbids a page (`prompt=none`), and a person has to continue on one.
    InteractionRequired,
    /// A limit is reached or a service that is needed cannot be reached; try again later.
    TemporarilyUnavailable,
}

impl Code {
    /// Every code, in the order of declaration.
    pub(crate) const ALL: [Self; 14] = [
        Self::InvalidRequest,
        Self::InvalidClient,
        Self::InvalidGrant,
        Self::UnsupportedGrantType,
        Self::UnsupportedResponseType,
        Self::InvalidScope,
        Self::InvalidTarget,
        Self::AccessDenied,
        Self::RequestNotSupported,
        Self::InvalidRedirectUri,
        Self::InvalidClientMetadata,
        Self::InvalidToken,
        Self::InteractionRequired,
        Self::TemporarilyUnavailable,
    ];

    /// The code in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::RequestNotSupported => "request_not_supported",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::InvalidToken => "invalid_token",
            Self::InteractionRequired => "interaction_required",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal, for the developer of the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {description}")]
pub struct Error {
    /// The error code.
    pub code: Code,
    /// The reason, and a remedy.
    pub description: Cow<'static, str>,
    /// Seconds after which the request may be repeated.
    pub retry_after: Option<u64>,
    /// The status of an answer that is not a redirect.
    status: StatusCode,
}

impl Error {
    pub(crate) fn new(code: Code, description: impl Into<Cow<'static, str>>) -> Self {
        let description = description.into();
        debug_assert!(description.bytes().all(is_allowed), "{description}");
        let status = match code {
            Code::InvalidClient | Code::InvalidToken => StatusCode::UNAUTHORIZED,
            Code::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { code, description, retry_after: None, status }
    }

    pub(crate) fn later(description: &'static str, retry_after: u64) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(Code::TemporarilyUnavailable, description) }
    }

    /// A client has sent more requests than it may, and others have not.
    pub(crate) fn too_many(description: &'static str, retry_after: u64) -> Self {
        Self { status: StatusCode::TOO_MANY_REQUESTS, ..Self::later(description, retry_after) }
    }

    /// The status of an answer that is not a redirect.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The body of an answer that is not a redirect.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "error": self.code.as_str(), "error_description": self.description })
    }
}

/// Whether a description may have `byte` (RFC 6749, section 5.2).
fn is_allowed(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the authorization server refuses a request");
        Self::later("the authorization server cannot use its store now; try again", STORE_RETRY)
    }
}
