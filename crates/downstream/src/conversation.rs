//! One client on one channel that carries everything: a pipe, or the event stream of HTTP+SSE.
//!
//! The client's messages come in one at a time; everything for it leaves through one bounded
//! channel. `initialize` makes it a legacy client; where `is_dual`, a request that describes itself
//! is a modern one, on the same channel. Invariants: ids are unique on a channel, whatever the era; a
//! call whose answer nobody can read any more is cancelled; a `subscriptions/listen` that we end is ended
//! in both of the ways that 2026-07-28 has for it.
//!
//! Not here: framing, and when the conversation ends (`stdio`, `sse`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::{Refusal, described};
use super::exchange::{Exchange, Named};
use super::headers::check_meta;
use super::outside_calls::OutsideCalls;
use super::sessions::Session;
use gateway::subscriptions::Feed;
use gateway::{Caller, Gateway};
use json::Raw;
use protocol::{Message, Notification, Request, RequestId, Response, meta, method};
use runtime::shutdown::Shutdown;

/// Gives a message the form that it has on a channel.
pub type Frame = fn(Bytes) -> Bytes;

/// One conversation.
pub struct Conversation {
    gateway: Gateway,
    /// The books of the requests of both eras, and whose they are.
    session: Arc<Session>,
    outgoing: mpsc::Sender<Bytes>,
    /// Requests under way.
    requests: Shutdown,
    /// Whether modern requests are served too.
    is_dual: bool,
    /// The form of a message on the channel.
    frame: Frame,
    /// The legacy client, once it said `initialize`.
    legacy: RwLock<Option<Arc<Caller>>>,
    /// Whether the legacy client is told of changes; once is enough.
    announcing: AtomicBool,
}

impl Conversation {
    /// A conversation in `session`; what is said goes into `outgoing`, what is done runs in
    /// `requests`.
    pub fn new(
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
        })
    }

    /// Whose it is.
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Takes one message of the client, which came in the HTTP request `named`. Returns before it is answered.
    pub async fn take(self: &Arc<Self>, message: Message, named: Named) {
        match message {
            Message::Request(request) => {
                let id = request.id.clone();
                if let Err(refusal) = self.request(request, named) {
                    self.refuse(Some(id), &refusal).await;
                }
            }
            Message::Notification(notice) => self.notification(&notice),
            Message::Response(response) => self.session.questions.answer(response),
        }
    }

    /// Answers what could not be taken.
    pub async fn refuse(&self, id: Option<RequestId>, refusal: &Refusal) {
        let response = Response { id, reply: Err(refusal.object()) };
        // A closed channel means that the client is gone.
        let _ = self.outgoing.send((self.frame)(response.encode())).await;
    }

    fn request(self: &Arc<Self>, request: Request, named: Named) -> Result<(), Refusal> {
        let caller = self.caller(&request)?;
        let running = self.session.begin(&request.id)?;
        let cancel = running.cancel.clone();
        let listens = caller.version.is_modern() && request.method == method::SUBSCRIPTIONS_LISTEN;
        let request = (request, named);
        let mut exchange = Exchange::detached(&self.gateway, caller, request, running, &self.requests);
        let (outgoing, frame, printer) = (self.outgoing.clone(), self.frame, exchange.printer());
        self.requests.spawn(async move {
            while let Some(message) = exchange.next().await {
                let end = torn_down(&message).filter(|_| listens);
                for message in [Some(message), end].into_iter().flatten() {
                    let Some(text) = printer.print(&message, frame) else { continue };
                    if outgoing.send(text).await.is_err() {
                        cancel.cancel(); // the client is gone
                        return;
                    }
                }
            }
        });
        Ok(())
    }

    /// Whose request it is: its own description if it has one, else the session's client.
    fn caller(&self, request: &Request) -> Result<Arc<Caller>, Refusal> {
        let opener = &self.session.caller;
        let (principal, scope, params) =
            (opener.principal.clone(), opener.scope.clone(), request.params.as_ref());
        if self.is_dual && meta::claimed_version(params).is_some() {
            check_meta(request)?;
            // One client is on the channel, so none of its requests can be asked what is meant for another client.
            let mut caller = Caller::modern(principal, scope, params);
            caller.owner = opener.owner;
            return Ok(Arc::new(caller));
        }
        let mut legacy = self.legacy.write().unwrap_or_else(PoisonError::into_inner);
        if request.method == method::INITIALIZE {
            let mut caller = described(principal, scope, params)?;
            // Its private connections end with the channel, and reach it there.
            (caller.home, caller.mailbox) = (opener.home.clone(), opener.mailbox.clone());
            *legacy = Some(Arc::new(caller));
        }
        match &*legacy {
            Some(caller) => Ok(caller.clone()),
            // Asking for life is allowed before the handshake (2025-11-25, `basic/lifecycle`).
            None if request.method == method::PING => Ok(opener.clone()),
            None => Err(Refusal::NoSession),
        }
    }

    fn notification(self: &Arc<Self>, notice: &Notification) {
        self.session.note(notice);
        if notice.method == method::INITIALIZED {
            let caller = self.legacy.read().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(caller) = caller
                && let Some(feed) = self.gateway.feed(&caller)
                && !self.announcing.swap(true, Ordering::Relaxed)
            {
                let asks = OutsideCalls::of(&self.gateway, &caller, &self.session.questions);
                self.requests.spawn_until_end(announce((feed, asks), self.outgoing.clone(), self.frame));
            }
        }
    }
}

/// What a client is told beside `message`, if that is the result of its `subscriptions/listen`, which only
/// comes when we end the stream.
///
/// `basic/patterns/cancellation` demands this notice where there is no stream of its own to close,
/// `basic/patterns/subscriptions` the result. The result comes first: it says that the end was meant, and
/// then the notice is about a request that is over, which clients ignore; the other way round it would be
/// the result that they ignore, and the end look like a failure.
fn torn_down(message: &Message) -> Option<Message> {
    let Message::Response(Response { id: Some(id), reply: Ok(_) }) = message else { return None };
    let params = Raw::empty_object().with("requestId", id.raw());
    Some(Message::Notification(Notification { method: method::CANCELLED.into(), params: Some(params) }))
}

/// Tells a legacy client what it asked to be told, and asks it what servers ask outside of calls, for as long as
/// somebody reads.
async fn announce((mut feed, mut asks): (Feed, OutsideCalls), outgoing: mpsc::Sender<Bytes>, frame: Frame) {
    loop {
        let message = tokio::select! {
            notice = feed.next() => Message::Notification(notice),
            message = asks.next() => message,
            () = outgoing.closed() => return,
        };
        if outgoing.send(frame(message.encode())).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
