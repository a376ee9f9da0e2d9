//! Hits, misses and faults of the cache, per area.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Key;

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
pub(super) struct Counters(Mutex<BTreeMap<String, Counts>>);

impl Counters {
    pub(super) fn count(&self, key: &Key, count: impl FnOnce(&mut Counts)) {
        self.of(key.area(), count);
    }

    /// Counts a lookup in `area`.
    pub(super) fn looked(&self, area: &str, is_hit: bool) {
        self.of(area, |counts| if is_hit { counts.hits += 1 } else { counts.misses += 1 });
    }

    pub(super) fn of(&self, area: &str, count: impl FnOnce(&mut Counts)) {
        let mut areas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = areas.get_mut(area) {
            return count(counts);
        }
        let area = if areas.len() < MAX_AREAS { area } else { OTHERS };
        count(areas.entry(area.to_owned()).or_default());
    }

    /// All counts, by area as in a key.
    pub(super) fn all(&self) -> BTreeMap<String, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_have_a_bound() {
        let counters = Counters::default();
        for at in 0..1_000 {
            counters.of(&at.to_string(), |counts| counts.hits += 1);
        }
        let all = counters.all();
        assert_eq!(all.len(), MAX_AREAS + 1);
        assert_eq!(all[OTHERS].hits, 1_000 - MAX_AREAS as u64);
    }
}
