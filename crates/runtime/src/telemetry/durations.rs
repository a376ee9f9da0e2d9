//! The durations of the calls of one server, by outcome.
//!
//! Invariants: recording a call costs two additions, without a lock and without reading the clock. Recorded calls are
//! kept as long as there is a server of that name. Counts are read one after the other, so a call that ends meanwhile
//! may be in only one of them.
//!
//! Not here: how they are printed (`metrics`), what a call is (`manager`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in milliseconds: the defaults of Prometheus clients, and more up to the longest time
/// limit of a call. One more bucket is above the last bound.
pub(crate) const BOUNDS_MS: [u64; 15] =
    [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000];

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
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    nanoseconds: AtomicU64,
}

/// The calls of one server since the start.
#[derive(Debug, Default)]
pub struct Durations([Histogram; Outcome::ALL.len()]);

/// The counts of one outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// How the calls ended.
    pub outcome: Outcome,
    /// The number of calls in each single bucket. The last one is above the last bound.
    pub buckets: [u64; BOUNDS_MS.len() + 1],
    /// The total duration of the calls.
    pub sum: Duration,
}

impl Durations {
    /// Records a call that took `elapsed` and ended with `outcome`.
    pub fn ended(&self, outcome: Outcome, elapsed: Duration) {
        let histogram = &self.0[outcome as usize];
        let above = BOUNDS_MS.iter().position(|bound| elapsed <= Duration::from_millis(*bound));
        histogram.buckets[above.unwrap_or(BOUNDS_MS.len())].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        histogram.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The number of calls that ended with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize].buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The counts of each outcome.
    pub fn counted(&self) -> [Counted; Outcome::ALL.len()] {
        Outcome::ALL.map(|outcome| {
            let histogram = &self.0[outcome as usize];
            Counted {
                outcome,
                buckets: std::array::from_fn(|at| histogram.buckets[at].load(Ordering::Relaxed)),
                sum: Duration::from_nanos(histogram.nanoseconds.load(Ordering::Relaxed)),
            }
        })
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
            durations.ended(Outcome::Failed, elapsed);
        }
        durations.ended(Outcome::Result, Duration::from_millis(70));
        let [result, tool_error, rpc_error, failed, refused] = durations.counted();
        let at = |counted: &Counted| {
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
}
