//! Messages between the supervisor of a server, the manager and operators.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::breaker;
use super::error::Error;
use super::offer::Offer;
use super::status::State;
use crate::session_affinity::Affinity;
use protocol::Notification;
use protocol::feature::Lists;

/// An update about one server, for the manager.
#[derive(Debug, Clone)]
pub struct Update {
    /// The key in the configuration file.
    pub server: Arc<str>,
    /// [`super::Upstream::id`] of the sender.
    pub id: u64,
    /// The change.
    pub change: Change,
}

/// A change of a server.
#[derive(Debug, Clone)]
pub enum Change {
    /// The offer was read, often without a change.
    Offered(Arc<Offer>),
    /// A server of 2026-07-28 announced a change of these lists during or just after a call, and they are the same. The
    /// clients that subscribed are notified, as the official suite expects. Otherwise clients hear of real changes only:
    /// some servers announce a change after each list that they send.
    Announced(Lists),
    /// The state changed. The last offer is kept while the server is down.
    State(State),
    /// The server sent a notification to its subscribers.
    Told(Notification),
    /// The circuit breaker changed.
    Breaker(breaker::Changed),
    /// Notifications may have been lost.
    Missed,
    /// The offer on the private connection of one client; `None` when that connection is gone. The flag is set when the
    /// update was published.
    Private(Affinity, Option<Arc<Offer>>, Arc<watch::Sender<bool>>),
    /// A notification on the private connection of one client; `None` if notifications may have been lost.
    ToldTo(Affinity, Option<Notification>),
}

/// The channel on which an operator waits for the offer.
pub(super) type OfferReply = oneshot::Sender<Result<Arc<Offer>, Error>>;

/// An operator's command for a server.
pub(super) enum Command {
    /// Connect, and return the offer, read by `deadline`.
    Connect { deadline: Instant, reply: OfferReply },
    /// Close the connections and make new ones.
    Reconnect { deadline: Instant, reply: OfferReply },
    /// Close the connections and make none.
    Disconnect { reply: oneshot::Sender<Result<(), Error>> },
    /// Record a health check that was made on request.
    Checked { result: Result<Duration, Error>, reply: oneshot::Sender<Result<(), Error>> },
}
