//! Events of calls and servers, for watchers of a running gateway.
//!
//! Invariants: while nobody watches, nothing is recorded, and a call costs one relaxed atomic load. All watchers read
//! from one ring of at most [`RING_BYTES`], so a watcher that does not read holds no memory of its own. It learns how
//! many events it missed. After a pause without watchers the numbers have a gap, so a resumed watcher learns of it.
//!
//! Not here: who may see which event, and how it is printed (`admin`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::Manager;
use super::error::Error;
use super::routed_request::{Called, RoutedRequest};
use protocol::ErrorCode;
use upstream::{Outlet, ResponseBody};

/// Most bytes of events that are kept for all watchers together.
pub const RING_BYTES: usize = 1024 * 1024;
/// Most watchers at a time.
const WATCHERS: usize = 64;
/// Most watchers of one principal.
const WATCHERS_EACH: usize = 8;

/// One event.
#[derive(Debug)]
pub struct LiveEvent {
    /// Its number. Later events have larger numbers, also after a restart.
    pub number: u64,
    /// When it happened.
    pub at: SystemTime,
    /// The server it is about.
    pub server: Arc<str>,
    /// The change or the call.
    pub what: Happened,
}

/// The content of an event.
#[derive(Debug)]
pub enum Happened {
    /// A call of a tool began or ended.
    Call {
        /// The number of the call.
        call: u64,
        /// The tool under its name at the server.
        tool: Arc<str>,
        /// The principal of the client, if any.
        principal: Option<Arc<str>>,
        /// How the call ended; none when it begins.
        end: Option<CallEnd>,
    },
    /// The state of a server changed.
    Server {
        /// The new state.
        state: &'static str,
        /// The last failure, if the state is one.
        reason: Option<String>,
    },
}

/// How a call ended.
#[derive(Debug)]
pub struct CallEnd {
    /// `ok`, `tool_error`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// The code of the failure.
    pub code: Option<ErrorCode>,
    /// Time from the request to the response, or to the beginning of a streamed response.
    pub duration: Duration,
}

impl LiveEvent {
    /// Returns an upper estimate of the memory that the event needs.
    fn size(&self) -> usize {
        let texts = match &self.what {
            Happened::Call { tool, principal, .. } => {
                tool.len() + principal.as_ref().map_or(0, |name| name.len())
            }
            Happened::Server { reason, .. } => reason.as_ref().map_or(0, String::len),
        };
        size_of::<Self>() + 64 + self.server.len() + texts
    }
}

/// The events of one gateway.
#[derive(Debug)]
pub struct LiveEvents {
    is_watched: AtomicBool,
    calls: AtomicU64,
    state: Mutex<State>,
    last: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    /// The number of the next event.
    next: u64,
    ring: VecDeque<Arc<LiveEvent>>,
    bytes: usize,
    watchers: HashMap<Arc<str>, usize>,
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
        let state = State { next, ring: VecDeque::new(), bytes: 0, watchers: HashMap::new() };
        let (last, state) = (watch::Sender::new(next), Mutex::new(state));
        Arc::new(Self { is_watched: AtomicBool::new(false), calls: AtomicU64::new(0), state, last })
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
        let (events, news) = (Arc::clone(self), self.last.subscribe());
        Some(Watcher { events, principal: Arc::clone(principal), position, news })
    }

    /// Records the new state of a server.
    pub(super) fn server_changed(&self, server: &Arc<str>, state: &'static str, reason: Option<String>) {
        self.record(server, Happened::Server { state, reason });
    }

    fn record(&self, server: &Arc<str>, what: Happened) {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let event = LiveEvent { number, at: SystemTime::now(), server: Arc::clone(server), what };
        state.bytes += event.size();
        state.ring.push_back(Arc::new(event));
        while state.bytes > RING_BYTES {
            let Some(oldest) = state.ring.pop_front() else { break };
            state.bytes -= oldest.size();
        }
        drop(state);
        self.last.send_replace(number);
    }

    fn next_for(&self, position: &mut u64) -> Option<Next> {
        let state = self.lock();
        let Some(oldest) = state.ring.front().map(|event| event.number) else {
            return missed(position, state.next);
        };
        let index = state.ring.partition_point(|event| event.number < *position);
        if let Some(found) = state.ring.get(index) {
            if found.number > *position {
                let first = if *position < oldest { oldest } else { found.number };
                return missed(position, first);
            }
            *position += 1;
            return Some(Next::Event(Arc::clone(found)));
        }
        missed(position, state.next)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    news: watch::Receiver<u64>,
}

impl Watcher {
    /// Returns the next event without waiting.
    pub fn try_next(&mut self) -> Option<Next> {
        self.events.next_for(&mut self.position)
    }

    /// Waits for the next event, at most for `patience`.
    pub async fn next(&mut self, patience: Duration) -> Option<Next> {
        let wait = async {
            loop {
                self.news.mark_unchanged();
                if let Some(next) = self.events.next_for(&mut self.position) {
                    return Some(next);
                }
                self.news.changed().await.ok()?;
            }
        };
        tokio::time::timeout(patience, wait).await.ok().flatten()
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

/// A call that is watched. Dropping it records that the call was cancelled.
struct WatchedCall<'a> {
    events: &'a LiveEvents,
    request: &'a RoutedRequest,
    call: u64,
    is_over: bool,
}

impl<'a> WatchedCall<'a> {
    /// Records the beginning of a call.
    fn begin(events: &'a LiveEvents, request: &'a RoutedRequest) -> Self {
        let call = events.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let watched = Self { events, request, call, is_over: false };
        watched.record(None);
        watched
    }

    /// Records the end of the call.
    fn ended(mut self, result: &Result<Called<ResponseBody>, Error>) {
        self.is_over = true;
        let (outcome, code) = match result {
            Ok(called) => match called.reply.as_buffered() {
                Some(Err(_)) => ("failed", None),
                Some(Ok(result)) if result.get_as("isError") == Some(true) => ("tool_error", None),
                _ => ("ok", None),
            },
            Err(error) => ("failed", Some(error.class().code)),
        };
        self.record(Some((outcome, code)));
    }

    fn record(&self, end: Option<(&'static str, Option<ErrorCode>)>) {
        let RoutedRequest { server, subject, call: request, begun, .. } = self.request;
        let duration = tokio::time::Instant::now().saturating_duration_since(*begun);
        let (call, tool, principal) = (self.call, Arc::clone(subject), request.principal.clone());
        let end = end.map(|(outcome, code)| CallEnd { outcome, code, duration });
        self.events.record(server, Happened::Call { call, tool, principal, end });
    }
}

impl Drop for WatchedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.record(Some(("cancelled", None)));
        }
    }
}

impl Manager {
    /// Returns the events for watchers.
    pub const fn live_events(&self) -> &Arc<LiveEvents> {
        &self.published.live
    }

    /// Makes a call, and records its beginning and its end.
    pub(super) async fn call_watched(
        &self,
        request: &RoutedRequest,
        outlet: &Outlet,
    ) -> Result<Called<ResponseBody>, Error> {
        let watched = WatchedCall::begin(self.live_events(), request);
        let called = self.call_unwatched(request, outlet).await;
        watched.ended(&called);
        called
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(events: &LiveEvents, reason: usize) {
        events.server_changed(&"s".into(), "failed", Some("x".repeat(reason)));
    }

    fn is_event(next: Option<&Next>) -> bool {
        matches!(next, Some(Next::Event(_)))
    }

    #[test]
    fn a_watcher_that_does_not_read_keeps_one_mebibyte_and_learns_what_it_missed() {
        let events = LiveEvents::new();
        let mut watcher = events.watch(&"p".into(), None).expect("room");
        (0..3_000).for_each(|_| note(&events, 1_000));
        let kept = events.lock().ring.len();
        assert!(events.lock().bytes <= RING_BYTES && kept > 500, "{kept}");
        let missed = 3_000 - kept as u64;
        assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(count), _)) if count == missed));
        (0..kept).for_each(|_| assert!(is_event(watcher.try_next().as_ref())));
        assert!(watcher.try_next().is_none());
    }

    #[test]
    fn a_resumed_watcher_continues_after_the_last_event_it_has_seen() {
        let events = LiveEvents::new();
        let mut first = events.watch(&"p".into(), None).expect("room");
        (0..3).for_each(|_| note(&events, 1));
        let Some(Next::Event(event)) = first.try_next() else { panic!("no event") };
        let mut second = events.watch(&"p".into(), Some(event.number)).expect("room");
        let Some(Next::Event(next)) = second.try_next() else { panic!("no event") };
        assert_eq!(next.number, event.number + 1);
        let mut ancient = events.watch(&"p".into(), Some(7)).expect("room");
        assert!(matches!(ancient.try_next(), Some(Next::Gap(None, _))), "events of an earlier run");
    }

    #[test]
    fn a_pause_without_watchers_is_told_as_a_gap() {
        let events = LiveEvents::new();
        let mut watcher = events.watch(&"p".into(), None).expect("room");
        note(&events, 1);
        let Some(Next::Event(event)) = watcher.try_next() else { panic!("no event") };
        drop(watcher);
        assert!(!events.is_watched());
        let mut watcher = events.watch(&"p".into(), Some(event.number)).expect("room");
        assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(1), _))));
    }

    #[test]
    fn watchers_are_limited_for_each_principal_and_in_sum() {
        let events = LiveEvents::new();
        let of = |name: usize| events.watch(&name.to_string().into(), None);
        let own: Vec<_> = (0..WATCHERS_EACH).map(|_| of(0).expect("room")).collect();
        assert!(of(0).is_none() && of(1).is_some());
        let all: Vec<_> = (WATCHERS_EACH..WATCHERS).map(|name| of(name).expect("room")).collect();
        assert!(of(1).is_none());
        drop((own, all));
        assert!(of(0).is_some());
    }
}
