//! Shares of principals in the slots of client connections.
//!
//! A connection whose last request had a valid credential is kept for its principal: it yields its slot only between
//! two requests (`activity`). One principal may keep at most seven times as many connections as are not kept. So a
//! principal that is alone leaves an eighth of the slots to others ([`FairShares`]).
//!
//! Invariants: no more connections are kept than there are slots. A principal without a kept connection costs nothing.
//! The lock is taken only if a connection changes its principal, and while it is held no other one is taken.
//!
//! Not here: which connections yield (`activity`, `socket_slots`), who sent a request (`guard`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::fair_shares::FairShares;

/// The shares of one listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SocketShares(Arc<Mutex<Shares>>);

#[derive(Debug)]
struct Shares {
    most: usize,
    /// Slots that each principal keeps, by its id.
    kept: FairShares<Arc<str>, 7>,
}

/// A slot that is kept for a principal, until this is dropped.
#[derive(Debug)]
pub(super) struct KeptSlot {
    principal: Arc<str>,
    shares: SocketShares,
}

impl SocketShares {
    /// Creates the shares in `most` slots.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares { most, kept: FairShares::new() })))
    }

    /// Keeps one more slot for `principal`, if its share allows that. Otherwise returns how many it keeps.
    pub(super) fn keep(&self, principal: &Arc<str>) -> Result<KeptSlot, usize> {
        let mut shares = self.lock();
        let free = shares.most - shares.kept.sum();
        shares.kept.take(principal, 1, free)?;
        drop(shares);
        Ok(KeptSlot { principal: Arc::clone(principal), shares: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptSlot {
    /// Whether it is kept for `principal`.
    pub(super) fn is_for(&self, principal: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.principal, principal) || self.principal == *principal
    }
}

impl Drop for KeptSlot {
    fn drop(&mut self) {
        self.shares.lock().kept.give_back(&self.principal, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps as many slots for `name` as its share allows.
    fn fill(shares: &SocketShares, name: &str) -> Vec<KeptSlot> {
        let name = Arc::from(name);
        std::iter::from_fn(|| shares.keep(&name).ok()).collect()
    }

    #[test]
    fn a_principal_leaves_an_eighth_of_what_it_found() {
        for (most, expected) in
            [(4_096, [3_584, 448, 56]), (256, [224, 28, 4]), (16, [14, 2, 0]), (7, [7, 0, 0]), (1, [1, 0, 0])]
        {
            let shares = SocketShares::new(most);
            let kept = ["one", "two", "three"].map(|name| fill(&shares, name));
            assert_eq!(kept.each_ref().map(Vec::len), expected, "{most}");
            assert_eq!(shares.keep(&Arc::from("one")).err(), Some(expected[0]));
            drop(kept);
            assert_eq!(fill(&shares, "four").len(), expected[0], "all were given back");
            assert_eq!(shares.lock().kept.len(), 0, "a principal without a slot is forgotten");
        }
    }

    #[test]
    fn copies_of_an_id_are_one_principal() {
        let shares = SocketShares::new(2);
        let kept = shares.keep(&Arc::from("one")).expect("free");
        assert!(kept.is_for(&Arc::from("one")) && !kept.is_for(&Arc::from("two")));
        assert_eq!(shares.lock().kept.len(), 1);
        let again = shares.keep(&Arc::from("one")).expect("free");
        assert_eq!(shares.lock().kept.len(), 1);
        drop((kept, again));
    }
}
