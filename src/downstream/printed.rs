//! Messages for a client as they wait for it: printed, and charged to its principal until they were written.
//!
//! Invariant: a response is never dropped silently. If the memory budget has no room for it, the client gets an
//! error in its place; a notification is dropped and counted. A question of a server found its room when it came,
//! and their number is limited.
//!
//! Not here: the admission rule ([`crate::memory`]), where a message waits (`replay`, `conversation`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::gateway::error::memory_exhausted;
use crate::memory::{self, Account, Charge, Exhausted, Kind};
use crate::protocol::{Era, Message, Response};
use crate::telemetry::limit::Limit;

/// Prints messages for one client.
#[derive(Debug, Clone)]
pub(super) struct Printer {
    principal: Arc<str>,
    era: Era,
}

impl Printer {
    /// For a client of `era`; `principal` pays.
    pub(super) fn new(principal: &Arc<str>, era: Era) -> Self {
        Self { principal: Arc::clone(principal), era }
    }

    /// `message` in the form that `frame` gives it; none for a notification without room.
    pub(super) fn print(&self, message: &Message, frame: impl Fn(Bytes) -> Bytes) -> Option<Bytes> {
        let kind = if matches!(message, Message::Response(_)) { Kind::Answer } else { Kind::Notice };
        let printed = frame(message.encode());
        match (self.hold(printed, kind), message) {
            (Ok(printed), _) => Some(printed),
            (Err(_), Message::Response(response)) => Some(frame(self.refused(response).encode())),
            (Err(_), Message::Notification(_)) => Limit::CallNotices.met(None),
            (Err(_), Message::Request(_)) => Some(frame(message.encode())),
        }
    }

    /// A charge of the principal for notifications.
    pub(super) fn charge(&self) -> Charge {
        Charge::open(Account::Principal(Arc::clone(&self.principal)), Kind::Notice)
    }

    fn hold(&self, printed: Bytes, kind: Kind) -> Result<Bytes, Exhausted> {
        memory::hold(printed, || Account::Principal(Arc::clone(&self.principal)), kind)
    }

    fn refused(&self, response: &Response) -> Response {
        Response { id: response.id.clone(), reply: Err(memory_exhausted(self.era)) }
    }
}

/// The event that asks a client to come back after `pause`, and nothing else.
pub(super) fn retry(pause: Duration) -> Bytes {
    Bytes::from(format!("retry: {}\n\n", pause.as_millis()))
}
