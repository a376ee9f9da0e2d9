//! Requests of clients, which are limited, and read before they are judged.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, request};

use super::answer;
use crate::address_rate::AddressRate;
use runtime::telemetry::RequestId;

/// The media type of forms.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// A request with its complete body.
pub(super) struct ClientRequest {
    pub(super) id: RequestId,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl ClientRequest {
    /// Reads `request`, which counts for its address in `rate`. The error is the answer.
    #[allow(clippy::result_large_err)] // it is sent as it is
    pub(super) fn without_body(request: Request, rate: &AddressRate) -> Result<Self, Response> {
        Self::counted(request.into_parts().0, rate)
    }

    /// Reads `request` with a body of the media type `kind` and of at most `limit` bytes.
    pub(super) async fn with_body(
        request: Request,
        rate: &AddressRate,
        (kind, limit): (&str, usize),
    ) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let read = Self::counted(head, rate)?;
        if !net::http::is_media_type(&read.headers, kind) {
            let reason = format!("`Content-Type` has to be {kind}");
            return Err(answer::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, &reason));
        }
        let body = to_bytes(body, limit).await;
        let too_large = |_| answer::invalid(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
        Ok(Self { body: body.map_err(too_large)?, ..read })
    }

    #[allow(clippy::result_large_err)] // it is sent as it is
    fn counted(head: request::Parts, rate: &AddressRate) -> Result<Self, Response> {
        rate.take(&head.extensions).map_err(answer::too_many)?;
        let id = head.extensions.get().copied().unwrap_or_else(RequestId::new);
        Ok(Self { id, headers: head.headers, body: Bytes::new() })
    }
}
