//! The limit of concurrent clients: sessions, and requests without a session.
//!
//! Invariants: there are at most as many clients as configured. A client keeps its slot until the session
//! or the request ends, so a further client is refused and the others are not affected. One principal leaves an eighth to
//! others, and several leave a sixteenth, as in the shares of sockets. Counting takes no lock. Principals that have the same
//! one of [`OWNERS`] counters have one share together.
//!
//! Not here: sockets, which have a separate limit (`listener`), because a client may need several. Requests
//! that are answered at once, and those of operators, take no slot.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runtime::fair_shares::free_for;

/// The number of counters, among which the principals are distributed at random.
const OWNERS: usize = 1024;
/// An owner has at most so many times what is free.
const ALPHA: usize = 7;

/// The slots for clients. Clones share them.
#[derive(Debug, Clone)]
pub struct Slots(Arc<SlotCount>);

#[derive(Debug)]
struct SlotCount {
    most: usize,
    taken: AtomicUsize,
    /// Slots of principals with a credential.
    owners: Box<[AtomicUsize]>,
    hasher: RandomState,
}

impl SlotCount {
    /// The counter of `owner`.
    #[allow(clippy::cast_possible_truncation)] // any bits of a hash will do
    fn index(&self, owner: &str) -> usize {
        self.hasher.hash_one(owner) as usize % OWNERS
    }
}

/// A slot, taken until this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    /// The counter of its owner.
    owner: Option<usize>,
}

/// The error if all slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The number of slots, or of those that the principal may have.
    pub most: usize,
    /// Whether only the share of the principal is taken.
    pub is_share: bool,
}

impl Slots {
    /// Creates `most` free slots.
    pub fn new(most: usize) -> Self {
        let owners = (0..OWNERS).map(|_| AtomicUsize::new(0)).collect();
        let (taken, hasher) = (AtomicUsize::new(0), RandomState::new());
        Self(Arc::new(SlotCount { most, taken, owners, hasher }))
    }

    /// Takes a free slot for the principal `owner`; none if it has no credential, because then it may be many.
    pub fn take(&self, owner: Option<&str>) -> Result<Slot, Full> {
        let SlotCount { most, taken, owners, .. } = &*self.0;
        let (most, owner) = (*most, owner.map(|owner| self.0.index(owner)));
        let place = Slot { slots: self.clone(), owner };
        let own = owner.map(|owner| owners[owner].fetch_add(1, Ordering::Relaxed));
        let sum = taken.fetch_add(1, Ordering::Relaxed);
        // If it is refused, dropping `place` undoes the counts.
        if sum >= most {
            return Err(Full { most, is_share: false });
        }
        match own {
            Some(own) if own >= ALPHA.saturating_mul(free_for(own, sum, most)) => {
                Err(Full { most: own, is_share: true })
            }
            _ => Ok(place),
        }
    }

    /// The number of slots in use.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed).min(self.0.most)
    }
}

impl Slot {
    /// Returns this slot, which then counts for `owner`.
    pub(super) fn moved_to(mut self, owner: Option<&str>) -> Self {
        let slots = self.slots.clone();
        let count = |index: usize| &slots.0.owners[index];
        let owner = owner.map(|owner| slots.0.index(owner));
        if let Some(before) = std::mem::replace(&mut self.owner, owner) {
            count(before).fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(owner) = owner {
            count(owner).fetch_add(1, Ordering::Relaxed);
        }
        self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let SlotCount { taken, owners, .. } = &*self.slots.0;
        taken.fetch_sub(1, Ordering::Relaxed);
        if let Some(owner) = self.owner {
            owners[owner].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_there_are_and_each_is_given_back() {
        let places = Slots::new(2);
        let take = || places.clone().take(None);
        let (one, two) = (take().expect("free"), take().expect("free"));
        for _ in 0..3 {
            let full = Full { most: 2, is_share: false };
            assert_eq!(take().err(), Some(full), "who is refused takes nothing");
            assert_eq!(places.taken(), 2);
        }
        drop(one);
        let three = take().expect("given back");
        assert!(take().is_err());
        drop((two, three));
        assert!(take().is_ok());
    }

    #[test]
    fn principals_leave_places_to_others_and_clients_without_a_credential_do_not() {
        let places = Slots::new(256);
        let fill = |owner| std::iter::from_fn(|| places.take(owner).ok()).collect::<Vec<_>>();
        let one = fill(Some("one"));
        assert_eq!(one.len(), 224);
        assert_eq!(places.take(Some("one")).err(), Some(Full { most: 224, is_share: true }));
        let many: Vec<_> =
            ["two", "three", "four"].map(|owner| fill(Some(owner))).into_iter().flatten().collect();
        assert!((3..=18).contains(&many.len()), "{}", many.len());
        assert!(places.take(Some("five")).is_ok());
        let rest = fill(None);
        assert_eq!(places.taken(), 256);
        drop((one, many, rest));
        assert_eq!((places.taken(), fill(Some("six")).len()), (0, 224));
    }
}
