//! `/oauth/register`: clients register themselves, and read or remove their registration with its token.
//!
//! Invariant: each registration and each removal has an audit line. A refused request has none, because any stranger can send
//! it.
//!
//! Source: RFC 7591, section 3; RFC 7592, sections 2.1 and 2.3.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::SecretString;

use super::Endpoints;
use super::answer::{self, JSON};
use super::tokens::ClientRequest;
use crate::request_class::MAX_REGISTRATION;
use auth::Principal;
use authorization::{Code, Error};
use json::Raw;
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, Actor, AuditRecord, Subject};

/// The challenge for a request without a token, and for one with a wrong token (RFC 6750, section 3).
const MISSING: HeaderValue = HeaderValue::from_static("Bearer");
const INVALID: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// Registers a client.
pub(super) async fn register(
    State(endpoints): State<Arc<Endpoints>>,
    request: Request,
) -> Result<Response, Response> {
    let rate = &endpoints.register_rate;
    let request = ClientRequest::with_body(request, rate, JSON, MAX_REGISTRATION).await?;
    let not_json = |_| answer::invalid(StatusCode::BAD_REQUEST, "the body is not valid JSON");
    let json = Raw::parse(&request.body).map_err(not_json)?;
    let record = audit::operation(stranger(request.id), "register_client", None);
    let record = record.map_err(|_| answer::busy())?;
    let registered = endpoints.server.register(&json, SystemTime::now()).await;
    let client = registered.as_ref().ok().and_then(|registration| registration["client_id"].as_str());
    record_end(record, client);
    let registration = registered.map_err(|error| answer::error(&error, request.id))?;
    Ok(answer::json(StatusCode::CREATED, registration.to_string()))
}

/// Shows a registration.
pub(super) async fn show(
    State(endpoints): State<Arc<Endpoints>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Response> {
    let (request, token) = managing(&endpoints, request)?;
    let registration = endpoints.server.registration(&id, &token, SystemTime::now()).await;
    let registration = registration.map_err(|error| refused(&error, request.id))?;
    Ok(answer::json(StatusCode::OK, registration.to_string()))
}

/// Removes a registration and ends the grants of its client.
pub(super) async fn remove(
    State(endpoints): State<Arc<Endpoints>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Response> {
    let (request, token) = managing(&endpoints, request)?;
    let record = audit::operation(stranger(request.id), "remove_client", None);
    let record = record.map_err(|_| answer::busy())?;
    let removed = endpoints.server.unregister(&id, &token, SystemTime::now()).await;
    record_end(record, removed.is_ok().then_some(&*id));
    removed.map_err(|error| refused(&error, request.id))?;
    let mut answer = answer::json(StatusCode::NO_CONTENT, "");
    answer.headers_mut().remove(http::header::CONTENT_TYPE);
    Ok(answer)
}

/// Reads a request that manages a registration, and its token.
#[allow(clippy::result_large_err)] // it is sent as it is
fn managing(endpoints: &Endpoints, request: Request) -> Result<(ClientRequest, SecretString), Response> {
    let request = ClientRequest::without_body(request, &endpoints.token_rate)?;
    if let Some(token) = bearer(&request.headers) {
        return Ok((request, token));
    }
    let reason = "`Authorization` has to be `Bearer` and the token of the registration";
    let mut answer = answer::invalid(StatusCode::UNAUTHORIZED, reason);
    answer.headers_mut().insert(WWW_AUTHENTICATE, MISSING);
    Err(answer)
}

fn refused(error: &Error, id: RequestId) -> Response {
    let mut answer = answer::error(error, id);
    if error.code == Code::InvalidToken {
        answer.headers_mut().insert(WWW_AUTHENTICATE, INVALID);
    }
    answer
}

fn bearer(headers: &HeaderMap) -> Option<SecretString> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| SecretString::from(token.trim()))
}

/// A client as the audit log shows it: nobody has authenticated it.
fn stranger(id: RequestId) -> Actor<'static> {
    Actor { principal: Principal::ANONYMOUS, role: "none", request: Some(id) }
}

/// Writes the line of an action on `client`, or none if it was refused: any stranger can cause that.
fn record_end(record: Option<Box<AuditRecord>>, client: Option<&str>) {
    match (record, client) {
        (Some(mut record), Some(client)) => {
            record.about(Subject::client(client));
            record.ended(audit::DONE);
        }
        (Some(record), None) => record.withdraw(),
        (None, _) => {}
    }
}
