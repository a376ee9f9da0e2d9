//! The connections to one server, a group for each dialect that is spoken with it.
//!
//! Invariants: at most `connections` of them in a dialect, and at most 16 dialects at a time, of
//! which those that nobody uses for five minutes end; one connect at a time in a dialect, for
//! everyone who waits for it, and a caller who leaves does not end it for the others; nobody waits
//! for a connect while there is a live connection that is free for them; until it is known which eras
//! the server speaks, only the base dialect connects; a connection that closed is in nobody's way any
//! more; a server whose connections keep dying young is connected to on the schedule of `flap_backoff`,
//! however many ask; no lock is held across an await. Whether the server is up, the base dialect says.
//!
//! Not here: when to connect unasked (`supervise`) and whether it may be tried at all (`breaker`).

mod dialects;
mod group;
mod lease;
mod lifetime;
mod private;
mod replace;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use self::group::{Connecting, Group, Sitter};
use self::lease::Turn;
use super::attendant::Attended;
use super::connection::{Connection, Connector, Events};
use super::dialect::{Key, PoolRequest};
use super::error::Error;
use super::secrets::Secrets;
use super::signs::Signs;
use crate::flap_backoff::Stamina;
use crate::liveness::Patience;
use runtime::shutdown::Shutdown;

pub(super) use self::group::PooledConnection;

/// Time a connection has to end in the way of its era.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Why nobody gets a connection at the end.
pub(super) const SHUTTING_DOWN: &str = "shutting down";

/// What a pool may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections of one dialect at most.
    pub connections: usize,
    /// Time one connect has, handshake included.
    pub connect: Duration,
    /// Whether each client has connections of its own.
    pub is_private: bool,
    /// How long a private connection may be silent.
    pub patience: Patience,
}

/// The connections to one server.
pub(super) struct Pool {
    pub(super) connector: Arc<dyn Connector>,
    events: Events,
    limits: Limits,
    /// What is blanked in why there is no connection.
    secrets: Secrets,
    shutdown: Shutdown,
    state: Mutex<State>,
    occupancy: watch::Sender<Occupancy>,
    /// Clients with private connections.
    pub(super) attended: Attended,
    /// Whether the server keeps state for each client.
    pub(super) signs: Signs,
}

/// Who is there, in the base dialect.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupancy {
    /// Live connections.
    pub live: usize,
    /// How often there was a first connection again after there had been none.
    pub arrivals: u64,
    /// Why the last one that closed by itself did.
    pub lost: Option<Arc<str>>,
    /// Why one that was to be replaced after a cancelled call has no successor.
    pub unreplaced: Option<Arc<str>>,
}

/// Of each dialect:
///
/// ```text
///   nobody ── somebody asks ──► connecting ── handshake done ──► live ── closed by itself ──► gone
///     ▲                              │                            │
///     └── failed: all who wait learn why                          └── close, idle: told to end ► gone
/// ```
struct State {
    /// Why nobody gets a connection, if so.
    shut: Option<Error>,
    base: Key,
    groups: Vec<Group>,
    /// The number of the next client that gets private connections.
    next_home: u64,
    /// The tasks of the present connections; replaced when all are closed.
    tasks: Shutdown,
}

enum Choice {
    Take(PooledConnection),
    /// For the end of a connect, if one is under way; and where all connections are leased to others, for one
    /// that comes free.
    Wait(Key, Option<Connecting>, Option<Turn>),
}

impl Pool {
    /// An empty pool whose connections end with `shutdown`.
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        events: Events,
        (limits, secrets): (Limits, Secrets),
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let tasks = shutdown.child();
        let (groups, next_home) = (vec![Group::new(Key::BASE)], 1);
        let state = State { shut: None, base: Key::BASE, groups, next_home, tasks };
        let occupancy = watch::Sender::new(Occupancy::default());
        let (state, attended, signs) = (Mutex::new(state), Attended::default(), Signs::default());
        Arc::new(Self { connector, events, limits, secrets, shutdown, state, occupancy, attended, signs })
    }

    /// A seat for `wish` on the connection of its dialect with the fewest requests; on the first one,
    /// as soon as it is there. `leased` is set while others hold all connections.
    pub(super) async fn seat(
        self: &Arc<Self>,
        wish: PoolRequest<'_>,
        leased: &AtomicBool,
    ) -> Result<PooledConnection, Error> {
        let mut sitter = Sitter { owner: wish.owner(), capabilities: wish.capabilities(), is_woken: false };
        loop {
            let (key, connecting, freed) = match self.choose(wish, sitter)? {
                Choice::Take(seat) => return Ok(seat),
                Choice::Wait(key, connecting, freed) => (key, connecting, freed),
            };
            let is_extra = freed.is_some();
            leased.store(is_extra, Ordering::Relaxed);
            let done = tokio::select! {
                biased;
                done = group::connected(connecting) => Some(done),
                () = Turn::of(freed) => None,
            };
            leased.store(false, Ordering::Relaxed);
            let Some(done) = done else {
                sitter.is_woken = true;
                continue;
            };
            match done {
                Some(Ok(live)) if self.key(&self.lock(), wish).0 == live.key => {
                    // What the server was seen doing on another connection it may do on this one.
                    let exclusive = self.lock().find_mut(live.key).is_some_and(Group::asks);
                    if let Some(seat) = PooledConnection::on(&live, sitter, exclusive) {
                        return Ok(seat);
                    }
                }
                // It turned out that the server does not speak this dialect.
                Some(Err(_)) if !self.key(&self.lock(), wish).0.is_spoken_like(key) => {}
                // The others are there still, and no extra one is tried again at once.
                Some(Err(_)) if is_extra => {}
                Some(Err(error)) => return Err(error),
                // Another dialect, or dropped half way because all connections are made anew.
                Some(Ok(_)) | None => {}
            }
        }
    }

    fn choose(self: &Arc<Self>, wish: PoolRequest<'_>, sitter: Sitter<'_>) -> Result<Choice, Error> {
        self.check_open()?;
        let mut guard = self.lock();
        let state = &mut *guard;
        let (key, is_base) = self.key(state, wish);
        if is_base && key != state.base {
            state.move_base(key);
            self.publish(state, None);
        }
        let at = state.group(key, wish, self.limits.connections)?;
        let group = &mut state.groups[at];
        let all_full = |seat: &PooledConnection| seat.requests() > self.connector.requests_per_connection();
        if let Some(seat) = group.seat(sitter) {
            if all_full(&seat) && group.has_room(self.limits.connections) {
                self.begin_connect(group, &state.tasks);
            }
            return Ok(Choice::Take(seat));
        }
        let Some(owner) = sitter.owner.filter(|_| !group.live.is_empty()) else {
            if group.connecting.is_none() {
                group.stamina.check()?;
                self.begin_connect(group, &state.tasks);
            }
            return Ok(Choice::Wait(key, group.connecting.clone(), None));
        };
        let mut turn = group.queue.join(owner);
        // One that was freed before we stood there would wake nobody.
        if let Some(seat) = group.seat(sitter) {
            return Ok(Choice::Take(seat));
        }
        turn.ends_with(group.head_start_of(owner));
        if let Some(unanswered) = group.held_up_by(sitter) {
            if unanswered.is_over() {
                self.begin_replacement(group, sitter, &state.tasks);
                // Without a successor it keeps serving.
                if let Some(seat) = group.seat(sitter) {
                    return Ok(Choice::Take(seat));
                }
            }
            turn.waits_for(unanswered);
        }
        let may_grow = self.connector.requests_per_connection() < usize::MAX;
        if may_grow && group.has_room(self.limits.connections) {
            self.begin_connect(group, &state.tasks);
        }
        Ok(Choice::Wait(key, group.connecting.clone(), Some(turn)))
    }

    fn publish(&self, state: &State, lost: Option<Arc<str>>) {
        let live = state.find(state.base).map_or(0, |group| group.live.len());
        self.occupancy.send_modify(|occupancy| {
            occupancy.arrivals += u64::from(occupancy.live == 0 && live > 0);
            occupancy.live = live;
            occupancy.lost = lost.or(occupancy.lost.take());
        });
    }

    /// Tells that a connection that was to be replaced after a cancelled call keeps serving.
    fn tell_unreplaced(&self, error: &Error) {
        let reason: Arc<str> = error.to_string().into();
        self.occupancy.send_modify(|occupancy| occupancy.unreplaced = Some(reason));
    }

    /// Ends all connections and the connects under way, and waits until they have ended. The next
    /// one who asks connects anew.
    pub(super) async fn close_all(&self) {
        let tasks = {
            let mut state = self.lock();
            let base = state.base;
            // What is known of those that die young stays.
            state.groups.retain(|group| group.key == base || group.stamina.held_until().is_some());
            for group in &mut state.groups {
                group.live.clear();
                group.connecting = None;
                group.no_extra_before = None;
                group.replacement = replace::Replacement::default();
                group.queue.wake_all();
            }
            let tasks = std::mem::replace(&mut state.tasks, self.shutdown.child());
            tasks.begin();
            self.publish(&state, None);
            tasks
        };
        // `keep` has its own limit; this one is only there to end in any case.
        tasks.wait(CLOSE_LIMIT + Duration::from_secs(1)).await;
    }

    /// Lets nobody in any more, because the server is in `state`: `disabled` or `disconnected`.
    pub(super) fn shut(&self, state: &'static str) {
        self.lock().shut = Some(Error::Unavailable { state });
    }

    /// Lets nobody in any more, because the server refuses our credentials.
    pub(super) fn refuse(&self, reason: &str) {
        self.lock().shut.get_or_insert_with(|| Error::AuthFailed { reason: reason.to_owned() });
    }

    /// Lets callers in again, and connects at once if need be: an operator wants it.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.shut = None;
        state.groups.iter_mut().for_each(|group| group.stamina = Stamina::default());
    }

    /// [`Error::Connect`] while there is no connection for `wish` and none may be made yet.
    pub(super) fn check_stamina(&self, wish: PoolRequest<'_>) -> Result<(), Error> {
        let state = self.lock();
        let group = state.find(self.key(&state, wish).0);
        let waits = |group: &&Group| group.live.is_empty() && group.connecting.is_none();
        group.filter(waits).map_or(Ok(()), |group| group.stamina.check())
    }

    /// Whether a connection for `wish` is one client's own, and those of everybody are there.
    pub(super) fn is_private_matter(&self, wish: PoolRequest<'_>) -> bool {
        let state = self.lock();
        let is_up = || state.find(state.base).is_some_and(|group| !group.live.is_empty());
        self.key(&state, wish).0.home.is_some() && is_up()
    }

    /// When the next first connection may be made, if that is later than now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        let state = self.lock();
        state.find(state.base)?.stamina.held_until()
    }

    /// [`Error::Unavailable`] while it is shut, [`Error::AuthFailed`] when the server refused us.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.shutdown.is_begun() {
            return Err(Error::Unavailable { state: SHUTTING_DOWN });
        }
        self.lock().shut.clone().map_or(Ok(()), Err)
    }

    /// Who is there in the base dialect, now and from now on.
    pub(super) fn occupancy(&self) -> watch::Receiver<Occupancy> {
        self.occupancy.subscribe()
    }

    /// The connection of the base dialect that has been there longest.
    pub(super) fn oldest(&self) -> Option<Arc<dyn Connection>> {
        let state = self.lock();
        let base = state.groups.iter().find(|group| group.key == state.base)?;
        base.live.first().map(|live| Arc::clone(&live.connection))
    }

    /// Live connections of all dialects.
    pub(super) fn live(&self) -> usize {
        self.lock().groups.iter().map(|group| group.live.len()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
