//! The queue between the program and standard error or the log file: parts put lines into it, one thread writes them.
//!
//! Invariants: putting a line never waits for the reader of standard error. Log lines that wait are bounded in number
//! and in bytes; those beyond are dropped and counted. Audit lines are never dropped: an action that needs one is refused
//! before it runs if too many wait, or if too many actions run ([`Slot`]). So at most the sum of both can wait. Lines are
//! written whole, in the order in which they came. Lines that wait are lost if the process is killed. For `server.log_file` only
//! a regular file is opened, no link and no file of another user, and a new one has the mode 0640. If the file is moved or
//! removed, a new one is made at its path within a second, so a program such as logrotate needs no signal.
//!
//! It does not format lines, does not decide what is worth one, and does not limit the size of the file.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tracing_subscriber::fmt::MakeWriter;

use super::limit::Limit;
use super::pace;
use crate::fair_shares::FairShares;
use crate::private_file;
use protocol::visible::is_visible;

/// The target of audit lines.
pub const AUDIT_TARGET: &str = "switchyard::audit";
/// The limit of waiting log lines.
const LOG: QueueUsage = QueueUsage { lines: 8_192, bytes: 4 << 20 };
/// The limit of waiting audit lines.
const AUDIT: QueueUsage = QueueUsage { lines: 4_096, bytes: 4 << 20 };
/// Pause after a failed write before the next attempt.
const RETRY: Duration = Duration::from_millis(20);
/// Interval of the summaries of suppressed lines.
const SUMMARY: Duration = Duration::from_secs(1);

/// The queue of this process.
pub(super) static QUEUE: LogQueue = LogQueue::new();

/// The kind of a line decides whether it may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    Log,
    Audit,
}

/// How much of the room for waiting audit lines, and for running actions, an action may fill, so that frequent ones cannot
/// shut out rare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quota {
    /// Refusals by role, which any authenticated client can cause.
    Half,
    /// Calls.
    ThreeQuarters,
    /// Operations, and lines that belong to no action.
    All,
}

/// An action was refused, because there is no room for its audit line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// The waiting lines are not written fast enough.
    #[error(
        "the audit log cannot be written at present, so this was not done; try again in a moment, or tell the operator"
    )]
    Lines,
    /// The principal, or all principals together, run too many actions.
    #[error("too many audited actions are running, so this was not done; wait until some of them have ended")]
    Actions,
}

#[derive(Debug)]
struct Line {
    kind: LineKind,
    bytes: Box<[u8]>,
}

#[derive(Debug, Clone, Copy)]
struct QueueUsage {
    lines: usize,
    bytes: usize,
}

impl QueueUsage {
    const NONE: Self = Self { lines: 0, bytes: 0 };

    const fn with(self, bytes: usize) -> Self {
        Self { lines: self.lines + 1, bytes: self.bytes + bytes }
    }

    const fn without(self, bytes: usize) -> Self {
        Self { lines: self.lines - 1, bytes: self.bytes - bytes }
    }

    const fn exceeds(self, most: Self) -> bool {
        self.lines > most.lines || self.bytes > most.bytes
    }

    const fn quarters(self, count: usize) -> Self {
        Self { lines: self.lines / 4 * count, bytes: self.bytes / 4 * count }
    }
}

impl Quota {
    const fn quarters(self) -> usize {
        match self {
            Self::Half => 2,
            Self::ThreeQuarters => 3,
            Self::All => 4,
        }
    }
}

/// Lines on their way to standard error.
#[derive(Debug)]
pub(super) struct LogQueue {
    state: Mutex<State>,
    /// Notified when there is a line to write.
    filled: Condvar,
    /// Notified when no line is left.
    emptied: Condvar,
}

#[derive(Debug)]
struct State {
    has_writer: bool,
    lines: VecDeque<Line>,
    /// Usage by lines that wait, including the one that is being written.
    log: QueueUsage,
    audit: QueueUsage,
    /// Actions whose audit lines are still to be put.
    running: Running,
    /// Log lines dropped since the log last said how many.
    dropped: u64,
}

/// A running action of a principal, held until its audit line was put into the queue.
#[derive(Debug)]
pub(super) struct Slot {
    queue: Option<&'static LogQueue>,
    principal: String,
}

impl Slot {
    pub(super) fn principal(&self) -> &str {
        &self.principal
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(queue) = self.queue {
            queue.lock().running.remove(&self.principal);
        }
    }
}

/// Audited actions that may run at a time.
const RUNNING: usize = 16_384;

/// The running actions of each principal.
#[derive(Debug)]
struct Running(FairShares<String, 3>);

impl Running {
    const fn new() -> Self {
        Self(FairShares::new())
    }

    /// Counts one more action of `principal`, if it has room within `room`.
    fn add(&mut self, principal: &str, room: usize) -> bool {
        let free = room.saturating_sub(self.0.sum() + 1);
        self.0.take(principal, 1, free).is_ok()
    }

    /// An action that was added has ended.
    fn remove(&mut self, principal: &str) {
        self.0.give_back(principal, 1);
    }
}

impl LogQueue {
    pub(super) const fn new() -> Self {
        let state = State {
            has_writer: false,
            lines: VecDeque::new(),
            log: QueueUsage::NONE,
            audit: QueueUsage::NONE,
            running: Running::new(),
            dropped: 0,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that writes to `out`.
    pub(super) fn start(&'static self, out: impl Write + Send + 'static) -> io::Result<()> {
        self.lock().has_writer = true;
        std::thread::Builder::new().name("log".to_owned()).spawn(move || self.write_to(out)).map(drop)
    }

    /// Appends a line, or drops it if it is a log line and there is no room.
    pub(super) fn put(&self, kind: LineKind, line: &[u8]) {
        let mut state = self.lock();
        let usage = state.usage(kind).with(line.len());
        if kind == LineKind::Log && usage.exceeds(LOG) {
            state.dropped += 1;
            drop(state);
            return Limit::LogLines.met(());
        }
        *state.usage(kind) = usage;
        state.lines.push_back(Line { kind, bytes: line.into() });
        let is_first = state.lines.len() == 1;
        drop(state);
        if is_first {
            self.filled.notify_one();
        }
    }

    /// Fails if the audit lines that wait already fill `share` of their room.
    pub(super) fn check(&self, quota: Quota) -> Result<(), Full> {
        let state = self.lock();
        if state.has_writer && state.audit.with(0).exceeds(AUDIT.quarters(quota.quarters())) {
            drop(state);
            return Limit::AuditLines.met(Err(Full::Lines));
        }
        Ok(())
    }

    /// Counts a running action of `principal`, whose line is put at its end.
    pub(super) fn reserve(&'static self, quota: Quota, principal: &str) -> Result<Slot, Full> {
        self.check(quota)?;
        let mut state = self.lock();
        let is_bounded = state.has_writer;
        if is_bounded && !state.running.add(principal, RUNNING / 4 * quota.quarters()) {
            drop(state);
            return Limit::AuditActions.met(Err(Full::Actions));
        }
        drop(state);
        Ok(Slot { queue: is_bounded.then_some(self), principal: principal.to_owned() })
    }

    /// Waits until every line is written, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let state = self.lock();
        let is_filled = |state: &mut State| state.has_writer && state.log.lines + state.audit.lines > 0;
        // After the limit the program ends without writing the rest.
        let _ = self.emptied.wait_timeout_while(state, limit, is_filled);
    }

    fn write_to(&self, mut out: impl Write) {
        let mut summary_at = None;
        loop {
            if let Some(line) = self.next(summary_at) {
                let is_written = write_whole(&mut out, &line);
                self.finish(&line, is_written);
                summary_at.get_or_insert_with(|| Instant::now() + SUMMARY);
            } else {
                pace::summarize();
                summary_at = None;
            }
        }
    }

    /// The oldest line, once there is one; `None` at `until`.
    fn next(&self, until: Option<Instant>) -> Option<Line> {
        let mut state = self.lock();
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if let Some(line) = state.lines.pop_front() {
                return Some(line);
            }
            state = match left {
                Some(left) => self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn finish(&self, line: &Line, is_written: bool) {
        let mut state = self.lock();
        let usage = state.usage(line.kind);
        *usage = usage.without(line.bytes.len());
        if state.log.lines + state.audit.lines == 0 {
            self.emptied.notify_all();
        }
        let mut to_tell = 0;
        if !is_written {
            state.dropped += 1;
        } else if !state.log.exceeds(LOG.quarters(2)) {
            to_tell = std::mem::take(&mut state.dropped);
        }
        drop(state);
        if !is_written {
            Limit::LogLines.met(());
        }
        if to_tell > 0 {
            tracing::warn!(
                dropped = to_tell,
                "log lines were dropped because standard error was not read fast enough; audit lines are complete"
            );
        }
    }
}

impl State {
    const fn usage(&mut self, kind: LineKind) -> &mut QueueUsage {
        match kind {
            LineKind::Log => &mut self.log,
            LineKind::Audit => &mut self.audit,
        }
    }
}

/// Writes a line completely. Returns false for a log line of which nothing could be written. Any other line is tried
/// again until it succeeds.
#[allow(clippy::disallowed_methods)] // it sleeps on the thread of the log, which runs nothing else
fn write_whole(out: &mut impl Write, line: &Line) -> bool {
    let mut rest = &*line.bytes;
    while !rest.is_empty() {
        match out.write(rest) {
            Ok(written) if written > 0 => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(RETRY),
            _ if line.kind == LineKind::Audit || rest.len() < line.bytes.len() => std::thread::sleep(RETRY),
            _ => return false,
        }
    }
    true
}

/// Returns `line` with its invisible characters as `\u` escapes, except the line end.
fn visible_json(line: &[u8]) -> Cow<'_, [u8]> {
    let is_plain = |byte: &u8| byte.is_ascii() && *byte != 0x7f;
    let Some(text) = std::str::from_utf8(line).ok().filter(|_| !line.iter().all(is_plain)) else {
        return line.into();
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) || c == '\n' {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A string can always be written to.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown.into_bytes().into()
}

/// Puts each line that `tracing` formats into the queue.
pub(super) struct Lines {
    /// Whether lines are JSON. Their invisible characters are escaped here, whatever a field has; `pretty` does it itself.
    pub(super) is_json: bool,
}

/// One line; `tracing` writes each with one call.
pub(super) struct LineWriter {
    kind: LineKind,
    is_json: bool,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.is_json {
            QUEUE.put(self.kind, &visible_json(line));
        } else {
            QUEUE.put(self.kind, line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter { kind: LineKind::Log, is_json: self.is_json }
    }

    fn make_writer_for(&'a self, about: &tracing::Metadata<'_>) -> LineWriter {
        let kind = if about.target() == AUDIT_TARGET { LineKind::Audit } else { LineKind::Log };
        LineWriter { kind, is_json: self.is_json }
    }
}

/// How often the path is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The mode of a new file: its owner and its group may read it.
const MODE: u32 = 0o640;

/// An open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    /// Device and number of the open file.
    identity: (u64, u64),
    checked: Instant,
}

impl LogFile {
    /// Opens the file at `path`, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Opening a FIFO must not wait for its other end.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(MODE).custom_flags(flags.bits().cast_signed());
        let file = options.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        private_file::check_owner(&found)?;
        let identity = (found.dev(), found.ino());
        Ok(Self { path: path.to_owned(), file, identity, checked: Instant::now() })
    }

    /// Opens the file that is at the path now, if it is another one. If there is none, the log stays in the old file.
    fn follow(&mut self) {
        self.checked = Instant::now();
        let is_same =
            std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if !is_same && let Ok(next) = Self::open(&self.path) {
            *self = next;
        }
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.checked.elapsed() >= CHECK_INTERVAL {
            self.follow();
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
#[path = "log_queue_tests.rs"]
mod tests;
