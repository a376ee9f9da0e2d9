//! When to read an offer again because its server does not announce changes of a list. A modern server declares how
//! long the list is valid. A legacy server does not. Without sessions it can even be restarted with other tools, and no
//! connection shows it.
//!
//! Source: 2026-07-28 `server/utilities/caching`, which requires polling to slow down. While the offer stays the same,
//! each reading doubles the time to the next one. The limit is ten minutes or the time that the server declares,
//! whichever is longer. A change resets the time. An offer with a list that failed is read again in the same way.

use std::time::Duration;

use tokio::time::Instant;

use super::offer::Offer;
use protocol::feature::Kind;

/// The shortest time between two readings. The supervisor checks no more often than it checks health.
const LEAST: Duration = Duration::from_secs(30);
/// The longest time to which unchanged readings raise the interval.
const MOST: Duration = Duration::from_mins(10);

/// The shortest time between two discoveries after change notifications.
pub(super) const LEAST_GAP: Duration = Duration::from_millis(500);
/// The time to which discoveries without a change raise that time.
const LONGEST_GAP: Duration = Duration::from_mins(1);
/// Bytes of lists per second that are read again after change notifications. A larger list waits longer for its next
/// reading.
const REREAD_RATE: f64 = 1024.0 * 1024.0;
/// The time of the next reading of an offer.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    due: Option<Instant>,
    unchanged: u32,
}

impl Refresh {
    /// Records that `offer` was read just now; `before` is the previous one.
    pub(super) fn was_read(&mut self, offer: &Offer, before: Option<&Offer>) {
        self.unchanged = if before == Some(offer) { self.unchanged.saturating_add(1) } else { 0 };
        self.due = good_for(offer).map(|time| {
            let slower = LEAST.saturating_mul(2_u32.saturating_pow(self.unchanged)).min(MOST);
            Instant::now() + time.max(slower)
        });
    }

    /// Whether the next reading is due.
    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }
}

/// How long the lists without change notifications are valid; `None` if all have them and were read.
fn good_for(offer: &Offer) -> Option<Duration> {
    if offer.has_failed_lists {
        return Some(Duration::ZERO);
    }
    let peer = &offer.peer;
    let silent = Kind::ALL.into_iter().filter(|kind| !peer.announces(*kind));
    if peer.version.is_modern() {
        let hints = silent.filter_map(|kind| offer.caching(kind));
        hints.map(|caching| Duration::from_millis(caching.ttl_ms)).min()
    } else {
        // It did not declare a time, so Switchyard chooses one.
        silent.filter(|kind| peer.has(*kind)).map(|_| Duration::ZERO).min()
    }
}

/// The gap after lists that were read without a change. Some servers announce a change after each list that they send.
pub(super) fn longer(gap: Duration) -> Duration {
    (gap * 2).min(LONGEST_GAP.max(gap))
}

/// How long lists of `bytes` are not read again after change notifications.
pub(super) fn gap_after(bytes: usize) -> Duration {
    LEAST_GAP.max(cost(bytes))
}

/// The part of the server's time for such readings that lists of `bytes` take.
pub(super) fn cost(bytes: usize) -> Duration {
    let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
    Duration::from_secs_f64(bytes / REREAD_RATE)
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

    /// Returns the seconds between the readings of an offer that stays the same.
    async fn readings(offer: &Offer, times: usize) -> Vec<u64> {
        let (mut refresh, mut all, mut before) = (Refresh::default(), Vec::new(), None);
        for _ in 0..times {
            refresh.was_read(offer, before);
            let started = Instant::now();
            while !refresh.is_due() && started.elapsed() < Duration::from_hours(2) {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            all.push(started.elapsed().as_secs());
            before = Some(offer);
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_announces_nothing_is_asked_at_growing_intervals() {
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
    async fn a_list_that_failed_is_read_again_ever_more_rarely() {
        let mut offer = offer(Version::V2025_06_18, &json!({"tools": {"listChanged": true}}), 0);
        offer.has_failed_lists = true;
        assert_eq!(readings(&offer, 3).await, [30, 60, 120]);
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
