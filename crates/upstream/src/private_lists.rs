//! The lists on the private connection of one client, and how they are read. A client that requests them after a change was
//! announced gets the new ones.
//!
//! Not here: the task that reads them (`private_clients`).

use std::time::Duration;

use tokio::time::timeout;

use super::Upstream;
use crate::session_affinity::Affinity;

/// How long a request of a client waits for its connection, or for its lists.
pub(super) const LIST_WAIT: Duration = Duration::from_secs(10);

impl Upstream {
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
        let _ = timeout(LIST_WAIT, read.wait_for(|read| *read >= changes)).await;
    }
}
