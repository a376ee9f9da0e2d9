//! The ranges of memory that are charged, so that bytes which several answers share are charged once.
//!
//! A range is paid by the first account that holds it. If that no longer holds it, the next holder pays. So a client that
//! does not read its answers pays for them, although others received the same bytes before.
//!
//! Invariants: bytes within a charged range are not charged again. A range without a holder is forgotten.
//! Not here: the admission of a new range (`super::State`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;

use super::Account;

/// Where bytes are: their address and their length.
pub(super) type Range = (usize, usize);

/// The charged ranges, by their place.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<Range, Holders>);

/// The accounts that hold one range.
#[derive(Debug)]
struct Holders {
    /// Pays for the range; none for bytes that live as long as the program.
    payer: Option<Account>,
    /// How often the payer holds it.
    count: usize,
    /// The other accounts that hold it, and how often.
    others: BTreeMap<Account, usize>,
}

/// The effect on the shares of accounts when a holder leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The range is still held, and its payer is the same.
    Unchanged,
    /// The second account pays for the range now.
    Moved(Account, Account),
    /// The range has no holder any more.
    Released(Account),
}

impl Ranges {
    /// The range of `bytes`.
    pub(super) fn of(bytes: &Bytes) -> Range {
        (bytes.as_ptr() as usize, bytes.len())
    }

    /// Adds a holder if `range` is within a charged one, which is returned.
    pub(super) fn join(&mut self, (start, length): Range, account: &Account) -> Option<Range> {
        let (found, holders) = self.0.range_mut(..=(start, usize::MAX)).next_back()?;
        if found.0 + found.1 < start + length {
            return None;
        }
        match &holders.payer {
            None => {}
            Some(payer) if payer == account => holders.count += 1,
            Some(_) => *holders.others.entry(account.clone()).or_default() += 1,
        }
        Some(*found)
    }

    /// Adds a range with its first holder, which pays for it. Without a payer it stays for ever.
    pub(super) fn add(&mut self, range: Range, payer: Option<Account>) {
        self.0.insert(range, Holders { payer, count: 1, others: BTreeMap::new() });
    }

    /// Removes a holder of `range`.
    pub(super) fn leave(&mut self, range: Range, account: &Account) -> Left {
        let Some(holders) = self.0.get_mut(&range) else { return Left::Unchanged };
        let Some(payer) = &holders.payer else { return Left::Unchanged };
        if payer != account {
            if let Entry::Occupied(mut other) = holders.others.entry(account.clone()) {
                *other.get_mut() -= 1;
                if *other.get() == 0 {
                    other.remove();
                }
            }
            return Left::Unchanged;
        }
        holders.count -= 1;
        if holders.count > 0 {
            return Left::Unchanged;
        }
        let payer = account.clone();
        if let Some((next, count)) = holders.others.pop_first() {
            (holders.payer, holders.count) = (Some(next.clone()), count);
            return Left::Moved(payer, next);
        }
        self.0.remove(&range);
        Left::Released(payer)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
