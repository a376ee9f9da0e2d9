//! The open requests of a shared channel: stdio and HTTP+SSE. A session of Streamable HTTP uses it for messages outside
//! the streams of its calls.
//!
//! Invariants: an entry lives exactly as long as the [`RequestTicket`] of its request, so a cancelled request leaves nothing
//! behind. A request whose ticket is dropped before it was written is never written. When the channel ends, a request
//! fails with `Lost` if it was written, else with `NotSent`. The bulkhead limits the number of callers, and with it the
//! table. No task is woken or notified under the lock.
//!
//! The request id of Switchyard is also the progress token of the request. Not here: finding the call of a message that
//! does not name it (`attribution`).

mod attribution;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::inbound::Relevance;
use super::unreadable::{self, id_in};
use crate::connection::{Call, EventSender, Owner};
use crate::error::Error;
use crate::session_affinity::Affinity;
use crate::state_signs::StateSigns;
use attribution::Cancelled;
use json::{Raw, decimal};
use net::Clip;
use protocol::{Notification, Reply, Response, meta, method};
use runtime::worker;

pub(super) use attribution::{Attribution, Recipient};

/// Notifies the server that a request was cancelled.
type Cancel = Box<dyn Fn(u64) + Send + Sync>;

/// The open requests of one channel.
pub(super) struct Pending {
    table: Mutex<PendingTable>,
    cancel: Cancel,
    /// The client of a private connection, to which all calls belong. It can be asked outside of calls too.
    client: OnceLock<Affinity>,
    /// The signs of the server, if the channel is a process that clients share.
    signs: OnceLock<Arc<StateSigns>>,
    /// Counts written calls, for server requests that wait for one.
    started: watch::Sender<u64>,
}

struct PendingTable {
    last_id: u64,
    open: HashMap<u64, PendingRequest>,
    /// Cancelled calls without a response.
    cancelled: Cancelled,
    /// Whether an error without an id would be about `notifications/initialized`: nothing was answered after it.
    expects_refusal: bool,
    /// The reason why the channel ended.
    ended: Option<String>,
}

struct PendingRequest {
    answer: oneshot::Sender<Result<Reply, Error>>,
    /// The share of the worker on which its caller waits.
    share: usize,
    event_sender: EventSender,
    purpose: Purpose,
    written: bool,
    /// Whether a log line seemed to have its response.
    is_doubted: bool,
    over: CallEnd,
}

impl PendingRequest {
    /// Whether the server may work on it, and supports its cancellation.
    fn may_run(&self) -> bool {
        self.written && self.purpose != Purpose::Handshake
    }
}

/// A response and its receiver, taken out of the table.
pub(super) struct SettledRequest {
    waiting: oneshot::Sender<Result<Reply, Error>>,
    answer: Result<Reply, Error>,
    /// The share of the worker on which its caller waits.
    pub(super) share: usize,
}

impl SettledRequest {
    /// Sends it to the caller. Returns false if the caller is gone.
    pub(super) fn deliver(self) -> bool {
        self.waiting.send(self.answer).is_ok()
    }
}

/// Notifies server requests that their call has ended. Created when there are any.
#[derive(Default)]
struct CallEnd(Option<CancellationToken>);

impl Drop for CallEnd {
    fn drop(&mut self) {
        self.0.iter().for_each(CancellationToken::cancel);
    }
}

/// The purpose of a request, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Part of connecting. Never cancelled, because a server need not support that yet.
    Handshake,
    /// A call of a client.
    Call {
        /// Whether progress notifications were requested.
        progress: bool,
        /// The owner of the call.
        owner: Owner,
        /// Where the private connections of its client belong.
        affinity: Option<Affinity>,
        /// The capabilities that its client declared.
        capabilities: Raw,
    },
    /// A list or a health check, during which a server has no log messages.
    Upkeep,
    /// Open as long as the connection, for change notifications.
    Listen,
}

impl Purpose {
    /// Returns the purpose of `call`.
    pub(super) fn of(call: &Call) -> Self {
        if call.method == method::SUBSCRIPTIONS_LISTEN {
            return Self::Listen;
        }
        if call.owner == Owner::GATEWAY {
            return Self::Upkeep;
        }
        let (affinity, capabilities) = (call.affinity.clone(), call.sender.capabilities.clone());
        Self::Call { progress: call.wants_progress, owner: call.owner, affinity, capabilities }
    }

    const fn owner(&self) -> Option<Owner> {
        if let Self::Call { owner, .. } = self { Some(*owner) } else { None }
    }
}

impl Pending {
    /// Makes an empty table whose first id follows `last_id`. `cancel` is called for each request that was written and
    /// then cancelled. It must not block.
    pub(super) fn new(last_id: u64, cancel: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        let (open, cancelled) = (HashMap::new(), Cancelled::default());
        let table = PendingTable { last_id, open, cancelled, expects_refusal: false, ended: None };
        Arc::new(Self {
            table: Mutex::new(table),
            cancel: Box::new(cancel),
            client: OnceLock::new(),
            signs: OnceLock::new(),
            started: watch::Sender::new(0),
        })
    }

    /// Opens a request. Fails if the channel has ended.
    pub(super) fn open(
        self: &Arc<Self>,
        event_sender: &EventSender,
        purpose: Purpose,
    ) -> Result<RequestTicket, Error> {
        let (sender, answer) = oneshot::channel();
        let mut table = self.lock();
        if let Some(reason) = table.ended.clone() {
            return Err(Error::NotSent { reason });
        }
        table.last_id += 1;
        let id = table.last_id;
        let (event_sender, over) = (event_sender.clone(), CallEnd::default());
        let is_alone = table.open.values().all(|open| open.purpose == Purpose::Listen);
        let share = worker::share();
        let open = PendingRequest {
            answer: sender,
            share,
            event_sender,
            purpose,
            written: false,
            is_doubted: false,
            over,
        };
        table.open.insert(id, open);
        Ok(RequestTicket::new(id, answer, is_alone, self))
    }

    /// Marks the request as written, just before that happens. Returns false if its caller is gone; then it must not be
    /// written.
    pub(super) fn begin_writing(&self, id: u64) -> bool {
        let found = self.lock().open.get_mut(&id).map(|open| open.written = true).is_some();
        if let Some(client) = self.client.get() {
            client.reachable().unwrap_or(&self.started).send_modify(|count| *count += 1);
        }
        found
    }

    /// Removes the mark, because nothing of the request was written.
    pub(super) fn not_written(&self, id: u64) {
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.written = false;
        }
    }

    /// Sends a response to its caller. Returns false if no caller waits for it.
    pub(super) fn answer(&self, response: Response) -> bool {
        self.answered(response).is_some_and(SettledRequest::deliver)
    }

    /// Takes the response with its receiver, to be sent later; `None` if there is no such request.
    pub(super) fn answered(&self, response: Response) -> Option<SettledRequest> {
        let id = match response.id {
            Some(id) => id.as_u64(),
            // The server could not read the id of the request. If only one is open, it must be that one.
            None => self.only_one(),
        };
        self.settle(id?, Ok(response.reply))
    }

    /// Declares that `notifications/initialized` is about to be sent. Some servers refuse it, although nothing answers a
    /// notification.
    pub(super) fn expect_refusal(&self) {
        self.lock().expects_refusal = true;
    }

    /// Fails the request whose response was too long, if its ends still contain the id.
    pub(super) fn answer_too_long(&self, clip: &Clip, limit: usize) -> bool {
        self.answer_lost(clip, Error::TooLarge { limit })
    }

    /// Fails the request whose response was discarded for `reason`, if its ends still contain the id.
    pub(super) fn answer_lost(&self, clip: &Clip, reason: Error) -> bool {
        let found = id_in(clip).and_then(|id| self.settle(id, Err(reason)));
        found.is_some_and(SettledRequest::deliver)
    }

    /// The ids of the requests, open or not, whose responses `text` seems to have. It cannot be read.
    pub(super) fn named_in(&self, text: &[u8]) -> Vec<u64> {
        let mut ids = unreadable::answered(text);
        if !ids.is_empty() {
            let last_id = self.lock().last_id;
            ids.retain(|id| (1..=last_id).contains(id));
        }
        ids
    }

    /// Takes the receivers of the responses to `ids`, which cannot be read for the reason in `error`.
    pub(super) fn unreadable(&self, ids: &[u64], error: &Error) -> Vec<SettledRequest> {
        ids.iter().filter_map(|id| self.settle(*id, Err(error.clone()))).collect()
    }

    /// Those of `ids` that are open, and in no log line before this one.
    pub(super) fn doubt(&self, ids: &[u64]) -> Vec<u64> {
        let mut table = self.lock();
        let is_new = |id: &u64| {
            table.open.get_mut(id).is_some_and(|open| !std::mem::replace(&mut open.is_doubted, true))
        };
        ids.iter().copied().filter(is_new).collect()
    }

    /// Fails the request `id`, if it is still open.
    pub(super) fn fail(&self, id: u64, error: Error) {
        let open = self.lock().open.remove(&id);
        // A caller that has just left does not need it.
        drop(open.map(|open| open.answer.send(Err(error))));
    }

    /// Sends a notification to the outlet of its call. Returns how it is counted.
    ///
    /// Progress names its call. Log messages on a shared channel do not: they go to the owner of all running calls, and
    /// to nobody if there are several owners.
    pub(super) fn notify(&self, notification: Notification) -> Relevance {
        let event_sender = match notification.method.as_str() {
            method::PROGRESS => self.event_sender_of_token(&notification).ok_or(Relevance::Junk),
            method::SUBSCRIPTIONS_ACKNOWLEDGED => {
                self.event_sender_of_stream(&notification).ok_or(Relevance::Junk)
            }
            _ => self.event_sender_of_only_owner(),
        };
        match event_sender {
            Ok(event_sender) => {
                event_sender.offer(notification);
                Relevance::Wanted
            }
            Err(relevance) => self.notify_client(notification, relevance),
        }
    }

    /// Ends the channel. Every open request fails, and no other is accepted. Returns those that the server may work on, to
    /// be cancelled there if it is still reached.
    pub(super) fn end(&self, reason: &str) -> Vec<u64> {
        let mut running = Vec::new();
        let open = {
            let mut table = self.lock();
            table.ended.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut table.open)
        };
        for (id, open) in open {
            if open.may_run() {
                running.push(id);
            }
            let reason = reason.to_owned();
            let error = if open.written { Error::Lost { reason } } else { Error::NotSent { reason } };
            // A caller that has just left does not need it.
            let _ = open.answer.send(Err(error));
        }
        running
    }

    fn settle(&self, id: u64, answer: Result<Reply, Error>) -> Option<SettledRequest> {
        let open = {
            let mut table = self.lock();
            table.expects_refusal = false;
            let open = table.open.remove(&id);
            if open.is_none() {
                table.cancelled.answered(id);
            }
            open
        };
        open.map(|open| SettledRequest { waiting: open.answer, answer, share: open.share })
    }

    fn event_sender_of_token(&self, progress: &Notification) -> Option<EventSender> {
        let token = progress.params.as_ref()?.part("progressToken")?;
        let id = decimal::whole(token.bytes())?;
        let table = self.lock();
        let open = table.open.get(&id)?;
        matches!(open.purpose, Purpose::Call { progress: true, .. }).then(|| open.event_sender.clone())
    }

    /// The notification stream of an acknowledgement.
    fn event_sender_of_stream(&self, acknowledged: &Notification) -> Option<EventSender> {
        let id = decimal::whole(meta::of(acknowledged.params.as_ref())?.get(meta::SUBSCRIPTION_ID)?.bytes())?;
        let table = self.lock();
        let open = table.open.get(&id)?;
        matches!(open.purpose, Purpose::Listen).then(|| open.event_sender.clone())
    }

    fn only_one(&self) -> Option<u64> {
        let mut table = self.lock();
        if std::mem::take(&mut table.expects_refusal) {
            return None;
        }
        table.open.keys().next().copied().filter(|_| table.open.len() == 1)
    }

    /// Nothing panics while the lock is held, so a poisoned table is still valid.
    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().open.len()
    }
}

/// One open request. Dropping it removes the request and cancels it at the server.
///
/// Invariant: a ticket that is dropped removes its request from the table, unless the response already did. Not here:
/// the table (`pending`).
pub(super) struct RequestTicket {
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Error>>,
    is_alone: bool,
    /// Whether the response arrived, which removed the entry from the table.
    is_settled: bool,
    pending: Arc<Pending>,
}

impl RequestTicket {
    fn new(
        id: u64,
        answer: oneshot::Receiver<Result<Reply, Error>>,
        is_alone: bool,
        pending: &Arc<Pending>,
    ) -> Self {
        Self { id, answer, is_alone, is_settled: false, pending: Arc::clone(pending) }
    }

    /// The id of the request, and its progress token.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Whether no other request was open when it was opened.
    pub(super) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Marks the request as answered without the table.
    pub(super) fn done(self) {
        let open = self.pending.lock().open.remove(&self.id);
        drop(open); // not under the lock, because it wakes its server requests
    }

    /// Waits for the response, or for the end of the channel.
    pub(super) async fn answer(&mut self) -> Result<Reply, Error> {
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

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
