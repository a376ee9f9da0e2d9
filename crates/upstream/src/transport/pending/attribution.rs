//! Finds the call of a server message that does not name one: a request to a client, or a log line.
//!
//! Invariant: a request goes to the only client with open calls, and else to nobody. Cancelled calls count until they are
//! answered. Each session, each modern request and each REST call is one client.
//!
//! Not here: the table of calls (`pending`), and the handling of a request (`questions`).

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Pending, PendingRequest, PendingTable, Purpose};
use crate::connection::{EventSender, Owner};
use crate::session_affinity::{Affinity, BorrowedSender, OpenRequest};
use crate::state_signs::StateSigns;
use crate::transport::inbound::Relevance;
use json::Raw;
use protocol::{Notification, method};

/// The call of a server request.
pub(in crate::transport) enum Attribution {
    /// It belongs to this call.
    Of(Recipient),
    /// It belongs to the next call that begins, because all calls belong to one client. Counted as open until then.
    OfNextCall(watch::Receiver<u64>, Option<OpenRequest>),
    /// It belongs to no open call.
    Nobodys,
    /// Calls of several clients are open, and it may belong to any of them.
    Unclear,
}

/// A call whose client can receive a server request.
pub(in crate::transport) struct Recipient {
    /// The outlet of the call.
    pub(in crate::transport) event_sender: EventSender,
    /// The owner of the call.
    pub(in crate::transport) owner: Owner,
    /// Capabilities that the client declared.
    pub(in crate::transport) capabilities: Raw,
    /// Cancelled when the call has ended.
    pub(in crate::transport) over: CancellationToken,
    /// Other calls to which the request may belong.
    pub(in crate::transport) beside: Vec<EventSender>,
    /// Counts it as open, if it is sent outside of calls.
    pub(in crate::transport) open: Option<OpenRequest>,
}

impl Pending {
    /// Finds the call of a request that does not name one: the oldest call of the only client with open calls. `owner`
    /// is the one that received the request before.
    pub(in crate::transport) fn attribute(&self, owner: Option<Owner>) -> Attribution {
        let mut table = self.lock();
        let found = match table.oldest_of_only_owner(owner) {
            Ok((_, its, _)) if owner.is_none() && !table.cancelled.are_all_of(its) => Attribution::Unclear,
            Ok((id, ..)) => table.recipient_beside_others(id),
            Err(_) if !table.cancelled.is_empty() => Attribution::Unclear,
            Err(nobody) => nobody,
        };
        if let (Attribution::Unclear, Some(signs)) = (&found, self.signs.get()) {
            table.affinities().for_each(|affinity| signs.refused(affinity));
        }
        match (found, self.client.get()) {
            // The connection was made for a call, which will begin soon.
            (Attribution::Nobodys, Some(client)) => Self::outside_calls(client, &self.started),
            (found, _) => found,
        }
    }

    /// Declares that clients share the process of `signs`. Sessions whose calls it cannot tell apart may then leave it.
    pub(in crate::transport) fn be_shared(&self, signs: &Arc<StateSigns>) {
        let _ = self.signs.set(Arc::clone(signs)); // a channel leads to one server
    }

    /// Finds the call `id` of a server request that came on the stream of that call.
    pub(in crate::transport) fn attribute_to(&self, id: u64) -> Attribution {
        self.lock().recipient_of(id)
    }

    /// Finds the outlet for a log message. A server may write messages between calls too, and with calls of several
    /// owners the receiver is unclear. That is not counted against the server.
    pub(super) fn event_sender_of_only_owner(&self) -> Result<EventSender, Relevance> {
        match self.lock().oldest_of_only_owner(None) {
            Ok((_, _, open)) => Ok(open.event_sender.clone()),
            Err(Attribution::Unclear) => Err(Relevance::Wanted),
            Err(_) => Err(Relevance::Notice),
        }
    }
}

impl PendingTable {
    /// The oldest call, if all calls have one owner: it is the most likely one to wait for a reply.
    fn oldest_of_only_owner(
        &self,
        required: Option<Owner>,
    ) -> Result<(u64, Owner, &PendingRequest), Attribution> {
        let mut oldest: Option<(u64, Owner, &PendingRequest)> = None;
        for (id, open) in self.open.iter().filter(|(_, open)| open.written) {
            let Some(owner) = open.purpose.owner() else { continue };
            match oldest {
                Some((_, other, _)) if other != owner => return Err(Attribution::Unclear),
                Some((older, ..)) if older < *id => {}
                _ => oldest = Some((*id, owner, open)),
            }
        }
        oldest
            .filter(|(_, owner, _)| required.is_none_or(|required| required == *owner))
            .ok_or(Attribution::Nobodys)
    }

    /// The clients with open calls.
    fn affinities(&self) -> impl Iterator<Item = &Affinity> {
        let written = self.open.values().filter(|open| open.written);
        written.filter_map(|open| match &open.purpose {
            Purpose::Call { affinity, .. } => affinity.as_ref(),
            _ => None,
        })
    }

    fn recipient_beside_others(&mut self, id: u64) -> Attribution {
        match self.recipient_of(id) {
            Attribution::Of(recipient) => Attribution::Of(Recipient { beside: self.beside(id), ..recipient }),
            other => other,
        }
    }

    fn recipient_of(&mut self, id: u64) -> Attribution {
        let Some(open) = self.open.get_mut(&id) else { return Attribution::Nobodys };
        let Purpose::Call { owner, capabilities, .. } = &open.purpose else { return Attribution::Nobodys };
        Attribution::Of(Recipient {
            event_sender: open.event_sender.clone(),
            owner: *owner,
            capabilities: capabilities.clone(),
            over: open.over.0.get_or_insert_default().clone(),
            beside: Vec::new(),
            open: None,
        })
    }

    fn beside(&self, id: u64) -> Vec<EventSender> {
        self.open
            .iter()
            .filter(|(other, _)| **other != id)
            .map(|(_, open)| open.event_sender.clone())
            .collect()
    }
}

/// The most calls that are kept. After more than these, it is unknown until the end of the channel whose are open.
const MAX_CALLS: usize = 1024;

/// The cancelled calls of one channel without a response.
///
/// Invariant: a call counts until its late response or the end of the channel, so a server request that may belong to
/// it is never sent to another client.
#[derive(Default)]
pub(super) struct Cancelled {
    calls: HashMap<u64, Owner>,
    were_too_many: bool,
}

impl Cancelled {
    /// Adds a call.
    pub(super) fn add(&mut self, id: u64, owner: Owner) {
        if self.calls.len() < MAX_CALLS {
            self.calls.insert(id, owner);
        } else {
            self.were_too_many = true;
        }
    }

    /// Removes a call that was answered late.
    pub(super) fn answered(&mut self, id: u64) {
        self.calls.remove(&id);
    }

    /// Whether none of them belongs to another owner than `owner`.
    pub(super) fn are_all_of(&self, owner: Owner) -> bool {
        !self.were_too_many && self.calls.values().all(|other| *other == owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.were_too_many && self.calls.is_empty()
    }
}

// The client of a private connection: all messages and requests of its server are for this client, even outside of
// calls.

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
