//! Shares of principals in the slots of client connections.
//!
//! A connection whose last request had a valid credential is kept for its principal: it yields its slot only between
//! two requests (`activity`). One principal may keep at most seven times as many connections as are not kept. So a
//! principal that is alone leaves an eighth of the slots to others ([`FairShares`]). If there are several, a sixteenth of
//! the slots is for those that keep few.
//!
//! Clients without a credential have shares too, by their address. Their connections are counted and not protected.
//!
//! Invariants: no more connections are kept than there are slots. A principal without a kept connection costs nothing.
//! The lock is taken only if a connection changes its principal, and while it is held no other one is taken.
//!
//! Not here: which connections yield (`activity`, `socket_slots`), who sent a request (`guard`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client_address::ClientAddress;
use runtime::fair_shares::{FairShares, free_for};

/// The owner of connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The principal with this id.
    Principal(Arc<str>),
    /// Clients without a credential that have one address.
    Address(ClientAddress),
}

/// The shares of one listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SocketShares(Arc<Mutex<Shares>>);

#[derive(Debug)]
struct Shares {
    most: usize,
    /// Slots that each owner keeps.
    held: FairShares<Owner, 7>,
}

/// A slot that counts for its owner, until this is dropped.
#[derive(Debug)]
pub(super) struct HeldSlot {
    owner: Owner,
    shares: SocketShares,
}

impl SocketShares {
    /// Creates the shares in `most` slots.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares { most, held: FairShares::new() })))
    }

    /// Keeps one more slot for `owner`, if its share allows that. Otherwise returns how many it keeps.
    pub(super) fn keep(&self, owner: &Owner) -> Result<HeldSlot, usize> {
        let mut shares = self.lock();
        let free = free_for(shares.held.of(owner), shares.held.sum(), shares.most);
        shares.held.take(owner, 1, free)?;
        drop(shares);
        Ok(HeldSlot { owner: owner.clone(), shares: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldSlot {
    /// The principal for which it is kept; none for clients without a credential, which are only counted.
    pub(super) const fn principal(&self) -> Option<&Arc<str>> {
        match &self.owner {
            Owner::Principal(id) => Some(id),
            Owner::Address(_) => None,
        }
    }

    /// Whether it is counted for clients of `address`.
    pub(super) fn counts_for(&self, address: ClientAddress) -> bool {
        self.owner == Owner::Address(address)
    }

    /// Whether it is kept for `principal`.
    pub(super) fn is_for(&self, principal: &Arc<str>) -> bool {
        self.principal().is_some_and(|own| Arc::ptr_eq(own, principal) || own == principal)
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        self.shares.lock().held.give_back(&self.owner, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn owner(name: &str) -> Owner {
        Owner::Principal(name.into())
    }

    /// Keeps as many slots for `name` as its share allows.
    fn fill(shares: &SocketShares, name: &str) -> Vec<HeldSlot> {
        std::iter::from_fn(|| shares.keep(&owner(name)).ok()).collect()
    }

    #[test]
    fn a_principal_leaves_an_eighth_and_several_leave_a_sixteenth() {
        for (most, expected) in
            [(4_096, [3_584, 224, 28]), (256, [224, 14, 2]), (16, [14, 1, 1]), (7, [7, 0, 0]), (1, [1, 0, 0])]
        {
            let shares = SocketShares::new(most);
            let held = ["one", "two", "three"].map(|name| fill(&shares, name));
            assert_eq!(held.each_ref().map(Vec::len), expected, "{most}");
            assert_eq!(shares.keep(&owner("one")).err(), Some(expected[0]));
            drop(held);
            assert_eq!(fill(&shares, "four").len(), expected[0], "all were given back");
            assert_eq!(shares.lock().held.len(), 0, "a principal without a slot is forgotten");
        }
    }

    #[test]
    fn many_principals_that_take_what_they_can_leave_slots_to_a_newcomer() {
        for most in [256, 4_096] {
            let shares = SocketShares::new(most);
            let held: Vec<_> = (0..16).flat_map(|at| fill(&shares, &at.to_string())).collect();
            assert!(held.len() < most, "{}", held.len());
            let (old, new) = ("127.0.0.1", "127.0.0.2");
            let [old, new] = [old, new]
                .map(|address| Owner::Address(address.parse::<IpAddr>().expect("an address").into()));
            let (first, second) = (shares.keep(&old), shares.keep(&new));
            assert!(first.is_ok() && second.is_ok(), "{most}");
        }
    }

    #[test]
    fn copies_of_an_id_are_one_principal() {
        let shares = SocketShares::new(2);
        let held = shares.keep(&owner("one")).expect("free");
        assert!(held.is_for(&Arc::from("one")) && !held.is_for(&Arc::from("two")));
        assert_eq!(shares.lock().held.len(), 1);
        let again = shares.keep(&owner("one")).expect("free");
        assert_eq!(shares.lock().held.len(), 1);
        drop((held, again));
    }
}
