//! The slots of client connections, which connection yields its slot when all are taken, and for whom slots are kept.
//!
//! Invariants: there are at most as many slots as configured. A slot goes to a new connection only after its former
//! connection is closed. A connection yields only while it waits for its client ([`Activity::waits`]), so a running
//! request keeps its slot. A request with a credential is served only if the slot of its connection is kept for its
//! principal ([`ClientSlot::identified`]). A search looks at [`LOOKS`] connections at most. A request takes a lock that
//! connections share only if its principal is not that of the request before.
//!
//! Not here: accepting connections (`listener`), closing one (`http1`), the shares (`socket_shares`), the limit of
//! clients (`admission`).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::activity::{Activity, HeadBudget};
use super::client_address::ClientAddress;
use super::listening_sockets::SocketCounts;
use super::socket_shares::{HeldSlot, Owner, SocketShares};
use auth::Principal;

/// How many connections are looked at to find one that waits, chosen at random where there are more. If one of a
/// hundred waits for its client, it is found with a probability of 72 %; if one of twenty does, with 99.9 %.
const LOOKS: usize = 128;

/// The slots of a listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct SocketSlots {
    free: Arc<Semaphore>,
    open: Arc<Mutex<Open>>,
    shares: SocketShares,
    heads: HeadBudget,
    counts: SocketCounts,
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
    /// The connection in it.
    pub(super) client: ClientSlot,
    index: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// The connection in a slot. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ClientSlot(Arc<Connected>);

#[derive(Debug)]
struct Connected {
    activity: Activity,
    slots: SocketSlots,
    /// The address of the other end: a client, or a proxy.
    peer: IpAddr,
}

/// The client of a request keeps as many slots as it may, and runs something in all of them that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShareTaken {
    /// How many it keeps.
    pub(super) held: usize,
}

impl SocketSlots {
    /// Creates `most` free slots. Their sockets are counted in `counts`.
    pub(super) fn new(most: usize, counts: SocketCounts) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            open: Arc::default(),
            shares: SocketShares::new(most),
            heads: HeadBudget::default(),
            counts,
        }
    }

    /// Takes a free slot, if there is one.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Adds a connection from `peer` that has the slot of `permit`.
    pub(super) fn open(&self, permit: OwnedSemaphorePermit, peer: IpAddr) -> SocketSlot {
        let activity = Activity::new(self.heads.clone());
        self.counts.count_opened();
        let mut open = self.lock();
        let index = open.free.pop().unwrap_or_else(|| {
            open.all.push(None);
            open.all.len() - 1
        });
        open.all[index] = Some(activity.clone());
        drop(open);
        let client = ClientSlot(Arc::new(Connected { activity, slots: self.clone(), peer }));
        SocketSlot { client, index, permit: Some(permit) }
    }

    /// Asks a connection that waits for its client to yield its slot. None if no connection was found. The receiver
    /// fails if the connection has become busy meanwhile.
    pub(super) fn claim(&self) -> Option<oneshot::Receiver<OwnedSemaphorePermit>> {
        let open = self.lock();
        let waiting = open.some().filter_map(|activity| Some((activity.waits()?, activity)));
        let found = waiting.min_by_key(|(waiting, _)| *waiting);
        let (claim, yielded) = oneshot::channel();
        // Still under the lock: until then its slot is not given to anybody else.
        found?.1.claim(claim);
        Some(yielded)
    }

    /// Keeps a slot for `owner`. If its share does not allow that, connections between two requests are kept for
    /// nobody before, of the [`LOOKS`] that are looked at.
    fn keep(&self, owner: &Owner) -> Result<HeldSlot, ShareTaken> {
        let held = self.shares.keep(owner).or_else(|_| {
            self.lock().some().for_each(Activity::release_if_idle);
            self.shares.keep(owner)
        });
        held.map_err(|held| ShareTaken { held })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// At most [`LOOKS`] of the connections.
    fn some(&self) -> impl Iterator<Item = &Activity> {
        let count = self.all.len();
        let mut random = rand::rng();
        let index = move |at| if count <= LOOKS { at } else { random.random_range(0..count) };
        (0..count.min(LOOKS)).map(index).filter_map(|index| self.all[index].as_ref())
    }
}

impl ClientSlot {
    /// The address of the other end.
    pub(super) fn peer(&self) -> IpAddr {
        self.0.peer
    }

    /// The state of the connection.
    pub(super) fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Keeps the slot for `principal`, which sent the last request from `client`, or from the peer. A slot of a client
    /// without a credential is only counted for its address. Fails if there is no share left; then the slot is kept for nobody.
    pub(super) fn identified(
        &self,
        principal: &Principal,
        client: Option<ClientAddress>,
    ) -> Result<(), ShareTaken> {
        let Connected { activity, slots, peer } = &*self.0;
        let owner = if principal.is_anonymous() {
            let client = client.unwrap_or_else(|| (*peer).into());
            if activity.is_counted_for(client) {
                return Ok(());
            }
            // Without a credential, one client cannot be distinguished from another one of its address.
            Owner::Address(client)
        } else {
            if activity.is_kept_for(principal.id()) {
                return Ok(());
            }
            Owner::Principal(Arc::clone(principal.id()))
        };
        // First, because the search takes the lock of each connection.
        activity.keep(None);
        activity.keep(Some(slots.keep(&owner)?));
        Ok(())
    }

    /// Keeps the slot for nobody, because the last request had no valid credential.
    pub(super) fn unidentified(&self) {
        self.activity().keep(None);
    }
}

impl Drop for SocketSlot {
    fn drop(&mut self) {
        let Connected { activity, slots, .. } = &*self.client.0;
        activity.keep(None);
        slots.counts.count_closed();
        let mut open = slots.lock();
        open.all[self.index] = None;
        open.free.push(self.index);
        drop(open);
        // No longer listed, so nobody can claim it any more. If the claimant has gone, the permit comes back and is free.
        if let Some((claim, permit)) = activity.take_claim().zip(self.permit.take()) {
            let _ = claim.send(permit);
        }
    }
}

#[cfg(test)]
#[path = "socket_slots_tests.rs"]
mod tests;
