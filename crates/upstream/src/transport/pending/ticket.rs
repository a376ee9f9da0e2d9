//! The caller's half of an open request.
//!
//! Invariant: a ticket that is dropped removes its request from the table, unless the response already did. Not here:
//! the table (`pending`).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Pending;
use crate::error::Error;
use protocol::Reply;

/// One open request. Dropping it removes the request and cancels it at the server.
pub(in crate::transport) struct RequestTicket {
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Error>>,
    is_alone: bool,
    /// Whether the response arrived, which removed the entry from the table.
    is_settled: bool,
    pending: Arc<Pending>,
}

impl RequestTicket {
    pub(super) fn new(
        id: u64,
        answer: oneshot::Receiver<Result<Reply, Error>>,
        is_alone: bool,
        pending: &Arc<Pending>,
    ) -> Self {
        Self { id, answer, is_alone, is_settled: false, pending: Arc::clone(pending) }
    }

    /// The id of the request, and its progress token.
    pub(in crate::transport) const fn id(&self) -> u64 {
        self.id
    }

    /// Whether no other request was open when it was opened.
    pub(in crate::transport) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Marks the request as answered without the table.
    pub(in crate::transport) fn done(self) {
        let open = self.pending.lock().open.remove(&self.id);
        drop(open); // not under the lock, because it wakes its server requests
    }

    /// Waits for the response, or for the end of the channel.
    pub(in crate::transport) async fn answer(&mut self) -> Result<Reply, Error> {
        // The sender is never dropped unused: `end` and `settle` take it out of the table and use it.
        let gone = || Error::Lost { reason: "the request was forgotten".into() };
        let answer = (&mut self.answer).await;
        self.is_settled = true;
        answer.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for RequestTicket {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let open = {
            let mut table = self.pending.lock();
            let open = table.open.remove(&self.id).filter(|open| open.written);
            // On a private connection all calls belong to one client.
            if let Some(owner) = open.as_ref().and_then(|open| open.purpose.owner())
                && self.pending.client.get().is_none()
            {
                table.cancelled.add(self.id, owner);
            }
            open
        };
        if open.is_some_and(|open| open.may_run()) {
            (self.pending.cancel)(self.id);
        }
    }
}
