//! What was worked out once and may be given again: bytes under a key, for a time.
//!
//! Invariants: a fault of the cache is logged and never fails whoever asks, who then works it out;
//! callers who want the same at the same time wait for one who works it out; what was forgotten is not
//! given out again, and what was being made meanwhile is not kept; nothing here grows without a bound.
//!
//! Not here: what may be cached, and for whom. The key says it all: whoever makes one puts into it
//! everything that changes the answer.

mod cache;
mod config;
mod counts;
mod key;
mod memory;
mod redis;
mod single_flight;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use config::Config;
pub use counts::Counts;
pub use key::{Group, Key};
pub use redis::{Address, Options};

use cache::{Cache, Found, MAX_TTL, Stamp};
use counts::Counters;
use memory::Memory;
use redis::Redis;
use single_flight::{Flights, Landed, Turn};

/// The cache of the whole program. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Parts>);

struct Parts {
    cache: Box<dyn Cache>,
    flights: Flights,
    counters: Counters,
}

/// What was wanted, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The answer.
    pub value: Bytes,
    /// Whether it was there already.
    pub cached: bool,
}

/// An answer that was worked out, and what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The answer.
    pub value: Bytes,
    /// For whom it is.
    pub keep: Keep,
}

/// An answer that was worked out, and whether it may be given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// The answer.
    pub value: Bytes,
    /// Whether it may.
    pub keep: bool,
}

impl From<Bytes> for Fresh {
    /// It may be given again.
    fn from(value: Bytes) -> Self {
        Self { value, keep: true }
    }
}

impl Made {
    fn of(fresh: Fresh, ttl: Duration) -> Self {
        Self { value: fresh.value, keep: if fresh.keep { Keep::Own(ttl) } else { Keep::Not } }
    }
}

/// For whom an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// For whoever asks with the same own key, for so long.
    Own(Duration),
    /// For whoever asks with the same common key, for so long.
    Common(Duration),
    /// For whoever worked it out, and nobody else.
    Not,
}

/// Where an answer is looked for: under its own key, then under one that it may share with others.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The one under which equal wishes at the same time are one.
    pub own: &'a Key,
    /// The other.
    pub common: Option<&'a Key>,
}

impl Store {
    /// The one that `config` says. Whoever opens it has [`Store::tend`] run.
    pub fn open(config: &Config) -> Self {
        match config {
            Config::Memory { max_bytes } => Self::with(Box::new(Memory::new(*max_bytes))),
            Config::Redis(options) => Self::with(Box::new(Redis::new(options))),
        }
    }

    /// Does what has to be done beside the calls, such as coming back to a Redis that was away; until
    /// then, Redis is not used. Runs as long as the program, at most.
    pub async fn tend(self) {
        self.0.cache.tend().await;
    }

    fn with(cache: Box<dyn Cache>) -> Self {
        Self(Arc::new(Parts { cache, flights: Flights::default(), counters: Counters::default() }))
    }

    /// What is kept under `key`, or what `make` makes of it, which is then kept for `ttl`, at most a day,
    /// where that may be.
    ///
    /// Of callers who want the same key at once one works it out and the others wait for it; when that
    /// one is dropped, another takes over. An error goes to all who waited, and is not kept. With a `ttl`
    /// of zero nothing is kept and nobody waits for another.
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
        self.fetch_made(Places { own: key, common: None }, make).await
    }

    /// The same where only the answer says for whom it is. One that is not kept is given to nobody who
    /// waited for it: they work it out themselves, all at once.
    pub async fn fetch_made<E: Clone + Send + Sync + 'static>(
        &self,
        places: Places<'_>,
        make: impl Future<Output = Result<Made, E>> + Send,
    ) -> Result<Fetched, E> {
        let Some(seat) = self.0.flights.board(places.own) else {
            self.0.counters.looked(places.own.area(), false);
            return made(make.await);
        };
        let turn = seat.turn().await;
        if let Turn::Over(landed) = &turn {
            let shared = landed.shared();
            let is_hit = matches!(landed, Landed::Cached(_));
            self.0.counters.looked(places.own.area(), is_hit);
            return match shared {
                Some(shared) => shared,
                None => made(make.await),
            };
        }
        let (own, common) = self.0.look(places).await;
        let found = [&own, &common].into_iter().find_map(|found| found.value.clone());
        self.0.counters.looked(places.own.area(), found.is_some());
        if let Some(value) = found {
            seat.land(Landed::Cached(value.clone()));
            return Ok(Fetched { value, cached: true });
        }
        let result = make.await;
        // Before it is put anywhere: nobody waits for that but us.
        seat.land(landed(&result));
        if let Ok(made) = &result {
            self.0.put(places, made, own.stamp, common.stamp).await;
        }
        made(result)
    }

    /// Drops everything of `group`. What is being made of it meanwhile goes to those who asked for it
    /// before, and is not kept. When this has returned or was dropped, nothing older is given out.
    pub async fn forget(&self, group: &Group) {
        let detach = Detach { flights: &self.0.flights, group };
        if !self.0.cache.forget(group).await {
            self.0.counters.of(group.area(), |counts| counts.faults += 1);
        }
        drop(detach);
    }

    /// Counts a look into a cache that somebody in `area` keeps for itself.
    pub fn note(&self, area: &str, is_hit: bool) {
        self.0.counters.looked(area, is_hit);
    }

    /// Whether answers can be kept now: false while a Redis is away.
    pub fn is_there(&self) -> bool {
        self.0.cache.is_there()
    }

    /// What was counted since the start, per area: the first step of the groups.
    pub fn counts(&self) -> BTreeMap<String, Counts> {
        self.0.counters.all()
    }
}

impl Parts {
    async fn look(&self, places: Places<'_>) -> (Found, Found) {
        let own = self.get(places.own).await;
        match places.common {
            Some(common) if own.value.is_none() => (own, self.get(common).await),
            _ => (own, Found::default()),
        }
    }

    async fn get(&self, key: &Key) -> Found {
        let found = self.cache.get(key).await;
        if found.is_fault {
            self.counters.count(key, |counts| counts.faults += 1);
        }
        found
    }

    async fn put(&self, places: Places<'_>, made: &Made, own: Option<Stamp>, common: Option<Stamp>) {
        let (key, ttl, stamp) = match made.keep {
            Keep::Own(ttl) => (Some(places.own), ttl, own),
            Keep::Common(ttl) => (places.common, ttl, common),
            Keep::Not => return,
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

fn landed<E: Clone + Send + Sync + 'static>(result: &Result<Made, E>) -> Landed {
    match result {
        Ok(Made { keep: Keep::Not, .. }) => Landed::Alone,
        Ok(Made { value, .. }) => Landed::Value(value.clone()),
        Err(error) => Landed::Failed(Arc::new(error.clone())),
    }
}

/// Also when whoever forgets is dropped.
struct Detach<'a> {
    flights: &'a Flights,
    group: &'a Group,
}

impl Drop for Detach<'_> {
    fn drop(&mut self) {
        self.flights.detach(self.group);
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
