//! The client of a private connection: all messages and requests of its server are for this client, even outside of
//! calls.
//!
//! Not here: how a client is reached (`session_affinity`).

use tokio::sync::watch;

use super::{Attribution, Pending, Recipient};
use crate::session_affinity::{Affinity, BorrowedSender};
use crate::transport::flood_guard::Relevance;
use protocol::{Notification, method};

impl Pending {
    /// Declares that all calls from now on belong to `client`.
    pub(in crate::transport) fn open_own_session(&self, client: Affinity) {
        let _ = self.client.set(client); // a private connection has only one client
    }

    /// Sends a notification that belongs to no call to the client of the connection: a log line, or one that only the
    /// client knows.
    pub(super) fn notify_client(&self, notification: Notification, relevance: Relevance) -> Relevance {
        let is_for_client =
            notification.method == method::LOG_MESSAGE || notification.method.known().is_none();
        if is_for_client && !self.client.get().is_some_and(|client| client.notify(notification)) {
            tracing::debug!("a notification of a server that belongs to no client was dropped");
        }
        relevance
    }

    /// Returns how the client can be reached outside of calls, or the next opportunity.
    pub(super) fn outside_calls(client: &Affinity, started: &watch::Sender<u64>) -> Attribution {
        // Registered first, so that an opportunity in between is not missed.
        let next = client.reachable().unwrap_or(started).subscribe();
        let open = client.open_request();
        match client.reached() {
            Some(BorrowedSender { event_sender, owner, capabilities, over, .. }) => {
                Attribution::Of(Recipient {
                    event_sender,
                    owner,
                    capabilities,
                    over,
                    beside: Vec::new(),
                    open,
                })
            }
            None => Attribution::OfNextCall(next, open),
        }
    }
}
