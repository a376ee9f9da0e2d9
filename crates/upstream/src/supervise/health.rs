//! The reaction of the supervisor to health checks, answered or not.
//!
//! Invariants: a server that works on a call from before the health check is not judged by it (`liveness`). Lists are
//! read only from a server that has just answered, because a list may take longer than a health check. Connections with
//! running calls are closed only if an answer is overdue and none of these calls began before the server fell silent.
//! Such calls fail with an unknown outcome, and are not sent again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Change, DEBOUNCE, Delivery, Phase, State, Supervisor, TaskResult};
use crate::Upstream;
use crate::connection::{Call, Connection, EventSender};
use crate::error::Error;
use crate::liveness::UNWELL;
use crate::request::Request;
use crate::response_stream::ResponseBody;
use crate::supervisor_messages::Command;

impl Supervisor {
    /// Begins a health check.
    pub(super) fn check(&mut self) {
        let upstream = Arc::clone(&self.upstream);
        self.task = Some(Box::pin(async move { TaskResult::Checked(upstream.health_check().await) }));
    }

    /// Checks the health after a caller gave up, if no other message came from the server either.
    pub(super) fn check_after_cancel(&mut self) {
        if self.occupancy.borrow().live > 0 && self.upstream.needs_health_check() {
            self.check();
        }
    }

    /// Whether a health check is unanswered because the server may still work on an earlier call.
    pub(super) fn is_left_to_work(&self) -> bool {
        let liveness = &self.upstream.liveness;
        liveness.open_for().is_some() && liveness.is_excused()
    }

    pub(super) async fn check_succeeded(&mut self) {
        let was_unwell = std::mem::take(&mut self.failed_checks) > 0;
        if !matches!(self.phase, Phase::Up { .. }) {
            return; // its offer is read when that is due
        }
        self.due = self.next_tick();
        if was_unwell {
            // It may have been restarted meanwhile, with other tools.
            self.expect_change();
            self.publish(Change::State(State::Ready)).await;
        }
        if self.refresh.is_due() {
            self.discover(None);
        }
    }

    pub(super) async fn check_failed(&mut self, error: Error) {
        if matches!(error, Error::TimedOut { .. })
            && self.upstream.was_heard_for(self.upstream.health_limit())
        {
            return self.check_succeeded().await;
        }
        let is_refused = error.delivery() == Delivery::Refused;
        self.check_again_soon(is_refused);
        if is_refused {
            if self.is_beyond_recovery() {
                self.start_anew(&error).await;
            }
            return;
        }
        let server = &self.upstream.config.name;
        if matches!(error, Error::TimedOut { .. }) && self.upstream.liveness.is_excused() {
            tracing::debug!(%server, "no answer to a health check: it may be at work on a call from before");
            return;
        }
        tracing::warn!(%server, %error, "health check failed");
        self.failed_checks += 1;
        self.upstream.stats.failed(&error.to_string());
        self.publish(Change::State(State::Failed)).await;
        let is_unreachable = error.delivery() == Delivery::NotSent;
        let is_gone = is_unreachable || self.failed_checks >= UNWELL;
        if self.is_beyond_recovery() || (is_gone && self.upstream.bulkhead.running() == 0) {
            self.start_anew(&error).await;
        }
    }

    /// Handles a list that never came: without a running call the connections are closed.
    pub(super) async fn give_up_if_silent(&mut self, error: &Error) {
        let timeout = self.upstream.config.timeout;
        if matches!(error, Error::TimedOut { after } if *after >= timeout)
            && self.upstream.bulkhead.running() == 0
        {
            self.upstream.pool.close_all().await;
        }
    }

    /// Schedules the next check early if the server is unwell, or if the breaker refused the check.
    fn check_again_soon(&mut self, is_refused: bool) {
        if !matches!(self.phase, Phase::Up { .. }) {
            return; // it is on the schedule of a server that is down
        }
        let (now, liveness) = (Instant::now(), &self.upstream.liveness);
        let refused_for = self.upstream.breaker.refuses_for(None).unwrap_or_default();
        let admitted = is_refused.then(|| now + refused_for.max(DEBOUNCE));
        let is_silent = liveness.open_for().is_some() && !liveness.is_excused();
        let asked_twice = is_silent.then(|| now + self.upstream.health_limit() + DEBOUNCE);
        self.due = [admitted, asked_twice].into_iter().flatten().fold(self.next_tick(), Instant::min);
        self.check_due = self.due;
    }

    /// Whether it owed an answer for so long that no running call can still succeed.
    fn is_beyond_recovery(&self) -> bool {
        let is_idle = self.upstream.bulkhead.running() == 0;
        self.upstream.liveness.is_beyond_recovery(self.upstream.config.silence_limits(), is_idle)
    }

    /// Closes its connections and its process, and connects again when the breaker allows it.
    async fn start_anew(&mut self, error: &Error) {
        self.publish(Change::State(State::Failed)).await;
        self.failed_checks = 0;
        self.upstream.pool.close_all().await;
        // The connections that owed an answer are closed.
        self.upstream.liveness.broken();
        self.go_down(Some(error));
    }
}

// Health checks of one server.
//
// Invariants: a check uses the breaker and the pool like any other request. It takes at most
// [`HEALTH_LIMIT`](super::HEALTH_LIMIT).

impl Upstream {
    /// Sends the health request of the era of the server. Any answer is a success. So is one to another request meanwhile,
    /// because some programs ignore `ping`.
    pub(crate) async fn check_on(&self, connection: &dyn Connection) -> Result<ResponseBody, Error> {
        self.liveness.ask();
        let call = Call::of_gateway(connection.peer().version.health_method(), None);
        let answered = connection.request(&call, &EventSender::none()).await;
        // Any result ends the check. Only the deadline counts as silence.
        self.liveness.broken();
        answered
    }

    /// Whether the server answered any request during the last `time`.
    pub(crate) fn was_heard_for(&self, time: Duration) -> bool {
        self.stats.seen_ago().is_some_and(|ago| ago < time)
    }

    /// Asks whether the server is alive, connecting if need be; how long the answer took.
    pub async fn health_check(self: &Arc<Self>) -> Result<Duration, Error> {
        let started = Instant::now();
        self.run(&Request::check(), (started + self.health_limit()).into()).await?;
        let latency = started.elapsed();
        self.stats.measured(latency);
        Ok(latency)
    }

    /// Asks the server once, now, whether it is alive, and returns when its state says so.
    pub async fn check_now(self: &Arc<Self>) {
        // A server that rests is well until it is needed, and a check would wake it.
        if !self.config.enabled || self.stats.is_resting() {
            return;
        }
        let started = Instant::now();
        let deadline = started + self.health_limit();
        let result = self.run_once(&Request::check(), deadline).await.map(|_| started.elapsed());
        if let Ok(latency) = &result {
            self.stats.measured(*latency);
        }
        // Without room for it, or while the gateway ends, the supervisor finds out by itself.
        let _ = self.command(Instant::now(), |reply| Command::Checked { result, reply }).await;
    }

    /// How long a health check may take.
    pub(crate) fn health_limit(&self) -> Duration {
        self.config.silence_limits().check
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
