//! The reaction of the supervisor to health checks, answered or not.
//!
//! Invariants: a server that works on a call from before the health check is not judged by it (`liveness`). Lists are
//! read only from a server that has just answered, because a list may take longer than a health check. Connections with
//! running calls are closed only if an answer is overdue and none of these calls began before the server fell silent.
//! Such calls fail with an unknown outcome, and are not sent again.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Change, DEBOUNCE, Delivery, Done, Error, Phase, State, Supervisor};
use crate::liveness::{Patience, UNWELL};

impl Supervisor {
    /// Asks the server whether it is alive.
    pub(super) fn check(&mut self) {
        let upstream = Arc::clone(&self.upstream);
        self.task = Some(Box::pin(async move { Done::Checked(upstream.health_check().await) }));
    }

    /// Somebody gave up waiting, and nothing else was heard of the server either.
    pub(super) fn look_into_doubt(&mut self) {
        if self.occupancy.borrow().live > 0 && self.upstream.is_in_doubt() {
            self.check();
        }
    }

    /// Whether it was asked and may be at work on something that it was told to do before.
    pub(super) fn is_left_to_work(&self) -> bool {
        let silence = &self.upstream.silence;
        silence.open_for().is_some() && silence.is_excused()
    }

    pub(super) async fn is_well(&mut self) {
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

    pub(super) async fn is_unwell(&mut self, error: Error) {
        let is_refused = error.delivery() == Delivery::Refused;
        self.look_again_soon(is_refused);
        if is_refused {
            if self.is_past_hope() {
                self.start_anew(&error).await;
            }
            return;
        }
        let server = &self.upstream.config.name;
        if matches!(error, Error::TimedOut { .. }) && self.upstream.silence.is_excused() {
            tracing::debug!(%server, "no answer to a health check: it may be at work on a call from before");
            return;
        }
        tracing::warn!(%server, %error, "health check failed");
        self.failed_checks += 1;
        self.upstream.facts.failed(&error.to_string());
        self.publish(Change::State(State::Failed)).await;
        let is_unreachable = error.delivery() == Delivery::NotSent;
        let is_gone = is_unreachable || self.failed_checks >= UNWELL;
        if self.is_past_hope() || (is_gone && self.upstream.bulkhead.running() == 0) {
            self.start_anew(&error).await;
        }
    }

    /// After a list that never came: a connection on which nothing runs is worth nothing more.
    pub(super) async fn give_up_if_silent(&mut self, error: &Error) {
        let timeout = self.upstream.config.timeout;
        if matches!(error, Error::TimedOut { after } if *after >= timeout)
            && self.upstream.bulkhead.running() == 0
        {
            self.upstream.pool.close_all().await;
        }
    }

    /// While it is not well there is no need to wait for the usual time; nor when we refused to ask.
    fn look_again_soon(&mut self, is_refused: bool) {
        if !matches!(self.phase, Phase::Up { .. }) {
            return; // it is on the schedule of those that are down
        }
        let (now, silence) = (Instant::now(), &self.upstream.silence);
        let refused_for = self.upstream.breaker.refuses_for().unwrap_or_default();
        let admitted = is_refused.then(|| now + refused_for.max(DEBOUNCE));
        let is_silent = silence.open_for().is_some() && !silence.is_excused();
        let asked_twice = is_silent.then(|| now + self.upstream.health_limit() + DEBOUNCE);
        self.due = [admitted, asked_twice].into_iter().flatten().fold(self.next_tick(), Instant::min);
    }

    /// Whether it owed an answer for so long that none of the calls that run can come to anything.
    fn is_past_hope(&self) -> bool {
        let is_idle = self.upstream.bulkhead.running() == 0;
        self.upstream.silence.is_past_hope(Patience::of(&self.upstream.config), is_idle)
    }

    /// Ends its connections, its process with them, and begins anew when the breaker lets it.
    async fn start_anew(&mut self, error: &Error) {
        self.publish(Change::State(State::Failed)).await;
        self.failed_checks = 0;
        self.upstream.pool.close_all().await;
        // Who owed us an answer is gone.
        self.upstream.silence.broken();
        self.go_down(Some(error));
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
