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
use super::connection::{Call, Connection, EventSender};
use super::error::Error;
use super::request::Request;
use super::response_stream::ResponseBody;
use crate::supervisor_messages::Command;

impl Upstream {
    /// Sends the health request of the era of the server. Any answer is a success. So is one to another request meanwhile,
    /// because some programs ignore `ping`.
    pub(super) async fn check_on(&self, connection: &dyn Connection) -> Result<ResponseBody, Error> {
        self.liveness.ask();
        let call = Call::of_gateway(connection.peer().version.health_method(), None);
        let answered = connection.request(&call, &EventSender::none()).await;
        // Any result ends the check. Only the deadline counts as silence.
        self.liveness.broken();
        answered
    }

    /// Whether the server answered any request during the last `time`.
    pub(super) fn was_heard_for(&self, time: Duration) -> bool {
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
    pub(super) fn health_limit(&self) -> Duration {
        self.config.silence_limits().check
    }
}
