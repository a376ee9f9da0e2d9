//! The durations of the calls of one server: by outcome, by tool and outcome, and of the last two minutes. Also the number of
//! tool calls by the name that their client gives itself.
//!
//! Invariants: recording a call reads no clock, and takes one shared lock for the name of a tool. Recorded calls
//! are kept as long as there is a server of that name. Counts are read one after the other, so a call that ends meanwhile
//! may be in only one of them. At most [`MAX_TOOLS`] tools of a server are counted by name, the rest together. At most
//! [`MAX_CLIENTS`] clients have a count of their own. A new name takes the place of the one with the fewest calls, so names that
//! clients make up push out each other and not those in use.
//!
//! The quantiles are those of all calls of the window, with a relative error of at most 3 % (the buckets of an HDR
//! histogram). The fixed buckets of the counts are for Prometheus, which adds up those of several processes.
//!
//! Not here: how they are printed (`metrics`), what a call is (`manager`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use histogram::{AtomicHistogram32, Histogram32};
use tokio::time::Instant;

/// Upper bounds of the buckets, in milliseconds: the defaults of Prometheus clients, and more up to the longest time
/// limit of a call. One more bucket is above the last bound.
pub(crate) const BOUNDS_MS: [u64; 15] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000];

/// The bounds of the buckets of one tool, of which there are many.
pub(crate) const TOOL_BOUNDS_MS: [u64; 4] = [100, 1_000, 10_000, 60_000];

/// The name of the tools that have no place of their own. A tool of this name has none either.
pub(crate) const OTHER: &str = "other";
/// The most tools of one server that are counted by their names.
const MAX_TOOLS: usize = 100;

/// A window has a slot for the current minute and one for the minute before.
const SLOT: Duration = Duration::from_mins(1);
/// Each power of two has 2^5 buckets, and a longer duration than 2^30 microseconds (18 minutes) counts as that.
const PRECISION: (u8, u8) = (5, 30);

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a result, whose rest may still be arriving.
    Result,
    /// With a result of a tool that says `isError`.
    ToolError,
    /// With a JSON-RPC error of the server.
    RpcError,
    /// The connection between Switchyard and the server failed.
    Failed,
    /// Switchyard refused it: breaker, limits, not available.
    Refused,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 5] = [Self::Result, Self::ToolError, Self::RpcError, Self::Failed, Self::Refused];

    /// The label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// The calls in each bucket, the one above the last bound included, and their total duration.
#[derive(Debug)]
struct Histogram<const BUCKETS: usize> {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl<const BUCKETS: usize> Default for Histogram<BUCKETS> {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), nanoseconds: AtomicU64::new(0) }
    }
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    /// Records a call. `bounds` has one element less than there are buckets.
    fn record(&self, bounds: &[u64], elapsed: Duration) {
        let above = bounds.iter().position(|bound| elapsed <= Duration::from_millis(*bound));
        self.buckets[above.unwrap_or(bounds.len())].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn counted(&self, outcome: Outcome) -> Counted<BUCKETS> {
        Counted {
            outcome,
            buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
            sum: Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)),
        }
    }
}

pub(crate) const BUCKETS: usize = BOUNDS_MS.len() + 1;
pub(crate) const TOOL_BUCKETS: usize = TOOL_BOUNDS_MS.len() + 1;

/// The calls of one tool since the start.
type ToolDurations = [Histogram<TOOL_BUCKETS>; Outcome::ALL.len()];

/// The calls of one server since the start.
#[derive(Debug, Default)]
pub struct Durations {
    outcomes: [Histogram<BUCKETS>; Outcome::ALL.len()],
    tools: RwLock<BTreeMap<Arc<str>, ToolDurations>>,
    other_tools: ToolDurations,
    recent: Recent,
}

/// The counts of one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted<const BUCKETS: usize> {
    /// How the calls ended.
    pub outcome: Outcome,
    /// The number of calls in each single bucket. The last one is above the last bound.
    pub buckets: [u64; BUCKETS],
    /// The total duration of the calls.
    pub sum: Duration,
}

/// The calls of one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedTool {
    /// Its name at the server; `None` for all tools that have no place of their own.
    pub tool: Option<Arc<str>>,
    /// Its calls, by outcome.
    pub counted: [Counted<TOOL_BUCKETS>; Outcome::ALL.len()],
}

impl Durations {
    /// Records a call that began at `started`, took `elapsed` and ended with `outcome`. `tool` is a name from a list of the
    /// server: text of clients would make names without end.
    pub fn ended(&self, outcome: Outcome, (started, elapsed): (Instant, Duration), tool: Option<&Arc<str>>) {
        self.outcomes[outcome as usize].record(&BOUNDS_MS, elapsed);
        if let Some(tool) = tool {
            self.of_tool(tool, |calls| calls[outcome as usize].record(&TOOL_BOUNDS_MS, elapsed));
        }
        if outcome != Outcome::Refused {
            self.recent.record(started + elapsed, elapsed);
        }
    }

    fn of_tool(&self, tool: &Arc<str>, record: impl FnOnce(&ToolDurations)) {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = tools.get(tool) {
            return record(calls);
        }
        if tools.len() >= MAX_TOOLS || &**tool == OTHER {
            return record(&self.other_tools);
        }
        drop(tools);
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if tools.len() < MAX_TOOLS || tools.contains_key(tool) {
            record(tools.entry(Arc::clone(tool)).or_default());
        } else {
            record(&self.other_tools);
        }
    }

    /// The number of calls that ended with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The counts of each outcome.
    pub fn counted(&self) -> [Counted<BUCKETS>; Outcome::ALL.len()] {
        Outcome::ALL.map(|outcome| self.outcomes[outcome as usize].counted(outcome))
    }

    /// The counts of each tool that was called, sorted by name, and then of those without a place of their own.
    pub(crate) fn counted_tools(&self) -> Vec<CountedTool> {
        let of = |tool, calls: &ToolDurations| CountedTool {
            tool,
            counted: Outcome::ALL.map(|outcome| calls[outcome as usize].counted(outcome)),
        };
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        let mut counted: Vec<_> =
            tools.iter().map(|(tool, calls)| of(Some(Arc::clone(tool)), calls)).collect();
        drop(tools);
        counted.push(of(None, &self.other_tools));
        counted
    }

    /// The quantiles of the calls that reached the server within the last one to two minutes before `now`; `None` without
    /// any.
    pub fn recent(&self, now: Instant) -> Option<Quantiles> {
        self.recent.quantiles(now)
    }
}

/// Below these durations were half, 95 % and 99 % of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantiles {
    /// The number of calls.
    pub calls: u64,
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The 99th percentile.
    pub p99: Duration,
}

/// The durations of the current minute and of the one before.
#[derive(Debug)]
struct Recent {
    started: Instant,
    /// The current minute since `started`.
    minute: AtomicU32,
    slots: [AtomicHistogram32; 2],
}

impl Default for Recent {
    fn default() -> Self {
        let slot = || {
            AtomicHistogram32::new(PRECISION.0, PRECISION.1)
                .expect("the precision is one that the crate allows")
        };
        Self { started: Instant::now(), minute: AtomicU32::new(0), slots: [slot(), slot()] }
    }
}

impl Recent {
    fn record(&self, now: Instant, elapsed: Duration) {
        let longest = (1 << PRECISION.1) - 1;
        let microseconds = u64::try_from(elapsed.as_micros()).unwrap_or(longest).min(longest);
        let _ = self.slots[self.turned(now) as usize % 2].increment(microseconds);
    }

    /// The minute of `now`. Empties the slots whose minutes are over.
    fn turned(&self, now: Instant) -> u32 {
        let minutes = now.saturating_duration_since(self.started).as_secs() / SLOT.as_secs();
        let now = u32::try_from(minutes).unwrap_or(u32::MAX);
        let before = self.minute.load(Ordering::Relaxed);
        if before >= now {
            return before;
        }
        if self.minute.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.slots[now as usize % 2].drain();
            if now - before > 1 {
                self.slots[(now as usize + 1) % 2].drain();
            }
        }
        now
    }

    fn quantiles(&self, now: Instant) -> Option<Quantiles> {
        self.turned(now);
        let mut all: Histogram32 = self.slots[0].load();
        all.checked_add_assign(&self.slots[1].load()).ok()?;
        let at = |quantile| {
            let bucket = all.quantile_bucket(quantile).ok()??;
            Some(Duration::from_micros(bucket.end()))
        };
        let calls = all.as_slice().iter().map(|count| u64::from(*count)).sum();
        Some(Quantiles { calls, p50: at(0.5)?, p95: at(0.95)?, p99: at(0.99)? })
    }
}

/// The most names.
const MAX_CLIENTS: usize = 32;
/// The longest name in bytes.
const MAX_NAME: usize = 64;

/// The calls of each client since the start.
#[derive(Debug, Default)]
pub struct ClientCalls(Mutex<CallCounts>);

#[derive(Debug, Default)]
struct CallCounts {
    /// So few that a scan costs less than a hash.
    named: Vec<(Box<str>, u64)>,
    others: u64,
}

impl ClientCalls {
    /// Counts a call of the client `name`.
    pub fn count(&self, name: &str) {
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, calls)) = counts.named.iter_mut().find(|(known, _)| **known == *name) {
            *calls += 1;
            return;
        }
        if counts.named.len() == MAX_CLIENTS {
            let fewest = counts.named.iter().enumerate().min_by_key(|(_, (_, calls))| *calls);
            let fewest = fewest.map_or(0, |(at, _)| at);
            counts.others += counts.named.swap_remove(fewest).1;
        }
        counts.named.push((name.into(), 1));
    }

    /// The names with their calls, sorted by name, and the calls of all others.
    pub fn counted(&self) -> (Vec<(Box<str>, u64)>, u64) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = counts.named.clone();
        named.sort();
        (named, counts.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_in_the_bucket_whose_end_it_does_not_pass() {
        let durations = Durations::default();
        let taken = [0, 5_000, 5_001, 600_000_000, 600_000_001].map(Duration::from_micros);
        for elapsed in taken {
            durations.ended(Outcome::Failed, (Instant::now(), elapsed), None);
        }
        durations.ended(Outcome::Result, (Instant::now(), Duration::from_millis(70)), None);
        let [result, tool_error, rpc_error, failed, refused] = durations.counted();
        let at = |counted: &Counted<BUCKETS>| {
            let filled = counted.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0);
            filled.map(|(bucket, calls)| (bucket, *calls)).collect::<Vec<_>>()
        };
        assert_eq!(at(&failed), [(0, 2), (1, 1), (14, 1), (15, 1)]);
        assert_eq!(failed.sum, taken.iter().sum::<Duration>());
        assert_eq!((at(&result), result.sum), (vec![(4, 1)], Duration::from_millis(70)));
        assert_eq!((at(&rpc_error), at(&refused), at(&tool_error)), (vec![], vec![], vec![]));
        assert_eq!(Outcome::ALL.map(|outcome| durations.count(outcome)), [1, 0, 0, 5, 0]);
        let order = [result, tool_error, rpc_error, failed, refused].map(|counted| counted.outcome);
        assert_eq!(order, Outcome::ALL);
    }

    #[test]
    fn tools_beyond_the_most_that_have_a_place_are_counted_together() {
        let durations = Durations::default();
        let call = (Instant::now(), Duration::from_millis(300));
        for number in 0..MAX_TOOLS + 5 {
            durations.ended(Outcome::ToolError, call, Some(&format!("tool-{number:03}").into()));
        }
        durations.ended(Outcome::Result, call, Some(&"tool-000".into()));
        durations.ended(Outcome::Result, call, None);
        let tools = durations.counted_tools();
        let calls =
            |tool: &CountedTool, outcome: Outcome| tool.counted[outcome as usize].buckets.iter().sum::<u64>();
        assert_eq!((tools.len(), tools[0].tool.as_deref()), (MAX_TOOLS + 1, Some("tool-000")));
        assert_eq!((calls(&tools[0], Outcome::Result), calls(&tools[0], Outcome::ToolError)), (1, 1));
        assert_eq!(tools[0].counted[Outcome::Result as usize].buckets, [0, 1, 0, 0, 0]);
        let others = tools.last().expect("the others");
        assert_eq!((&others.tool, calls(others, Outcome::ToolError)), (&None, 5));
    }

    #[test]
    fn quantiles_are_those_of_the_calls_of_the_last_minutes_within_three_percent() {
        let durations = Durations::default();
        let started = Instant::now();
        assert_eq!(durations.recent(started), None);
        let call = |outcome, milliseconds, at| {
            durations.ended(outcome, (at, Duration::from_millis(milliseconds)), None);
        };
        for milliseconds in 1..=1_000 {
            call(Outcome::Result, milliseconds, started);
        }
        call(Outcome::Refused, 100_000, started);
        let Quantiles { calls, p50, p95, p99 } = durations.recent(started).expect("calls");
        assert_eq!(calls, 1_000);
        for (found, exact) in [(p50, 500.0), (p95, 950.0), (p99, 990.0)] {
            let ratio = found.as_secs_f64() * 1_000.0 / exact;
            assert!((1.0..1.04).contains(&ratio), "{found:?} for {exact} ms");
        }
        let minute = |minutes: u64| started + Duration::from_mins(minutes);
        assert_eq!(durations.recent(minute(1)).expect("calls").calls, 1_000);
        call(Outcome::Failed, 3_600_000, started);
        let hour = durations.recent(minute(60)).expect("the call of an hour");
        assert_eq!((hour.calls, hour.p50.as_secs()), (1, 1_073));
        assert_eq!(durations.recent(minute(200)), None);
        call(Outcome::Failed, 5, minute(201));
        call(Outcome::Failed, 6, minute(202));
        assert_eq!(durations.recent(minute(202)).expect("calls").calls, 2);
        assert_eq!(durations.recent(minute(203)).expect("calls").calls, 1);
    }

    #[test]
    fn names_that_clients_make_up_push_out_each_other_and_no_call_is_lost() {
        let calls = ClientCalls::default();
        for _ in 0..3 {
            calls.count("claude-code");
        }
        for number in 0..1_000 {
            calls.count(&format!("made-up-{number}"));
        }
        calls.count(&"é".repeat(100));
        let (named, others) = calls.counted();
        assert!(named.contains(&("claude-code".into(), 3)) && named.contains(&("é".repeat(32).into(), 1)));
        assert_eq!(named.len(), MAX_CLIENTS);
        assert_eq!(named.iter().map(|(_, calls)| calls).sum::<u64>() + others, 1_004);
    }
}
