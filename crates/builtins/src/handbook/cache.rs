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

/// Recent results. The least recently used one is evicted first.
pub(super) struct Cache {
    // Held for a lookup only, never across an await.
    inner: Mutex<CacheState>,
    store: Store,
}

struct CacheState {
    /// `None` if the cache is off.
    answers: Option<LruCache<Search, Raw>>,
    generation: u64,
    hits: u64,
    misses: u64,
}

impl Cache {
    /// A cache of `size` results; 0 turns it off. `store` counts its hits and misses too.
    pub(super) fn new(size: usize, store: &Store) -> Self {
        let answers = NonZeroUsize::new(size).map(LruCache::new);
        let inner = Mutex::new(CacheState { answers, generation: 0, hits: 0, misses: 0 });
        Self { inner, store: store.clone() }
    }

    /// Returns the cached result of this query in this state.
    pub(super) fn get(&self, generation: u64, requested: &Search) -> Option<Raw> {
        let mut inner = self.lock();
        inner.follow(generation);
        let current = inner.generation == generation;
        let answer =
            inner.answers.as_mut().filter(|_| current).and_then(|answers| answers.get(requested).cloned());
        let count = if answer.is_some() { &mut inner.hits } else { &mut inner.misses };
        *count += 1;
        drop(inner);
        self.store.record(AREA, answer.is_some());
        answer
    }

    /// Caches a result, unless the documents changed meanwhile.
    pub(super) fn put(&self, generation: u64, requested: Search, answer: Raw) {
        let mut inner = self.lock();
        inner.follow(generation);
        let fits = inner.generation == generation && requested.query.len() <= LONGEST;
        if let Some(answers) = inner.answers.as_mut().filter(|_| fits) {
            answers.put(requested, answer);
        }
    }

    /// Returns the numbers of hits and misses.
    pub(super) fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.hits, inner.misses)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CacheState> {
        // Every change leaves a valid state, so a panic elsewhere does not matter.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    /// Empties the cache if the documents have changed.
    fn follow(&mut self, generation: u64) {
        if generation > self.generation {
            self.generation = generation;
            if let Some(answers) = &mut self.answers {
                answers.clear();
            }
        }
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
        let store = Store::open(&runtime::store::Config::default());
        let cache = Cache::new(2, &store);
        for query in ["a", "b", "c"] {
            assert_eq!(cache.get(1, &requested(query)), None);
            cache.put(1, requested(query), answer(query));
        }
        assert_eq!(cache.get(1, &requested("a")), None, "the oldest had to go");
        assert_eq!(cache.get(1, &requested("c")), Some(answer("c")));
        assert_eq!(cache.get(1, &Search { n_results: 5, ..requested("c") }), None);
        assert_eq!(cache.counts(), (1, 5));
        assert_eq!((store.counts()[AREA].hits, store.counts()[AREA].misses), (1, 5));
    }

    #[test]
    fn a_change_forgets_everything_and_an_old_answer_is_not_taken() {
        let cache = room_for(10);
        cache.put(1, requested("a"), answer("old"));
        assert_eq!(cache.get(2, &requested("a")), None);
        cache.put(1, requested("a"), answer("old"));
        assert_eq!(cache.get(2, &requested("a")), None);
        cache.put(2, requested("a"), answer("new"));
        assert_eq!(
            cache.get(1, &requested("a")),
            None,
            "who still looks at the old state is not served the new one"
        );
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
