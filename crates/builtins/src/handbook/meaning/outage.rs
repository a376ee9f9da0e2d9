//! What is remembered of somebody who failed, so that not every question waits for him.
//!
//! ```text
//!  well ──fails──▶ left alone for [`REST`] ──the first who comes then asks──▶ well, or left alone again
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// After a failure, how long nobody asks.
pub(super) const REST: Duration = Duration::from_secs(10);

/// See the head of this file.
pub(super) struct Outage {
    /// Who is asked.
    whom: &'static str,
    /// Until when nobody does; none while all is well.
    until: Mutex<Option<Instant>>,
}

impl Outage {
    /// Of `whom`, who is well.
    pub(super) fn of(whom: &'static str) -> Self {
        Self { whom, until: Mutex::default() }
    }

    /// Whether one may ask. Of those who come after the rest, the first one only.
    pub(super) fn may_ask(&self) -> bool {
        let mut until = self.lock();
        let now = Instant::now();
        let may = until.is_none_or(|until| until <= now);
        if may && until.is_some() {
            *until = Some(now + REST);
        }
        may
    }

    /// All is well. True when it was not before.
    pub(super) fn answered(&self) -> bool {
        let was_away = self.lock().take().is_some();
        if was_away {
            tracing::info!("{} answers again: the handbook is searched by meaning too", self.whom);
        }
        was_away
    }

    /// It failed; told once and not for every question.
    pub(super) fn failed(&self, reason: &str) {
        let before = self.lock().replace(Instant::now() + REST);
        if before.is_none() {
            tracing::warn!(reason, "{} failed: the handbook is searched by words alone meanwhile", self.whom);
        }
    }

    /// Whether it failed and has not answered since.
    pub(super) fn is_on(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // Every change leaves it whole.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
