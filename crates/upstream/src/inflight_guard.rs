//! What a call holds at its server while its answer is still being passed on, and what becomes of it.
//!
//! Invariants: the place, the connection's share and the permit of the breaker are given back when this
//! is dropped, whatever happened; how the answer ended is told once, to the breaker and the counters,
//! exactly as for an answer that was collected; an answer that nobody reads any more counts as nothing.

use std::sync::{Arc, Weak};

use super::Upstream;
use super::bulkhead::{Held, Lane, Slot};
use super::error::Error;
use super::pool::PooledConnection;
use crate::breaker_guard::Kept;

/// A call whose answer is under way.
pub(super) struct Course {
    upstream: Weak<Upstream>,
    seat: Option<PooledConnection>,
    /// What is to be settled, until it was told how the attempt went.
    kept: Option<Kept>,
    /// The place of the call, once it has one.
    place: Option<Held>,
}

impl Course {
    /// One that stands on a connection.
    pub(super) const fn new(upstream: Weak<Upstream>, seat: PooledConnection) -> Self {
        Self { upstream, seat: Some(seat), kept: None, place: None }
    }

    /// Holds what is to be settled at the end.
    pub(super) const fn admitted(&mut self, kept: Option<Kept>) {
        self.kept = kept;
    }

    /// Holds the place.
    pub(super) fn place(&mut self, slot: Slot<'_>) {
        self.place = Some(slot.keep());
    }

    /// The server's name.
    pub(super) fn server(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.upstream.upgrade()?.config.name))
    }

    /// The answer was read to its end, or broke.
    pub(super) fn ended(mut self, result: &Result<(), Error>) {
        let is_late = matches!(result, Err(Error::TimedOut { .. }));
        let Some(upstream) = self.upstream.upgrade() else { return };
        if let Some(kept) = self.kept.take_if(|kept| kept.had_a_chance || !is_late) {
            upstream.over(kept.round);
            let is_failed = result.as_ref().is_err_and(Error::trips_breaker);
            if self.seat.as_ref().is_none_or(|seat| seat.is_news(is_failed)) {
                upstream.breaker.judge(kept.pass, result);
            } else {
                upstream.breaker.forget(kept.pass);
            }
        }
        upstream.attempted(result.as_ref().err());
        upstream.facts.called(result);
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        // The share first: who gets the place next may want the connection.
        self.seat = None;
        let Some(upstream) = self.upstream.upgrade() else { return };
        if let Some(kept) = self.kept.take() {
            upstream.over(kept.round);
            upstream.breaker.forget(kept.pass);
        }
        if let Some(held) = self.place.take() {
            // Nothing but calls of tools flows.
            upstream.bulkhead.free(Lane::Calls, held);
        }
    }
}
