//! Shares of many owners in one amount, by dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking
//! 6(2), 1998): an owner may hold at most `ALPHA` times what is free. An owner that is alone leaves one part of
//! `ALPHA` + 1 free, so there is room for a newcomer without a table of quotas.
//!
//! Invariant: an owner without a share costs nothing. Not here: the amount itself, from which the caller computes what
//! is free.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The shares of all owners.
#[derive(Debug)]
pub struct FairShares<K, const ALPHA: usize> {
    sum: usize,
    held: BTreeMap<K, usize>,
}

impl<K, const ALPHA: usize> Default for FairShares<K, ALPHA> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, const ALPHA: usize> FairShares<K, ALPHA> {
    /// Makes shares without an owner.
    pub const fn new() -> Self {
        Self { sum: 0, held: BTreeMap::new() }
    }

    /// The sum of all shares.
    pub const fn sum(&self) -> usize {
        self.sum
    }

    /// The number of owners with a share.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no owner has a share.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Adds `more` to the share of `owner`. If that would be more than `ALPHA` times `free`, nothing is added, and the error
    /// is its share.
    pub fn take<Q>(&mut self, owner: &Q, more: usize, free: usize) -> Result<(), usize>
    where
        K: Borrow<Q> + Ord,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        let own = self.held.get_mut(owner);
        let held = own.as_deref().copied().unwrap_or_default();
        if held.saturating_add(more) > free.saturating_mul(ALPHA) {
            return Err(held);
        }
        match own {
            Some(own) => *own += more,
            None => drop(self.held.insert(owner.to_owned(), more)),
        }
        self.sum += more;
        Ok(())
    }

    /// Takes `less` from the share of `owner`. Without a share, nothing changes.
    pub fn give_back<Q>(&mut self, owner: &Q, less: usize)
    where
        K: Borrow<Q> + Ord,
        Q: Ord + ?Sized,
    {
        let Some(own) = self.held.get_mut(owner) else { return };
        *own -= less;
        self.sum -= less;
        if *own == 0 {
            self.held.remove(owner);
        }
    }
}
