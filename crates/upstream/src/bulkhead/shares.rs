//! The principals that hold reserved slots.
//!
//! The last slots of a server are reserved. While several principals are active, one of them may take a reserved slot
//! only as long as it holds fewer than it leaves free. A principal that takes all it can get leaves as many again to
//! the others. The next one leaves half of that, so each principal finds a slot while any is free.
//!
//! Invariant: a principal is not limited while no other one waits, holds a reserved slot or was active within [`LATELY`].
//!
//! Not here: the number of slots, and waking callers (`bulkhead`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// How long a principal counts as active after a call.
pub(super) const LATELY: Duration = Duration::from_mins(1);

/// The index of a principal in [`Shares`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(u32);

#[derive(Debug)]
struct Holder {
    /// None: programs, which have no principal.
    who: Option<Arc<str>>,
    /// Zero: this entry is unused.
    held: usize,
}

/// The reserved slots that are taken, and the activity of principals.
#[derive(Debug)]
pub(super) struct Shares {
    holders: Vec<Holder>,
    /// The last call.
    last: Option<RunningCall>,
    /// When the last call of another principal than that one came.
    other: Option<Instant>,
}

#[derive(Debug)]
struct RunningCall {
    who: Option<Arc<str>>,
    at: Instant,
}

impl Shares {
    pub(super) const fn new() -> Self {
        Self { holders: Vec::new(), last: None, other: None }
    }

    /// Records a call of `who`.
    pub(super) fn record(&mut self, who: Option<&Arc<str>>, now: Instant) {
        if let Some(last) = &mut self.last
            && last.who.as_ref() == who
        {
            last.at = now;
        } else {
            let before = self.last.replace(RunningCall { who: who.cloned(), at: now });
            self.other = before.map(|call| call.at);
        }
    }

    /// Whether `who` may take one of the `free` reserved slots: while it holds fewer than that, or is alone.
    pub(super) fn may(&self, who: Option<&Arc<str>>, free: usize, is_crowded: bool) -> bool {
        let held = self.holder(who).map_or(0, |at| self.holders[at].held);
        free > 0 && (held < free || !is_crowded)
    }

    /// Whether another principal than `who` holds a reserved slot or was active lately.
    pub(super) fn knows_others(&self, who: Option<&Arc<str>>) -> bool {
        let is_recent = |at: Instant| at.elapsed() < LATELY;
        self.other.is_some_and(is_recent)
            || self.last.as_ref().is_some_and(|call| call.who.as_ref() != who && is_recent(call.at))
            || self.holders.iter().any(|holder| holder.held > 0 && holder.who.as_ref() != who)
    }

    /// Takes a reserved slot for `who`.
    pub(super) fn take(&mut self, who: Option<&Arc<str>>) -> Share {
        let at = self.holder(who).or_else(|| self.holders.iter().position(|holder| holder.held == 0));
        let at = at.unwrap_or_else(|| {
            self.holders.push(Holder { who: None, held: 0 });
            self.holders.len() - 1
        });
        let holder = &mut self.holders[at];
        if holder.held == 0 {
            holder.who = who.cloned();
        }
        holder.held += 1;
        Share(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Frees a reserved slot.
    pub(super) fn give_back(&mut self, Share(at): Share) {
        let holder = usize::try_from(at).ok().and_then(|at| self.holders.get_mut(at));
        if let Some(holder) = holder {
            holder.held = holder.held.saturating_sub(1);
            if holder.held == 0 {
                holder.who = None;
            }
        }
    }

    fn holder(&self, who: Option<&Arc<str>>) -> Option<usize> {
        self.holders.iter().position(|holder| holder.held > 0 && holder.who.as_ref() == who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `reserved` slots `who` gets while it is not alone.
    fn fill(shares: &mut Shares, reserved: usize, free: &mut usize, who: &str) -> usize {
        let who = Some(Arc::<str>::from(who));
        let before = *free;
        while *free > 0 && shares.may(who.as_ref(), *free, true) {
            let _ = shares.take(who.as_ref());
            *free -= 1;
        }
        assert!(*free < reserved);
        before - *free
    }

    #[test]
    fn each_principal_leaves_as_many_slots_as_it_takes() {
        let (mut shares, mut free) = (Shares::new(), 16);
        let taken = ["a", "b", "c", "d", "e", "f"].map(|who| fill(&mut shares, 16, &mut free, who));
        assert_eq!((taken, free), ([8, 4, 2, 1, 1, 0], 0));
        for (reserved, of_first) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
            let (mut shares, mut free) = (Shares::new(), reserved);
            assert_eq!(fill(&mut shares, reserved, &mut free, "a"), of_first, "{reserved}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_principal_is_alone_until_another_one_calls() {
        let mut shares = Shares::new();
        let [alice, again, bob] = ["alice", "alice", "bob"].map(|name| Some(Arc::<str>::from(name)));
        shares.record(alice.as_ref(), Instant::now());
        shares.record(again.as_ref(), Instant::now());
        assert!(!shares.knows_others(alice.as_ref()), "two copies of a name are one principal");
        shares.record(bob.as_ref(), Instant::now());
        assert!(shares.knows_others(alice.as_ref()) && shares.knows_others(bob.as_ref()));
        tokio::time::advance(LATELY).await;
        shares.record(alice.as_ref(), Instant::now());
        assert!(!shares.knows_others(alice.as_ref()), "the call of bob was long ago");
        tokio::time::advance(LATELY).await;
        let share = shares.take(bob.as_ref());
        assert!(shares.knows_others(alice.as_ref()) && !shares.knows_others(bob.as_ref()));
        shares.give_back(share);
        assert!(!shares.knows_others(alice.as_ref()));
        assert_eq!(shares.take(None), share, "its entry is used again");
    }
}
