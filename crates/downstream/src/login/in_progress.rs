//! Limit of the logins that contact a login service at a time.
//!
//! Invariant: one principal cannot use all places, so it does not keep others from their logins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most logins that are in progress.
const MAX: usize = 64;
/// Most of them for one principal.
const MAX_PER_PRINCIPAL: usize = 4;

/// Counts the logins in progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct InProgress(Arc<Mutex<HashMap<Arc<str>, usize>>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct LoginSlot {
    all: InProgress,
    principal: Arc<str>,
}

impl InProgress {
    /// Takes a place for `principal`. None if there is none.
    pub(crate) fn enter(&self, principal: &Arc<str>) -> Option<LoginSlot> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(principal).copied().unwrap_or_default();
        if own >= MAX_PER_PRINCIPAL || counts.values().sum::<usize>() >= MAX {
            return None;
        }
        counts.insert(Arc::clone(principal), own + 1);
        Some(LoginSlot { all: self.clone(), principal: Arc::clone(principal) })
    }
}

impl Drop for LoginSlot {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&self.principal) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = counts.remove(&self.principal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_leaves_places_to_others_and_all_are_given_back() {
        let places = InProgress::default();
        let (alice, bob) = (Arc::from("alice"), Arc::from("bob"));
        let held: Vec<_> = std::iter::from_fn(|| places.enter(&alice)).collect();
        assert_eq!(held.len(), MAX_PER_PRINCIPAL);
        assert!(places.enter(&bob).is_some());
        drop(held);
        let many: Vec<_> = (0..1_000).filter_map(|n| places.enter(&Arc::from(format!("p{n}")))).collect();
        assert_eq!(many.len(), MAX);
        assert!(places.enter(&bob).is_none());
        drop(many);
        assert!(places.0.lock().expect("no panic").is_empty());
    }
}
