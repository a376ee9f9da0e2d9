//! Handles the notifications of a server, in the same way for every transport. Limits messages that belong to no call, and
//! closes the connection of a server that floods.
//!
//! ```text
//! within the burst ──► read on      at the rate ──► pauses between reads      junk for too long ──► closed
//! ```
//!
//! Invariants: messages of a call are not counted here, because a call has a pace of its own (`call_events`). A
//! notification for the whole server (a changed list, an updated resource, a ping) is slowed down and never closes a
//! connection. While a reader pauses, the server waits for room in its pipe or socket and costs nothing. All streams of a
//! connection share one guard.
//!
//! Not here: sharing a worker among readers (`worker::WorkBudget`); when the next connection is made (`backoff`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::connection::{Closing, Event, Events};
use crate::error::Error;
use crate::rate_limit::{BURST, MESSAGE, RATE, TokenBucket};
use crate::state_signs::StateSign;
use json::Raw;
use net::http::EventStream;
use net::sse::Item;
use protocol::feature::List;
use protocol::{Message, Notification, ParseError, Request, method};
use runtime::memory::SMALL;
use runtime::telemetry::limit::Limit;

/// Bytes of junk beyond the burst that close the connection: five seconds at the rate. A connection that floods from
/// its beginning therefore counts as an early loss.
const MOST_JUNK: f64 = 5.0 * RATE;
/// The most bytes that one message without a call counts for, because a late response may be large.
const LARGEST_JUNK: usize = 64 * 1024;
/// The most bytes that one notification counts for.
const LARGEST_NOTICE: usize = 256 * 1024;
/// The length of one pause of a reader.
const PAUSE: Duration = Duration::from_millis(50);

/// The reason for closing the connection.
pub(super) const FLOODED: &str = "the server sent too many messages that belong to no call";

/// How a message of a server is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relevance {
    /// It belongs to a call, or to one of several calls that cannot be distinguished.
    Wanted,
    /// It concerns the whole server.
    Notice,
    /// It belongs to no open call, or cannot be parsed.
    Junk,
}

impl Relevance {
    /// The relevance of two messages that came together.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Junk, _) | (_, Self::Junk) => Self::Junk,
            (Self::Notice, _) | (_, Self::Notice) => Self::Notice,
            (Self::Wanted, Self::Wanted) => Self::Wanted,
        }
    }
}

/// Counts the messages of one connection that belong to no call.
pub(super) struct FloodGuard {
    server: Arc<str>,
    closing: Closing,
    buckets: Mutex<Buckets>,
}

struct Buckets {
    notices: TokenBucket,
    junk: TokenBucket,
}

impl FloodGuard {
    /// Makes a guard that closes a connection of `server` with `closing`.
    pub(super) fn new(server: &Arc<str>, closing: &Closing) -> Self {
        let now = Instant::now();
        let buckets = Buckets { notices: TokenBucket::full(now), junk: TokenBucket::full(now) };
        Self { server: Arc::clone(server), closing: closing.clone(), buckets: Mutex::new(buckets) }
    }

    /// The next event of `stream`. `None` at its end; an error if it was cut off. Bytes
    /// without a meaning count as junk.
    pub(super) async fn next(&self, stream: &mut EventStream) -> Result<Option<Item>, Error> {
        while let Some(decoded) = stream.step().await? {
            if decoded.ignored > 0 {
                self.admit(Relevance::Junk, decoded.ignored).await?;
            }
            if decoded.item.is_some() {
                return Ok(decoded.item);
            }
        }
        Ok(None)
    }

    /// Counts a message of `bytes`, and waits while there were too many. The error means that the connection was
    /// closed.
    pub(super) async fn admit(&self, relevance: Relevance, bytes: usize) -> Result<(), Error> {
        self.admit_batch(relevance, bytes, 1).await
    }

    /// Counts a text of `bytes` like so many `messages` that came alone.
    pub(super) async fn admit_batch(
        &self,
        relevance: Relevance,
        bytes: usize,
        messages: usize,
    ) -> Result<(), Error> {
        if relevance == Relevance::Wanted {
            return Ok(());
        }
        let mut is_over = self.lock().take(relevance, bytes, messages, Instant::now());
        while is_over {
            if self.is_flooded(relevance) {
                if !self.closing.is_closed() {
                    tracing::warn!(server = %self.server, "{FLOODED}; its connection is closed");
                }
                self.closing.close(FLOODED);
                Limit::ServerFloods.met(());
                return Err(Error::Cut { reason: FLOODED.into() });
            }
            sleep(PAUSE).await;
            is_over = self.lock().is_over(relevance, Instant::now());
        }
        Ok(())
    }

    fn is_flooded(&self, relevance: Relevance) -> bool {
        relevance == Relevance::Junk && self.lock().junk.taken() > BURST + MOST_JUNK
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    fn of(&mut self, relevance: Relevance) -> &mut TokenBucket {
        if relevance == Relevance::Junk { &mut self.junk } else { &mut self.notices }
    }

    fn take(&mut self, relevance: Relevance, bytes: usize, messages: usize, now: Instant) -> bool {
        let largest = if relevance == Relevance::Junk { LARGEST_JUNK } else { LARGEST_NOTICE };
        let is_over = self.of(relevance).take(bytes.min(largest) + MESSAGE * messages, now);
        if is_over {
            Limit::UnaskedMessages.met(());
        }
        is_over
    }

    fn is_over(&mut self, relevance: Relevance, now: Instant) -> bool {
        self.of(relevance).take(0, now)
    }
}

/// The size limit of a notification that waits together with others.
const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// The members of a notification that name its subject. A listener that needs more of a task requests it.
const KEPT: [&str; 3] = ["uri", "taskId", "elicitationId"];

/// Reduces `notification` for waiting. It gets its own memory, and a large one keeps only its subject. `None` if even
/// that is too large to match a subject.
fn shrink(notification: Notification) -> Option<Notification> {
    let Notification { method, params } = notification;
    let params = match params {
        Some(params) if params.bytes().len() < SMALL => Some(params.detached()),
        Some(params) => {
            let members = KEPT.map(|name| (name, params.get(name)));
            let members: Vec<_> =
                members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))).collect();
            Some(Raw::object(&members)).filter(|params| params.bytes().len() < MAX_NOTICE_BYTES)
        }
        None => return Some(Notification { method, params: None }),
    };
    params.map(|params| Notification { method, params: Some(params) })
}

/// Whether events of this name carry messages. Events without a name do.
pub(super) fn is_message(name: &Bytes) -> bool {
    name.is_empty() || name == "message"
}

/// Reads `text`, which is one message or a batch, and hands each message and its text to `take`. `join` makes one of two
/// results. Returns the result and the number of messages.
pub(super) fn read<T>(
    text: &Bytes,
    mut take: impl FnMut(Result<Message, ParseError>, &Bytes) -> T,
    join: impl FnMut(T, T) -> T,
) -> (T, usize) {
    match Message::from_server(text) {
        Err(ParseError::Batch) => {
            let Some(batch) = Message::batch(text) else {
                return (take(Err(ParseError::LargeBatch), text), 1);
            };
            let taken = batch.iter().map(|text| take(Message::from_server(text), text)).reduce(join);
            (taken.unwrap_or_else(|| take(Err(ParseError::EmptyBatch), text)), batch.len().max(1))
        }
        message => (take(message, text), 1),
    }
}

/// Reports what a server request shows about the server: a server that asks a client keeps state for it.
pub(super) fn record(request: &Request, events: &Events) {
    if let Some(sign) = StateSign::of_request(&request.method) {
        events.shows(sign);
    }
}

/// Passes on notifications for the whole server. `offer` gets those of a call, and returns how they are counted.
pub(super) fn sort(
    notification: Notification,
    events: &Events,
    offer: impl FnOnce(Notification) -> Relevance,
) -> Relevance {
    events.heard();
    if let Some(list) = List::changed_by(&notification.method) {
        events.report(Event::Changed(list));
        return Relevance::Notice;
    }
    match notification.method.as_str() {
        method::RESOURCE_UPDATED | method::TASK_STATUS | method::TASKS | method::ELICITATION_COMPLETE => {
            if let Some(small) = shrink(notification) {
                events.report(Event::Notice(small));
            }
            Relevance::Notice
        }
        // No server request is open under this id.
        method::CANCELLED => Relevance::Junk,
        _ => offer(notification),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 100;

    fn guard(closing: &Closing) -> FloodGuard {
        FloodGuard::new(&"s".into(), closing)
    }

    /// Sends messages for `time` or until the connection is closed. Returns how many were accepted.
    async fn send(guard: &FloodGuard, relevance: Relevance, time: Duration) -> (u32, Result<(), Error>) {
        let (started, mut count) = (Instant::now(), 0);
        while started.elapsed() < time {
            if let Err(error) = guard.admit(relevance, SIZE).await {
                return (count, Err(error));
            }
            count += 1;
            if relevance == Relevance::Wanted && count == 100_000 {
                break;
            }
        }
        (count, Ok(()))
    }

    #[tokio::test(start_paused = true)]
    async fn messages_of_calls_are_never_slowed_down() {
        let (guard, started) = (guard(&Closing::default()), Instant::now());
        let (count, result) = send(&guard, Relevance::Wanted, Duration::MAX).await;
        assert_eq!((count, result, started.elapsed()), (100_000, Ok(()), Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn junk_is_slowed_down_and_then_ends_the_connection_while_it_is_young() {
        let (closing, started) = (Closing::default(), Instant::now());
        let guard = guard(&closing);
        let (_, result) = send(&guard, Relevance::Junk, Duration::from_mins(1)).await;
        assert!(result.is_err() && closing.reason() == FLOODED);
        let lived = started.elapsed().as_secs();
        assert!((4..8).contains(&lived), "{lived} s");
    }

    #[tokio::test(start_paused = true)]
    async fn notices_are_slowed_down_and_never_end_the_connection() {
        let guard = guard(&Closing::default());
        let (count, result) = send(&guard, Relevance::Notice, Duration::from_mins(1)).await;
        assert_eq!(result, Ok(()));
        assert!((45_000..60_000).contains(&count), "{count} in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_of_junk_counts_like_its_messages() {
        let junk = format!("[{}1]", "1,".repeat(1_023));
        let ((), messages) = read(&junk.clone().into(), |_, _| (), |(), ()| ());
        assert_eq!(messages, 1_024);
        let (guard, mut admitted) = (guard(&Closing::default()), 0);
        while guard.admit_batch(Relevance::Junk, junk.len(), messages).await.is_ok() {
            admitted += messages;
        }
        assert!((5_000..20_000).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_batch_that_is_not_read_is_told_why() {
        for (batch, reason) in [
            ("[]".into(), "is empty"),
            (format!("[{}1]", "1,".repeat(1_024)), "has more than 1,024 messages"),
        ] {
            let reported = |message: Result<Message, ParseError>, _: &Bytes| {
                message.err().map(|error| error.to_string()).unwrap_or_default()
            };
            let (error, messages) = read(&batch.into(), reported, |one, _| one);
            assert_eq!((error, messages), (format!("the batch {reason}"), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_little_junk_for_ever_ends_nothing() {
        let guard = guard(&Closing::default());
        for _ in 0..10_000 {
            sleep(Duration::from_millis(20)).await;
            assert_eq!(guard.admit(Relevance::Junk, SIZE).await, Ok(()));
        }
    }
}
