//! One connection of a pool, and the shares of it that requests have.
//!
//! Invariant: a share is given back when it is dropped, and with it the place among the running calls.
//!
//! Not here: which connection a request gets a share of (`group`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::private_call::PrivateCall;
use crate::connection::Connection;
use crate::dialect::Key;
use crate::liveness::Liveness;
use crate::verbosity::Verbosity;
use protocol::LogLevel;

/// One connection.
pub(super) struct Live {
    pub connection: Arc<dyn Connection>,
    /// The dialect that the server actually speaks.
    pub key: Key,
    pub since: Instant,
    pub requests: AtomicUsize,
    pub verbosity: Verbosity,
    /// Only if the connection is private. Health checks cover all others.
    pub liveness: Option<Liveness>,
    /// The flag of its group.
    pub is_blamed: Arc<AtomicBool>,
    /// Requests its end.
    pub retired: CancellationToken,
}

/// One request's share of a connection, given back when dropped.
pub(crate) struct PooledConnection {
    live: Arc<Live>,
    /// Only if the connection is private.
    private_call: Option<PrivateCall>,
}

impl PooledConnection {
    /// Returns a share of `live`.
    pub(super) fn on(live: &Arc<Live>) -> Self {
        live.requests.fetch_add(1, Ordering::Relaxed);
        let private_call = live.liveness.as_ref().map(PrivateCall::begin);
        Self { live: Arc::clone(live), private_call }
    }

    /// Records that the request ended, and that its caller did not cancel it.
    pub(crate) fn answered(&mut self) {
        if let (Some(private_call), Some(liveness)) = (&mut self.private_call, &self.live.liveness) {
            private_call.answered(liveness);
        }
    }

    /// Whether the end of the request counts against the server. A private connection is one client's program. Its
    /// failure counts once, until it answers again.
    pub(crate) fn counts(&self, is_failed: bool) -> bool {
        self.private_call.is_none() || !self.live.is_blamed.swap(is_failed, Ordering::Relaxed) || !is_failed
    }

    /// The connection to use.
    pub(crate) fn connection(&self) -> &dyn Connection {
        self.live.connection.as_ref()
    }

    /// Makes the server send log messages of `level` and above.
    pub(crate) async fn want_log(&self, level: LogLevel) {
        self.live.verbosity.raise(self.connection(), level).await;
    }

    pub(super) fn requests(&self) -> usize {
        self.live.requests.load(Ordering::Relaxed)
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        self.live.requests.fetch_sub(1, Ordering::Relaxed);
        if let (Some(private_call), Some(liveness)) = (&self.private_call, &self.live.liveness) {
            private_call.over(liveness);
        }
    }
}
