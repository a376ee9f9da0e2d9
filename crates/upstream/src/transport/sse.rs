//! HTTP+SSE, the transport of 2024-11-05: one event stream for all answers, one URL to post to.
//!
//! Source: 2024-11-05 `basic/transports`. The stream is the session: when it ends, every open request ends.
//! The server chooses the URL for requests, but only within the configured origin, so that credentials stay
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::background_send::BackgroundSender;
use super::handshake::{self, PROBE_LIMIT};
use super::http::{Cookies, Head, HttpClient, NewRequest};
use super::inbound::{self, FLOODED, FloodGuard, Relevance, is_message};
use super::pending::{Pending, Purpose};
use super::questions::Questions;
use super::{PrincipalCredentials, cancelled, compose};
use crate::ServerContext;
use crate::config::{Config, Http};
use crate::connection::{
    Call, Closing, Connection, Connector, Dialect, EventSender, Events, RequestFuture, ServerRequests,
    Sockets,
};
use crate::error::{Error, SessionRefusal};
use crate::principal_secrets::PrincipalSecrets;
use crate::response_stream::ResponseBody;
use json::Raw;
use net::http::{EventStream, collect, is_media_type, joined, path};
use net::sse::Item;
use oauth::Logins;
use protocol::lifecycle::Peer;
use protocol::sanitize::shown;
use protocol::{Era, Message, Notification, ParseError, Reply, Version, method};
use runtime::memory::{Account, Payer};
use runtime::shutdown::Shutdown;

/// Why a connection ended that Switchyard closed.
const CLOSED: &str = "the connection was closed";
const NO_ENDPOINT: &str = "the server's event stream does not begin with an endpoint";

/// Reaches one server that uses this transport.
pub(super) struct ToStream {
    name: Arc<str>,
    client: Arc<HttpClient>,
    shutdown: Shutdown,
    requests_per_connection: usize,
    credentials: PrincipalCredentials,
}

impl ToStream {
    pub(super) fn new(config: &Config, http: &Http, server_context: &ServerContext) -> Result<Self, Error> {
        let (credential, credentials) = super::credentials(config, http, server_context);
        Ok(Self {
            name: Arc::clone(&config.name),
            client: Arc::new(HttpClient::new(http, config, credential, &server_context.shutdown)?),
            shutdown: server_context.shutdown.clone(),
            requests_per_connection: super::requests_per_connection(config),
            credentials,
        })
    }
}

impl Connector for ToStream {
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let (shared, credentials) = (Arc::clone(&self.client), self.credentials.clone());
        let (name, shutdown) = (Arc::clone(&self.name), self.shutdown.clone());
        async move {
            let client = credentials.client(&shared, dialect.principal.as_ref()).await?;
            let open = async || {
                let stream = start(&name, &client).await?;
                open(stream, &client, &shutdown, (events.clone(), dialect.clone())).await
            };
            let opened = client.located(&name, open).await;
            opened.map_err(handshake::while_connecting).map_err(|error| client.advise(error))
        }
        .boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        Some(era == Era::Legacy)
    }

    fn has_sessions(&self, _era: Era) -> bool {
        true
    }

    fn forget(&self) {
        self.client.forget();
    }

    fn remark(&self) -> Option<String> {
        self.client.remark()
    }

    fn renewed(&self) -> BoxFuture<'_, ()> {
        self.client.renewed()
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        self.credentials.logins.clone()
    }

    fn principal_secrets(&self) -> Option<Arc<PrincipalSecrets>> {
        self.credentials.secrets.clone()
    }

    fn requests_per_connection(&self) -> usize {
        self.requests_per_connection
    }

    fn sockets(&self) -> Option<Sockets> {
        Some(self.client.sockets())
    }
}

/// An open event stream.
pub(super) struct StartedStream {
    /// The name of its server.
    name: Arc<str>,
    stream: EventStream,
    /// The URL for requests, as the server wrote it.
    endpoint: String,
    cookies: Arc<Cookies>,
}

/// Opens the stream, and waits for its first event.
pub(super) async fn start(name: &Arc<str>, client: &HttpClient) -> Result<StartedStream, Error> {
    let cookies = client.cookies();
    let get = client.get(&HeaderMap::new()).in_session(&cookies);
    let response = client.send(|| Ok((get.clone(), Bytes::new().into())), false).await?;
    if !response.status().is_success() {
        return Err(client.refusal(response).await);
    }
    if !is_media_type(response.headers(), "text/event-stream") {
        return Err(handshake::refused("the server answers no event stream"));
    }
    let account = Account::Server(Arc::clone(&client.server));
    let mut stream = EventStream::of(response.into_body(), client.limit, account);
    let silent = |_| handshake::refused(NO_ENDPOINT);
    let endpoint = tokio::time::timeout(PROBE_LIMIT, endpoint(name, &mut stream)).await.map_err(silent)??;
    Ok(StartedStream { name: Arc::clone(name), stream, endpoint, cookies })
}

/// Performs the handshake on the stream `started`.
pub(super) async fn open(
    started: StartedStream,
    client: &Arc<HttpClient>,
    shutdown: &Shutdown,
    (events, dialect): (Events, Dialect),
) -> Result<Arc<dyn Connection>, Error> {
    let StartedStream { name, stream, endpoint, cookies } = started;
    let endpoint = within(&client.endpoint().url, &endpoint)?;
    let post = client.post(&path(&endpoint)?, &HeaderMap::new()).in_session(&cookies);
    let link = SseLink::new(&name, client, post, shutdown);
    shutdown.spawn(link.clone().read(stream, events, shutdown.clone()));
    // From here on the reader ends with `ending`, even if the handshake fails.
    let ending = Ending(link);
    let sender = dialect.sender();
    if let Some(owner) = dialect.client {
        ending.0.pending.open_own_session(owner);
    }
    let reply = handshake::negotiate(&sender, |params| ending.0.initialize(params)).await?;
    let peer = handshake::initialized(reply)?;
    ending.0.pending.expect_refusal();
    client.initialized(&ending.0.post).await?;
    Ok(Arc::new(SseConnection { peer, ending }))
}

/// State that the requests and the reader of one stream share.
#[derive(Clone)]
struct SseLink {
    client: Arc<HttpClient>,
    post: Head,
    pending: Arc<Pending>,
    questions: Questions,
    background: BackgroundSender,
    closing: Closing,
    /// Whether the server forgot the stream.
    is_lost: Arc<AtomicBool>,
    floods: Arc<FloodGuard>,
    /// Requests the end of the reader.
    end: CancellationToken,
    /// Set when the reader has ended.
    gone: CancellationToken,
}

impl SseLink {
    fn new(name: &Arc<str>, client: &Arc<HttpClient>, post: Head, shutdown: &Shutdown) -> Self {
        let background = BackgroundSender::new(client, &post, shutdown);
        let canceller = background.clone();
        let closing = Closing::default();
        let answers = background.answers(&closing);
        Self {
            client: Arc::clone(client),
            post,
            pending: Pending::new(0, move |id| canceller.post(cancelled(id).encode())),
            questions: Questions::new(name, shutdown, answers),
            background,
            floods: Arc::new(FloodGuard::new(name, &closing)),
            closing,
            is_lost: Arc::default(),
            end: CancellationToken::new(),
            gone: CancellationToken::new(),
        }
    }

    /// Sends the request that `compose` makes with its id, and waits for the answer on the stream.
    async fn exchange(
        &self,
        event_sender: &EventSender,
        purpose: Purpose,
        once: bool,
        make: impl Fn(u64) -> NewRequest,
    ) -> Result<Reply, Error> {
        if self.closing.is_closed() {
            let bare = Error::NotSent { reason: self.closing.reason() };
            return Err(if self.is_lost.load(Ordering::Relaxed) { session_ended(bare) } else { bare });
        }
        let mut ticket = self.pending.open(event_sender, purpose)?;
        let id = ticket.id();
        self.pending.begin_writing(id);
        let error = tokio::select! {
            biased; // what was answered is never made again
            answer = ticket.answer() => return answer,
            error = self.post_failure(|| make(id), once) => error,
        };
        if let Error::Connect { .. }
        | Error::SessionEnded(_)
        | Error::NotSent { .. }
        | Error::Status { .. }
        | Error::Overloaded { .. } = error
        {
            // The server did not receive it, so there is nothing to cancel.
            ticket.done();
        }
        Err(error)
    }

    /// Posts a request. Returns only if that fails, because the answer arrives on the stream.
    async fn post_failure(&self, make: impl Fn() -> NewRequest, once: bool) -> Error {
        match self.post(make, once).await {
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    async fn post(&self, make: impl Fn() -> NewRequest, once: bool) -> Result<(), Error> {
        let response = self.client.send(make, once).await?;
        let status = response.status();
        if !status.is_success() {
            let refusal = self.client.refusal(response).await;
            // The URL names the session. Any other refusal concerns this message alone, because the stream is shared.
            if !matches!(status.as_u16(), 400 | 404 | 410) {
                return Err(refusal);
            }
            self.closing.close(format!("the server no longer knows the stream (HTTP {})", status.as_u16()));
            self.is_lost.store(true, Ordering::Relaxed);
            return Err(session_ended(refusal));
        }
        // The body has no content of use, but the connection can be used again after it was read.
        let _ = collect(response.into_body(), Bytes::new(), self.client.limit, self.payer()).await;
        Ok(())
    }

    fn payer(&self) -> Payer<'_> {
        Payer { principal: None, server: &self.client.server }
    }

    async fn initialize(&self, params: Raw) -> Result<Reply, Error> {
        let call = Call::of_gateway(method::INITIALIZE, Some(params));
        let make = |id| Ok((self.post.clone(), compose(&call, id, Era::Legacy, None)?));
        self.exchange(&EventSender::none(), Purpose::Handshake, false, make).await
    }

    async fn notify(&self, notification: &Notification) -> Result<(), Error> {
        self.post(|| Ok((self.post.clone(), notification.encode().into())), true).await
    }

    /// Delivers messages until the stream ends or the shutdown begins.
    async fn read(self, mut stream: EventStream, events: Events, shutdown: Shutdown) {
        let work = async {
            loop {
                match self.floods.next(&mut stream).await {
                    Ok(Some(item)) => {
                        let ((relevance, messages), length) = self.take(item, &events);
                        if self.floods.admit_batch(relevance, length, messages).await.is_err() {
                            break FLOODED.to_owned();
                        }
                    }
                    Ok(None) => break "the server ended the event stream".to_owned(),
                    Err(error) => break format!("the event stream was lost: {error}"),
                }
            }
        };
        let lost = tokio::select! {
            reason = work => Some(reason),
            () = self.end.cancelled() => None,
            () = shutdown.requested() => None,
        };
        if let Some(reason) = lost {
            self.pending.end(&reason);
            self.closing.close(reason);
        } else {
            let running = self.pending.end(CLOSED);
            self.closing.close(CLOSED);
            self.background.send_last(running.into_iter().map(|id| cancelled(id).encode())).await;
        }
        drop(stream);
        self.gone.cancel();
    }

    /// Handles one event. Returns its relevance, the number of its messages, and its length.
    fn take(&self, item: Item, events: &Events) -> ((Relevance, usize), usize) {
        events.heard();
        match item {
            Item::Event(event) if is_message(&event.name) => {
                let take = |message, text: &Bytes| self.take_message(message, text, events);
                (inbound::read(&event.data, take, Relevance::and), event.data.len())
            }
            Item::Event(event) => ((Relevance::Junk, 1), event.data.len()),
            Item::TooLong(clip) => {
                let answered = self.pending.answer_too_long(&clip, self.client.limit);
                ((if answered { Relevance::Wanted } else { Relevance::Junk }, 1), self.client.limit)
            }
        }
    }

    fn take_message(&self, message: Result<Message, ParseError>, text: &Bytes, events: &Events) -> Relevance {
        match message {
            Ok(Message::Response(response)) => {
                if self.pending.answer(response) {
                    Relevance::Wanted
                } else {
                    Relevance::Junk
                }
            }
            Ok(Message::Notification(notification)) if self.questions.is_withdrawn_by(&notification) => {
                Relevance::Wanted
            }
            Ok(Message::Notification(notification)) => {
                inbound::sort(notification, events, |notification| self.pending.notify(notification))
            }
            Ok(Message::Request(request)) => {
                inbound::record(&request, events);
                let pending = Arc::clone(&self.pending);
                self.questions.take(request, move |owner| pending.attribute(owner))
            }
            Err(error) => {
                let named = self.pending.named_in(text);
                let settled = self.pending.unreadable(&named, &Error::unreadable(&error));
                let is_answer = !settled.is_empty();
                for request in settled {
                    request.deliver();
                }
                tracing::debug!(%error, is_answer, "an event that is no message was skipped");
                if is_answer { Relevance::Wanted } else { Relevance::Junk }
            }
        }
    }
}

/// The failure of a request on a stream that the server forgot.
fn session_ended(bare: Error) -> Error {
    Error::SessionEnded(Box::new(SessionRefusal { error: None, bare, version: Version::V2024_11_05 }))
}

/// Ends the reader when dropped.
struct Ending(SseLink);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end.cancel();
    }
}

/// A live connection.
struct SseConnection {
    peer: Peer,
    ending: Ending,
}

impl Connection for SseConnection {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        let link = &self.ending.0;
        let make = |id| {
            let mut head = link.post.clone();
            link.client.forward(call, &mut head);
            Ok((head, compose(call, id, Era::Legacy, None)?))
        };
        let exchange = link.exchange(event_sender, Purpose::of(call), !call.effect.is_repeatable(), make);
        exchange.map_ok(ResponseBody::Buffered).boxed()
    }

    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        // If delivery fails, the connection is about to end.
        async move { drop(self.ending.0.notify(notification).await) }.boxed()
    }

    fn server_requests(&self) -> Option<&dyn ServerRequests> {
        Some(&self.ending.0.questions)
    }

    fn has_lost_session(&self) -> bool {
        self.ending.0.is_lost.load(Ordering::Relaxed)
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.ending.0.closing.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let link = &self.ending.0;
        async {
            // A connection that the server forgot ends with its last call.
            if !link.closing.is_closed() {
                link.end.cancel();
                link.gone.cancelled().await;
            }
        }
        .boxed()
    }
}

/// Waits for the first event, which names the URL for requests.
async fn endpoint(name: &Arc<str>, stream: &mut EventStream) -> Result<String, Error> {
    let floods = FloodGuard::new(name, &Closing::default());
    while let Some(item) = floods.next(stream).await? {
        let Item::Event(event) = item else { break };
        if event.name == "endpoint" {
            return Ok(String::from_utf8_lossy(&event.data).into_owned());
        }
    }
    Err(handshake::refused(NO_ENDPOINT))
}

/// Returns the URL for requests that a server at `base` names with `text`.
fn within(base: &Url, text: &str) -> Result<Url, Error> {
    let url = joined(base, text.trim()).map_err(|_| handshake::refused("the endpoint it names is no URL"))?;
    if url.origin() == base.origin() {
        return Ok(url);
    }
    // Its path could hold a secret.
    let origin = shown(&url.origin().ascii_serialization());
    Err(handshake::refused(&format!(
        "the server names an endpoint at another origin, {origin}, which is not followed; have it name a path or its \
         public address, or put that address in `url`"
    )))
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
