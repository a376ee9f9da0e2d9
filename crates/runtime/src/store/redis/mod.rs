//! The cache in Redis or Valkey, shared by all instances of Switchyard that use the same server.
//!
//! ```text
//!              connected, pinged, pending invalidations sent
//!   away ────────────────────────────────────────────────────────────▶ there
//!     ▲                                                                  │
//!     └── three faults in a row, a lost connection, a failed `forget`
//! ```
//!
//! Invariants:
//! - Redis is optional: each command has a time limit, and no caller waits for a connection. While Redis is away, no
//!   command is sent and nothing is cached, so callers compute their values.
//! - A group has an epoch in Redis, which is a random word. A value stores the epochs of all groups of its key from the
//!   time when its computation began. It is valid only while they are unchanged. A forgotten value is therefore never
//!   returned, even after a late write.
//! - After a failed `forget` this process does not use Redis until the invalidation succeeded.
//! - An epoch is never used twice, and an epoch that Redis lost is replaced by a new one.
//! - There is one attempt to connect at a time. Redis is used again only after it answered and received every pending
//!   invalidation.
//! - Invalid values stay in Redis until they expire, or until it evicts them.
//!
//! Not here: the client library (`redis_link`), limits of callers (`limits`).

mod limits;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};
use tokio::sync::Notify;
use tokio::time::sleep;
use uuid::Uuid;

use super::cache::{CacheBackend, Lookup, MAX_TTL, MAX_VALUE, SharedDecision, Stamp};
use super::{Group, Key, SharedTake};
use crate::redis_link::{Address, CommandError, Link};
use limits::OwnCalls;

/// The pause between two attempts to connect, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Faults in a row after which Redis is not used.
const FAULTS: u32 = 3;
/// The most groups whose invalidation is pending. If there are more, everything is invalidated.
const MOST_PENDING: usize = 256;
/// The expiry of an epoch, which is longer than that of any value.
const EPOCH_TTL: Duration = MAX_TTL.saturating_mul(2);
/// The length of an epoch in bytes.
const EPOCH: usize = 16;

/// The settings of the connection to Redis.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The address of Redis.
    pub address: Address,
    /// The prefix of every name in Redis.
    pub prefix: String,
    /// The time limit of one command.
    pub command_timeout: Duration,
}

pub(super) struct Redis {
    options: RedisOptions,
    state: Mutex<State>,
    /// Wakes the task that connects.
    work: Notify,
    calls: OwnCalls,
}

#[derive(Default)]
struct State {
    /// The number and the link of the connection; `None` while Redis is away.
    link: Option<(u64, Link)>,
    /// The number of connections so far.
    links: u64,
    /// Faults in a row.
    faults: u32,
    /// Invalidations to send before Redis is used again.
    pending: Vec<Group>,
    /// Whether the log already says that Redis is away.
    is_told: bool,
}

impl State {
    fn leave(&mut self, reason: &dyn std::fmt::Display) {
        self.link = None;
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::warn!(%reason, "redis cannot be reached; until it is back, answers are computed and not cached, and each gateway counts for its limits of callers alone");
        }
    }

    fn add_pending(&mut self, group: &Group) {
        if self.pending.contains(group) {
            return;
        }
        if self.pending.len() >= MOST_PENDING {
            self.pending.clear();
            return self.pending.push(Group::new(&[]));
        }
        self.pending.push(group.clone());
    }
}

impl Redis {
    pub(super) fn new(options: &RedisOptions) -> Self {
        Self {
            options: options.clone(),
            state: Mutex::default(),
            work: Notify::new(),
            calls: OwnCalls::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> Option<(u64, Link)> {
        self.state().link.clone()
    }

    fn value_name(&self, key: &str) -> String {
        format!("{}v:{key}", self.options.prefix)
    }

    fn epoch_name(&self, group: &str) -> String {
        format!("{}e:{group}", self.options.prefix)
    }

    /// Handles the result of a command on the link `id`.
    fn heard<T>(&self, id: u64, result: Result<T, CommandError>) -> Option<T> {
        let mut state = self.state();
        let is_current = state.link.as_ref().is_some_and(|(current, _)| *current == id);
        match result {
            Ok(value) => {
                if is_current {
                    state.faults = 0;
                }
                Some(value)
            }
            Err(fault) => {
                tracing::debug!(%fault, "redis failed to do something");
                if is_current {
                    state.faults += 1;
                    if state.faults >= FAULTS || matches!(fault, CommandError::Gone(_)) {
                        state.leave(&fault);
                        self.work.notify_one();
                    }
                }
                None
            }
        }
    }

    async fn look(&self, link: &Link, key: &Key) -> Result<Lookup, CommandError> {
        let mut names: Vec<String> = key.groups().map(|group| self.epoch_name(group)).collect();
        names.push(self.value_name(key.as_str()));
        let mut found = link.get(&names).await?;
        let value = found.pop().flatten();
        names.pop();
        if let Some(epochs) = joined(&found) {
            let value = value.filter(|value| value.starts_with(&epochs));
            let value = value.map(|value| value.slice(epochs.len()..));
            return Ok(Lookup { value, stamp: Some(Stamp::Epochs(epochs)), is_fault: false });
        }
        // Some of the groups have no epoch, so no value in them is valid.
        let found = link.ensure(&names, &new_epoch(), EPOCH_TTL).await?;
        Ok(Lookup { value: None, stamp: joined(&found).map(Stamp::Epochs), is_fault: false })
    }

    /// Gives `group` a new epoch, so that none of its values is valid.
    async fn renew(&self, link: &Link, group: &Group) -> Result<(), CommandError> {
        link.set(&self.epoch_name(group.prefix()), &new_epoch(), EPOCH_TTL).await
    }
}

/// Joins the epochs, if all are present.
fn joined(epochs: &[Option<Bytes>]) -> Option<Bytes> {
    let mut all = BytesMut::with_capacity(epochs.len() * EPOCH);
    for epoch in epochs {
        all.extend_from_slice(epoch.as_ref().filter(|epoch| epoch.len() == EPOCH)?);
    }
    Some(all.freeze())
}

fn new_epoch() -> [u8; EPOCH] {
    Uuid::new_v4().into_bytes()
}

impl CacheBackend for Redis {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Lookup> {
        async move {
            let Some((id, link)) = self.link() else { return Lookup::default() };
            let found = self.look(&link, key).await;
            self.heard(id, found).unwrap_or(Lookup { is_fault: true, ..Lookup::default() })
        }
        .boxed()
    }

    fn put<'a>(&'a self, key: &'a Key, value: Bytes, ttl: Duration, stamp: Stamp) -> BoxFuture<'a, bool> {
        async move {
            let Stamp::Epochs(epochs) = stamp else { return true };
            let link = self.link().filter(|_| value.len() <= MAX_VALUE);
            let Some((id, link)) = link else { return true };
            let whole = [&epochs[..], &value[..]].concat();
            match link.set(&self.value_name(key.as_str()), &whole, ttl).await {
                Ok(()) => true,
                // A successful write does not reset the count of faults; only lookups and invalidations do.
                fault => self.heard(id, fault).is_some(),
            }
        }
        .boxed()
    }

    fn forget<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, bool> {
        let owed = PendingInvalidation { redis: self, group, is_paid: false };
        async move {
            let Some((id, link)) = self.link() else { return true };
            let renewed = self.renew(&link, group).await;
            if renewed.is_ok() {
                owed.paid();
            }
            self.heard(id, renewed).is_some()
        }
        .boxed()
    }

    fn is_there(&self) -> bool {
        self.state().link.is_some()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn take<'a>(&'a self, limits: &'a [SharedTake]) -> BoxFuture<'a, SharedDecision> {
        self.take_of(limits).boxed()
    }

    fn calls_started(&self, key: &Key, own: u32) {
        self.calls.started(key, own);
    }

    fn calls_ended(&self, key: &Key, own: u32) {
        self.calls.ended(key, own);
    }

    fn maintain(&self) -> BoxFuture<'_, ()> {
        join(self.maintain_forever(), self.report_calls_forever()).map(drop).boxed()
    }
}

/// A pending invalidation in Redis. If it fails, or its caller is dropped, Redis is away until it succeeded.
struct PendingInvalidation<'a> {
    redis: &'a Redis,
    group: &'a Group,
    is_paid: bool,
}

impl PendingInvalidation<'_> {
    fn paid(mut self) {
        self.is_paid = true;
    }
}

impl Drop for PendingInvalidation<'_> {
    fn drop(&mut self) {
        if self.is_paid {
            return;
        }
        let mut state = self.redis.state();
        state.add_pending(self.group);
        if state.link.is_some() {
            state.leave(&"it did not take that answers are out of date");
        }
        self.redis.work.notify_one();
    }
}

impl Redis {
    /// Connects whenever Redis is away: one attempt at a time, with growing pauses.
    async fn maintain_forever(&self) {
        let (first, most) = PAUSE;
        let mut pause = first;
        loop {
            if self.link().is_some() {
                self.work.notified().await;
            } else if let Err(fault) = self.reconnect().await {
                self.state().leave(&fault);
                sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
                pause = most.min(pause * 2);
            } else {
                pause = first;
            }
        }
    }

    /// Connects, sends the pending invalidations, and makes the link available to callers.
    async fn reconnect(&self) -> Result<(), CommandError> {
        let link = Link::open(&self.options.address, self.options.command_timeout).await?;
        while let Some(group) = self.take_pending_or_open(&link) {
            self.renew(&link, &group).await?;
            self.state().pending.retain(|owed| *owed != group);
        }
        tracing::info!("redis is there");
        Ok(())
    }

    /// Returns one pending group. If there is none, makes `link` available to callers.
    fn take_pending_or_open(&self, link: &Link) -> Option<Group> {
        let mut state = self.state();
        if let Some(group) = state.pending.first() {
            return Some(group.clone());
        }
        state.links += 1;
        state.link = Some((state.links, link.clone()));
        (state.faults, state.is_told) = (0, false);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis() -> Redis {
        let address = Address::parse("redis://:s3cret@localhost:1/0").expect("an address");
        let options =
            RedisOptions { address, prefix: "t:".into(), command_timeout: Duration::from_millis(100) };
        assert!(!format!("{options:?}").contains("s3cret"));
        Redis::new(&options)
    }

    #[tokio::test(start_paused = true)]
    async fn invalidations_during_an_outage_are_replayed_up_to_a_bound() {
        let redis = redis();
        for _ in 0..2 {
            assert!(redis.forget(&Group::new(&["a"])).await, "nobody failed");
        }
        assert_eq!(redis.state().pending, [Group::new(&["a"])]);
        drop(redis.forget(&Group::new(&["dropped before it was asked"])));
        assert_eq!(redis.state().pending.len(), 2);
        for at in 0..MOST_PENDING {
            redis.forget(&Group::new(&["b", &at.to_string()])).await;
        }
        let owed = redis.state().pending.clone();
        let key = Key::new(&Group::new(&["anything"]), &1);
        assert!(owed[0].contains(&key), "more than can be remembered: everything");
        assert!(owed.len() < MOST_PENDING);
    }

    #[tokio::test(start_paused = true)]
    async fn while_it_is_away_there_is_nothing_and_nothing_is_kept() {
        let (redis, key) = (redis(), Key::new(&Group::new(&["a"]), &1));
        let found = redis.get(&key).await;
        assert!(found.value.is_none() && found.stamp.is_none() && !found.is_fault);
        assert!(redis.put(&key, Bytes::new(), MAX_TTL, Stamp::Epochs(Bytes::new())).await);
    }

    #[test]
    fn epochs_are_whole_or_none() {
        let epoch = |byte: u8, length: usize| Some(Bytes::from(vec![byte; length]));
        let whole = joined(&[epoch(1, EPOCH), epoch(2, EPOCH)]).expect("both");
        assert_eq!((whole.len(), whole[0], whole[EPOCH]), (2 * EPOCH, 1, 2));
        assert_eq!(joined(&[epoch(1, EPOCH), None]), None);
        assert_eq!(joined(&[epoch(1, EPOCH - 1), epoch(2, EPOCH + 1)]), None, "moved into each other");
    }
}
