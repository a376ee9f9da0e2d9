//! The connections to one server, in one group for each dialect.
//!
//! Invariants: a dialect has at most `connections` connections. There are at most 16 dialects at a time, and a dialect
//! that is not used for five minutes ends. A dialect has one connect at a time, which all its waiting callers share,
//! and which continues if one of them leaves. A caller does not wait for a connect while a live connection is free for
//! it.
//!
//! Until the protocol eras of the server are known, only the base dialect connects. The base dialect also decides
//! whether the server is up. A connection that closed is removed. A flapping server is connected to on the schedule of
//! `backoff`, however many callers wait. No lock is held across an await.
//!
//! Not here: connecting without a caller (`supervise`), and whether a connect is allowed at all (`breaker`).

mod dialects;
mod group;
mod lifetime;
mod private;
mod verbosity;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use self::group::{Connecting, Group};
use super::backoff::FlapBackoff;
use super::config::Sharing;
use super::connection::{Connection, Connector, Events};
use super::dialect::{Key, PoolRequest};
use super::error::Error;
use super::private_client_table::PrivateClients;
use super::secrets::Secrets;
use super::state_signs::StateSigns;
use crate::liveness::SilenceLimits;
use runtime::shutdown::Shutdown;

pub(super) use group::PooledConnection;

/// The time limit for closing a connection as its era requires.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The reason why no connection is available during shutdown.
pub(super) const SHUTTING_DOWN: &str = "shutting down";

/// The limits of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolLimits {
    /// The most connections of one dialect.
    pub connections: usize,
    /// The time limit of one connect, handshake included.
    pub connect: Duration,
    /// Which clients share a connection.
    pub sharing: Sharing,
    /// Whether each principal has its own credential. There is no connection without a client then.
    pub is_per_principal: bool,
    /// How long a private connection may be silent.
    pub silence_limits: SilenceLimits,
}

/// The connections to one server.
pub(super) struct Pool {
    pub(super) connector: Arc<dyn Connector>,
    events: Events,
    limits: PoolLimits,
    /// The secrets to redact from connection errors.
    secrets: Secrets,
    shutdown: Shutdown,
    state: Mutex<State>,
    occupancy: watch::Sender<Occupancy>,
    /// Clients with private connections.
    pub(super) private_clients: PrivateClients,
    /// Whether the server keeps state for each client.
    pub(super) signs: Arc<StateSigns>,
    /// How often Switchyard closed connections of clients by itself.
    closings: AtomicU64,
}

/// The connections of the base dialect.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupancy {
    /// Live connections.
    pub live: usize,
    /// How often a first connection came after there had been none.
    pub arrivals: u64,
    /// The reason why the last connection closed by itself.
    pub lost: Option<Arc<str>>,
    /// How often clients with other capabilities got a shared connection of their own dialect.
    pub other_arrivals: u64,
    /// How often a first connection could not be made.
    pub failed_starts: u64,
}

/// The state of each dialect:
///
/// ```text
///   none ── a caller needs one ──► connecting ── handshake done ──► live ── closed by itself ──► gone
///     ▲                                │                              │
///     └── failed: all callers get why                                 └── close, idle: told to end ► gone
/// ```
struct State {
    /// The reason why no connection is available, if there is one.
    shut: Option<Error>,
    base: Key,
    groups: Vec<Group>,
    /// The number of the next client with private connections.
    next_affinity: u64,
    /// Connections that were closed because nothing needed them, and may not have ended yet.
    resting: Vec<Arc<group::Live>>,
    /// The tasks of the current connections. Replaced when all are closed.
    tasks: Shutdown,
}

enum Choice {
    Take(PooledConnection),
    /// Wait for the end of a connect.
    Wait(Key, Option<Connecting>),
}

impl Pool {
    /// Makes an empty pool whose connections end with `shutdown`.
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        events: Events,
        (limits, secrets): (PoolLimits, Secrets),
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let tasks = shutdown.child();
        let (groups, next_affinity) = (vec![Group::new(Key::BASE)], 1);
        let resting = Vec::new();
        let state = State { shut: None, base: Key::BASE, groups, next_affinity, resting, tasks };
        let occupancy = watch::Sender::new(Occupancy::default());
        let signs = Arc::clone(events.signs());
        let (state, private_clients) = (Mutex::new(state), PrivateClients::of(&signs));
        Arc::new(Self {
            connector,
            events,
            limits,
            secrets,
            shutdown,
            state,
            occupancy,
            private_clients,
            signs,
            closings: AtomicU64::new(0),
        })
    }

    /// Returns a share of the connection with the fewest requests in the dialect of `request`, or of the first connection
    /// as soon as it exists.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        request: PoolRequest<'_>,
    ) -> Result<PooledConnection, Error> {
        loop {
            let (key, connecting) = match self.choose(request)? {
                Choice::Take(pooled) => return Ok(pooled),
                Choice::Wait(key, connecting) => (key, connecting),
            };
            match group::connected(connecting).await {
                Some(Ok(live)) if self.key(&self.lock(), request).0 == live.key => {
                    return Ok(PooledConnection::on(&live));
                }
                // The server does not speak this dialect.
                Some(Err(_)) if !self.key(&self.lock(), request).0.equals_except_client(key) => {}
                Some(Err(error)) => return Err(error),
                // The connect gave another dialect, or was dropped because all connections are being closed.
                Some(Ok(_)) | None => {}
            }
        }
    }

    fn choose(self: &Arc<Self>, request: PoolRequest<'_>) -> Result<Choice, Error> {
        self.check_open()?;
        let mut guard = self.lock();
        let state = &mut *guard;
        let (key, is_base) = self.key(state, request);
        if is_base && key != state.base {
            state.move_base(key);
            self.publish(state, None);
        }
        let at = state.group(key, request, self.private_limit())?;
        let group = &mut state.groups[at];
        let all_full =
            |pooled: &PooledConnection| pooled.requests() > self.connector.requests_per_connection();
        if key.affinity.is_none()
            && self.limits.sharing == Sharing::Auto
            && self.connector.is_a_process()
            && let Some(affinity) = request.affinity()
        {
            self.signs.called_by(affinity);
        }
        if let Some(pooled) = group.acquire() {
            if all_full(&pooled) && group.has_room(self.limits.connections) {
                self.begin_connect(group, &state.tasks);
            }
            return Ok(Choice::Take(pooled));
        }
        if group.connecting.is_none() {
            group.flap_backoff.check()?;
            self.begin_connect(group, &state.tasks);
        }
        Ok(Choice::Wait(key, group.connecting.clone()))
    }

    fn publish(&self, state: &State, lost: Option<Arc<str>>) {
        let live = state.find(state.base).map_or(0, |group| group.live.len());
        self.occupancy.send_modify(|occupancy| {
            occupancy.arrivals += u64::from(occupancy.live == 0 && live > 0);
            occupancy.live = live;
            occupancy.lost = lost.or(occupancy.lost.take());
        });
    }

    /// Closes all connections and pending connects, and waits for their end. The next caller connects again.
    pub(super) async fn close_all(&self) {
        self.closes();
        let tasks = {
            let mut state = self.lock();
            let base = state.base;
            // The backoff of flapping connections is kept.
            state.groups.retain(|group| group.key == base || group.flap_backoff.held_until().is_some());
            for group in &mut state.groups {
                group.live.clear();
                group.connecting = None;
                group.no_extra_before = None;
            }
            let tasks = std::mem::replace(&mut state.tasks, self.shutdown.child());
            tasks.begin();
            self.publish(&state, None);
            tasks
        };
        // `keep` has its own limit. This one only ensures that the wait ends.
        tasks.wait(CLOSE_LIMIT + Duration::from_secs(1)).await;
    }

    /// Refuses all callers, because the server is in `state`: `disabled` or `disconnected`.
    pub(super) fn shut(&self, state: &'static str) {
        self.lock().shut = Some(Error::Unavailable { state });
    }

    /// Refuses all callers with `error`, because the server refuses the credentials.
    pub(super) fn refuse(&self, error: &Error) {
        let mut state = self.lock();
        state.shut.get_or_insert_with(|| error.clone());
        self.publish(&state, None);
    }

    /// Accepts callers again, without a pending backoff, because an operator requested it.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.shut = None;
        state.groups.iter_mut().for_each(|group| group.flap_backoff = FlapBackoff::default());
    }

    /// Returns [`Error::Connect`] while there is no connection for `request` and the backoff delays the next one.
    pub(super) fn check_flapping(&self, request: PoolRequest<'_>) -> Result<(), Error> {
        let state = self.lock();
        let waits = |group: &Group| group.live.is_empty() && group.connecting.is_none();
        if let [group] = &*state.groups
            && !waits(group)
        {
            return Ok(());
        }
        let group = state.find(self.key(&state, request).0);
        group.filter(|group| waits(group)).map_or(Ok(()), |group| group.flap_backoff.check())
    }

    /// Whether `request` uses a private connection while the shared connections are up.
    pub(super) fn is_private_matter(&self, request: PoolRequest<'_>) -> bool {
        let state = self.lock();
        let is_up = || state.find(state.base).is_some_and(|group| !group.live.is_empty());
        self.key(&state, request).0.affinity.is_some() && is_up()
    }

    /// The earliest time of the next first connection, if that is later than now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let state = self.lock();
        state.find(state.base)?.flap_backoff.held_until()
    }

    /// Returns [`Error::Unavailable`] while the pool is shut, [`Error::AuthFailed`] or [`Error::LoginRequired`] if the
    /// server refused the credentials.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.shutdown.is_begun() {
            return Err(Error::Unavailable { state: SHUTTING_DOWN });
        }
        self.lock().shut.clone().map_or(Ok(()), Err)
    }

    /// A receiver of the connections of the base dialect.
    pub(super) fn occupancy(&self) -> watch::Receiver<Occupancy> {
        self.occupancy.subscribe()
    }

    /// The oldest connection of the base dialect.
    pub(super) fn oldest(&self) -> Option<Arc<dyn Connection>> {
        let state = self.lock();
        let base = state.groups.iter().find(|group| group.key == state.base)?;
        base.live.first().map(|live| Arc::clone(&live.connection))
    }

    /// The number of live connections of all dialects.
    pub(super) fn live(&self) -> usize {
        self.lock().groups.iter().map(|group| group.live.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
