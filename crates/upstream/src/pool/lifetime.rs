//! How a connection comes, stays and goes.
//!
//! Invariants: a connect belongs to nobody who waits for it; a connection is listed before anybody can find it
//! closed, and is listed no more once it is; who waits for one hears of each that comes or goes.
//!
//! Not here: who gets which (`pool`), and when one that nobody uses ends (`dialects`).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::group::{Group, Live};
use super::{CLOSE_LIMIT, Pool, State, private, replace};
use crate::connection::{Connection, Events};
use crate::dialect::{Dialect, Key};
use crate::error::Error;
use crate::session_affinity::Home;
use runtime::shutdown::Shutdown;

/// After a failed connect: time in which no second connection is tried beside a live one.
const NO_EXTRA: Duration = Duration::from_secs(30);

/// What the server is to a client that is gone while it is connected to for it: no fault of the server.
const SESSION_OVER: &str = "not connected to for a session that has ended";

type Done = watch::Sender<Option<Result<Arc<Live>, Error>>>;

impl Pool {
    /// Connects in a task of its own, so that it belongs to nobody who waits for it.
    pub(super) fn begin_connect(self: &Arc<Self>, group: &mut Group, tasks: &Shutdown) {
        let (done, connecting) = watch::channel(None);
        group.connecting = Some(connecting);
        group.stamina.connecting();
        let (pool, tasks, key, dialect) = (Arc::clone(self), tasks.clone(), group.key, group.dialect());
        let (group_of_tasks, home) =
            (tasks.clone(), group.private.as_ref().map(|private| private.home.clone()));
        let events = home.as_ref().and_then(|home| self.attended.events(home));
        let events = events.unwrap_or_else(|| self.events.clone());
        group_of_tasks.spawn_until_end(async move {
            let opened = tokio::select! {
                biased;
                () = over(home) => Err(Error::Unavailable { state: SESSION_OVER }),
                opened = pool.open_one(events, dialect) => opened,
            };
            let opened = opened.map_err(|error| pool.secrets.cover(error));
            pool.connected(key, opened, &tasks, &done);
        });
    }

    async fn open_one(&self, events: Events, dialect: Dialect) -> Result<Arc<dyn Connection>, Error> {
        let limit = self.limits.connect;
        let opened = timeout(limit, self.connector.connect(events, dialect)).await;
        opened.unwrap_or_else(|_| {
            Err(Error::Connect { reason: format!("no handshake within {:.1} s", limit.as_secs_f64()) })
        })
    }

    fn connected(
        self: &Arc<Self>,
        key: Key,
        opened: Result<Arc<dyn Connection>, Error>,
        tasks: &Shutdown,
        done: &Done,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        // All are made anew, or the client that it was for is gone, with all it had.
        let is_over = tasks.is_begun() || (key.home.is_some() && state.find(key).is_none());
        let opened = opened.map(|connection| {
            // Closed meanwhile: it is put where nobody finds it, and `keep` ends it.
            let mut nowhere = Group::new(key);
            let group = if is_over { &mut nowhere } else { state.settled(key, connection.peer().era()) };
            group.admit(connection)
        });
        if let Ok(live) = &opened {
            if is_over {
                live.retired.cancel();
            }
            // Spawned under the lock: it must not find the connection closed before it is listed.
            tasks.spawn(Arc::clone(self).keep(Arc::clone(live), tasks.clone()));
        }
        if is_over {
            return; // who waits learns it from the dropped sender
        }
        let mut unreplaced = false;
        if let Some(group) = state.find_mut(key) {
            group.connecting = None;
            group.no_extra_before = opened.as_ref().err().map(|_| Instant::now() + NO_EXTRA);
            unreplaced = opened.is_err() && group.replacement.is_due();
            if unreplaced {
                group.replacement.keep_for(NO_EXTRA);
            }
        }
        match &opened {
            Ok(live) => {
                self.events.heard();
                self.arrived(state, key, live);
            }
            Err(error) if unreplaced => self.tell_unreplaced(error),
            // Before anybody else asks: whoever is refused must not be tried again and again.
            Err(refused @ Error::AuthFailed { .. }) => {
                state.shut.get_or_insert(refused.clone());
                self.publish(state, None);
            }
            // That says nothing of the server.
            Err(Error::Unavailable { .. }) => {}
            // It may be another server by the time it is there again.
            Err(_) if state.groups.iter().all(|group| group.live.is_empty()) => self.connector.forget(),
            Err(_) => {}
        }
        state.tried(key);
        drop(guard);
        done.send_replace(Some(opened));
    }

    /// Tells of a connection that is there now.
    fn arrived(self: &Arc<Self>, state: &mut State, wanted: Key, live: &Live) {
        let has_replaced = state.find_mut(wanted).is_some_and(Group::replace);
        self.publish(state, None);
        if has_replaced && live.key == state.base {
            self.occupancy.send_modify(|occupancy| occupancy.arrivals += 1);
        }
        let (base, tasks) = (state.base, state.tasks.clone());
        let Some(group) = state.find_mut(live.key) else { return };
        if live.key != base && group.live.len() == 1 {
            let tended = CancellationToken::new();
            let retire = Arc::clone(self).retire_in_time(live.key, group.private.clone());
            group.tended = Some(tended.clone().drop_guard());
            tasks.spawn_until_end(async move {
                tended.run_until_cancelled(retire).await;
            });
        }
        group.queue.wake_all();
    }

    /// Stays with a connection until it closes or is to be closed, and clears up behind it.
    async fn keep(self: Arc<Self>, live: Arc<Live>, tasks: Shutdown) {
        tokio::select! {
            reason = live.connection.closed() => self.evict(&live, &self.secrets.blank(&reason)),
            () = private::hangs(&live, self.limits.patience) => self.evict(&live, private::HUNG),
            () = async { live.replaced.cancelled().await; replace::runs_out(&live).await } => {}
            () = live.retired.cancelled() => {}
            () = tasks.requested() => {}
        }
        if timeout(CLOSE_LIMIT, live.connection.close()).await.is_err() {
            tracing::warn!("a connection did not close in time");
        }
    }

    fn evict(&self, live: &Arc<Live>, reason: &str) {
        let mut state = self.lock();
        let is_base = live.key == state.base;
        let Some(group) = state.find_mut(live.key) else { return };
        let before = group.live.len();
        group.asks();
        group.live.retain(|other| !Arc::ptr_eq(other, live));
        if group.live.len() < before {
            if group.live.is_empty() {
                group.stamina.lost(live.since.elapsed());
            } else {
                // Whoever is full of requests would otherwise be given its like for each of them.
                group.no_extra_before = Some(Instant::now() + NO_EXTRA);
            }
            group.queue.wake_all();
            if is_base {
                self.publish(&state, Some(reason.into()));
            } else {
                tracing::debug!(reason, "a connection of another dialect closed");
            }
        }
    }
}

/// Resolves when the session that a connection is for is over; never where it is for no session.
async fn over(home: Option<Home>) {
    match home {
        Some(home) => home.ended().await,
        None => pending().await,
    }
}
