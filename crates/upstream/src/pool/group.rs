//! The connections of one dialect.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::verbosity::Verbosity;
use crate::backoff::FlapBackoff;
use crate::connection::Connection;
use crate::dialect::{Dialect, Key, Private};
use crate::error::Error;
use crate::liveness::{Liveness, Round};
use protocol::LogLevel;
use runtime::worker::now;

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

/// One connection.
///
/// Invariant: a share is given back when it is dropped, and with it the place among the running calls.
pub(super) struct Live {
    pub connection: Arc<dyn Connection>,
    /// The dialect that the server actually speaks.
    pub key: Key,
    pub since: Instant,
    pub requests: AtomicUsize,
    pub verbosity: Verbosity,
    /// Only if the connection is private. Health checks cover all others.
    pub liveness: Option<Liveness>,
    /// The flag of its group.
    pub is_blamed: Arc<AtomicBool>,
    /// Requests its end.
    pub retired: CancellationToken,
}

/// One request's share of a connection, given back when dropped.
pub(crate) struct PooledConnection {
    live: Arc<Live>,
    /// Only if the connection is private.
    private_call: Option<PrivateCall>,
}

impl PooledConnection {
    /// Returns a share of `live`.
    pub(super) fn on(live: &Arc<Live>) -> Self {
        live.requests.fetch_add(1, Ordering::Relaxed);
        let private_call = live.liveness.as_ref().map(PrivateCall::begin);
        Self { live: Arc::clone(live), private_call }
    }

    /// Records that the request ended, and that its caller did not cancel it.
    pub(crate) fn answered(&mut self) {
        if let (Some(private_call), Some(liveness)) = (&mut self.private_call, &self.live.liveness) {
            private_call.answered(liveness);
        }
    }

    /// Whether the end of the request counts against the server. A private connection is one client's program. Its
    /// failure counts once, until it answers again.
    pub(crate) fn counts(&self, is_failed: bool) -> bool {
        self.private_call.is_none() || !self.live.is_blamed.swap(is_failed, Ordering::Relaxed) || !is_failed
    }

    /// The connection to use.
    pub(crate) fn connection(&self) -> &dyn Connection {
        self.live.connection.as_ref()
    }

    /// Makes the server send log messages of `level` and above.
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
        if let (Some(private_call), Some(liveness)) = (&self.private_call, &self.live.liveness) {
            private_call.over(liveness);
        }
    }
}

/// A call that was cancelled before this age does not trigger a check.
const MIN_CHECKED_AGE: Duration = Duration::from_millis(900);

/// One call on a private connection. Its holder must call [`PrivateCall::over`].
pub(super) struct PrivateCall {
    round: Round,
    started: Instant,
    /// Whether the connection ended the call, and not its caller.
    is_answered: bool,
}

impl PrivateCall {
    pub(super) fn begin(liveness: &Liveness) -> Self {
        Self { round: liveness.begins(), started: now(), is_answered: false }
    }

    /// Records the end of the call by the connection.
    pub(super) fn answered(&mut self, liveness: &Liveness) {
        self.is_answered = true;
        liveness.broken();
    }

    pub(super) fn over(&self, liveness: &Liveness) {
        liveness.ended(self.round);
        if !self.is_answered && now().saturating_duration_since(self.started) >= MIN_CHECKED_AGE {
            liveness.request_check();
        }
    }
}
