//! Finds the call of a server message that does not name one: a request to a client, or a log line.
//!
//! Invariants: a message belongs to the owner of all running calls. If there are several owners, it belongs to none. A
//! request that may belong to a cancelled call of another owner waits for the late response to that call, for half a
//! second at most, and is then refused. A log message does not wait.
//!
//! Not here: the table of calls (`pending`), and the handling of a request (`questions`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Pending, PendingRequest, PendingTable, Purpose};
use crate::connection::{Outlet, Owner, Unanswered};
use crate::session_affinity::OpenRequest;
use crate::transport::flood_guard::Relevance;
use json::Raw;

/// How long server requests wait for a late response to a cancelled call.
const LATE_ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// If a server answered this many calls without ever sending a request, none is expected.
const QUIET_AFTER: usize = 32;

/// The call of a server request.
pub(in crate::transport) enum Attribution {
    /// It belongs to this call.
    Of(Recipient),
    /// It belongs to the next call that begins, because all calls belong to one client. Counted as open until then.
    OfTheNext(watch::Receiver<u64>, Option<OpenRequest>),
    /// It belongs to no open call.
    Nobodys,
    /// Calls of several owners are open, and it may belong to any of them.
    Unclear,
    /// It may belong to a cancelled call, whose response may still arrive.
    Later(Unanswered),
    /// It may belong to a cancelled call without a response in time.
    Cancelled,
}

/// A call whose client can receive a server request.
pub(in crate::transport) struct Recipient {
    /// The outlet of the call.
    pub(in crate::transport) outlet: Outlet,
    /// The owner of the call.
    pub(in crate::transport) owner: Owner,
    /// Capabilities that the client declared.
    pub(in crate::transport) capabilities: Raw,
    /// Cancelled when the call has ended.
    pub(in crate::transport) over: CancellationToken,
    /// Other calls to which the request may belong.
    pub(in crate::transport) beside: Vec<Outlet>,
    /// Counts it as open, if it is sent outside of calls.
    pub(in crate::transport) open: Option<OpenRequest>,
}

impl Pending {
    /// Finds the call of a request that does not name one: the oldest call of the owner of all running calls. `owner`
    /// is the one that received the request before.
    pub(in crate::transport) fn attribute(&self, owner: Option<Owner>) -> Attribution {
        let mut table = self.lock();
        let found = table.oldest_of_only_owner(owner).map(|(id, owner, _)| (id, owner));
        if !matches!(found, Err(Attribution::Nobodys)) || !table.cancelled.is_empty() {
            self.asks.store(true, Ordering::Relaxed);
        }
        match found {
            Ok((id, its)) => match self.unanswered_in(&table, its).filter(|_| owner.is_none()) {
                Some(unanswered) if unanswered.is_over() => Attribution::Cancelled,
                Some(unanswered) => Attribution::Later(unanswered),
                None => table.asked_beside_others(id),
            },
            // The connection was made for a call, which will begin soon.
            Err(nobody) => match (nobody, self.client.get()) {
                (Attribution::Nobodys, Some(client)) => Self::outside_calls(client, &self.begun),
                (nobody, _) => nobody,
            },
        }
    }

    /// Finds the call `id` of a server request that came on the stream of that call.
    pub(in crate::transport) fn attribute_to(&self, id: u64) -> Attribution {
        self.lock().asked(id)
    }

    /// Whether the server was seen sending requests that do not name a call. Calls of several owners should then not be
    /// open at the same time.
    pub(in crate::transport) fn asks(&self) -> bool {
        self.asks.load(Ordering::Relaxed)
    }

    /// The cancelled calls of other owners than `owner` without a response.
    pub(in crate::transport) fn unanswered(&self, owner: Owner) -> Option<Unanswered> {
        if !self.has_cancelled.load(Ordering::Relaxed) {
            return None;
        }
        self.unanswered_in(&self.lock(), owner)
    }

    fn unanswered_in(&self, table: &PendingTable, owner: Owner) -> Option<Unanswered> {
        Some(Unanswered {
            until: table.cancelled.oldest_of_others(owner)? + LATE_ANSWER_LIMIT,
            is_quiet: !self.asks() && table.answered >= QUIET_AFTER,
            answers: self.late_answers.subscribe(),
        })
    }

    /// Finds the outlet for a log message. A server may write messages between calls too, and with calls of several
    /// owners the receiver is unclear. That is not counted against the server.
    pub(super) fn outlet_of_only_owner(&self) -> Result<Outlet, Relevance> {
        match self.lock().oldest_of_only_owner(None) {
            Ok((_, _, open)) => Ok(open.outlet.clone()),
            Err(Attribution::Unclear) => Err(Relevance::Wanted),
            Err(_) => Err(Relevance::Notice),
        }
    }
}

impl PendingTable {
    /// The oldest call, if all calls have one owner: it is the most likely one to wait for a reply.
    fn oldest_of_only_owner(
        &self,
        wanted: Option<Owner>,
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
            .filter(|(_, owner, _)| wanted.is_none_or(|wanted| wanted == *owner))
            .ok_or(Attribution::Nobodys)
    }

    fn asked_beside_others(&mut self, id: u64) -> Attribution {
        match self.asked(id) {
            Attribution::Of(asked) => Attribution::Of(Recipient { beside: self.beside(id), ..asked }),
            other => other,
        }
    }

    fn asked(&mut self, id: u64) -> Attribution {
        let Some(open) = self.open.get_mut(&id) else { return Attribution::Nobodys };
        let Purpose::Call { owner, capabilities, .. } = &open.purpose else { return Attribution::Nobodys };
        Attribution::Of(Recipient {
            outlet: open.outlet.clone(),
            owner: *owner,
            capabilities: capabilities.clone(),
            over: open.over.0.get_or_insert_default().clone(),
            beside: Vec::new(),
            open: None,
        })
    }

    fn beside(&self, id: u64) -> Vec<Outlet> {
        self.open.iter().filter(|(other, _)| **other != id).map(|(_, open)| open.outlet.clone()).collect()
    }
}
