//! The one client of a private connection: whatever its server says or asks is meant for this client, also outside
//! of calls.
//!
//! Not here: where a client can be reached (`session_affinity`).

use tokio::sync::watch;

use super::{Asked, Pending, Whose};
use crate::session_affinity::{Home, Lent};
use crate::transport::flood_guard::Worth;
use protocol::{Notification, method};

impl Pending {
    /// All calls from now on are those of `client`.
    pub(in crate::transport) fn be_private(&self, client: Home) {
        let _ = self.client.set(client); // a connection is for one client, if it is for one
    }

    /// Tells the one client of the connection what belongs to no call.
    pub(super) fn tell_client(&self, notification: Notification, worth: Worth) -> Worth {
        if notification.method == method::LOG_MESSAGE
            && let Some(client) = self.client.get()
        {
            client.tell(notification);
        }
        worth
    }

    /// Where the one client can be asked outside of calls; otherwise the next chance to ask it.
    pub(super) fn outside_calls(client: &Home, begun: &watch::Sender<u64>) -> Whose {
        // First, so that a chance between the two is not missed.
        let next = client.reachable().unwrap_or(begun).subscribe();
        let open = client.open_request();
        match client.reached() {
            Some(Lent { outlet, owner, capabilities, over, .. }) => {
                Whose::Of(Asked { outlet, owner, capabilities, over, beside: Vec::new(), open })
            }
            None => Whose::OfTheNext(next, open),
        }
    }
}
