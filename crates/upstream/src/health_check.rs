//! Health checks of one server.
//!
//! Invariants: a check uses the breaker and the pool like any other request. It takes at most
//! [`HEALTH_LIMIT`](super::HEALTH_LIMIT).
//!
//! Not here: the schedule of checks, and the reaction to their results (`supervise`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Upstream;
use super::attempt::Health;
use super::bulkhead::Lane;
use super::error::Error;
use crate::liveness::SilenceLimits;
use crate::supervisor_messages::Command;

impl Upstream {
    /// Asks whether the server is alive, connecting if need be; how long the answer took.
    pub async fn health_check(self: &Arc<Self>) -> Result<Duration, Error> {
        let begun = Instant::now();
        self.run(&Health(&self.liveness), Lane::Own, (begun + self.health_limit()).into()).await?;
        let latency = begun.elapsed();
        self.facts.measured(latency);
        Ok(latency)
    }

    /// Asks the server once, now, whether it is alive, and returns when its state says so.
    pub async fn check_now(self: &Arc<Self>) {
        if !self.config.enabled {
            return;
        }
        let begun = Instant::now();
        let deadline = begun + self.health_limit();
        let result = self.run_once(&Health(&self.liveness), deadline).await.map(|()| begun.elapsed());
        if let Ok(latency) = &result {
            self.facts.measured(*latency);
        }
        // Without room for it, or while the gateway ends, the supervisor finds out by itself.
        let _ = self.command(Instant::now(), |reply| Command::Checked { result, reply }).await;
    }

    /// How long a health check may take.
    pub(super) fn health_limit(&self) -> Duration {
        SilenceLimits::of(&self.config).check
    }
}
