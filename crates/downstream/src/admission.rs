//! The limit of concurrent clients: sessions, and requests without a session.
//!
//! Invariants: there are at most as many clients as configured. A client keeps its slot until the session
//! or the request ends, so a further client is refused and the others are not affected.
//!
//! Not here: sockets, which have a separate limit (`listener`), because a client may need several. Requests
//! that are answered at once, and those of operators, take no slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The slots for clients. Clones share them.
#[derive(Debug, Clone)]
pub struct Slots(Arc<SlotCount>);

#[derive(Debug)]
struct SlotCount {
    most: usize,
    taken: AtomicUsize,
}

/// A slot, taken until this is dropped.
#[derive(Debug)]
pub struct Slot(Slots);

/// The error if all slots are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The number of slots.
    pub most: usize,
}

impl Slots {
    /// Creates `most` free slots.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(SlotCount { most, taken: AtomicUsize::new(0) }))
    }

    /// Takes a free slot.
    pub fn take(&self) -> Result<Slot, Full> {
        let SlotCount { most, taken } = &*self.0;
        let place = Slot(self.clone());
        // If all slots are taken, dropping `place` undoes the count.
        if taken.fetch_add(1, Ordering::Relaxed) < *most { Ok(place) } else { Err(Full { most: *most }) }
    }

    /// The number of slots in use.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed).min(self.0.most)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_there_are_and_each_is_given_back() {
        let places = Slots::new(2);
        let (one, two) = (places.take().expect("free"), places.clone().take().expect("free"));
        for _ in 0..3 {
            assert_eq!(places.take().err(), Some(Full { most: 2 }), "who is refused takes nothing");
            assert_eq!(places.taken(), 2);
        }
        drop(one);
        let three = places.take().expect("given back");
        assert!(places.take().is_err());
        drop((two, three));
        assert!(places.take().is_ok());
    }
}
