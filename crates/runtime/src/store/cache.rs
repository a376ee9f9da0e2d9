//! The interface of a cache backend, and the limits of callers that several gateways share through it.
//!
//! Invariants: a value is returned only before it expires, and only if no group of its key was forgotten after its
//! [`Stamp`] was taken. A fault of the backend never fails a caller. A backend that is not shared, or cannot be reached in
//! time, decides nothing about limits. The caller then uses its own counts, which it keeps in any case.
//!
//! Not here: which requests a limit counts, and the counts of one gateway (`gateway::manager::limits`).

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Group, Key, Store};

/// The largest value that is cached: 1 MiB. A larger one is computed each time.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// The longest time for which a value is cached: a day.
pub(super) const MAX_TTL: Duration = Duration::from_hours(24);

/// The moment at which the computation of a value began, as its backend records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The number of groups that had been forgotten.
    Count(u64),
    /// The epochs of the groups of the key.
    Epochs(Bytes),
}

/// The result of a lookup.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    pub(super) value: Option<Bytes>,
    /// The stamp for a value whose computation begins now; `None` if it cannot be cached.
    pub(super) stamp: Option<Stamp>,
    /// Whether the backend failed.
    pub(super) is_fault: bool,
}

/// A backend that caches values.
pub(super) trait CacheBackend: Send + Sync {
    /// Looks up `key`. A backend that is not reachable finds nothing.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Lookup>;

    /// Caches `value` for `ttl`, unless the key was forgotten since `stamp`. Returns false if the backend failed.
    fn put<'a>(&'a self, key: &'a Key, value: Bytes, ttl: Duration, stamp: Stamp) -> BoxFuture<'a, bool>;

    /// Drops every value of `group`. When the future has ended or was dropped, none of them is returned again, even if
    /// the backend failed. Returns false if it failed.
    fn forget<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, bool>;

    /// Whether the backend is reachable.
    fn is_there(&self) -> bool {
        true
    }

    /// Whether other gateways may use it.
    fn is_shared(&self) -> bool {
        false
    }

    /// Takes a request of all `limits` at once, or of none.
    fn take<'a>(&'a self, _limits: &'a [SharedTake]) -> BoxFuture<'a, SharedDecision> {
        std::future::ready(SharedDecision::None).boxed()
    }

    /// Records that `own` calls of the caller of `key` run at this gateway, since one of them started.
    fn calls_started(&self, _key: &Key, _own: u32) {}

    /// Records that `own` calls of the caller of `key` run at this gateway, since another one ended.
    fn calls_ended(&self, _key: &Key, _own: u32) {}

    /// Runs the maintenance of the backend until the program ends.
    fn maintain(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

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
