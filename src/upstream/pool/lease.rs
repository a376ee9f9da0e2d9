//! Whose calls stand on a connection that does not tell whose a server's question is.
//!
//! Invariant: once the server was seen asking, calls of two owners never stand on one connection at
//! a time. Before that they may, and what is asked then is refused by the transport.
//!
//! Calls of the owner who is there always pass, because a client may have to call on to answer a
//! question; so who waits may wait for long, and its deadline ends that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::upstream::connection::Owner;

/// Wakes those who wait for a place.
#[derive(Clone)]
pub(super) struct Freed(Arc<watch::Sender<u64>>);

impl Default for Freed {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Freed {
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    pub(super) fn tell(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// The owners on one connection, with how many calls each.
pub(super) struct Lease {
    holders: Mutex<Vec<(Owner, usize)>>,
    freed: Freed,
}

impl Lease {
    pub(super) fn new(freed: &Freed) -> Self {
        Self { holders: Mutex::default(), freed: freed.clone() }
    }

    /// Takes a place for `owner`; false when it is `exclusive` and somebody else is there.
    pub(super) fn take(&self, owner: Owner, exclusive: bool) -> bool {
        let mut holders = self.lock();
        if exclusive && holders.iter().any(|(other, _)| *other != owner) {
            return false;
        }
        match holders.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, calls)) => *calls += 1,
            None => holders.push((owner, 1)),
        }
        true
    }

    /// Whether `owner` has a call here.
    pub(super) fn is_held_by(&self, owner: Owner) -> bool {
        self.lock().iter().any(|(other, _)| *other == owner)
    }

    /// Gives a place back.
    pub(super) fn release(&self, owner: Owner) {
        let mut holders = self.lock();
        if let Some(at) = holders.iter().position(|(other, _)| *other == owner) {
            holders[at].1 -= 1;
            if holders[at].1 == 0 {
                holders.swap_remove(at);
            }
        }
        let is_telling = holders.len() <= 1;
        drop(holders);
        if is_telling {
            self.freed.tell();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Owner, usize)>> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
