//! The last calls in memory, with a share for each principal.
//!
//! Invariants: the calls have at most the given number and bytes in sum. A principal that makes many calls drops its own
//! oldest ones: it may hold three times what is free, as in the memory budget (`runtime::fair_shares`). So there is room
//! for a principal that makes few, and one principal alone has three quarters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::Ended;
use crate::manager::live_events::ToolCall;

/// The principal of calls, if any.
pub(super) type Owner = Option<Arc<str>>;

/// A principal may hold so many times what is free.
pub(super) const ALPHA: usize = 3;
/// Memory of a call in the queue of its principal, which grows by doubling, beside the call itself.
const PLACE: usize = 2 * size_of::<(Ended, usize)>();
/// Memory of a principal.
const OWNER: usize = 256;

/// The memory that a call needs.
pub(super) fn size(call: &ToolCall) -> usize {
    PLACE + call.size_with_end()
}

/// The calls of all principals.
#[derive(Debug)]
pub(super) struct Ring {
    most_bytes: usize,
    /// Each call counts for at least so many bytes, so that this limits the number of calls too.
    least: usize,
    /// The sum of the sizes of all calls.
    bytes: usize,
    owners: BTreeMap<Owner, Calls>,
}

/// The calls of one principal, the newest last, each with what it counts for.
#[derive(Debug, Default)]
struct Calls {
    bytes: usize,
    calls: VecDeque<(Ended, usize)>,
}

impl Calls {
    /// Drops the oldest call. Returns what it counted for.
    fn drop_oldest(&mut self) -> usize {
        let Some((_, bytes)) = self.calls.pop_front() else { return 0 };
        self.bytes -= bytes;
        if self.calls.len() < self.calls.capacity() / 4 {
            self.calls.shrink_to(self.calls.len() * 2);
        }
        bytes
    }
}

impl Ring {
    /// Makes a ring for `calls` calls of at most `most_bytes` together.
    pub(super) fn new(most_bytes: usize, calls: usize) -> Self {
        let mut ring = Self { most_bytes, least: 0, bytes: 0, owners: BTreeMap::new() };
        ring.limit(calls);
        ring
    }

    /// Sets the most calls. Without any, those in the ring are dropped.
    pub(super) fn limit(&mut self, calls: usize) {
        let least = self.most_bytes / calls.max(1);
        if least == self.least && calls > 0 {
            return;
        }
        self.least = least;
        let mut calls_in_order: Vec<Ended> = Vec::new();
        for owner in std::mem::take(&mut self.owners).into_values() {
            calls_in_order.extend(owner.calls.into_iter().map(|(ended, _)| ended));
        }
        self.bytes = 0;
        if calls > 0 {
            calls_in_order.sort_by_key(|ended| ended.id);
            for ended in calls_in_order {
                let size = size(&ended.call);
                self.push(ended, size);
            }
        }
    }

    /// The sum of the sizes of all calls.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the newest call, which needs `size` bytes.
    pub(super) fn push(&mut self, ended: Ended, size: usize) {
        let mut cost = size.max(self.least);
        let mut calls = if let Some(calls) = self.owners.get_mut(&ended.call.principal) {
            calls
        } else {
            cost += OWNER;
            self.owners.entry(ended.call.principal.clone()).or_default()
        };
        while !calls.calls.is_empty()
            && calls.bytes + cost > ALPHA * self.most_bytes.saturating_sub(self.bytes + cost)
        {
            self.bytes -= calls.drop_oldest();
        }
        if self.bytes + cost > self.most_bytes {
            // There are so many principals that nothing is left for this one.
            let owner = ended.call.principal.clone();
            while self.bytes > 0 && self.bytes + cost > self.most_bytes {
                self.drop_largest();
            }
            calls = self.owners.entry(owner).or_default();
        }
        calls.calls.push_back((ended, cost));
        calls.bytes += cost;
        self.bytes += cost;
    }

    /// Drops the oldest call of the principal that holds most.
    pub(super) fn drop_largest(&mut self) {
        let Some(owner) =
            self.owners.iter().max_by_key(|(_, calls)| calls.bytes).map(|(owner, _)| owner.clone())
        else {
            return;
        };
        if let Some(calls) = self.owners.get_mut(&owner) {
            self.bytes -= calls.drop_oldest();
            if calls.calls.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    /// The principals with calls.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.keys()
    }

    /// The calls of `owner` before the number `before`, the newest first.
    pub(super) fn before(&self, owner: &Owner, before: u64) -> impl Iterator<Item = &Ended> {
        let calls = self.owners.get(owner).map(|calls| &calls.calls);
        let count = calls.map_or(0, |calls| calls.partition_point(|(ended, _)| ended.id < before));
        calls.into_iter().flat_map(move |calls| calls.range(..count).rev()).map(|(ended, _)| ended)
    }
}
