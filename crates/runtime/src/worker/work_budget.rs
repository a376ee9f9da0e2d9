//! Yields for loops that read from peers, so that no peer occupies a worker.
//!
//! A worker runs one task at a time, and a task that always finds data never ends its turn. The budget of the runtime
//! counts reads, and one read may bring hundreds of kilobytes. A loop therefore charges each item that it handled, and
//! yields when it has worked for [`TURN`] since it began or last yielded.
//!
//! Invariants: a loop that handles little never reads the clock. A loop that waited in between yields at most once too
//! often. Not here: limits for the amount that a peer may send.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::task::yield_now;

/// How long one loop works before the other tasks of its worker get their turn.
const TURN: Duration = Duration::from_micros(200);
/// Bytes after which the clock is read again.
const CHECK_EVERY: usize = 4 * 1024;
/// Bytes that each item counts for in addition to its own.
const ITEM: usize = 128;

/// The work of one loop since it last yielded.
#[derive(Debug, Default)]
pub struct WorkBudget {
    /// Bytes since the clock was read.
    unchecked: usize,
    /// When the turn began, as far as the loop knows.
    since: Option<Instant>,
}

impl WorkBudget {
    /// A budget whose first turn begins with the first items.
    pub const fn new() -> Self {
        Self { unchecked: 0, since: None }
    }

    /// Records that an item of `bytes` was handled.
    pub const fn charge(&mut self, bytes: usize) {
        self.unchecked = self.unchecked.saturating_add(bytes).saturating_add(ITEM);
    }

    /// Whether the turn may be over. [`WorkBudget::yield_if_spent`] checks it.
    pub const fn may_be_spent(&self) -> bool {
        self.unchecked >= CHECK_EVERY
    }

    /// Lets other tasks run if the turn is over.
    pub async fn yield_if_spent(&mut self) {
        if self.may_be_spent() {
            poll_fn(|context| self.poll_yield(context)).await;
        }
    }

    /// Pending once if the turn is over; then the task of `context` is woken after the others.
    pub fn poll_yield(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.may_be_spent() || !self.ends_at(Instant::now()) {
            return Poll::Ready(());
        }
        // The runtime wakes it after it has checked for events. The waker itself may be suppressed here (`poll_clock`).
        pin!(yield_now()).poll(context)
    }

    fn ends_at(&mut self, now: Instant) -> bool {
        self.unchecked = 0;
        let since = *self.since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= TURN;
        if is_over {
            self.since = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_turn_ends_when_its_time_is_over_and_the_next_one_begins_with_the_next_item() {
        let (mut budget, now) = (WorkBudget::new(), Instant::now());
        assert!(!budget.ends_at(now));
        assert!(!budget.ends_at(now + TURN / 2));
        assert!(budget.ends_at(now + TURN));
        assert!(!budget.ends_at(now + 3 * TURN), "the pause does not count");
        assert!(budget.ends_at(now + 4 * TURN));
    }

    #[tokio::test]
    async fn a_loop_that_never_waits_lets_other_tasks_run() {
        let (others, mut budget) = (Arc::new(AtomicUsize::new(0)), WorkBudget::new());
        let (seen, started) = (Arc::clone(&others), Instant::now());
        let other = async move {
            loop {
                seen.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        };
        let work = async {
            while started.elapsed() < 50 * TURN {
                budget.charge(CHECK_EVERY);
                budget.yield_if_spent().await;
            }
        };
        tokio::select! { () = work => {}, () = other => {} }
        let turns = others.load(Ordering::Relaxed);
        assert!(turns >= 5, "the other one ran {turns} times");
    }

    #[tokio::test]
    async fn little_work_never_yields() {
        let mut budget = WorkBudget::new();
        budget.charge(CHECK_EVERY / 2);
        assert!(futures_util::FutureExt::now_or_never(budget.yield_if_spent()).is_some());
        assert_eq!(budget.since, None);
    }
}
