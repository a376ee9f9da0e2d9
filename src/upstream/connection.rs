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

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use super::error::Error;
use crate::protocol::feature::Effect;
use crate::protocol::headers::HeaderParam;
use crate::protocol::lifecycle::Peer;
use crate::protocol::meta::Sender;
use crate::protocol::{Notification, Raw, Reply};

/// Knows how to reach one server.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection, handshake included. The future owns all it needs: who waits for it
    /// may leave. It has no deadline of its own; the pool sets one.
    fn connect(&self, events: Events) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>>;

    /// How many requests one connection carries at a time before the pool opens another.
    /// A child process is shared by all callers: `usize::MAX`.
    fn requests_per_connection(&self) -> usize;
}

/// One live connection to a server, shared by many callers.
pub trait Connection: Send + Sync + 'static {
    /// What the server said of itself.
    fn peer(&self) -> &Peer;

    /// Sends a request and waits for its answer; dropping the future cancels the request.
    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> BoxFuture<'a, Result<Reply, Error>>;

    /// Resolves when the connection is of no more use, with the reason; at once if it is already.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends the connection in the way of its era: DELETE of a session, end of input for a child.
    /// Returns when nothing of it is left.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One request as the layers above want it made.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method name.
    pub method: String,
    /// Parameters with the names the *server* knows; `_meta` is dressed by the transport
    /// ([`crate::protocol::meta::dress`]) because only it knows the era.
    pub params: Option<Raw>,
    /// Whom it is made for.
    pub sender: Sender,
    /// Whether progress is wanted. The transport makes the token; the notices that reach the
    /// outlet carry that token, and whoever reads them puts the client's own back.
    pub wants_progress: bool,
    /// Whether it may be run twice.
    pub effect: Effect,
    /// What modern HTTP mirrors into `Mcp-Param-*`.
    pub header_params: Arc<[HeaderParam]>,
}

impl Call {
    /// A request of our own that changes nothing: lists, discovery, health checks.
    pub fn of_gateway(method: &str, params: Option<Raw>) -> Self {
        Self {
            method: method.to_owned(),
            params,
            sender: Sender::gateway(),
            wants_progress: false,
            effect: Effect::ReadOnly,
            header_params: Arc::new([]),
        }
    }
}

/// Where a call's notifications go while it runs: the sending end of a bounded channel.
///
/// A slow reader loses progress and log lines, and they are counted; the answer itself does not
/// come this way and is never lost.
#[derive(Clone)]
pub struct Outlet(Option<Arc<Open>>);

struct Open {
    sender: mpsc::Sender<Notification>,
    dropped: AtomicU64,
    waiting: Arc<AtomicUsize>,
}

/// Bytes of notifications that may wait for one slow reader.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// The end of an [`Outlet`] that is read.
pub struct Notices {
    receiver: mpsc::Receiver<Notification>,
    waiting: Arc<AtomicUsize>,
}

impl Notices {
    /// The next notification; none when every outlet is gone.
    pub async fn recv(&mut self) -> Option<Notification> {
        let notification = self.receiver.recv().await?;
        self.waiting.fetch_sub(size(&notification), Ordering::Relaxed);
        Some(notification)
    }

    /// The next notification, if one waits.
    pub fn try_recv(&mut self) -> Result<Notification, mpsc::error::TryRecvError> {
        let notification = self.receiver.try_recv()?;
        self.waiting.fetch_sub(size(&notification), Ordering::Relaxed);
        Ok(notification)
    }
}

fn size(notification: &Notification) -> usize {
    notification.params.as_ref().map_or(0, |params| params.bytes().len())
}

impl Outlet {
    /// An outlet and the end to read it from; at most `capacity` notifications wait, and at most
    /// 1 MiB of them.
    pub fn new(capacity: usize) -> (Self, Notices) {
        let (sender, receiver) = mpsc::channel(capacity);
        let waiting = Arc::new(AtomicUsize::new(0));
        let open = Open { sender, dropped: AtomicU64::new(0), waiting: Arc::clone(&waiting) };
        (Self(Some(Arc::new(open))), Notices { receiver, waiting })
    }

    /// An outlet nobody reads: for REST calls and requests of our own.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Hands a notification to the reader, or counts it as dropped.
    pub fn offer(&self, notification: Notification) {
        let Some(open) = &self.0 else { return };
        let size = size(&notification);
        let waiting = open.waiting.fetch_add(size, Ordering::Relaxed) + size;
        // One that is larger than the cap by itself passes when nothing else waits.
        let fits = waiting <= MAX_WAITING_BYTES || waiting == size;
        if !fits || open.sender.try_send(notification).is_err() {
            open.waiting.fetch_sub(size, Ordering::Relaxed);
            open.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many notifications found no room.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |open| open.dropped.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet(open: {}, dropped: {})", self.0.is_some(), self.dropped())
    }
}

/// What a server says that belongs to no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// `notifications/tools/list_changed`.
    ToolsChanged,
}

/// Where a connection reports [`Event`]s. Reporting never waits: a change notice that finds the
/// channel full is covered by the ones already in it.
#[derive(Debug, Clone)]
pub struct Events(mpsc::Sender<Event>);

impl Events {
    /// A channel for events; 16 may wait.
    pub fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }

    /// Reports an event.
    pub fn report(&self, event: Event) {
        // Full means the same notice already waits there; closed means nobody cares any more.
        let _ = self.0.try_send(event);
    }
}
