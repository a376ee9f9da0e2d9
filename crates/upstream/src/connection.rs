//! The interface between the call path and the transports.
//!
//! The layers above (pool, breaker, retry, discovery) use only these traits, so a new transport changes only
//! `transport/`, and a test needs no socket. Every transport keeps these invariants:
//!
//! - Dropping the future of [`Connection::request`] cancels the request. The server is notified in the way of
//!   its era, and no map keeps an entry of the request.
//! - `request` never retries and never outlives the connection. When the connection closes, every open
//!   request ends with [`Error::Lost`] or [`Error::NotSent`].
//! - A connection retires by itself if its server forgot it or has changed. It then accepts no new requests
//!   and lets the open ones finish.
//! - Messages of the server during a call go into the [`EventSender`] of the call, in order, and never block the
//!   reader of another call.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::liveness::Liveness;
use super::offer::Offer;
use super::principal_secrets::PrincipalSecrets;
use super::response_stream::ResponseBody;
use super::state_signs::{StateSign, StateSigns};
use oauth::Logins;
use protocol::feature::List;
use protocol::lifecycle::Peer;
use protocol::{Abilities, Era, Notification, Reply, Version};
use runtime::shutdown::Shutdown;
use runtime::store::Store;

pub use super::call::Call;
pub use super::call_events::{Answer, CallEvent, EventReceiver, EventSender, Hold, Owner, Question};
pub use super::dialect::Dialect;
pub use net::http::Sockets;

/// A child process that is starting.
#[derive(Debug, Clone)]
pub struct Starting {
    /// When its start began.
    pub since: Instant,
    /// Its last line on standard error, without secrets.
    pub last_line: Option<String>,
}

/// Knows how to reach one server.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection, handshake included. The future owns all it needs, so a waiting caller may leave.
    /// It has no deadline of its own, because the pool sets one.
    ///
    /// The connection uses `dialect` if the server speaks it. The peer of the connection has the actual
    /// dialect. If the server refuses the era permanently, the other one is used, either here or at the next
    /// connect. [`Connector::speaks`] tells which era is known to work.
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>>;

    /// Whether the server speaks `era`, or none while that is unknown. This is read on every call.
    fn speaks(&self, era: Era) -> Option<bool>;

    /// Whether the server gives each connection in `era` a session, whose state belongs to one client.
    fn has_sessions(&self, era: Era) -> bool {
        let _ = era;
        false
    }

    /// Whether each connection is a process with its own state.
    fn is_a_process(&self) -> bool {
        false
    }

    /// Returns the abilities that a legacy connection declares for callers with `abilities`. They are equal
    /// unless all callers share one connection.
    fn declares(&self, abilities: Abilities) -> Abilities {
        abilities
    }

    /// Forgets facts about the server that may have changed while it was unavailable.
    fn forget(&self) {}

    /// Returns a note for operators if the server was not reached as configured.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Resolves when the credential that the server refused was replaced. If no replacement can arrive by
    /// itself, it never resolves.
    fn renewed(&self) -> BoxFuture<'_, ()> {
        Box::pin(pending())
    }

    /// The logins to the server, if it needs one.
    fn logins(&self) -> Option<Arc<Logins>> {
        None
    }

    /// The secrets of principals in its headers, if it has any.
    fn principal_secrets(&self) -> Option<Arc<PrincipalSecrets>> {
        None
    }

    /// The start of the process that is under way, if a connection is a process.
    fn starting(&self) -> Option<watch::Receiver<Option<Starting>>> {
        None
    }

    /// The last lines on standard error of the last process that wrote any, without secrets, if a connection is a process.
    fn stderr(&self) -> Option<Vec<String>> {
        None
    }

    /// The offer of the server, where it is known before the server was reached.
    fn declared(&self) -> Option<Offer> {
        None
    }

    /// Returns how many requests one connection carries at a time before the pool opens another. A child
    /// process is shared by all callers and returns `usize::MAX`.
    fn requests_per_connection(&self) -> usize;

    /// Returns the sockets that all its connections share, if they use any.
    fn sockets(&self) -> Option<Sockets> {
        None
    }
}

/// The response of a server to one request, or why there is none.
pub type RequestFuture<'a> = BoxFuture<'a, Result<ResponseBody, Error>>;

/// One live connection to a server, shared by many callers.
pub trait Connection: Send + Sync + 'static {
    /// Returns the description that the server gave of itself.
    fn peer(&self) -> &Peer;

    /// Sends a request and waits for its response. A large result may still be arriving, if the call has terms for
    /// that. Dropping the future cancels the request.
    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a>;

    /// Passes on a notification of the client that owns the connection. Only legacy servers receive any.
    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        let _ = notification;
        Box::pin(std::future::ready(()))
    }

    /// Its open server requests, if it can have any.
    fn server_requests(&self) -> Option<&dyn ServerRequests> {
        None
    }

    /// Whether the connection closed because the server forgot its session. The server itself is well.
    fn has_lost_session(&self) -> bool {
        false
    }

    /// Resolves with the reason when the connection can no longer be used.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends the connection in the way of its transport: DELETE of a session, or end of input for a child
    /// process. Returns when the connection has ended completely.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// How long most servers wait for an answer. So long a request on a private connection waits for a call, and a request
/// that nobody answers holds its place while others wait.
pub const ANSWER_LIMIT: Duration = Duration::from_mins(1);

/// The open server requests of one connection.
pub trait ServerRequests {
    /// Since when the oldest one that gives way to others is open: nobody answered it for as long as most servers wait.
    fn unanswered_since(&self) -> Option<Instant>;

    /// Refuses that one.
    fn end_unanswered(&self);
}

/// The response of a server, and its revision. The body is a [`ResponseBody`], or the [`Reply`] that was collected from it.
#[derive(Debug, Clone)]
pub struct ServerResponse<Body = ResponseBody> {
    /// The response.
    pub body: Body,
    /// The revision of the connection that it came over.
    pub version: Version,
}

impl ServerResponse {
    /// Waits for the rest of the response.
    pub async fn collect(self) -> Result<ServerResponse<Reply>, Error> {
        Ok(ServerResponse { body: self.body.collect().await?, version: self.version })
    }
}

/// A message or report of a server that belongs to no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The server reported that one of its lists has changed.
    Changed(List),
    /// No subscription was active for a while, so every list and every resource may have changed.
    Missed,
    /// The server showed that it keeps state for each client.
    KeepsState(StateSign),
    /// A notification for its subscribers. For example, a resource was updated, a task progressed, or a user
    /// visited a page.
    Notice(Notification),
}

/// Where a connection reports [`Event`]s. Reporting never waits. If the channel is full, the reports in it
/// already cover a new change of a list, and other notifications are only hints.
#[derive(Debug, Clone)]
pub struct Events {
    channel: mpsc::Sender<Event>,
    liveness: Arc<Liveness>,
    signs: Arc<StateSigns>,
    /// How many changes of lists were reported.
    changes: Arc<AtomicU64>,
}

impl Events {
    /// A channel for events; 256 may wait.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        Self::of_server(Arc::default(), Arc::default())
    }

    /// Makes a channel for a server, whose events also end `liveness`.
    pub(super) fn of_server(
        liveness: Arc<Liveness>,
        signs: Arc<StateSigns>,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (channel, receiver) = mpsc::channel(256);
        (Self { channel, liveness, signs, changes: Arc::default() }, receiver)
    }

    /// The signs that the server keeps state for each client.
    pub(super) const fn signs(&self) -> &Arc<StateSigns> {
        &self.signs
    }

    /// Reports such a sign. It counts for the next call.
    pub(super) fn shows(&self, sign: StateSign) {
        if !self.signs.has(sign) {
            self.signs.record(sign);
            self.report(Event::KeepsState(sign));
        }
    }

    /// Reports an event.
    pub fn report(&self, event: Event) {
        if matches!(event, Event::Changed(_)) {
            self.changes.fetch_add(1, Ordering::Release);
        }
        // A closed channel has no receiver that needs the event.
        let _ = self.channel.try_send(event);
    }

    /// Returns how many changes of lists were reported.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records that the server sent something. Answers need not be reported here.
    pub(super) fn heard(&self) {
        self.liveness.broken();
    }
}

/// The close state that all parts of one connection share. Only the first reason is kept.
#[derive(Debug, Clone, Default)]
pub struct Closing(Arc<CloseState>);

#[derive(Debug, Default)]
struct CloseState {
    reason: OnceLock<String>,
    token: CancellationToken,
}

impl Closing {
    /// Closes the connection with a reason.
    pub fn close(&self, reason: impl Into<String>) {
        // A second reason is a consequence of the first.
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// The reason, once there is one.
    pub fn reason(&self) -> String {
        self.0.reason.get().cloned().unwrap_or_default()
    }

    /// Resolves with the reason when the connection is closed.
    pub async fn wait(&self) -> String {
        self.0.token.cancelled().await;
        self.reason()
    }
}

/// Shared state of the program that servers use.
#[derive(Clone)]
pub struct ServerContext {
    /// The group of all their tasks.
    pub shutdown: Shutdown,
    /// The cache that all servers share.
    pub store: Store,
    /// Whether servers are only inspected. A built-in server then resumes no earlier work and stores nothing.
    pub is_inspection: bool,
    /// The vault for tokens; without one they end with the process.
    pub vault: Option<Arc<auth::vault::Vault>>,
    /// The way to the services of a server, which [`super::transport::connector`] sets for each.
    pub network: net::http::Network,
    /// The issuers that credentials of servers belong to.
    pub issuers: oauth::KnownIssuers,
}

#[cfg(any(test, feature = "testing"))]
impl ServerContext {
    /// Those of a server in a test: a cache of its own, and no vault.
    pub fn alone(shutdown: &Shutdown) -> Self {
        let store = Store::open(&runtime::store::Config::default());
        Self {
            shutdown: shutdown.clone(),
            store,
            is_inspection: false,
            vault: None,
            issuers: oauth::KnownIssuers::default(),
            network: net::http::Network::default(),
        }
    }
}
