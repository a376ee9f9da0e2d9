//! Events of calls, servers and operators, for watchers of a running gateway.
//!
//! Invariants: while nobody watches, nothing is recorded, and a call costs one relaxed atomic load. All watchers read
//! from one ring of at most [`RING_BYTES`], so a watcher that does not read holds no memory of its own. The ring is
//! charged to the memory budget, and shrinks if that has no room. A watcher learns how many events it missed. After a
//! pause without watchers the numbers have a gap, so a resumed watcher learns of it.
//!
//! Not here: who may see which event, and how it is printed (`admin`).

mod changed_tools;
mod client_names;
mod event;
mod watched_call;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

pub use event::{CallEnd, CallStart, EventContent, LiveEvent, SampledNames};
pub use watched_call::CallSource;

use client_names::ClientNames;
use runtime::memory::{Account, Charge, ChargeKind};
use runtime::telemetry::{RequestId, untrusted};

/// Most bytes of events that are kept for all watchers together.
pub(crate) const RING_BYTES: usize = 1024 * 1024;
/// Most watchers at a time.
const WATCHERS: usize = 64;
/// Most watchers of one principal.
const WATCHERS_EACH: usize = 8;
/// The charge of the ring changes in steps of this size, so that few events ask the memory budget.
const CHARGE_STEP: usize = 64 * 1024;

/// The events of one gateway.
#[derive(Debug)]
pub struct LiveEvents {
    is_watched: AtomicBool,
    has_arguments: AtomicBool,
    calls: AtomicU64,
    client_names: ClientNames,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    /// The number of the next event.
    next: u64,
    /// Events with their sizes.
    ring: VecDeque<(Arc<LiveEvent>, usize)>,
    bytes: usize,
    charge: Charge,
    /// The size of `charge`.
    charged: usize,
    watchers: HashMap<Arc<str>, usize>,
    /// Whether a watcher waits for the next event.
    is_awaited: bool,
}

/// The next element for a watcher.
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(Arc<LiveEvent>),
    /// Events that the watcher missed: their count, if it is known, and the number of the last of them.
    Gap(Option<u64>, u64),
}

impl LiveEvents {
    /// Makes the events of a gateway that starts now.
    pub(super) fn new() -> Arc<Self> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Numbers of an earlier run are smaller, unless it had more than a thousand events each millisecond.
        let next = u64::try_from(start.as_millis()).unwrap_or_default() * 1_000;
        let charge = Charge::open(Account::LiveEvents, ChargeKind::Notice);
        let state = State {
            next,
            ring: VecDeque::new(),
            bytes: 0,
            charge,
            charged: 0,
            watchers: HashMap::new(),
            is_awaited: false,
        };
        let [is_watched, has_arguments] = [false, false].map(AtomicBool::new);
        Arc::new(Self {
            is_watched,
            has_arguments,
            calls: AtomicU64::new(0),
            client_names: ClientNames::default(),
            state: Mutex::new(state),
            news: Notify::new(),
        })
    }

    /// Whether somebody watches.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Adds a watcher of `principal` that has seen everything up to the event `seen`. Returns none if there are
    /// too many watchers.
    pub fn watch(self: &Arc<Self>, principal: &Arc<str>, seen: Option<u64>) -> Option<Watcher> {
        let mut state = self.lock();
        let own = state.watchers.get(principal).copied().unwrap_or_default();
        if own >= WATCHERS_EACH || state.watchers.values().sum::<usize>() >= WATCHERS {
            return None;
        }
        if state.watchers.is_empty() {
            // Events were not recorded before, so numbers in between count as missed.
            state.next += 1;
        }
        state.watchers.insert(Arc::clone(principal), own + 1);
        let next = state.next;
        drop(state);
        self.is_watched.store(true, Ordering::Relaxed);
        // A number from the future was not made here.
        let position = seen.map_or(next, |seen| seen.saturating_add(1).min(next));
        Some(Watcher { events: Arc::clone(self), principal: Arc::clone(principal), position })
    }

    /// Sets whether future events of calls have the arguments.
    pub(super) fn set_arguments(&self, are_recorded: bool) {
        self.has_arguments.store(are_recorded, Ordering::Relaxed);
    }

    /// Records an operation that ended, if somebody watches. `outcome` is `done` or a code.
    pub fn operated(
        &self,
        principal: &str,
        (action, server): (&'static str, Option<&str>),
        outcome: &str,
        request_id: Option<RequestId>,
    ) {
        if self.is_watched() {
            let (principal, outcome) = (principal.into(), outcome.to_owned());
            // The name comes from a path, so it may be long.
            let server = server.map(|name| untrusted(name).to_string().into());
            self.record(server, EventContent::Action { action, principal, outcome, request_id });
        }
    }

    /// Records a change of `server`.
    pub(super) fn changed(&self, server: &Arc<str>, what: EventContent) -> Arc<LiveEvent> {
        self.record(Some(Arc::clone(server)), what)
    }

    fn record(&self, server: Option<Arc<str>>, what: EventContent) -> Arc<LiveEvent> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let event = Arc::new(LiveEvent { number, at: SystemTime::now(), server, what });
        let size = event.size();
        state.bytes += size;
        state.ring.push_back((Arc::clone(&event), size));
        state.trim();
        let is_awaited = std::mem::take(&mut state.is_awaited);
        drop(state);
        if is_awaited {
            self.news.notify_waiters();
        }
        event
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_for(&mut self, position: &mut u64) -> Option<Next> {
        let oldest = self.ring.front().map_or(self.next, |(event, _)| event.number);
        // The numbers are consecutive, except where nobody watched for a while.
        let index = usize::try_from(position.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let index = match self.ring.get(index) {
            Some((event, _)) if event.number == *position => index,
            _ => self.ring.partition_point(|(event, _)| event.number < *position),
        };
        match self.ring.get(index) {
            Some((event, _)) if event.number == *position => {
                *position += 1;
                return Some(Next::Event(Arc::clone(event)));
            }
            Some((event, _)) => return missed(position, event.number),
            None => {}
        }
        let gap = missed(position, self.next);
        self.is_awaited |= gap.is_none();
        gap
    }

    /// Drops the oldest events until the ring is within its limit and the memory budget.
    fn trim(&mut self) {
        while self.bytes > RING_BYTES || !self.is_charged() {
            let Some((_, size)) = self.ring.pop_front() else { break };
            self.bytes -= size;
        }
    }

    /// Whether the budget has room for all events.
    fn is_charged(&mut self) -> bool {
        self.bytes <= self.charged || {
            let wanted = self.bytes.next_multiple_of(CHARGE_STEP);
            let has_room = self.charge.resize(wanted).is_ok();
            self.charged = if has_room { wanted } else { self.charged };
            has_room
        }
    }
}

/// Largest difference of numbers that is reported as a count. A larger one comes from a restart.
const COUNTED: u64 = 1_000_000;

/// Moves `position` to `next`, and tells what is missed thereby.
fn missed(position: &mut u64, next: u64) -> Option<Next> {
    let count = next.checked_sub(*position).filter(|count| *count > 0)?;
    *position = next;
    Some(Next::Gap(Some(count).filter(|count| *count < COUNTED), next - 1))
}

/// A watcher. Dropping it ends the recording if it was the last one.
#[derive(Debug)]
pub struct Watcher {
    events: Arc<LiveEvents>,
    principal: Arc<str>,
    /// The number of the event that is read next.
    position: u64,
}

impl Watcher {
    /// Returns the next event without waiting.
    pub fn try_next(&mut self) -> Option<Next> {
        self.events.lock().next_for(&mut self.position)
    }

    /// Adds the next events to `batch` without waiting, at most `most`. They are locked once, so calls wait less.
    pub fn take(&mut self, batch: &mut Vec<Next>, most: usize) {
        let mut state = self.events.lock();
        batch.extend(std::iter::from_fn(|| state.next_for(&mut self.position)).take(most));
    }

    /// Waits for the next event, at most for `patience`.
    pub async fn next(&mut self, patience: Duration) -> Option<Next> {
        let wait = async {
            loop {
                // Made before the look, so that an event in between wakes it.
                let news = self.events.news.notified();
                if let Some(next) = self.events.lock().next_for(&mut self.position) {
                    return next;
                }
                news.await;
            }
        };
        tokio::time::timeout(patience, wait).await.ok()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.events.lock();
        if let Some(count) = state.watchers.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                state.watchers.remove(&self.principal);
            }
        }
        if state.watchers.is_empty() {
            self.events.is_watched.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "live_events_tests.rs"]
mod tests;
