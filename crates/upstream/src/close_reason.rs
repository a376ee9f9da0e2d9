//! The end of a connection, or of a resource that a built-in server needs. It happens once, has a reason, and any task
//! can wait for it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The close state that all parts of one connection share. Only the first reason is kept.
#[derive(Debug, Clone, Default)]
pub struct Closing(Arc<CloseState>);

#[derive(Debug, Default)]
struct CloseState {
    reason: OnceLock<String>,
    token: CancellationToken,
}

impl Closing {
    /// Closes the connection with a reason.
    pub fn close(&self, reason: impl Into<String>) {
        // A second reason is a consequence of the first.
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// The reason, once there is one.
    pub fn reason(&self) -> String {
        self.0.reason.get().cloned().unwrap_or_default()
    }

    /// Resolves with the reason when the connection is closed.
    pub async fn wait(&self) -> String {
        self.0.token.cancelled().await;
        self.reason()
    }
}
