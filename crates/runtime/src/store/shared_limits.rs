//! Limits of callers that several gateways share.
//!
//! Invariant: a backend that is not shared, or cannot be reached in time, decides nothing. The caller then uses its own
//! counts, which it keeps in any case.
//!
//! Not here: which requests a limit counts, and the counts of one gateway (`gateway::manager::limits`).

use std::time::Duration;

use super::{Key, Store};

/// The period of limits of requests.
pub const PERIOD: Duration = Duration::from_mins(1);
/// The area of the counts of faults.
const AREA: &str = "limits";

/// The kind of number that a limit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// Requests in a minute.
    Requests,
    /// Calls at a time.
    Calls,
}

/// One limit of a caller, and what a further request takes of it.
#[derive(Debug, Clone)]
pub struct SharedTake {
    /// The limit and its caller.
    pub key: Key,
    /// The most requests in a minute, if they are limited.
    pub requests_per_minute: Option<u32>,
    /// The calls at a time, if they are limited.
    pub calls: Option<CallsAtATime>,
}

/// Calls at a time.
#[derive(Debug, Clone, Copy)]
pub struct CallsAtATime {
    /// The most calls, at all gateways.
    pub most: u32,
    /// The calls that run at this gateway, the new one included.
    pub own: u32,
}

/// A limit that all gateways together have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLimitReached {
    /// Its place among the limits that were taken.
    pub index: usize,
    /// The kind of its number.
    pub kind: LimitKind,
    /// When there is room for the request; none if nobody knows.
    pub retry_in: Option<Duration>,
}

/// The decision of a backend about limits that gateways share.
#[derive(Debug)]
pub(super) enum SharedDecision {
    /// The backend is not shared, or not reachable.
    None,
    /// The backend failed.
    Failed,
    /// The request is taken, or refused.
    Made(Result<(), SharedLimitReached>),
}

impl Store {
    /// Whether other gateways may use the same store.
    pub fn is_shared(&self) -> bool {
        self.0.cache.is_shared()
    }

    /// Takes a request of all `limits` at once, or of none. Returns none if the store is not shared or not reachable.
    pub async fn take(&self, limits: &[SharedTake]) -> Option<Result<(), SharedLimitReached>> {
        match self.0.cache.take(limits).await {
            SharedDecision::None => None,
            SharedDecision::Failed => {
                self.0.counters.of(AREA, |counts| counts.faults += 1);
                None
            }
            SharedDecision::Made(decision) => Some(decision),
        }
    }

    /// Records that `own` calls of the caller of `key` run here, since one of them started. Other gateways learn it with
    /// [`Store::take`], or from the maintenance. Does not block on the backend.
    pub fn calls_started(&self, key: &Key, own: u32) {
        self.0.cache.calls_started(key, own);
    }

    /// Records that `own` calls of the caller of `key` run here, since another one ended. The maintenance reports it to other
    /// gateways. Does not block on the backend.
    pub fn calls_ended(&self, key: &Key, own: u32) {
        self.0.cache.calls_ended(key, own);
    }
}
