//! The slots of client connections, and which connection yields its slot when all are taken.
//!
//! Invariants: there are at most as many slots as configured. A slot goes to a new connection only after its former
//! connection is closed. A connection yields only while it waits for its client ([`Activity::waits`]), so a running
//! request keeps its slot. The search looks at [`LOOKS`] connections at most. Neither a request nor its answer takes a
//! lock that connections share.
//!
//! Not here: accepting connections (`listener`), closing one (`http1`), the limit of clients (`admission`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::activity::Activity;
use runtime::telemetry::limit::Socket;

/// How many connections are looked at to find one that yields, chosen at random where there are more. If one of a
/// hundred waits for its client, it is found with a probability of 72 %; if one of twenty does, with 99.9 %.
const LOOKS: usize = 128;

/// The slots of a listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SocketSlots {
    free: Arc<Semaphore>,
    open: Arc<Mutex<Open>>,
}

/// The open connections, by the index of their slot.
#[derive(Debug, Default)]
struct Open {
    all: Vec<Option<Activity>>,
    /// Indexes without a connection.
    free: Vec<usize>,
}

/// The slot of one connection, until this is dropped. Then it goes to the connection that claimed it, or it is free.
#[derive(Debug)]
pub(super) struct SocketSlot {
    /// The state of the connection.
    pub(super) activity: Activity,
    index: usize,
    slots: SocketSlots,
    permit: Option<OwnedSemaphorePermit>,
    _counted: Socket,
}

impl SocketSlots {
    /// Creates `most` free slots.
    pub(super) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), open: Arc::default() }
    }

    /// Takes a free slot, if there is one.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Adds a connection that has the slot of `permit`.
    pub(super) fn open(&self, permit: OwnedSemaphorePermit) -> SocketSlot {
        let activity = Activity::new();
        let mut open = self.lock();
        let index = open.free.pop().unwrap_or_else(|| {
            open.all.push(None);
            open.all.len() - 1
        });
        open.all[index] = Some(activity.clone());
        drop(open);
        SocketSlot { activity, index, slots: self.clone(), permit: Some(permit), _counted: Socket::opened() }
    }

    /// Asks a connection that waits for its client to yield its slot. None if no connection was found. The receiver
    /// fails if the connection has become busy meanwhile.
    pub(super) fn claim(&self) -> Option<oneshot::Receiver<OwnedSemaphorePermit>> {
        let open = self.lock();
        let yields = |index: usize| {
            let activity = open.all.get(index)?.as_ref()?;
            Some((activity.waits()?, activity))
        };
        let count = open.all.len();
        let found = if count <= LOOKS {
            (0..count).filter_map(yields).min_by_key(|(waiting, _)| *waiting)
        } else {
            let mut random = rand::rng();
            let indexes = (0..LOOKS).map(|_| random.random_range(0..count));
            indexes.filter_map(yields).min_by_key(|(waiting, _)| *waiting)
        };
        let (claim, yielded) = oneshot::channel();
        // Still under the lock: until then its slot is not given to anybody else.
        found?.1.claim(claim);
        Some(yielded)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SocketSlot {
    fn drop(&mut self) {
        let mut open = self.slots.lock();
        open.all[self.index] = None;
        open.free.push(self.index);
        drop(open);
        // No longer listed, so nobody can claim it any more. If the claimant has gone, the permit comes back and is free.
        if let Some((claim, permit)) = self.activity.take_claim().zip(self.permit.take()) {
            let _ = claim.send(permit);
        }
    }
}

#[cfg(test)]
#[path = "socket_slots_tests.rs"]
mod tests;
