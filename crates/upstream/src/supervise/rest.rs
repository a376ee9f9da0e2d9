//! Rest: a server that nothing needs has no process and no connection, and gets no request.
//!
//! Invariants: a server rests only if no call runs or waits, no resource or task is watched, and no message of it is
//! unread. Clients that listen for changes of lists do not keep it awake. A call connects by itself and so ends the
//! rest; the offer is then read again.
//!
//! Not here: closing the connections (`pool::lifetime`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Change, Phase, State, Supervisor};
use crate::Upstream;
use crate::config::{HealthCheck, Transport};
use crate::pool::Occupancy;

impl Upstream {
    /// How long nothing needs the server before it rests; `None` means that it never rests.
    pub(super) fn rests_after(&self) -> Option<Duration> {
        let lifecycle = self.config.lifecycle;
        let may_rest = match self.config.transport {
            Transport::Stdio(_) => self.starts_on_demand(),
            Transport::Http(_) | Transport::Sse(_) => lifecycle.health_check == HealthCheck::WhenUsed,
            Transport::Builtin(_) => false,
        };
        lifecycle.idle_timeout.filter(|_| may_rest)
    }

    /// Whether no call and no subscription needs the server.
    fn is_unneeded(&self) -> bool {
        self.bulkhead.running() == 0 && self.bulkhead.waiting() == 0 && self.watches.count() == 0
    }

    /// Whether a server that is down is left so until it is needed again. A program is not started in vain, and a server
    /// over HTTP is tried as long as it would not rest.
    pub(super) fn is_left_until_needed(&self) -> bool {
        let Some(after) = self.rests_after() else { return self.starts_on_demand() && self.is_unneeded() };
        let used = self.stats.used().unwrap_or(self.stats.started());
        let is_program = matches!(self.config.transport, Transport::Stdio(_));
        self.offer().is_some() && self.is_unneeded() && (is_program || used.elapsed() >= after)
    }
}

impl Supervisor {
    /// When the server may rest, if nothing needs it until then.
    pub(super) fn rest_due(&self) -> Option<Instant> {
        let Phase::Up { since } = self.phase else { return None };
        let used = self.upstream.stats.used().map_or(since, |used| used.max(since));
        Some(used + self.upstream.rests_after()?)
    }

    /// When to look again whether the server may rest. If something needed it when it was time, that is one more
    /// `idle_timeout` from now.
    pub(super) fn next_rest(&self) -> Option<Instant> {
        let (now, due) = (Instant::now(), self.rest_due()?);
        if due > now { Some(due) } else { Some(now + self.upstream.rests_after()?) }
    }

    /// Rests, if it is time and nothing needs the server. Returns whether it rests.
    pub(super) async fn rest(&mut self) -> bool {
        if self.rest_due().is_none_or(|due| due > Instant::now()) || !self.events.is_empty() {
            return false;
        }
        let upstream = Arc::clone(&self.upstream);
        if !upstream.pool.rest(|| upstream.is_unneeded()) {
            return false;
        }
        tracing::info!(server = %upstream.config.name, "the server is not used, so it rests until the next call");
        upstream.liveness.broken();
        self.stale = false;
        self.become_idle(State::Idle).await;
        true
    }

    /// Whether a call connected since the server rests.
    pub(super) fn is_woken(&self, there: &Occupancy) -> bool {
        let is_first = there.live > 0 && there.arrivals > self.rested.arrivals;
        is_first || there.other_arrivals > self.rested.other_arrivals
    }

    /// Waits for a call that connects.
    pub(super) async fn become_idle(&mut self, state: State) {
        self.phase = Phase::Idle;
        self.rested = self.occupancy.borrow_and_update().clone();
        self.arrival = self.rested.arrivals;
        self.upstream.stats.will_try(None);
        self.upstream.stats.set_resting(true);
        self.publish(Change::State(state)).await;
    }
}

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
