//! The connections of one dialect.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::live::{Live, PooledConnection};
use crate::connection::Connection;
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
    /// The client of a private group.
    pub private: Option<Private>,
    /// The principal for which it was made.
    pub principal: Option<Arc<str>>,
    /// Ends the task that waits for the idle limit. There is one such task, while the group exists.
    pub tended: Option<DropGuard>,
    /// Whether the last failure counted against the server. Used only if the group is private.
    is_blamed: Arc<AtomicBool>,
    used: Instant,
}

impl Group {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            live: Vec::new(),
            connecting: None,
            no_extra_before: None,
            flap_backoff: FlapBackoff::default(),
            private: None,
            principal: None,
            tended: None,
            is_blamed: Arc::default(),
            used: Instant::now(),
        }
    }

    /// The dialect for connecting.
    pub(super) fn dialect(&self) -> Dialect {
        Dialect { principal: self.principal.clone(), ..self.key.dialect(self.private.as_ref()) }
    }

    /// Adds a connection to the group.
    pub(super) fn admit(&mut self, connection: Arc<dyn Connection>) -> Arc<Live> {
        let retired = CancellationToken::new();
        let is_blamed = Arc::clone(&self.is_blamed);
        let (key, since, verbosity) = (self.key, Instant::now(), Verbosity::default());
        let liveness = self.private.as_ref().map(|_| Liveness::default());
        let live = Arc::new(Live {
            connection,
            key,
            since,
            requests: AtomicUsize::new(0),
            verbosity,
            liveness,
            is_blamed,
            retired,
        });
        self.live.push(Arc::clone(&live));
        live
    }

    /// Returns a share of the connection with the fewest requests.
    pub(super) fn acquire(&self) -> Option<PooledConnection> {
        let least = self.live.iter().min_by_key(|live| live.requests.load(Ordering::Relaxed))?;
        Some(PooledConnection::on(least))
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

    /// Since when the oldest server request on its connections is open that gives way to others.
    pub(super) fn unanswered_since(&self) -> Option<Instant> {
        self.live.iter().filter_map(|live| live.connection.server_requests()?.unanswered_since()).min()
    }

    /// Ends its connections.
    pub(super) fn retire(&mut self) {
        self.live.drain(..).for_each(|live| live.retired.cancel());
    }
}
