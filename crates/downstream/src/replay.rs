//! Records the event streams of a legacy session, so that a client can resume after a broken
//! connection.
//!
//! ```text
//!       push                       read, by one reader at a time
//! call ──────▶ Log: numbered events ─────────────────────────────▶ body of a POST or a GET
//!                │ too much: the oldest notices go
//!                └ ended: kept for KEEP, then forgotten
//! ```
//!
//! Invariants: an event id contains its stream and is unique among all sessions. No sender waits for a
//! reader. A slow reader costs at most `MAX_EVENTS` and `MAX_BYTES` of notifications, of which the
//! oldest are dropped; server requests and the response stay. No event is sent twice to one reader,
//! and a newer reader ends the older one. Source: 2025-11-25 `basic/transports`, Resumability and
//! Redelivery.
//!
//! Not here: the messages (`exchange`), HTTP (`events`).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::message_encoder::{MessageEncoder, retry};
use super::questions::Questions;
use net::sse::Event;
use protocol::{Era, Message, RequestId};
use runtime::memory::{Charge, SMALL};

/// Limit of events that one stream stores.
const MAX_EVENTS: usize = 256;
/// Byte limit of the notifications that one stream stores; a single larger one is stored alone.
const MAX_BYTES: usize = 512 * 1024;
/// Limit of ended streams that one session stores.
const MAX_ENDED: usize = 32;
/// Limit of the bytes of ended streams of all sessions.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// How long a stream can be resumed after its end.
const KEEP: Duration = Duration::from_mins(5);

/// Bytes of the ended streams of all sessions.
#[derive(Debug, Default, Clone)]
pub struct RetainedBytes(Arc<AtomicUsize>);

impl RetainedBytes {
    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The streams of one session.
#[derive(Debug)]
pub struct Replay {
    /// Prefix of every event id of this session.
    tag: String,
    questions: Arc<Questions>,
    retained: RetainedBytes,
    encoder: MessageEncoder,
    table: Mutex<LogTable>,
}

#[derive(Debug, Default)]
struct LogTable {
    last: u64,
    logs: HashMap<u64, Arc<Log>>,
    ended: VecDeque<Ended>,
    is_closed: bool,
}

#[derive(Debug)]
struct Ended {
    number: u64,
    bytes: usize,
    until: Instant,
}

impl Replay {
    /// An empty record. `questions` belongs to the session, all sessions share `retained`, `principal`
    /// pays.
    pub(crate) fn new(questions: Arc<Questions>, retained: RetainedBytes, principal: &Arc<str>) -> Self {
        let tag = Uuid::new_v4().simple().to_string();
        let encoder = MessageEncoder::new(principal, Era::Legacy);
        Self { tag, questions, retained, encoder, table: Mutex::default() }
    }

    /// Opens a new stream.
    pub fn open(&self) -> Arc<Log> {
        let mut table = self.lock();
        table.last += 1;
        let log = Arc::new(Log {
            number: table.last,
            name: format!("{}-{}", self.tag, table.last),
            questions: Arc::clone(&self.questions),
            state: Mutex::default(),
            encoder: self.encoder.clone(),
            changed: Notify::new(),
        });
        if !table.is_closed {
            table.logs.insert(log.number, Arc::clone(&log));
        }
        log
    }

    /// Ends a stream. It is stored for a while; if room is missing, the oldest streams of the session
    /// are dropped.
    pub fn end(&self, log: &Log) {
        let bytes = log.end();
        let mut table = self.lock();
        if !table.logs.contains_key(&log.number) {
            return;
        }
        table.ended.push_back(Ended { number: log.number, bytes, until: Instant::now() + KEEP });
        self.retained.0.fetch_add(bytes, Ordering::Relaxed);
        self.make_room(&mut table);
    }

    /// Resumes after the event `id`. Returns none if it is unknown or dropped.
    pub fn resume(&self, id: &str) -> Option<Reader> {
        let (name, event) = id.rsplit_once('-')?;
        let (tag, number) = name.rsplit_once('-')?;
        if tag != self.tag {
            return None;
        }
        let mut table = self.lock();
        self.make_room(&mut table);
        let log = Arc::clone(table.logs.get(&digits(number)?)?);
        drop(table);
        log.reader(digits(event)?)
    }

    /// Drops streams whose time is over.
    pub fn sweep(&self) {
        self.make_room(&mut self.lock());
    }

    /// Drops everything, because the session has ended.
    pub fn close(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        table.logs.clear();
        while self.forget_oldest(&mut table) {}
    }

    fn make_room(&self, table: &mut LogTable) {
        let now = Instant::now();
        while let Some(oldest) = table.ended.front()
            && (oldest.until <= now
                || table.ended.len() > MAX_ENDED
                || self.retained.bytes() > MAX_KEPT_BYTES)
        {
            self.forget_oldest(table);
        }
    }

    fn forget_oldest(&self, table: &mut LogTable) -> bool {
        let Some(oldest) = table.ended.pop_front() else { return false };
        table.logs.remove(&oldest.number);
        self.retained.0.fetch_sub(oldest.bytes, Ordering::Relaxed);
        true
    }

    fn lock(&self) -> MutexGuard<'_, LogTable> {
        // No code panics while it holds the lock, and every write leaves a valid table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.close();
    }
}

/// Parses a number in the form that Switchyard writes: no sign, no leading zero.
fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

/// One stream.
#[derive(Debug)]
pub struct Log {
    number: u64,
    name: String,
    questions: Arc<Questions>,
    encoder: MessageEncoder,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Ordered by number, ascending.
    events: VecDeque<Numbered>,
    /// The number of the next event.
    next: u64,
    /// Bytes of notices among the events.
    notice_bytes: usize,
    /// Those of small ones, which are charged as a whole.
    small_bytes: usize,
    /// The number of the current reader; older readers have ended.
    reader: u64,
    /// The reader that must reconnect later, and its last event.
    pause: Option<(u64, Bytes)>,
    is_ended: bool,
    charge: Option<Charge>,
}

#[derive(Debug)]
struct Numbered {
    number: u64,
    text: Bytes,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// May be dropped.
    Notice,
    /// Stays while the server request is open.
    Question(u64),
    /// Is never dropped.
    Answer,
}

impl Log {
    /// Adds a message.
    pub fn push(&self, message: &Message) {
        let kind = match message {
            Message::Notification(_) => Kind::Notice,
            Message::Request(request) => request.id.as_u64().map_or(Kind::Notice, Kind::Question),
            Message::Response(_) => Kind::Answer,
        };
        let mut state = self.lock();
        let id = self.next_id(&state);
        let frame = |data| Event { id: Some(id.clone()), ..Event::of(data) }.encode();
        if let Some(text) = self.encoder.encode(message, Some(&self.questions), frame) {
            self.add(&mut state, text, kind);
        }
    }

    /// Adds an event without a message. From it the stream can be resumed, and it tells the client how
    /// soon (2025-11-25).
    pub(crate) fn prime(&self, retry: Duration) {
        let mut state = self.lock();
        let id = Some(self.next_id(&state));
        let event = Event { id, retry: Some(retry), ..Event::default() };
        self.add(&mut state, event.encode(), Kind::Notice);
    }

    /// Ends the connection of the current reader, which must reconnect after `pause` (2025-11-25).
    pub fn pause(&self, pause: Duration) {
        let mut state = self.lock();
        state.pause = Some((state.reader, retry(pause)));
        drop(state);
        self.changed.notify_waiters();
    }

    /// A reader that begins with the oldest stored event.
    pub(crate) fn reader_from_start(self: &Arc<Self>) -> Reader {
        self.read_from(&mut self.lock(), 0)
    }

    /// A reader of events from now on.
    pub(crate) fn reader_from_now(self: &Arc<Self>) -> Reader {
        let mut state = self.lock();
        let next = state.next;
        self.read_from(&mut state, next)
    }

    /// A reader of the events after `event`; none if that event does not exist.
    fn reader(self: &Arc<Self>, event: u64) -> Option<Reader> {
        let mut state = self.lock();
        // The client chose the number, so it is compared before any arithmetic.
        (event < state.next).then(|| self.read_from(&mut state, event + 1))
    }

    fn read_from(self: &Arc<Self>, state: &mut State, next: u64) -> Reader {
        state.reader += 1;
        self.changed.notify_waiters();
        Reader { log: Arc::clone(self), mine: state.reader, next }
    }

    fn next_id(&self, state: &State) -> Bytes {
        format!("{}-{}", self.name, state.next).into()
    }

    /// Adds an event with the next number.
    fn add(&self, state: &mut State, text: Bytes, kind: Kind) {
        let number = state.next;
        state.next += 1;
        if kind == Kind::Notice {
            state.notice_bytes += text.len();
            state.small_bytes += small(&text);
        }
        state.events.push_back(Numbered { number, text, kind });
        self.make_room(state);
        self.changed.notify_waiters();
    }

    /// Drops the oldest notifications until the rest is within the limits. The newest one stays.
    fn make_room(&self, state: &mut State) {
        while state.events.len() > MAX_EVENTS || state.notice_bytes > MAX_BYTES || !self.is_charged(state) {
            let older = state.events.len() - 1;
            let Some(at) = state.events.iter().take(older).position(|event| self.may_go(event)) else {
                return;
            };
            if let Some(Numbered { text, kind: Kind::Notice, .. }) = state.events.remove(at) {
                state.notice_bytes -= text.len();
                state.small_bytes -= small(&text);
            }
        }
    }

    fn is_charged(&self, state: &mut State) -> bool {
        let charge = state.charge.get_or_insert_with(|| self.encoder.charge());
        charge.cover(state.small_bytes).is_ok()
    }

    fn may_go(&self, event: &Numbered) -> bool {
        match event.kind {
            Kind::Notice => true,
            Kind::Question(id) => !self.questions.is_open(&RequestId::from_u64(id)),
            Kind::Answer => false,
        }
    }

    /// Marks the stream as ended and returns its stored bytes.
    fn end(&self) -> usize {
        let mut state = self.lock();
        state.is_ended = true;
        let bytes = state.events.iter().map(|event| event.text.len()).sum();
        drop(state);
        self.changed.notify_waiters();
        bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of an event that is not charged by itself.
fn small(text: &Bytes) -> usize {
    if text.len() < SMALL { text.len() } else { 0 }
}

/// Reads one stream.
#[derive(Debug)]
pub struct Reader {
    log: Arc<Log>,
    mine: u64,
    next: u64,
}

enum Read {
    Event(Bytes),
    Wait,
    End,
}

impl Reader {
    /// The stream it reads.
    pub const fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Whether the stream has ended, and no event is left.
    pub fn is_at_end(&self) -> bool {
        let state = self.log.lock();
        state.is_ended && self.next >= state.next
    }

    /// Returns the next event as it is sent. Returns none if the stream has ended, if another reader
    /// took its place, or if it must be read on another connection. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        let log = Arc::clone(&self.log);
        loop {
            let changed = log.changed.notified();
            match self.ready() {
                Read::Event(text) => return Some(text),
                Read::End => return None,
                Read::Wait => changed.await,
            }
        }
    }

    fn ready(&mut self) -> Read {
        let mut state = self.log.lock();
        if state.reader != self.mine {
            return Read::End;
        }
        let at = state.events.partition_point(|event| event.number < self.next);
        if let Some(event) = state.events.get(at) {
            self.next = event.number + 1;
            return Read::Event(event.text.clone());
        }
        if let Some((_, last)) = state.pause.take_if(|(reader, _)| *reader == self.mine) {
            state.reader += 1;
            return Read::Event(last);
        }
        if state.is_ended { Read::End } else { Read::Wait }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
