//! Answers in memory, bounded in bytes, each with a time of its own.

use std::time::{Duration, Instant};

use bytes::Bytes;
use moka::Expiry;
use moka::sync::Cache;

use super::{Group, Key};

/// Bytes of keys and answers when nothing is said: 64 MiB.
pub(super) const MAX_BYTES: u64 = 64 << 20;

#[derive(Clone)]
struct Kept {
    value: Bytes,
    ttl: Duration,
}

struct OwnTime;

impl Expiry<Key, Kept> for OwnTime {
    fn expire_after_create(&self, _: &Key, kept: &Kept, _: Instant) -> Option<Duration> {
        Some(kept.ttl)
    }

    fn expire_after_update(&self, _: &Key, kept: &Kept, _: Instant, _: Option<Duration>) -> Option<Duration> {
        Some(kept.ttl)
    }
}

pub(super) struct Memory(Cache<Key, Kept>);

impl Memory {
    pub(super) fn new(max_bytes: u64) -> Self {
        let weight =
            |key: &Key, kept: &Kept| u32::try_from(key.as_str().len() + kept.value.len()).unwrap_or(u32::MAX);
        let cache = Cache::builder().max_capacity(max_bytes).weigher(weight).expire_after(OwnTime);
        Self(cache.support_invalidation_closures().build())
    }

    pub(super) fn get(&self, key: &Key) -> Option<Bytes> {
        self.0.get(key).map(|kept| kept.value)
    }

    pub(super) fn put(&self, key: &Key, value: Bytes, ttl: Duration) {
        self.0.insert(key.clone(), Kept { value, ttl });
    }

    pub(super) fn forget(&self, group: &Group) {
        let prefix = group.prefix().to_owned();
        // Fails only where closures are not supported, and they are.
        let _ = self.0.invalidate_entries_if(move |key, _| key.as_str().starts_with(&prefix));
    }
}
