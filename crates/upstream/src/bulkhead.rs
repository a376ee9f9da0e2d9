//! How many calls one server may hold at a time, so that neither a slow one can take the gateway with it
//! nor one principal a server from the others.
//!
//! Invariants: at most `concurrent_calls` run and `waiting_calls` wait; one more is refused at once. One
//! principal may have all places as long as nobody else is there: while somebody is, some places are kept from
//! whoever has much ([`shares`]), a place that becomes free goes to principals in turn, and where no more can
//! wait, who has fewer waiting takes the room of the last one of who has most ([`turns`]). What waits for the
//! end of a task, for up to an hour, has a lane of its own, and so has what is asked about tasks meanwhile;
//! what we ask a server for ourselves (lists, discovery, health) has one too: none takes the place of another
//! nor waits behind it. A [`Slot`] that is dropped frees its place. Who runs is not interrupted.

mod places;
mod shares;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::config;
use super::error::Error;
use super::frame::Frame;
use places::Places;
pub(super) use places::{Held, Slot};
use protocol::method;

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
    /// A client that waits for the end of a task.
    Results,
    /// A client's question about a task, or what it tells of one.
    Tasks,
    /// Ourselves: lists, discovery, health.
    Own,
}

impl Lane {
    /// That of a client's request.
    pub(super) fn of(method: &str) -> Self {
        match method {
            method::TASKS_RESULT => Self::Results,
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL | method::TASKS_LIST => {
                Self::Tasks
            }
            _ => Self::Calls,
        }
    }
}

/// The places of one server.
#[derive(Debug)]
pub(super) struct Bulkhead {
    calls: Places,
    results: Places,
    tasks: Places,
    own: Places,
}

impl Bulkhead {
    /// An empty one.
    pub(super) fn new(limits: &config::Limits) -> Self {
        let ours = || Places::new(limits.concurrent_calls, limits.waiting_calls);
        Self { calls: ours(), results: ours(), tasks: ours(), own: Places::new(OWN_RUNNING, OWN_WAITING) }
    }

    /// Takes a place for `who`, or waits for one until the deadline of `frame`.
    ///
    /// Every refusal is [`Error::Overloaded`]: no place to wait in, none any more because another
    /// principal came who has fewer, and a deadline that ended before the wait did. Nothing was sent
    /// in any case, so this is no timeout of the server's.
    pub(super) async fn enter(
        &self,
        lane: Lane,
        who: Option<&Arc<str>>,
        frame: &mut Frame,
    ) -> Result<Slot<'_>, Error> {
        let places = self.places(lane);
        // Nearly always there is one, and then no time passes.
        let slot = if let Some(slot) = places.take(who) {
            Some(slot)
        } else {
            let slot = places.wait(who, frame.deadline.at).await;
            frame.now = Instant::now();
            slot
        };
        // A place that comes with the deadline is of no use.
        slot.filter(|_| frame.now < frame.deadline.at).ok_or(Error::Overloaded { retry_in: RETRY_IN })
    }

    /// Frees a place that was kept.
    pub(super) fn free(&self, lane: Lane, held: Held) {
        self.places(lane).give_back(held);
    }

    /// Client calls that run now, whatever they are about.
    pub(super) fn running(&self) -> usize {
        self.of_clients().map(Places::running).iter().sum()
    }

    /// Client calls that wait for a place now.
    pub(super) fn waiting(&self) -> usize {
        self.of_clients().map(Places::waiting).iter().sum()
    }

    /// Resolves when no client call runs or waits. Those who come meanwhile are let in.
    pub(super) async fn idle(&self) {
        while !self.of_clients().iter().all(|places| places.are_empty()) {
            sleep(IDLE_POLL).await;
        }
    }

    const fn of_clients(&self) -> [&Places; 3] {
        [&self.calls, &self.results, &self.tasks]
    }

    const fn places(&self, lane: Lane) -> &Places {
        match lane {
            Lane::Calls => &self.calls,
            Lane::Results => &self.results,
            Lane::Tasks => &self.tasks,
            Lane::Own => &self.own,
        }
    }
}

#[cfg(test)]
#[path = "bulkhead_tests.rs"]
mod tests;
