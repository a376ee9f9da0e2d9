//! What a child process writes to its standard error: read to the end, written to our log.
//!
//! Invariants: it is always drained, or the child would stop at a full pipe; a flood costs a bounded
//! number of log lines and is counted; configured secrets are blanked before a line goes anywhere.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use tokio::process::ChildStderr;
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

use crate::protocol::foreign::shown;
use crate::upstream::secrets::Secrets;
use crate::upstream::transport::pace::Pace;
use crate::wire::lines::{Line, Lines};

/// Bytes of one line; what is longer is not shown.
const LINE_LIMIT: usize = 8 * 1024;

/// The last line a child wrote, for the reason it gets when it dies.
#[derive(Debug, Clone, Default)]
pub(super) struct LastWords(Arc<Mutex<Option<String>>>);

impl LastWords {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, line: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }
}

/// Reads until the end of the stream.
pub(super) async fn drain(stream: ChildStderr, server: Arc<str>, secrets: Secrets, last: LastWords) {
    let mut lines = FramedRead::new(stream, Lines::new(LINE_LIMIT));
    let mut pace = Pace::new(Instant::now());
    while let Some(Ok(line)) = lines.next().await {
        let text = match line {
            Line::Whole(line) => shown(&secrets.blank(&String::from_utf8_lossy(&line))),
            Line::TooLong(clip) => format!("(a line of {} bytes)", clip.length()),
        };
        if let Some(suppressed) = pace.admit(Instant::now()) {
            tracing::info!(%server, suppressed, line = %text, "stderr of the server");
        }
        last.set(text);
    }
}
