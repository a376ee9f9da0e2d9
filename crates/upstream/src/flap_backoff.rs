//! Whether a server that lets itself be connected to also stays: if its connections keep dying young,
//! the next connect waits, whoever asks for it. Otherwise each call to a program that dies of calls
//! would start it once more.
//!
//! Invariants: the first connect, and the one after a long life or a single early death, is
//! immediate; in a row of early deaths the pauses are those of `backoff`, so there are at most ten
//! connects in any minute.
//!
//! Not here: connects that fail; they count in the breaker.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::error::Error;

/// Who lived for so long did not die of being connected to.
const GROWN_UP: Duration = Duration::from_secs(10);
/// Early deaths further apart than this are no row.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(2);

/// The recent connections of one server.
#[derive(Debug, Default)]
pub(super) struct Stamina {
    backoff: Backoff,
    /// Early deaths in a row.
    early_deaths: u32,
    last_death: Option<Instant>,
    hold: Option<Instant>,
}

impl Stamina {
    /// A connect is made now.
    pub(super) fn connecting(&mut self) {
        self.backoff.tried();
    }

    /// The last connection closed by itself after `lived`.
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

    /// When the next connect may be made, if that is later than now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.hold.filter(|hold| *hold > Instant::now())
    }

    /// Whether no early death is remembered that another one would make a row with.
    pub(super) fn is_clean(&self) -> bool {
        self.held_until().is_none() && self.last_death.is_none_or(|last| last.elapsed() >= FORGOTTEN_AFTER)
    }

    /// [`Error::Connect`] while the next connect has to wait.
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
        let mut stamina = Stamina::default();
        for lived in [YOUNG, OLD, YOUNG, OLD, OLD, YOUNG] {
            stamina.connecting();
            stamina.lost(lived);
            assert_eq!(stamina.check(), Ok(()), "{lived:?}");
        }
        tokio::time::sleep(FORGOTTEN_AFTER).await;
        stamina.lost(YOUNG);
        assert_eq!(stamina.check(), Ok(()), "long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_dying_young_is_connected_to_ten_times_a_minute() {
        let (mut stamina, mut connects) = (Stamina::default(), Vec::new());
        while connects.len() < 100 {
            if let Some(until) = stamina.held_until() {
                let reason = stamina.check().expect_err("held").to_string();
                assert!(reason.contains("closed soon") && reason.contains(" s"), "{reason}");
                tokio::time::sleep_until(until).await;
            }
            connects.push(Instant::now());
            stamina.connecting();
            stamina.lost(Duration::ZERO);
        }
        for window in connects.windows(11) {
            assert!(window[10] - window[0] >= Duration::from_mins(1));
        }
    }
}
