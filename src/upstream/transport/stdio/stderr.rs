//! What a child process writes to its standard error: read to the end, written to our log.
//!
//! Invariants: it is always drained, or the child would stop at a full pipe; a flood costs a bounded
//! number of log lines and is counted; configured secrets are blanked before a line goes anywhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::process::ChildStderr;
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

use crate::protocol::foreign::shown;
use crate::upstream::secrets::Secrets;
use crate::wire::lines::{Line, Lines};

/// Bytes of one line; what is longer is not shown.
const LINE_LIMIT: usize = 8 * 1024;
/// Lines that may come at once.
const BURST: u32 = 50;
/// One more line is let through each time this has passed.
const REFILL: Duration = Duration::from_millis(100);

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

/// A token bucket for log lines.
#[derive(Debug)]
struct Pace {
    tokens: u32,
    since: Instant,
    suppressed: u64,
}

impl Pace {
    const fn new(now: Instant) -> Self {
        Self { tokens: BURST, since: now, suppressed: 0 }
    }

    /// Whether one more line may be written; with how many were not since the last one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        while self.tokens < BURST && now.duration_since(self.since) >= REFILL {
            self.tokens += 1;
            self.since += REFILL;
        }
        if self.tokens == BURST {
            self.since = now;
        }
        if self.tokens == 0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_a_quiet_child_is_heard_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let admitted = (0..1000).filter(|_| pace.admit(start).is_some()).count();
        assert_eq!(admitted, 50);
        assert_eq!(pace.admit(start + Duration::from_millis(250)), Some(950));
        assert_eq!(pace.admit(start + Duration::from_millis(250)), Some(0));
        assert_eq!(pace.admit(start + Duration::from_millis(250)), None);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1000).filter(|_| pace.admit(later).is_some()).count(), 50);
    }
}
