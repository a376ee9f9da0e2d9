//! When an offer is read again although its server said nothing: because it does not announce changes
//! of a list. A modern server says instead how long the list is good for. A legacy one says nothing, and
//! where its connections are no sessions it can even be restarted with other tools, and nobody notices.
//!
//! Source: 2026-07-28 `server/utilities/caching`. Who polls must slow down: as long as the offer
//! stays the same each reading doubles the time to the next one, up to ten minutes or to what the
//! server says, whichever is longer. A change starts over.

use std::time::Duration;

use tokio::time::Instant;

use super::discover::Offer;
use protocol::feature::Kind;

/// Least time between two readings. The supervisor looks no more often than it checks health.
const LEAST: Duration = Duration::from_secs(30);
/// Most that readings which find nothing new are put off.
const MOST: Duration = Duration::from_mins(10);

/// When to read an offer again.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    due: Option<Instant>,
    unchanged: u32,
}

impl Refresh {
    /// `offer` was read just now; `before` is the one before it.
    pub(super) fn was_read(&mut self, offer: &Offer, before: Option<&Offer>) {
        self.unchanged = if before == Some(offer) { self.unchanged.saturating_add(1) } else { 0 };
        self.due = good_for(offer).map(|time| {
            let slower = LEAST.saturating_mul(2_u32.saturating_pow(self.unchanged)).min(MOST);
            Instant::now() + time.max(slower)
        });
    }

    /// Whether it is time.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }
}

/// How long the lists are good for whose changes are not announced; none when all are.
fn good_for(offer: &Offer) -> Option<Duration> {
    let peer = &offer.peer;
    let silent = Kind::ALL.into_iter().filter(|kind| !peer.announces(kind.list()));
    if peer.version.is_modern() {
        let said = silent.filter_map(|kind| offer.caching(kind));
        said.map(|caching| Duration::from_millis(caching.ttl_ms)).min()
    } else {
        // It did not say, so we choose.
        silent.filter(|kind| peer.offers(kind.list().capability())).map(|_| Duration::ZERO).min()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use json::Raw;
    use protocol::Version;
    use protocol::caching::Caching;
    use protocol::lifecycle::Peer;

    fn offer(version: Version, capabilities: &serde_json::Value, ttl_ms: u64) -> Offer {
        let peer = Peer {
            version,
            info: Raw::empty_object(),
            capabilities: Raw::of(capabilities),
            instructions: None,
        };
        Offer::empty(peer).with_caching(Kind::Tools, Caching { ttl_ms, is_public: false })
    }

    /// After how many seconds an offer that stays the same is read again, each time.
    async fn readings(offer: &Offer, times: usize) -> Vec<u64> {
        let (mut refresh, mut all, mut before) = (Refresh::default(), Vec::new(), None);
        for _ in 0..times {
            refresh.was_read(offer, before);
            let begun = Instant::now();
            while !refresh.is_due() && begun.elapsed() < Duration::from_hours(2) {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            all.push(begun.elapsed().as_secs());
            before = Some(offer);
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn who_announces_nothing_is_asked_again_ever_more_seldom() {
        let modern = Version::V2026_07_28;
        let silent = json!({"tools": {}});
        assert_eq!(readings(&offer(modern, &silent, 0), 6).await, [30, 60, 120, 240, 480, 600]);
        assert_eq!(readings(&offer(modern, &silent, 3_600_000), 2).await, [3600, 3600]);
        let legacy = Version::V2025_06_18;
        let telling = json!({"tools": {"listChanged": true}});
        assert_eq!(readings(&offer(legacy, &silent, 0), 6).await, [30, 60, 120, 240, 480, 600]);
        let half = json!({"tools": {"listChanged": true}, "prompts": {}});
        assert_eq!(readings(&offer(legacy, &half, 0), 2).await, [30, 60], "of one list it is silent");
        for (version, capabilities) in [(modern, &telling), (legacy, &telling), (legacy, &json!({}))] {
            assert_eq!(readings(&offer(version, capabilities, 0), 1).await, [7200], "never");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_starts_over() {
        let (one, other) = (
            offer(Version::V2026_07_28, &json!({"tools": {}}), 0),
            offer(Version::V2026_07_28, &json!({"tools": {"x": 1}}), 0),
        );
        let mut refresh = Refresh::default();
        refresh.was_read(&one, Some(&one));
        refresh.was_read(&one, Some(&one));
        refresh.was_read(&other, Some(&one));
        tokio::time::advance(LEAST).await;
        assert!(refresh.is_due());
    }
}
