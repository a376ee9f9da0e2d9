//! The limits of the start of a child process, and the report that one is under way.
//!
//! Invariant: a child that writes to standard error is installing or compiling, so it may take longer, up to a limit that
//! no output extends.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::stderr::StderrTail;
use crate::connection::Starting;
use crate::error::Error;
use crate::transport::handshake;

/// How long the start of a child may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartLimits {
    /// From the start, and again from each output.
    pub silence: Duration,
    /// From the start.
    pub whole: Duration,
}

impl StartLimits {
    /// Returns the result of `connecting`, or an error at the limit.
    pub(super) async fn applied<T>(
        self,
        connecting: impl Future<Output = Result<T, Error>>,
        tail: &StderrTail,
    ) -> Result<T, Error> {
        let (started, mut connecting) = (Instant::now(), pin!(connecting));
        let limit = || {
            let quiet_since = tail.heard().map_or(started, |heard| heard.max(started));
            (quiet_since + self.silence).min(started + self.whole)
        };
        loop {
            let due = limit();
            tokio::select! {
                biased;
                connected = &mut connecting => return connected,
                () = sleep_until(due) => {}
            }
            if limit() <= Instant::now() {
                let seconds = started.elapsed().as_secs_f64();
                return Err(handshake::refused(&format!("no handshake within {seconds:.0} s")));
            }
        }
    }
}

/// Reports a start until it is dropped.
pub(super) struct StartReport<'a>(&'a watch::Sender<Option<Starting>>);

impl<'a> StartReport<'a> {
    pub(super) fn begin(report: &'a watch::Sender<Option<Starting>>) -> Self {
        report.send_replace(Some(Starting { since: Instant::now(), last_line: None }));
        Self(report)
    }
}

impl Drop for StartReport<'_> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}
