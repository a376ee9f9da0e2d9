//! How many log lines one legacy connection was asked to write.
//!
//! The level of such a server belongs to the connection, and that is shared: it is only ever made to
//! say more, and what is too much for one caller is kept from it (`gateway::era`). Source:
//! `server/utilities/logging` of the revisions up to 2025-11-25. A modern server is told in each
//! request.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::connection::{Call, Connection, Outlet};
use json::Raw;
use protocol::{LogLevel, method};

/// How long a call waits for the server to note its level.
const PATIENCE: Duration = Duration::from_secs(5);

/// The level that was asked for; nothing was, as long as nobody wanted any.
#[derive(Debug, Default)]
pub(super) struct Verbosity(AtomicU8);

impl Verbosity {
    /// Has the server write lines of `level` and above, if it was not asked for as many before.
    pub(super) async fn raise(&self, connection: &dyn Connection, level: LogLevel) {
        let peer = connection.peer();
        if peer.version.is_modern() || !peer.offers("logging") {
            return;
        }
        // Callers who never said a level get what the server writes by itself: no fewer than that.
        let level = level.min(LogLevel::Info);
        if !self.is_more(level) {
            return;
        }
        let params = Raw::of(&json!({"level": level.as_str()}));
        let call = Call::of_gateway(method::SET_LEVEL, Some(params));
        // The call that follows says better what is wrong with the connection.
        let _ = timeout(PATIENCE, connection.request(&call, &Outlet::none())).await;
    }

    /// Notes `level`; whether it is more than was asked for.
    fn is_more(&self, level: LogLevel) -> bool {
        let rank = level as u8 + 1;
        let raise = |asked: u8| (asked == 0 || rank < asked).then_some(rank);
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
        let asked = [LogLevel::Info, LogLevel::Error, LogLevel::Info, LogLevel::Debug, LogLevel::Info];
        assert_eq!(asked.map(|level| verbosity.is_more(level)), [true, false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_legacy_server_is_asked_before_the_call_that_wants_more() {
        for (version, counts) in [(Version::V2025_11_25, [0, 1, 1, 2, 2]), (Version::V2026_07_28, [0; 5])] {
            let server = Fake::new(version);
            server.capabilities(&json!({"tools": {}, "logging": {}}));
            let (updates, _news) = mpsc::channel(64);
            let upstream = Upstream::start(fake::config("s"), server.connector(), updates, &Shutdown::new());
            let levels = [None, Some(LogLevel::Error), Some(LogLevel::Warning), Some(LogLevel::Debug), None];
            for (level, asked) in levels.into_iter().zip(counts) {
                let mut call = fake::tool_call(Effect::Unsafe);
                call.sender.log_level = level;
                let deadline = Instant::now() + Duration::from_secs(1);
                assert!(upstream.call(&call, deadline, &Outlet::none()).await.is_ok());
                assert_eq!(server.executed(method::SET_LEVEL), asked, "{level:?}");
            }
        }
    }
}
