//! How many calls one server may hold at a time, so that a slow one cannot take the gateway with it.
//!
//! Invariants: at most `concurrent_calls` run and `waiting_calls` wait, in the order they came; one
//! more is refused at once. What we ask a server for ourselves (lists, discovery, health) has a lane
//! of its own: it neither takes a call's place nor waits behind calls. A [`Slot`] that is dropped
//! frees its place.
//!
//! Not here: limits per client.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep, timeout_at};

use super::attempt::Frame;
use super::config;
use super::error::Error;

/// What a refused caller is told; how long the calls before it take is not known.
const RETRY_IN: Duration = Duration::from_secs(1);
/// Requests of our own that run at a time.
const OWN_RUNNING: usize = 2;
/// Requests of our own that wait.
const OWN_WAITING: usize = 8;

/// How often [`Bulkhead::idle`] looks.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// A client's call.
    Calls,
    /// Ourselves: lists, discovery, health.
    Own,
}

/// The places of one server.
#[derive(Debug)]
pub(super) struct Bulkhead {
    calls: Places,
    own: Places,
}

#[derive(Debug)]
struct Places {
    /// Those who run and those who wait.
    all: Semaphore,
    /// Those who run.
    running: Semaphore,
    most_running: usize,
    most: usize,
}

/// A place to run in, given back when dropped.
#[derive(Debug)]
#[must_use = "the place is free again as soon as the slot is dropped"]
pub(super) struct Slot<'a> {
    // Freed in this order: who runs next must not find the gateway full.
    running: SemaphorePermit<'a>,
    place: SemaphorePermit<'a>,
}

impl Slot<'_> {
    /// Keeps the place beyond this value, until [`Bulkhead::free`].
    pub(super) fn keep(self) {
        self.running.forget();
        self.place.forget();
    }
}

impl Bulkhead {
    /// An empty one.
    pub(super) fn new(limits: &config::Limits) -> Self {
        Self {
            calls: Places::new(limits.concurrent_calls, limits.waiting_calls),
            own: Places::new(OWN_RUNNING, OWN_WAITING),
        }
    }

    /// Takes a place, or waits for one until the deadline of `frame`.
    ///
    /// Both refusals are [`Error::Overloaded`]: no place to wait in, and a deadline that ended before
    /// the wait did. Nothing was sent in either case, so this is no timeout of the server's.
    pub(super) async fn enter(&self, lane: Lane, frame: &mut Frame) -> Result<Slot<'_>, Error> {
        let places = self.places(lane);
        let overloaded = Error::Overloaded { retry_in: RETRY_IN };
        // Neither semaphore is ever closed, so an error means "no place" in both.
        let Ok(place) = places.all.try_acquire() else { return Err(overloaded) };
        // Nearly always there is one, and then no time passes.
        let running = if let Ok(running) = places.running.try_acquire() {
            Some(running)
        } else {
            let running = timeout_at(frame.deadline, places.running.acquire()).await;
            frame.now = Instant::now();
            running.ok().and_then(Result::ok)
        };
        // A place that comes with the deadline is of no use.
        running
            .filter(|_| frame.now < frame.deadline)
            .map(|running| Slot { running, place })
            .ok_or(overloaded)
    }

    /// Frees a place that was kept.
    pub(super) fn free(&self, lane: Lane) {
        let places = self.places(lane);
        places.running.add_permits(1);
        places.all.add_permits(1);
    }

    /// Client calls that run now.
    pub(super) fn running(&self) -> usize {
        self.calls.most_running - self.calls.running.available_permits()
    }

    /// Client calls that wait for a place now.
    pub(super) fn waiting(&self) -> usize {
        (self.calls.most - self.calls.all.available_permits()).saturating_sub(self.running())
    }

    /// Resolves when no client call runs or waits. Those who come meanwhile are let in.
    pub(super) async fn idle(&self) {
        // Acquiring all places would say the same, but a fair semaphore then lets nobody in.
        while self.calls.all.available_permits() < self.calls.most {
            sleep(IDLE_POLL).await;
        }
    }

    const fn places(&self, lane: Lane) -> &Places {
        match lane {
            Lane::Calls => &self.calls,
            Lane::Own => &self.own,
        }
    }
}

impl Places {
    fn new(running: usize, waiting: usize) -> Self {
        let most = running.saturating_add(waiting).min(Semaphore::MAX_PERMITS);
        let running = running.min(most);
        Self { all: Semaphore::new(most), running: Semaphore::new(running), most_running: running, most }
    }
}

#[cfg(test)]
#[path = "bulkhead_tests.rs"]
mod tests;
