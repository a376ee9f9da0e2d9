//! The slots of one lane: how many calls run, how many wait, and which slots are reserved.
//!
//! ```text
//! │◀─────────── open to every caller ───────────▶│◀──── reserved (`shares`) ────▶│
//! ```
//!
//! Invariants: a caller waits only while all open slots are taken, and the reserved ones are taken or not available
//! to it. A slot that becomes free goes to the next waiting caller that may have it. All counts change under one lock,
//! which is held for a few comparisons.
//!
//! It does not decide the order of waiting callers (`turns`), nor which principal may have a reserved slot (`shares`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout_at};

use super::shares::{Share, Shares};
use super::turns::Turns;
use runtime::telemetry::limit::Limit;

/// A lane with at most this many slots reserves all of them: with fewer open slots, one principal could have nearly all.
const ALL_RESERVED: usize = 8;
/// A larger lane reserves one slot of this many.
const RESERVED: usize = 4;

/// How often the callers of one lane look for a call that should not keep its slot.
const MAKE_WAY_EVERY: Duration = Duration::from_secs(1);

/// The slots of one lane.
#[derive(Debug)]
pub(super) struct Slots {
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
    pub(super) fn new(running: usize, waiting: usize) -> Self {
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
    pub(super) fn take(&self, who: Option<&Arc<str>>, now: Instant) -> Option<Slot<'_>> {
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
    pub(super) async fn wait(
        &self,
        who: Option<&Arc<str>>,
        deadline: Instant,
        make_way: impl Fn(),
    ) -> Option<Slot<'_>> {
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
    pub(super) fn give_back(&self, held: ReservedShare) {
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

    pub(super) fn running(&self) -> usize {
        self.state().running
    }

    pub(super) fn waiting(&self) -> usize {
        self.state().turns.len()
    }

    pub(super) fn are_empty(&self) -> bool {
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
