//! Where the private connections of a client belong, for servers with `sharing: per_session`.
//!
//! A legacy client has a session, and its private connections end with it. A modern one has none, so
//! its principal has one for all its requests, which ends when it is idle.
//!
//! Not here: whose a single call is ([`super::Owner`]).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A client's session, or its principal. Clones are the same.
#[derive(Debug, Clone)]
pub struct Home(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Session(Arc<Session>),
    Principal(Arc<str>),
}

struct Session {
    number: u64,
    ended: CancellationToken,
    client: OnceLock<Weak<dyn ClientSession>>,
}

/// The client session behind a private connection, as the pool sees it when another session needs the slot.
pub trait ClientSession: Send + Sync + 'static {
    /// Since when it has neither a running request nor an open stream; `None` while it has one.
    fn unused_since(&self) -> Option<Instant>;

    /// Ends it. Its client is answered 404 when it comes back.
    fn displace(&self);
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({})", self.number)
    }
}

impl Home {
    /// A session that begins now.
    pub fn session() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (ended, client) = (CancellationToken::new(), OnceLock::new());
        Self(Kind::Session(Arc::new(Session { number, ended, client })))
    }

    /// Whoever is authenticated as `principal`.
    pub const fn of_principal(principal: Arc<str>) -> Self {
        Self(Kind::Principal(principal))
    }

    /// The session is over: its private connections end, and what runs on them.
    pub fn end(&self) {
        if let Kind::Session(session) = &self.0 {
            session.ended.cancel();
        }
    }

    /// Resolves when the session is over; never for a principal.
    pub async fn ended(&self) {
        match &self.0 {
            Kind::Session(session) => session.ended.cancelled().await,
            Kind::Principal(_) => std::future::pending().await,
        }
    }

    /// Names the client session that it belongs to. A session without one counts as in use.
    pub fn belongs_to<S: ClientSession>(&self, client: &Arc<S>) {
        if let Kind::Session(session) = &self.0 {
            let client: Weak<S> = Arc::downgrade(client);
            let _ = session.client.set(client); // it has one client from its beginning to its end
        }
    }

    /// Since when its client session is unused; `None` while it is in use.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        self.client()?.unused_since()
    }

    /// Ends its client session.
    pub(super) fn displace(&self) {
        if let Some(client) = self.client() {
            client.displace();
        }
    }

    fn client(&self) -> Option<Arc<dyn ClientSession>> {
        let Kind::Session(session) = &self.0 else { return None };
        session.client.get()?.upgrade()
    }

    /// Whether the session is over; never for a principal.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.0, Kind::Session(session) if session.ended.is_cancelled())
    }

    /// Whether it ends by itself when nobody uses it, because nothing else tells its end.
    pub(super) const fn ends_when_idle(&self) -> bool {
        matches!(self.0, Kind::Principal(_))
    }
}

impl PartialEq for Home {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Session(one), Kind::Session(two)) => one.number == two.number,
            (Kind::Principal(one), Kind::Principal(two)) => one == two,
            _ => false,
        }
    }
}

impl Eq for Home {}
