//! What a child process writes to its standard error: read to the end, written to our log.
//!
//! Invariants: it is always drained, because the child would stop at a full pipe; a flood is read only as fast as
//! [`RATE`]. A flood costs a bounded number of log lines and is counted. Configured secrets are blanked before a
//! line goes anywhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::process::ChildStderr;
use tokio::time::{Instant, sleep_until};
use tokio_util::codec::FramedRead;

use crate::protocol::foreign::shown;
use crate::telemetry::pace::Pace;
use crate::upstream::secrets::Secrets;
use crate::wire::lines::{Line, Lines};
use crate::worker::WorkBudget;

/// Bytes of one line; what is longer is not shown.
const LINE_LIMIT: usize = 8 * 1024;
/// Bytes that are read a second, each line counted for [`LINE_COST`] more.
const RATE: usize = 4 * 1024 * 1024;
const LINE_COST: usize = 256;

/// The last line a child wrote, for the reason it gets when it dies.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<Option<Line>>>);

impl LastWords {
    /// The line as it may be shown; of a flood no other one is looked at.
    pub(super) fn get(&self, secrets: &Secrets) -> Option<String> {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        line.map(|line| text(&line, secrets))
    }

    fn set(&self, line: Line) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }
}

/// Reads until the end of the stream.
pub(super) async fn drain(stream: ChildStderr, server: Arc<str>, secrets: Secrets, last: LastWords) {
    let mut lines = FramedRead::new(stream, Lines::new(LINE_LIMIT));
    let (pace, mut work) = (Pace::new(), WorkBudget::new());
    let (mut second, mut read) = (Instant::now(), 0);
    while let Some(Ok(line)) = lines.next().await {
        work.charge(line.length());
        work.yield_if_spent().await;
        read += line.length() + LINE_COST;
        last.set(line.clone());
        if let Some(suppressed) = pace.admit() {
            let line = text(&line, &secrets);
            tracing::info!(%server, suppressed, %line, "stderr of the server");
        }
        if read >= RATE {
            sleep_until(second + Duration::from_secs(1)).await;
            (second, read) = (Instant::now(), 0);
        }
    }
}

/// A line as it may be shown.
fn text(line: &Line, secrets: &Secrets) -> String {
    match line {
        Line::Whole(line) => shown(&secrets.blank(&String::from_utf8_lossy(line))),
        Line::TooLong(clip) => format!("(a line of {} bytes)", clip.length()),
    }
}
