//! What goes into the child's input: written by its sender while the pipe takes it, and in its turn
//! by a task otherwise.
//!
//! ```text
//! send ── nobody else calls ──────────> pipe
//!   └──── others do, or it is full ──> queue (64) ──> writer ── as many lines as fit at once ──> pipe
//! ```
//!
//! Invariants: a line is whole before the next one begins; a request that was given up while it
//! stood in the queue is never written; nobody waits for the pipe but the writer and those for whom
//! the queue has no room. The lock is held for one write, which never blocks.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, Semaphore};

use crate::upstream::transport::pending::Pending;
use crate::worker;

/// Messages that may wait for the child to read; more senders wait for room.
const QUEUE: usize = 64;

/// What a pipe takes whole or not at all (`PIPE_BUF` of Linux), so that lines written together can go
/// back into the queue together.
const AT_ONCE: usize = 4096;

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
    due: Notify,
    /// The worker on which the writer runs.
    home: usize,
}

#[derive(Debug)]
struct State {
    /// None when the child's input is closed.
    pipe: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Outgoing>,
    /// The rest of a line of which the pipe took a part.
    rest: Bytes,
    /// Whether the writer is at it, or about to be: then everything stands in line.
    is_busy: bool,
}

/// What became of a try to write.
enum Written {
    All,
    /// The pipe is full.
    Blocked,
    Broken(io::Error),
}

impl Outbox {
    /// Writes to `pipe`; the writer is to run where this is called.
    pub(super) fn new(pipe: pipe::Sender) -> Self {
        let (pipe, queue) = (Some(Arc::new(pipe)), VecDeque::new());
        let state = Mutex::new(State { pipe, queue, rest: Bytes::new(), is_busy: false });
        Self { state, room: Semaphore::new(QUEUE), due: Notify::new(), home: worker::current() }
    }

    /// Sends a message, waiting for room if need be. An error means that the input is closed.
    ///
    /// With `is_alone` it goes out at once if it can. Otherwise those who call in the same turn of the
    /// writer's worker share a write.
    pub(super) async fn send(&self, pending: &Pending, outgoing: Outgoing, is_alone: bool) -> io::Result<()> {
        let mut outgoing = outgoing;
        if is_alone || worker::current() != self.home {
            match self.write_now(pending, outgoing)? {
                None => return Ok(()),
                Some(unwritten) => outgoing = unwritten,
            }
        }
        self.room.acquire().await.map_err(|_| ErrorKind::BrokenPipe)?.forget();
        self.queue(outgoing);
        Ok(())
    }

    /// Sends a message that asks for no answer, if there is room.
    pub(super) fn offer(&self, line: Bytes) {
        if let Ok(room) = self.room.try_acquire() {
            room.forget();
            self.queue(Outgoing::Other(line));
        }
    }

    fn queue(&self, outgoing: Outgoing) {
        let mut state = self.lock();
        if state.pipe.is_none() {
            return;
        }
        state.queue.push_back(outgoing);
        let was_busy = std::mem::replace(&mut state.is_busy, true);
        drop(state);
        if !was_busy {
            self.due.notify_one();
        }
    }

    /// Writes a message if nothing stands before it; gives it back if the pipe takes nothing of it.
    fn write_now(&self, pending: &Pending, outgoing: Outgoing) -> io::Result<Option<Outgoing>> {
        let mut state = self.lock();
        if state.is_busy {
            return Ok(Some(outgoing));
        }
        let pipe = state.pipe.clone().ok_or(ErrorKind::BrokenPipe)?;
        let (id, line) = match &outgoing {
            Outgoing::Request { id, line } => (Some(*id), line),
            Outgoing::Other(line) => (None, line),
        };
        if id.is_some_and(|id| !pending.begin_writing(id)) {
            return Ok(None);
        }
        match pipe.try_write(line) {
            Ok(written) => {
                state.rest = line.slice(written..);
                state.is_busy = !state.rest.is_empty();
                if state.is_busy {
                    self.due.notify_one();
                }
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if let Some(id) = id {
                    pending.not_written(id);
                }
                Ok(Some(outgoing))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes what is queued, until writing fails.
    pub(super) async fn run(&self, pending: &Pending) -> io::Error {
        let Some(pipe) = self.lock().pipe.clone() else { return ErrorKind::BrokenPipe.into() };
        loop {
            self.due.notified().await;
            loop {
                match self.flush(pending, &pipe) {
                    Written::All => break,
                    Written::Broken(error) => return error,
                    Written::Blocked => {
                        if let Err(error) = pipe.writable().await {
                            return error;
                        }
                    }
                }
            }
        }
    }

    /// Closes the child's input, once the writer is gone as well.
    pub(super) fn close(&self) {
        self.room.close();
        let mut state = self.lock();
        state.pipe = None;
        state.queue.clear();
        state.rest = Bytes::new();
    }

    /// Writes until nothing is left or the pipe is full.
    fn flush(&self, pending: &Pending, pipe: &pipe::Sender) -> Written {
        let mut state = self.lock();
        loop {
            while !state.rest.is_empty() {
                match pipe.try_write(&state.rest) {
                    Ok(written) => drop(state.rest.split_to(written)),
                    Err(error) => return Written::of(error),
                }
            }
            let batch = state.take(pending);
            self.room.add_permits(batch.dropped);
            if batch.lines.is_empty() {
                state.is_busy = false;
                return Written::All;
            }
            let text = batch.text();
            match pipe.try_write(&text) {
                Ok(written) => {
                    self.room.add_permits(batch.lines.len());
                    state.rest = text.slice(written..);
                }
                Err(error) => {
                    state.put_back(batch, pending);
                    return Written::of(error);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    fn of(error: io::Error) -> Self {
        if error.kind() == ErrorKind::WouldBlock { Self::Blocked } else { Self::Broken(error) }
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
        if let [only] = self.lines.as_slice() {
            return only.line().clone();
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

    /// Nothing of it was written.
    fn put_back(&mut self, batch: Batch, pending: &Pending) {
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
