//! Facts about a server that was never reached, or is down.
//!
//! Not here: its last offer and its state (`status`), the time of the next attempt (`supervise`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Offer, State, Upstream};

/// The retry time for a caller while an attempt to connect is pending.
const ATTEMPT_RETRY_IN: Duration = Duration::from_secs(1);
/// The shortest retry time for a caller.
const LEAST_RETRY_IN: Duration = Duration::from_millis(100);

impl Upstream {
    /// Its offer before it was reached; `None`, except for built-in servers.
    pub fn declared(&self) -> Option<Arc<Offer>> {
        self.declared.clone()
    }

    /// The time at which it was started.
    pub const fn started(&self) -> Instant {
        self.stats.started()
    }

    /// Returns when a call to a server that is down may succeed: after the next attempt to connect.
    pub fn retry_in(&self) -> Option<Duration> {
        let reported = self.stats.reported();
        if !matches!(reported.state, State::Connecting | State::Failed) {
            return None;
        }
        let due = reported.next_attempt.map(|at| at.saturating_duration_since(Instant::now()));
        Some(due.unwrap_or(ATTEMPT_RETRY_IN).max(LEAST_RETRY_IN))
    }

    /// Records that somebody has logged in, so `last_error` does not ask for a login any more.
    pub fn login_succeeded(&self) {
        self.stats.login_succeeded();
    }

    /// The problems of its offer, and those of connecting.
    pub(super) fn problems(&self, offer: Option<&Offer>) -> Vec<String> {
        let of_offer = offer.into_iter().flat_map(|offer| offer.problems.iter().cloned());
        of_offer.chain(self.pool.connector.remark()).collect()
    }
}
