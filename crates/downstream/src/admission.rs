//! How many clients there are at a time: sessions, and requests that belong to none.
//!
//! Invariants: at most as many as are configured; whoever has a place keeps it until the session or the
//! request ends, so one more client is refused and nobody else notices.
//!
//! Not here: sockets, which have a limit of their own (`listener`), because a client may need several; what
//! can be answered at once, and operators' questions, which take no place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places for clients. Clones are the same ones.
#[derive(Debug, Clone)]
pub struct Places(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    most: usize,
    taken: AtomicUsize,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Place(Places);

/// All places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// How many there are.
    pub most: usize,
}

impl Places {
    /// `most` of them, all free.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Parts { most, taken: AtomicUsize::new(0) }))
    }

    /// A free one.
    pub fn take(&self) -> Result<Place, Full> {
        let Parts { most, taken } = &*self.0;
        let place = Place(self.clone());
        // Who finds none gives back at once what it took.
        if taken.fetch_add(1, Ordering::Relaxed) < *most { Ok(place) } else { Err(Full { most: *most }) }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed).min(self.0.most)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_there_are_and_each_is_given_back() {
        let places = Places::new(2);
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
