//! The cache in memory, limited in bytes. Each value has its own expiry.
//!
//! Invariants: the least recently used values make room, and expired ones among them go first. A value is returned only
//! before its expiry, by a clock that tests can pause, and only if no group of its key was forgotten meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use lru::LruCache;
use tokio::time::Instant;

use super::cache::{CacheBackend, Lookup, MAX_VALUE, Stamp};
use super::{Group, Key};

/// The default limit of keys and values: 64 MiB.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// The most forgotten groups that are remembered. If there are more, everything is forgotten.
const REMEMBERED: usize = 10_000;
/// The approximate memory of an entry beside its bytes.
const OVERHEAD: usize = 256;

struct Entry {
    value: Bytes,
    until: Instant,
    /// The number of groups that had been forgotten when its computation began.
    since: u64,
}

pub(super) struct MemoryCache {
    max_bytes: u64,
    // Held for a lookup or a change only.
    state: Mutex<State>,
}

struct State {
    entries: LruCache<Key, Entry>,
    /// The sum of the weights of the entries.
    bytes: u64,
    forgotten: Forgotten,
}

impl State {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.pop(key) {
            self.bytes -= weight(key, &entry.value);
        }
    }

    /// Removes the least recently used entries until at most `max_bytes` are left, and those that expired first.
    fn shrink(&mut self, max_bytes: u64) {
        let now = Instant::now();
        while let Some((key, entry)) = self.entries.peek_lru()
            && (self.bytes > max_bytes || entry.until <= now)
        {
            self.bytes -= weight(key, &entry.value);
            self.entries.pop_lru();
        }
    }
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
        let state = State { entries: LruCache::unbounded(), bytes: 0, forgotten: Forgotten::default() };
        Self { max_bytes, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, key: &Key) -> Lookup {
        let mut state = self.lock();
        let State { entries, forgotten, .. } = &mut *state;
        let is_valid =
            |entry: &&mut Entry| Instant::now() < entry.until && forgotten.spares(key, entry.since);
        let value = entries.get_mut(key).filter(is_valid).map(|entry| entry.value.clone());
        if value.is_none() {
            state.remove(key);
        }
        Lookup { value, stamp: Some(Stamp::Count(state.forgotten.count)), is_fault: false }
    }

    fn keep(&self, key: &Key, value: Bytes, ttl: Duration, stamp: &Stamp) {
        let (&Stamp::Count(since), Some(until)) = (stamp, Instant::now().checked_add(ttl)) else { return };
        let bytes = weight(key, &value);
        let mut state = self.lock();
        // A group may have been forgotten since the computation began.
        if value.len() > MAX_VALUE || bytes > self.max_bytes || !state.forgotten.spares(key, since) {
            return;
        }
        state.remove(key);
        state.bytes += bytes;
        state.entries.put(key.clone(), Entry { value, until, since });
        state.shrink(self.max_bytes);
    }

    fn drop_all(&self, group: &Group) {
        let mut state = self.lock();
        if state.forgotten.add(group) {
            state.entries.clear();
            state.bytes = 0;
        }
    }
}

fn weight(key: &Key, value: &Bytes) -> u64 {
    (key.as_str().len() + value.len() + OVERHEAD) as u64
}

impl CacheBackend for MemoryCache {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Lookup> {
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
        let bytes = memory.lock().bytes;
        let count = memory.lock().entries.len();
        assert!(bytes <= 10_000 && count == 7, "{count} entries of {bytes} bytes");
        assert!(
            memory.look(&key(&group, 99)).value.is_some() && memory.look(&key(&group, 0)).value.is_none()
        );
        put(&memory, &key(&group, 99), b"x");
        assert_eq!(memory.lock().bytes, bytes - 999, "a value that is replaced no longer counts");
        tokio::time::advance(TTL).await;
        put(&memory, &key(&group, 100), b"x");
        assert_eq!(memory.lock().entries.len(), 1, "expired values do not wait for a full cache");

        let roomy = MemoryCache::new(MAX_BYTES);
        put(&roomy, &key(&group, 0), &vec![0; MAX_VALUE + 1]);
        assert_eq!(roomy.look(&key(&group, 0)).value, None);
    }

    #[tokio::test(start_paused = true)]
    async fn entry_started_before_its_group_was_forgotten_is_not_stored() {
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
        assert!(memory.lock().forgotten.groups.is_empty());
        put(&memory, &key(&group, 1), b"x");
        assert!(memory.look(&key(&group, 1)).value.is_some());
    }
}
