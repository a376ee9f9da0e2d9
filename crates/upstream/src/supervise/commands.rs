//! Commands of operators for one server: connect, reconnect, disconnect, or record a health check.
//!
//! Invariants: each command gets a reply, at the latest when the discovery that it began has ended. At most
//! [`MAX_WAITING`] wait for one discovery.
//!
//! Not here: how a command reaches the supervisor (`Upstream`).

use std::sync::Arc;

use tokio::time::Instant;

use super::{Change, Command, Error, MAX_WAITING, Offer, OfferReply, Phase, State, Supervisor, TaskResult};
use crate::COMMAND_RETRY_IN;

impl Supervisor {
    pub(super) async fn obey(&mut self, command: Command) {
        match command {
            Command::Connect { reply, .. } if matches!(self.phase, Phase::Up { .. }) => {
                let offer = self.upstream.offer().ok_or(Error::Unavailable { state: "connecting" });
                let _ = reply.send(offer); // the operator may have left
            }
            Command::Connect { deadline, reply } => self.start_over(deadline, reply).await,
            Command::Reconnect { deadline, reply } => {
                self.task = None;
                self.upstream.pool.close_all().await;
                self.start_over(deadline, reply).await;
            }
            Command::Disconnect { reply } => {
                self.switch_off().await;
                let _ = reply.send(Ok(())); // the operator may have left
            }
            Command::Checked { result, reply } => {
                // The next connect decides about a server that is down, and a running task about its own result.
                if matches!(self.phase, Phase::Up { .. }) && self.task.is_none() {
                    self.conclude(TaskResult::Checked(result)).await;
                }
                let _ = reply.send(Ok(())); // the operator may have left
            }
        }
    }

    async fn start_over(&mut self, deadline: Instant, reply: OfferReply) {
        if self.waiting.len() >= MAX_WAITING {
            let _ = reply.send(Err(Error::Overloaded { retry_in: COMMAND_RETRY_IN }));
            return;
        }
        self.waiting.push(reply);
        self.begin_again(Some(deadline)).await;
    }

    /// Accepts calls again and drops the record of earlier failures.
    pub(super) async fn begin_again(&mut self, deadline: Option<Instant>) {
        self.phase = Phase::Down;
        self.upstream.pool.open();
        self.upstream.breaker.reset();
        self.upstream.liveness.broken();
        self.publish(Change::State(State::Connecting)).await;
        self.discover(deadline);
    }

    async fn switch_off(&mut self) {
        self.task = None;
        self.phase = Phase::Off;
        let state = State::Disconnected;
        self.upstream.pool.shut(state.as_str());
        self.upstream.pool.close_all().await;
        self.publish(Change::State(state)).await;
        self.notify_waiting(&Err(Error::Unavailable { state: state.as_str() }));
    }

    pub(super) fn notify_waiting(&mut self, result: &Result<Arc<Offer>, Error>) {
        for reply in self.waiting.drain(..) {
            let _ = reply.send(result.clone()); // the operator may have left
        }
    }
}
