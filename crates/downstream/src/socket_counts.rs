//! Counts of the sockets of one listener, for the metrics.
//!
//! Invariant: only a connection that opens, closes or fails is counted, and no request.
//!
//! Not here: refusals, which are counted with those of all limits (`runtime::telemetry::limit`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The counts of one listener. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SocketCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    yielded: AtomicU64,
    failed_handshakes: AtomicU64,
}

impl SocketCounts {
    /// The number of open sockets.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// The number of sockets that were closed for new ones while they waited for their client.
    pub fn yielded(&self) -> u64 {
        self.0.yielded.load(Ordering::Relaxed)
    }

    /// The number of TLS handshakes that failed.
    pub fn failed_handshakes(&self) -> u64 {
        self.0.failed_handshakes.load(Ordering::Relaxed)
    }

    pub(super) fn count_opened(&self) {
        self.0.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_closed(&self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a socket that was closed for a new one. Returns how many have been.
    pub(super) fn count_yielded(&self) -> u64 {
        self.0.yielded.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_failed_handshake(&self) {
        self.0.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }
}
