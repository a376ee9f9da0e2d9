//! The handshake with a legacy server: `initialize` and the notification after it.
//!
//! Not here: the revisions that are requested one after another (`handshake`).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::super::HttpServer;
use super::super::answer::AnswerReader;
use super::super::outcome::RequestOutcome;
use super::listening::BeforeSession;
use super::{FIRST_ID, PROTOCOL_VERSION, SESSION_ID};
use crate::close_reason::Closing;
use crate::connection::{Call, Events};
use crate::error::Error;
use crate::transport::compose;
use crate::transport::flood_guard::FloodGuard;
use crate::transport::handshake::{self, RequestedRevision};
use crate::transport::http::Cookies;
use json::Raw;
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorObject, method};

/// Why a session could not be opened.
pub(in crate::transport::streamable_http) struct SessionFailure {
    /// The HTTP status that said so, if one did.
    pub(in crate::transport::streamable_http) status: Option<u16>,
    /// Whether the server answered, and its answer is the reason.
    pub(in crate::transport::streamable_http) is_answer: bool,
    /// The error that the server answered, if it did.
    refusal: Option<ErrorObject>,
    pub(in crate::transport::streamable_http) error: Error,
}

impl SessionFailure {
    /// Whether to request an older revision, which `revision` then has.
    pub(super) fn steps_down(&self, revision: &mut RequestedRevision) -> bool {
        self.refusal.as_ref().is_some_and(|refusal| revision.steps_down(refusal))
            || self.status.is_some_and(|status| revision.steps_down_after(status))
    }
}

impl From<Error> for SessionFailure {
    fn from(error: Error) -> Self {
        let status = if let Error::Status { status, .. } = error { Some(status) } else { None };
        Self { status, is_answer: false, refusal: None, error }
    }
}

/// Makes the handshake. Returns the peer and the headers of the session.
pub(super) async fn greet(
    server: &HttpServer,
    events: &Events,
    cookies: &Arc<Cookies>,
    params: Raw,
) -> Result<(Peer, HeaderMap), SessionFailure> {
    let (peer, headers) = initialize(server, events, cookies, params).await?;
    let client = &server.client;
    client.initialized(&client.post(&client.endpoint().path, &headers).in_session(cookies)).await?;
    Ok((peer, headers))
}

/// Sends `initialize`. Returns the peer and the headers of the session.
async fn initialize(
    server: &HttpServer,
    events: &Events,
    cookies: &Arc<Cookies>,
    params: Raw,
) -> Result<(Peer, HeaderMap), SessionFailure> {
    let call = Call::of_gateway(method::INITIALIZE, Some(params));
    let client = &server.client;
    let post = client.post(&client.endpoint().path, &HeaderMap::new()).in_session(cookies);
    let response =
        client.send(|| Ok((post.clone(), compose(&call, FIRST_ID, Era::Legacy, None)?)), false).await?;
    let mut headers = HeaderMap::new();
    if let Some(mut session) = response.headers().get(SESSION_ID).cloned() {
        session.set_sensitive(true);
        headers.insert(SESSION_ID, session);
    }
    let (handler, floods) = (BeforeSession { events }, FloodGuard::new(&server.name, &Closing::default()));
    let (limit, shutdown, payer) = (client.limit, &server.shutdown, call.payer(&client.server));
    let reader = AnswerReader {
        id: FIRST_ID,
        limit,
        terms: None,
        handler: &handler,
        floods: &floods,
        shutdown,
        payer,
    };
    let outcome = reader.read(response).await.map_err(|broken| broken.error)?;
    let status =
        if let RequestOutcome::Refusal(refusal) = &outcome { Some(refusal.status.as_u16()) } else { None };
    let reply = match outcome.into_body() {
        Ok(body) => body.collect().await,
        Err(error) => Err(error),
    };
    let refusal = reply.as_ref().ok().and_then(|reply| reply.as_ref().err()).cloned();
    let peer = reply.and_then(handshake::initialized);
    let peer = peer.map_err(|error| SessionFailure { status, is_answer: true, refusal, error })?;
    if peer.version.has_version_header() {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(peer.version.as_str()));
    }
    Ok((peer, headers))
}
