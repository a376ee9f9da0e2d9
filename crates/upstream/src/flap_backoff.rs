//! Backoff for a flapping server: it accepts connections, but they close soon. If that repeats, the next connect waits,
//! whichever caller needs it. Otherwise each call to a program that crashes on calls would start it again.
//!
//! Invariants: the first connect is immediate. So is a connect after a long connection or after a single early loss.
//! After several early losses in a row the pauses are those of `backoff`, so there are at most ten connects in any
//! minute.
//!
//! Not here: connects that fail, which count for the breaker.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::error::Error;

/// Connections older than this are not counted as flapping.
const GROWN_UP: Duration = Duration::from_secs(10);
/// Early losses further apart than this are not counted as a row.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(2);

/// The recent connections of one server.
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
