//! The table of clients with private connections to one server.
//!
//! Invariants: a client is in it as long as its task runs. A task leaves only if no request waits for it, so no two
//! tasks serve one client.
//!
//! Not here: the tasks (`private_clients`), and the connections (`pool`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};

use super::Upstream;
use super::connection::{Event, Events};
use super::session_affinity::Affinity;
use super::state_signs::StateSigns;
use super::watches::Watches;

/// The clients with private connections to one server.
pub(super) struct PrivateClients {
    clients: Mutex<HashMap<Affinity, Arc<PrivateClient>>>,
    signs: Arc<StateSigns>,
    /// When lists may be read again on any of these connections.
    next_read: Mutex<Instant>,
}

/// One client with a private connection, or with an attempt to make one.
pub(super) struct PrivateClient {
    pub(super) affinity: Affinity,
    pub(super) events: Events,
    pub(super) watches: Arc<Watches>,
    /// Whether the attempt to connect succeeded; `None` while there is neither a result nor a connection.
    pub(super) outcome: watch::Sender<Option<bool>>,
    pub(super) demand: watch::Sender<Demand>,
    /// Where the lists that it sees come from.
    pub(super) lists: watch::Sender<ListSource>,
    /// How many changes had been announced when its lists were read.
    pub(super) read: watch::Sender<u64>,
    /// Has its lists read at once.
    pub(super) hurry: Notify,
}

/// Where the lists that one client sees come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListSource {
    /// It sees those of all clients, if there are any.
    Shared,
    /// They are the last ones of an earlier connection.
    Memory,
    /// They were read on its connection.
    Connection,
}

/// The condition that ends the wait of a request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// Its lists. The last ones of an earlier connection suffice.
    Lists,
    /// Its connection, and the lists on it.
    Connection,
}

impl PrivateClient {
    /// Whether its server announced a change since its lists were read.
    pub(super) fn is_stale(&self) -> bool {
        *self.outcome.borrow() == Some(true) && *self.read.borrow() < self.events.changes()
    }

    /// Whether `there` is this very client, and no later one of the same affinity.
    fn is(&self, there: Option<&Arc<Self>>) -> bool {
        there.is_some_and(|there| std::ptr::eq(&raw const **there, self))
    }
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
    pub(super) fn add(&mut self) {
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }
}

impl PrivateClients {
    /// Makes the table of the server of `signs`.
    pub(super) fn of(signs: &Arc<StateSigns>) -> Self {
        let (clients, next_read) = (Mutex::default(), Mutex::new(Instant::now()));
        Self { clients, signs: Arc::clone(signs), next_read }
    }

    /// Returns where the private connections of `affinity` report events.
    pub(super) fn events(&self, affinity: &Affinity) -> Option<Events> {
        self.lock().get(affinity).map(|client| client.events.clone())
    }

    /// Returns the client of `affinity`, if it has a task.
    pub(super) fn get(&self, affinity: &Affinity) -> Option<Arc<PrivateClient>> {
        self.lock().get(affinity).cloned()
    }

    /// Whether the task of `client` has not ended.
    pub(super) fn has(&self, client: &PrivateClient) -> bool {
        client.is(self.lock().get(&client.affinity))
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
        let (events, heard) = Events::of_server(Arc::default(), Arc::clone(&self.signs));
        let (watches, outcome) = (Watches::new(), watch::Sender::new(None));
        let affinity = affinity.with_senders();
        let demand = watch::Sender::new(Demand { count: 0, since: Some(Instant::now()) });
        let (lists, read, hurry) =
            (watch::Sender::new(ListSource::Shared), watch::Sender::new(0), Notify::new());
        let client = PrivateClient {
            affinity: affinity.clone(),
            events,
            watches,
            outcome,
            demand,
            lists,
            read,
            hurry,
        };
        let client = Arc::new(client);
        clients.insert(affinity, Arc::clone(&client));
        (client, Some(heard))
    }

    /// Removes the client, unless requests came after the `seen` ones.
    pub(super) fn leave_unless_needed(&self, client: &PrivateClient, seen: u64) -> bool {
        self.remove_if(client, || client.demand.borrow().count <= seen)
    }

    /// Removes the client.
    pub(super) fn leave(&self, client: &PrivateClient) {
        self.remove_if(client, || true);
    }

    fn remove_if(&self, client: &PrivateClient, may_leave: impl FnOnce() -> bool) -> bool {
        let mut clients = self.lock();
        let may_leave = may_leave();
        if may_leave && client.is(clients.get(&client.affinity)) {
            clients.remove(&client.affinity);
        }
        may_leave
    }

    /// Returns when to read lists that may be read from `from` on, and take `cost` of the server's time for that. All
    /// clients share this time.
    pub(super) fn read_at(&self, from: Instant, cost: Duration) -> Instant {
        // Nothing panics while it is held.
        let mut next = self.next_read.lock().unwrap_or_else(PoisonError::into_inner);
        let at = from.max(*next);
        *next = at + cost;
        at
    }

    /// Whether fewer than `limit` clients wait for a new request after their connection closed.
    pub(super) fn may_linger(&self, limit: Option<usize>) -> bool {
        let lingers = |client: &&Arc<PrivateClient>| client.demand.borrow().since.is_none();
        limit.is_none_or(|limit| self.lock().values().filter(lingers).count() <= limit)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Affinity, Arc<PrivateClient>>> {
        // Nothing panics while it is held, and every write leaves a valid table.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// The lists on the private connection of one client, and how they are read. A client that requests them after a
// change was announced gets the new ones.

/// The longest time that a request of a client waits for its connection, or for its lists.
pub(super) const LIST_WAIT: Duration = Duration::from_secs(10);

impl Upstream {
    /// How long a request waits for its connection, or for its lists. The other half of its time is for itself.
    pub(super) fn list_wait(&self) -> Duration {
        LIST_WAIT.min(self.config.timeout / 2)
    }

    /// Whether the lists of the client of `affinity` are to be read again, because its server announced a change.
    pub fn is_stale(&self, affinity: &Affinity) -> bool {
        self.pool.private_clients.get(affinity).is_some_and(|client| client.is_stale())
    }

    /// Reads the lists of the client of `affinity` now, if its server announced a change since.
    pub async fn refresh(&self, affinity: &Affinity) {
        let Some(client) = self.pool.private_clients.get(affinity).filter(|client| client.is_stale()) else {
            return;
        };
        let changes = client.events.changes();
        client.hurry.notify_one();
        let mut read = client.read.subscribe();
        let _ = timeout(self.list_wait(), read.wait_for(|read| *read >= changes)).await;
    }
}
