//! The seam between what one call needs and how a transport does it.
//!
//! Everything above (pool, breaker, retry, discovery) knows only these traits, so a new transport
//! touches `transport/` and a test needs no socket. Invariants every transport keeps:
//!
//! - dropping the future of [`Connection::request`] cancels the request: the server is told in the
//!   way of its era, and nothing of it stays behind in a map;
//! - `request` never retries and never outlives the connection: when it closes, every open request
//!   ends with [`Error::Lost`] (or [`Error::NotSent`]); one that went out of use by itself, because
//!   its server forgot it or changed, takes nothing new and lets what is open finish;
//! - what the server says during a call goes into the call's [`Outlet`], in order, and never blocks
//!   the reader of another call.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

pub use super::dialect::Dialect;
pub use crate::call_events::{Answer, CallEvent, Hold, Inlet, Outlet, Question};
pub use net::http::Sockets;

use super::discover::Offer;
use super::error::Error;
use crate::liveness::Silence;
use crate::response_stream::ResponseBody;
use crate::session_affinity::Home;
use json::Raw;
use json::envelope_stream::Terms;
use oauth::Logins;
use protocol::feature::{Effect, List};
use protocol::headers::HeaderParam;
use protocol::lifecycle::Peer;
use protocol::meta::Sender;
use protocol::{Abilities, Era, Method, Notification, Version};
use runtime::memory::Payer;

/// Knows how to reach one server.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection, handshake included. The future owns all it needs: who waits for it
    /// may leave. It has no deadline of its own; the pool sets one.
    ///
    /// It is spoken as `dialect` says where the server does; the connection's peer tells what came of
    /// it. A server that refuses the era for good is spoken to in the other one, here or by the next
    /// connect, which [`Connector::speaks`] tells.
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>>;

    /// Whether the server speaks `era`; none while that is unknown. Asked on every call.
    fn speaks(&self, era: Era) -> Option<bool>;

    /// Whether a connection that is for all clients serves those of both eras, in the newest era of the server.
    /// So it is where each connection is a process with a state of its own.
    fn is_one_for_both_eras(&self) -> bool {
        false
    }

    /// What a legacy connection declares for callers with `abilities`: the same, unless one
    /// connection is for all of them.
    fn declares(&self, abilities: Abilities) -> Abilities {
        abilities
    }

    /// The server was away: what was learnt of it may not be true any more.
    fn forget(&self) {}

    /// A remark for operators if the server was not reached as configured.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Resolves when it has another credential than the one that the server refused; never where none
    /// comes by itself.
    fn renewed(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// The logins to the server, if it needs one.
    fn logins(&self) -> Option<Arc<Logins>> {
        None
    }

    /// The offer of the server, where it is known before the server was reached.
    fn declared(&self) -> Option<Offer> {
        None
    }

    /// How many requests one connection carries at a time before the pool opens another.
    /// A child process is shared by all callers: `usize::MAX`.
    fn requests_per_connection(&self) -> usize;

    /// The sockets that all its connections use together; none where there are none.
    fn sockets(&self) -> Option<Sockets> {
        None
    }
}

/// The response of a server to one request, or why there is none.
pub type RequestFuture<'a> = BoxFuture<'a, Result<ResponseBody, Error>>;

/// One live connection to a server, shared by many callers.
pub trait Connection: Send + Sync + 'static {
    /// What the server said of itself.
    fn peer(&self) -> &Peer;

    /// Sends a request and waits for its response. A large result may still be arriving, if the call has terms for
    /// that. Dropping the future cancels the request.
    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> RequestFuture<'a>;

    /// Whether what the server asks says which call it belongs to. Where it does not, calls of one
    /// owner at a time are made on a connection that [`Connection::asks`].
    fn tells_whose(&self) -> bool {
        true
    }

    /// Whether the server was seen asking something without saying whose it is.
    fn asks(&self) -> bool {
        false
    }

    /// Cancelled calls of other owners than `owner` for which the server may still send requests. None where
    /// each of its requests says which call it belongs to. Asked on every call.
    fn unanswered(&self, _owner: Owner) -> Option<Unanswered> {
        None
    }

    /// Passes on a notification of the client that the connection is for. Only legacy servers hear any.
    fn tell<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        let _ = notification;
        Box::pin(std::future::ready(()))
    }

    /// Resolves when the connection is of no more use, with the reason; at once if it is already.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends the connection in the way of its era: DELETE of a session, end of input for a child.
    /// Returns when nothing of it is left.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Cancelled calls that have no answer.
#[derive(Debug)]
pub struct Unanswered {
    /// When their answers are not waited for any more.
    pub until: Instant,
    /// Whether the server answered many calls on the connection and never sent a request.
    pub is_quiet: bool,
    /// Changes with each late answer.
    pub answers: watch::Receiver<()>,
}

impl Unanswered {
    /// Whether their answers are not waited for any more.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Resolves when one of them was answered, or none is waited for any more.
    pub(super) async fn settled(&mut self) {
        let _ = timeout_at(self.until, self.answers.changed()).await;
    }
}

/// One request as the layers above want it made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method name.
    pub method: Method,
    /// Parameters with the names the *server* knows; `_meta` is dressed by the transport
    /// ([`protocol::meta::dress`]) because only it knows the era.
    pub params: Option<Raw>,
    /// Whom it is made for.
    pub sender: Sender,
    /// The era of that client. A server that speaks both is spoken to in this one, because then
    /// nothing has to be translated. Requests of our own and programs prefer the modern one.
    pub era: Era,
    /// Whether progress is wanted. The transport makes the token; the notices that reach the
    /// outlet carry that token, and whoever reads them puts the client's own back.
    pub wants_progress: bool,
    /// Whether it may be run twice.
    pub effect: Effect,
    /// What modern HTTP mirrors into `Mcp-Param-*`.
    pub header_params: Arc<[HeaderParam]>,
    /// Whose it is. Calls of one owner go to one client, so on a shared channel what cannot be tied
    /// to a call can still be tied to them.
    pub owner: Owner,
    /// Where its client's private connections belong, for servers that have such; none for programs.
    pub home: Option<Home>,
    /// On whose behalf it is made, so that those who share a server have some of it each; none for
    /// programs. The server is not told.
    pub principal: Option<Arc<str>>,
    /// Terms under which its result may be passed on while it arrives. Without terms the response is buffered.
    pub terms: Option<Terms>,
}

/// Whose a call is: one legacy session, one modern request, or the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// The gateway: lists, discovery, health checks. It is never asked anything.
    pub const GATEWAY: Self = Self(0);

    /// One that nobody else is.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl Call {
    /// A request of our own that changes nothing: lists, discovery, health checks.
    pub fn of_gateway(method: &str, params: Option<Raw>) -> Self {
        Self {
            method: method.into(),
            params,
            sender: Sender::gateway(),
            era: Era::Modern,
            wants_progress: false,
            effect: Effect::ReadOnly,
            header_params: Arc::new([]),
            owner: Owner::GATEWAY,
            home: None,
            principal: None,
            terms: None,
        }
    }
}

impl Call {
    /// The payer for its bytes: `server` where it has no principal.
    pub(super) const fn payer<'a>(&'a self, server: &'a Arc<str>) -> Payer<'a> {
        Payer { principal: self.principal.as_ref(), server }
    }
}

/// The response of a server, and its revision.
#[derive(Debug)]
pub struct Answered {
    /// The response.
    pub body: ResponseBody,
    /// The revision of the connection that it came over.
    pub version: Version,
}

/// What a server says that belongs to no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It said that one of its lists is another one.
    Changed(List),
    /// Nobody listened for a while: every list and every resource may have changed unseen.
    Missed,
    /// It asked a client for its roots.
    AsksRoots,
    /// Something for whoever asked for it: a resource was updated, a task went on, a page that a
    /// user was sent to was visited.
    Notice(Notification),
}

/// Where a connection reports [`Event`]s. Reporting never waits: a change notice that finds the
/// channel full is covered by the ones already in it, and other notices are hints, not facts.
#[derive(Debug, Clone)]
pub struct Events {
    channel: mpsc::Sender<Event>,
    silence: Arc<Silence>,
}

impl Events {
    /// A channel for events; 256 may wait.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        Self::that_break(Arc::default())
    }

    /// The same of a server whose silence ends with whatever is heard of it.
    pub(super) fn that_break(silence: Arc<Silence>) -> (Self, mpsc::Receiver<Event>) {
        let (channel, receiver) = mpsc::channel(256);
        (Self { channel, silence }, receiver)
    }

    /// Reports an event.
    pub fn report(&self, event: Event) {
        // Closed means nobody cares any more.
        let _ = self.channel.try_send(event);
    }

    /// Something was heard of the server, whatever it was. Answers need not be told here.
    pub(super) fn heard(&self) {
        self.silence.broken();
    }
}
