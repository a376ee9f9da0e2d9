//! Reads the child's output and hands each message to whom it belongs.
//!
//! Invariant: it never waits for anything but output, so one caller can not hold up another.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::process::ChildStdout;
use tokio_util::codec::FramedRead;

use super::link::Signals;
use crate::protocol::Message;
use crate::upstream::connection::Events;
use crate::upstream::transport::inbound;
use crate::upstream::transport::pending::Pending;
use crate::upstream::transport::questions::Questions;
use crate::wire::lines::{Line, Lines};

/// Room for what is read at once; a pipe holds 64 KiB.
const READ_BYTES: usize = 32 * 1024;

/// The reading end of one child.
pub(super) struct Reader {
    server: Arc<str>,
    limit: usize,
    pending: Arc<Pending>,
    questions: Questions,
    events: Events,
    /// Lines that were no message.
    skipped: u64,
}

impl Reader {
    pub(super) const fn new(
        server: Arc<str>,
        limit: usize,
        pending: Arc<Pending>,
        questions: Questions,
        events: Events,
    ) -> Self {
        Self { server, limit, pending, questions, events, skipped: 0 }
    }

    /// Reads until the end of the output, or until it is told to stop.
    pub(super) async fn run(mut self, stdout: ChildStdout, signals: Signals) {
        let mut lines = FramedRead::with_capacity(stdout, Lines::new(self.limit), READ_BYTES);
        let work = async {
            while let Some(Ok(line)) = lines.next().await {
                self.take(line);
            }
        };
        signals.stop_reading.run_until_cancelled(work).await;
        signals.read.cancel();
        signals.broken.close("the process closed its output");
    }

    fn take(&mut self, line: Line) {
        let message = match line {
            Line::Whole(line) => Message::from_server(&line),
            Line::TooLong(clip) => {
                let answered = self.pending.answer_too_long(&clip, self.limit);
                let bytes = clip.length();
                tracing::warn!(server = %self.server, bytes, answered, "a message beyond the cap was skipped");
                return;
            }
        };
        match message {
            Ok(Message::Response(response)) => {
                self.pending.answer(response);
            }
            Ok(Message::Notification(said)) if self.questions.is_withdrawn_by(&said) => {}
            Ok(Message::Notification(notification)) => {
                if let Some(notification) = inbound::sort(notification, &self.events) {
                    self.pending.notify(notification);
                }
            }
            Ok(Message::Request(request)) => {
                let pending = Arc::clone(&self.pending);
                self.questions.take(request, move |owner| pending.whose(owner));
            }
            Err(error) => self.skip(&error.to_string()),
        }
    }

    /// Real servers print banners. The first one is worth a warning, the others only a number.
    fn skip(&mut self, error: &str) {
        self.skipped += 1;
        if self.skipped.is_power_of_two() {
            let (server, skipped) = (&self.server, self.skipped);
            tracing::warn!(%server, skipped, error, "lines on stdout that are no MCP message were skipped");
        }
    }
}
