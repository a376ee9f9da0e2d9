//! What goes into the child's input: written by its sender while the pipe takes it, and otherwise
//! together with what others send in the same turn.
//!
//! ```text
//! send ── nobody else calls ──> pipe
//!   └──── others do ─────────> queue (64) ── writer of this worker: as many as fit at once ──> pipe
//!                                 └───────── it is full: the first writer, when there is room ──┘
//! ```
//!
//! Each worker that sends has a writer of its own, so that nobody is woken on another one: the first
//! runs where the child was started, and it alone waits for the pipe.
//!
//! Invariants: a line is whole before the next one begins; a request that was given up while it
//! stood in the queue is never written; nobody waits for the pipe but the first writer and those for
//! whom the queue has no room. One writes at a time, without the lock, and takes along what was queued
//! meanwhile: so whoever queues waits for no call of the system. Nobody does that for the others for ever:
//! after [`MOST_PASSES`] the first writer goes on, and lets its own worker have a turn now and then.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore};

use crate::transport::pending::Pending;
use runtime::worker;

/// Messages that may wait for the child to read; more senders wait for room.
const QUEUE: usize = 64;

/// What a pipe takes whole or not at all (`PIPE_BUF` of Linux), so that lines written together can go
/// back into the queue together.
const AT_ONCE: usize = 4096;

/// How often one looks into the queue again before somebody else writes: as often as a pipe of 64 KiB takes
/// full batches, so only a child that reads while it is written to comes to it.
const MOST_PASSES: usize = 16;

/// A message on its way to the child.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A request that is written only if somebody still waits for its answer.
    Request {
        /// Its id.
        id: u64,
        /// Its text, line end included.
        line: Bytes,
    },
    /// Anything else.
    Other(Bytes),
}

/// The way into one child.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    room: Semaphore,
}

#[derive(Debug)]
struct State {
    /// None when the child's input is closed.
    pipe: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Outgoing>,
    /// The rest of a line of which the pipe took a part.
    rest: Bytes,
    /// Whether the first writer waits for the pipe: then everything stands in line.
    is_full: bool,
    /// Whether somebody writes just now, and will look into the queue again.
    is_writing: bool,
    /// The writers, each with its worker; the first one first.
    writers: Vec<(usize, Due)>,
}

/// Wakes a writer.
pub(super) type Due = Arc<Notify>;

/// What became of a try to write.
enum Written {
    All,
    /// Much, and more was queued meanwhile.
    Some,
    /// The pipe is full.
    Blocked,
    Broken(io::Error),
}

impl Outbox {
    /// Writes to `pipe`, with a first writer that is to run where this is called.
    pub(super) fn new(pipe: pipe::Sender) -> (Self, Due) {
        let due = Due::default();
        let state = State {
            pipe: Some(Arc::new(pipe)),
            queue: VecDeque::new(),
            rest: Bytes::new(),
            is_full: false,
            is_writing: false,
            writers: vec![(worker::current(), Arc::clone(&due))],
        };
        (Self { state: Mutex::new(state), room: Semaphore::new(QUEUE) }, due)
    }

    /// Sends a message, waiting for room if need be. An error means that the input is closed. What
    /// comes back is for a writer that is to be begun on this worker ([`Outbox::write_when`]).
    ///
    /// With `is_alone` it goes out at once if it can. Otherwise those who call in the same turn of
    /// their worker share a write.
    pub(super) async fn send(
        &self,
        pending: &Pending,
        outgoing: Outgoing,
        is_alone: bool,
    ) -> io::Result<Option<Due>> {
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

    /// Sends a message that asks for no answer, if there is room.
    pub(super) fn offer(&self, line: Bytes) {
        if let Ok(room) = self.room.try_acquire() {
            room.forget();
            self.queue(Outgoing::Other(line), false);
        }
    }

    /// Puts a message into the queue and wakes the writer of this worker; that of a new one is given
    /// back if it `may_begin`.
    fn queue(&self, outgoing: Outgoing, may_begin: bool) -> Option<Due> {
        let mut state = self.lock();
        state.pipe.as_ref()?;
        state.queue.push_back(outgoing);
        if state.is_full || state.is_writing {
            return None;
        }
        let here = worker::current();
        let known = state.writers.iter().find(|(worker, _)| *worker == here).map(|(_, due)| Arc::clone(due));
        if known.is_none() && may_begin {
            let due = Due::default();
            due.notify_one();
            state.writers.push((here, Arc::clone(&due)));
            return Some(due);
        }
        let due = known.unwrap_or_else(|| state.first());
        drop(state);
        due.notify_one();
        None
    }

    /// Writes a message if nothing stands before it; gives it back if the pipe takes nothing of it.
    fn write_now(&self, pending: &Pending, outgoing: Outgoing) -> io::Result<Option<Outgoing>> {
        let state = self.lock();
        let pipe = state.pipe.clone().ok_or(ErrorKind::BrokenPipe)?;
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
        let (mut state, written) = self.put(state, &pipe, line);
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
        // What was queued meanwhile.
        self.flush_for_others(pending)?;
        Ok(None)
    }

    /// Writes `text` as far as the pipe takes it, without the lock; nobody else writes meanwhile.
    fn put<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        pipe: &pipe::Sender,
        text: &[u8],
    ) -> (MutexGuard<'s, State>, io::Result<usize>) {
        state.is_writing = true;
        drop(state);
        let written = pipe.try_write(text);
        let mut state = self.lock();
        state.is_writing = false;
        (state, written)
    }

    /// The first writer: writes what is queued, and waits for the pipe, until writing fails.
    pub(super) async fn write(&self, pending: &Pending, due: &Due) -> io::Error {
        let Some(pipe) = self.lock().pipe.clone() else { return ErrorKind::BrokenPipe.into() };
        loop {
            due.notified().await;
            self.lock().is_full = false;
            loop {
                match self.flush(pending) {
                    Written::All => break,
                    // Its worker has others to serve.
                    Written::Some => tokio::task::yield_now().await,
                    Written::Broken(error) => return error,
                    Written::Blocked => {
                        if let Err(error) = pipe.writable().await {
                            return error;
                        }
                        self.lock().is_full = false;
                    }
                }
            }
        }
    }

    /// Another writer: writes what is queued as far as the pipe takes it, until writing fails.
    pub(super) async fn write_when(&self, pending: &Pending, due: &Due) -> io::Error {
        loop {
            due.notified().await;
            if let Err(error) = self.flush_for_others(pending) {
                return error;
            }
        }
    }

    /// Writes what is queued; what is too much for one goes on with the first writer.
    fn flush_for_others(&self, pending: &Pending) -> io::Result<()> {
        match self.flush(pending) {
            Written::Broken(error) => return Err(error),
            // Told without the lock: whoever queues before it looks wakes somebody himself.
            Written::Some => {
                let first = self.lock().first();
                first.notify_one();
            }
            Written::All | Written::Blocked => {}
        }
        Ok(())
    }

    /// Closes the child's input, once the writer is gone as well.
    pub(super) fn close(&self) {
        self.room.close();
        let mut state = self.lock();
        state.pipe = None;
        state.queue.clear();
        state.rest = Bytes::new();
    }

    /// Writes until nothing is left, the pipe is full, of which the first writer is told, or it was enough
    /// for one. Nothing, while somebody else writes, who takes all of it along.
    fn flush(&self, pending: &Pending) -> Written {
        let mut state = self.lock();
        for _ in 0..MOST_PASSES {
            if state.is_writing {
                return Written::All;
            }
            let Some(pipe) = state.pipe.clone() else {
                return Written::Broken(ErrorKind::BrokenPipe.into());
            };
            // Somebody found it full, and the first writer knows.
            if state.is_full {
                return Written::Blocked;
            }
            let batch = if state.rest.is_empty() { state.take(pending) } else { Batch::default() };
            self.room.add_permits(batch.dropped);
            let text = if state.rest.is_empty() { batch.text() } else { std::mem::take(&mut state.rest) };
            if text.is_empty() {
                return Written::All;
            }
            let (now, written) = self.put(state, &pipe, &text);
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
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines that are written together.
#[derive(Default)]
struct Batch {
    lines: Vec<Outgoing>,
    /// Requests that nobody waits for any more.
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
    fn first(&self) -> Due {
        self.writers.first().map(|(_, due)| Arc::clone(due)).unwrap_or_default()
    }

    /// The pipe is full: the first writer waits for it.
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

    /// Nothing of it was written: neither of the lines, nor of the rest of one that `text` is without them.
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
