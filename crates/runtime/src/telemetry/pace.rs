//! How many log lines one cause may produce: clients and servers decide how often it happens.
//!
//! Invariant: a flood costs `BURST` lines at once and then one each `REFILL`. Those between are suppressed and
//! counted, and a line says how many: the next one of that cause, or a summary of the refused requests
//! when the flood is over.
//!
//! It does not apply to audit lines, which are never suppressed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::limit::Limit;

/// Lines that may be written at once.
const BURST: u32 = 50;
/// The time after which one more line is allowed.
const REFILL: Duration = Duration::from_millis(100);
/// The most refusal codes with their own pace. There are fewer codes.
const MAX_CODES: usize = 32;

/// A token bucket for the log lines of one cause.
#[derive(Debug)]
pub struct Pace(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// The time of the last refill; `None` while the bucket is full.
    since: Option<Instant>,
    suppressed: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

impl Pace {
    /// A full bucket.
    pub const fn new() -> Self {
        Self(Mutex::new(Bucket { tokens: BURST, since: None, suppressed: 0 }))
    }

    /// Admits one more line and says how many were suppressed before it; none if this one is suppressed.
    pub fn admit(&self) -> Option<u64> {
        self.lock().admit(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if self.tokens == 0 {
            self.suppressed += 1;
            return Limit::LogPace.met(None);
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }

    fn refill(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let earned = now.saturating_duration_since(since).as_millis() / REFILL.as_millis();
        let missing = BURST - self.tokens;
        match u32::try_from(earned) {
            Ok(earned) if earned < missing => {
                self.tokens += earned;
                self.since = Some(since + REFILL * earned);
            }
            _ => (self.tokens, self.since) = (BURST, Some(now)),
        }
    }
}

/// The pace of the log lines about failed requests, of all clients together. It belongs to the process, as the log does:
/// all gateways in a process write to one subscriber, which their lines together must not flood.
pub static FAILURES: Pace = Pace::new();

/// The paces of requests that are refused before authentication, one for each code. They belong to the process too.
static REFUSALS: Mutex<Vec<(&'static str, Bucket)>> = Mutex::new(Vec::new());

/// Admits one more line about a request refused with `code`, as [`Pace::admit`] does.
pub fn refusal(code: &'static str) -> Option<u64> {
    let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = refusals.iter().position(|(known, _)| *known == code);
    let at = at.unwrap_or_else(|| {
        debug_assert!(refusals.len() < MAX_CODES, "codes are words of ours");
        refusals.push((code, Bucket { tokens: BURST, since: None, suppressed: 0 }));
        refusals.len() - 1
    });
    refusals[at].1.admit(Instant::now())
}

/// Logs how many refusals were suppressed since the last line of their code.
pub(super) fn summarize() {
    let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    let due: Vec<(&str, u64)> = refusals
        .iter_mut()
        .map(|(code, bucket)| (*code, std::mem::take(&mut bucket.suppressed)))
        .filter(|(_, suppressed)| *suppressed > 0)
        .collect();
    drop(refusals);
    for (code, suppressed) in due {
        tracing::info!(code, suppressed, "more requests were refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_a_quiet_cause_is_heard_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: BURST, since: None, suppressed: 0 };
        let admitted = (0..1000).filter(|_| bucket.admit(start).is_some()).count();
        assert_eq!(admitted, 50);
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), Some(950));
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), Some(0));
        assert_eq!(bucket.admit(start + Duration::from_millis(250)), None);
        let later = start + Duration::from_hours(1);
        assert_eq!((0..1000).filter(|_| bucket.admit(later).is_some()).count(), 50);
    }
}
