//! What a server says during a call, on its way to whoever made the call.
//!
//! An [`Outlet`] is the sending end of a bounded channel, an [`Inlet`] the one that is read.
//! Invariants: a slow reader loses progress and log lines, counted, and nothing else; the answer to
//! the call does not come this way and is never lost; a question ends when either end drops its
//! half; while a question is open the deadline of its call stands still, because people are slow; each
//! message of the server moves that deadline, whether it is read or not, as far as the deadline allows.
//!
//! Not here: which call a message belongs to (`transport`), how a client is asked (`downstream`).

mod line;
mod pauses;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use line::{EventSender, Reader, Unsaid};
pub use pauses::Hold;
use pauses::{Pause, Pauses};

use super::deadline::Deadline;
use json::Raw;
use protocol::{Method, Notification, Reply};
use runtime::memory::{self, Account, Charge, Kind, SMALL};
use runtime::telemetry::limit::Limit;
use runtime::worker::until;

/// Bytes of notifications that may wait for one slow reader.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Notifications of at least so many bytes are not copied out of the buffer that they came in.
const LARGE: usize = 64 * 1024;
/// How long one question may stay open. Longer than anybody should think about it, and the most a
/// question adds to the time of its call.
const QUESTION_LIMIT: Duration = Duration::from_mins(10);

/// One thing a server says during a call.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress, a log line, or something of a later revision.
    Notice(Notification),
    /// It asks its client something and waits for the reply.
    Question(Question),
    /// It ended the connection of a stream that goes on: who polls may let go too, and come back
    /// after this time (2025-11-25).
    Pause(Duration),
}

impl CallEvent {
    /// The method of the notification or the request.
    pub fn method(&self) -> &str {
        match self {
            Self::Notice(notice) => &notice.method,
            Self::Question(question) => &question.method,
            Self::Pause(_) => "",
        }
    }
}

/// A request of a server to its client. Dropping it unanswered refuses it.
pub struct Question {
    /// `sampling/createMessage`, `elicitation/create`, `roots/list`.
    pub method: Method,
    /// Its parameters, untouched.
    pub params: Option<Raw>,
    /// The server that asks, as far as it is known: what it says later of an elicitation counts for its own only.
    pub server: Option<Arc<str>>,
    reply: oneshot::Sender<Reply>,
}

impl Question {
    /// Gives the client's answer to the server.
    pub fn answer(self, reply: Reply) {
        // Whoever asked may have given up just now.
        let _ = self.reply.send(reply);
    }

    /// Resolves when nobody waits for the answer any more.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }

    /// The same for somebody who holds several.
    pub fn poll_withdrawn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.reply.poll_closed(cx)
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({:?})", self.method)
    }
}

/// Resolves with the client's reply to a question; none when nobody answers it. Dropping it
/// withdraws the question.
pub type Answer = BoxFuture<'static, Option<Reply>>;

/// Where what is said during a call goes.
#[derive(Clone)]
pub struct Outlet(Option<Arc<Open>>);

struct Open {
    line: EventSender<CallEvent>,
    dropped: AtomicU64,
    asked: AtomicBool,
    pauses: Pauses,
    /// The payer for what waits.
    account: Account,
}

/// The end of an [`Outlet`] that is read.
pub struct Inlet(Reader<CallEvent>);

impl Inlet {
    /// What is said next; none when every outlet is gone.
    pub async fn recv(&mut self) -> Option<CallEvent> {
        let said = self.0.next().await?;
        self.0.bytes().fetch_sub(size(&said), Ordering::Relaxed);
        Some(said)
    }

    /// What was said, if anything waits.
    pub fn try_recv(&mut self) -> Result<CallEvent, TryRecvError> {
        let said = self.0.take().ok_or(TryRecvError::Empty)?;
        self.0.bytes().fetch_sub(size(&said), Ordering::Relaxed);
        Ok(said)
    }
}

impl Open {
    /// A notification in the form in which it waits. A small one is detached from the buffer that it came in. It
    /// is charged if it is large, or finds others waiting. None when the memory budget has no room.
    fn kept(&self, notification: Notification, waiting: usize) -> Option<CallEvent> {
        let Notification { method, params } = notification;
        let is_charged = waiting >= SMALL;
        let keep = |bytes: Bytes| {
            let own = if bytes.len() < LARGE { Bytes::copy_from_slice(&bytes) } else { bytes };
            if is_charged { Charge::open(self.account.clone(), Kind::Notice).hold(own) } else { Ok(own) }
        };
        let params = params.map(|params| params.kept(keep)).transpose().ok()?;
        Some(CallEvent::Notice(Notification { method, params }))
    }
}

/// Bytes that a notification counts for while it waits.
fn size_of(notice: &Notification) -> usize {
    notice.method.len() + notice.params.as_ref().map_or(0, |params| params.bytes().len())
}

fn size(said: &CallEvent) -> usize {
    match said {
        CallEvent::Notice(notice) => size_of(notice),
        // Their number is small and their size is that of one message.
        CallEvent::Question(_) | CallEvent::Pause(_) => 0,
    }
}

impl Outlet {
    /// An outlet that nobody in particular pays for; see [`Outlet::paid_by`].
    pub fn new(capacity: usize) -> (Self, Inlet) {
        Self::paid_by(capacity, Account::Nobody)
    }

    /// An outlet and the end to read it from; at most `capacity` things wait, and at most 512 KiB of
    /// notifications, which `account` pays for.
    pub fn paid_by(capacity: usize, account: Account) -> (Self, Inlet) {
        let (line, reader) = line::line(capacity);
        let open = Open {
            line,
            dropped: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            pauses: Pauses::default(),
            account,
        };
        (Self(Some(Arc::new(open))), Inlet(reader))
    }

    /// An outlet nobody reads: for REST calls and requests of our own. Questions are refused.
    pub const fn none() -> Self {
        Self(None)
    }

    /// An outlet nobody reads, which keeps only the time of the last message: for calls of programs.
    pub fn unread() -> Self {
        Self::new(0).0
    }

    /// Hands a notification to the reader, or counts it as dropped.
    pub fn offer(&self, notification: Notification) {
        let Some(open) = &self.0 else { return };
        open.pauses.hear();
        if !open.line.is_read() {
            return;
        }
        let size = size_of(&notification);
        let waiting = open.line.bytes().fetch_add(size, Ordering::Relaxed) + size;
        // One that is larger than the cap by itself passes when nothing else waits.
        let fits = waiting <= MAX_WAITING_BYTES || waiting == size;
        let said = if fits { open.kept(notification, waiting) } else { None };
        if said.is_none_or(|said| open.line.try_say(said).is_err()) {
            open.line.bytes().fetch_sub(size, Ordering::Relaxed);
            Limit::CallNotices.met(open.dropped.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Hands a notification to the reader as soon as there is room; for those who can wait and then
    /// have news, not for what a server says.
    pub async fn deliver(&self, notification: Notification) {
        let Some(open) = &self.0 else { return };
        let size = size_of(&notification);
        let said = CallEvent::Notice(notification);
        // Before the reader can take it off again.
        open.line.bytes().fetch_add(size, Ordering::Relaxed);
        if !open.line.say(said).await {
            open.line.bytes().fetch_sub(size, Ordering::Relaxed);
        }
    }

    /// Tells the reader that the stream of the call goes on after `pause`, if there is room.
    pub fn pause(&self, pause: Duration) {
        if let Some(open) = &self.0 {
            let _ = open.line.try_say(CallEvent::Pause(pause));
        }
    }

    /// Asks the reader something for a server that is not known.
    pub fn ask(&self, method: Method, params: Option<Raw>) -> Answer {
        self.ask_for(None, method, params)
    }

    /// Asks the reader something for `server`, now if there is room; who waits for the answer owns the question.
    /// If nobody reads or too much is asked already, the answer is none at once.
    pub fn ask_for(&self, server: Option<Arc<str>>, method: Method, params: Option<Raw>) -> Answer {
        let Some(open) = self.0.clone() else { return Box::pin(std::future::ready(None)) };
        // Without room for it the question is refused.
        let keep = |bytes| memory::hold(bytes, || open.account.clone(), Kind::Notice);
        let Ok(params) = params.map(|params| params.kept(keep)).transpose() else {
            return Box::pin(std::future::ready(None));
        };
        let Some(pause) = Pause::begin(&open) else { return Box::pin(std::future::ready(None)) };
        let (reply, answer) = oneshot::channel();
        let unsent = match open.line.try_say(CallEvent::Question(Question { method, params, server, reply }))
        {
            Ok(()) => None,
            Err(Unsaid::Full(said)) => Some(said),
            Err(Unsaid::Unread) => return Box::pin(std::future::ready(None)),
        };
        Box::pin(async move {
            let whole = async {
                if let Some(said) = unsent {
                    pause.open().line.say(said).await.then_some(())?;
                }
                answer.await.ok()
            };
            timeout(QUESTION_LIMIT, whole).await.ok().flatten()
        })
    }

    /// Has the deadline of the call stand still as well while a question is open that may be its own
    /// and was put on another call of the same client.
    pub fn hold(&self) -> Option<Hold> {
        self.0.as_ref().and_then(Pause::begin).map(Hold::of)
    }

    /// Resolves when a call that may take until `deadline` has used up its time. The time in which
    /// a question was open does not count.
    pub async fn expired(&self, deadline: impl Into<Deadline>) {
        let deadline = deadline.into();
        match &self.0 {
            Some(open) => open.pauses.expired(deadline).await,
            None => until(deadline.at).await,
        }
    }

    /// Where the messages that came so far have moved `deadline`, without the time of open questions.
    pub(super) fn moved(&self, deadline: Deadline) -> Instant {
        deadline.after(self.0.as_ref().and_then(|open| open.pauses.heard()))
    }

    /// Whether the server sent a message of the call after `begun`.
    pub(super) fn heard_since(&self, begun: Instant) -> bool {
        self.0.as_ref().is_some_and(|open| open.pauses.heard_since(begun))
    }

    /// Whether the server asked anything during the call, or may have: then what it answers may come of
    /// what it was told.
    pub fn was_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.asked.load(Ordering::Acquire))
    }

    /// How many notifications found no room.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |open| open.dropped.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet(open: {}, dropped: {})", self.0.is_some(), self.dropped())
    }
}

#[cfg(test)]
#[path = "call_events_tests.rs"]
mod tests;
