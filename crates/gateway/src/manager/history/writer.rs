//! The task that writes calls to the files, soon after they ended and when Switchyard ends.
//!
//! Invariants: files are written on a blocking thread. Calls that cannot be written are counted, and the log says it once
//! until writing works again.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{CallHistory, Ended};
use runtime::fair_shares::FairShares;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;

/// Calls within this time are written together.
const DEBOUNCE: Duration = Duration::from_millis(500);
/// How often files that are too old are removed while nothing is written.
const CLEANUP: Duration = Duration::from_hours(1);

/// Writes until `shutdown` begins, and a last time then.
pub(super) async fn run(history: Arc<CallHistory>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            _ = timeout(CLEANUP, history.filled.notified()) => {}
        }
        tokio::select! {
            () = shutdown.requested() => break,
            () = sleep(DEBOUNCE) => {}
            () = history.half_full.notified() => {}
        }
        write(&history).await;
    }
    write(&history).await;
}

async fn write(history: &Arc<CallHistory>) {
    let history = Arc::clone(history);
    let write = move || {
        let (queue, config) = {
            let mut state = history.lock();
            state.queue_shares = FairShares::new();
            state.queue_charge.clear();
            (std::mem::take(&mut state.queue), state.config)
        };
        let Some(files) = &history.files else { return };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let written = files.write(&queue, config);
        report(written, &queue, &files.folder);
    };
    // It fails only if the program ends.
    let _ = tokio::task::spawn_blocking(write).await;
}

/// Counts the calls that were lost, and logs the first failure of several.
fn report(written: super::files::Written, queue: &[Ended], folder: &Path) {
    for _ in written.calls..queue.len() {
        Limit::HistoryLines.met(());
    }
    if let Some(error) = written.failure {
        let path = folder.display();
        tracing::warn!(%path, %error, "calls are missing in the history, because they cannot be written");
    }
}
