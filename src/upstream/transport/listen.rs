//! Change notices of modern servers: `subscriptions/listen`, kept open.
//!
//! Source: 2026-07-28 `basic/patterns/subscriptions`. The notices themselves arrive like any other
//! message of the transport; here is only when to ask and when to ask again.

use std::future::Future;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::protocol::lifecycle::Peer;
use crate::protocol::{Raw, Reply, method};
use crate::upstream::connection::Call;
use crate::upstream::error::Error;

/// Pause before the first attempt to open the stream again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Whether there is a stream of change notices to ask for.
pub(super) fn is_offered(peer: &Peer) -> bool {
    peer.version.is_modern() && announces_changes(peer)
}

/// Whether the server tells when its tools change.
pub(super) fn announces_changes(peer: &Peer) -> bool {
    peer.capabilities.get("tools").and_then(|tools| tools.get_as("listChanged")).unwrap_or(false)
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
    let mut pauses = Pauses::new();
    loop {
        let begun = Instant::now();
        let end = open().await;
        if is_refusal(&end) {
            tracing::debug!(?end, "the server does not keep a stream of change notices");
            return;
        }
        tokio::time::sleep(pauses.after(begun.elapsed())).await;
    }
}

fn is_refusal(end: &Result<Reply, Error>) -> bool {
    match end {
        Ok(Err(_)) | Err(Error::Malformed { .. }) => true,
        // Too early and too often are no answer for ever.
        Err(Error::Status { status, .. }) => (400..500).contains(status) && ![408, 425, 429].contains(status),
        _ => false,
    }
}

/// The pauses between attempts to open a long stream.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    /// The pause after a stream that lived for `lifetime`: one that lived for a while starts over,
    /// one that keeps failing waits longer and longer.
    pub(super) fn after(&mut self, lifetime: Duration) -> Duration {
        if lifetime > LONGEST_PAUSE {
            *self = Self::new();
        }
        let pause = jittered(self.0);
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Between half and all of `pause`, so that many of us do not come back at once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::protocol::ErrorObject;

    #[tokio::test(start_paused = true)]
    async fn a_stream_is_opened_again_until_it_is_refused() {
        let opened = Cell::new(0);
        let begun = Instant::now();
        keep_open(|| async {
            opened.set(opened.get() + 1);
            match opened.get() {
                1 => Ok(Ok(Raw::empty_object())),
                2 => Err(Error::Cut { reason: "x".into() }),
                3 => Err(Error::Status { status: 429, retry_after: None }),
                _ => Ok(Err(ErrorObject::new(-32601, "no"))),
            }
        })
        .await;
        assert_eq!(opened.get(), 4);
        let seconds = begun.elapsed().as_secs_f64();
        assert!((3.5..=7.0).contains(&seconds), "pauses of 1, 2 and 4 s with jitter, not {seconds} s");
    }
}
