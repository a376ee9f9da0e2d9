//! The callers whose calls failed in a row, so that the failures of one of them concern nobody else.

use std::sync::Arc;

/// The callers of the failures in a row.
#[derive(Debug)]
pub(super) enum FailingCallers {
    /// No call failed.
    Nobody,
    /// All were calls of one principal. While the breaker is not closed, it concerns this one only.
    One(Arc<str>),
    /// Several principals, or Switchyard itself.
    Several,
}

impl FailingCallers {
    /// Adds the caller of a failure.
    pub(super) fn add(&mut self, principal: Option<Arc<str>>) {
        match (&*self, principal) {
            (Self::Nobody, Some(principal)) => *self = Self::One(principal),
            (Self::One(one), Some(principal)) if *one == principal => {}
            _ => *self = Self::Several,
        }
    }
}
