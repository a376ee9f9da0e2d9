//! The last offer to the principal of a client: it is shown before the lists on the connection of the client were read, and
//! while the server is down.
//!
//! Not here: the memory (`principal_offers`).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{LINGER, PrivateClientTask};
use crate::discover;
use crate::private_client_table::ListSource;

impl PrivateClientTask {
    /// Publishes the last offer to its principal, if the client sees no other one.
    pub(super) async fn offer_remembered(&self) {
        if *self.client.lists.borrow() != ListSource::Shared {
            return;
        }
        let Some(stored) = self.upstream.last_offer_to(self.call.principal.as_ref()).await else { return };
        let (bytes, upstream) = (stored.bytes().len(), Arc::clone(&self.upstream));
        let restored = discover::off_worker(bytes, move || upstream.restored(&stored)).await;
        if let Some(offer) = restored {
            self.offer(offer, ListSource::Memory).await;
        }
    }

    /// Keeps what the client sees without its connection, unless its principal logged out, or may have another account now.
    pub(super) async fn keep_lists(&self) {
        if *self.client.lists.borrow() == ListSource::Shared {
            return;
        }
        let upstream = &self.upstream;
        if upstream.config.is_per_principal()
            && upstream.last_offer_to(self.call.principal.as_ref()).await.is_none()
        {
            return self.withdraw().await;
        }
        self.client.lists.send_replace(ListSource::Memory);
    }

    /// Whether the client needs its connection no more: no request follows the `seen` ones for a while.
    pub(super) async fn is_quiet_after(&self, seen: u64) -> bool {
        let pool = &self.upstream.pool;
        let mut demand = self.client.demand.subscribe();
        // A call that was on its way when the connection closed made another one.
        let is_open = || {
            let connection = pool.private_connection(&self.affinity);
            connection.is_some_and(|connection| connection.closed().now_or_never().is_none())
        };
        // The call that wakes it may be one of the `seen` ones, and wait for its lists.
        if is_open() {
            return false;
        }
        loop {
            let comes = demand.wait_for(|demand| demand.count > seen);
            let linger =
                if pool.private_clients.may_linger(pool.private_limit()) { LINGER } else { Duration::ZERO };
            if timeout(linger, comes).await.is_ok() || is_open() {
                return false;
            }
            if linger.is_zero() || !self.keeps_remembered().await {
                return true;
            }
        }
    }

    /// Whether what the client sees stays without a connection, because its session would see it again at once.
    async fn keeps_remembered(&self) -> bool {
        !self.affinity.ends_when_idle()
            && *self.client.lists.borrow() != ListSource::Shared
            && self.upstream.last_offer_to(self.call.principal.as_ref()).await.is_some()
    }
}
