//! The load: the calls, their rhythm, and the results.

pub mod call;
pub mod closed;
pub mod crowd;
pub mod inbox;
pub mod open;

use std::net::SocketAddr;
use std::time::Duration;

use call::Call;

/// The calls and their target.
#[derive(Debug, Clone)]
pub struct Load {
    /// The target.
    pub address: SocketAddr,
    /// The calls.
    pub call: Call,
    /// The number of concurrent callers.
    pub connections: usize,
}

/// The results of one slice of time.
#[derive(Debug)]
pub struct Sample {
    /// The time of each call in nanoseconds, sorted.
    pub latencies: Vec<u32>,
    /// How long calls were counted.
    pub took: Duration,
    /// CPU time of each watched process in that time.
    pub processor_seconds: Vec<f64>,
}

impl Sample {
    /// Returns the latency that this share of the calls does not exceed, in microseconds.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an index
    pub fn percentile(&self, share: f64) -> f64 {
        let at = (self.latencies.len() - 1) as f64 * share;
        f64::from(self.latencies[at as usize]) / 1e3
    }

    /// Returns calls per second.
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }
}
