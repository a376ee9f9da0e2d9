//! What a place has to be that answers are kept in.
//!
//! Invariants: a value is given out only before its time is over and only when no `forget` of a group
//! with its key came after its [`Stamp`] was taken; no fault reaches whoever asks.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Group, Key};

/// The largest value that is kept, in bytes: 1 MiB. A larger one is worked out each time.
pub(super) const MAX_VALUE: usize = 1 << 20;
/// The longest time that anything is kept: a day.
pub(super) const MAX_TTL: Duration = Duration::from_hours(24);

/// The moment at which a value began to be made, in the words of the place it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamp {
    /// So many groups had been forgotten.
    Count(u64),
    /// The epochs of the groups that the key is in.
    Epochs(Bytes),
}

/// What a look under a key brings.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) value: Option<Bytes>,
    /// What a value is put with that is made from now on; none where it can not be kept.
    pub(super) stamp: Option<Stamp>,
    /// Whether the place failed to answer.
    pub(super) is_fault: bool,
}

/// A place that answers are kept in.
pub(super) trait Cache: Send + Sync {
    /// What is kept under `key`. A place that can not answer has nothing.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Found>;

    /// Keeps `value` for `ttl`, unless the key was forgotten since `stamp`; false when the place failed.
    fn put<'a>(&'a self, key: &'a Key, value: Bytes, ttl: Duration, stamp: Stamp) -> BoxFuture<'a, bool>;

    /// Drops everything of `group`. From the moment the future is done or dropped, nothing of it is
    /// given out here, whatever became of the place; false when the place failed.
    fn forget<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, bool>;

    /// Whether it can be asked now.
    fn is_there(&self) -> bool {
        true
    }

    /// What has to be done beside the calls, as long as the program runs.
    fn tend(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}
