//! Limits the concurrent calls of one server, so that a slow server does not block the gateway, and one principal does
//! not block a server for the others.
//!
//! Invariants: at most `concurrent_calls` run and `waiting_calls` wait, and one more is refused at once. A
//! principal may take all slots while it is alone. Otherwise some slots are reserved ([`shares`]), and free
//! slots go to the principals in turn ([`turns`]). If no more calls can wait, a principal with fewer waiting
//! calls replaces a call of the principal with most. Calls that wait for a task, requests about tasks,
//! Switchyard's own requests and lists for one client have a lane each, and no lane takes slots of another. A dropped [`Slot`] is free
//! again. Running calls are not interrupted.

mod shares;
mod slots;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::config;
use super::error::Error;
use super::frame::Frame;
use protocol::method;
use slots::Slots;
pub(super) use slots::{ReservedShare, Slot};

/// The `retry_in` of refused callers. The duration of the calls before them is unknown.
const RETRY_IN: Duration = Duration::from_secs(1);
/// Most requests of Switchyard that run at a time.
const OWN_RUNNING: usize = 2;
/// Most requests of Switchyard that wait.
const OWN_WAITING: usize = 8;

/// How often [`Bulkhead::idle`] checks.
const IDLE_POLL: Duration = Duration::from_millis(10);

/// The kind of caller, which has its own slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// A client's call.
    Calls,
    /// A client that waits for the end of a task.
    Results,
    /// A client's request about a task, or its input for one.
    Tasks,
    /// Switchyard itself: lists, discovery, health checks.
    Own,
    /// Switchyard for one client with private connections: its lists. They can take long, and other clients and health
    /// checks must not wait for them.
    ClientLists,
}

impl Lane {
    /// Returns the lane of a client's request.
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

/// The slots of one server, by lane.
#[derive(Debug)]
pub(super) struct Bulkhead {
    calls: Slots,
    results: Slots,
    tasks: Slots,
    own: Slots,
    client_lists: Slots,
}

impl Bulkhead {
    /// Makes a bulkhead with free slots.
    pub(super) fn new(limits: &config::Limits) -> Self {
        let ours = || Slots::new(limits.concurrent_calls, limits.waiting_calls);
        let own = Slots::new(OWN_RUNNING, OWN_WAITING);
        Self { calls: ours(), results: ours(), tasks: ours(), own, client_lists: ours() }
    }

    /// Takes a slot for `who`, or waits for one until the deadline of `frame`.
    ///
    /// Every refusal is [`Error::Overloaded`]: no more calls can wait, a principal with fewer waiting calls
    /// took this place, or the deadline passed. Nothing was sent, so this is no timeout of the server. While callers
    /// of [`Lane::Calls`] wait and no slot is free, `make_way` is called about once a second, to end calls that should not
    /// keep their slots from others.
    pub(super) async fn enter(
        &self,
        lane: Lane,
        who: Option<&Arc<str>>,
        frame: &mut Frame,
        make_way: impl Fn(),
    ) -> Result<Slot<'_>, Error> {
        let slots = self.slots(lane);
        // Usually a slot is free, and then no time passes.
        let slot = if let Some(slot) = slots.take(who, frame.now) {
            Some(slot)
        } else {
            let make_way = || {
                if lane == Lane::Calls {
                    make_way();
                }
            };
            let slot = slots.wait(who, frame.deadline.at, make_way).await;
            frame.now = Instant::now();
            slot
        };
        // A slot that becomes free at the deadline is useless.
        slot.filter(|_| frame.now < frame.deadline.at).ok_or(Error::Overloaded { retry_in: RETRY_IN })
    }

    /// Frees a slot that a response kept.
    pub(super) fn free(&self, lane: Lane, held: ReservedShare) {
        self.slots(lane).give_back(held);
    }

    /// Returns the number of client calls that run, in all lanes.
    pub(super) fn running(&self) -> usize {
        self.of_clients().map(Slots::running).iter().sum()
    }

    /// Returns the number of client calls that wait for a slot.
    pub(super) fn waiting(&self) -> usize {
        self.of_clients().map(Slots::waiting).iter().sum()
    }

    /// Resolves when no client call runs or waits. New calls are accepted meanwhile.
    pub(super) async fn idle(&self) {
        while !self.of_clients().iter().all(|slots| slots.are_empty()) {
            sleep(IDLE_POLL).await;
        }
    }

    const fn of_clients(&self) -> [&Slots; 3] {
        [&self.calls, &self.results, &self.tasks]
    }

    const fn slots(&self, lane: Lane) -> &Slots {
        match lane {
            Lane::Calls => &self.calls,
            Lane::Results => &self.results,
            Lane::Tasks => &self.tasks,
            Lane::Own => &self.own,
            Lane::ClientLists => &self.client_lists,
        }
    }
}

#[cfg(test)]
#[path = "bulkhead_tests.rs"]
mod tests;
