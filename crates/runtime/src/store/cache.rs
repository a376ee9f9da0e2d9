//! The interface of a cache backend.
//!
//! Invariants: a value is returned only before it expires, and only if no group of its key was forgotten after its
//! [`Stamp`] was taken. A fault of the backend never fails a caller.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::shared_limits::{SharedDecision, SharedTake};
use super::{Group, Key};

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
