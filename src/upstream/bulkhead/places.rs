//! Places to run in, and who waits for one.
//!
//! Invariants: somebody waits only while all places are taken, and then a place that becomes free is
//! handed over and never free; how many wait, and who, changes under one lock. Both counts are one number,
//! so that who comes and who goes cannot miss each other. While nobody waits, a place is taken and given
//! back with one exchange of that number: nothing is locked and nothing allocated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout_at};

use super::turns::Turns;

/// One who runs, in [`Places::count`].
const RUNS: u64 = 1;
/// One who waits.
const WAITS: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct Places {
    most_running: u64,
    most_waiting: u64,
    /// Those who run, and 2³² times those who wait.
    count: AtomicU64,
    /// Those who wait; called by a message, and sent away by the end of the channel.
    turns: Mutex<Turns<oneshot::Sender<()>>>,
}

/// A place to run in, given back when dropped.
#[derive(Debug)]
#[must_use = "the place is free again as soon as the slot is dropped"]
pub(in crate::upstream) struct Slot<'a>(&'a Places);

impl Slot<'_> {
    /// Keeps the place beyond this value, until it is given back by itself.
    pub(in crate::upstream) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// One who waits; dropping it leaves the line.
struct Ticket<'a> {
    places: &'a Places,
    who: Option<Arc<str>>,
    number: u64,
    called: oneshot::Receiver<()>,
}

enum Turn<'a> {
    Now(Slot<'a>),
    Later(Ticket<'a>),
}

impl Places {
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        let bounded = |number| u64::from(u32::try_from(number).unwrap_or(u32::MAX));
        Self {
            most_running: bounded(running),
            most_waiting: bounded(waiting),
            count: AtomicU64::new(0),
            turns: Mutex::new(Turns::new()),
        }
    }

    /// A place, if one is free.
    pub(super) fn take(&self) -> Option<Slot<'_>> {
        self.update(|count| self.with_one_more_running(count)).ok().map(|_| Slot(self))
    }

    /// Waits for a place until `deadline`, in the line of `who`. None too where there is no room to wait,
    /// or no more.
    pub(super) async fn wait(&self, who: Option<&Arc<str>>, deadline: Instant) -> Option<Slot<'_>> {
        match self.line_up(who)? {
            Turn::Now(slot) => Some(slot),
            Turn::Later(mut ticket) => {
                let called = timeout_at(deadline, &mut ticket.called).await;
                matches!(called, Ok(Ok(()))).then(|| Slot(self))
            }
        }
    }

    /// Gives back a place that somebody had.
    pub(super) fn give_back(&self) {
        let nobody_waits = |count: u64| (count < WAITS).then(|| count - RUNS);
        if self.update(nobody_waits).is_ok() {
            return;
        }
        let mut turns = self.turns();
        // Those who waited may have left by now.
        let next = turns.next();
        self.count.fetch_sub(if next.is_some() { WAITS } else { RUNS }, Ordering::AcqRel);
        if let Some(next) = next {
            // Who leaves needs the lock for it, so whoever is in a line hears this.
            let _ = next.send(());
        }
    }

    pub(super) fn running(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Acquire) % WAITS).unwrap_or(usize::MAX)
    }

    pub(super) fn waiting(&self) -> usize {
        usize::try_from(self.count.load(Ordering::Acquire) / WAITS).unwrap_or(usize::MAX)
    }

    pub(super) fn are_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn line_up(&self, who: Option<&Arc<str>>) -> Option<Turn<'_>> {
        let mut turns = self.turns();
        let counted = self.update(|count| {
            let waits = || (count / WAITS < self.most_waiting).then_some(count + WAITS);
            self.with_one_more_running(count).or_else(waits)
        });
        match counted {
            // A place became free on the way here.
            Ok(before) if self.with_one_more_running(before).is_some() => return Some(Turn::Now(Slot(self))),
            Ok(_) => {}
            Err(_) => drop(turns.push_out_for(who)?),
        }
        let (call, called) = oneshot::channel();
        let number = turns.join(who, call);
        Some(Turn::Later(Ticket { places: self, who: who.cloned(), number, called }))
    }

    /// The count with one more who runs, if a place is free; then nobody waits.
    const fn with_one_more_running(&self, count: u64) -> Option<u64> {
        if count < self.most_running { Some(count + RUNS) } else { None }
    }

    /// What the count was before.
    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    fn turns(&self) -> MutexGuard<'_, Turns<oneshot::Sender<()>>> {
        // Nothing panics while it is held.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut turns = self.places.turns();
        match self.called.try_recv() {
            Err(TryRecvError::Empty) => {
                turns.leave(self.who.as_ref(), self.number);
                self.places.count.fetch_sub(WAITS, Ordering::AcqRel);
            }
            // Called when it was about to go.
            Ok(()) => {
                drop(turns);
                self.places.give_back();
            }
            // It heard the call before, or was sent away.
            Err(TryRecvError::Closed) => {}
        }
    }
}
