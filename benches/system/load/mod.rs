//! The load: what is called, in which rhythm, and what was measured.

pub mod call;
pub mod closed;
pub mod crowd;
pub mod inbox;
pub mod open;

use std::net::SocketAddr;
use std::time::Duration;

use call::Call;

/// What is sent, and where.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where it is sent.
    pub address: SocketAddr,
    /// What is called.
    pub call: Call,
    /// How many callers there are.
    pub connections: usize,
}

/// What was measured in one slice of time.
#[derive(Debug)]
pub struct Sample {
    /// The time of each call in nanoseconds, sorted.
    pub latencies: Vec<u32>,
    /// How long calls were counted.
    pub took: Duration,
    /// What each watched process used meanwhile.
    pub processor_seconds: Vec<f64>,
}

impl Sample {
    /// The latency that this share of the calls does not exceed, in microseconds.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an index
    pub fn percentile(&self, share: f64) -> f64 {
        let at = (self.latencies.len() - 1) as f64 * share;
        f64::from(self.latencies[at as usize]) / 1e3
    }

    /// Calls per second.
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}
