//! The connections to one server.
//!
//! Invariants: at most `connections` of them; one connect at a time, for everyone who waits for it,
//! and a caller who leaves does not end it for the others; nobody waits for a connect while there is
//! a live connection; a connection that closed is in nobody's way any more; a server whose
//! connections keep dying young is connected to on the schedule of `stamina`, however many ask; no
//! lock is held across an await.
//!
//! Not here: when to connect unasked (`supervise`) and whether it may be tried at all (`breaker`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Connector, Events};
use super::error::Error;
use super::stamina::Stamina;
use crate::shutdown::Shutdown;

/// Time a connection has to end in the way of its era.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// After a failed connect: time in which no second connection is tried beside a live one.
const NO_EXTRA: Duration = Duration::from_secs(30);

/// Why nobody gets a connection at the end.
pub(super) const SHUTTING_DOWN: &str = "shutting down";

/// What a pool may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Connections at most.
    pub connections: usize,
    /// Time one connect has, handshake included.
    pub connect: Duration,
}

/// The connections to one server.
pub(super) struct Pool {
    connector: Arc<dyn Connector>,
    events: Events,
    limits: Limits,
    shutdown: Shutdown,
    state: Mutex<State>,
    occupancy: watch::Sender<Occupancy>,
}

/// Who is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupancy {
    /// Live connections.
    pub live: usize,
    /// How often there was a first connection again after there had been none.
    pub arrivals: u64,
    /// Why the last one that closed by itself did.
    pub lost: Option<Arc<str>>,
}

/// ```text
///   nobody ── somebody asks ──► connecting ── handshake done ──► live ── closed by itself ──► gone
///     ▲                              │                            │
///     └── failed: all who wait learn why                          └── close: told to end ──► gone
/// ```
struct State {
    /// Why nobody gets a connection, if so.
    shut: Option<&'static str>,
    live: Vec<Arc<Live>>,
    connecting: Option<Connecting>,
    no_extra_before: Option<Instant>,
    stamina: Stamina,
    /// The tasks of the present connections; replaced when all are closed.
    tasks: Shutdown,
}

/// A connect under way; `None` until it is done.
type Connecting = watch::Receiver<Option<Result<Arc<Live>, Error>>>;
type Done = watch::Sender<Option<Result<Arc<Live>, Error>>>;

struct Live {
    connection: Arc<dyn Connection>,
    since: Instant,
    requests: AtomicUsize,
}

/// One request's share of a connection; given back when dropped.
pub(super) struct Seat(Arc<Live>);

impl Seat {
    fn on(live: &Arc<Live>) -> Self {
        live.requests.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(live))
    }

    /// The connection to use.
    pub(super) fn connection(&self) -> &dyn Connection {
        self.0.connection.as_ref()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Choice {
    Take(Seat),
    Wait(Connecting),
}

impl Pool {
    /// An empty pool whose connections end with `shutdown`.
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        events: Events,
        limits: Limits,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let tasks = shutdown.child();
        let state = State {
            shut: None,
            live: Vec::new(),
            connecting: None,
            no_extra_before: None,
            stamina: Stamina::default(),
            tasks,
        };
        let occupancy = watch::Sender::new(Occupancy::default());
        Arc::new(Self { connector, events, limits, shutdown, state: Mutex::new(state), occupancy })
    }

    /// A seat on the connection with the fewest requests; on the first one, as soon as it is there.
    pub(super) async fn seat(self: &Arc<Self>) -> Result<Seat, Error> {
        loop {
            let mut connecting = match self.choose()? {
                Choice::Take(seat) => return Ok(seat),
                Choice::Wait(connecting) => connecting,
            };
            let done = connecting.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
            match done {
                Some(Ok(live)) => return Ok(Seat::on(&live)),
                Some(Err(error)) => return Err(error),
                // Dropped half way, because all connections are made anew: so is this one.
                None => {}
            }
        }
    }

    fn choose(self: &Arc<Self>) -> Result<Choice, Error> {
        self.check_open()?;
        let mut state = self.lock();
        if let Some(live) = state.least_loaded() {
            let all_full = live.requests.load(Ordering::Relaxed) >= self.connector.requests_per_connection();
            if all_full && state.has_room(self.limits.connections) {
                self.begin_connect(&mut state);
            }
            return Ok(Choice::Take(Seat::on(&live)));
        }
        if let Some(connecting) = state.connecting.clone() {
            return Ok(Choice::Wait(connecting));
        }
        state.stamina.check()?;
        Ok(Choice::Wait(self.begin_connect(&mut state)))
    }

    /// Connects in a task of its own, so that it belongs to nobody who waits for it.
    fn begin_connect(self: &Arc<Self>, state: &mut State) -> Connecting {
        let (done, connecting) = watch::channel(None);
        state.connecting = Some(connecting.clone());
        state.stamina.connecting();
        let (pool, tasks) = (Arc::clone(self), state.tasks.clone());
        state.tasks.spawn_until_end(async move {
            let limit = pool.limits.connect;
            let opened = timeout(limit, pool.connector.connect(pool.events.clone())).await;
            let opened = opened.unwrap_or_else(|_| {
                Err(Error::Connect { reason: format!("no handshake within {:.1} s", limit.as_secs_f64()) })
            });
            pool.connected(opened, &tasks, &done);
        });
        connecting
    }

    fn connected(
        self: &Arc<Self>,
        opened: Result<Arc<dyn Connection>, Error>,
        tasks: &Shutdown,
        done: &Done,
    ) {
        let since = Instant::now();
        let opened =
            opened.map(|connection| Arc::new(Live { connection, since, requests: AtomicUsize::new(0) }));
        let mut state = self.lock();
        if let Ok(live) = &opened {
            // Spawned under the lock: it must not find the connection closed before it is listed.
            tasks.spawn(Arc::clone(self).keep(Arc::clone(live), tasks.clone()));
        }
        if tasks.is_begun() {
            return; // closed meanwhile: `keep` ends it, and who waits learns it from the dropped sender
        }
        state.connecting = None;
        state.no_extra_before = opened.as_ref().err().map(|_| Instant::now() + NO_EXTRA);
        if let Ok(live) = &opened {
            state.live.push(Arc::clone(live));
            self.publish(&state, None);
        }
        drop(state);
        done.send_replace(Some(opened));
    }

    /// Stays with a connection until it closes or is to be closed, and clears up behind it.
    async fn keep(self: Arc<Self>, live: Arc<Live>, tasks: Shutdown) {
        tokio::select! {
            reason = live.connection.closed() => self.evict(&live, &reason),
            () = tasks.requested() => {}
        }
        if timeout(CLOSE_LIMIT, live.connection.close()).await.is_err() {
            tracing::warn!("a connection did not close in time");
        }
    }

    fn evict(&self, live: &Arc<Live>, reason: &str) {
        let mut state = self.lock();
        let before = state.live.len();
        state.live.retain(|other| !Arc::ptr_eq(other, live));
        if state.live.len() < before {
            if state.live.is_empty() {
                state.stamina.lost(live.since.elapsed());
            } else {
                // Whoever is full of requests would otherwise be given its like for each of them.
                state.no_extra_before = Some(Instant::now() + NO_EXTRA);
            }
            self.publish(&state, Some(reason.into()));
        }
    }

    fn publish(&self, state: &State, lost: Option<Arc<str>>) {
        let live = state.live.len();
        self.occupancy.send_modify(|occupancy| {
            occupancy.arrivals += u64::from(occupancy.live == 0 && live > 0);
            occupancy.live = live;
            occupancy.lost = lost.or(occupancy.lost.take());
        });
    }

    /// Ends all connections and the connect under way, and waits until they have ended. The next
    /// one who asks connects anew.
    pub(super) async fn close_all(&self) {
        let tasks = {
            let mut state = self.lock();
            state.live.clear();
            state.connecting = None;
            state.no_extra_before = None;
            let tasks = std::mem::replace(&mut state.tasks, self.shutdown.child());
            tasks.begin();
            self.publish(&state, None);
            tasks
        };
        // `keep` has its own limit; this one is only there to end in any case.
        tasks.wait(CLOSE_LIMIT + Duration::from_secs(1)).await;
    }

    /// Lets nobody in any more, and says why: `disabled` or `disconnected`.
    pub(super) fn shut(&self, why: &'static str) {
        self.lock().shut = Some(why);
    }

    /// Lets callers in again, and connects at once if need be: an operator wants it.
    pub(super) fn open(&self) {
        let mut state = self.lock();
        state.shut = None;
        state.stamina = Stamina::default();
    }

    /// [`Error::Connect`] while there is no connection and none may be made yet.
    pub(super) fn check_stamina(&self) -> Result<(), Error> {
        let state = self.lock();
        if state.live.is_empty() && state.connecting.is_none() { state.stamina.check() } else { Ok(()) }
    }

    /// When the next first connection may be made, if that is later than now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.lock().stamina.held_until()
    }

    /// [`Error::Unavailable`] while it is shut.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        let state = if self.shutdown.is_begun() { Some(SHUTTING_DOWN) } else { self.lock().shut };
        state.map_or(Ok(()), |state| Err(Error::Unavailable { state }))
    }

    /// Who is there, now and from now on.
    pub(super) fn occupancy(&self) -> watch::Receiver<Occupancy> {
        self.occupancy.subscribe()
    }

    /// Live connections.
    pub(super) fn live(&self) -> usize {
        self.lock().live.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn least_loaded(&self) -> Option<Arc<Live>> {
        self.live.iter().min_by_key(|live| live.requests.load(Ordering::Relaxed)).cloned()
    }

    fn has_room(&self, most: usize) -> bool {
        self.live.len() < most
            && self.connecting.is_none()
            && self.no_extra_before.is_none_or(|before| Instant::now() >= before)
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
