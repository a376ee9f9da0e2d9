//! The connections of one dialect.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lease::{Lease, Queue};
use super::live::{ConnectionClaim, Live, PooledConnection};
use super::replacement::Replacement;
use crate::connection::{Connection, Owner};
use crate::dialect::{Dialect, Key, Private};
use crate::error::Error;
use crate::flap_backoff::FlapBackoff;
use crate::liveness::Liveness;
use crate::verbosity::Verbosity;

/// How long an unused dialect keeps its connections, unless it is the base dialect.
pub(super) const IDLE_LIMIT: Duration = Duration::from_mins(5);

/// A pending connect; `None` until it is done.
pub(super) type Connecting = watch::Receiver<Option<Result<Arc<Live>, Error>>>;

/// Result of the pending connect; `None` if it was dropped midway. Never resolves if no connect is pending.
pub(super) async fn connected(connecting: Option<Connecting>) -> Option<Result<Arc<Live>, Error>> {
    match connecting {
        Some(mut connecting) => connecting.wait_for(Option::is_some).await.ok().and_then(|done| done.clone()),
        None => pending().await,
    }
}

/// The connections of one dialect.
pub(super) struct Group {
    pub key: Key,
    pub live: Vec<Arc<Live>>,
    pub connecting: Option<Connecting>,
    pub no_extra_before: Option<Instant>,
    pub flap_backoff: FlapBackoff,
    pub queue: Queue,
    /// The client of a private group.
    pub private: Option<Private>,
    /// The principal for which it was made.
    pub principal: Option<Arc<str>>,
    /// Ends the task that waits for the idle limit. There is one such task, while the group exists.
    pub tended: Option<DropGuard>,
    /// Whether the server was seen sending requests that do not name a call.
    asks: bool,
    /// Whether the last failure counted against the server. Used only if the group is private.
    is_blamed: Arc<AtomicBool>,
    pub replacement: Replacement,
    used: Instant,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.queue.wake_all();
    }
}

impl Group {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            live: Vec::new(),
            connecting: None,
            no_extra_before: None,
            flap_backoff: FlapBackoff::default(),
            queue: Queue::default(),
            private: None,
            principal: None,
            tended: None,
            asks: false,
            is_blamed: Arc::default(),
            replacement: Replacement::default(),
            used: Instant::now(),
        }
    }

    /// The dialect for connecting.
    pub(super) fn dialect(&self) -> Dialect {
        Dialect { principal: self.principal.clone(), ..self.key.dialect(self.private.as_ref()) }
    }

    /// Adds a connection to the group.
    pub(super) fn admit(&mut self, connection: Arc<dyn Connection>) -> Arc<Live> {
        let lease = (!connection.attributes_requests()).then(|| Lease::new(&self.queue));
        let (retired, replaced) = (CancellationToken::new(), CancellationToken::new());
        let is_blamed = Arc::clone(&self.is_blamed);
        let (key, since, verbosity) = (self.key, Instant::now(), Verbosity::default());
        let liveness = self.private.as_ref().map(|_| Liveness::default());
        let live = Arc::new(Live {
            connection,
            key,
            since,
            requests: AtomicUsize::new(0),
            verbosity,
            lease,
            liveness,
            is_blamed,
            retired,
            replaced,
        });
        self.live.push(Arc::clone(&live));
        live
    }

    /// Returns a share of the connection with the fewest requests that is free for the owner.
    pub(super) fn seat(&mut self, claim: ConnectionClaim<'_>) -> Option<PooledConnection> {
        let least = self.live.iter().min_by_key(|live| live.requests.load(Ordering::Relaxed))?;
        match claim.owner {
            Some(owner) if least.lease.is_some() => self.leased(owner, claim),
            _ => PooledConnection::on(least, claim, false),
        }
    }

    fn leased(&mut self, owner: Owner, claim: ConnectionClaim<'_>) -> Option<PooledConnection> {
        let exclusive = self.asks();
        if let [only] = self.live.as_slice() {
            return if self.blocks(only, claim) {
                None
            } else {
                PooledConnection::on(only, claim, exclusive)
            };
        }
        let mut free: Vec<&Arc<Live>> = self.live.iter().filter(|live| !self.blocks(live, claim)).collect();
        let elsewhere = |live: &Arc<Live>| live.lease.as_ref().is_none_or(|lease| !lease.is_held_by(owner));
        // Calls of one owner share a connection, so that others find a free one.
        free.sort_by_key(|live| (exclusive && elsewhere(live), live.requests.load(Ordering::Relaxed)));
        free.into_iter().find_map(|live| PooledConnection::on(live, claim, exclusive))
    }

    /// The end of the shortest head start of others over `owner`, on a connection that no owner holds.
    pub(super) fn head_start_of(&self, owner: Owner) -> Option<Instant> {
        self.live.iter().filter_map(|live| live.lease.as_ref()?.head_start_of(owner)).min()
    }

    /// Whether its connections are leased to one owner at a time.
    pub(super) fn asks(&mut self) -> bool {
        self.asks = self.asks || self.live.iter().any(|live| live.connection.asks());
        self.asks
    }

    /// Whether the server was seen sending requests, as of the last check.
    pub(super) const fn is_known_to_ask(&self) -> bool {
        self.asks
    }

    /// Whether another connection is allowed. A client has one private connection.
    pub(super) fn has_room(&self, most: usize) -> bool {
        let most = if self.private.is_some() { 1 } else { most };
        self.live.len() < most
            && self.connecting.is_none()
            && self.no_extra_before.is_none_or(|before| Instant::now() >= before)
    }

    /// Records a use of the group.
    pub(super) fn touch(&mut self) {
        self.used = Instant::now();
    }

    pub(super) const fn used(&self) -> Instant {
        self.used
    }

    /// Whether it is kept for a session that has not ended.
    pub(super) fn belongs_to_session(&self) -> bool {
        let affinity = self.private.as_ref().map(|private| &private.affinity);
        affinity.is_some_and(|affinity| !affinity.ends_when_idle() && !affinity.is_over()) && !self.is_empty()
    }

    /// Whether it has no connection, and no early losses that delay the next one.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.connecting.is_none() && self.flap_backoff.is_clean()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.connecting.is_some() || self.live.iter().any(|live| live.requests.load(Ordering::Relaxed) > 0)
    }

    /// Ends its connections.
    pub(super) fn retire(&mut self) {
        self.live.drain(..).chain(self.replacement.outgoing()).for_each(|live| live.retired.cancel());
    }
}
