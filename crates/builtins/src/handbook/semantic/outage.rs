//! Remembers that a service failed, so that not every query waits for it.
//!
//! ```text
//!  available ──a failure──▶ not asked for [`REST`] ──one query then asks──▶ available, or not asked again
//! ```

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a service is not asked after a failure.
pub(super) const REST: Duration = Duration::from_secs(10);

/// See the head of this file.
pub(super) struct Outage {
    /// Name of the service, for log lines.
    whom: &'static str,
    /// When the service may be asked again. `None` while it is available.
    until: Mutex<Option<Instant>>,
}

impl Outage {
    /// State of the available service `whom`.
    pub(super) fn of(whom: &'static str) -> Self {
        Self { whom, until: Mutex::default() }
    }

    /// Whether the caller may ask the service. After the pause, only the first caller may.
    pub(super) fn may_ask(&self) -> bool {
        let mut until = self.lock();
        let now = Instant::now();
        let may = until.is_none_or(|until| until <= now);
        if may && until.is_some() {
            *until = Some(now + REST);
        }
        may
    }

    /// Records a response. Returns whether the service had failed before.
    pub(super) fn answered(&self) -> bool {
        let was_away = self.lock().take().is_some();
        if was_away {
            tracing::info!("{} answers again: the handbook is searched by meaning too", self.whom);
        }
        was_away
    }

    /// Records a failure, and logs the first one of an outage.
    pub(super) fn failed(&self, reason: &str) {
        let before = self.lock().replace(Instant::now() + REST);
        if before.is_none() {
            tracing::warn!(reason, "{} failed: the handbook is searched by words alone meanwhile", self.whom);
        }
    }

    /// Whether the service failed and has not answered since.
    pub(super) fn is_on(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        // Every change leaves a valid state.
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
