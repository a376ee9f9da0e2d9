//! The time that one piece of work at a server has, all attempts included.
//!
//! Invariants: nothing is begun after the deadline; work is polled before the clock, so what is done at the
//! deadline counts.
//!
//! Not here: what moves the deadline (`deadline`, `call_events`).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Outlet;
use super::deadline::Deadline;
use runtime::worker::now;

/// The time one piece of work has, all attempts included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    begun: Instant,
    pub(super) deadline: Deadline,
    /// As of the last wait: while nobody waits no time passes, and a clock is not read for nothing.
    pub(super) now: Instant,
}

impl Frame {
    /// From now to `deadline`.
    pub(super) fn until(deadline: impl Into<Deadline>) -> Self {
        let now = now();
        Self { begun: now, deadline: deadline.into(), now }
    }

    /// Time that is left.
    pub(super) fn left(self) -> Duration {
        self.deadline.at.saturating_duration_since(self.now)
    }

    /// All the time that it has, with what the messages in `outlet` added.
    pub(super) fn whole(self, outlet: &Outlet) -> Duration {
        outlet.moved(self.deadline).saturating_duration_since(self.begun)
    }

    /// The output of `work`, or `None` when the deadline comes first; then nothing of it was begun
    /// after the deadline. The time in which questions of the call are open does not count. Work comes
    /// pinned, because what is handed over would take its room twice.
    pub(super) async fn limit<T>(
        &mut self,
        outlet: &Outlet,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        if self.now >= self.deadline.at {
            return None;
        }
        let mut expired = pin!(outlet.expired(self.deadline));
        let mut has_waited = false;
        let output = poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            has_waited = true;
            expired.as_mut().poll(context).map(|()| None)
        })
        .await;
        if has_waited {
            self.now = now();
        }
        output
    }
}
