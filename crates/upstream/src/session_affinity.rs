//! The client that a private connection belongs to: a session, or a principal without sessions.
//!
//! A legacy client has a session, and its private connections end with it. A modern client has none. All requests
//! of its principal that declare the same capabilities have one affinity, because a legacy connection declares
//! capabilities once for all its calls. That affinity ends when it is idle. A server reaches the client of a
//! session outside of calls too: log lines go to the session, and server requests to a stream that the client
//! reads ([`Affinity::lend`]). Invariants: a server request never goes to another client. Each outlet is
//! lent for as long as its [`SenderLoan`] is kept.
//!
//! Not here: the client of a single call ([`super::Owner`]), and the connections (`pool`, `private`).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call_events::{EventSender, Owner};
use json::Raw;
use protocol::{Era, Notification};

/// A client's session, or its principal and capabilities. Clones share its state.
#[derive(Debug, Clone)]
pub struct Affinity {
    kind: AffinityKind,
    /// The view of the servers that its client has, if it has one. The client sees an offer on a private
    /// connection through it.
    view: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
enum AffinityKind {
    Session(Arc<AffinitySession>),
    Principal(Sessionless),
}

/// The clients of one principal that declare the same capabilities.
#[derive(Debug, Clone)]
struct Sessionless {
    principal: Arc<str>,
    /// Hash of the capabilities, which may be as large as a request; `None` for programs without capabilities.
    capabilities: Option<u64>,
    /// Whether they are programs, which use Switchyard's own connections.
    is_program: bool,
    /// Where they can receive server requests, if they have a task of their own.
    event_senders: Option<Arc<ClientSenders>>,
}

struct AffinitySession {
    number: u64,
    ended: CancellationToken,
    client: OnceLock<Weak<dyn ClientSession>>,
    event_senders: Arc<ClientSenders>,
    /// Changes when the client reports new roots.
    roots: watch::Sender<u64>,
    /// Servers whose shared process it called.
    called: Mutex<Vec<u64>>,
}

/// Where a client can receive server requests outside of calls, and how many are open.
#[derive(Debug, Default)]
struct ClientSenders {
    /// The outlets, the newest last.
    lent: Mutex<Vec<BorrowedSender>>,
    /// Changes with each call on a private connection and with each outlet that is lent.
    reachable: watch::Sender<u64>,
    /// Number of server requests outside of calls, and how many of them are open.
    requests: watch::Sender<(u64, usize)>,
}

/// The client session of an affinity, as servers and pools may use it.
pub trait ClientSession: Send + Sync + 'static {
    /// Returns since when it has neither a running request nor an open stream. `None` while it has one.
    fn unused_since(&self) -> Option<Instant>;

    /// Ends it. A later request of its client gets 404.
    fn displace(&self);

    /// Sends its client a notification that belongs to no call.
    fn notice(&self, notice: Notification);
}

/// An outlet on which the client of a session can receive server requests.
#[derive(Debug, Clone)]
pub(super) struct BorrowedSender {
    pub(super) event_sender: EventSender,
    pub(super) owner: Owner,
    /// The capabilities that the client declared.
    pub(super) capabilities: Raw,
    /// Cancelled when the loan of the outlet ends.
    pub(super) over: CancellationToken,
    number: u64,
}

/// Lends an outlet to a session until it is dropped.
pub struct SenderLoan {
    event_senders: Arc<ClientSenders>,
    number: u64,
}

/// An open server request outside of calls. Dropping it counts the request as answered.
pub(super) struct OpenRequest(Arc<ClientSenders>);

impl Affinity {
    /// Begins a session.
    pub fn session() -> Self {
        Self::of(AffinityKind::Session(Arc::new(AffinitySession {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            ended: CancellationToken::new(),
            client: OnceLock::new(),
            event_senders: Arc::default(),
            roots: watch::Sender::new(0),
            called: Mutex::default(),
        })))
    }

    const fn of(kind: AffinityKind) -> Self {
        Self { kind, view: None }
    }

    /// Returns this affinity for a client that sees the servers through `view`.
    #[must_use]
    pub fn through(self, view: Option<Arc<str>>) -> Self {
        Self { view, ..self }
    }

    /// The view of its client.
    pub const fn view(&self) -> Option<&Arc<str>> {
        self.view.as_ref()
    }

    /// Makes the affinity of clients without a session that are authenticated as `principal` and declare
    /// `capabilities`.
    pub fn of_principal(principal: Arc<str>, capabilities: &Raw) -> Self {
        Self::sessionless(principal, Some(capabilities), false)
    }

    /// Makes the affinity of programs of `principal`, such as REST requests, with the `capabilities` of those that answer
    /// server requests. They have private connections only to servers where each principal logs in. Otherwise they use
    /// the shared ones.
    pub fn of_program(principal: Arc<str>, capabilities: Option<&Raw>) -> Self {
        Self::sessionless(principal, capabilities, true)
    }

    fn sessionless(principal: Arc<str>, capabilities: Option<&Raw>, is_program: bool) -> Self {
        let capabilities = capabilities.map(|capabilities| {
            let mut hasher = DefaultHasher::new();
            hasher.write(capabilities.bytes());
            hasher.finish()
        });
        Self::of(AffinityKind::Principal(Sessionless {
            principal,
            capabilities,
            is_program,
            event_senders: None,
        }))
    }

    /// Whether it is that of programs.
    pub const fn is_of_program(&self) -> bool {
        matches!(&self.kind, AffinityKind::Principal(Sessionless { is_program: true, .. }))
    }

    /// The era of its client.
    pub(super) const fn era(&self) -> Era {
        match self.kind {
            AffinityKind::Session(_) => Era::Legacy,
            AffinityKind::Principal(_) => Era::Modern,
        }
    }

    /// Records a call to the shared process of `server`.
    pub(super) fn joins(&self, server: u64) {
        if let Some(mut called) = self.called().filter(|called| !called.contains(&server)) {
            called.push(server);
        }
    }

    /// Forgets the calls to the shared process of `server`, so that it may get a process of its own.
    pub(super) fn leaves(&self, server: u64) {
        if let Some(mut called) = self.called() {
            called.retain(|other| *other != server);
        }
    }

    /// Whether it called the shared process of `server`.
    pub(super) fn stays(&self, server: u64) -> bool {
        self.called().is_some_and(|called| called.contains(&server))
    }

    fn called(&self) -> Option<MutexGuard<'_, Vec<u64>>> {
        // Nothing panics while it is held, and every write leaves a valid list.
        Some(self.of_session()?.called.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns this affinity with a place for outlets.
    pub(super) fn with_senders(&self) -> Self {
        match &self.kind {
            AffinityKind::Principal(clients) if clients.event_senders.is_none() => {
                let clients = Sessionless { event_senders: Some(Arc::default()), ..clients.clone() };
                Self { kind: AffinityKind::Principal(clients), view: self.view.clone() }
            }
            _ => self.clone(),
        }
    }

    /// Ends the session, its private connections, and their calls.
    pub fn end(&self) {
        if let AffinityKind::Session(session) = &self.kind {
            session.ended.cancel();
        }
    }

    /// Resolves when the session has ended. Never resolves for a principal.
    pub async fn ended(&self) {
        match &self.kind {
            AffinityKind::Session(session) => session.ended.cancelled().await,
            AffinityKind::Principal(_) => std::future::pending().await,
        }
    }

    /// Sets the client session of this affinity. A session without one counts as in use.
    pub fn belongs_to<S: ClientSession>(&self, client: &Arc<S>) {
        if let AffinityKind::Session(session) = &self.kind {
            let client: Weak<S> = Arc::downgrade(client);
            let _ = session.client.set(client); // it has one client from its beginning to its end
        }
    }

    /// Lets servers ask the client on `event_sender`, outside of their calls too, until the [`SenderLoan`] is dropped. `None`
    /// for a principal: a modern client is asked in the answers to its requests only.
    pub fn lend(&self, event_sender: &EventSender, owner: Owner, capabilities: &Raw) -> Option<SenderLoan> {
        self.of_session().map(|session| session.event_senders.lend(event_sender, owner, capabilities))
    }

    /// As [`Affinity::lend`], also for a principal, for the time of one call.
    pub(super) fn lend_during_call(
        &self,
        event_sender: &EventSender,
        owner: Owner,
        capabilities: &Raw,
    ) -> Option<SenderLoan> {
        self.event_senders().map(|event_senders| event_senders.lend(event_sender, owner, capabilities))
    }

    /// Records that the client has other roots now.
    pub fn roots_changed(&self) {
        if let AffinityKind::Session(session) = &self.kind {
            session.roots.send_modify(|count| *count += 1);
        }
    }

    /// Returns a count that changes with the client's roots, or `None` for a principal.
    pub(super) fn roots(&self) -> Option<watch::Receiver<u64>> {
        Some(self.of_session()?.roots.subscribe())
    }

    /// Returns since when its client session is unused, or `None` while it is in use.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        self.client()?.unused_since()
    }

    /// Ends its client session.
    pub(super) fn displace(&self) {
        if let Some(client) = self.client() {
            client.displace();
        }
    }

    /// Sends the client a notification that belongs to no call. Returns false if the client cannot be
    /// reached.
    pub fn notify(&self, notice: Notification) -> bool {
        let client = self.client();
        client.inspect(|client| client.notice(notice)).is_some()
    }

    /// Returns where the client can receive server requests now.
    pub(super) fn reached(&self) -> Option<BorrowedSender> {
        self.event_senders()?.lent().last().cloned()
    }

    /// Counts a server request outside of calls as open, even if its client can answer only later.
    pub(super) fn open_request(&self) -> Option<OpenRequest> {
        let event_senders = self.event_senders()?;
        event_senders.requests.send_modify(|(all, open)| (*all, *open) = (*all + 1, *open + 1));
        Some(OpenRequest(Arc::clone(event_senders)))
    }

    /// Returns a count that changes when the client may have become reachable, or `None` for a principal
    /// without a task of their own.
    pub(super) fn reachable(&self) -> Option<&watch::Sender<u64>> {
        self.event_senders().map(|event_senders| &event_senders.reachable)
    }

    /// Returns the number of server requests outside of calls, and how many are open. Returns `None` for a
    /// principal without a task of their own.
    pub(super) fn requests(&self) -> Option<watch::Receiver<(u64, usize)>> {
        Some(self.event_senders()?.requests.subscribe())
    }

    fn event_senders(&self) -> Option<&Arc<ClientSenders>> {
        match &self.kind {
            AffinityKind::Session(session) => Some(&session.event_senders),
            AffinityKind::Principal(clients) => clients.event_senders.as_ref(),
        }
    }

    fn of_session(&self) -> Option<&Arc<AffinitySession>> {
        if let AffinityKind::Session(session) = &self.kind { Some(session) } else { None }
    }

    fn client(&self) -> Option<Arc<dyn ClientSession>> {
        self.of_session()?.client.get()?.upgrade()
    }

    /// Whether the session has ended. It is never true for a principal.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.kind, AffinityKind::Session(session) if session.ended.is_cancelled())
    }

    /// Whether it ends after an idle time, because no other event marks its end.
    pub(super) const fn ends_when_idle(&self) -> bool {
        matches!(self.kind, AffinityKind::Principal(_))
    }
}

/// Number of sessions so far.
static LAST: AtomicU64 = AtomicU64::new(0);

impl ClientSenders {
    fn lend(self: &Arc<Self>, event_sender: &EventSender, owner: Owner, capabilities: &Raw) -> SenderLoan {
        static LAST_LOAN: AtomicU64 = AtomicU64::new(0);
        let number = LAST_LOAN.fetch_add(1, Ordering::Relaxed);
        let (event_sender, capabilities, over) =
            (event_sender.clone(), capabilities.clone(), CancellationToken::new());
        self.lent().push(BorrowedSender { event_sender, owner, capabilities, over, number });
        self.reachable.send_modify(|count| *count += 1);
        SenderLoan { event_senders: Arc::clone(self), number }
    }

    fn lent(&self) -> MutexGuard<'_, Vec<BorrowedSender>> {
        // Nothing panics while the lock is held, and every write leaves a valid list.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SenderLoan {
    fn drop(&mut self) {
        let mut lent = self.event_senders.lent();
        if let Some(at) = lent.iter().position(|lent| lent.number == self.number) {
            lent.remove(at).over.cancel();
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.requests.send_modify(|(_, open)| *open -= 1);
    }
}

impl fmt::Debug for AffinitySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.number)
    }
}

impl PartialEq for Affinity {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.kind, &other.kind) {
            (AffinityKind::Session(one), AffinityKind::Session(two)) => one.number == two.number,
            (AffinityKind::Principal(one), AffinityKind::Principal(two)) => {
                (one.is_program, one.capabilities) == (two.is_program, two.capabilities)
                    && one.principal == two.principal
            }
            _ => false,
        };
        is_same && self.view == other.view
    }
}

impl Eq for Affinity {}

impl Hash for Affinity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.kind {
            AffinityKind::Session(session) => session.number.hash(state),
            AffinityKind::Principal(clients) => (&clients.principal, clients.capabilities).hash(state),
        }
    }
}
