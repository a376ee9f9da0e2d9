//! Why the last attempts of people to log in to one server failed.
//!
//! Invariants: the texts hold no secret, as those of all errors. At most [`MAX_FAILED`] are kept, and the oldest makes
//! room. A success removes the failure of its principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use crate::Error;
use crate::shared::lock;

/// Limit of principals whose failure is kept.
const MAX_FAILED: usize = 256;

/// A failed attempt to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedLogin {
    /// The reason.
    pub reason: String,
    /// When it failed.
    pub at: SystemTime,
}

/// The last failure of each principal.
#[derive(Default)]
pub(crate) struct FailedLogins(Mutex<HashMap<Arc<str>, FailedLogin>>);

impl FailedLogins {
    /// Records the end of an attempt of `principal`. An authorization server that cannot answer now refuses nothing.
    pub(crate) fn record(&self, principal: &Arc<str>, error: Option<&Error>) {
        let mut failed = lock(&self.0);
        let reason = match error {
            None => {
                failed.remove(principal);
                return;
            }
            Some(Error::Later { .. }) => return,
            Some(error) => error.to_string(),
        };
        if failed.len() >= MAX_FAILED && !failed.contains_key(principal) {
            let oldest = failed.iter().min_by_key(|(_, failed)| failed.at).map(|(who, _)| Arc::clone(who));
            oldest.map(|who| failed.remove(&who));
        }
        failed.insert(Arc::clone(principal), FailedLogin { reason, at: SystemTime::now() });
    }

    pub(crate) fn of(&self, principal: &Arc<str>) -> Option<FailedLogin> {
        lock(&self.0).get(principal).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failures_are_kept_within_their_limit_and_a_success_removes_one() {
        let failed = FailedLogins::default();
        for number in 0..1_000 {
            failed.record(&format!("key:{number}").into(), Some(&Error::refused("no")));
        }
        assert_eq!(lock(&failed.0).len(), MAX_FAILED);
        let last: Arc<str> = "key:999".into();
        failed.record(&last, Some(&Error::later("busy")));
        assert_eq!(failed.of(&last).expect("a failure").reason, "no");
        failed.record(&last, None);
        assert_eq!(failed.of(&last), None);
    }
}
