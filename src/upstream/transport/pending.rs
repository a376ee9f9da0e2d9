//! Requests that wait for an answer on a channel they share with others: stdio and HTTP+SSE.
//! A session of Streamable HTTP uses it for what the server says outside the streams of its calls.
//!
//! Invariants: an entry lives exactly as long as the [`Ticket`] of its request, so nothing of a
//! request that was given up stays behind; a request whose ticket is gone before it was written is
//! never written; when the channel ends, each request ends with what is true of it: `Lost` when it
//! was written, `NotSent` when it was not. The table grows with the callers, whose number the
//! bulkhead bounds. The lock is never held while anybody is woken or told.
//!
//! Our request id is also the progress token of the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::protocol::{Notification, Reply, Response, method};
use crate::upstream::connection::{Call, Outlet, Owner};
use crate::upstream::error::Error;
use crate::wire::Clip;

/// Tells the server that nobody waits for the request any more.
type Cancel = Box<dyn Fn(u64) + Send + Sync>;

/// The requests that are open on one channel.
pub(super) struct Pending {
    table: Mutex<Table>,
    cancel: Cancel,
}

struct Table {
    last_id: u64,
    open: HashMap<u64, Open>,
    /// Why the channel ended.
    ended: Option<String>,
}

struct Open {
    answer: oneshot::Sender<Result<Reply, Error>>,
    outlet: Outlet,
    purpose: Purpose,
    written: bool,
}

/// What a request is for, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Part of connecting: never cancelled, because a server need not know that yet.
    Handshake,
    /// A call of somebody.
    Call {
        /// Whether progress notices were asked for.
        progress: bool,
    },
    /// A list or a sign of life: nothing a server has log lines about.
    Upkeep,
    /// Open for as long as the connection, for change notices.
    Listen,
}

impl Purpose {
    /// What `call` is for.
    pub(super) fn of(call: &Call) -> Self {
        if call.owner == Owner::GATEWAY { Self::Upkeep } else { Self::Call { progress: call.wants_progress } }
    }
}

/// One open request. Dropping it forgets the request and has the server told.
pub(super) struct Ticket {
    id: u64,
    answer: oneshot::Receiver<Result<Reply, Error>>,
    pending: Arc<Pending>,
}

impl Pending {
    /// An empty table whose first id follows `last_id`. `cancel` is called for each request that was
    /// written and then given up; it must not block.
    pub(super) fn new(last_id: u64, cancel: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        let table = Table { last_id, open: HashMap::new(), ended: None };
        Arc::new(Self { table: Mutex::new(table), cancel: Box::new(cancel) })
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
        let open = Open { answer: sender, outlet: outlet.clone(), purpose, written: false };
        table.open.insert(id, open);
        Ok(Ticket { id, answer, pending: Arc::clone(self) })
    }

    /// Marks the request as written, just before that happens; false when nobody waits for it any
    /// more, and then it must not be written.
    pub(super) fn begin_writing(&self, id: u64) -> bool {
        self.lock().open.get_mut(&id).map(|open| open.written = true).is_some()
    }

    /// Hands an answer to whom it belongs; false when nobody waits for it.
    pub(super) fn answer(&self, response: Response) -> bool {
        match response.id {
            Some(id) => id.as_u64().is_some_and(|id| self.settle(id, Ok(response.reply))),
            // The server could not read the id of what it answers. With one request open it is clear.
            None => self.only_one().is_some_and(|id| self.settle(id, Ok(response.reply))),
        }
    }

    /// Ends the request whose answer was too long to be kept, if its ends still tell which.
    pub(super) fn answer_too_long(&self, clip: &Clip, limit: usize) -> bool {
        id_in(clip).is_some_and(|id| self.settle(id, Err(Error::TooLarge { limit })))
    }

    /// Puts a notification that belongs to a call into its outlet; false when there is no such call.
    ///
    /// Progress names its call. Log lines do not on a shared channel: they go to the call in
    /// flight when it is alone, and to nobody when that could be the wrong one.
    pub(super) fn notify(&self, notification: Notification) -> bool {
        let outlet = match notification.method.as_str() {
            method::PROGRESS => self.outlet_of_token(&notification),
            _ => self.only_outlet(),
        };
        let found = outlet.is_some();
        if let Some(outlet) = outlet {
            outlet.offer(notification);
        }
        found
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

    fn settle(&self, id: u64, answer: Result<Reply, Error>) -> bool {
        let open = self.lock().open.remove(&id);
        // A request that was given up meanwhile has no receiver any more.
        open.is_some_and(|open| open.answer.send(answer).is_ok())
    }

    fn outlet_of_token(&self, progress: &Notification) -> Option<Outlet> {
        let id: u64 = progress.params.as_ref()?.get_as("progressToken")?;
        let table = self.lock();
        let open = table.open.get(&id)?;
        (open.purpose == Purpose::Call { progress: true }).then(|| open.outlet.clone())
    }

    fn only_outlet(&self) -> Option<Outlet> {
        let table = self.lock();
        let mut calls = table.open.values().filter(|open| matches!(open.purpose, Purpose::Call { .. }));
        calls.next().filter(|_| calls.next().is_none()).map(|open| open.outlet.clone())
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

impl Ticket {
    /// The id of the request, and its progress token.
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// Marks the request as answered in another way than through the table.
    pub(super) fn done(self) {
        self.pending.lock().open.remove(&self.id);
    }

    /// Waits for the answer, or for the end of the channel.
    pub(super) async fn answer(&mut self) -> Result<Reply, Error> {
        // The sender is never dropped unused: `end` and `settle` take it out of the table to use it.
        let gone = || Error::Lost { reason: "the request was forgotten".into() };
        (&mut self.answer).await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let open = self.pending.lock().open.remove(&self.id);
        if open.is_some_and(|open| open.written && open.purpose != Purpose::Handshake) {
            (self.pending.cancel)(self.id);
        }
    }
}

/// The id in the envelope of a message of which only the ends are left: before the first nested
/// value, or right before the closing brace.
///
/// `"id"` followed by a colon can not stand inside a JSON string, where the quotes are escaped.
fn id_in(clip: &Clip) -> Option<u64> {
    let head = String::from_utf8_lossy(clip.head());
    let flat = head
        .trim_start()
        .strip_prefix('{')
        .map_or("", |rest| &rest[..rest.find(['{', '[']).unwrap_or(rest.len())]);
    let tail = String::from_utf8_lossy(clip.tail());
    let last = tail.trim_end().strip_suffix('}').map(str::trim_end).unwrap_or_default();
    let number = |text: &str| text.trim_start().strip_prefix(':').map(|rest| rest.trim_start().to_owned());
    let behind_key = |text: &str| text.rsplit_once("\"id\"").and_then(|(_, rest)| number(rest));
    let leading = |text: String| {
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        text[..end].parse().ok()
    };
    behind_key(flat).and_then(leading).or_else(|| behind_key(last)?.parse().ok())
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
