//! Places to run in, and who waits for one.
//!
//! ```text
//! │◀─────────── for whoever comes first ───────────▶│◀──── kept: shared (`shares`) ────▶│
//! ```
//!
//! Invariants: somebody waits only while all places are taken that are for whoever comes first, and the
//! others are taken too or kept from it; then a place that becomes free goes to the next one that may have
//! it; how many wait, and who, changes under one lock. Both counts are one number, so that who comes and who
//! goes cannot miss each other. While nobody waits and none of the kept places is wanted, a place is taken
//! and given back with one exchange of that number: nothing is locked and nothing allocated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, timeout_at};

use super::shares::{Passers, Share, Shares};
use super::turns::Turns;
use runtime::telemetry::limit::Limit;

/// One who runs, in [`Places::count`].
const RUNS: u64 = 1;
/// One who waits.
const WAITS: u64 = 1 << 32;
/// Of so many places all are kept: of fewer for whoever comes first, one could have nearly all.
const ALL_KEPT: u64 = 8;
/// Of more places one of so many is kept.
const KEPT: u64 = 4;

#[derive(Debug)]
pub(super) struct Places {
    most_running: u64,
    most_waiting: u64,
    /// Places for whoever comes first; the rest is kept.
    open: u64,
    /// Those who run, and 2³² times those who wait.
    count: AtomicU64,
    passers: Passers,
    book: Mutex<Book>,
}

/// What is known of those for whom the count is not enough.
#[derive(Debug)]
struct Book {
    /// Those who wait; called by a message, and sent away by the end of the channel.
    turns: Turns<oneshot::Sender<Held>>,
    shares: Shares,
}

/// What a place was taken from: a share of the kept ones, or none.
pub(crate) type Held = Option<Share>;

/// A place to run in, given back when dropped.
#[derive(Debug)]
#[must_use = "the place is free again as soon as the slot is dropped"]
pub(crate) struct Slot<'a> {
    places: &'a Places,
    held: Held,
}

impl Slot<'_> {
    /// Keeps the place beyond this value, until what is returned is given back.
    pub(crate) fn keep(self) -> Held {
        let held = self.held;
        std::mem::forget(self);
        held
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.places.give_back(self.held);
    }
}

/// One who waits; dropping it leaves the line.
struct Ticket<'a> {
    places: &'a Places,
    who: Option<Arc<str>>,
    number: u64,
    called: oneshot::Receiver<Held>,
}

enum Turn<'a> {
    Now(Slot<'a>),
    Later(Ticket<'a>),
}

impl Places {
    pub(super) fn new(running: usize, waiting: usize) -> Self {
        let bounded = |number| u64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let most_running = bounded(running);
        let kept = (most_running / KEPT).max(ALL_KEPT);
        Self {
            most_running,
            most_waiting: bounded(waiting),
            open: most_running.saturating_sub(kept),
            count: AtomicU64::new(0),
            passers: Passers::default(),
            book: Mutex::new(Book { turns: Turns::new(), shares: Shares::new() }),
        }
    }

    /// A place for `who`, if one is free that nobody else may want.
    pub(super) fn take(&self, who: Option<&Arc<str>>) -> Option<Slot<'_>> {
        self.passers.note(who);
        let is_open = |count: u64| (count < self.open).then_some(count + RUNS);
        self.update(is_open).ok().map(|_| Slot { places: self, held: None })
    }

    /// Takes a kept place, or waits for any until `deadline`, in the line of `who`. None too where there is
    /// no room to wait, or no more.
    pub(super) async fn wait(&self, who: Option<&Arc<str>>, deadline: Instant) -> Option<Slot<'_>> {
        match self.line_up(who)? {
            Turn::Now(slot) => Some(slot),
            Turn::Later(mut ticket) => match timeout_at(deadline, &mut ticket.called).await {
                Ok(Ok(held)) => Some(Slot { places: self, held }),
                _ => None,
            },
        }
    }

    /// Gives back a place that somebody had.
    pub(super) fn give_back(&self, held: Held) {
        let nobody_waits = |count: u64| (count < WAITS).then(|| count - RUNS);
        if held.is_none() && self.update(nobody_waits).is_ok() {
            return;
        }
        let mut book = self.book();
        if let Some(share) = held {
            book.shares.give_back(share);
        }
        self.count.fetch_sub(RUNS, Ordering::AcqRel);
        self.call_next(&mut book);
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

    /// Calls whoever waits and may run now. While anybody waits the count changes under this lock alone.
    fn call_next(&self, book: &mut Book) {
        loop {
            let count = self.count.load(Ordering::Acquire);
            if count < WAITS {
                return;
            }
            let shares = &book.shares;
            let is_open = count % WAITS < self.open;
            let free = self.free(count);
            let several = book.turns.are_several();
            let next = book.turns.next(|who| {
                let is_crowded = several || shares.knows_others(who);
                is_open || shares.may(who, free, is_crowded)
            });
            let Some((call, who)) = next else { return };
            let held = (!is_open).then(|| book.shares.take(who.as_ref()));
            self.count.fetch_sub(WAITS - RUNS, Ordering::AcqRel);
            // Who leaves needs the lock for it, so whoever is in a line hears this.
            let _ = call.send(held);
        }
    }

    fn line_up(&self, who: Option<&Arc<str>>) -> Option<Turn<'_>> {
        let mut book = self.book();
        let others = book.shares.has_others(who, &self.passers) || book.turns.has_others(who);
        // Behind its own.
        let may_overtake = !book.turns.has(who);
        let (mut free, mut may_run) = (0, false);
        let counted = self.update(|count| {
            free = self.free(count);
            may_run = may_overtake && (count < self.open || book.shares.may(who, free, others));
            if may_run {
                return Some(count + RUNS);
            }
            (count / WAITS < self.most_waiting).then_some(count + WAITS)
        });
        match counted {
            Ok(before) if may_run => {
                let held = (before >= self.open).then(|| book.shares.take(who));
                return Some(Turn::Now(Slot { places: self, held }));
            }
            Ok(_) => {}
            Err(_) => drop(book.turns.push_out_for(who)?),
        }
        if free > 0 {
            Limit::ServerShare.met(());
        }
        let (call, called) = oneshot::channel();
        let number = book.turns.join(who, call);
        Some(Turn::Later(Ticket { places: self, who: who.cloned(), number, called }))
    }

    /// Places that nobody has.
    fn free(&self, count: u64) -> u64 {
        self.most_running.saturating_sub(count % WAITS)
    }

    /// What the count was before.
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Nothing panics while it is held.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut book = self.places.book();
        match self.called.try_recv() {
            Err(TryRecvError::Empty) => {
                book.turns.leave(self.who.as_ref(), self.number);
                self.places.count.fetch_sub(WAITS, Ordering::AcqRel);
            }
            // Called when it was about to go.
            Ok(held) => {
                drop(book);
                self.places.give_back(held);
            }
            // It heard the call before, or was sent away.
            Err(TryRecvError::Closed) => {}
        }
    }
}
