//! `/oauth/token` and `/oauth/revoke`.
//!
//! Source: RFC 6749, sections 3.2 and 5; RFC 7009, section 2.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Endpoints;
use super::answer;
use super::requests::{ClientRequest, FORM};
use crate::guard::MAX_FORM;
use authorization::Code;

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
