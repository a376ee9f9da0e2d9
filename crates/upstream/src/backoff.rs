//! The schedule for reconnecting to a lost server in the background.
//!
//! Invariants: each pause is random (full jitter) below a ceiling that doubles up to 30 s. There are at most ten
//! attempts in any minute, whatever the random pauses are. A server that crashes at once is therefore not restarted all
//! the time. A server that keeps closing its connections soon is connected to on the same schedule ([`FlapBackoff`]).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;
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

/// Connections older than this are not counted as flapping.
const GROWN_UP: Duration = Duration::from_secs(10);
/// Early losses further apart than this are not counted as a row.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(2);

/// The recent connections of one server.
///
/// Invariants: the first connect is immediate. So is a connect after a long connection or after a single early loss.
/// After several early losses in a row the pauses are those of `backoff`, so there are at most ten connects in any
/// minute.
#[derive(Debug, Default)]
pub(super) struct FlapBackoff {
    backoff: Backoff,
    /// Early losses in a row.
    early_deaths: u32,
    last_death: Option<Instant>,
    hold: Option<Instant>,
}

impl FlapBackoff {
    /// Records a connect at the current time.
    pub(super) fn connecting(&mut self) {
        self.backoff.tried();
    }

    /// Records that the last connection closed by itself after `lived`.
    pub(super) fn lost(&mut self, lived: Duration) {
        let is_row = self.last_death.is_some_and(|last| last.elapsed() < FORGOTTEN_AFTER);
        self.last_death = Some(Instant::now());
        if lived >= GROWN_UP || !is_row {
            self.backoff.reset();
            self.early_deaths = 0;
        }
        self.early_deaths += u32::from(lived < GROWN_UP);
        self.hold = (self.early_deaths > 1).then(|| self.backoff.next());
    }

    /// The earliest time of the next connect, if that is later than now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.hold.filter(|hold| *hold > Instant::now())
    }

    /// Whether there is no early loss that another one would form a row with.
    pub(super) fn is_clean(&self) -> bool {
        self.held_until().is_none() && self.last_death.is_none_or(|last| last.elapsed() >= FORGOTTEN_AFTER)
    }

    /// Returns [`Error::Connect`] while the next connect must wait.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Some(until) = self.held_until() else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now()).as_secs_f64();
        let deaths = self.early_deaths;
        Err(Error::Connect {
            reason: format!(
                "the last {deaths} connections closed soon after they were made, the next one is made in {wait:.1} s"
            ),
        })
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

#[cfg(test)]
mod flap_backoff_tests {
    use super::*;

    const YOUNG: Duration = Duration::from_secs(1);
    const OLD: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn one_early_death_and_one_after_a_long_life_hold_nobody() {
        let mut flap_backoff = FlapBackoff::default();
        for lived in [YOUNG, OLD, YOUNG, OLD, OLD, YOUNG] {
            flap_backoff.connecting();
            flap_backoff.lost(lived);
            assert_eq!(flap_backoff.check(), Ok(()), "{lived:?}");
        }
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        flap_backoff.lost(YOUNG);
        assert_eq!(flap_backoff.check(), Ok(()), "long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_keeps_exiting_early_is_connected_to_ten_times_a_minute() {
        let (mut flap_backoff, mut connects) = (FlapBackoff::default(), Vec::new());
        while connects.len() < 100 {
            if let Some(until) = flap_backoff.held_until() {
                let reason = flap_backoff.check().expect_err("held").to_string();
                assert!(reason.contains("closed soon") && reason.contains(" s"), "{reason}");
                tokio::time::sleep_until(until).await;
            }
            connects.push(Instant::now());
            flap_backoff.connecting();
            flap_backoff.lost(Duration::ZERO);
        }
        for window in connects.windows(11) {
            assert!(window[10] - window[0] >= Duration::from_mins(1));
        }
    }
}
