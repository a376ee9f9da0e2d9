//! Shares of many owners in one amount, by dynamic thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking
//! 6(2), 1998): an owner may hold at most `ALPHA` times what is free. An owner that is alone leaves one part of
//! `ALPHA` + 1 free, so there is room for a newcomer without a table of quotas.
//!
//! Invariant: an owner without a share costs nothing. Not here: the amount itself, from which the caller computes what
//! is free.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// One of so many parts stays free for owners with few, if there are several owners.
const RESERVE: usize = 16;
/// An owner has few if it has no more than one of so many parts, or one.
const FEW: usize = 256;

/// The amount that is free for an owner which has `own` of `most`, of which all owners together have `sum`. An owner that is alone may
/// take all of it. If there are several, the last part is for those that have few, so not even many of them shut out a
/// newcomer.
pub fn free_for(own: usize, sum: usize, most: usize) -> usize {
    let free = most.saturating_sub(sum);
    let has_few = own < (most / FEW).max(1);
    if own == sum || has_few { free } else { free.saturating_sub(most / RESERVE) }
}

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

    /// The share of `owner`.
    pub fn of<Q>(&self, owner: &Q) -> usize
    where
        K: Borrow<Q> + Ord,
        Q: Ord + ?Sized,
    {
        self.held.get(owner).copied().unwrap_or_default()
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

    /// Adds `more` to the share of `owner`, whatever is free.
    pub fn add(&mut self, owner: &K, more: usize)
    where
        K: Ord + Clone,
    {
        *self.held.entry(owner.clone()).or_default() += more;
        self.sum += more;
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
