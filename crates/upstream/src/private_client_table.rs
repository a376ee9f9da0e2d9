//! The table of clients with private connections to one server.
//!
//! Invariants: a client is in it as long as its task runs. A task leaves only if no request waits for it, so no two
//! tasks serve one client.
//!
//! Not here: the tasks (`private_clients`), and the connections (`pool`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::connection::{Event, Events};
use super::watches::Watches;
use crate::session_affinity::Affinity;

/// The clients with private connections to one server.
#[derive(Default)]
pub(super) struct PrivateClients(Mutex<HashMap<Affinity, Arc<PrivateClient>>>);

/// One client with a private connection, or with an attempt to make one.
pub(super) struct PrivateClient {
    pub(super) affinity: Affinity,
    pub(super) events: Events,
    pub(super) watches: Arc<Watches>,
    /// Whether the attempt to connect succeeded; `None` while there is neither a result nor a connection.
    pub(super) outcome: watch::Sender<Option<bool>>,
    pub(super) demand: watch::Sender<Demand>,
}

/// The requests of one client that need its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// The number of requests that had to wait.
    pub(super) count: u64,
    /// When the first of them came since the connection closed.
    pub(super) since: Option<Instant>,
}

impl Demand {
    fn add(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }
}

impl PrivateClients {
    /// Returns where the private connections of `affinity` report events.
    pub(super) fn events(&self, affinity: &Affinity) -> Option<Events> {
        self.lock().get(affinity).map(|client| client.events.clone())
    }

    /// Returns the client of `affinity`, if it has a task.
    pub(super) fn get(&self, affinity: &Affinity) -> Option<Arc<PrivateClient>> {
        self.lock().get(affinity).cloned()
    }

    /// Whether the client of `affinity` has subscriptions.
    pub(super) fn watches(&self, affinity: &Affinity) -> bool {
        self.get(affinity).is_some_and(|client| client.watches.count() > 0)
    }

    /// Returns the client of `affinity`, with the receiver of its events if it is new.
    pub(super) fn enter(&self, affinity: &Affinity) -> (Arc<PrivateClient>, Option<mpsc::Receiver<Event>>) {
        let mut clients = self.lock();
        if let Some(client) = clients.get(affinity) {
            client.demand.send_modify(Demand::add);
            return (Arc::clone(client), None);
        }
        let (events, heard) = Events::channel();
        let (watches, outcome) = (Watches::new(), watch::Sender::new(None));
        let affinity = affinity.attended();
        let demand = watch::Sender::new(Demand { count: 0, since: Some(Instant::now()) });
        let client = Arc::new(PrivateClient { affinity: affinity.clone(), events, watches, outcome, demand });
        clients.insert(affinity, Arc::clone(&client));
        (client, Some(heard))
    }

    /// Removes the client, unless requests came after the `seen` ones.
    pub(super) fn leave_unless_needed(&self, client: &PrivateClient, seen: u64) -> bool {
        let mut clients = self.lock();
        let is_needed = client.demand.borrow().count > seen;
        if !is_needed {
            clients.remove(&client.affinity);
        }
        !is_needed
    }

    pub(super) fn leave(&self, affinity: &Affinity) {
        self.lock().remove(affinity);
    }

    /// Whether fewer than `limit` clients wait for a new request after their connection closed.
    pub(super) fn may_linger(&self, limit: usize) -> bool {
        let lingers = |client: &&Arc<PrivateClient>| client.demand.borrow().since.is_none();
        self.lock().values().filter(lingers).count() <= limit
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Affinity, Arc<PrivateClient>>> {
        // Nothing panics while it is held, and every write leaves a valid table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
