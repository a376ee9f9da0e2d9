//! Notifications and server requests during a call, on their way to the caller.
//!
//! An [`EventSender`] is the sending end of a bounded channel, an [`EventReceiver`] the receiving end. Invariants: a slow reader
//! loses only progress and log messages, which are counted. The response does not use this channel and is never lost. A
//! server request ends when either end drops its half. While a server request is open, the deadline of its call is
//! paused, because users are slow. Each message of the server extends the deadline, whether it is read or not, within
//! the limits of the deadline.
//!
//! Not here: which call a message belongs to (`transport`), how a server request reaches the client (`downstream`).

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

use json::Raw;
use line::{Receiver, SendError, Sender};
use pauses::{Pause, Pauses};
use protocol::{Method, Notification, Reply};
use runtime::memory::{self, Account, Charge, ChargeKind, SMALL};
use runtime::telemetry::limit::Limit;
use runtime::worker::until;

pub(super) use pauses::Moves;
pub use pauses::{Deadline, Hold};

/// The most bytes of notifications that wait for one slow reader.
const MAX_WAITING_BYTES: usize = 256 * 1024;
/// Notifications of this size or more are not copied out of the buffer in which they came.
const LARGE: usize = 64 * 1024;
/// The longest time for which a server request may stay open, and the most that it adds to the time of its call. A user
/// should need less.
const QUESTION_LIMIT: Duration = Duration::from_mins(10);

/// One message of a server during a call.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress, a log message, or a notification of a later revision.
    Notice(Notification),
    /// A server request, which expects a reply.
    Question(Question),
    /// The server closed the connection of a stream that will resume. A client that polls may disconnect too and
    /// reconnect after this time (2025-11-25).
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

/// A server request. Dropping it without an answer refuses it.
pub struct Question {
    /// `sampling/createMessage`, `elicitation/create`, `roots/list`.
    pub method: Method,
    /// The parameters, unchanged.
    pub params: Option<Raw>,
    /// The server that sent it, if it is known. Later notifications about an elicitation must come from the same
    /// server.
    pub server: Option<Arc<str>>,
    reply: oneshot::Sender<Reply>,
}

impl Question {
    /// Sends the client's reply to the server.
    pub fn answer(self, reply: Reply) {
        // The server may have cancelled the request just now.
        let _ = self.reply.send(reply);
    }

    /// Resolves when the server no longer waits for the reply.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }

    /// Polls [`Question::withdrawn`], for a caller that holds several server requests.
    pub fn poll_withdrawn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.reply.poll_closed(cx)
    }

    /// Whether the server no longer waits for the reply.
    pub fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Question({:?})", self.method)
    }
}

/// Resolves with the client's reply to a server request; `None` if there is none. Dropping it withdraws the request.
pub type Answer = BoxFuture<'static, Option<Reply>>;

/// The sending end of the messages during a call.
#[derive(Clone)]
pub struct EventSender(Option<Arc<OpenChannel>>);

struct OpenChannel {
    line: Sender<CallEvent>,
    dropped: AtomicU64,
    has_asked: AtomicBool,
    pauses: Pauses,
    /// The payer for waiting messages.
    account: Account,
}

/// The receiving end of an [`EventSender`].
pub struct EventReceiver(Receiver<CallEvent>);

impl EventReceiver {
    /// Returns the next message; `None` when every outlet is gone.
    pub async fn recv(&mut self) -> Option<CallEvent> {
        let event = self.0.next().await?;
        self.0.bytes().fetch_sub(size(&event), Ordering::Relaxed);
        Some(event)
    }

    /// Returns the next message, if one waits.
    pub fn try_recv(&mut self) -> Result<CallEvent, TryRecvError> {
        let event = self.0.take().ok_or(TryRecvError::Empty)?;
        self.0.bytes().fetch_sub(size(&event), Ordering::Relaxed);
        Ok(event)
    }
}

impl OpenChannel {
    /// Prepares a notification for waiting. A small one is copied out of the buffer in which it came. It is charged if
    /// it is large, or if others already wait. `None` if the memory budget has no room.
    fn prepare(&self, notification: Notification, waiting: usize) -> Option<CallEvent> {
        let Notification { method, params } = notification;
        let is_charged = waiting >= SMALL;
        let keep = |bytes: Bytes| {
            let own = if bytes.len() < LARGE { Bytes::copy_from_slice(&bytes) } else { bytes };
            if is_charged {
                Charge::open(self.account.clone(), ChargeKind::Notice).hold(own)
            } else {
                Ok(own)
            }
        };
        let params = params.map(|params| params.try_map_bytes(keep)).transpose().ok()?;
        Some(CallEvent::Notice(Notification { method, params }))
    }
}

/// The bytes that a notification counts for while it waits.
fn size_of(notice: &Notification) -> usize {
    notice.method.len() + notice.params.as_ref().map_or(0, |params| params.bytes().len())
}

fn size(event: &CallEvent) -> usize {
    match event {
        CallEvent::Notice(notice) => size_of(notice),
        // There are few of them, and each is one message.
        CallEvent::Question(_) | CallEvent::Pause(_) => 0,
    }
}

impl EventSender {
    /// Makes an outlet whose memory no principal pays for; see [`EventSender::paid_by`].
    pub fn new(capacity: usize) -> (Self, EventReceiver) {
        Self::paid_by(capacity, Account::Nobody)
    }

    /// Makes an outlet and its receiving end. At most `capacity` messages wait, and at most 512 KiB of notifications,
    /// which `account` pays for.
    pub fn paid_by(capacity: usize, account: Account) -> (Self, EventReceiver) {
        let (line, reader) = line::line(capacity);
        let open = OpenChannel {
            line,
            dropped: AtomicU64::new(0),
            has_asked: AtomicBool::new(false),
            pauses: Pauses::default(),
            account,
        };
        (Self(Some(Arc::new(open))), EventReceiver(reader))
    }

    /// An outlet without a reader, for REST calls and Switchyard's own requests. Server requests are refused.
    pub const fn none() -> Self {
        Self(None)
    }

    /// An outlet without a reader that records only the time of the last message, for calls of programs.
    pub fn unread() -> Self {
        Self::new(0).0
    }

    /// Sends a notification to the reader, or counts it as dropped.
    pub fn offer(&self, notification: Notification) {
        let Some(open) = &self.0 else { return };
        let size = size_of(&notification);
        if open.pauses.hear_notice(size) {
            tracing::warn!(
                "a server sends more notifications than a call may have; they no longer extend its deadline"
            );
            Limit::ServerFloods.met(());
        }
        if !open.line.is_read() {
            return;
        }
        let waiting = open.line.bytes().fetch_add(size, Ordering::Relaxed) + size;
        // A notification that exceeds the limit by itself passes if no other waits.
        let fits = waiting <= MAX_WAITING_BYTES || waiting == size;
        let event = if fits { open.prepare(notification, waiting) } else { None };
        if event.is_none_or(|event| open.line.try_send(event).is_err()) {
            open.line.bytes().fetch_sub(size, Ordering::Relaxed);
            Limit::CallNotices.met(open.dropped.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Sends a notification to the reader as soon as there is room. For senders that can wait and then have current
    /// data, not for messages of a server.
    pub async fn deliver(&self, notification: Notification) {
        let Some(open) = &self.0 else { return };
        let size = size_of(&notification);
        let event = CallEvent::Notice(notification);
        // Counted before the reader can subtract it.
        open.line.bytes().fetch_add(size, Ordering::Relaxed);
        if !open.line.send(event).await {
            open.line.bytes().fetch_sub(size, Ordering::Relaxed);
        }
    }

    /// Tells the reader that the stream of the call will resume after `pause`, if there is room.
    pub fn pause(&self, pause: Duration) {
        if let Some(open) = &self.0 {
            let _ = open.line.try_send(CallEvent::Pause(pause));
        }
    }

    /// Sends a server request to the reader for an unknown server.
    pub fn ask(&self, method: Method, params: Option<Raw>) -> Answer {
        self.ask_for(None, method, params)
    }

    /// Sends a request of `server` to the reader, if there is room. The caller owns the request until it drops the
    /// answer. If there is no reader, or too many requests are open, the answer is `None` at once.
    pub fn ask_for(&self, server: Option<Arc<str>>, method: Method, params: Option<Raw>) -> Answer {
        let Some(open) = self.0.clone() else { return Box::pin(std::future::ready(None)) };
        // Without memory for it the request is refused.
        let keep = |bytes| memory::hold(bytes, || open.account.clone(), ChargeKind::Notice);
        let Ok(params) = params.map(|params| params.try_map_bytes(keep)).transpose() else {
            return Box::pin(std::future::ready(None));
        };
        let Some(pause) = Pause::begin(&open) else { return Box::pin(std::future::ready(None)) };
        let (reply, answer) = oneshot::channel();
        let unsent = match open.line.try_send(CallEvent::Question(Question { method, params, server, reply }))
        {
            Ok(()) => None,
            Err(SendError::Full(event)) => Some(event),
            Err(SendError::Unread) => return Box::pin(std::future::ready(None)),
        };
        Box::pin(async move {
            let whole = async {
                if let Some(event) = unsent {
                    pause.open().line.send(event).await.then_some(())?;
                }
                answer.await.ok()
            };
            timeout(QUESTION_LIMIT, whole).await.ok().flatten()
        })
    }

    /// Pauses the deadline of the call while a server request is open that may belong to this call, but was sent on
    /// another call of the same client.
    pub fn hold(&self) -> Option<Hold> {
        self.0.as_ref().and_then(Pause::begin).map(Hold::of)
    }

    /// Resolves when a call with this `deadline` has used up its time. The time in which a server request was open does
    /// not count.
    pub async fn expired(&self, deadline: impl Into<Deadline>) {
        let deadline = deadline.into();
        match &self.0 {
            Some(open) => open.pauses.expired(deadline).await,
            None => until(deadline.at).await,
        }
    }

    /// The `deadline` extended by the messages so far, without the time of open server requests.
    pub(super) fn moved(&self, deadline: Deadline) -> Instant {
        deadline.after(self.0.as_ref().and_then(|open| open.pauses.heard()))
    }

    /// Whether the server sent a message of the call after `started`.
    pub(super) fn heard_since(&self, started: Instant) -> bool {
        self.0.as_ref().is_some_and(|open| open.pauses.heard_since(started))
    }

    /// Whether the server sent a request during the call, or may have. Then its answer may depend on the client's
    /// reply.
    pub fn was_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|open| open.has_asked.load(Ordering::Acquire))
    }

    /// The number of dropped notifications.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |open| open.dropped.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outlet(open: {}, dropped: {})", self.0.is_some(), self.dropped())
    }
}

/// The owner of a call: one legacy session, one modern request, or Switchyard itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Switchyard itself: lists, discovery, health checks. It accepts no server requests.
    pub const GATEWAY: Self = Self(0);

    /// Makes an owner that differs from all others.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "call_events_tests.rs"]
mod tests;
