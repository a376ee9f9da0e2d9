//! Equal wishes at the same time: one is worked out, the others wait for it.
//!
//! ```text
//! board ──▶ your turn ──▶ land ──▶ everybody who is aboard has it
//!               │ dropped
//!               └──▶ the turn of the next
//! ```
//!
//! Invariants: one flight for a key at a time, and one aboard whose turn it is; who leaves, leaves
//! nothing behind; whoever boards after a `detach` is not given what was begun before it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Fetched, Group, Key};

/// Flights at a time. Beyond that everybody works it out alone.
const MAX_FLIGHTS: usize = 10_000;

/// What came of it.
#[derive(Debug, Clone)]
pub(super) enum Landed {
    /// For everybody.
    Value(Bytes),
    /// It was in the cache.
    Cached(Bytes),
    /// An error, for everybody who knows its type.
    Failed(Arc<dyn Any + Send + Sync>),
    /// For nobody else: each works it out alone.
    Alone,
}

impl Landed {
    /// It for somebody who waited; none: has to work it out alone.
    pub(super) fn shared<E: Clone + 'static>(&self) -> Option<Result<Fetched, E>> {
        match self {
            Self::Value(value) => Some(Ok(Fetched { value: value.clone(), cached: false })),
            Self::Cached(value) => Some(Ok(Fetched { value: value.clone(), cached: true })),
            Self::Failed(error) => error.downcast_ref::<E>().cloned().map(Err),
            Self::Alone => None,
        }
    }
}

struct Flight {
    /// Whose turn it is has the one permit; closed when it has landed.
    turn: Semaphore,
    landed: OnceLock<Landed>,
}

#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Key, (Arc<Flight>, usize)>>);

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (Arc<Flight>, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in the flight for `key`; none when there are too many flights.
    pub(super) fn board<'a>(&'a self, key: &'a Key) -> Option<Seat<'a>> {
        let mut flights = self.lock();
        if let Some((flight, aboard)) = flights.get_mut(key) {
            *aboard += 1;
            return Some(Seat { flights: self, key, flight: Arc::clone(flight) });
        }
        if flights.len() >= MAX_FLIGHTS {
            return None;
        }
        let flight = Arc::new(Flight { turn: Semaphore::new(1), landed: OnceLock::new() });
        flights.insert(key.clone(), (Arc::clone(&flight), 1));
        Some(Seat { flights: self, key, flight })
    }

    /// Nobody else boards the flights for keys of `group` that are under way.
    pub(super) fn detach(&self, group: &Group) {
        self.lock().retain(|key, _| !group.contains(key));
    }
}

/// A place in a flight.
pub(super) struct Seat<'a> {
    flights: &'a Flights,
    key: &'a Key,
    flight: Arc<Flight>,
}

/// Whose move it is.
pub(super) enum Turn<'a> {
    /// Ours, until it is dropped.
    Ours { _permit: SemaphorePermit<'a> },
    /// It has landed.
    Over(&'a Landed),
}

impl Seat<'_> {
    /// Waits until it is our turn or has landed.
    pub(super) async fn turn(&self) -> Turn<'_> {
        match self.flight.turn.acquire().await {
            Ok(permit) => Turn::Ours { _permit: permit },
            // It is closed by `land` only.
            Err(_) => Turn::Over(self.flight.landed.get().unwrap_or(&Landed::Alone)),
        }
    }

    /// Tells everybody aboard. Only for whose turn it is.
    pub(super) fn land(&self, landed: Landed) {
        let _ = self.flight.landed.set(landed); // only one has the turn
        self.flight.turn.close();
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        let Some((flight, aboard)) = flights.get_mut(self.key) else { return };
        if !Arc::ptr_eq(flight, &self.flight) {
            return; // it was detached, and another began
        }
        *aboard -= 1;
        if *aboard == 0 || self.flight.landed.get().is_some() {
            flights.remove(self.key);
        }
    }
}

#[cfg(test)]
impl Flights {
    pub(super) fn under_way(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn aboard(&self) -> usize {
        self.lock().values().map(|(_, aboard)| aboard).sum()
    }
}
