//! `/oauth/token` and `/oauth/revoke`, and the requests of clients, which are limited, and read before they are judged.
//!
//! Source: RFC 6749, sections 3.2 and 5; RFC 7009, section 2.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode, request};

use super::{Endpoints, answer};
use crate::client_address::AddressRate;
use crate::guard::MAX_FORM;
use authorization::Code;
use runtime::telemetry::RequestId;

/// The challenge for a client that tried to authenticate with the scheme `Basic`.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"token\"");

/// Exchanges a code or a refresh token for tokens.
pub(super) async fn token(
    State(endpoints): State<Arc<Endpoints>>,
    request: Request,
) -> Result<Response, Response> {
    let request = form(&endpoints, request).await?;
    let tokens = endpoints.server.token(&request.body, request.id, SystemTime::now()).await;
    let tokens = tokens.map_err(|error| refused(&error, &request))?;
    Ok(answer::json(StatusCode::OK, tokens.json().as_bytes().to_vec()))
}

/// Revokes a token with its grant.
pub(super) async fn revoke(
    State(endpoints): State<Arc<Endpoints>>,
    request: Request,
) -> Result<Response, Response> {
    let request = form(&endpoints, request).await?;
    let revoked = endpoints.server.revoke(&request.body, request.id, SystemTime::now()).await;
    revoked.map_err(|error| refused(&error, &request))?;
    Ok(answer::json(StatusCode::OK, "{}"))
}

async fn form(endpoints: &Endpoints, request: Request) -> Result<ClientRequest, Response> {
    ClientRequest::with_body(request, &endpoints.token_rate, FORM, MAX_FORM).await
}

fn refused(error: &authorization::Error, request: &ClientRequest) -> Response {
    let mut answer = answer::error(error, request.id);
    // RFC 6749, section 5.2: the challenge has the scheme that the client used.
    if error.code == Code::InvalidClient && uses_basic(&request.headers) {
        answer.headers_mut().insert(WWW_AUTHENTICATE, BASIC);
    }
    answer
}

fn uses_basic(headers: &HeaderMap) -> bool {
    let scheme = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().get(..6));
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "))
}

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
        kind: &str,
        limit: usize,
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
