//! Watches the child until none of its processes is left, and gives the reason why the connection ended.
//!
//! Invariants: the child's last output is handled before its requests fail. A connection that ended by itself counts as
//! closed when its child is reaped, so that there are never two children. Standard error after the handshake is shown
//! to operators and never to callers.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::child::{self, Process};
use super::reader::Signals;
use super::stderr::StderrTail;
use crate::connection::Closing;
use crate::secrets::Secrets;
use crate::transport::pending::Pending;
use runtime::shutdown::Shutdown;

/// How long the output of a child that is gone may take to end. It takes longer only if a process outside its group
/// holds the pipe.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// How long a child that closed a pipe may take to exit before the pipe counts as the reason.
const EXIT_WAIT: Duration = Duration::from_millis(200);

/// The task that owns the process.
pub(super) struct Reaper {
    pub(super) process: Process,
    pub(super) signals: Signals,
    pub(super) tail: StderrTail,
    pub(super) secrets: Secrets,
    pub(super) pending: Arc<Pending>,
    /// The end, with a reason for callers.
    pub(super) closing: Closing,
    /// The end, with a reason for operators. Closed together with `closing`.
    pub(super) exit_reason: Closing,
    pub(super) end: CancellationToken,
    pub(super) gone: CancellationToken,
}

/// The reason why the child must end.
enum EndReason {
    Exited(Option<ExitStatus>),
    Broken(String),
    Asked,
}

impl Reaper {
    pub(super) async fn run(mut self, shutdown: Shutdown) {
        let reason = match self.watch(&shutdown).await {
            EndReason::Exited(status) => self.give_up_dead(status).await,
            EndReason::Broken(reason) => {
                // Callers must not wait for the process, which may be slow to end.
                self.pending.end(&reason);
                reason
            }
            EndReason::Asked => {
                let reason = "the connection was closed";
                self.close(reason, reason);
                reason.to_owned()
            }
        };
        self.signals.stop_writing.cancel();
        self.process.end().await;
        self.drain().await;
        self.pending.end(&reason);
        self.close(&reason, &reason);
        self.gone.cancel();
    }

    async fn watch(&mut self, shutdown: &Shutdown) -> EndReason {
        let broken = tokio::select! {
            status = self.process.ended() => return EndReason::Exited(status.ok()),
            () = self.end.cancelled() => return EndReason::Asked,
            () = shutdown.requested() => return EndReason::Asked,
            broken = self.signals.broken.wait() => broken,
        };
        // A closed pipe is usually the first sign of an exit, which is the better reason.
        match tokio::time::timeout(EXIT_WAIT, self.process.ended()).await {
            Ok(status) => EndReason::Exited(status.ok()),
            Err(_) => EndReason::Broken(broken),
        }
    }

    /// Handles a process that exited and was reaped.
    async fn give_up_dead(&self, status: Option<ExitStatus>) -> String {
        // Processes that it started may hold the pipes open.
        self.process.end_group();
        self.drain().await;
        let how = status.map_or_else(|| "the process ended".to_owned(), child::describe);
        self.pending.end(&how);
        self.close(&how, &self.tail.append_to(&how, &self.secrets));
        how
    }

    fn close(&self, reason: &str, exit_reason: &str) {
        self.exit_reason.close(exit_reason);
        self.closing.close(reason);
    }

    /// Waits until the readers have handled the child's last output.
    async fn drain(&self) {
        let all = async {
            self.signals.read.cancelled().await;
            self.signals.heard.cancelled().await;
        };
        let _ = tokio::time::timeout(LAST_OUTPUT, all).await;
        self.signals.stop_reading.cancel();
    }
}
