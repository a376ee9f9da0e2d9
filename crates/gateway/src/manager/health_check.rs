//! Asking all servers now how they are, for operators.
//!
//! Invariants: one round runs at a time for all callers together. A request that comes while one runs, or
//! within [`LEAST_GAP`] of it, asks no server and is answered with what that round found. So the cost to
//! servers does not depend on the number of callers, and a caller that leaves early cannot start rounds faster.
//!
//! Not here: the checks that the supervisor of each server makes by itself (`upstream`).

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Manager;

/// Least time from the start or the end of one round to the start of the next.
pub(super) const LEAST_GAP: Duration = Duration::from_secs(5);

/// When the last round began or ended; locked while one runs.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<Option<Instant>>);

impl Manager {
    /// Checks every enabled server now, all at once. Each check has at most 10 s. A round that is younger than 5 s is not
    /// repeated. A failed check is a state of its server.
    pub async fn health_check(&self) {
        let mut last = self.rounds.0.lock().await;
        if last.is_none_or(|last| last.elapsed() >= LEAST_GAP) {
            *last = Some(Instant::now());
            let snapshot = self.snapshot();
            futures_util::future::join_all(
                snapshot.servers().iter().map(|server| server.upstream.check_now()),
            )
            .await;
            *last = Some(Instant::now());
        }
    }
}
