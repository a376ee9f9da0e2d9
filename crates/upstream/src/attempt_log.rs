//! The attempts of one call, for its record.
//!
//! Invariants: a log has at most [`MOST`] attempts with short errors. A call that is not recorded has no log.
//!
//! Does not see attempts of work that runs in another task, such as a result that another call fetches.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::error::Error;
use runtime::telemetry::untrusted;

/// Most attempts that are kept.
const MOST: usize = 16;

/// One attempt that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// From its beginning to its end, or to the beginning of a streamed response.
    pub duration: Duration,
    /// Why it failed, without secrets of the server; none if the server answered.
    pub error: Option<String>,
}

/// The attempts of one call that ended. Most calls have one, which needs no allocation.
pub type EndedAttempts = SmallVec<[Attempt; 1]>;

/// The attempts of one call so far, if it is watched. A clone is another call, which nobody watches yet.
#[derive(Debug, Default)]
pub struct AttemptLog(Mutex<Option<EndedAttempts>>);

impl Clone for AttemptLog {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl AttemptLog {
    /// Records attempts from now on.
    pub fn watch(&self) {
        *self.lock() = Some(EndedAttempts::new());
    }

    /// Moves the attempts to `next`, a call that is made for the same record.
    pub fn hand_over(&self, next: &Self) {
        *next.lock() = self.take();
    }

    /// Takes the attempts that ended; none if they are not watched.
    pub fn take(&self) -> Option<EndedAttempts> {
        self.lock().take()
    }

    /// Adds an attempt that began at `started`, if the call is watched.
    pub(super) fn record(&self, started: Instant, error: Option<&Error>) {
        if let Some(attempts) = self.lock().as_mut().filter(|attempts| attempts.len() < MOST) {
            let error = error.map(|error| untrusted(&error.to_string()).to_string());
            attempts.push(Attempt { duration: started.elapsed(), error });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<EndedAttempts>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
