//! The limits of a listener and of each of its connections.
//!
//! Not here: how they are kept (`listener`, `http1`, `activity`), and how they are configured (`config`).

use std::time::Duration;

use settings::settings;

settings! {
    /// Limits of the number and the times of connections.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Limits {
        /// TCP connections open at a time, of which a client may need several. One more gets the slot of
        /// [a connection that waits for its client](operate/limits.md#when-all-sockets-are-taken), or 503 if none waits. One
        /// principal can fill [seven eighths](operate/limits.md#sockets-of-one-principal) of them
        pub max_sockets: usize = 4_096 => "4096, or twice `max_connections` if that is set and more", in 1..=1_000_000;
        /// time for the head of a request: the first from accepting the connection, every later one from its first byte
        pub header_timeout: Duration = Duration::from_secs(10), in 0.1..=60.0;
        /// time for its body
        pub body_timeout: Duration = Duration::from_secs(30), in 0.1..=600.0;
        /// time between two requests
        pub idle_timeout: Duration = Duration::from_secs(75), in 0.1..=3_600.0;
        /// time after which Switchyard aborts a response that the client does not read
        pub write_timeout: Duration = Duration::from_secs(30), in 0.1..=600.0;
        /// time for running requests when the program ends
        pub drain_timeout: Duration = Duration::from_secs(10), in 0.0..=600.0;
    }
}
