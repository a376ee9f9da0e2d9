//! Detects whether the server of a private connection hangs. Health checks use the base dialect. If each
//! client has a process of its own, they reach another process and say nothing about this one.
//!
//! Invariants: the server is checked only after a client gave up a call on the connection. The rules are
//! those of all servers (`liveness`): any answer shows that it does not hang, and a call from before the
//! check excuses it. It hangs if it stays silent for the time of two checks, and while calls run also for the
//! time limit of a call. Then the connection ends with its calls, which are not retried. The next call of the
//! client opens another one. Other clients are not affected.
//!
//! Not here: how the calls count for the breaker (`inflight_guard`).

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Pool;
use super::group::{Group, Live};
use crate::config::Sharing;
use crate::connection::{Call, Connection, EventSender};
use crate::liveness::{Liveness, SilenceLimits};
use crate::session_affinity::Affinity;
use json::Raw;
use protocol::{Era, LogLevel};

/// How often to check whether the earlier calls have ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Why the connection ended.
pub(super) const HUNG: &str = "the server answers nothing";

/// Resolves when the server of `live` hangs. On connections that are checked elsewhere, it never resolves.
pub(super) async fn hangs(live: &Live, silence_limits: SilenceLimits) {
    let Some(liveness) = &live.liveness else { return pending().await };
    loop {
        liveness.check_requested().await;
        if owes_an_answer(live, liveness, silence_limits).await {
            return;
        }
    }
}

async fn owes_an_answer(live: &Live, liveness: &Liveness, silence_limits: SilenceLimits) -> bool {
    let ping = Call::of_gateway(live.connection.peer().version.health_method(), None);
    loop {
        liveness.ask();
        if timeout(silence_limits.check, live.connection.request(&ping, &EventSender::none())).await.is_ok() {
            liveness.broken();
            return false;
        }
        let was_excused = liveness.is_excused();
        // Each of these calls has a deadline.
        while liveness.is_excused() {
            sleep(LOOK_EVERY).await;
        }
        if liveness.open_for().is_none() {
            return false; // something was heard meanwhile
        }
        let is_idle = live.requests.load(Ordering::Relaxed) == 0;
        if !was_excused && liveness.is_beyond_recovery(silence_limits, is_idle) {
            return true;
        }
    }
}

impl Pool {
    /// Whether the client of `affinity`, which declares `capabilities`, has private connections: the rule of
    /// `docs/sharing.md`.
    pub(crate) fn is_private_to(&self, affinity: &Affinity, capabilities: &Raw) -> bool {
        if self.limits.is_per_principal || affinity.is_of_program() {
            return self.limits.is_per_principal;
        }
        match self.limits.sharing {
            Sharing::Shared => false,
            Sharing::PerSession => true,
            Sharing::Auto if self.connector.is_a_process() => {
                let is_modern = self.era_for(affinity.era()) == Some(Era::Modern);
                self.signs.separates(affinity, if is_modern { None } else { Some(capabilities) })
            }
            Sharing::Auto => self.era_for(affinity.era()).is_some_and(|era| self.connector.has_sessions(era)),
        }
    }

    /// Whether it takes a connection to find out who shares.
    pub(crate) fn is_undecided(&self) -> bool {
        self.connector.speaks(Era::Modern).is_none()
            && self.limits.sharing == Sharing::Auto
            && !self.limits.is_per_principal
            && !self.connector.is_a_process()
    }

    /// The era in which a client of `client` is served; `None` until the eras of the server are known.
    pub(super) fn era_for(&self, client: Era) -> Option<Era> {
        let speaks = |era| self.connector.speaks(era);
        match (client, speaks(Era::Modern)?, speaks(Era::Legacy)) {
            (Era::Modern, true, _) | (Era::Legacy, _, Some(false)) => Some(Era::Modern),
            (Era::Modern, false, _) | (Era::Legacy, ..) => Some(Era::Legacy),
        }
    }

    /// Most processes that clients have of their own. Sessions at a server are not limited here.
    pub(crate) fn private_limit(&self) -> Option<usize> {
        self.connector.is_a_process().then_some(self.limits.connections)
    }

    /// Records that Switchyard closes connections of clients by itself.
    pub(super) fn closes(&self) {
        self.closings.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes when Switchyard closes connections of clients by itself.
    pub(crate) fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }

    /// Returns the private connection of `affinity`, if there is one.
    pub(crate) fn private_connection(&self, affinity: &Affinity) -> Option<Arc<dyn Connection>> {
        self.private_live(affinity).map(|live| Arc::clone(&live.connection))
    }

    /// Requests log lines of `level` and above on the private connection of `affinity`, if there is one.
    pub(crate) async fn want_private_log(&self, affinity: &Affinity, level: LogLevel) {
        if let Some(live) = self.private_live(affinity) {
            live.verbosity.raise(live.connection.as_ref(), level).await;
        }
    }

    /// Returns the shared connections, without those of the base dialect.
    pub(crate) fn other_connections(&self) -> Vec<Arc<dyn Connection>> {
        let state = self.lock();
        let others = state.groups.iter().filter(|group| group.key != state.base && group.private.is_none());
        others.filter_map(|group| group.live.first()).map(|live| Arc::clone(&live.connection)).collect()
    }

    fn private_live(&self, affinity: &Affinity) -> Option<Arc<Live>> {
        let state = self.lock();
        let is_its =
            |group: &&Group| group.private.as_ref().is_some_and(|private| private.affinity == *affinity);
        state.groups.iter().filter(is_its).find_map(|group| group.live.first().cloned())
    }
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
