//! The end of a connection, or of what a built-in server needs to be one: it happens once, has a reason, and
//! everybody may wait for it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Shared by all parts of one connection. The first reason given is the one that stays.
#[derive(Debug, Clone, Default)]
pub struct Closing(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    reason: OnceLock<String>,
    token: CancellationToken,
}

impl Closing {
    /// Marks the connection as of no more use.
    pub fn close(&self, reason: impl Into<String>) {
        // A second reason is a consequence of the first.
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.0.reason.get().is_some()
    }

    /// The reason, once there is one.
    pub fn reason(&self) -> String {
        self.0.reason.get().cloned().unwrap_or_default()
    }

    /// Resolves with the reason when the connection is closed; at once if it is already.
    pub async fn wait(&self) -> String {
        self.0.token.cancelled().await;
        self.reason()
    }
}
