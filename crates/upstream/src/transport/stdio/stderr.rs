//! The standard error of a child process: read to the end, and written to the log of Switchyard.
//!
//! Invariants: it is always drained, because the child would block on a full pipe. A flood is read only as fast as
//! [`RATE`]. It costs a bounded number of log lines and is counted. Configured secrets are redacted before a line is
//! logged or shown. The last lines are kept, bounded in number and in bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::codec::Decoder;

use crate::connection::Starting;
use crate::secrets::Secrets;
use net::lines::{Line, Lines};
use protocol::sanitize::shown;
use runtime::telemetry::pace::Pace;
use runtime::worker::WorkBudget;

/// The most bytes of one line. A longer line is not shown.
const LINE_LIMIT: usize = 8 * 1024;
/// The room for one read.
const READ_BYTES: usize = 8 * 1024;
/// Bytes that are read per second, with line ends and without. Each line counts for [`LINE_COST`] more.
const RATE: usize = 4 * 1024 * 1024;
const LINE_COST: usize = 256;

/// The most kept lines at the end of a child's standard error.
const KEPT_LINES: usize = 40;
/// The most bytes of all kept lines.
const KEPT_BYTES: usize = 16 * 1024;
/// The most kept lines that are quoted.
const QUOTED_LINES: usize = 5;
/// A line with one of these words is quoted even if more lines follow it, such as the frames of a stack trace.
const FAILURE_WORDS: [&str; 4] = ["error", "exception", "panicked", "fatal"];

/// The last lines of a child's standard error, and those of its standard output that are no messages. They are quoted in
/// the reason for its end, and operators can read those of standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail {
    errors: Arc<Mutex<VecDeque<Line>>>,
    output: Arc<Mutex<VecDeque<Line>>>,
    /// When the last line of standard error came.
    heard: Arc<Mutex<Option<Instant>>>,
    /// The start of the child, as long as it is under way.
    start: watch::Sender<Option<Starting>>,
}

impl StderrTail {
    /// Returns the lines that explain the end of the child, without secrets and joined into one line.
    pub(super) fn quote(&self, secrets: &Secrets) -> Option<String> {
        quote(&lock(&self.errors).clone(), secrets)
    }

    /// Appends the quoted lines to `reason`. Those of standard output are quoted if there are no others.
    pub(super) fn append_to(&self, reason: &str, secrets: &Secrets) -> String {
        if let Some(lines) = self.quote(secrets) {
            return format!("{reason}; the end of its standard error: {lines}");
        }
        match quote(&lock(&self.output).clone(), secrets) {
            Some(lines) => format!("{reason}; the end of its standard output: {lines}"),
            None => reason.to_owned(),
        }
    }

    /// Whether the child wrote no line to standard error yet.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.errors).is_empty()
    }

    /// Returns the kept lines of standard error, without secrets.
    pub(super) fn lines(&self, secrets: &Secrets) -> Vec<String> {
        let lines = lock(&self.errors).clone();
        lines.iter().map(|line| text(line, secrets)).collect()
    }

    /// Removes the lines of an earlier child.
    pub(super) fn clear(&self) {
        lock(&self.errors).clear();
        lock(&self.output).clear();
    }

    /// The lines of a child whose start is reported to `start`.
    pub(super) fn reporting(start: watch::Sender<Option<Starting>>) -> Self {
        Self { start, ..Self::default() }
    }

    /// When the last line of standard error came.
    pub(super) fn heard(&self) -> Option<Instant> {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Line) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        push(&mut lock(&self.errors), line);
    }

    /// Reports a line, while the child is starting.
    fn report(&self, line: impl FnOnce() -> String) {
        if self.start.borrow().is_none() {
            return;
        }
        let line = line();
        self.start.send_if_modified(|start| match start {
            Some(start) => {
                start.last_line = Some(line);
                true
            }
            None => false,
        });
    }

    /// Keeps a line of standard output that is no message.
    pub(super) fn push_output(&self, line: &Bytes) {
        push(&mut lock(&self.output), Line::Whole(line.slice(..line.len().min(LINE_LIMIT))));
    }
}

/// Returns the lines that explain the end of the child, without secrets and joined into one line.
fn quote(stored: &VecDeque<Line>, secrets: &Secrets) -> Option<String> {
    let lines: Vec<String> = stored.iter().map(|line| text(line, secrets)).collect();
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(QUOTED_LINES));
    let mut quoted: Vec<&str> = last.iter().map(String::as_str).collect();
    if !last.iter().any(|line| names_failure(line))
        && let Some(line) = earlier.iter().rfind(|line| names_failure(line))
    {
        quoted.splice(..0, [line.as_str(), "…"]);
    }
    (!quoted.is_empty()).then(|| quoted.join(" | "))
}

fn push(lines: &mut VecDeque<Line>, line: Line) {
    let line = match line {
        // Otherwise a short line would keep the whole buffer that it was read into.
        Line::Whole(line) => Line::Whole(Bytes::copy_from_slice(&line)),
        long @ Line::TooLong(_) => long,
    };
    lines.push_back(line);
    let mut bytes: usize = lines.iter().map(held).sum();
    while lines.len() > KEPT_LINES || bytes > KEPT_BYTES {
        bytes -= lines.pop_front().as_ref().map_or(bytes, held);
    }
}

fn lock(lines: &Mutex<VecDeque<Line>>) -> MutexGuard<'_, VecDeque<Line>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the bytes of a kept line.
fn held(line: &Line) -> usize {
    match line {
        Line::Whole(line) => line.len(),
        Line::TooLong(_) => 0,
    }
}

fn names_failure(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    FAILURE_WORDS.iter().any(|word| line.contains(word))
}

/// Reads until the end of the stream.
pub(super) async fn drain(mut stream: ChildStderr, server: Arc<str>, secrets: Secrets, tail: StderrTail) {
    let (mut lines, mut buffer) = (Lines::new(LINE_LIMIT), BytesMut::with_capacity(READ_BYTES));
    let pace = Pace::new();
    let take = |line: Line| {
        if let Some(suppressed) = pace.admit() {
            let line = text(&line, &secrets);
            tracing::info!(%server, suppressed, %line, "stderr of the server");
        }
        tail.report(|| text(&line, &secrets));
        tail.push(line);
    };
    let (mut work, mut second, mut read) = (WorkBudget::new(), Instant::now(), 0);
    while let Ok(count) = stream.read_buf(&mut buffer).await
        && count > 0
    {
        work.charge(count);
        read += count;
        while let Ok(Some(line)) = lines.decode(&mut buffer) {
            take(line);
            read += LINE_COST;
            work.charge(0);
            work.yield_if_spent().await;
        }
        work.yield_if_spent().await;
        if read >= RATE {
            sleep_until(second + Duration::from_secs(1)).await;
            (second, read) = (Instant::now(), 0);
        }
        buffer.reserve(READ_BYTES);
    }
    if let Ok(Some(line)) = lines.decode_eof(&mut buffer) {
        take(line);
    }
}

/// The text of a line that may be shown.
fn text(line: &Line, secrets: &Secrets) -> String {
    match line {
        Line::Whole(line) => shown(&secrets.redact(&String::from_utf8_lossy(line))),
        Line::TooLong(clip) => format!("(a line of {} bytes)", clip.length()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(lines: &[&str]) -> StderrTail {
        let tail = StderrTail::default();
        for line in lines {
            tail.push(Line::Whole(Bytes::from((*line).to_owned())));
        }
        tail
    }

    #[test]
    fn last_lines_and_the_line_that_names_the_error_are_quoted() {
        let none = Secrets::new(&[]);
        assert_eq!(tail(&[]).quote(&none), None);
        assert_eq!(tail(&["a", "b"]).quote(&none).as_deref(), Some("a | b"));
        assert_eq!(tail(&["a", "b", "c", "d", "e", "f"]).quote(&none).as_deref(), Some("b | c | d | e | f"));
        let trace = ["loader:1", "Error: Cannot find module x", "1", "2", "3", "4", "5", "6"];
        let quoted = tail(&trace).quote(&none);
        assert_eq!(quoted.as_deref(), Some("Error: Cannot find module x | … | 2 | 3 | 4 | 5 | 6"));
        let secrets = Secrets::new(&["tok-123456".into()]);
        let text = tail(&["bad tok-123456"]).append_to("it ended", &secrets);
        assert_eq!(text, "it ended; the end of its standard error: bad ***");
    }

    #[test]
    fn standard_output_is_quoted_if_standard_error_says_nothing() {
        let (none, silent) = (Secrets::new(&["tok-123456".into()]), tail(&[]));
        silent.push_output(&Bytes::from_static(b"Error: API key tok-123456 missing"));
        let text = silent.append_to("it ended", &none);
        assert_eq!(text, "it ended; the end of its standard output: Error: API key *** missing");
        silent.push(Line::Whole(Bytes::from_static(b"really")));
        assert_eq!(silent.append_to("it ended", &none), "it ended; the end of its standard error: really");
    }

    #[test]
    fn kept_lines_are_bounded_in_number_and_in_bytes() {
        let tail = tail(&["x"; 1000]);
        assert_eq!(lock(&tail.errors).len(), KEPT_LINES);
        let line = Bytes::from(vec![b'x'; LINE_LIMIT]);
        (0..100).for_each(|_| tail.push(Line::Whole(line.clone())));
        assert_eq!(lock(&tail.errors).iter().map(held).sum::<usize>(), KEPT_BYTES);
        let quoted = tail.quote(&Secrets::new(&[])).expect("lines");
        assert!(quoted.chars().count() < 1_200, "{} characters", quoted.chars().count());
    }
}
