//! The time of one piece of work at a server, all attempts included.
//!
//! Invariants: nothing is begun after the deadline. Work is polled before the clock, so a result at the deadline
//! counts.
//!
//! Not here: extensions of the deadline (`call_events`).

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::call_events::Deadline;
use super::connection::EventSender;
use runtime::worker::now;

/// The time of one piece of work, all attempts included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) deadline: Deadline,
    /// The time of the last wait. Without a wait the clock is not read again.
    pub(super) now: Instant,
}

impl Frame {
    /// The time from now to `deadline`.
    pub(super) fn until(deadline: impl Into<Deadline>) -> Self {
        Self { deadline: deadline.into(), now: now() }
    }

    /// The remaining time.
    pub(super) fn left(self) -> Duration {
        self.deadline.at.saturating_duration_since(self.now)
    }

    /// The whole time, including extensions by the messages in `event_sender`.
    pub(super) fn whole(self, event_sender: &EventSender) -> Duration {
        event_sender.moved(self.deadline).saturating_duration_since(self.deadline.started)
    }

    /// Returns the output of `work`, or `None` if the deadline comes first; then no part of it was begun after the
    /// deadline. The time in which server requests of the call are open does not count. Work is passed pinned, because
    /// moving it would need its memory twice.
    pub(super) async fn limit<T>(
        &mut self,
        event_sender: &EventSender,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        if self.now >= self.deadline.at {
            return None;
        }
        let mut expired = pin!(event_sender.expired(self.deadline));
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
