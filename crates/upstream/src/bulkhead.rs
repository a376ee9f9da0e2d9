//! Limits the concurrent calls of one server, so that a slow server does not block the gateway, and one principal does
//! not block a server for the others.
//!
//! Invariants: at most `concurrent_calls` run and `waiting_calls` wait, and one more is refused at once. A
//! principal may take all slots while it is alone. Otherwise some slots are reserved ([`shares`]), and free
//! slots go to the principals in turn ([`turns`]). If no more calls can wait, a principal with fewer waiting
//! calls replaces a call of the principal with most. Calls that wait for a task, requests about tasks,
//! Switchyard's own requests and lists for one client have a lane each, and no lane takes slots of another. A dropped
//! [`Slot`] is free again. Running calls are not interrupted.

mod shares;
mod turns;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::{Instant, sleep, timeout_at};

use super::config;
use super::error::Error;
use super::frame::Frame;
use protocol::method;
use runtime::telemetry::limit::Limit;
use shares::{Share, Shares};
use turns::Turns;

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

/// A lane with at most this many slots reserves all of them: with fewer open slots, one principal could have nearly all.
const ALL_RESERVED: usize = 8;
/// A larger lane reserves one slot of this many.
const RESERVED: usize = 4;

/// How often the callers of one lane look for a call that should not keep its slot.
const MAKE_WAY_EVERY: Duration = Duration::from_secs(1);

/// The slots of one lane.
///
/// ```text
/// │◀─────────── open to every caller ───────────▶│◀──── reserved (`shares`) ────▶│
/// ```
///
/// Invariants: a caller waits only while all open slots are taken, and the reserved ones are taken or not available to
/// it. A slot that becomes free goes to the next waiting caller that may have it. All counts change under one lock,
/// which is held for a few comparisons.
///
/// It does not decide the order of waiting callers (`turns`), nor which principal may have a reserved slot (`shares`).
#[derive(Debug)]
struct Slots {
    most_running: usize,
    most_waiting: usize,
    /// Slots that any caller may take; the rest is reserved.
    open: usize,
    state: Mutex<SlotState>,
}

/// The calls that run and wait.
#[derive(Debug)]
struct SlotState {
    running: usize,
    /// Waiting callers. A message calls one, and the end of its channel refuses it.
    turns: Turns<oneshot::Sender<ReservedShare>>,
    shares: Shares,
    /// When a caller last looked for a call that should not keep its slot.
    made_way: Option<Instant>,
}

/// The share of the reserved slots that a slot was taken from, if it is a reserved one.
pub(crate) type ReservedShare = Option<Share>;

/// A slot for one call, given back when dropped.
#[derive(Debug)]
#[must_use = "the slot is free again as soon as this is dropped"]
pub(crate) struct Slot<'a> {
    slots: &'a Slots,
    held: ReservedShare,
}

impl Slot<'_> {
    /// Keeps the slot beyond this value, until the result is passed to `give_back`.
    pub(crate) fn keep(self) -> ReservedShare {
        let held = self.held;
        std::mem::forget(self);
        held
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.slots.give_back(self.held);
    }
}

/// A waiting caller, which leaves the line when dropped.
struct SlotTicket<'a> {
    slots: &'a Slots,
    who: Option<Arc<str>>,
    number: u64,
    called: oneshot::Receiver<ReservedShare>,
}

enum SlotTurn<'a> {
    Now(Slot<'a>),
    Later(SlotTicket<'a>),
}

impl Slots {
    fn new(running: usize, waiting: usize) -> Self {
        let reserved = (running / RESERVED).max(ALL_RESERVED);
        let state = SlotState { running: 0, turns: Turns::new(), shares: Shares::new(), made_way: None };
        Self {
            most_running: running,
            most_waiting: waiting,
            open: running.saturating_sub(reserved),
            state: Mutex::new(state),
        }
    }

    /// Takes an open slot for `who`, if one is free.
    fn take(&self, who: Option<&Arc<str>>, now: Instant) -> Option<Slot<'_>> {
        let mut state = self.state();
        state.shares.record(who, now);
        if state.running >= self.open {
            return None;
        }
        state.running += 1;
        Some(Slot { slots: self, held: None })
    }

    /// Takes a reserved slot, or waits for any until `deadline`, in the line of `who`. None if the caller is refused.
    /// While no slot is free, `make_way` is called when it has to wait or is refused, and until it has a slot, but for all
    /// callers at most every [`MAKE_WAY_EVERY`].
    async fn wait(&self, who: Option<&Arc<str>>, deadline: Instant, make_way: impl Fn()) -> Option<Slot<'_>> {
        let turn = self.line_up(who);
        if let Some(SlotTurn::Now(slot)) = turn {
            return Some(slot);
        }
        self.look_for_way(&make_way);
        let Some(SlotTurn::Later(mut ticket)) = turn else { return None };
        loop {
            let next = Instant::now() + MAKE_WAY_EVERY;
            match timeout_at(next.min(deadline), &mut ticket.called).await {
                Ok(called) => return called.ok().map(|held| Slot { slots: self, held }),
                Err(_) if next >= deadline => return None,
                Err(_) => self.look_for_way(&make_way),
            }
        }
    }

    /// Calls `make_way`, unless a slot is free or a caller did so a moment ago.
    fn look_for_way(&self, make_way: &impl Fn()) {
        let (mut state, now) = (self.state(), Instant::now());
        let is_soon = state.made_way.is_some_and(|at| now < at + MAKE_WAY_EVERY);
        if is_soon || self.free(&state) > 0 {
            return;
        }
        state.made_way = Some(now);
        drop(state);
        make_way();
    }

    /// Gives back a slot, and calls the callers that may run now.
    fn give_back(&self, held: ReservedShare) {
        let mut state = self.state();
        if let Some(share) = held {
            state.shares.give_back(share);
        }
        state.running -= 1;
        while let Some((call, held)) = self.next(&mut state) {
            state.running += 1;
            // A caller needs the lock to leave the line, so the message arrives.
            let _ = call.send(held);
        }
    }

    fn running(&self) -> usize {
        self.state().running
    }

    fn waiting(&self) -> usize {
        self.state().turns.len()
    }

    fn are_empty(&self) -> bool {
        let state = self.state();
        state.running == 0 && state.turns.len() == 0
    }

    /// Takes the next waiting caller that may run now out of its line.
    fn next(&self, state: &mut SlotState) -> Option<(oneshot::Sender<ReservedShare>, ReservedShare)> {
        let (is_open, free) = (state.running < self.open, self.free(state));
        let SlotState { turns, shares, .. } = state;
        let several = turns.are_several();
        let may_run =
            |who: Option<&Arc<str>>| is_open || shares.may(who, free, several || shares.knows_others(who));
        let (call, who) = turns.next(may_run)?;
        let held = (!is_open).then(|| shares.take(who.as_ref()));
        Some((call, held))
    }

    fn line_up(&self, who: Option<&Arc<str>>) -> Option<SlotTurn<'_>> {
        let mut state = self.state();
        let (is_open, free) = (state.running < self.open, self.free(&state));
        let others = state.shares.knows_others(who) || state.turns.has_others(who);
        // A caller does not overtake those of its own principal.
        if !state.turns.has(who) && (is_open || state.shares.may(who, free, others)) {
            state.running += 1;
            let held = (!is_open).then(|| state.shares.take(who));
            return Some(SlotTurn::Now(Slot { slots: self, held }));
        }
        if state.turns.len() >= self.most_waiting {
            drop(state.turns.evict_for(who)?);
        }
        if free > 0 {
            Limit::ServerShare.met(());
        }
        let (call, called) = oneshot::channel();
        let number = state.turns.join(who, call);
        Some(SlotTurn::Later(SlotTicket { slots: self, who: who.cloned(), number, called }))
    }

    /// Slots that are not taken.
    const fn free(&self, state: &SlotState) -> usize {
        self.most_running.saturating_sub(state.running)
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SlotTicket<'_> {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        match self.called.try_recv() {
            Err(TryRecvError::Empty) => state.turns.leave(self.who.as_ref(), self.number),
            // The slot came when the caller was about to leave.
            Ok(held) => {
                drop(state);
                self.slots.give_back(held);
            }
            // The caller has its slot, or was refused.
            Err(TryRecvError::Closed) => {}
        }
    }
}

#[cfg(test)]
#[path = "bulkhead_tests.rs"]
mod tests;
