//! Who holds which of the kept places.
//!
//! The last places of a server are kept: while others are there, a principal may take one of them only as
//! long as it holds fewer than it leaves free. So whoever has all it can get leaves as many again to those
//! who come later, these leave half of that, and who has none finds one wherever there is any.
//!
//! Invariant: nobody is limited while nobody else waits, holds a kept place or was seen within [`LATELY`].
//!
//! Not here: how many there are, and who is called (`places`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long a principal that has made a call is reckoned with.
pub(super) const LATELY: Duration = Duration::from_mins(1);

/// The number of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(u32);

#[derive(Debug)]
struct Holder {
    /// None: programs, which are nobody in particular.
    who: Option<Arc<str>>,
    /// Zero: this is nobody's, and free for the next one.
    held: u64,
}

/// The kept places that are taken.
#[derive(Debug)]
pub(super) struct Shares {
    holders: Vec<Holder>,
    /// As of [`Passers::changes`].
    known_changes: u64,
    /// When it was last heard that somebody else had come.
    crowded: Option<Instant>,
}

impl Shares {
    pub(super) const fn new() -> Self {
        Self { holders: Vec::new(), known_changes: 0, crowded: None }
    }

    /// Whether `who` may take one of the kept places, of which `free` are free: one of those that are held,
    /// or any while it is alone.
    pub(super) fn may(&self, who: Option<&Arc<str>>, free: u64, is_crowded: bool) -> bool {
        let held = self.holder(who).map_or(0, |at| self.holders[at].held);
        free > 0 && (held < free || !is_crowded)
    }

    /// Whether anybody but `who` holds one, or was heard of lately.
    pub(super) fn knows_others(&self, who: Option<&Arc<str>>) -> bool {
        self.crowded.is_some_and(|at| at.elapsed() < LATELY)
            || self.holders.iter().any(|holder| holder.held > 0 && holder.who.as_ref() != who)
    }

    /// `who` takes one.
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

    /// One of the share is free again.
    pub(super) fn give_back(&mut self, Share(at): Share) {
        let holder = usize::try_from(at).ok().and_then(|at| self.holders.get_mut(at));
        if let Some(holder) = holder {
            holder.held = holder.held.saturating_sub(1);
            if holder.held == 0 {
                holder.who = None;
            }
        }
    }

    /// The same, with those who were among the `passers` since it was asked last.
    pub(super) fn has_others(&mut self, who: Option<&Arc<str>>, passers: &Passers) -> bool {
        let changes = passers.changes.load(Ordering::Relaxed);
        if changes != self.known_changes {
            (self.known_changes, self.crowded) = (changes, Some(Instant::now()));
        }
        self.knows_others(who)
    }

    fn holder(&self, who: Option<&Arc<str>>) -> Option<usize> {
        self.holders.iter().position(|holder| holder.held > 0 && holder.who.as_ref() == who)
    }
}

/// Who comes by, as far as it can be seen without a lock: whether it is always the same one.
#[derive(Debug, Default)]
pub(super) struct Passers {
    /// Where the name of the last one is written: mostly it says that nothing has changed.
    written_at: AtomicUsize,
    /// What was made of that name.
    print: AtomicU64,
    /// How often another one came.
    changes: AtomicU64,
}

impl Passers {
    /// `who` comes by.
    pub(super) fn note(&self, who: Option<&Arc<str>>) {
        let at = who.map_or(1, |who| who.as_ptr().addr());
        if self.written_at.load(Ordering::Relaxed) != at {
            self.note_name(at, who);
        }
    }

    #[cold]
    fn note_name(&self, at: usize, who: Option<&Arc<str>>) {
        self.written_at.store(at, Ordering::Relaxed);
        let print = who.map_or(1, |who| print(who));
        let before = self.print.swap(print, Ordering::Relaxed);
        // Before the first one there was nobody.
        if before != 0 && before != print {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// FNV-1a. Who has the print of another one is taken for it, which costs that one's reckoning alone.
fn print(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |print, byte| (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `kept` places `who` gets while it is not alone.
    fn fill(shares: &mut Shares, kept: u64, free: &mut u64, who: &str) -> u64 {
        let who = Some(Arc::<str>::from(who));
        let before = *free;
        while *free > 0 && shares.may(who.as_ref(), *free, true) {
            let _ = shares.take(who.as_ref());
            *free -= 1;
        }
        assert!(*free < kept);
        before - *free
    }

    #[test]
    fn each_leaves_as_many_as_it_takes_and_the_last_one_finds_one() {
        let (mut shares, mut free) = (Shares::new(), 16);
        let taken = ["a", "b", "c", "d", "e", "f"].map(|who| fill(&mut shares, 16, &mut free, who));
        assert_eq!((taken, free), ([8, 4, 2, 1, 1, 0], 0));
        for (kept, of_first) in [(1, 1), (2, 1), (3, 2), (8, 4)] {
            let (mut shares, mut free) = (Shares::new(), kept);
            assert_eq!(fill(&mut shares, kept, &mut free, "a"), of_first, "{kept}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_alone_is_known_by_who_comes_by() {
        let (mut shares, passers) = (Shares::new(), Passers::default());
        let [alice, again, bob] = ["alice", "alice", "bob"].map(|name| Some(Arc::<str>::from(name)));
        passers.note(alice.as_ref());
        passers.note(again.as_ref());
        assert!(!shares.has_others(alice.as_ref(), &passers), "a name is the same wherever it is written");
        passers.note(bob.as_ref());
        passers.note(alice.as_ref());
        assert!(shares.has_others(alice.as_ref(), &passers));
        tokio::time::advance(LATELY).await;
        assert!(!shares.has_others(alice.as_ref(), &passers), "that was long ago");
        let share = shares.take(bob.as_ref());
        assert!(shares.has_others(alice.as_ref(), &passers) && !shares.has_others(bob.as_ref(), &passers));
        shares.give_back(share);
        assert!(!shares.has_others(alice.as_ref(), &passers));
        assert_eq!(shares.take(None), share, "its place in the book is used again");
    }
}
