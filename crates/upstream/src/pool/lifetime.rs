//! The life of a connection: connect, use and close.
//!
//! Invariants: a connect does not depend on any waiting caller. A connection is listed before its end can be noticed,
//! and removed when it closed.
//!
//! Not here: the selection of a connection (`pool`), and the end of unused ones (`dialects`).

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::group::{Group, Live};
use super::{CLOSE_LIMIT, Pool, State, private};
use crate::connection::{Connection, Events};
use crate::dialect::{Dialect, Key};
use crate::error::Error;
use crate::session_affinity::Affinity;
use runtime::shutdown::Shutdown;

/// After a failed connect: the time in which no second connection is tried beside a live one.
const NO_EXTRA: Duration = Duration::from_secs(30);

/// The state for a client that left while its private connection was being made. It is not a fault of the server.
const SESSION_OVER: &str = "not connected to for a session that has ended";

/// Why a connection without a session was removed.
const SESSION_LOST: &str = "the server ended the session";

type ConnectResult = watch::Sender<Option<Result<Arc<Live>, Error>>>;

impl Pool {
    /// Connects in a separate task, so that the connect does not depend on any waiting caller.
    pub(super) fn begin_connect(self: &Arc<Self>, group: &mut Group, tasks: &Shutdown) {
        let (done, connecting) = watch::channel(None);
        group.connecting = Some(connecting);
        group.flap_backoff.connecting();
        let (pool, tasks, key, dialect) = (Arc::clone(self), tasks.clone(), group.key, group.dialect());
        let (group_of_tasks, affinity) =
            (tasks.clone(), group.private.as_ref().map(|private| private.affinity.clone()));
        let events = affinity.as_ref().and_then(|affinity| self.private_clients.events(affinity));
        let events = events.unwrap_or_else(|| self.events.clone());
        group_of_tasks.spawn_until_end(async move {
            let opened = tokio::select! {
                biased;
                () = over(affinity) => Err(Error::Unavailable { state: SESSION_OVER }),
                opened = pool.open_one(events, dialect) => opened,
            };
            let opened = opened.map_err(|error| pool.secrets.redact_error(error));
            pool.connected(key, opened, &tasks, &done);
        });
    }

    async fn open_one(&self, events: Events, dialect: Dialect) -> Result<Arc<dyn Connection>, Error> {
        self.rested().await;
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
        done: &ConnectResult,
    ) {
        let mut guard = self.lock();
        let state = &mut *guard;
        // All connections are being closed, or the client of the private connection is gone.
        let is_over = tasks.is_begun() || (key.affinity.is_some() && state.find(key).is_none());
        let opened = opened.map(|connection| {
            // It is no longer needed: it is put into a group that no caller finds, and `keep` closes it.
            let mut nowhere = Group::new(key);
            let group = if is_over { &mut nowhere } else { state.settled(key, connection.peer().era()) };
            group.admit(connection)
        });
        if let Ok(live) = &opened {
            if is_over {
                live.retired.cancel();
            }
            // Spawned under the lock, because it must not find the connection closed before it is listed.
            tasks.spawn(Arc::clone(self).keep(Arc::clone(live), tasks.clone()));
        }
        if is_over {
            return; // waiting callers learn it from the dropped sender
        }
        if let Some(group) = state.find_mut(key) {
            group.connecting = None;
            group.no_extra_before = opened.as_ref().err().map(|_| Instant::now() + NO_EXTRA);
        }
        match &opened {
            Ok(live) => {
                self.events.heard();
                self.arrived(state, live);
            }
            // Set before another caller can connect, because refused credentials must not be tried again and again.
            Err(refused) if refused.refuses_credentials() && !self.limits.is_per_principal => {
                state.shut.get_or_insert(refused.clone());
                self.publish(state, None);
            }
            // This does not concern the server.
            Err(Error::Unavailable { .. }) => {}
            // The server may be another one when it is reachable again.
            Err(_) if state.groups.iter().all(|group| group.live.is_empty()) => {
                self.connector.forget();
                self.occupancy.send_modify(|occupancy| occupancy.failed_starts += 1);
            }
            Err(_) => {}
        }
        state.tried(key);
        drop(guard);
        done.send_replace(Some(opened));
    }

    /// Publishes a new connection.
    fn arrived(self: &Arc<Self>, state: &mut State, live: &Live) {
        self.publish(state, None);
        if live.key != state.base && live.key.affinity.is_none() {
            self.occupancy.send_modify(|occupancy| occupancy.other_arrivals += 1);
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
    }

    /// Waits until a connection closes or is to be closed, and removes it.
    async fn keep(self: Arc<Self>, live: Arc<Live>, tasks: Shutdown) {
        tokio::select! {
            reason = live.connection.closed() => self.evict(&live, &self.secrets.redact(&reason)),
            () = private::hangs(&live, self.limits.silence_limits) => self.evict(&live, private::HUNG),
            () = live.retired.cancelled() => {}
            () = tasks.requested() => {}
        }
        if timeout(CLOSE_LIMIT, live.connection.close()).await.is_err() {
            tracing::warn!("a connection did not close in time");
        }
    }

    /// Removes the connections whose session was forgotten, before their tasks do it.
    pub(crate) fn evict_lost(&self) {
        let lost: Vec<Arc<Live>> = {
            let state = self.lock();
            let live = state.groups.iter().flat_map(|group| &group.live);
            live.filter(|live| live.connection.has_lost_session()).cloned().collect()
        };
        for live in &lost {
            self.evict(live, SESSION_LOST);
        }
    }

    fn evict(&self, live: &Arc<Live>, reason: &str) {
        let mut state = self.lock();
        let is_base = live.key == state.base;
        let Some(group) = state.find_mut(live.key) else { return };
        let before = group.live.len();
        group.live.retain(|other| !Arc::ptr_eq(other, live));
        if group.live.len() < before {
            if live.connection.has_lost_session() {
                // The server is well, and the next connect need not wait.
            } else if group.live.is_empty() {
                group.flap_backoff.lost(live.since.elapsed());
            } else {
                // Otherwise an overloaded server would get another connection for each request.
                group.no_extra_before = Some(Instant::now() + NO_EXTRA);
            }
            if is_base {
                self.publish(&state, Some(reason.into()));
            } else {
                tracing::debug!(reason, "a connection of another dialect closed");
            }
        }
    }
}

/// Resolves when the session of a connection has ended; never without a session.
async fn over(affinity: Option<Affinity>) {
    match affinity {
        Some(affinity) => affinity.ended().await,
        None => pending().await,
    }
}

// Closing the shared connections of a server that nothing needs.
//
// Invariants: the decision and the removal are one step, so no call gets a connection that is about to close. The
// next connect waits until the closed ones have ended, because some programs can run only once.

impl Pool {
    /// Closes all shared connections, if no request uses them and `is_unneeded`. Returns whether it did.
    pub(crate) fn rest(&self, is_unneeded: impl FnOnce() -> bool) -> bool {
        let mut state = self.lock();
        let shared = || state.groups.iter().filter(|group| group.private.is_none());
        let is_connecting = shared().any(|group| group.connecting.is_some());
        let is_used = |live: &Arc<Live>| live.requests.load(Ordering::Relaxed) > 0;
        if is_connecting || shared().flat_map(|group| &group.live).any(is_used) || !is_unneeded() {
            return false;
        }
        let closed = shared().flat_map(|group| group.live.iter().cloned()).collect();
        state.resting = closed;
        state.groups.iter_mut().filter(|group| group.private.is_none()).for_each(super::Group::retire);
        self.publish(&state, None);
        true
    }

    /// Waits until the connections that were closed before have ended.
    pub(super) async fn rested(&self) {
        let resting = std::mem::take(&mut self.lock().resting);
        for live in resting {
            // The task of the connection has the same limit, and logs it.
            let _ = timeout(CLOSE_LIMIT, live.connection.close()).await;
        }
    }
}
