//! Events of calls, servers and operators, for watchers of a running gateway.
//!
//! Invariants: while nobody watches, nothing is recorded here. All watchers read from one ring of at most
//! [`RING_BYTES`], so a watcher that does not read holds no memory of its own. The ring is charged to the memory budget,
//! and shrinks if that has no room. A watcher learns how many events it missed. Its pauses end early when half of [`RING_BYTES`] was recorded, so a watcher that keeps reading misses no event of a full ring.
//! After a pause without watchers the numbers have a gap, so a resumed watcher learns of it.
//!
//! Not here: making the record of a call (`recorded_call`), the last calls without a watcher (`history`), who may see which
//! event (`admin`).

mod call_text;
mod event;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::snapshot::{Server, Snapshot};
use super::stepped_charge::SteppedCharge;
use json::Raw;
use runtime::telemetry::{RequestId, untrusted};

pub use call_text::{CallText, date};
pub use event::{CallEnd, EventContent, EventKind, LiveEvent, OtherEvent, SampledNames, ToolCall};

/// Most bytes of events that are kept for all watchers together.
pub(crate) const RING_BYTES: usize = 1024 * 1024;
/// A pausing watcher continues when so many bytes were recorded. The rest of the ring is for what is recorded until it
/// runs and has read them.
const MOST_UNSEEN: u64 = RING_BYTES as u64 / 2;
/// Most watchers at a time.
const WATCHERS: usize = 64;
/// Most watchers of one principal.
const WATCHERS_EACH: usize = 8;
/// Memory of a place in the ring, which grows by doubling.
const PLACE: usize = 2 * size_of::<Recorded>();

/// The events of one gateway.
#[derive(Debug)]
pub struct LiveEvents {
    is_watched: AtomicBool,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    /// The number of the next event.
    next: u64,
    ring: VecDeque<Recorded>,
    /// The sizes of the events in the ring.
    bytes: usize,
    /// The sizes of all events so far.
    recorded: u64,
    charge: SteppedCharge,
    watchers: HashMap<Arc<str>, usize>,
    /// The size of all events that a waiting watcher is woken at; the largest number if none waits.
    awaited: u64,
}

/// An event in the ring.
#[derive(Debug)]
struct Recorded {
    event: LiveEvent,
    size: usize,
    /// Whether it is the beginning of a call whose end is recorded too.
    has_ended: bool,
}

/// The next element for a watcher.
#[derive(Debug)]
pub enum Next {
    /// An event.
    Event(LiveEvent),
    /// Events that the watcher missed: their count, if it is known, and the number of the last of them.
    Gap(Option<u64>, u64),
}

impl LiveEvents {
    /// Makes the events of a gateway that starts now.
    pub(super) fn new() -> Arc<Self> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Numbers of an earlier run are smaller, unless it had more than a thousand events each millisecond.
        let next = u64::try_from(start.as_millis()).unwrap_or_default() * 1_000;
        let state = State {
            next,
            ring: VecDeque::new(),
            bytes: 0,
            recorded: 0,
            charge: SteppedCharge::new(),
            watchers: HashMap::new(),
            awaited: u64::MAX,
        };
        Arc::new(Self { is_watched: AtomicBool::new(false), state: Mutex::new(state), news: Notify::new() })
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
        let (events, principal) = (Arc::clone(self), Arc::clone(principal));
        Some(Watcher { events, principal, position, is_told_by_ends: false })
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
            let content = EventContent::Action { action, principal, outcome, request_id };
            self.record(EventKind::Other(Arc::new(OtherEvent { server, content })));
        }
    }

    /// Records a change of `server`.
    pub(super) fn changed(&self, server: &Arc<str>, content: EventContent) {
        let server = Some(Arc::clone(server));
        self.record(EventKind::Other(Arc::new(OtherEvent { server, content })));
    }

    /// Records an event, and returns its number.
    pub(super) fn record(&self, what: EventKind) -> u64 {
        self.record_locked(self.lock(), what)
    }

    /// Records the end of a call that the event `started` is the beginning of.
    pub(super) fn record_end(&self, started: u64, call: Arc<ToolCall>) {
        let mut state = self.lock();
        state.has_ended(started);
        self.record_locked(state, EventKind::CallEnded(call));
    }

    fn record_locked(&self, mut state: MutexGuard<'_, State>, what: EventKind) -> u64 {
        let number = state.next;
        state.next += 1;
        let size = PLACE + what.size();
        state.bytes += size;
        state.recorded += size as u64;
        let event = LiveEvent { number, at: SystemTime::now(), what };
        state.ring.push_back(Recorded { event, size, has_ended: false });
        state.trim();
        let is_awaited = state.recorded >= state.awaited;
        if is_awaited {
            state.awaited = u64::MAX;
        }
        drop(state);
        if is_awaited {
            self.news.notify_waiters();
        }
        number
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns what a watcher at `position` reads next. `is_told_by_ends` leaves out beginnings of calls that ended.
    fn next_for(&mut self, position: &mut u64, is_told_by_ends: bool) -> Option<Next> {
        for next in self.ring.range(self.index(*position)..) {
            if next.event.number != *position {
                return missed(position, next.event.number);
            }
            *position += 1;
            if !(next.has_ended && is_told_by_ends) {
                return Some(Next::Event(next.event.clone()));
            }
        }
        missed(position, self.next)
    }

    /// Returns where the event `number` is in the ring, or the first one after it.
    fn index(&self, number: u64) -> usize {
        let oldest = self.ring.front().map_or(self.next, |oldest| oldest.event.number);
        // The numbers are consecutive, except where nobody watched for a while.
        let index = usize::try_from(number.saturating_sub(oldest)).unwrap_or(usize::MAX);
        match self.ring.get(index) {
            Some(found) if found.event.number == number => index,
            _ => self.ring.partition_point(|earlier| earlier.event.number < number),
        }
    }

    /// Marks the beginning of a call that ends. The event of the end, which holds the call longer, is charged for it.
    fn has_ended(&mut self, started: u64) {
        let index = self.index(started);
        if let Some(started) = self.ring.get_mut(index).filter(|found| found.event.number == started) {
            started.has_ended = true;
            let size = std::mem::replace(&mut started.size, PLACE) - PLACE;
            self.bytes -= size;
            self.recorded -= size as u64;
        }
    }

    /// Drops the oldest events until the ring is within its limit and the memory budget.
    fn trim(&mut self) {
        while self.bytes > RING_BYTES || !self.charge.covers(self.bytes) {
            let Some(oldest) = self.ring.pop_front() else { break };
            self.bytes -= oldest.size;
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
    is_told_by_ends: bool,
}

impl Watcher {
    /// Leaves out the beginning of a call if its end is recorded already, because the end has all that it says.
    pub const fn told_by_ends(mut self) -> Self {
        self.is_told_by_ends = true;
        self
    }

    /// Returns the next event without waiting.
    pub fn try_next(&mut self) -> Option<Next> {
        self.events.lock().next_for(&mut self.position, self.is_told_by_ends)
    }

    /// Adds the next events to `batch` without waiting, at most `most`. They are locked once, so calls wait less.
    pub fn take(&mut self, batch: &mut Vec<Next>, most: usize) {
        let mut state = self.events.lock();
        let next = || state.next_for(&mut self.position, self.is_told_by_ends);
        batch.extend(std::iter::from_fn(next).take(most));
    }

    /// Waits for the next event, at most for `patience`.
    pub async fn next(&mut self, patience: Duration) -> Option<Next> {
        let wait = async {
            loop {
                let more = self.recorded(1);
                if let Some(next) = self.try_next() {
                    return next;
                }
                more.await;
            }
        };
        tokio::time::timeout(patience, wait).await.ok()
    }

    /// Waits until `end`, or until so much was recorded that a watcher could miss events if it waited longer.
    pub async fn pause(&self, end: Instant) {
        // At its end there is nothing to do.
        let _ = tokio::time::timeout_at(end, self.recorded(MOST_UNSEEN)).await;
    }

    /// Waits until events of `size` bytes were recorded. Events are counted from this call on, not from the first poll.
    fn recorded(&self, size: u64) -> impl Future<Output = ()> + use<> {
        let events = Arc::clone(&self.events);
        let needed = events.lock().recorded + size;
        async move {
            loop {
                // Made before the look, so that an event in between wakes it.
                let news = events.news.notified();
                {
                    let mut state = events.lock();
                    if state.recorded >= needed {
                        return;
                    }
                    state.awaited = state.awaited.min(needed);
                }
                news.await;
            }
        }
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

/// Most names in one list of an event.
const MOST_NAMES: usize = 16;

impl SampledNames {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut listed = Self::default();
        for name in names {
            if listed.count < MOST_NAMES {
                listed.first.push(untrusted(name).to_string());
            }
            listed.count += 1;
        }
        listed
    }
}

impl LiveEvents {
    /// Records the servers that were disabled, and those whose tools or approvals differ between two snapshots.
    pub(super) fn published(&self, before: &Snapshot, next: &Snapshot) {
        for server in next.servers() {
            let name = &server.upstream.config().name;
            let earlier = before.server(name).ok();
            // A disabled server is a new one that never had another state, so it reports no change.
            if !is_enabled(server) && earlier.is_some_and(is_enabled) {
                self.changed(
                    name,
                    EventContent::Server { state: upstream::State::Disabled.as_str(), reason: None },
                );
            }
            if let Some(what) = change(earlier.map(Arc::as_ref), server) {
                self.changed(name, what);
            }
        }
    }
}

fn is_enabled(server: &Arc<Server>) -> bool {
    server.upstream.config().enabled
}

fn change(before: Option<&Server>, now: &Server) -> Option<EventContent> {
    let is_same = before.is_some_and(|before| {
        let offers = (&before.offer, &now.offer);
        Arc::ptr_eq(&before.trust, &now.trust)
            && matches!(offers, (Some(before), Some(now)) if Arc::ptr_eq(before, now))
    });
    if is_same {
        return None;
    }
    let (old, new) = (before.map(tools).unwrap_or_default(), tools(now));
    let trusted = |server: &Server| server.trust.changes().count();
    let was_approved = before.is_some_and(|before| trusted(before) != trusted(now));
    let added = SampledNames::of(new.keys().filter(|name| !old.contains_key(*name)).copied());
    let removed = SampledNames::of(old.keys().filter(|name| !new.contains_key(*name)).copied());
    let changed =
        new.iter().filter(|(name, now)| old.get(*name).is_some_and(|old| old.bytes() != now.bytes()));
    let changed = SampledNames::of(changed.map(|(name, _)| *name));
    let is_equal = added.count + removed.count + changed.count == 0 && !was_approved;
    if is_equal { None } else { Some(EventContent::Tools { count: new.len(), added, removed, changed }) }
}

/// Returns the definitions of the tools by name.
fn tools(server: &Server) -> BTreeMap<&str, &Raw> {
    let offer = server.offer.iter();
    offer.flat_map(|offer| &offer.tools).map(|tool| (&*tool.name, &tool.definition)).collect()
}

#[cfg(test)]
#[path = "live_events_tests.rs"]
mod tests;
