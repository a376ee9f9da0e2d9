//! The cache in memory, limited in bytes. Each value has its own expiry.
//!
//! The library enforces the limit and frees memory. This module decides which values are valid, by a clock that tests
//! can pause and by the forgotten groups. The library's own `invalidate_entries_if` sometimes returns values that it
//! should have dropped.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use moka::Expiry;
use moka::sync::Cache as Moka;
use tokio::time::Instant;

use super::cache::{CacheBackend, Found, MAX_VALUE, Stamp};
use super::{Group, Key};

/// The default limit of keys and values: 64 MiB.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// The most forgotten groups that are remembered. If there are more, everything is forgotten.
const REMEMBERED: usize = 10_000;
/// The approximate memory of an entry beside its bytes.
const OVERHEAD: usize = 256;

#[derive(Clone)]
struct Kept {
    value: Bytes,
    ttl: Duration,
    until: Instant,
    /// The number of groups that had been forgotten when its computation began.
    since: u64,
}

struct OwnTime;

impl Expiry<Key, Kept> for OwnTime {
    fn expire_after_create(&self, _: &Key, kept: &Kept, _: std::time::Instant) -> Option<Duration> {
        Some(kept.ttl)
    }

    fn expire_after_update(
        &self,
        _: &Key,
        kept: &Kept,
        _: std::time::Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(kept.ttl)
    }
}

pub(super) struct MemoryCache {
    kept: Moka<Key, Kept>,
    max_bytes: u64,
    forgotten: Mutex<Forgotten>,
}

#[derive(Default)]
struct Forgotten {
    /// The number of groups forgotten so far.
    count: u64,
    /// For each group, the count at which it was last forgotten.
    groups: HashMap<Box<str>, u64>,
    /// Values whose computation began before this count are invalid.
    floor: u64,
}

impl Forgotten {
    /// Returns true if there are too many groups. Then everything is forgotten.
    fn add(&mut self, group: &Group) -> bool {
        self.count += 1;
        self.groups.insert(group.prefix().into(), self.count);
        let too_many = self.groups.len() > REMEMBERED;
        if too_many {
            self.groups.clear();
            self.floor = self.count;
        }
        too_many
    }

    /// Whether no group of `key` was forgotten after the count was `since`.
    fn spares(&self, key: &Key, since: u64) -> bool {
        let spared = |group| self.groups.get(group).is_none_or(|at| *at <= since);
        self.floor <= since && key.groups().all(spared)
    }
}

impl MemoryCache {
    pub(super) fn new(max_bytes: u64) -> Self {
        let weight = |key: &Key, kept: &Kept| u32::try_from(weight(key, &kept.value)).unwrap_or(u32::MAX);
        let kept = Moka::builder().max_capacity(max_bytes).weigher(weight).expire_after(OwnTime);
        Self { kept: kept.build(), max_bytes, forgotten: Mutex::default() }
    }

    fn forgotten(&self) -> MutexGuard<'_, Forgotten> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, key: &Key) -> Found {
        let kept = self.kept.get(key);
        let forgotten = self.forgotten();
        let good = |kept: &Kept| Instant::now() < kept.until && forgotten.spares(key, kept.since);
        let value = kept.filter(good).map(|kept| kept.value);
        Found { value, stamp: Some(Stamp::Count(forgotten.count)), is_fault: false }
    }

    fn keep(&self, key: &Key, value: Bytes, ttl: Duration, stamp: &Stamp) {
        let (&Stamp::Count(since), Some(until)) = (stamp, Instant::now().checked_add(ttl)) else { return };
        // The library would accept a value that is too large and evict it a little later.
        if value.len() > MAX_VALUE || weight(key, &value) as u64 > self.max_bytes {
            return;
        }
        // A group may have been forgotten since the computation began.
        if self.forgotten().spares(key, since) {
            self.kept.insert(key.clone(), Kept { value, ttl, until, since });
        }
    }

    fn drop_all(&self, group: &Group) {
        if self.forgotten().add(group) {
            self.kept.invalidate_all();
        }
    }
}

fn weight(key: &Key, value: &Bytes) -> usize {
    key.as_str().len() + value.len() + OVERHEAD
}

impl CacheBackend for MemoryCache {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Found> {
        ready(self.look(key)).boxed()
    }

    fn put<'a>(&'a self, key: &'a Key, value: Bytes, ttl: Duration, stamp: Stamp) -> BoxFuture<'a, bool> {
        self.keep(key, value, ttl, &stamp);
        ready(true).boxed()
    }

    fn forget<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, bool> {
        self.drop_all(group);
        ready(true).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_mins(1);

    fn key(group: &Group, at: usize) -> Key {
        Key::new(group, &at)
    }

    fn put(memory: &MemoryCache, key: &Key, value: &[u8]) {
        let stamp = memory.look(key).stamp.expect("memory always has one");
        memory.keep(key, Bytes::copy_from_slice(value), TTL, &stamp);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_given_until_its_time_is_over() {
        let (memory, group) = (MemoryCache::new(MAX_BYTES), Group::new(&["g"]));
        let key = key(&group, 1);
        put(&memory, &key, b"x");
        tokio::time::advance(TTL.saturating_sub(Duration::from_millis(1))).await;
        assert_eq!(memory.look(&key).value.as_deref(), Some(&b"x"[..]));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(memory.look(&key).value, None);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_have_a_bound_and_what_is_larger_is_not_kept() {
        let (memory, group) = (MemoryCache::new(10_000), Group::new(&["g"]));
        put(&memory, &key(&group, 0), &[0; 10_000]);
        assert_eq!(memory.look(&key(&group, 0)).value, None, "never there, not even for a moment");
        for at in 0..100 {
            put(&memory, &key(&group, at), &[0; 1_000]);
        }
        memory.kept.run_pending_tasks();
        assert!(memory.kept.weighted_size() <= 10_000, "{}", memory.kept.weighted_size());
        assert!(memory.kept.entry_count() > 0);

        let roomy = MemoryCache::new(MAX_BYTES);
        put(&roomy, &key(&group, 0), &vec![0; MAX_VALUE + 1]);
        assert_eq!(roomy.look(&key(&group, 0)).value, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_begun_before_its_group_was_forgotten_is_not_kept() {
        let memory = MemoryCache::new(MAX_BYTES);
        let (ours, theirs) = (Group::new(&["g", "a"]), Group::new(&["g", "b"]));
        let stamps = [&ours, &theirs].map(|group| memory.look(&key(group, 1)).stamp.expect("one"));
        memory.drop_all(&ours);
        for (group, stamp) in [&ours, &theirs].into_iter().zip(&stamps) {
            memory.keep(&key(group, 1), Bytes::from_static(b"x"), TTL, stamp);
        }
        assert_eq!(memory.look(&key(&ours, 1)).value, None);
        assert!(memory.look(&key(&theirs, 1)).value.is_some());
        put(&memory, &key(&ours, 1), b"new");
        assert!(memory.look(&key(&ours, 1)).value.is_some(), "what is begun afterwards is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn when_too_many_groups_were_forgotten_everything_is() {
        let (memory, group) = (MemoryCache::new(MAX_BYTES), Group::new(&["g"]));
        put(&memory, &key(&group, 1), b"x");
        let early = memory.look(&key(&group, 2)).stamp.expect("one");
        for at in 0..2 * REMEMBERED {
            memory.drop_all(&Group::new(&["h", &(at % REMEMBERED).to_string()]));
        }
        assert!(memory.look(&key(&group, 1)).value.is_some(), "the same ones again are not more");
        memory.drop_all(&Group::new(&["h", "one more"]));
        memory.keep(&key(&group, 2), Bytes::from_static(b"x"), TTL, &early);
        assert!((1..=2).all(|at| memory.look(&key(&group, at)).value.is_none()));
        assert!(memory.forgotten().groups.is_empty());
        put(&memory, &key(&group, 1), b"x");
        assert!(memory.look(&key(&group, 1)).value.is_some());
    }
}
