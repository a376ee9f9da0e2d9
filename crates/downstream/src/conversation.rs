//! One client on one channel for all messages: a pipe, or the event stream of HTTP+SSE.
//!
//! The client's messages arrive one at a time, and all messages to it go through one bounded channel. `initialize`
//! makes it a legacy client. If `is_dual` is set, a request that describes itself is a modern one on the same
//! channel. Invariants: ids are unique on a channel in both eras together. A call is cancelled when its client can
//! no longer read the answer. If Switchyard ends a `subscriptions/listen`, it sends both messages that 2026-07-28
//! defines for that.
//!
//! Not here: framing, and the end of the conversation (`stdio`, `sse`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::{MessageRefusal, described};
use super::exchange::{Exchange, HttpRequestId, OutsideCalls};
use super::headers::check_meta;
use super::message_encoder::MessageEncoder;
use super::sessions::Session;
use gateway::subscriptions::Feed;
use gateway::{Caller, Gateway};
use json::Raw;
use protocol::{Message, Notification, Request, RequestId, Response, meta, method};
use runtime::shutdown::Shutdown;
use upstream::ForwardedHeaders;

/// Most notifications of the client that are on their way to servers; further ones are lost.
const MAX_PASSING: usize = 64;

/// Encodes a message for a channel.
pub type Frame = fn(Bytes) -> Bytes;

/// One conversation.
pub struct Conversation {
    gateway: Gateway,
    /// The session that owns the channel and tracks the requests of both eras.
    session: Arc<Session>,
    outgoing: mpsc::Sender<Bytes>,
    /// The tasks of running requests.
    requests: Shutdown,
    /// Whether modern requests are served too.
    is_dual: bool,
    /// Encodes a message for this channel.
    frame: Frame,
    /// The legacy client, after its `initialize`.
    legacy: RwLock<Option<Arc<Caller>>>,
    /// Whether the task that sends notifications to the legacy client was started; one is enough.
    announcing: AtomicBool,
    /// Notifications of the client on their way to its server, in order.
    passing: OnceLock<mpsc::Sender<(Arc<Caller>, Notification)>>,
}

impl Conversation {
    /// Creates a conversation in `session`. Messages to the client go into `outgoing`, and requests run in
    /// `requests`.
    pub(crate) fn new(
        gateway: Gateway,
        session: Arc<Session>,
        outgoing: mpsc::Sender<Bytes>,
        requests: Shutdown,
        (is_dual, frame): (bool, Frame),
    ) -> Arc<Self> {
        Arc::new(Self {
            gateway,
            session,
            outgoing,
            requests,
            is_dual,
            frame,
            legacy: RwLock::new(None),
            announcing: AtomicBool::new(false),
            passing: OnceLock::new(),
        })
    }

    /// The session of the client.
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Handles one message of the client, which arrived in the HTTP request `named`. Its call carries `forwarded` on.
    /// Returns before the message is answered.
    pub async fn take(
        self: &Arc<Self>,
        message: Message,
        named: HttpRequestId,
        forwarded: Option<ForwardedHeaders>,
    ) {
        match message {
            Message::Request(request) => {
                let id = request.id.clone();
                if let Err(refusal) = self.request(request, named, forwarded) {
                    self.refuse(Some(id), &refusal).await;
                }
            }
            Message::Notification(notice) => self.notification(notice),
            Message::Response(response) => self.session.questions.answer(response),
        }
    }

    /// Answers a message that cannot be handled.
    pub async fn refuse(&self, id: Option<RequestId>, refusal: &MessageRefusal) {
        let response = Response { id, reply: Err(refusal.object()) };
        // A closed channel means that the client has disconnected.
        let _ = self.outgoing.send((self.frame)(response.encode())).await;
    }

    fn request(
        self: &Arc<Self>,
        request: Request,
        named: HttpRequestId,
        forwarded: Option<ForwardedHeaders>,
    ) -> Result<(), MessageRefusal> {
        let mut caller = self.caller(&request)?;
        if forwarded.is_some() {
            caller = Arc::new(Caller::clone(&caller).forwarding(forwarded));
        }
        let running = self.session.begin(&request.id)?;
        let cancel = running.cancel.clone();
        let listens = caller.version.is_modern() && request.method == method::SUBSCRIPTIONS_LISTEN;
        let request = (request, named);
        let mut exchange = Exchange::detached(&self.gateway, caller, request, running, &self.requests);
        let (outgoing, frame, encoder) = (self.outgoing.clone(), self.frame, exchange.encoder());
        let questions = Arc::clone(&self.session.questions);
        self.requests.spawn(async move {
            while let Some(message) = exchange.next().await {
                let end = torn_down(&message).filter(|_| listens);
                for message in [Some(message), end].into_iter().flatten() {
                    let Some(text) = encoder.encode(&message, Some(&questions), frame) else { continue };
                    if outgoing.send(text).await.is_err() {
                        cancel.cancel(); // the client has disconnected
                        return;
                    }
                }
            }
        });
        Ok(())
    }

    /// Returns the caller of a request: from its own description if it has one, else the session's client.
    fn caller(&self, request: &Request) -> Result<Arc<Caller>, MessageRefusal> {
        let opener = &self.session.caller;
        let (principal, scope, params) =
            (opener.principal.clone(), opener.scope.clone(), request.params.as_ref());
        if self.is_dual && meta::claimed_version(params).is_some() {
            check_meta(request)?;
            // All requests on the channel come from one client, so they have one owner.
            let mut caller = Caller::modern(principal, scope, params);
            caller.owner = opener.owner;
            return Ok(Arc::new(caller));
        }
        let mut legacy = self.legacy.write().unwrap_or_else(PoisonError::into_inner);
        if request.method == method::INITIALIZE {
            let mut caller = described(principal, scope, params)?;
            // Private connections of the client end with the channel, and their messages use it.
            (caller.affinity, caller.mailbox) = (opener.affinity.clone(), opener.mailbox.clone());
            *legacy = Some(Arc::new(caller));
        }
        match &*legacy {
            Some(caller) => Ok(caller.clone()),
            // A ping is allowed before the handshake (2025-11-25, `basic/lifecycle`).
            None if request.method == method::PING => Ok(opener.clone()),
            None => Err(MessageRefusal::no_session()),
        }
    }

    fn notification(self: &Arc<Self>, notice: Notification) {
        self.session.record(&notice);
        let caller = || self.legacy.read().unwrap_or_else(PoisonError::into_inner).clone();
        if notice.method.known().is_none() {
            if let Some(caller) = caller() {
                // If too many wait already, it is lost.
                let _ = self.passing.get_or_init(|| self.pass()).try_send((caller, notice));
            }
        } else if notice.method == method::INITIALIZED
            && let Some(caller) = caller()
            && let Some(feed) = self.gateway.feed(&caller)
            && !self.announcing.swap(true, Ordering::Relaxed)
        {
            let asks = OutsideCalls::of(&self.gateway, &caller, &self.session.questions);
            let announced = self.announce(&caller, (feed, asks));
            self.requests.spawn_until_end(announced);
        }
    }

    /// Starts the task that passes notifications on, one after another.
    fn pass(&self) -> mpsc::Sender<(Arc<Caller>, Notification)> {
        let (sender, mut waiting) = mpsc::channel::<(Arc<Caller>, Notification)>(MAX_PASSING);
        let gateway = self.gateway.clone();
        self.requests.spawn_until_end(async move {
            while let Some((caller, notice)) = waiting.recv().await {
                gateway.notify(&caller, &notice).await;
            }
        });
        sender
    }

    /// Sends notifications to the legacy client, and server requests that belong to no call, until the channel closes.
    fn announce(
        &self,
        caller: &Caller,
        (mut feed, mut asks): (Feed, OutsideCalls),
    ) -> impl Future<Output = ()> + Send + use<> {
        let (outgoing, frame) = (self.outgoing.clone(), self.frame);
        let encoder = MessageEncoder::new(caller.principal.id(), caller.version.era());
        let questions = Arc::clone(&self.session.questions);
        async move {
            loop {
                let message = tokio::select! {
                    notice = feed.next() => Message::Notification(notice),
                    message = asks.next() => message,
                    () = outgoing.closed() => return,
                };
                let Some(text) = encoder.encode(&message, Some(&questions), frame) else { continue };
                if outgoing.send(text).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns the notification that follows `message`, if that is the result of a `subscriptions/listen`. Such a
/// result is sent only when Switchyard ends the stream.
///
/// `basic/patterns/cancellation` requires this notification if no separate stream can be closed, and
/// `basic/patterns/subscriptions` requires the result. The result comes first, because it says that the end was
/// intended. The notification is then about a finished request, and clients ignore it. In the other order clients
/// would ignore the result, and the end would look like a failure.
fn torn_down(message: &Message) -> Option<Message> {
    let Message::Response(Response { id: Some(id), reply: Ok(_) }) = message else { return None };
    let params = Raw::empty_object().with("requestId", id.raw());
    Some(Message::Notification(Notification { method: method::CANCELLED.into(), params: Some(params) }))
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
