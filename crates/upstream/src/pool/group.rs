//! The connections of one dialect.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::lease::{Lease, Queue};
use super::private::Stay;
use super::replace::Replacement;
use crate::connection::{Connection, Owner};
use crate::dialect::{Dialect, Key, Private};
use crate::error::Error;
use crate::flap_backoff::Stamina;
use crate::liveness::Silence;
use crate::verbosity::Verbosity;
use json::Raw;
use protocol::LogLevel;

/// How long a dialect that nobody uses keeps its connections, unless it is the base one.
pub(super) const IDLE_LIMIT: Duration = Duration::from_mins(5);

/// A connect under way; `None` until it is done.
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
    pub stamina: Stamina,
    pub queue: Queue,
    /// Whose it is, if it is private.
    pub private: Option<Private>,
    /// On whose behalf it was made.
    pub principal: Option<Arc<str>>,
    /// Ends the task that waits for the time to end it: there is one, and only while it is there.
    pub tended: Option<DropGuard>,
    /// Whether the server was seen asking without saying whom.
    asks: bool,
    /// Whether the last failure on any of its connections was held against the server: only where it is private.
    is_blamed: Arc<AtomicBool>,
    pub replacement: Replacement,
    used: Instant,
}

/// One connection.
pub(super) struct Live {
    pub connection: Arc<dyn Connection>,
    /// The dialect it turned out to speak.
    pub key: Key,
    pub since: Instant,
    pub requests: AtomicUsize,
    pub verbosity: Verbosity,
    /// Only where the connection does not tell whose a question is.
    pub lease: Option<Lease>,
    /// Only where it is private: health checks tell of the others.
    pub silence: Option<Silence>,
    /// That of its group.
    pub is_blamed: Arc<AtomicBool>,
    /// Asks for its end.
    pub retired: CancellationToken,
    /// It takes no new calls, and ends when those on it are over.
    pub replaced: CancellationToken,
}

/// Who wants a seat.
#[derive(Clone, Copy)]
pub(super) struct Sitter<'a> {
    /// Whose calls stand on the connection; none for our own, which always pass.
    pub owner: Option<Owner>,
    /// Capabilities that its client declared; none for our own.
    pub capabilities: Option<&'a Raw>,
    /// Whether it waited, and its turn has come.
    pub is_woken: bool,
}

/// One request's share of a connection; given back when dropped.
pub(crate) struct PooledConnection {
    live: Arc<Live>,
    /// Who holds the lease.
    holder: Option<Owner>,
    /// Only where the connection is private.
    stay: Option<Stay>,
}

impl PooledConnection {
    /// A seat for `sitter`, if it may sit down.
    pub(super) fn on(live: &Arc<Live>, sitter: Sitter<'_>, exclusive: bool) -> Option<Self> {
        let holder = sitter.owner.filter(|_| live.lease.is_some());
        if let (Some(lease), Some(owner)) = (&live.lease, holder)
            && !lease.take(owner, exclusive, sitter.is_woken)
        {
            return None;
        }
        live.requests.fetch_add(1, Ordering::Relaxed);
        let stay = live.silence.as_ref().map(Stay::begin);
        Some(Self { live: Arc::clone(live), holder, stay })
    }

    /// Notes that the request came to an end that its caller did not make.
    pub(crate) fn answered(&mut self) {
        if let (Some(stay), Some(silence)) = (&mut self.stay, &self.live.silence) {
            stay.answered(silence);
        }
    }

    /// Whether how the request ended is to be held against the server. A private connection is one
    /// client's program: it counts once that it fails, or is started anew and fails, until it answers.
    pub(crate) fn is_news(&self, is_failed: bool) -> bool {
        self.stay.is_none() || !self.live.is_blamed.swap(is_failed, Ordering::Relaxed) || !is_failed
    }

    /// The connection to use.
    pub(crate) fn connection(&self) -> &dyn Connection {
        self.live.connection.as_ref()
    }

    /// Has its server write log lines of `level` and above.
    pub(crate) async fn want_log(&self, level: LogLevel) {
        self.live.verbosity.raise(self.connection(), level).await;
    }

    pub(super) fn requests(&self) -> usize {
        self.live.requests.load(Ordering::Relaxed)
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        self.live.requests.fetch_sub(1, Ordering::Relaxed);
        if let (Some(stay), Some(silence)) = (&self.stay, &self.live.silence) {
            stay.over(silence);
        }
        if let (Some(lease), Some(owner)) = (&self.live.lease, self.holder) {
            lease.release(owner);
        }
    }
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
            stamina: Stamina::default(),
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

    /// How it is connected.
    pub(super) fn dialect(&self) -> Dialect {
        self.key.dialect(self.private.as_ref())
    }

    /// A connection of this dialect.
    pub(super) fn admit(&mut self, connection: Arc<dyn Connection>) -> Arc<Live> {
        let lease = (!connection.tells_whose()).then(|| Lease::new(&self.queue));
        let (retired, replaced) = (CancellationToken::new(), CancellationToken::new());
        let is_blamed = Arc::clone(&self.is_blamed);
        let (key, since, verbosity) = (self.key, Instant::now(), Verbosity::default());
        let silence = self.private.as_ref().map(|_| Silence::default());
        let live = Arc::new(Live {
            connection,
            key,
            since,
            requests: AtomicUsize::new(0),
            verbosity,
            lease,
            silence,
            is_blamed,
            retired,
            replaced,
        });
        self.live.push(Arc::clone(&live));
        live
    }

    /// A seat on the connection with the fewest requests among those that are free for `owner`.
    pub(super) fn seat(&mut self, sitter: Sitter<'_>) -> Option<PooledConnection> {
        let least = self.live.iter().min_by_key(|live| live.requests.load(Ordering::Relaxed))?;
        match sitter.owner {
            Some(owner) if least.lease.is_some() => self.leased(owner, sitter),
            _ => PooledConnection::on(least, sitter, false),
        }
    }

    fn leased(&mut self, owner: Owner, sitter: Sitter<'_>) -> Option<PooledConnection> {
        let exclusive = self.asks();
        if let [only] = self.live.as_slice() {
            return if self.holds_up(only, sitter) {
                None
            } else {
                PooledConnection::on(only, sitter, exclusive)
            };
        }
        let mut free: Vec<&Arc<Live>> =
            self.live.iter().filter(|live| !self.holds_up(live, sitter)).collect();
        let elsewhere = |live: &Arc<Live>| live.lease.as_ref().is_none_or(|lease| !lease.is_held_by(owner));
        // Calls of one owner stay together, so that the others find room.
        free.sort_by_key(|live| (exclusive && elsewhere(live), live.requests.load(Ordering::Relaxed)));
        free.into_iter().find_map(|live| PooledConnection::on(live, sitter, exclusive))
    }

    /// Until when `owner` stays behind others on a connection that nobody holds; the soonest, if so.
    pub(super) fn head_start_of(&self, owner: Owner) -> Option<Instant> {
        self.live.iter().filter_map(|live| live.lease.as_ref()?.head_start_of(owner)).min()
    }

    /// Whether its connections are leased to one owner at a time.
    pub(super) fn asks(&mut self) -> bool {
        self.asks = self.asks || self.live.iter().any(|live| live.connection.asks());
        self.asks
    }

    /// Whether its server was seen asking when that was looked at last.
    pub(super) const fn is_known_to_ask(&self) -> bool {
        self.asks
    }

    /// Whether there may be another connection; a client has one private one.
    pub(super) fn has_room(&self, most: usize) -> bool {
        let most = if self.private.is_some() { 1 } else { most };
        self.live.len() < most
            && self.connecting.is_none()
            && self.no_extra_before.is_none_or(|before| Instant::now() >= before)
    }

    /// Notes that somebody uses it.
    pub(super) fn touch(&mut self) {
        self.used = Instant::now();
    }

    pub(super) const fn used(&self) -> Instant {
        self.used
    }

    /// Whether it is kept for a session that has not ended.
    pub(super) fn belongs_to_session(&self) -> bool {
        let home = self.private.as_ref().map(|private| &private.home);
        home.is_some_and(|home| !home.ends_when_idle() && !home.is_over()) && !self.is_empty()
    }

    /// Whether it has no connection, nor a past that the next one is held back for.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.connecting.is_none() && self.stamina.is_clean()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.connecting.is_some() || self.live.iter().any(|live| live.requests.load(Ordering::Relaxed) > 0)
    }

    /// Ends its connections.
    pub(super) fn retire(&mut self) {
        self.live.drain(..).chain(self.replacement.outgoing()).for_each(|live| live.retired.cancel());
    }
}
