//! A legacy server: `initialize`, then a session that both sides store.
//!
//! Source: 2025-11-25 `basic/transports`, Streamable HTTP. In this era a dropped connection does not cancel a
//! request. A message cancels it. A broken stream is resumed if the server gave its events ids.

mod listening;
mod session_loss;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::HttpServer;
use super::answer::{AnswerReader, BrokenStream, RequestOutcome, Resume};
use crate::connection::{
    Call, Closing, Connection, Dialect, EventSender, Events, RequestFuture, ServerRequests,
};
use crate::error::{Error, SessionRefusal};
use crate::response_stream::ResponseBody;
use crate::transport::background_send::{BackgroundSender, FAREWELL_LIMIT};
use crate::transport::handshake::{self, PROBE_LIMIT, RequestedRevision};
use crate::transport::http::{Cookies, Head};
use crate::transport::inbound::FloodGuard;
use crate::transport::pending::{Pending, Purpose};
use crate::transport::questions::Questions;
use crate::transport::{cancelled, compose};
use json::Raw;
use listening::{BeforeSession, LegacyCallHandler};
use net::http::{EventStream, is_media_type};
use protocol::error::code;
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorObject, Notification, Reply, headers, method};
use runtime::memory::Account;
use session_loss::{Loss, SessionEnd};

pub(super) use session_loss::RecentLosses;

/// Id of `initialize`, the first request of a session.
const FIRST_ID: u64 = 1;
/// Attempts to resume one stream without a new event.
const RESUME_ATTEMPTS: u32 = 5;
/// Pause before a resumption if the server asked for none.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

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
    /// Closes it when the server forgot the session.
    session: SessionEnd,
    pub(super) floods: FloodGuard,
    /// Ends the session and everything that is open on it.
    end: CancellationToken,
}

impl LegacySession {
    /// Opens a session.
    pub(super) async fn open(
        server: &Arc<HttpServer>,
        events: Events,
        dialect: Dialect,
    ) -> Result<Self, SessionFailure> {
        let cookies = server.client.cookies();
        let (mut revision, mut first) = (RequestedRevision::new(), None);
        let (peer, headers) = loop {
            let params = revision.params(&dialect.sender());
            match greet(server, &events, &cookies, params).await {
                Err(failure) if failure.steps_down(&mut revision) => _ = first.get_or_insert(failure),
                // The first of several refusals is about the newest revision.
                Err(failure) => return Err(first.unwrap_or(failure)),
                Ok(opened) => break opened,
            }
        };
        let session = Self::new(server, events, (peer, dialect.client.is_some()), (&headers, &cookies));
        if let Some(client) = dialect.client {
            session.state.pending.open_own_session(client);
        }
        listening::begin(Arc::clone(&session.state)).await;
        Ok(session)
    }

    /// Whether the server handed out a session.
    pub(super) fn has_id(&self) -> bool {
        self.state.delete.is_some()
    }

    fn new(
        server: &Arc<HttpServer>,
        events: Events,
        (peer, is_private): (Peer, bool),
        (headers, cookies): (&HeaderMap, &Arc<Cookies>),
    ) -> Self {
        let client = &server.client;
        let post = client.post(&client.endpoint().path, headers).in_session(cookies);
        let closing = Closing::default();
        let has_session = headers.contains_key(SESSION_ID);
        let session = SessionEnd::new(&closing, (has_session, is_private), &server.losses);
        let of_message = session.clone();
        let background = BackgroundSender::new(client, &post, &server.shutdown).refused(move |status| {
            // Servers also refuse single messages. If the session is lost, the next request finds out.
            if Loss::of_status(status) == Some(Loss::Certain) {
                of_message.lose(Loss::Certain);
            }
        });
        let canceller = background.clone();
        let answers = background.answers(&closing);
        let state = Arc::new(State {
            server: Arc::clone(server),
            peer,
            events,
            post,
            get: client.get(headers).in_session(cookies),
            delete: has_session.then(|| client.delete(headers).in_session(cookies)),
            pending: Pending::new(FIRST_ID, move |id| canceller.post(cancelled(id).encode())),
            questions: Questions::new(&server.name, &server.shutdown, answers),
            floods: FloodGuard::new(&server.name, &closing),
            closing,
            session,
            background,
            end: CancellationToken::new(),
        });
        let gone = CancellationToken::new();
        server.shutdown.spawn(keep(Arc::clone(&state), gone.clone()));
        Self { state, gone }
    }
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
        return state.say_farewell().await;
    }
    state.closing.close("the connection was closed");
    state.end.cancel();
    state.say_farewell().await;
    gone.cancel();
}

impl State {
    /// Ends the session at the server, unless the server said that it has none. Its running calls are cancelled before.
    async fn say_farewell(&self) {
        if let Some(delete) = self.delete.as_ref().filter(|_| self.session.needs_farewell()) {
            let running = self.pending.end(&self.closing.reason());
            self.background.send_last(running.into_iter().map(|id| cancelled(id).encode())).await;
            let farewell = self.server.client.send(|| Ok((delete.clone(), Bytes::new().into())), false);
            // Servers may refuse this and remove the session later.
            let _ = timeout(FAREWELL_LIMIT, farewell).await;
        }
    }

    async fn exchange(&self, call: &Call, event_sender: &EventSender) -> Result<ResponseBody, Error> {
        if self.closing.is_closed() {
            let bare = Error::NotSent { reason: self.closing.reason() };
            return Err(if self.session.is_lost() { self.ended(None, bare) } else { bare });
        }
        let ticket = self.pending.open(event_sender, Purpose::of(call))?;
        self.pending.begin_writing(ticket.id());
        let result = tokio::select! {
            result = self.send(call, ticket.id(), event_sender) => result,
            // Dropping the ticket cancels the request at the server.
            () = self.end.cancelled() => return Err(Error::Lost { reason: self.closing.reason() }),
        };
        ticket.done();
        result
    }

    async fn send(&self, call: &Call, id: u64, event_sender: &EventSender) -> Result<ResponseBody, Error> {
        let client = &self.server.client;
        let make = || Ok((self.of_call(&self.post, Some(call)), compose(call, id, Era::Legacy, None)?));
        let once = !call.effect.is_repeatable();
        let response = client.send(make, once).await?;
        let handler =
            LegacyCallHandler { id, wants_progress: call.wants_progress, event_sender, state: self };
        let (limit, terms, shutdown) = (client.limit, call.terms, &self.server.shutdown);
        let payer = call.payer(&client.server);
        let reader =
            AnswerReader { id, limit, terms, handler: &handler, floods: &self.floods, shutdown, payer };
        match reader.read(response).await {
            Ok(outcome) => self.judge(call, outcome),
            Err(broken) => {
                // A server that sends a retry pause ended the stream on purpose, so the client's stream may
                // pause too.
                if let Some(requested) = broken.resume.as_ref().and_then(|resume| pause(resume.retry)) {
                    event_sender.pause(requested);
                }
                let reply = self.resume(call, &reader, broken).await?;
                self.judge(call, RequestOutcome::Reply(reply, StatusCode::OK))
            }
        }
    }

    /// Resumes a broken stream, as long as each attempt brings new events.
    async fn resume(
        &self,
        call: &Call,
        reader: &AnswerReader<'_>,
        broken: BrokenStream,
    ) -> Result<Reply, Error> {
        let BrokenStream { error, resume: Some(mut resume) } = broken else { return Err(broken.error) };
        let mut attempts = 0;
        while attempts < RESUME_ATTEMPTS {
            attempts += 1;
            tokio::time::sleep(pause(resume.retry).unwrap_or(RESUME_PAUSE)).await;
            let stream = match self.get(Some(&resume.last_id), Some(call)).await {
                Ok(Opened::Stream(stream)) => stream,
                Ok(Opened::Refused(_)) => break,
                Err(_) => continue,
            };
            match reader.read_events(*stream).await {
                Ok(answer) => return Ok(answer.into_reply()),
                Err(BrokenStream { resume: Some(Resume { last_id, retry }), .. }) => {
                    if last_id != resume.last_id {
                        attempts = 0;
                    }
                    resume = Resume { last_id, retry: retry.or(resume.retry) };
                }
                Err(BrokenStream { error: Error::Cut { .. }, resume: None }) => {}
                Err(broken) => return Err(broken.error),
            }
        }
        Err(error)
    }

    /// Returns `head` with the headers of clients that `call` carries on.
    fn of_call(&self, head: &Head, call: Option<&Call>) -> Head {
        let mut head = head.clone();
        if let Some(call) = call {
            self.server.client.forward(call, &mut head);
        }
        head
    }

    /// Opens an event stream, from `last_id` on: that of `call`, or the one that calls share.
    pub(super) async fn get(&self, last_id: Option<&Bytes>, call: Option<&Call>) -> Result<Opened, Error> {
        let mut head = self.of_call(&self.get, call);
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
    fn judge(&self, call: &Call, outcome: RequestOutcome) -> Result<ResponseBody, Error> {
        // It is still an answer, so the call is not retried.
        if let RequestOutcome::Reply(Err(error), StatusCode::BAD_REQUEST) = &outcome
            && is_modern(error.code())
        {
            self.server.eras.forget();
            self.closing.close("the server now speaks another era");
        } else if self.session.is_unknown(call, &outcome) {
            let text = "the server refuses this method on each new session";
            return Ok(ResponseBody::Buffered(Err(ErrorObject::new(code::METHOD_NOT_FOUND, text))));
        } else if let Some(loss) = Loss::of(&outcome).or_else(|| self.session.loss_of_errors(call, &outcome))
            && self.session.lose(loss)
            && loss != Loss::Unclear
        {
            return Err(match outcome {
                RequestOutcome::Refusal(refusal) => self.ended(refusal.error, refusal.bare),
                RequestOutcome::Reply(reply, _) => self.ended(reply.err(), lost()),
                RequestOutcome::Streaming(_) => lost(),
            });
        }
        let mut body = outcome.into_body_of(call)?;
        if let ResponseBody::Streaming(stream) = &mut body {
            stream.cut_by(self.end.clone());
        }
        Ok(body)
    }

    /// The failure of a request on a session that the server forgot.
    fn ended(&self, error: Option<ErrorObject>, bare: Error) -> Error {
        let version = self.peer.version;
        Error::SessionEnded(Box::new(SessionRefusal { error, bare, version }))
    }
}

fn lost() -> Error {
    Error::NotSent { reason: SESSION_ENDED.to_owned() }
}

/// The result of a GET.
pub(super) enum Opened {
    Stream(Box<EventStream>),
    /// The status.
    Refused(u16),
}

/// Returns the pause that the server asked for, within limits.
pub(super) fn pause(requested: Option<Duration>) -> Option<Duration> {
    requested.map(|pause| pause.clamp(Duration::from_millis(50), Duration::from_mins(1)))
}

/// Whether only a modern server sends this code. It does so before it runs anything.
const fn is_modern(error: i64) -> bool {
    matches!(error, code::HEADER_MISMATCH | code::UNSUPPORTED_PROTOCOL_VERSION)
}

impl Connection for LegacySession {
    fn peer(&self) -> &Peer {
        &self.state.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        async move {
            let answered = self.state.exchange(call, event_sender).await;
            if let Ok(ResponseBody::Buffered(Err(_))) = &answered
                && let Some(list) = self.state.session.list_after_ping(call)
            {
                let call = Call::of_gateway(list, None);
                // Only what it shows of the session is of interest. Boxed: it is large, and rarely needed.
                let _ = timeout(PROBE_LIMIT, Box::pin(self.state.exchange(&call, event_sender))).await;
            }
            answered
        }
        .boxed()
    }

    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        self.state.background.notify(notification.encode()).boxed()
    }

    fn server_requests(&self) -> Option<&dyn ServerRequests> {
        Some(&self.state.questions)
    }

    fn has_lost_session(&self) -> bool {
        self.state.session.is_lost()
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

/// Why a session could not be opened.
pub(super) struct SessionFailure {
    /// The HTTP status that said so, if one did.
    pub(super) status: Option<u16>,
    /// Whether the server answered, and its answer is the reason.
    pub(super) is_answer: bool,
    /// The error that the server answered, if it did.
    refusal: Option<ErrorObject>,
    pub(super) error: Error,
}

impl SessionFailure {
    /// Whether to request an older revision, which `revision` then has.
    fn steps_down(&self, revision: &mut RequestedRevision) -> bool {
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
async fn greet(
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
