//! Grants that other processes ended: what runs with their tokens here ends too.
//!
//! Invariants: while principals of grants are here, or several machines share the store, the number of removed grants is read
//! twice a second, and nothing more. Only if it has changed, the keys and the ids of all grants are read. A request costs
//! nothing.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use crate::clock::seconds;
use crate::key_entries::KeyError;
use crate::server::AuthorizationServer;
use crate::store::StoreError;

/// The time between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl AuthorizationServer {
    /// Ends what runs here with tokens of grants that other processes ended, and keeps the keys current. Runs as long as the
    /// program.
    pub async fn follow_removals(&self) {
        let (mut before, mut is_logged) = (None, false);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            // Also if no client asks for a token: those of other gateways have to be verified.
            match self.keys.at(seconds(SystemTime::now())).await {
                // The store logs that it cannot be reached.
                Ok(_) | Err(KeyError::Store(_)) => is_logged = false,
                Err(_) if is_logged => {}
                Err(error) => {
                    tracing::error!(%error, "clients get no tokens");
                    is_logged = true;
                }
            }
            // Also without principals, if another machine may have replaced keys that the store has lost.
            if self.keys.are_shared() || self.host.uses_grants() {
                // The requests that need the store log its failures.
                let _ = self.end_removed(&mut before).await;
            }
        }
    }

    /// Ends the grants that are used here and were removed from the store since there were `before` removals.
    pub(crate) async fn end_removed(&self, before: &mut Option<u64>) -> Result<(), StoreError> {
        let removed = self.grants.removed().await?;
        if *before == Some(removed) {
            return Ok(());
        }
        // The number of a store that lost its records, and the keys with them, is another one too.
        self.keys.read_again();
        // Before the ids: each of them was stored at some time, so it was removed if it is not stored now.
        let used = self.host.used_grants();
        if !used.is_empty() {
            let stored: HashSet<String> = self.grants.ids().await?.into_iter().collect();
            for grant in used.iter().filter(|grant| !stored.contains(*grant)) {
                self.host.grant_ended(grant);
            }
        }
        *before = Some(removed);
        Ok(())
    }
}
