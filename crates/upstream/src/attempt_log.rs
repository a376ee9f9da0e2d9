//! The attempts of one call, for its record.
//!
//! Invariants: a log has at most [`MOST`] attempts with short errors. A call that is not recorded has no log.
//!
//! Does not see attempts of work that runs in another task, such as a result that another call fetches.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

/// The attempts of one call so far, if it is watched. Clones are the same log.
#[derive(Debug, Clone, Default)]
pub struct AttemptLog(OnceLock<Arc<Mutex<EndedAttempts>>>);

impl AttemptLog {
    /// Records attempts from now on.
    pub fn watch(&self) {
        self.0.get_or_init(Arc::default);
    }

    /// Takes the attempts that ended.
    pub fn take(&self) -> EndedAttempts {
        let take =
            |log: &Arc<Mutex<_>>| std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.get().map(take).unwrap_or_default()
    }

    /// Adds an attempt that began at `started`, if the call is watched.
    pub(super) fn record(&self, started: Instant, error: Option<&Error>) {
        let Some(log) = self.0.get() else { return };
        let mut attempts = log.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() < MOST {
            let error = error.map(|error| untrusted(&error.to_string()).to_string());
            attempts.push(Attempt { duration: started.elapsed(), error });
        }
    }
}
