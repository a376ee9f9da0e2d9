//! What was worked out once and may be given again: bytes under a key, for a time.
//!
//! Invariants: a fault of the cache is logged and never fails whoever asks, who then works it out;
//! callers who want the same at the same time wait for one who works it out; nothing here grows
//! without a bound.
//!
//! Not here: what may be cached, and for whom. The key says it all: whoever makes one puts into it
//! everything that changes the answer.

mod key;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use key::{Group, Key};

/// Where answers are kept.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Bytes of answers kept in memory, at most.
    pub max_bytes: Option<u64>,
}

/// The cache of the whole program. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<memory::Memory>);

/// What was wanted, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The answer.
    pub value: Bytes,
    /// Whether it was there already.
    pub cached: bool,
}

impl Store {
    /// An empty one.
    pub fn open(config: &Config) -> Self {
        Self(Arc::new(memory::Memory::new(config.max_bytes.unwrap_or(memory::MAX_BYTES))))
    }

    /// What is kept under `key`, or what `make` makes of it, which is then kept for `ttl`.
    pub async fn fetch<E: Send>(
        &self,
        key: &Key,
        ttl: Duration,
        make: impl Future<Output = Result<Bytes, E>> + Send,
    ) -> Result<Fetched, E> {
        if let Some(value) = self.0.get(key) {
            return Ok(Fetched { value, cached: true });
        }
        let value = make.await?;
        self.0.put(key, value.clone(), ttl);
        Ok(Fetched { value, cached: false })
    }

    /// Drops everything of `group`.
    pub async fn forget(&self, group: &Group) {
        self.0.forget(group);
    }
}
