//! What the task that keeps a server up tells the manager, and what operators tell it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::discover::Offer;
use super::error::Error;
use super::status::State;
use crate::session_affinity::Home;
use protocol::Notification;
use protocol::feature::{List, Lists};

/// News of one server, for the manager.
#[derive(Debug, Clone)]
pub struct Update {
    /// Its key in the registry.
    pub server: Arc<str>,
    /// [`super::Upstream::id`] of who sends it.
    pub id: u64,
    /// What is new.
    pub change: Change,
}

/// What is new of a server.
#[derive(Debug, Clone)]
pub enum Change {
    /// It was asked what it offers, and this is all of it; often the same as before. Beside it the
    /// lists that it said had changed: whoever listens is told so even when they read the same.
    Offered(Arc<Offer>, Lists),
    /// It is in another state. An offer stays known while its server is away.
    State(State),
    /// It said something for whoever asked for it.
    Told(Notification),
    /// It may have said something that nobody heard.
    Missed,
    /// Its offer on the connection of one client, with the lists that it said had changed; `None` when that
    /// connection is gone. The flag is set when it is published.
    Private(Home, Option<(Arc<Offer>, Lists)>, Arc<watch::Sender<bool>>),
    /// It said something on the connection of one client; `None`: it may have, and nobody heard it.
    ToldTo(Home, Option<Notification>),
}

/// The lists that a server said had changed, until they were read after that.
#[derive(Debug, Default)]
pub(super) struct Announced {
    unread: Lists,
    reading: Lists,
}

impl Announced {
    /// The server says that `list` changed.
    pub(super) fn add(&mut self, list: List) {
        self.unread = self.unread.with(list);
    }

    /// The lists are read from now on.
    pub(super) fn begin(&mut self) {
        self.reading = self.reading.and(std::mem::take(&mut self.unread));
    }

    /// They were read; which of them are to be announced.
    pub(super) fn read(&mut self) -> Lists {
        std::mem::take(&mut self.reading)
    }
}

/// Where an operator waits for the offer.
pub(super) type OfferReply = oneshot::Sender<Result<Arc<Offer>, Error>>;

/// What operators want of a server.
pub(super) enum Command {
    /// Be connected; the offer, read by `deadline`.
    Connect { deadline: Instant, reply: OfferReply },
    /// Drop the connections and make new ones.
    Reconnect { deadline: Instant, reply: OfferReply },
    /// Drop the connections and make none.
    Disconnect { reply: oneshot::Sender<Result<(), Error>> },
    /// Take note of a health check that was made on request.
    Checked { result: Result<Duration, Error>, reply: oneshot::Sender<Result<(), Error>> },
}
