//! Requests that wait for an answer on a channel they share with others: stdio and HTTP+SSE.
//! A session of Streamable HTTP uses it for what the server says outside the streams of its calls.
//!
//! Invariants: an entry lives exactly as long as the [`Ticket`] of its request, so nothing of a
//! request that was given up stays behind; a request whose ticket is gone before it was written is
//! never written; when the channel ends, each request ends with what is true of it: `Lost` when it
//! was written, `NotSent` when it was not. The table grows with the callers, whose number the
//! bulkhead bounds. The lock is never held while anybody is woken or told.
//!
//! Our request id is also the progress token of the request. Not here: to which call a message belongs that
//! does not say so (`attribution`).

mod attribution;
mod cancelled;
mod client;
mod ticket;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(super) use self::attribution::{Asked, Whose};
use self::cancelled::Cancelled;
pub(super) use self::ticket::Ticket;

use super::clipped::id_in;
use super::flood_guard::Worth;
use crate::connection::{Call, Outlet, Owner};
use crate::error::Error;
use crate::session_affinity::Home;
use json::Raw;
use net::Clip;
use protocol::{Notification, Reply, Response, meta, method};
use runtime::worker;

/// Tells the server that nobody waits for the request any more.
type Cancel = Box<dyn Fn(u64) + Send + Sync>;

/// The requests that are open on one channel.
pub(super) struct Pending {
    table: Mutex<Table>,
    cancel: Cancel,
    /// The one client whose calls all of these are, if so. It can be asked outside of calls too.
    client: OnceLock<Home>,
    /// Counts calls that were written, for questions that wait for one.
    begun: watch::Sender<u64>,
    /// Whether the server ever sent a request that did not say whose it is.
    asks: AtomicBool,
    /// Whether cancelled calls are without an answer. Read on every call, so it takes no lock.
    has_cancelled: AtomicBool,
    /// Changes with each late answer of a cancelled call.
    late_answers: watch::Sender<()>,
}

struct Table {
    last_id: u64,
    open: HashMap<u64, Open>,
    /// Cancelled calls that have no answer.
    cancelled: Cancelled,
    /// Calls that were answered.
    answered: usize,
    /// Why the channel ended.
    ended: Option<String>,
}

struct Open {
    answer: oneshot::Sender<Result<Reply, Error>>,
    /// The share of the worker on which its caller waits.
    share: usize,
    outlet: Outlet,
    purpose: Purpose,
    written: bool,
    over: Over,
}

/// An answer with whom it is for, taken out of the table.
pub(super) struct Answered {
    waiting: oneshot::Sender<Result<Reply, Error>>,
    answer: Result<Reply, Error>,
    /// The share of the worker on which its caller waits.
    pub(super) share: usize,
}

impl Answered {
    /// Hands it over; false when nobody waits for it any more.
    pub(super) fn deliver(self) -> bool {
        self.waiting.send(self.answer).is_ok()
    }
}

/// Tells questions of a call that it is over; made when there are any.
#[derive(Default)]
struct Over(Option<CancellationToken>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.iter().for_each(CancellationToken::cancel);
    }
}

/// What a request is for, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Part of connecting: never cancelled, because a server need not know that yet.
    Handshake,
    /// A call of somebody.
    Call {
        /// Whether progress notices were asked for.
        progress: bool,
        /// Whose it is.
        owner: Owner,
        /// What its client can be asked, as that declared it.
        capabilities: Raw,
    },
    /// A list or a sign of life: nothing a server has log lines about.
    Upkeep,
    /// Open for as long as the connection, for change notices.
    Listen,
}

impl Purpose {
    /// What `call` is for.
    pub(super) fn of(call: &Call) -> Self {
        if call.method == method::SUBSCRIPTIONS_LISTEN {
            return Self::Listen;
        }
        if call.owner == Owner::GATEWAY {
            return Self::Upkeep;
        }
        let capabilities = call.sender.capabilities.clone();
        Self::Call { progress: call.wants_progress, owner: call.owner, capabilities }
    }

    const fn owner(&self) -> Option<Owner> {
        if let Self::Call { owner, .. } = self { Some(*owner) } else { None }
    }
}

impl Pending {
    /// An empty table whose first id follows `last_id`. `cancel` is called for each request that was
    /// written and then given up; it must not block.
    pub(super) fn new(last_id: u64, cancel: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        let (open, cancelled) = (HashMap::new(), Cancelled::default());
        let table = Table { last_id, open, cancelled, answered: 0, ended: None };
        Arc::new(Self {
            table: Mutex::new(table),
            cancel: Box::new(cancel),
            client: OnceLock::new(),
            begun: watch::Sender::new(0),
            asks: AtomicBool::new(false),
            has_cancelled: AtomicBool::new(false),
            late_answers: watch::Sender::new(()),
        })
    }

    /// An empty table like [`Pending::new`], of calls that have streams of their own.
    pub(super) fn of_streams(last_id: u64, cancel: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        let pending = Self::new(last_id, cancel);
        pending.lock().cancelled = Cancelled::of_streams();
        pending
    }

    /// Opens a request; fails when the channel has ended.
    pub(super) fn open(self: &Arc<Self>, outlet: &Outlet, purpose: Purpose) -> Result<Ticket, Error> {
        let (sender, answer) = oneshot::channel();
        let mut table = self.lock();
        if let Some(reason) = table.ended.clone() {
            return Err(Error::NotSent { reason });
        }
        table.last_id += 1;
        let id = table.last_id;
        let (outlet, over) = (outlet.clone(), Over::default());
        let is_alone = table.open.values().all(|open| open.purpose == Purpose::Listen);
        let share = worker::share();
        let open = Open { answer: sender, share, outlet, purpose, written: false, over };
        table.open.insert(id, open);
        Ok(Ticket::new(id, answer, is_alone, self))
    }

    /// Marks the request as written, just before that happens; false when nobody waits for it any
    /// more, and then it must not be written.
    pub(super) fn begin_writing(&self, id: u64) -> bool {
        let found = self.lock().open.get_mut(&id).map(|open| open.written = true).is_some();
        if let Some(client) = self.client.get() {
            client.reachable().unwrap_or(&self.begun).send_modify(|count| *count += 1);
        }
        found
    }

    /// Takes the mark back: nothing of the request was written after all.
    pub(super) fn not_written(&self, id: u64) {
        if let Some(open) = self.lock().open.get_mut(&id) {
            open.written = false;
        }
    }

    /// Hands an answer to whom it belongs; false when nobody waits for it.
    pub(super) fn answer(&self, response: Response) -> bool {
        self.answered(response).is_some_and(Answered::deliver)
    }

    /// The same for who hands it over in a moment; none when nobody asked.
    pub(super) fn answered(&self, response: Response) -> Option<Answered> {
        let id = match response.id {
            Some(id) => id.as_u64(),
            // The server could not read the id of what it answers. With one request open it is clear.
            None => self.only_one(),
        };
        self.settle(id?, Ok(response.reply))
    }

    /// Ends the request whose answer was too long to be kept, if its ends still tell which.
    pub(super) fn answer_too_long(&self, clip: &Clip, limit: usize) -> bool {
        self.answer_lost(clip, Error::TooLarge { limit })
    }

    /// Ends the request whose answer was thrown away for `reason`, if its ends still tell which.
    pub(super) fn answer_lost(&self, clip: &Clip, reason: Error) -> bool {
        let found = id_in(clip).and_then(|id| self.settle(id, Err(reason)));
        found.is_some_and(Answered::deliver)
    }

    /// Puts a notification that belongs to a call into its outlet, and says what it was worth.
    ///
    /// Progress names its call. Log lines do not on a shared channel: they go to the owner whose calls are
    /// alone in flight, and to nobody beside calls of others.
    pub(super) fn notify(&self, notification: Notification) -> Worth {
        let outlet = match notification.method.as_str() {
            method::PROGRESS => self.outlet_of_token(&notification).ok_or(Worth::Junk),
            method::SUBSCRIPTIONS_ACKNOWLEDGED => self.outlet_of_stream(&notification).ok_or(Worth::Junk),
            _ => self.outlet_of_only_owner(),
        };
        match outlet {
            Ok(outlet) => {
                outlet.offer(notification);
                Worth::Wanted
            }
            Err(worth) => self.tell_client(notification, worth),
        }
    }

    /// Ends the channel: every open request fails, and no other is opened.
    pub(super) fn end(&self, reason: &str) {
        let open = {
            let mut table = self.lock();
            table.ended.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut table.open)
        };
        for (_, open) in open {
            let reason = reason.to_owned();
            let error = if open.written { Error::Lost { reason } } else { Error::NotSent { reason } };
            // Whoever left just now does not need it.
            let _ = open.answer.send(Err(error));
        }
    }

    fn settle(&self, id: u64, answer: Result<Reply, Error>) -> Option<Answered> {
        let (open, is_late) = {
            let mut table = self.lock();
            let open = table.open.remove(&id);
            table.answered += usize::from(open.as_ref().is_some_and(|open| open.purpose.owner().is_some()));
            let is_late = open.is_none() && table.cancelled.answered(id);
            if is_late {
                self.has_cancelled.store(!table.cancelled.is_empty(), Ordering::Relaxed);
            }
            (open, is_late)
        };
        if is_late {
            self.late_answers.send_replace(());
        }
        open.map(|open| Answered { waiting: open.answer, answer, share: open.share })
    }

    fn outlet_of_token(&self, progress: &Notification) -> Option<Outlet> {
        let id: u64 = progress.params.as_ref()?.get_as("progressToken")?;
        let table = self.lock();
        let open = table.open.get(&id)?;
        matches!(open.purpose, Purpose::Call { progress: true, .. }).then(|| open.outlet.clone())
    }

    /// The stream of notices that an acknowledgement belongs to.
    fn outlet_of_stream(&self, acknowledged: &Notification) -> Option<Outlet> {
        let id: u64 = meta::of(acknowledged.params.as_ref())?.get_as(meta::SUBSCRIPTION_ID)?;
        let table = self.lock();
        let open = table.open.get(&id)?;
        matches!(open.purpose, Purpose::Listen).then(|| open.outlet.clone())
    }

    fn only_one(&self) -> Option<u64> {
        let table = self.lock();
        table.open.keys().next().copied().filter(|_| table.open.len() == 1)
    }

    /// Nothing that holds this lock can panic half way, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().open.len()
    }
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
