//! A token bucket in bytes, for messages of servers.
//!
//! Invariant: more than [`BURST`] bytes at once, or more than [`RATE`] for long, is over the pace. Not here: what follows
//! from that (`transport::flood_guard`, `call_events`).

use tokio::time::Instant;

/// The long-term limit in bytes per second.
pub(crate) const RATE: f64 = 512.0 * 1024.0;
/// Bytes that may be sent at once.
pub(crate) const BURST: f64 = 2.0 * 1024.0 * 1024.0;
/// Bytes that each message counts for in addition to its own, for the work that it causes.
pub(crate) const MESSAGE: usize = 512;

/// A token bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    /// Bytes that may be sent at once. Below zero there were too many.
    left: f64,
    since: Instant,
    /// Bytes taken since it was full.
    taken: f64,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub(crate) const fn full(now: Instant) -> Self {
        Self { left: BURST, since: now, taken: 0.0 }
    }

    /// Takes `bytes`, of which there are at most some hundred thousand. Returns whether there were fewer.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let refill = RATE * now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        self.left = (self.left + refill).min(BURST);
        if self.left >= BURST {
            self.taken = 0.0;
        }
        // `f64` represents so few exactly.
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        // A flood is over after some seconds of silence, however large it was.
        self.left = (self.left - bytes).max(-BURST);
        self.taken += bytes;
        self.left < 0.0
    }

    /// Whether nothing was taken for some seconds.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.left + RATE * now.saturating_duration_since(self.since).as_secs_f64() >= BURST
    }

    /// Bytes taken since it was full.
    pub(crate) const fn taken(&self) -> f64 {
        self.taken
    }
}
