//! A legacy server: `initialize`, then a session that both sides store.
//!
//! Source: 2025-11-25 `basic/transports`, Streamable HTTP. In this era a dropped connection does not cancel a
//! request. A message cancels it. A broken stream is resumed if the server gave its events ids.

mod of_call;

mod listening;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio_util::sync::CancellationToken;

use self::of_call::LegacyCallHandler;
use super::HttpServer;
use super::answer::{AnswerReader, Broken, HttpRefusal, RequestOutcome, Resume};
use crate::close_reason::Closing;
use crate::connection::{Call, Connection, Dialect, Events, Outlet, RequestFuture};
use crate::error::Error;
use crate::response_stream::ResponseBody;
use crate::transport::background_send::BackgroundSender;
use crate::transport::flood_guard::FloodGuard;
use crate::transport::http::{Cookies, Head};
use crate::transport::pending::{Pending, Purpose};
use crate::transport::questions::Questions;
use crate::transport::{cancelled, compose, handshake};
use json::Raw;
use net::http::{EventStream, is_media_type};
use protocol::error::code;
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorObject, Notification, Reply, headers, method};
use runtime::memory::Account;

/// Id of `initialize`, the first request of a session.
const FIRST_ID: u64 = 1;
/// Attempts to resume one stream without a new event.
const RESUME_ATTEMPTS: u32 = 5;
/// Pause before a resumption if the server asked for none.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// How long the server may take to end a session.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// Why a session can no longer be used.
pub(super) const SESSION_ENDED: &str = "the server ended the session";

const SESSION_ID: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static(headers::LAST_EVENT_ID);

/// A live session. Dropping it ends the session at the server.
pub(super) struct LegacySession {
    state: Arc<State>,
    gone: CancellationToken,
}

/// State that the requests and tasks of a session share.
pub(super) struct State {
    pub(super) server: Arc<HttpServer>,
    pub(super) peer: Peer,
    pub(super) events: Events,
    /// Headers that all messages to the server share, such as session and revision.
    post: Head,
    get: Head,
    /// None if there is no session to end.
    delete: Option<Head>,
    pub(super) pending: Arc<Pending>,
    pub(super) questions: Questions,
    background: BackgroundSender,
    /// Set when the session can no longer be used.
    pub(super) closing: Closing,
    pub(super) floods: FloodGuard,
    /// Ends the session and everything that is open on it.
    end: CancellationToken,
}

/// Why a session could not be opened.
pub(super) struct SessionFailure {
    /// The HTTP status that said so, if one did.
    pub(super) status: Option<u16>,
    /// Whether the server answered, and its answer is the reason.
    pub(super) is_answer: bool,
    pub(super) error: Error,
}

impl From<Error> for SessionFailure {
    fn from(error: Error) -> Self {
        let status = if let Error::Status { status, .. } = error { Some(status) } else { None };
        Self { status, is_answer: false, error }
    }
}

impl LegacySession {
    /// Opens a session.
    pub(super) async fn open(
        server: &Arc<HttpServer>,
        events: Events,
        dialect: Dialect,
    ) -> Result<Self, SessionFailure> {
        let cookies = server.client.cookies();
        let (peer, headers) = initialize(server, &events, &cookies, dialect.capabilities).await?;
        let told = Notification { method: method::INITIALIZED.into(), params: None }.encode();
        let client = &server.client;
        let post = client.post(&client.endpoint().path, &headers).in_session(&cookies);
        let response = client.send(|| Ok((post.clone(), told.clone().into())), true).await?;
        if !response.status().is_success() {
            return Err(client.refusal(response).await.into());
        }
        let session = Self::new(server, events, peer, (&headers, &cookies));
        if let Some(client) = dialect.client {
            session.state.pending.be_private(client);
        }
        listening::begin(Arc::clone(&session.state)).await;
        Ok(session)
    }

    fn new(
        server: &Arc<HttpServer>,
        events: Events,
        peer: Peer,
        (headers, cookies): (&HeaderMap, &Arc<Cookies>),
    ) -> Self {
        let client = &server.client;
        let post = client.post(&client.endpoint().path, headers).in_session(cookies);
        let background = BackgroundSender::new(client, &post, &server.shutdown);
        let canceller = background.clone();
        let closing = Closing::default();
        let answers = background.answers(&closing);
        let state = Arc::new(State {
            server: Arc::clone(server),
            peer,
            events,
            post,
            get: client.get(headers).in_session(cookies),
            delete: headers.contains_key(SESSION_ID).then(|| client.delete(headers).in_session(cookies)),
            pending: Pending::of_streams(FIRST_ID, move |id| canceller.post(cancelled(id).encode())),
            questions: Questions::new(&server.name, &server.shutdown, answers),
            floods: FloodGuard::new(&server.name, &closing),
            closing,
            background,
            end: CancellationToken::new(),
        });
        let gone = CancellationToken::new();
        server.shutdown.spawn(keep(Arc::clone(&state), gone.clone()));
        Self { state, gone }
    }
}

/// Sends `initialize`. Returns the peer and the headers of the session.
async fn initialize(
    server: &HttpServer,
    events: &Events,
    cookies: &Arc<Cookies>,
    capabilities: Raw,
) -> Result<(Peer, HeaderMap), SessionFailure> {
    let params = handshake::initialize_params(capabilities);
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
    let (handler, floods) =
        (listening::BeforeSession { events }, FloodGuard::new(&server.name, &Closing::default()));
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
    let peer = reply.and_then(handshake::initialized);
    let peer = peer.map_err(|error| SessionFailure { status, is_answer: true, error })?;
    if peer.version.has_version_header() {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(peer.version.as_str()));
    }
    Ok((peer, headers))
}

/// Ends the session at the server when it ends here.
async fn keep(state: Arc<State>, gone: CancellationToken) {
    let shutdown = &state.server.shutdown;
    tokio::select! {
        () = state.end.cancelled() => {}
        () = shutdown.requested() => {}
        _ = state.closing.wait() => {}
    }
    if state.closing.is_closed() {
        gone.cancel();
        // The session is lost, but open requests may still be answered. It ends when its last holder drops
        // it.
        tokio::select! {
            () = state.end.cancelled() => {}
            () = shutdown.requested() => state.end.cancel(),
        }
        return;
    }
    state.closing.close("the connection was closed");
    state.end.cancel();
    if let Some(delete) = &state.delete {
        let farewell = state.server.client.send(|| Ok((delete.clone(), Bytes::new().into())), false);
        // Servers may refuse this and remove the session later.
        let _ = tokio::time::timeout(FAREWELL_LIMIT, farewell).await;
    }
    gone.cancel();
}

impl State {
    async fn exchange(&self, call: &Call, outlet: &Outlet) -> Result<ResponseBody, Error> {
        if self.closing.is_closed() {
            return Err(Error::NotSent { reason: self.closing.reason() });
        }
        let ticket = self.pending.open(outlet, Purpose::of(call))?;
        self.pending.begin_writing(ticket.id());
        let result = tokio::select! {
            result = self.send(call, ticket.id(), outlet) => result,
            () = self.end.cancelled() => Err(Error::Lost { reason: self.closing.reason() }),
        };
        ticket.done();
        result
    }

    async fn send(&self, call: &Call, id: u64, outlet: &Outlet) -> Result<ResponseBody, Error> {
        let client = &self.server.client;
        let make = || Ok((self.post.clone(), compose(call, id, Era::Legacy, None)?));
        let once = !call.effect.is_repeatable();
        let response = client.send(make, once).await?;
        let handler = LegacyCallHandler { id, wants_progress: call.wants_progress, outlet, state: self };
        let (limit, terms, shutdown) = (client.limit, call.terms, &self.server.shutdown);
        let payer = call.payer(&client.server);
        let reader =
            AnswerReader { id, limit, terms, handler: &handler, floods: &self.floods, shutdown, payer };
        match reader.read(response).await {
            Ok(outcome) => self.judge(outcome),
            Err(broken) => {
                // A server that sends a retry pause ended the stream on purpose, so the client's stream may
                // pause too.
                if let Some(asked) = broken.resume.as_ref().and_then(|resume| pause(resume.retry)) {
                    outlet.pause(asked);
                }
                self.resume(&reader, broken).await.map(ResponseBody::Buffered)
            }
        }
    }

    /// Resumes a broken stream, as long as each attempt brings new events.
    async fn resume(&self, reader: &AnswerReader<'_>, broken: Broken) -> Result<Reply, Error> {
        let Broken { error, resume: Some(mut resume) } = broken else { return Err(broken.error) };
        let mut attempts = 0;
        while attempts < RESUME_ATTEMPTS {
            attempts += 1;
            tokio::time::sleep(pause(resume.retry).unwrap_or(RESUME_PAUSE)).await;
            let stream = match self.get(Some(&resume.last_id)).await {
                Ok(Opened::Stream(stream)) => stream,
                Ok(Opened::Refused(_)) => break,
                Err(_) => continue,
            };
            match reader.read_events(*stream).await {
                Ok(reply) => return Ok(reply),
                Err(Broken { resume: Some(Resume { last_id, retry }), .. }) => {
                    if last_id != resume.last_id {
                        attempts = 0;
                    }
                    resume = Resume { last_id, retry: retry.or(resume.retry) };
                }
                Err(Broken { error: Error::Cut { .. }, resume: None }) => {}
                Err(broken) => return Err(broken.error),
            }
        }
        Err(error)
    }

    /// Opens an event stream, from `last_id` on.
    pub(super) async fn get(&self, last_id: Option<&Bytes>) -> Result<Opened, Error> {
        let mut head = self.get.clone();
        if let Some(id) = last_id.and_then(|id| HeaderValue::from_maybe_shared(id.clone()).ok()) {
            head.put(LAST_EVENT_ID, id);
        }
        let client = &self.server.client;
        let response = client.send(|| Ok((head.clone(), Bytes::new().into())), false).await?;
        let status = response.status();
        Ok(if status.is_success() && is_media_type(response.headers(), "text/event-stream") {
            let account = Account::Server(Arc::clone(&client.server));
            Opened::Stream(Box::new(EventStream::of(response.into_body(), client.limit, account)))
        } else {
            Opened::Refused(status.as_u16())
        })
    }

    /// Detects whether the server forgot the session or changed its era. Everything else is an answer.
    fn judge(&self, outcome: RequestOutcome) -> Result<ResponseBody, Error> {
        match &outcome {
            RequestOutcome::Refusal(refusal) if self.has_session() && is_session_lost(refusal) => {
                return Err(self.lose(SESSION_ENDED));
            }
            // By the specification the status alone decides, whichever request the body names.
            RequestOutcome::Reply(Err(error), StatusCode::NOT_FOUND)
                if self.has_session() && error.code() != code::METHOD_NOT_FOUND =>
            {
                return Err(self.lose(SESSION_ENDED));
            }
            // It is still an answer, so the call is not retried.
            RequestOutcome::Reply(Err(error), StatusCode::BAD_REQUEST) if is_modern(error.code()) => {
                self.server.eras.forget();
                self.closing.close("the server now speaks another era");
            }
            _ => {}
        }
        let mut body = outcome.into_body()?;
        if let ResponseBody::Streaming(stream) = &mut body {
            stream.cut_by(self.end.clone());
        }
        Ok(body)
    }

    /// Marks the session as unusable. Open requests may still be answered.
    pub(super) fn lose(&self, reason: &str) -> Error {
        self.closing.close(reason);
        Error::NotSent { reason: reason.to_owned() }
    }

    pub(super) fn has_session(&self) -> bool {
        self.delete.is_some()
    }
}

/// The result of a GET.
pub(super) enum Opened {
    Stream(Box<EventStream>),
    /// The status.
    Refused(u16),
}

/// Returns the pause that the server asked for, within limits.
pub(super) fn pause(asked: Option<Duration>) -> Option<Duration> {
    asked.map(|pause| pause.clamp(Duration::from_millis(50), Duration::from_mins(1)))
}

/// Whether the session is lost. The specification uses 404, and some servers send 400 with a message.
fn is_session_lost(refusal: &HttpRefusal) -> bool {
    let code = refusal.error.as_ref().map(ErrorObject::code);
    let by_status = refusal.status == StatusCode::NOT_FOUND && code != Some(code::METHOD_NOT_FOUND);
    by_status || refusal.misses_session()
}

/// Whether only a modern server sends this code. It does so before it runs anything.
const fn is_modern(error: i64) -> bool {
    matches!(error, code::HEADER_MISMATCH | code::UNSUPPORTED_PROTOCOL_VERSION)
}

impl Connection for LegacySession {
    fn peer(&self) -> &Peer {
        &self.state.peer
    }

    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> RequestFuture<'a> {
        self.state.exchange(call, outlet).boxed()
    }

    fn tell<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        self.state.background.post(notification.encode());
        std::future::ready(()).boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.state.closing.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // A lost session ends with its last call.
        if !self.state.closing.is_closed() {
            self.state.end.cancel();
        }
        self.gone.cancelled().boxed()
    }
}

impl Drop for LegacySession {
    fn drop(&mut self) {
        self.state.end.cancel();
    }
}
