//! Requests of clients, which are limited, and read before they are judged.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::answer;
use crate::address_rate::AddressRate;
use runtime::telemetry::RequestId;

/// A request with its complete body.
pub(super) struct ClientRequest {
    pub(super) id: RequestId,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The only media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaType {
    Form,
    Json,
}

impl MediaType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Form => "application/x-www-form-urlencoded",
            Self::Json => "application/json",
        }
    }

    const fn expected(self) -> &'static str {
        match self {
            Self::Form => "`Content-Type` has to be application/x-www-form-urlencoded",
            Self::Json => "`Content-Type` has to be application/json",
        }
    }
}

impl ClientRequest {
    /// Reads `request`, which counts for its address in `rate`. The error is the answer.
    #[allow(clippy::result_large_err)] // it is sent as it is
    pub(super) fn without_body(request: Request, rate: &AddressRate) -> Result<Self, Response> {
        let (head, _) = request.into_parts();
        rate.take(&head.extensions).map_err(answer::too_many)?;
        let id = head.extensions.get().copied().unwrap_or_else(RequestId::new);
        Ok(Self { id, headers: head.headers, body: Bytes::new() })
    }

    /// Reads `request` with a body of at most `limit` bytes.
    pub(super) async fn with_body(
        request: Request,
        rate: &AddressRate,
        (kind, limit): (MediaType, usize),
    ) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let read = Self::without_body(Request::from_parts(head, axum::body::Body::empty()), rate)?;
        if !net::http::is_media_type(&read.headers, kind.as_str()) {
            return Err(answer::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind.expected()));
        }
        let body = to_bytes(body, limit).await;
        let too_large = |_| answer::invalid(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        Ok(Self { body: body.map_err(too_large)?, ..read })
    }
}
