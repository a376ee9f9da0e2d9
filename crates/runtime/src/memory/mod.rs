//! One memory budget for message bytes in flight, shared by all principals and servers of the process.
//!
//! A [`Charge`] is the share of an [`Account`] in the budget. It is released on drop, and [`Charge::hold`] ties it
//! to the bytes themselves, so it lasts exactly as long as the last slice of them. Bytes are charged once: [`hold`]
//! recognizes those that are within a charged range, and copies of the same [`Bytes`] share their charge. A range is paid by
//! the first account that holds it, and then by the next holder. So a client that does not read its answers pays for them,
//! although others received the same bytes before.
//!
//! Each account has a fair share ([`FairShares`]): at most three times what is free. So one that is alone gets three
//! quarters of the budget.
//!
//! Invariants: the charges together never exceed the limit; an account without a charge costs nothing, and a range without
//! a holder is forgotten. Messages below [`SMALL`] are not charged one by one. A connection holds one of them at a time. At the
//! default of 16,384 connections that is 64 MiB at most, less than what the sockets cost.
//! Not here: the handling of a refused message, which its caller decides.

pub mod system;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::fair_shares::FairShares;

/// Messages of fewer bytes are not charged one by one.
pub const SMALL: usize = 4 * 1024;
/// The smallest budget that is accepted: it has to hold a few messages of the default limits.
pub const LEAST: usize = 32 * 1024 * 1024;

/// The owner of charged bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// A principal, by its id.
    Principal(Arc<str>),
    /// A server, by its name, for what it sends outside of any call.
    Server(Arc<str>),
    /// Events that are kept for watchers, and past calls.
    LiveEvents,
    /// Requests without a credential, and programs that embed the gateway.
    Nobody,
}

impl Account {
    /// The account of a principal, or [`Account::Nobody`] without one.
    pub fn of(principal: Option<&Arc<str>>) -> Self {
        principal.map_or(Self::Nobody, |id| Self::Principal(Arc::clone(id)))
    }
}

/// The payer for the bytes of one request: its principal, or the server if it has none.
#[derive(Debug, Clone, Copy)]
pub struct Payer<'a> {
    /// The principal of the request.
    pub principal: Option<&'a Arc<str>>,
    /// The server that receives the request.
    pub server: &'a Arc<str>,
}

impl Payer<'_> {
    /// The account.
    pub fn account(self) -> Account {
        match self.principal {
            Some(id) => Account::Principal(Arc::clone(id)),
            None => Account::Server(Arc::clone(self.server)),
        }
    }
}

/// The use of charged bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeKind {
    /// Requests of clients.
    Request,
    /// Answers of servers.
    Answer,
    /// Notifications that wait for their reader.
    Notice,
}

/// All kinds, with their label in metrics.
const KINDS: [(ChargeKind, &str); 3] =
    [(ChargeKind::Request, "requests"), (ChargeKind::Answer, "answers"), (ChargeKind::Notice, "notices")];

/// The budget has no room for the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget has no room for {requested} more bytes")]
pub struct Exhausted {
    /// The number of bytes that were requested in addition.
    pub requested: usize,
}

/// A number of bytes that all accounts share.
#[derive(Debug)]
pub struct Budget {
    state: Mutex<State>,
    refused: [AtomicU64; KINDS.len()],
}

#[derive(Debug)]
struct State {
    limit: usize,
    accounts: FairShares<Account, 3>,
    ranges: Ranges,
}

/// The budget of the process, also if several gateways run in it. Until [`Budget::set_limit`] it has the default limit.
///
/// It belongs to no gateway, because it protects the memory of the process. Gateways with a budget each could fill that
/// memory together, while each of them keeps within its limit.
pub fn budget() -> &'static Budget {
    static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new(system::default_limit()));
    &BUDGET
}

/// How much of a budget is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetUsage {
    /// Bytes that may be in use.
    pub limit: usize,
    /// Bytes in use.
    pub used: usize,
}

impl Budget {
    fn new(limit: usize) -> Self {
        let state = State { limit, accounts: FairShares::new(), ranges: Ranges::default() };
        Self { state: Mutex::new(state), refused: Default::default() }
    }

    /// Returns a separate budget for a test.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_size(limit: usize) -> &'static Self {
        Box::leak(Box::new(Self::new(limit)))
    }

    /// Sets the limit. Charges beyond a smaller one stay until they are released.
    pub fn set_limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// The limit and what is in use.
    pub fn usage(&self) -> BudgetUsage {
        let state = self.lock();
        BudgetUsage { limit: state.limit, used: state.accounts.sum() }
    }

    /// How often a charge was refused, by the word for its kind.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.iter().zip(&self.refused).map(|((_, word), count)| (*word, count.load(Ordering::Relaxed)))
    }

    /// Returns an empty charge.
    pub const fn open(&'static self, account: Account, kind: ChargeKind) -> Charge {
        Charge { budget: self, account, kind, bytes: 0 }
    }

    /// Charges `bytes` to `account` as long as any slice of the returned ones lives. Bytes that are charged already are
    /// not charged again, and their charge lasts as long too.
    pub fn hold(&'static self, bytes: Bytes, account: Account, kind: ChargeKind) -> Result<Bytes, Exhausted> {
        let range = Ranges::of(&bytes);
        let mut state = self.lock();
        let joined = state.ranges.join(range, &account);
        if joined.is_none() && !state.grow(&account, bytes.len()) {
            drop(state);
            return Err(self.refused(kind, bytes.len()));
        }
        let range = joined.unwrap_or_else(|| state.begin(range, &account));
        drop(state);
        Ok(Bytes::from_owner(ChargedBytes { bytes, range, account, budget: self }))
    }

    /// Charges `bytes` as [`Budget::hold`] does, even if there is no room for them.
    pub fn hold_beyond(&'static self, bytes: Bytes, account: Account) -> Bytes {
        let range = Ranges::of(&bytes);
        let mut state = self.lock();
        let range = state.ranges.join(range, &account).unwrap_or_else(|| {
            state.accounts.add(&account, bytes.len());
            state.begin(range, &account)
        });
        drop(state);
        Bytes::from_owner(ChargedBytes { bytes, range, account, budget: self })
    }

    /// Exempts `bytes`, which live as long as the program. Any number of answers shares them.
    pub fn exempt(&self, bytes: &Bytes) {
        self.lock().ranges.add(Ranges::of(bytes), None);
    }

    /// Ends one hold of `range`.
    fn release(&self, range: Range, account: &Account) {
        let mut state = self.lock();
        match state.ranges.leave(range, account) {
            Left::Unchanged => {}
            Left::Moved(from, to) => {
                state.accounts.give_back(&from, range.1);
                state.accounts.add(&to, range.1);
            }
            Left::Released(payer) => state.accounts.give_back(&payer, range.1),
        }
    }

    fn refused(&self, kind: ChargeKind, requested: usize) -> Exhausted {
        self.refused[kind as usize].fetch_add(1, Ordering::Relaxed);
        Exhausted { requested }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records that `account` holds `range`, which it has paid for.
    fn begin(&mut self, range: Range, account: &Account) -> Range {
        self.ranges.add(range, Some(account.clone()));
        range
    }

    /// Changes what `account` has. Only more of it can be refused.
    fn change(&mut self, account: &Account, from: usize, to: usize) -> bool {
        if to > from {
            return self.grow(account, to - from);
        }
        self.accounts.give_back(account, from - to);
        true
    }

    /// Three eighths of the limit are reserved for the overhead of allocations, for buffers of sockets, and for pages
    /// that were freed a moment ago.
    fn grow(&mut self, account: &Account, more: usize) -> bool {
        let room = self.limit / 8 * 5;
        let free = room.saturating_sub(self.accounts.sum().saturating_add(more));
        self.accounts.take(account, more, free).is_ok()
    }
}

/// Bytes of a budget that one account holds, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: &'static Budget,
    account: Account,
    kind: ChargeKind,
    bytes: usize,
}

impl Charge {
    /// Returns an empty charge against the budget of the process.
    pub fn open(account: Account, kind: ChargeKind) -> Self {
        budget().open(account, kind)
    }

    /// Bytes that are charged.
    #[cfg(any(test, feature = "testing"))]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`. A refused charge is not changed.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if bytes != self.bytes && !self.budget.lock().change(&self.account, self.bytes, bytes) {
            return Err(self.budget.refused(self.kind, bytes - self.bytes));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Raises the charge to at least `bytes`, in steps that grow with it, so that a long message needs few of them.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Exhausted> {
        if bytes <= self.bytes || bytes < SMALL {
            return Ok(());
        }
        let generous = bytes.saturating_add(bytes / 4);
        self.resize(generous).or_else(|_| self.resize(bytes))
    }

    /// Releases the whole charge.
    pub fn clear(&mut self) {
        if self.bytes > 0 {
            self.budget.lock().accounts.give_back(&self.account, self.bytes);
            self.bytes = 0;
        }
    }

    /// Returns `bytes` with this charge, resized to their length. It lasts until the last slice of them is dropped. If
    /// they are charged already, this charge is released.
    pub fn hold(mut self, bytes: Bytes) -> Result<Bytes, Exhausted> {
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let (range, requested) = (Ranges::of(&bytes), bytes.len());
        let mut state = self.budget.lock();
        let joined = state.ranges.join(range, &self.account);
        if joined.is_none() {
            if !state.change(&self.account, self.bytes, requested) {
                drop(state);
                return Err(self.budget.refused(self.kind, requested - self.bytes));
            }
            // From now on the share belongs to the range.
            self.bytes = 0;
        }
        let range = joined.unwrap_or_else(|| state.begin(range, &self.account));
        drop(state);
        Ok(Bytes::from_owner(ChargedBytes {
            bytes,
            range,
            account: self.account.clone(),
            budget: self.budget,
        }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Charges `bytes` to `account` as long as any slice of them lives. Small ones are returned unchanged, and those that are
/// charged already are not charged again.
pub fn hold(bytes: Bytes, account: impl FnOnce() -> Account, kind: ChargeKind) -> Result<Bytes, Exhausted> {
    if bytes.len() < SMALL { Ok(bytes) } else { budget().hold(bytes, account(), kind) }
}

/// Bytes of a charged range.
struct ChargedBytes {
    bytes: Bytes,
    range: Range,
    account: Account,
    budget: &'static Budget,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.budget.release(self.range, &self.account);
    }
}

/// Where bytes are: their address and their length.
type Range = (usize, usize);

/// The charged ranges, by their place.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<Range, Holders>);

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
enum Left {
    /// The range is still held, and its payer is the same.
    Unchanged,
    /// The second account pays for the range now.
    Moved(Account, Account),
    /// The range has no holder any more.
    Released(Account),
}

impl Ranges {
    /// The range of `bytes`.
    fn of(bytes: &Bytes) -> Range {
        (bytes.as_ptr() as usize, bytes.len())
    }

    /// Adds a holder if `range` is within a charged one, which is returned.
    fn join(&mut self, (start, length): Range, account: &Account) -> Option<Range> {
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
    fn add(&mut self, range: Range, payer: Option<Account>) {
        self.0.insert(range, Holders { payer, count: 1, others: BTreeMap::new() });
    }

    /// Removes a holder of `range`.
    fn leave(&mut self, range: Range, account: &Account) -> Left {
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
    fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
