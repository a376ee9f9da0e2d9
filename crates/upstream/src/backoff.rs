//! The schedule for reconnecting to a lost server in the background.
//!
//! Invariants: each pause is random (full jitter) below a ceiling that doubles up to 30 s. There are at most ten
//! attempts in any minute, whatever the random pauses are. A server that crashes at once is therefore not restarted all
//! the time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::retry::{ceiling, full_jitter};

/// The ceiling of the first pause.
const FIRST: Duration = Duration::from_millis(500);
/// The ceiling of any pause.
const LONGEST: Duration = Duration::from_secs(30);
/// The most attempts in one [`WINDOW`].
const MOST: usize = 10;
/// See [`MOST`].
const WINDOW: Duration = Duration::from_mins(1);

/// The schedule of one server.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// The times of the last attempts, oldest first.
    tries: VecDeque<Instant>,
}

impl Backoff {
    /// Records an attempt at the current time.
    pub(super) fn tried(&mut self) {
        if self.tries.len() == MOST {
            self.tries.pop_front();
        }
        self.tries.push_back(Instant::now());
    }

    /// The time of the next attempt after a failure or a loss.
    pub(super) fn next(&mut self) -> Instant {
        let pause = full_jitter(ceiling(FIRST, LONGEST, self.failures));
        self.failures = self.failures.saturating_add(1);
        let next = Instant::now() + pause;
        match self.tries.front() {
            Some(&oldest) if self.tries.len() == MOST => next.max(oldest + WINDOW),
            _ => next,
        }
    }

    /// Resets the pauses after the server was stable for long.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn at_most_ten_tries_in_any_minute() {
        let mut backoff = Backoff::default();
        let mut tries = Vec::new();
        for _ in 0..200 {
            backoff.reset(); // simulates the shortest random pauses
            backoff.tried();
            tries.push(Instant::now());
            tokio::time::sleep_until(backoff.next()).await;
        }
        for window in tries.windows(MOST + 1) {
            assert!(window[MOST] - window[0] >= WINDOW);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_half_a_minute() {
        let mut longest = [Duration::ZERO; 9];
        for _ in 0..300 {
            let mut backoff = Backoff::default();
            for longest in &mut longest {
                *longest = (*longest).max(backoff.next() - Instant::now());
            }
        }
        assert!(longest[0] <= FIRST && longest[0] > FIRST / 2);
        assert!(longest[3] <= FIRST * 8 && longest[3] > FIRST * 4);
        assert!(longest[8] <= LONGEST && longest[8] > LONGEST / 2);
    }
}
