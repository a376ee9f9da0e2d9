//! What a child process writes to its standard error: read to the end, written to our log.
//!
//! Invariants: it is always drained, or the child would stop at a full pipe; a flood costs a bounded
//! number of log lines and is counted; configured secrets are blanked before a line goes anywhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use tokio::process::ChildStderr;
use tokio::time::Instant;
use tokio_util::codec::FramedRead;

use crate::protocol::foreign::shown;
use crate::upstream::config::Stdio;
use crate::wire::lines::{Line, Lines};

/// Bytes of one line; what is longer is not shown.
const LINE_LIMIT: usize = 8 * 1024;
/// Lines that may come at once.
const BURST: u32 = 50;
/// One more line is let through each time this has passed.
const REFILL: Duration = Duration::from_millis(100);
/// A secret shorter than this stands in too many innocent words.
const SHORTEST_SECRET: usize = 6;

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
pub(super) async fn drain(
    stream: ChildStderr,
    server: Arc<str>,
    secrets: Vec<SecretString>,
    last: LastWords,
) {
    let mut lines = FramedRead::new(stream, Lines::new(LINE_LIMIT));
    let mut pace = Pace::new(Instant::now());
    while let Some(Ok(line)) = lines.next().await {
        let text = match line {
            Line::Whole(line) => shown(&blank(&String::from_utf8_lossy(&line), &secrets)),
            Line::TooLong(clip) => format!("(a line of {} bytes)", clip.length()),
        };
        if let Some(suppressed) = pace.admit(Instant::now()) {
            tracing::info!(%server, suppressed, line = %text, "stderr of the server");
        }
        last.set(text);
    }
}

/// What must not be shown of what the child of `config` writes; the longest first, because one may
/// stand in another.
pub(super) fn secrets_of(config: &Stdio) -> Vec<SecretString> {
    let mut secrets: Vec<SecretString> = config.env.values().chain(&config.secrets).cloned().collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
    secrets
}

fn blank(line: &str, secrets: &[SecretString]) -> String {
    let long = secrets.iter().map(ExposeSecret::expose_secret).filter(|s| s.len() >= SHORTEST_SECRET);
    long.fold(line.to_owned(), |line, secret| line.replace(secret, "***"))
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

    #[test]
    fn of_two_secrets_the_longer_is_blanked_as_a_whole() {
        let config = Stdio {
            command: "x".into(),
            args: Vec::new(),
            env: [("KEY".to_owned(), "s3cr3t-key".into())].into(),
            secrets: vec!["s3cr3t-key".into(), "--key=s3cr3t-key:more".into()],
            cwd: None,
        };
        let said = blank("unknown --key=s3cr3t-key:more (s3cr3t-key)", &secrets_of(&config));
        assert_eq!(said, "unknown *** (***)");
    }

    #[test]
    fn configured_secrets_are_blanked() {
        let secrets = ["s3cr3t-key".into(), "no".into()];
        assert_eq!(blank("bad key s3cr3t-key, no", &secrets), "bad key ***, no");
    }
}
