//! The signals between the tasks of one child.
//!
//! Not here: who waits for which (`link`, `reader`, `reaper`).

use tokio_util::sync::CancellationToken;

use crate::close_reason::Closing;

/// The signals between the tasks of one child.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// One of the pipes is broken, with the reason.
    pub(super) broken: Closing,
    /// Tells the writer to close the child's input.
    pub(super) stop_writing: CancellationToken,
    /// Tells the readers to stop, even if another process still holds the pipes.
    pub(super) stop_reading: CancellationToken,
    /// All output of the child was handled.
    pub(super) read: CancellationToken,
    /// All standard error of the child was read.
    pub(super) heard: CancellationToken,
}
