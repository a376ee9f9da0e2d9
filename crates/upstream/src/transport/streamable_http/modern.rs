//! A modern server: every request describes itself, in its body and in its headers.
//!
//! Source: 2026-07-28 `basic/transports/streamable-http`. There is no session, so a connection is only the
//! state that is known about the server. Dropping a request closes its stream, which cancels it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::HttpServer;
use super::answer::{AnswerReader, HttpRefusal, MessageHandler, RequestOutcome};
use crate::connection::{Call, Closing, Connection, Event, EventSender, Events, RequestFuture};
use crate::error::Error;
use crate::response_stream::ResponseBody;
use crate::transport::handshake::{self, Finding, PROBE_LIMIT};
use crate::transport::http::Head;
use crate::transport::inbound::{FloodGuard, Relevance};
use crate::transport::{compose, inbound};
use json::{Part, decimal};
use protocol::error::code;
use protocol::feature::List;
use protocol::lifecycle::Peer;
use protocol::{Era, ErrorObject, Message, Notification, Version, headers, meta, method};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
const NEWEST: &str = Version::NEWEST_MODERN.as_str();

/// A live connection to a modern server. Dropping it ends its tasks.
pub(super) struct Modern {
    peer: Peer,
    wire: Arc<Wire>,
}

/// Sends requests to the server. It also works before the server is known.
pub(super) struct Wire {
    server: Arc<HttpServer>,
    /// Headers that all requests share.
    post: Head,
    /// These headers, and those that all tool calls in the newest revision share.
    tools_call: Head,
    events: Events,
    last_id: AtomicU64,
    /// Set when the connection can no longer be used.
    closing: Closing,
    floods: FloodGuard,
    /// Ends the calls and streams that are open on the connection.
    end: CancellationToken,
    /// Whether a probe for the current era is running.
    asking: AtomicBool,
}

impl Wire {
    pub(super) fn new(server: Arc<HttpServer>, events: Events) -> Arc<Self> {
        let client = &server.client;
        let post = client.post(&client.endpoint().path, &HeaderMap::new());
        let mut tools_call = post.clone();
        tools_call.put(PROTOCOL_VERSION, HeaderValue::from_static(NEWEST));
        tools_call.put(METHOD, HeaderValue::from_static(method::TOOLS_CALL));
        // Reserves the place of the name, so that the map does not grow for each call.
        tools_call.put(NAME, HeaderValue::from_static(""));
        let closing = Closing::default();
        Arc::new(Self {
            post,
            tools_call,
            floods: FloodGuard::new(&server.name, &closing),
            server,
            events,
            last_id: AtomicU64::new(0),
            closing,
            end: CancellationToken::new(),
            asking: AtomicBool::new(false),
        })
    }

    /// Requests the description of the server.
    pub(super) async fn discover(&self) -> Result<RequestOutcome, Error> {
        self.send(&Call::of_gateway(method::DISCOVER, None), &EventSender::none()).await
    }

    /// Sends one request and reads its answer.
    async fn send(&self, call: &Call, event_sender: &EventSender) -> Result<RequestOutcome, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let claimed = meta::claimed_version(call.params.as_ref());
        let make = || Ok((self.head(call, claimed), compose(call, id, Era::Modern, claimed)?));
        let client = &self.server.client;
        let once = !call.effect.is_repeatable();
        let response = client.send(make, once).await?;
        let token = call.wants_progress.then_some(id);
        let listens = call.method == method::SUBSCRIPTIONS_LISTEN;
        let of_call = ModernCallHandler { token, event_sender, events: &self.events, listens };
        let (limit, terms, shutdown) = (client.limit, call.terms, &self.server.shutdown);
        let payer = call.payer(&client.server);
        let reader =
            AnswerReader { id, limit, terms, handler: &of_call, floods: &self.floods, shutdown, payer };
        reader.read(response).await.map_err(|broken| broken.error)
    }

    /// Returns the headers for a request that has `claimed` a revision, including those that repeat its body.
    /// Without a claim the revision is [`Version::NEWEST_MODERN`].
    fn head(&self, call: &Call, claimed: Option<Part<'_>>) -> Head {
        let params = call.params.as_ref();
        let other = claimed.filter(|claimed| !claimed.says(NEWEST)).and_then(Part::text);
        let name = headers::name_member(&call.method).and_then(|member| params?.text(member));
        let mut head = match (other, call.method.known()) {
            (None, Some(method::TOOLS_CALL)) if name.is_some() => self.tools_call.clone(),
            (other, known) => {
                let mut head = self.post.clone();
                put(&mut head, PROTOCOL_VERSION, other.as_deref().unwrap_or(NEWEST));
                match known {
                    Some(name) => head.put(METHOD, HeaderValue::from_static(name)),
                    None => put(&mut head, METHOD, &call.method),
                }
                head
            }
        };
        if let Some(name) = name {
            put(&mut head, NAME, &name);
        }
        mirror(call, &mut head);
        self.server.client.forward(call, &mut head);
        head
    }

    async fn exchange(
        self: &Arc<Self>,
        call: &Call,
        event_sender: &EventSender,
    ) -> Result<ResponseBody, Error> {
        if self.closing.is_closed() {
            return Err(Error::NotSent { reason: self.closing.reason() });
        }
        // Pinned in place, because moving a large future costs time in every call.
        let mut sent = pin!(self.send(call, event_sender));
        let outcome = tokio::select! {
            biased;
            outcome = &mut sent => outcome?,
            () = self.end.cancelled() => return Err(Error::Lost { reason: self.closing.reason() }),
        };
        // The cause may also be a proxy, or an argument that the server could not read. For this call it is
        // the answer, and other calls continue.
        if let RequestOutcome::Refusal(refusal) = &outcome
            && is_like_another_era(refusal)
        {
            self.find_out_again();
        }
        let mut body = outcome.into_body_of(call)?;
        match &mut body {
            ResponseBody::Streaming(stream) => stream.cut_by(self.end.clone()),
            ResponseBody::Buffered(Err(refusal)) => match refusal.code() {
                code::UNSUPPORTED_PROTOCOL_VERSION => {
                    self.close_as_changed("the server no longer speaks this revision");
                }
                // The tool has other parameters now, and a new list shows them.
                code::HEADER_MISMATCH => self.events.report(Event::Changed(List::Tools)),
                _ => {}
            },
            ResponseBody::Buffered(Ok(_)) => {}
        }
        Ok(body)
    }

    /// Probes in the background whether the server is still modern.
    fn find_out_again(self: &Arc<Self>) {
        if self.asking.swap(true, Ordering::Relaxed) {
            return;
        }
        let wire = Arc::clone(self);
        self.server.shutdown.spawn_until_end(async move {
            let response = tokio::time::timeout(PROBE_LIMIT, wire.discover()).await;
            let is_other = match response {
                Ok(Ok(RequestOutcome::Reply(reply, _))) => {
                    !matches!(handshake::find(&reply), Finding::Modern(_))
                }
                Ok(Ok(RequestOutcome::Refusal(refusal))) => is_like_another_era(&refusal),
                // The answer says nothing about the era.
                Ok(Ok(RequestOutcome::Streaming(_)) | Err(_)) | Err(_) => false,
            };
            if is_other {
                wire.close_as_changed("the server answers like one of another era");
            }
            wire.asking.store(false, Ordering::Relaxed);
        });
    }

    /// Closes the connection, because the server has changed. The next connect detects its era.
    fn close_as_changed(&self, reason: &str) {
        self.server.eras.forget();
        self.closing.close(reason);
    }

    /// Ends the connection and everything that is open on it.
    fn end(&self, reason: &str) {
        self.closing.close(reason);
        self.end.cancel();
    }
}

/// Whether the server may be of another era. A modern server names the request that it refuses and has one
/// URL for all requests.
fn is_like_another_era(refusal: &HttpRefusal) -> bool {
    let is_modern = |error: &ErrorObject| {
        let codes = code::UNSUPPORTED_PROTOCOL_VERSION..=code::HEADER_MISMATCH;
        codes.contains(&error.code())
    };
    matches!(refusal.status.as_u16(), 400 | 404 | 405) && !refusal.error.as_ref().is_some_and(is_modern)
}

impl Modern {
    pub(super) fn new(peer: Peer, wire: Arc<Wire>) -> Self {
        let (shutdown, closed) = (wire.server.shutdown.clone(), Arc::clone(&wire));
        wire.server.shutdown.spawn(async move {
            tokio::select! {
                () = shutdown.requested() => closed.end("the connection was closed"),
                () = closed.end.cancelled() => {}
            }
        });
        Self { peer, wire }
    }
}

impl Connection for Modern {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        self.wire.exchange(call, event_sender).boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.wire.closing.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            // A connection that has retired by itself ends with its last call.
            if !self.wire.closing.is_closed() {
                self.wire.end("the connection was closed");
            }
        }
        .boxed()
    }
}

impl Drop for Modern {
    fn drop(&mut self) {
        self.wire.end("the connection was dropped");
    }
}

/// Receives the messages of a modern server during a call.
struct ModernCallHandler<'a> {
    token: Option<u64>,
    event_sender: &'a EventSender,
    events: &'a Events,
    /// Whether this is the stream of subscriptions.
    listens: bool,
}

impl MessageHandler for ModernCallHandler<'_> {
    fn handle(&self, message: Message) -> Relevance {
        match message {
            Message::Notification(notification)
                if notification.method == method::SUBSCRIPTIONS_ACKNOWLEDGED =>
            {
                if !self.listens {
                    return Relevance::Junk;
                }
                self.event_sender.offer(notification);
                Relevance::Wanted
            }
            Message::Notification(notification) => inbound::sort(notification, self.events, |notification| {
                offer(self.event_sender, notification, self.token)
            }),
            // A modern server must not send requests here, and there is no way to answer.
            Message::Request(_) | Message::Response(_) => Relevance::Junk,
        }
    }
}

/// Passes a notification on the stream of a call to its caller. Progress is passed on only if the caller
/// requested it.
pub(super) fn offer(event_sender: &EventSender, notification: Notification, token: Option<u64>) -> Relevance {
    let named = || decimal::whole(notification.params.as_ref()?.part("progressToken")?.bytes());
    if notification.method == method::PROGRESS && (token.is_none() || token != named()) {
        return Relevance::Junk;
    }
    event_sender.offer(notification);
    Relevance::Wanted
}

/// Sets the headers that repeat arguments.
fn mirror(call: &Call, head: &mut Head) {
    let params = call.params.as_ref();
    for param in call.header_params.iter() {
        let name = HeaderName::from_bytes(param.header_name().as_bytes());
        let value = param.value_in(params.and_then(|params| params.part("arguments")));
        if let (Ok(name), Some(value)) = (name, value) {
            put(head, name, &value);
        }
    }
}

fn put(head: &mut Head, name: HeaderName, value: &str) {
    // It cannot fail: encoded values are visible ASCII.
    if let Ok(value) = HeaderValue::from_str(&headers::encode(value)) {
        head.put(name, value);
    }
}
