//! The limits of a listener and of each of its connections.
//!
//! Not here: how they are kept (`listener`, `http1`, `activity`), and how they are configured (`config`).

use std::time::Duration;

/// Limits of the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at a time.
    pub max_sockets: usize,
    /// Time from accepting to the end of the first head, and for every later head from its first byte.
    pub header_timeout: Duration,
    /// Time for a whole body.
    pub body_timeout: Duration,
    /// How long a connection may be idle between two requests.
    pub idle_timeout: Duration,
    /// How long a client may leave a response unread.
    pub write_timeout: Duration,
    /// Time for running requests after shutdown began.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_sockets: 4_096,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
