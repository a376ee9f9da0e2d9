//! The limit of changes that callers make to secrets of their own. Each change writes the whole vault.
//!
//! Invariants: a caller has [`OF_ONE`], whatever others do. At most [`AT_A_TIME`] changes of all callers wait for the vault,
//! so a renewed login waits for no more of them. A refused change counts as none.
//!
//! Not here: changes by operators, which have no limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::counts::Counts;
use super::{CALLS_RETRY_IN, LimitGuard};
use runtime::worker::now;

/// Changes of one caller in a minute, and at a time.
const OF_ONE: (Option<u32>, Option<u32>) = (Some(20), Some(1));
/// Changes of all callers at a time.
const AT_A_TIME: usize = 4;

/// The counts of changes.
#[derive(Debug)]
pub(in crate::manager) struct OwnChanges {
    counts: Arc<Counts>,
    places: Arc<Semaphore>,
}

/// The place of a change that runs.
#[must_use = "the change has its place as long as this lives"]
pub struct OwnChange {
    _counted: LimitGuard,
    _place: OwnedSemaphorePermit,
}

impl Default for OwnChanges {
    fn default() -> Self {
        Self { counts: Arc::default(), places: Arc::new(Semaphore::new(AT_A_TIME)) }
    }
}

impl OwnChanges {
    /// Admits a change by `caller`. The error says when to try again.
    pub(in crate::manager) fn admit(&self, caller: &str) -> Result<OwnChange, Duration> {
        let counts = Arc::clone(&self.counts);
        let taken = counts.take(caller, OF_ONE, now(), |_| ());
        let taken = taken.map_err(|(_, wait)| wait.unwrap_or(CALLS_RETRY_IN))?;
        let mut counted = LimitGuard { counts, taken, shared: None, is_admitted: false };
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| CALLS_RETRY_IN)?;
        counted.is_admitted = true;
        Ok(OwnChange { _counted: counted, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn caller_has_its_own_changes_and_all_together_few_at_a_time() {
        let changes = OwnChanges::default();
        let running: Vec<_> =
            (0..4).map(|caller| changes.admit(&caller.to_string()).expect("free")).collect();
        assert_eq!(changes.admit("0").err(), Some(CALLS_RETRY_IN), "one at a time");
        for _ in 0..20 {
            assert_eq!(changes.admit("later").err(), Some(CALLS_RETRY_IN), "four at a time");
        }
        drop(running);
        for _ in 0..20 {
            drop(changes.admit("later").expect("refused changes were not counted"));
        }
        assert_eq!(changes.admit("later").err(), Some(Duration::from_secs(3)));
        assert!(changes.admit("another").is_ok());
    }
}
