//! Health checks of one server.
//!
//! Invariants: a check uses the breaker and the pool like any other request. It takes at most
//! [`HEALTH_LIMIT`](super::HEALTH_LIMIT).
//!
//! Not here: the schedule of checks, and the reaction to their results (`supervise`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::Upstream;
use super::bulkhead::Lane;
use super::connection::{Call, Connection, EventSender};
use super::error::Error;
use super::retry::RetrySafety;
use super::work::Work;
use crate::supervisor_messages::Command;

/// Checks whether the server is alive, with the health request of its era. Any answer is a success. So is one to another
/// request meanwhile, because some programs ignore `ping`.
struct Health<'a> {
    upstream: &'a Upstream,
    started: Instant,
}

impl Work for Health<'_> {
    type Output = ();

    fn name(&self) -> &'static str {
        "health"
    }

    fn kind(&self) -> RetrySafety {
        RetrySafety::Read
    }

    fn is_excused(&self) -> bool {
        self.upstream.liveness.is_excused() || self.upstream.was_heard_for(self.started.elapsed())
    }

    fn on<'a>(&'a self, connection: &'a dyn Connection) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let liveness = &self.upstream.liveness;
            liveness.ask();
            let call = Call::of_gateway(connection.peer().version.health_method(), None);
            let answered = connection.request(&call, &EventSender::none()).await;
            // Any result ends the check. Only the deadline counts as silence.
            liveness.broken();
            answered.map(drop)
        })
    }
}

impl Upstream {
    /// Whether the server answered any request during the last `time`.
    pub(super) fn was_heard_for(&self, time: Duration) -> bool {
        self.stats.seen_ago().is_some_and(|ago| ago < time)
    }

    fn health(&self) -> Health<'_> {
        Health { upstream: self, started: Instant::now() }
    }

    /// Asks whether the server is alive, connecting if need be; how long the answer took.
    pub async fn health_check(self: &Arc<Self>) -> Result<Duration, Error> {
        let started = Instant::now();
        self.run(&self.health(), Lane::Own, (started + self.health_limit()).into()).await?;
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
        let result = self.run_once(&self.health(), deadline).await.map(|()| started.elapsed());
        if let Ok(latency) = &result {
            self.stats.measured(*latency);
        }
        // Without room for it, or while the gateway ends, the supervisor finds out by itself.
        let _ = self.command(Instant::now(), |reply| Command::Checked { result, reply }).await;
    }

    /// How long a health check may take.
    pub(super) fn health_limit(&self) -> Duration {
        self.config.silence_limits().check
    }
}
