//! How many log lines a server may cause by what it does.
//!
//! Invariant: a flood costs a bounded number of lines, and the next one that is written says how many
//! were not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lines that may come at once.
const BURST: u32 = 50;
/// One more line is let through each time this has passed.
const REFILL: Duration = Duration::from_millis(100);

/// A token bucket for log lines.
#[derive(Debug)]
pub(super) struct Pace {
    tokens: u32,
    since: Instant,
    suppressed: u64,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self { tokens: BURST, since: now, suppressed: 0 }
    }

    /// Whether one more line may be written; with how many were not since the last one.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        while self.tokens < BURST && now.duration_since(self.since) >= REFILL {
            self.tokens += 1;
            self.since += REFILL;
        }
        if self.tokens == BURST {
            self.since = now;
        }
        if self.tokens == 0 {
            self.suppressed += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// The same for several tasks. Clones are one bucket.
#[derive(Debug, Clone)]
pub(super) struct SharedPace(Arc<Mutex<Pace>>);

impl SharedPace {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Pace::new(Instant::now()))))
    }

    /// Whether one more line may be written; with how many were not since the last one.
    pub(super) fn admit(&self) -> Option<u64> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_a_quiet_child_is_heard_at_once() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let admitted = (0..1000).filter(|_| pace.admit(start).is_some()).count();
        assert_eq!(admitted, 50);
        assert_eq!(pace.admit(start + Duration::from_millis(250)), Some(950));
        assert_eq!(pace.admit(start + Duration::from_millis(250)), Some(0));
        assert_eq!(pace.admit(start + Duration::from_millis(250)), None);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1000).filter(|_| pace.admit(later).is_some()).count(), 50);
    }
}
