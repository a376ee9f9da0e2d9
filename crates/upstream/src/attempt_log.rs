//! The attempts of one call, for somebody who watches it.
//!
//! [`AttemptLog::during`] makes a log known to the work that it wraps, and each attempt of that work then adds its end.
//! Invariants: a log has at most [`MOST`] attempts with short errors. Without a log, an attempt costs one look at a
//! variable of the task.
//!
//! Does not see attempts of work that runs in another task, such as a result that another call fetches.

use std::cell::RefCell;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;

use super::error::Error;
use runtime::telemetry::untrusted;

/// Most attempts that are kept.
const MOST: usize = 16;

tokio::task_local! {
    static LOG: AttemptLog;
}

/// One attempt that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// From its beginning to its end, or to the beginning of a streamed response.
    pub duration: Duration,
    /// Why it failed, without secrets of the server; none if the server answered.
    pub error: Option<String>,
}

/// The attempts of one call so far.
#[derive(Debug, Default)]
pub struct AttemptLog(RefCell<EndedAttempts>);

/// The attempts of one call that ended. Most calls have one, which needs no allocation.
pub type EndedAttempts = SmallVec<[Attempt; 1]>;

impl AttemptLog {
    /// Makes a log known to `work`. It can be taken from the returned future.
    pub fn during<F: Future>(work: F) -> TaskLocalFuture<Self, F> {
        LOG.scope(Self::default(), work)
    }
}

impl From<AttemptLog> for EndedAttempts {
    fn from(log: AttemptLog) -> Self {
        log.0.into_inner()
    }
}

/// Adds an attempt that began at `begun`, if its call is watched.
pub(super) fn note(begun: Instant, error: Option<&Error>) {
    // Without a log, nobody watches this call.
    let _ = LOG.try_with(|log| {
        let mut attempts = log.0.borrow_mut();
        if attempts.len() < MOST {
            let error = error.map(|error| untrusted(&error.to_string()).to_string());
            attempts.push(Attempt { duration: begun.elapsed(), error });
        }
    });
}
