//! Change notices of modern servers: `subscriptions/listen`, kept open.
//!
//! Source: 2026-07-28 `basic/patterns/subscriptions`. The notices themselves arrive like any other
//! message of the transport; here is only when to ask and when to ask again.

use std::future::Future;
use std::time::Duration;

use serde_json::json;

use crate::protocol::lifecycle::Peer;
use crate::protocol::{Raw, Reply, method};
use crate::upstream::connection::Call;
use crate::upstream::error::Error;

/// Pause before the first attempt to open the stream again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether the server sends change notices of anything we offer.
pub(super) fn is_offered(peer: &Peer) -> bool {
    let tools = peer.capabilities.get("tools");
    peer.version.is_modern() && tools.and_then(|tools| tools.get_as("listChanged")).unwrap_or(false)
}

/// The request that opens the stream.
pub(super) fn call() -> Call {
    let params = Raw::of(&json!({"notifications": {"toolsListChanged": true}}));
    Call::of_gateway(method::SUBSCRIPTIONS_LISTEN, Some(params))
}

/// Opens the stream again each time it ends, until the server refuses it. `open` returns when the
/// stream has ended.
pub(super) async fn keep_open<F>(open: impl Fn() -> F)
where
    F: Future<Output = Result<Reply, Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = tokio::time::Instant::now();
        if let Ok(Err(refusal)) = open().await {
            tracing::debug!(?refusal, "the server does not keep a stream of change notices");
            return;
        }
        // A stream that lived for a while starts over; one that keeps failing waits longer and longer.
        pause = if begun.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(jittered(pause)).await;
    }
}

/// Between half and all of `pause`, so that many of us do not come back at once.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}
