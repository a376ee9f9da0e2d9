//! Concurrent calls with the same key: one computes the value, the others wait for it.
//!
//! ```text
//! join  ──▶ your turn ──▶ land ──▶ all callers get the result
//!               │ dropped
//!               └──▶ the turn of the next
//! ```
//!
//! Invariants: a key has one flight at a time, and one of its callers has the turn. A caller that is dropped leaves no
//! entry behind. A caller that joins after a `detach` never receives a value whose computation began before it.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Fetched, Group, Key};

/// The most flights at a time. Beyond that each caller computes its own value.
const MAX_FLIGHTS: usize = 10_000;

/// The result of a flight.
#[derive(Debug, Clone)]
pub(super) enum FlightResult {
    /// A value for all callers.
    Value(Bytes),
    /// A value that was in the cache.
    Cached(Bytes),
    /// An error, for all callers that know its type.
    Failed(Arc<dyn Any + Send + Sync>),
    /// A value that is not shared: each caller computes its own.
    Alone,
}

impl FlightResult {
    /// Returns the result for a caller that waited; `None` if the caller must compute its own.
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
    /// The caller whose turn it is holds the one permit. Closed when the flight has landed.
    turn: Semaphore,
    landed: OnceLock<FlightResult>,
}

#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<Key, (Arc<Flight>, usize)>>);

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (Arc<Flight>, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the flight for `key`; `None` if there are too many flights.
    pub(super) fn join<'a>(&'a self, key: &'a Key) -> Option<JoinedFlight<'a>> {
        let mut flights = self.lock();
        if let Some((flight, waiters)) = flights.get_mut(key) {
            *waiters += 1;
            return Some(JoinedFlight { flights: self, key, flight: Arc::clone(flight) });
        }
        if flights.len() >= MAX_FLIGHTS {
            return None;
        }
        let flight = Arc::new(Flight { turn: Semaphore::new(1), landed: OnceLock::new() });
        flights.insert(key.clone(), (Arc::clone(&flight), 1));
        Some(JoinedFlight { flights: self, key, flight })
    }

    /// Prevents further callers from joining the running flights for keys of `group`.
    pub(super) fn detach(&self, group: &Group) {
        self.lock().retain(|key, _| !group.contains(key));
    }
}

/// One caller's place in a flight.
pub(super) struct JoinedFlight<'a> {
    flights: &'a Flights,
    key: &'a Key,
    flight: Arc<Flight>,
}

/// The result of waiting for a turn.
pub(super) enum FlightTurn<'a> {
    /// This caller computes the value, until the permit is dropped.
    Ours { _permit: SemaphorePermit<'a> },
    /// The flight has landed.
    Over(&'a FlightResult),
}

impl JoinedFlight<'_> {
    /// Waits until this caller has the turn or the flight has landed.
    pub(super) async fn turn(&self) -> FlightTurn<'_> {
        match self.flight.turn.acquire().await {
            Ok(permit) => FlightTurn::Ours { _permit: permit },
            // Only `land` closes it.
            Err(_) => FlightTurn::Over(self.flight.landed.get().unwrap_or(&FlightResult::Alone)),
        }
    }

    /// Gives the result to all callers. Only the caller with the turn may call this.
    pub(super) fn land(&self, landed: FlightResult) {
        let _ = self.flight.landed.set(landed); // only one caller has the turn
        self.flight.turn.close();
    }
}

impl Drop for JoinedFlight<'_> {
    fn drop(&mut self) {
        let mut flights = self.flights.lock();
        let Some((flight, waiters)) = flights.get_mut(self.key) else { return };
        if !Arc::ptr_eq(flight, &self.flight) {
            return; // it was detached, and another flight began
        }
        *waiters -= 1;
        if *waiters == 0 || self.flight.landed.get().is_some() {
            flights.remove(self.key);
        }
    }
}

#[cfg(test)]
impl Flights {
    pub(super) fn under_way(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn waiters(&self) -> usize {
        self.lock().values().map(|(_, waiters)| waiters).sum()
    }
}
