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
use super::requests::{ClientRequest, MediaType};
use crate::guard::MAX_FORM;
use authorization::Code;

/// The challenge for a client that tried to authenticate with the scheme `Basic`.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"token\"");

/// Exchanges a code or a refresh token for tokens.
pub(super) async fn token(State(endpoints): State<Arc<Endpoints>>, request: Request) -> Response {
    let request = match form(&endpoints, request).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    match endpoints.server.token(&request.body, SystemTime::now()).await {
        Ok(tokens) => answer::json(StatusCode::OK, tokens.json().as_bytes().to_vec()),
        Err(error) => refused(&error, &request),
    }
}

/// Revokes a token with its grant.
pub(super) async fn revoke(State(endpoints): State<Arc<Endpoints>>, request: Request) -> Response {
    let request = match form(&endpoints, request).await {
        Ok(request) => request,
        Err(answer) => return answer,
    };
    match endpoints.server.revoke(&request.body, SystemTime::now()).await {
        Ok(()) => answer::json(StatusCode::OK, "{}"),
        Err(error) => refused(&error, &request),
    }
}

async fn form(endpoints: &Endpoints, request: Request) -> Result<ClientRequest, Response> {
    ClientRequest::with_body(request, &endpoints.token_rate, (MediaType::Form, MAX_FORM)).await
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
