//! A cache of what was fetched for clients, for a limited time.
//!
//! Invariants: it has a limit, and the value that was not used for longest makes room.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

/// Values by their URLs, each with the time until which it counts.
pub(crate) struct Cache<T>(Mutex<LruCache<String, (Arc<T>, Instant)>>);

impl<T> Cache<T> {
    /// An empty cache of at most `most` values.
    pub(crate) fn new(most: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(most)))
    }

    /// Returns the value of `url`, unless its time is over.
    pub(crate) fn get(&self, url: &str) -> Option<Arc<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, until) = all.get(url)?;
        (*until > Instant::now()).then(|| Arc::clone(value))
    }

    /// Caches `value` for `lifetime`.
    pub(crate) fn put(&self, url: &str, value: &Arc<T>, lifetime: Duration) {
        let cached = (Arc::clone(value), Instant::now() + lifetime);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(url.to_owned(), cached);
    }
}
