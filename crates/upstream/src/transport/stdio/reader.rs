//! Reads the child's output and sends each message to its receiver.
//!
//! The reader takes all lines that have arrived, then sends the responses in them. Responses for callers on this worker
//! are sent at once. Those for another worker are sent in one task there, because each wake-up across threads is a
//! system call. If all responses go to one other worker for a while, the reader moves there, so that calls of one
//! worker are answered on it.
//!
//! Invariants: the reader waits for output only, so that one caller cannot delay another. A message that was read is
//! not delayed until more output arrives. The pipe has one reader at a time, whose state moves with it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::Handle;
use tokio_util::codec::Decoder;
use tokio_util::sync::CancellationToken;

use super::stderr::StderrTail;
use crate::connection::{Closing, Events};
use crate::error::Error;
use crate::transport::inbound::{FloodGuard, Relevance};
use crate::transport::pending::{Pending, SettledRequest};
use crate::transport::questions::Questions;
use crate::transport::{handshake, inbound};
use net::Clip;
use net::lines::{Line, Lines};
use protocol::{Message, ParseError};
use runtime::memory::{Account, Charge, ChargeKind};
use runtime::shutdown::Shutdown;
use runtime::telemetry::pace::Pace;
use runtime::worker::{self, Runtimes, WorkBudget};

/// The room for one read. A pipe holds 64 KiB.
const READ_BYTES: usize = 32 * 1024;
/// The least room for a read, so that the end of the buffer causes no small reads.
const LEAST_ROOM: usize = 4 * 1024;
/// Longer lines are charged while they are read, and share no buffer with the lines after them.
const LONG: usize = 2 * READ_BYTES;
/// Longer lines get room up to the limit at once.
const VERY_LONG: usize = 1024 * 1024;
/// The number of consecutive responses for one other worker after which the reader moves there.
const MOVES_AFTER: usize = 64;

/// How long a response may take after a line on standard output that looks like a log of it.
const DOUBT: Duration = Duration::from_secs(1);

/// The reading end of one child.
pub(super) struct StdioReader {
    server: Arc<str>,
    lines: Lines,
    limit: usize,
    buffer: BytesMut,
    router: ResponseRouter,
    questions: Questions,
    events: Events,
    /// The responses in the lines that were read just now.
    answered: Vec<SettledRequest>,
    /// The share of the worker of the last responses, and the number of consecutive responses for it.
    row: (usize, usize),
    /// Lines that were not messages.
    skipped: u64,
    work: WorkBudget,
    floods: FloodGuard,
    /// Ends the connection of a program that is no server.
    broken: Closing,
    /// The charge for a long line while it is read.
    charge: Charge,
    /// Whether the line that is being discarded found no room in the memory budget.
    is_exhausted: bool,
    /// Limits the log lines about messages beyond the limit.
    pace: Pace,
    /// Keeps the lines that are no messages.
    tail: StderrTail,
}

/// The receivers of responses, and their runtimes.
pub(super) struct ResponseRouter {
    pub(super) pending: Arc<Pending>,
    pub(super) runtimes: Arc<Runtimes>,
    pub(super) tasks: Shutdown,
}

/// Signals when dropped that all output was handled.
pub(super) struct OutputEnd(Signals);

impl OutputEnd {
    pub(super) const fn new(signals: Signals) -> Self {
        Self(signals)
    }
}

impl Drop for OutputEnd {
    fn drop(&mut self) {
        self.0.read.cancel();
        self.0.broken.close("the process closed its output");
    }
}

impl StdioReader {
    pub(super) fn new(
        server: Arc<str>,
        limit: usize,
        router: ResponseRouter,
        (questions, events): (Questions, Events),
        broken: &Closing,
        tail: StderrTail,
    ) -> Self {
        let floods = FloodGuard::new(&server, broken);
        let charge = Charge::open(Account::Server(Arc::clone(&server)), ChargeKind::Answer);
        Self {
            server,
            lines: Lines::new(limit),
            limit,
            buffer: BytesMut::with_capacity(READ_BYTES),
            router,
            questions,
            events,
            answered: Vec::new(),
            row: (worker::share(), 0),
            skipped: 0,
            work: WorkBudget::new(),
            floods,
            broken: broken.clone(),
            charge,
            is_exhausted: false,
            pace: Pace::new(),
            tail,
        }
    }

    /// Reads until the end of the output, or until it must stop.
    pub(super) async fn run(mut self, mut stdout: pipe::Receiver, over: OutputEnd) {
        let stop = over.0.stop_reading.clone();
        let moves = stop.run_until_cancelled(self.read(&mut stdout)).await.flatten();
        if let Some(there) = moves
            && let Ok(stdout) = stdout.into_nonblocking_fd()
        {
            self.go_on(stdout, over, &there);
        }
    }

    /// Continues in another runtime, which watches the pipe from now on.
    fn go_on(self, stdout: OwnedFd, over: OutputEnd, there: &Handle) {
        let tasks = self.router.tasks.clone();
        let task = async move {
            if let Ok(stdout) = pipe::Receiver::from_owned_fd(stdout) {
                self.run(stdout, over).await;
            }
        };
        tasks.spawn_on(task, there);
    }

    /// Reads until the end of the output, or until it should continue in the returned runtime.
    async fn read(&mut self, stdout: &mut pipe::Receiver) -> Option<Handle> {
        loop {
            self.take_lines().await?;
            self.charge_rest();
            self.deliver();
            if let Some(there) = self.moves() {
                return Some(there);
            }
            self.buffer.reserve(self.room());
            if stdout.read_buf(&mut self.buffer).await.ok()? == 0 {
                break;
            }
            self.events.heard();
        }
        while let Ok(Some(line)) = self.lines.decode_eof(&mut self.buffer) {
            self.take(line);
        }
        self.deliver();
        None
    }

    /// Handles the lines that have arrived; `None` if the server floods.
    async fn take_lines(&mut self) -> Option<()> {
        // It never fails. The error type belongs to codecs that read by themselves.
        while let Ok(Some(line)) = self.lines.decode(&mut self.buffer) {
            let length = line.length();
            let is_long = matches!(&line, Line::Whole(line) if line.len() > LONG);
            let (relevance, messages) = self.take(line);
            if is_long {
                // Otherwise each short line after it would keep the memory of the long one.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            self.work.charge(length);
            if relevance != Relevance::Wanted || self.work.may_be_spent() {
                // A response that was read does not wait for the lines after it.
                self.deliver();
                self.floods.admit_batch(relevance, length, messages).await.ok()?;
                self.work.yield_if_spent().await;
            }
        }
        let ignored = self.lines.take_ignored();
        if ignored > 0 {
            self.work.charge(ignored);
            self.floods.admit(Relevance::Junk, ignored).await.ok()?;
        }
        Some(())
    }

    /// Handles a line. Returns its relevance and its number of messages.
    fn take(&mut self, line: Line) -> (Relevance, usize) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong(clip) => return (self.take_clip(&clip), 1),
        };
        inbound::read(&line, |message, text| self.take_message(message, text), Relevance::and)
    }

    fn take_message(&mut self, message: Result<Message, ParseError>, text: &Bytes) -> Relevance {
        match message {
            Ok(Message::Response(response)) => {
                let Some(answered) = self.router.pending.answered(response) else { return Relevance::Junk };
                self.answered.push(answered);
                Relevance::Wanted
            }
            Ok(Message::Notification(notification)) if self.questions.is_withdrawn_by(&notification) => {
                Relevance::Wanted
            }
            Ok(Message::Notification(notification)) => {
                inbound::sort(notification, &self.events, |notification| {
                    self.router.pending.notify(notification)
                })
            }
            Ok(Message::Request(request)) if handshake::is_of_client(&request.method) => {
                self.broken.close(handshake::ECHO);
                Relevance::Junk
            }
            Ok(Message::Request(request)) => {
                inbound::record(&request, &self.events);
                let pending = Arc::clone(&self.router.pending);
                self.questions.take(request, move |owner| pending.attribute(owner))
            }
            Err(error) => self.take_unreadable(text, &error),
        }
    }

    /// Handles a line that is no message. If it is the response to a request, that request fails at once. If it only has
    /// the text of one, it may be a log line, and the response has a moment to follow.
    fn take_unreadable(&mut self, line: &Bytes, error: &ParseError) -> Relevance {
        let pending = &self.router.pending;
        let (named, is_log_line) = (pending.named_in(line), is_log_line(line, error));
        let (settled, doubted) = if is_log_line {
            (Vec::new(), pending.doubt(&named))
        } else {
            (pending.unreadable(&named, &Error::unreadable(error)), Vec::new())
        };
        let relevance = match () {
            () if !settled.is_empty() || !doubted.is_empty() => Relevance::Wanted,
            // Many programs log a response after they wrote it, or several times.
            () if is_log_line && !named.is_empty() => Relevance::Notice,
            () => Relevance::Junk,
        };
        if !doubted.is_empty() {
            let (pending, error) = (Arc::clone(pending), Error::unreadable(error));
            self.router.tasks.spawn_until_end(async move {
                tokio::time::sleep(DOUBT).await;
                for id in doubted {
                    pending.fail(id, error.clone());
                }
            });
        }
        // The tail is shown to operators, and lines of calls may be private.
        if named.is_empty() {
            self.tail.push_output(line);
        }
        let is_answer = !settled.is_empty();
        self.answered.extend(settled);
        if self.is_logged() {
            let (server, skipped) = (&self.server, self.skipped);
            tracing::warn!(%server, skipped, is_answer, %error, "lines on stdout that are no MCP message were skipped");
        }
        relevance
    }

    /// The bytes to reserve. A long line gets room up to the limit at once, because it would be in memory twice with
    /// each doubling. Pages that are not written yet cost nothing.
    fn room(&self) -> usize {
        let (held, most) = (self.buffer.len(), self.limit.saturating_add(LONG));
        if held > VERY_LONG { most.saturating_sub(held).max(LEAST_ROOM) } else { LEAST_ROOM }
    }

    /// Charges the line that has begun to the server. Without memory for it, the line is discarded.
    fn charge_rest(&mut self) {
        let held = self.buffer.len();
        if held <= LONG {
            self.charge.clear();
        } else if self.charge.cover(held).is_err() {
            self.is_exhausted = true;
            self.charge.clear();
            self.lines.give_up(&mut self.buffer);
        }
    }

    /// Handles a discarded line, which was beyond the limit or found no room in the memory budget.
    fn take_clip(&mut self, clip: &Clip) -> Relevance {
        let (pending, bytes) = (&self.router.pending, clip.length());
        let (answered, reason) = if std::mem::take(&mut self.is_exhausted) {
            (pending.answer_lost(clip, Error::MemoryExhausted), "the memory budget had no room for it")
        } else {
            (pending.answer_too_long(clip, self.limit), "it is beyond the cap")
        };
        if let Some(suppressed) = self.pace.admit() {
            tracing::warn!(server = %self.server, bytes, answered, reason, suppressed, "a message was skipped");
        }
        if answered { Relevance::Wanted } else { Relevance::Junk }
    }

    /// Sends the responses of this turn.
    fn deliver(&mut self) {
        let of = |share: usize| move |answered: &SettledRequest| answered.share == share;
        while let Some(share) = self.answered.last().map(|answered| answered.share) {
            let count = self.answered.iter().filter(|answered| of(share)(answered)).count();
            self.row = if self.row.0 == share { (share, self.row.1 + count) } else { (share, count) };
            let group = self.answered.extract_if(.., |answered| of(share)(answered));
            match self.router.runtimes.of(share) {
                Some(there) if count > 1 && share != worker::share() => {
                    let group: Vec<SettledRequest> = group.collect();
                    self.router.tasks.spawn_on(async move { group.into_iter().for_each(deliver) }, there);
                }
                _ => group.for_each(deliver),
            }
        }
    }

    /// The runtime in which the reader should continue, if that is another one.
    fn moves(&mut self) -> Option<Handle> {
        let (share, count) = self.row;
        if count < MOVES_AFTER || share == worker::share() {
            return None;
        }
        self.row.1 = 0;
        self.router.runtimes.of(share).cloned()
    }

    /// Counts a skipped line. Real servers print banners, so only the 1st, 2nd, 4th, 8th and so on are logged.
    const fn is_logged(&mut self) -> bool {
        self.skipped += 1;
        self.skipped.is_power_of_two()
    }
}

/// Whether a line that is no message because of `error` is rather about a message: text before it, or JSON of its own.
fn is_log_line(line: &[u8], error: &ParseError) -> bool {
    match error {
        ParseError::Version => true,
        ParseError::LargeBatch => false,
        _ => !line.trim_ascii_start().starts_with(b"{"),
    }
}

/// Sends the response. A caller that is gone needs none.
fn deliver(answered: SettledRequest) {
    answered.deliver();
}

/// The signals between the tasks of one child.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// One of the pipes is broken, with the reason.
    pub(super) broken: Closing,
    /// Tells the writer to close the child's input.
    pub(super) stop_writing: CancellationToken,
    /// Tells the readers to stop, even if another process still holds the pipes.
    pub(super) stop_reading: CancellationToken,
    /// All output of the child was handled.
    pub(super) read: CancellationToken,
    /// All standard error of the child was read.
    pub(super) heard: CancellationToken,
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
