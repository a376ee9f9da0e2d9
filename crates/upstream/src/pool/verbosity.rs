//! The log level of one legacy connection.
//!
//! The log level of a legacy server belongs to the connection, which is shared. It is therefore only made more verbose,
//! and messages that a caller did not request are filtered out (`gateway::era`). Source: `server/utilities/logging` of
//! the revisions up to 2025-11-25. A modern server gets the level in each request.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::connection::{Call, Connection, EventSender};
use json::Raw;
use protocol::{LogLevel, method};

/// How long a call waits for the server to set its level.
const SET_LEVEL_WAIT: Duration = Duration::from_secs(5);

/// The level that was set; zero if none was.
#[derive(Debug, Default)]
pub(super) struct Verbosity(AtomicU8);

impl Verbosity {
    /// Makes the server write messages of `level` and above, if it was not set to that before.
    pub(super) async fn raise(&self, connection: &dyn Connection, level: LogLevel) {
        let peer = connection.peer();
        if peer.version.is_modern() || !peer.offers("logging") {
            return;
        }
        // Callers without a level get the messages that the server writes by default, and no fewer.
        let level = level.min(LogLevel::Info);
        if !self.is_more(level) {
            return;
        }
        let params = Raw::of(&json!({"level": level.as_str()}));
        let call = Call::of_gateway(method::SET_LEVEL, Some(params));
        // If this fails, the call after it gives the better error.
        let _ = timeout(SET_LEVEL_WAIT, connection.request(&call, &EventSender::none())).await;
    }

    /// Records `level`. Returns whether it is more verbose than before.
    fn is_more(&self, level: LogLevel) -> bool {
        let rank = level as u8 + 1;
        let raise = |requested: u8| (requested == 0 || rank < requested).then_some(rank);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;
    use crate::Upstream;
    use crate::fake::{self, Fake};
    use protocol::Version;
    use protocol::feature::Effect;
    use runtime::shutdown::Shutdown;

    #[test]
    fn a_level_is_only_asked_for_when_it_is_more() {
        let verbosity = Verbosity::default();
        let requested = [LogLevel::Info, LogLevel::Error, LogLevel::Info, LogLevel::Debug, LogLevel::Info];
        assert_eq!(requested.map(|level| verbosity.is_more(level)), [true, false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_legacy_server_is_asked_before_the_call_that_wants_more() {
        for (version, counts) in [(Version::V2025_11_25, [0, 1, 1, 2, 2]), (Version::V2026_07_28, [0; 5])] {
            let server = Fake::new(version);
            server.capabilities(&json!({"tools": {}, "logging": {}}));
            let (updates, _news) = mpsc::channel(64);
            let upstream = Upstream::start(fake::config("s"), server.connector(), updates, &Shutdown::new());
            let levels = [None, Some(LogLevel::Error), Some(LogLevel::Warning), Some(LogLevel::Debug), None];
            for (level, requested) in levels.into_iter().zip(counts) {
                let mut call = fake::tool_call(Effect::Unsafe);
                call.sender.log_level = level;
                let deadline = Instant::now() + Duration::from_secs(1);
                assert!(upstream.call(&call, deadline, &EventSender::none()).await.is_ok());
                assert_eq!(server.executed(method::SET_LEVEL), requested, "{level:?}");
            }
        }
    }
}
