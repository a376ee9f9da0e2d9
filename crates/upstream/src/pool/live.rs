//! One connection of a pool, and the shares of it that requests have.
//!
//! Invariant: a share is given back when it is dropped, and with it the lease and the place among the running calls.
//!
//! Not here: which connection a request gets a share of (`group`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::lease::Lease;
use super::private_call::PrivateCall;
use crate::connection::{Connection, Owner};
use crate::dialect::Key;
use crate::liveness::Liveness;
use crate::verbosity::Verbosity;
use json::Raw;
use protocol::LogLevel;

/// One connection.
pub(super) struct Live {
    pub connection: Arc<dyn Connection>,
    /// The dialect that the server actually speaks.
    pub key: Key,
    pub since: Instant,
    pub requests: AtomicUsize,
    pub verbosity: Verbosity,
    /// Only if the connection does not show which call a server request belongs to.
    pub lease: Option<Lease>,
    /// Only if the connection is private. Health checks cover all others.
    pub liveness: Option<Liveness>,
    /// The flag of its group.
    pub is_blamed: Arc<AtomicBool>,
    /// Requests its end.
    pub retired: CancellationToken,
    /// The connection takes no new calls, and ends after its running calls.
    pub replaced: CancellationToken,
}

/// A caller that needs a share of a connection.
#[derive(Clone, Copy)]
pub(super) struct ConnectionClaim<'a> {
    /// The owner of the calls on the connection; `None` for Switchyard's own requests, which always pass.
    pub owner: Option<Owner>,
    /// The capabilities that its client declared; `None` for Switchyard's own requests.
    pub capabilities: Option<&'a Raw>,
    /// Whether it waited in the queue and was woken.
    pub is_woken: bool,
}

/// One request's share of a connection, given back when dropped.
pub(crate) struct PooledConnection {
    live: Arc<Live>,
    /// The owner that holds the lease.
    holder: Option<Owner>,
    /// Only if the connection is private.
    private_call: Option<PrivateCall>,
}

impl PooledConnection {
    /// Returns a share of `live` for `claim`, if the lease allows it.
    pub(super) fn on(live: &Arc<Live>, claim: ConnectionClaim<'_>, exclusive: bool) -> Option<Self> {
        let holder = claim.owner.filter(|_| live.lease.is_some());
        if let (Some(lease), Some(owner)) = (&live.lease, holder)
            && !lease.take(owner, exclusive, claim.is_woken)
        {
            return None;
        }
        live.requests.fetch_add(1, Ordering::Relaxed);
        let private_call = live.liveness.as_ref().map(PrivateCall::begin);
        Some(Self { live: Arc::clone(live), holder, private_call })
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
        if let (Some(lease), Some(owner)) = (&self.live.lease, self.holder) {
            lease.release(owner);
        }
    }
}
