//! Cache of recent results, so that a repeated query costs nothing.
//!
//! Invariant: a result is returned only for the state of the documents that it was made from.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;

use super::arguments::Search;
use json::Raw;
use runtime::store::Store;

/// Name of this cache in the program's cache statistics.
pub(super) const AREA: &str = "handbook";
/// Longest query that is cached, in bytes. Longer ones are hardly repeated.
const LONGEST: usize = 1_024;

/// Recent results by the state of the documents and the search. The least recently used one is evicted first.
pub(super) struct Cache {
    /// `None` if the cache is off. Held for a lookup only, never across an await.
    answers: Option<Mutex<LruCache<(u64, Search), Raw>>>,
    store: Store,
}

impl Cache {
    /// A cache of `size` results; 0 turns it off. `store` counts its hits and misses.
    pub(super) fn new(size: usize, store: &Store) -> Self {
        let answers = NonZeroUsize::new(size).map(|size| Mutex::new(LruCache::new(size)));
        Self { answers, store: store.clone() }
    }

    /// Returns the cached result of this query in this state.
    pub(super) fn get(&self, generation: u64, requested: &Search) -> Option<Raw> {
        let answer = self.with(|answers| answers.get(&(generation, requested.clone())).cloned()).flatten();
        self.store.record(AREA, answer.is_some());
        answer
    }

    /// Caches a result of this state.
    pub(super) fn put(&self, generation: u64, requested: Search, answer: Raw) {
        if requested.query.len() <= LONGEST {
            self.with(|answers| answers.put((generation, requested), answer));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut LruCache<(u64, Search), Raw>) -> T) -> Option<T> {
        // Every change leaves a valid state, so a panic elsewhere does not matter.
        self.answers.as_ref().map(|answers| work(&mut answers.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the numbers of hits and misses.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (u64, u64) {
        let counts = self.store.counts();
        counts.get(AREA).map_or((0, 0), |counts| (counts.hits, counts.misses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(query: &str) -> Search {
        Search { query: query.to_owned(), section: None, n_results: 10 }
    }

    fn room_for(size: usize) -> Cache {
        Cache::new(size, &Store::open(&runtime::store::Config::default()))
    }

    fn answer(text: &str) -> Raw {
        Raw::of(text)
    }

    #[test]
    fn recent_search_is_cached() {
        let cache = room_for(2);
        for query in ["a", "b", "c"] {
            assert_eq!(cache.get(1, &requested(query)), None);
            cache.put(1, requested(query), answer(query));
        }
        assert_eq!(cache.get(1, &requested("a")), None, "the oldest had to go");
        assert_eq!(cache.get(1, &requested("c")), Some(answer("c")));
        assert_eq!(cache.get(1, &Search { n_results: 5, ..requested("c") }), None);
        assert_eq!(cache.counts(), (1, 5));
    }

    #[test]
    fn a_change_forgets_everything_and_an_old_answer_is_not_taken() {
        let cache = room_for(10);
        cache.put(1, requested("a"), answer("old"));
        assert_eq!(cache.get(2, &requested("a")), None);
        cache.put(1, requested("a"), answer("old"));
        assert_eq!(cache.get(2, &requested("a")), None);
        cache.put(2, requested("a"), answer("new"));
        assert_eq!(cache.get(1, &requested("a")), Some(answer("old")), "a call that began before the change");
        assert_eq!(cache.get(2, &requested("a")), Some(answer("new")));
    }

    #[test]
    fn none_and_the_very_long_are_not_remembered() {
        let cache = room_for(0);
        cache.put(1, requested("a"), answer("a"));
        assert_eq!(cache.get(1, &requested("a")), None);
        let (cache, long) = (room_for(5), requested(&"x".repeat(LONGEST + 1)));
        cache.put(1, long.clone(), answer("a"));
        assert_eq!(cache.get(1, &long), None);
    }
}
