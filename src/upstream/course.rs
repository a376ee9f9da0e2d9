//! What a call holds at its server while its answer is still being passed on, and what becomes of it.
//!
//! Invariants: the place, the connection's share and the permit of the breaker are given back when this
//! is dropped, whatever happened; how the answer ended is told once, to the breaker and the counters,
//! exactly as for an answer that was collected; an answer that nobody reads any more counts as nothing.

use std::sync::{Arc, Weak};

use super::Upstream;
use super::breaker::Pass;
use super::bulkhead::{Lane, Slot};
use super::error::Error;
use super::pool::Seat;

/// A call whose answer is under way.
pub(super) struct Course {
    upstream: Weak<Upstream>,
    seat: Option<Seat>,
    /// Leave of the breaker, until it was told how the attempt went.
    pass: Option<Pass>,
    /// Whether the call has a place.
    is_placed: bool,
    /// Whether silence counts against the server.
    had_a_chance: bool,
}

impl Course {
    /// One that stands on a connection.
    pub(super) const fn new(upstream: Weak<Upstream>, seat: Seat) -> Self {
        Self { upstream, seat: Some(seat), pass: None, is_placed: false, had_a_chance: false }
    }

    /// Holds the permit; `had_a_chance` says whether silence counts against the server.
    pub(super) const fn admitted(&mut self, pass: Pass, had_a_chance: bool) {
        (self.pass, self.had_a_chance) = (Some(pass), had_a_chance);
    }

    /// Holds the place.
    pub(super) fn place(&mut self, slot: Slot<'_>) {
        slot.keep();
        self.is_placed = true;
    }

    /// The server's name.
    pub(super) fn server(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.upstream.upgrade()?.config.name))
    }

    /// The answer was read to its end, or broke.
    pub(super) fn ended(mut self, result: &Result<(), Error>) {
        let was_cut_short = matches!(result, Err(Error::TimedOut { .. })) && !self.had_a_chance;
        let Some(upstream) = self.upstream.upgrade() else { return };
        if let Some(pass) = self.pass.take_if(|_| !was_cut_short) {
            upstream.breaker.judge(pass, result);
        }
        upstream.facts.attempted(result.as_ref().err());
        upstream.facts.called(result);
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        // The share first: who gets the place next may want the connection.
        self.seat = None;
        let Some(upstream) = self.upstream.upgrade() else { return };
        if let Some(pass) = self.pass.take() {
            upstream.breaker.forget(pass);
        }
        if self.is_placed {
            upstream.bulkhead.free(Lane::Calls);
        }
    }
}
