//! The cache of computed values: bytes under a key, for a limited time.
//!
//! Invariants: a fault of the cache is logged and never fails a caller, which then computes the value. Concurrent
//! callers with the same key share one computation. A forgotten value is not returned again, and a value whose
//! computation was running is not cached. Every collection here has a limit. A backend that several gateways use has the
//! counts of their limits of callers too. Hits, misses and faults are counted per area.
//!
//! Not here: which values may be cached, and for whom. The caller that makes a key includes everything that changes the
//! value.

mod cache;
mod config;
mod key;
mod memory;
mod redis;
mod single_flight;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
pub use cache::{CallsAtATime, LimitKind, PERIOD, SharedLimitReached, SharedTake};

use cache::{CacheBackend, Lookup, MAX_TTL, Stamp};
pub use config::Config;
pub use key::{Group, Key};
use memory::MemoryCache;
use redis::Redis;
pub use redis::RedisOptions;
use single_flight::{FlightResult, FlightTurn, Flights};

/// The cache of the whole program. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Parts>);

struct Parts {
    cache: Box<dyn CacheBackend>,
    flights: Flights,
    counters: Counters,
}

/// A value, and whether it was cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The value.
    pub value: Bytes,
    /// Whether it was cached.
    pub cached: bool,
}

/// A computed value, and for whom it may be cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The value.
    pub value: Bytes,
    /// For whom it may be cached.
    pub keep: CacheScope,
}

/// A computed value, and whether it may be cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// The value.
    pub value: Bytes,
    /// Whether it may be cached.
    pub keep: bool,
}

impl From<Bytes> for Fresh {
    /// Returns a value that may be cached.
    fn from(value: Bytes) -> Self {
        Self { value, keep: true }
    }
}

impl Made {
    fn of(fresh: Fresh, ttl: Duration) -> Self {
        Self { value: fresh.value, keep: if fresh.keep { CacheScope::Own(ttl) } else { CacheScope::Not } }
    }
}

/// The callers that may receive a cached value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Callers with the same own key, for this time.
    Own(Duration),
    /// Callers with the same common key, for this time.
    Common(Duration),
    /// Only the caller that computed it.
    Not,
}

/// The keys of a lookup: the caller's own key, then one that other callers may share.
#[derive(Debug, Clone, Copy)]
pub struct CacheKeys<'a> {
    /// The own key. Concurrent calls with the same own key share one computation.
    pub own: &'a Key,
    /// The shared key.
    pub common: Option<&'a Key>,
}

impl Store {
    /// Opens the cache that `config` describes. The caller must run [`Store::maintain`].
    pub fn open(config: &Config) -> Self {
        match config {
            Config::Memory { max_bytes } => Self::with(Box::new(MemoryCache::new(*max_bytes))),
            Config::Redis(options) => Self::with(Box::new(Redis::new(options))),
        }
    }

    /// Runs the maintenance of the cache, such as the connection to Redis, which is not used before. Runs as long as
    /// the program, at most.
    pub async fn maintain(self) {
        self.0.cache.maintain().await;
    }

    fn with(cache: Box<dyn CacheBackend>) -> Self {
        Self(Arc::new(Parts { cache, flights: Flights::default(), counters: Counters::default() }))
    }

    /// Returns the cached value of `key`, or runs `make` and caches its value for `ttl`, at most a day, if that is
    /// allowed.
    ///
    /// One of several concurrent callers with the same key computes the value, and the others wait for it. If that
    /// caller is dropped, another one continues. An error is returned to all of them and is not cached. With a `ttl` of
    /// zero nothing is cached and no caller waits.
    pub async fn fetch<E: Clone + Send + Sync + 'static>(
        &self,
        key: &Key,
        ttl: Duration,
        make: impl Future<Output = Result<impl Into<Fresh>, E>> + Send,
    ) -> Result<Fetched, E> {
        let make = async { make.await.map(|fresh| Made::of(fresh.into(), ttl)) };
        if ttl.is_zero() {
            return made(make.await);
        }
        self.fetch_made(CacheKeys { own: key, common: None }, make).await
    }

    /// Fetches a value whose audience is only known once it was computed. A value that may not be cached is not given
    /// to waiting callers: each of them computes its own, all at once.
    pub async fn fetch_made<E: Clone + Send + Sync + 'static>(
        &self,
        keys: CacheKeys<'_>,
        make: impl Future<Output = Result<Made, E>> + Send,
    ) -> Result<Fetched, E> {
        let Some(flight) = self.0.flights.join(keys.own) else {
            self.0.counters.looked(keys.own.area(), false);
            return made(make.await);
        };
        let turn = flight.turn().await;
        if let FlightTurn::Over(landed) = &turn {
            let shared = landed.shared();
            let is_hit = matches!(landed, FlightResult::Cached(_));
            self.0.counters.looked(keys.own.area(), is_hit);
            return match shared {
                Some(shared) => shared,
                None => made(make.await),
            };
        }
        let (own, common) = self.0.look(keys).await;
        let found = [&own, &common].into_iter().find_map(|found| found.value.clone());
        self.0.counters.looked(keys.own.area(), found.is_some());
        if let Some(value) = found {
            flight.land(FlightResult::Cached(value.clone()));
            return Ok(Fetched { value, cached: true });
        }
        let result = make.await;
        // Before the value is cached: only this caller waits for that.
        flight.land(landed(&result));
        if let Ok(made) = &result {
            self.0.put(keys, made, own.stamp, common.stamp).await;
        }
        made(result)
    }

    /// Invalidates every value of `group`. A value whose computation is running goes to the callers that already wait
    /// for it, and is not cached. When this has returned or was dropped, no older value is returned.
    pub async fn forget(&self, group: &Group) {
        let detach = Detach { flights: &self.0.flights, group };
        if !self.0.cache.forget(group).await {
            self.0.counters.of(group.area(), |counts| counts.faults += 1);
        }
        drop(detach);
    }

    /// Counts a lookup in a cache that another part keeps in `area`.
    pub fn record(&self, area: &str, is_hit: bool) {
        self.0.counters.looked(area, is_hit);
    }

    /// Whether values can be cached now: false while Redis is not reachable.
    pub fn is_there(&self) -> bool {
        self.0.cache.is_there()
    }

    /// The counts since the start, per area, which is the first step of the groups.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        self.0.counters.all()
    }
}

impl Parts {
    async fn look(&self, keys: CacheKeys<'_>) -> (Lookup, Lookup) {
        let own = self.get(keys.own).await;
        match keys.common {
            Some(common) if own.value.is_none() => (own, self.get(common).await),
            _ => (own, Lookup::default()),
        }
    }

    async fn get(&self, key: &Key) -> Lookup {
        let found = self.cache.get(key).await;
        if found.is_fault {
            self.counters.count(key, |counts| counts.faults += 1);
        }
        found
    }

    async fn put(&self, keys: CacheKeys<'_>, made: &Made, own: Option<Stamp>, common: Option<Stamp>) {
        let (key, ttl, stamp) = match made.keep {
            CacheScope::Own(ttl) => (Some(keys.own), ttl, own),
            CacheScope::Common(ttl) => (keys.common, ttl, common),
            CacheScope::Not => return,
        };
        let (Some(key), Some(stamp), false) = (key, stamp, ttl.is_zero()) else { return };
        if !self.cache.put(key, made.value.clone(), ttl.min(MAX_TTL), stamp).await {
            self.counters.count(key, |counts| counts.faults += 1);
        }
    }
}

fn made<E>(result: Result<Made, E>) -> Result<Fetched, E> {
    result.map(|made| Fetched { value: made.value, cached: false })
}

fn landed<E: Clone + Send + Sync + 'static>(result: &Result<Made, E>) -> FlightResult {
    match result {
        Ok(Made { keep: CacheScope::Not, .. }) => FlightResult::Alone,
        Ok(Made { value, .. }) => FlightResult::Value(value.clone()),
        Err(error) => FlightResult::Failed(Arc::new(error.clone())),
    }
}

/// Detaches also if the future of [`Store::forget`] is dropped.
struct Detach<'a> {
    flights: &'a Flights,
    group: &'a Group,
}

impl Drop for Detach<'_> {
    fn drop(&mut self) {
        self.flights.detach(self.group);
    }
}

/// The most areas with their own counts. Later areas are counted as [`OTHERS`].
const MAX_AREAS: usize = 64;
const OTHERS: &str = "other";

/// The counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups without a value: the caller computed it, or waited for a caller that did.
    pub misses: u64,
    /// Lookups, writes and invalidations that failed.
    pub faults: u64,
}

#[derive(Default)]
struct Counters(Mutex<BTreeMap<String, Counts>>);

impl Counters {
    fn count(&self, key: &Key, count: impl FnOnce(&mut Counts)) {
        self.of(key.area(), count);
    }

    /// Counts a lookup in `area`.
    fn looked(&self, area: &str, is_hit: bool) {
        self.of(area, |counts| if is_hit { counts.hits += 1 } else { counts.misses += 1 });
    }

    fn of(&self, area: &str, count: impl FnOnce(&mut Counts)) {
        let mut areas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = areas.get_mut(area) {
            return count(counts);
        }
        let area = if areas.len() < MAX_AREAS { area } else { OTHERS };
        count(areas.entry(area.to_owned()).or_default());
    }

    /// All counts, by area as in a key.
    fn all(&self) -> BTreeMap<String, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
