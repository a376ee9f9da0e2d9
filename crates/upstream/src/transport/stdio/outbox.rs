//! The queue for the child's input. A sender writes by itself while the pipe accepts data. Otherwise messages of the
//! same turn are written together.
//!
//! ```text
//! send ── no other call ──> pipe
//!   └──── others ─────────> queue (64) ── writer of this worker: as many as fit at once ──> pipe
//!                                 └───────── it is full: the first writer, when there is room ──┘
//! ```
//!
//! Each worker that sends has its own writer, so that no other worker is woken. The first writer runs where the child
//! was started, and only it waits for the pipe.
//!
//! Invariants: a line is complete before the next one begins. A request that was cancelled in the queue is never
//! written. Only the first writer waits for the pipe, and senders wait only if the queue is full. One task writes at a
//! time, without the lock, and also writes lines that were queued meanwhile, so that a sender never waits for a system
//! call. After [`MOST_PASSES`] the first writer continues, and yields to its own worker at times.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore};

use crate::transport::pending::Pending;
use runtime::worker;

/// Messages that may wait for the child to read. Further senders wait for room.
const QUEUE: usize = 64;

/// The size that a pipe accepts completely or not at all (`PIPE_BUF` of Linux). Lines that are written together can
/// therefore be put back into the queue together.
const AT_ONCE: usize = 4096;

/// How often a writer checks the queue again before it leaves the rest to the first writer. A pipe of 64 KiB accepts
/// this many full batches, so only a child that reads meanwhile reaches the limit.
const MOST_PASSES: usize = 16;

/// A message on its way to the child.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A request that is written only if its caller still waits.
    Request {
        /// The id.
        id: u64,
        /// The text, line end included.
        line: Bytes,
    },
    /// Any other message.
    Other(Bytes),
}

/// The queue for the input of one child.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    room: Semaphore,
}

#[derive(Debug)]
struct State {
    /// `None` when the child's input is closed.
    stdin: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Outgoing>,
    /// The rest of a line that the pipe accepted in part.
    rest: Bytes,
    /// Whether the first writer waits for the pipe. Then all messages are queued.
    is_full: bool,
    /// Whether a task is writing, and will check the queue again.
    is_writing: bool,
    /// The writers with their workers. The first writer is at index 0.
    writers: Vec<(usize, WriterWaker)>,
}

/// Wakes a writer.
pub(super) type WriterWaker = Arc<Notify>;

/// The result of an attempt to write.
enum Written {
    All,
    /// The limit of passes was reached, and more is queued.
    Some,
    /// The pipe is full.
    Blocked,
    Broken(io::Error),
}

impl Outbox {
    /// Makes the queue for `stdin`. The caller must run the first writer on its worker.
    pub(super) fn new(stdin: pipe::Sender) -> (Self, WriterWaker) {
        let due = WriterWaker::default();
        let state = State {
            stdin: Some(Arc::new(stdin)),
            queue: VecDeque::new(),
            rest: Bytes::new(),
            is_full: false,
            is_writing: false,
            writers: vec![(worker::current(), Arc::clone(&due))],
        };
        (Self { state: Mutex::new(state), room: Semaphore::new(QUEUE) }, due)
    }

    /// Sends a message, and waits for room if necessary. An error means that the input is closed. The returned [`WriterWaker`]
    /// is for a new writer that must be started on this worker ([`Outbox::write_when`]).
    ///
    /// With `is_alone` it is written at once if possible. Otherwise calls of the same turn of their worker share a
    /// write.
    pub(super) async fn send(
        &self,
        pending: &Pending,
        outgoing: Outgoing,
        is_alone: bool,
    ) -> io::Result<Option<WriterWaker>> {
        let mut outgoing = outgoing;
        if is_alone {
            match self.write_now(pending, outgoing)? {
                None => return Ok(None),
                Some(unwritten) => outgoing = unwritten,
            }
        }
        self.room.acquire().await.map_err(|_| ErrorKind::BrokenPipe)?.forget();
        Ok(self.queue(outgoing, true))
    }

    /// Sends a message without a response, if there is room.
    pub(super) fn offer(&self, line: Bytes) {
        if let Ok(room) = self.room.try_acquire() {
            room.forget();
            self.queue(Outgoing::Other(line), false);
        }
    }

    /// Queues a message and wakes the writer of this worker. Returns the signal of a new writer if it `may_begin`.
    fn queue(&self, outgoing: Outgoing, may_begin: bool) -> Option<WriterWaker> {
        let mut state = self.lock();
        state.stdin.as_ref()?;
        state.queue.push_back(outgoing);
        if state.is_full || state.is_writing {
            return None;
        }
        let here = worker::current();
        let known = state.writers.iter().find(|(worker, _)| *worker == here).map(|(_, due)| Arc::clone(due));
        if known.is_none() && may_begin {
            let due = WriterWaker::default();
            due.notify_one();
            state.writers.push((here, Arc::clone(&due)));
            return Some(due);
        }
        let due = known.unwrap_or_else(|| state.first());
        drop(state);
        due.notify_one();
        None
    }

    /// Writes a message if none is queued before it. Returns it if the pipe accepts nothing of it.
    fn write_now(&self, pending: &Pending, outgoing: Outgoing) -> io::Result<Option<Outgoing>> {
        let state = self.lock();
        let stdin = state.stdin.clone().ok_or(ErrorKind::BrokenPipe)?;
        if state.is_writing || state.is_full || !state.rest.is_empty() || !state.queue.is_empty() {
            return Ok(Some(outgoing));
        }
        let (id, line) = match &outgoing {
            Outgoing::Request { id, line } => (Some(*id), line),
            Outgoing::Other(line) => (None, line),
        };
        if id.is_some_and(|id| !pending.begin_writing(id)) {
            return Ok(None);
        }
        let (mut state, written) = self.put(state, &stdin, line);
        match written {
            Ok(written) => state.rest = line.slice(written..),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                state.fill();
                if let Some(id) = id {
                    pending.not_written(id);
                }
                return Ok(Some(outgoing));
            }
            Err(error) => return Err(error),
        }
        if !state.rest.is_empty() {
            state.fill();
        }
        drop(state);
        // Writes the lines that were queued meanwhile.
        self.flush_for_others(pending)?;
        Ok(None)
    }

    /// Writes as much of `text` as the pipe accepts, without the lock. No other task writes meanwhile.
    fn put<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        stdin: &pipe::Sender,
        text: &[u8],
    ) -> (MutexGuard<'s, State>, io::Result<usize>) {
        state.is_writing = true;
        drop(state);
        let written = stdin.try_write(text);
        let mut state = self.lock();
        state.is_writing = false;
        (state, written)
    }

    /// Runs the first writer: writes the queue and waits for the pipe, until writing fails.
    pub(super) async fn write(&self, pending: &Pending, due: &WriterWaker) -> io::Error {
        let Some(stdin) = self.lock().stdin.clone() else { return ErrorKind::BrokenPipe.into() };
        loop {
            due.notified().await;
            self.lock().is_full = false;
            loop {
                match self.flush(pending) {
                    Written::All => break,
                    // The worker has other tasks.
                    Written::Some => tokio::task::yield_now().await,
                    Written::Broken(error) => return error,
                    Written::Blocked => {
                        if let Err(error) = stdin.writable().await {
                            return error;
                        }
                        self.lock().is_full = false;
                    }
                }
            }
        }
    }

    /// Runs another writer: writes as much of the queue as the pipe accepts, until writing fails.
    pub(super) async fn write_when(&self, pending: &Pending, due: &WriterWaker) -> io::Error {
        loop {
            due.notified().await;
            if let Err(error) = self.flush_for_others(pending) {
                return error;
            }
        }
    }

    /// Writes the queue. If the limit of passes is reached, the first writer continues.
    fn flush_for_others(&self, pending: &Pending) -> io::Result<()> {
        match self.flush(pending) {
            Written::Broken(error) => return Err(error),
            // Without the lock: a sender that queues a message before the first writer checks wakes a writer itself.
            Written::Some => {
                let first = self.lock().first();
                first.notify_one();
            }
            Written::All | Written::Blocked => {}
        }
        Ok(())
    }

    /// Closes the child's input, once the writer is dropped too.
    pub(super) fn close(&self) {
        self.room.close();
        let mut state = self.lock();
        state.stdin = None;
        state.queue.clear();
        state.rest = Bytes::new();
    }

    /// Writes until the queue is empty, the pipe is full, or the limit of passes is reached. If the pipe is full, the
    /// first writer is woken. If another task is writing, nothing is done, because that task writes the whole queue.
    fn flush(&self, pending: &Pending) -> Written {
        let mut state = self.lock();
        for _ in 0..MOST_PASSES {
            if state.is_writing {
                return Written::All;
            }
            let Some(stdin) = state.stdin.clone() else {
                return Written::Broken(ErrorKind::BrokenPipe.into());
            };
            // Another task found the pipe full, and the first writer was woken.
            if state.is_full {
                return Written::Blocked;
            }
            let batch = if state.rest.is_empty() { state.take(pending) } else { Batch::default() };
            self.room.add_permits(batch.dropped);
            let text = if state.rest.is_empty() { batch.text() } else { std::mem::take(&mut state.rest) };
            if text.is_empty() {
                return Written::All;
            }
            let (now, written) = self.put(state, &stdin, &text);
            state = now;
            match written {
                Ok(written) => {
                    self.room.add_permits(batch.lines.len());
                    state.rest = text.slice(written..);
                }
                Err(error) => {
                    state.put_back(batch, text, pending);
                    return state.failed(error);
                }
            }
        }
        if state.queue.is_empty() && state.rest.is_empty() { Written::All } else { Written::Some }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines that are written together.
#[derive(Default)]
struct Batch {
    lines: Vec<Outgoing>,
    /// Requests whose callers are gone.
    dropped: usize,
}

impl Batch {
    fn text(&self) -> Bytes {
        match self.lines.as_slice() {
            [] => return Bytes::new(),
            [only] => return only.line().clone(),
            _ => {}
        }
        let mut text = BytesMut::with_capacity(AT_ONCE);
        self.lines.iter().for_each(|outgoing| text.extend_from_slice(outgoing.line()));
        text.freeze()
    }
}

impl Outgoing {
    const fn line(&self) -> &Bytes {
        let (Self::Request { line, .. } | Self::Other(line)) = self;
        line
    }
}

impl State {
    fn first(&self) -> WriterWaker {
        self.writers.first().map(|(_, due)| Arc::clone(due)).unwrap_or_default()
    }

    /// Makes the first writer wait for the full pipe.
    fn fill(&mut self) {
        self.is_full = true;
        self.first().notify_one();
    }

    fn failed(&mut self, error: io::Error) -> Written {
        if error.kind() != ErrorKind::WouldBlock {
            return Written::Broken(error);
        }
        self.fill();
        Written::Blocked
    }

    /// Takes the next lines that can be written together, and marks them as written.
    fn take(&mut self, pending: &Pending) -> Batch {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while let Some(next) = self.queue.pop_front() {
            let length = next.line().len();
            if !batch.lines.is_empty() && bytes + length > AT_ONCE {
                self.queue.push_front(next);
                break;
            }
            match next {
                Outgoing::Request { id, .. } if !pending.begin_writing(id) => batch.dropped += 1,
                next => {
                    bytes += length;
                    batch.lines.push(next);
                }
            }
        }
        batch
    }

    /// Puts the lines back, because nothing was written. Without lines, `text` is the rest of one.
    fn put_back(&mut self, batch: Batch, text: Bytes, pending: &Pending) {
        if batch.lines.is_empty() {
            self.rest = text;
        }
        for outgoing in batch.lines.into_iter().rev() {
            if let Outgoing::Request { id, .. } = outgoing {
                pending.not_written(id);
            }
            self.queue.push_front(outgoing);
        }
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
