//! Helpers for the tests of all transports.

use std::time::Duration;

use crate::config::{BreakerConfig, Config, Limits, Retry, Sharing, Tools, Transport};
use settings::Fingerprint;

/// Most bytes of one message in these tests.
pub(super) const MESSAGE_BYTES: usize = 64 * 1024;

/// Makes the configuration of a server called `s`.
pub(super) fn config(transport: Transport) -> Config {
    let second = Duration::from_secs(1);
    Config {
        name: "s".into(),
        transport,
        target: "the target".into(),
        enabled: true,
        description: None,
        timeout: second,
        max_timeout: std::time::Duration::from_mins(10),
        lifecycle: crate::config::Lifecycle::default(),
        health_check_interval: second,
        retry: Retry { attempts: 0, delay: second, max_delay: second },
        breaker: BreakerConfig { threshold: 5, successes: 1, timeout: second },
        limits: Limits {
            connections: 4,
            concurrent_calls: 16,
            waiting_calls: 16,
            message_bytes: MESSAGE_BYTES,
            requests_per_minute: None,
        },
        dial_policy: net::http::DialPolicy::Anywhere,
        sharing: Sharing::Shared,
        era: None,
        tools: Tools::default(),
        secrets: Vec::new(),
        network: net::http::Network::default(),
        source: Fingerprint::default(),
        identity: Fingerprint::ABSENT,
    }
}
