//! Limits the requests in any minute: of clients to one server (`limits.requests_per_minute`), or of a built-in server
//! to its service.
//!
//! Invariants: in no period of 60 s more than `most` requests are sent, retries included. While several principals send
//! requests, none of them gets more than three quarters, so that one cannot block the others for longer than a minute.
//! The record has at most `most` entries. A server without this limit has no record and needs no lock.
//!
//! Beside it is the pace for bytes of messages that servers send ([`TokenBucket`]).
//!
//! It does not count requests of Switchyard itself (lists, health checks), and it does not delay a request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;

/// The period in which requests are counted.
const PERIOD: Duration = Duration::from_mins(1);

/// A principal; `None` for requests without a principal.
type PrincipalKey = Option<Arc<str>>;

/// The requests of the last minute.
#[derive(Debug)]
pub struct RateLimit {
    most: usize,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// The oldest first.
    sent: VecDeque<(Instant, PrincipalKey)>,
    counts: HashMap<PrincipalKey, usize>,
    /// The last principal that was refused without having sent a request, and the time. It counts as active.
    refused: Option<(Instant, PrincipalKey)>,
}

impl RateLimit {
    /// Allows `most` requests within a minute.
    pub fn new(most: usize) -> Self {
        Self { most, record: Mutex::default() }
    }

    /// Counts a request of a client to a server, or refuses it.
    pub(super) fn take(&self, who: Option<&Arc<str>>, now: Instant) -> Result<(), Error> {
        self.admit(who, now).map_err(|retry_in| Error::Paced { most: self.most, retry_in })
    }

    /// Counts a request of `who`; the error is the time until there is room for it.
    pub fn admit(&self, who: Option<&Arc<str>>, now: Instant) -> Result<(), Duration> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.forget(now);
        let who = who.cloned();
        let own = record.counts.get(&who).copied().unwrap_or(0);
        let share = if record.has_others(&who) { (self.most - self.most / 4).max(1) } else { self.most };
        if record.sent.len() < self.most && own < share {
            *record.counts.entry(who.clone()).or_default() += 1;
            record.sent.push_back((now, who));
            return Ok(());
        }
        // The slot of the oldest request, or of the principal's own oldest one, is the next to become free.
        let is_full = record.sent.len() >= self.most;
        let next =
            record.sent.iter().find(|(_, sender)| is_full || *sender == who).map_or(now, |(at, _)| *at);
        if own == 0 {
            record.refused = Some((now, who));
        }
        Err((next + PERIOD).saturating_duration_since(now))
    }
}

impl Record {
    /// Removes entries older than a minute.
    fn forget(&mut self, now: Instant) {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= PERIOD;
        while let Some((_, who)) = self.sent.pop_front_if(|(at, _)| is_old(*at)) {
            if let Some(count) = self.counts.get_mut(&who) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&who);
                }
            }
        }
        self.refused.take_if(|(at, _)| is_old(*at));
    }

    fn has_others(&self, who: &PrincipalKey) -> bool {
        let senders = self.counts.len() - usize::from(self.counts.contains_key(who));
        senders > 0 || self.refused.as_ref().is_some_and(|(_, other)| other != who)
    }
}

/// The long-term limit in bytes per second.
pub(crate) const RATE: f64 = 512.0 * 1024.0;
/// Bytes that may be sent at once.
pub(crate) const BURST: f64 = 2.0 * 1024.0 * 1024.0;
/// Bytes that each message counts for in addition to its own, for the work that it causes.
pub(crate) const MESSAGE: usize = 512;

/// A token bucket.
///
/// Invariant: more than [`BURST`] bytes at once, or more than [`RATE`] for long, is over the pace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    /// Bytes that may be sent at once. Below zero there were too many.
    left: f64,
    since: Instant,
    /// Bytes taken since it was full.
    taken: f64,
}

impl TokenBucket {
    /// Makes a full bucket.
    pub(crate) const fn full(now: Instant) -> Self {
        Self { left: BURST, since: now, taken: 0.0 }
    }

    /// Takes `bytes`, of which there are at most some hundred thousand. Returns whether there were fewer.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) -> bool {
        let refill = RATE * now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
        self.left = (self.left + refill).min(BURST);
        if self.left >= BURST {
            self.taken = 0.0;
        }
        // `f64` represents so few exactly.
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        // A flood is over after some seconds of silence, however large it was.
        self.left = (self.left - bytes).max(-BURST);
        self.taken += bytes;
        self.left < 0.0
    }

    /// Whether nothing was taken for some seconds.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.left + RATE * now.saturating_duration_since(self.since).as_secs_f64() >= BURST
    }

    /// Bytes taken since it was full.
    pub(crate) const fn taken(&self) -> f64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(limit: &RateLimit, who: &str, now: Instant) -> Option<u64> {
        match limit.take(Some(&who.into()), now) {
            Ok(()) => None,
            Err(Error::Paced { retry_in, .. }) => Some(retry_in.as_secs()),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn no_minute_has_more_than_the_limit() {
        let (limit, start) = (RateLimit::new(4), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 0, 10, 20] {
            assert_eq!(taken(&limit, "a", at(second)), None);
        }
        assert_eq!(taken(&limit, "a", at(30)), Some(30), "the two oldest are 30 s old");
        assert_eq!(taken(&limit, "a", at(60)), None);
        assert_eq!(taken(&limit, "a", at(60)), None);
        assert_eq!(taken(&limit, "a", at(60)), Some(10));
        assert_eq!(limit.record.lock().expect("free").sent.len(), 4);
        assert_eq!(taken(&limit, "a", at(200)), None);
        let record = limit.record.lock().expect("free");
        assert_eq!((record.sent.len(), record.counts.len(), record.refused.is_none()), (1, 1, true));
    }

    #[test]
    fn one_principal_leaves_a_quarter_to_others_that_are_there() {
        let (limit, start) = (RateLimit::new(8), Instant::now());
        for _ in 0..8 {
            assert_eq!(taken(&limit, "greedy", start), None, "nobody else is there");
        }
        let later = start + Duration::from_secs(59);
        assert_eq!(taken(&limit, "b", later), Some(1));
        let later = start + PERIOD;
        let got = (0..8).filter(|_| taken(&limit, "greedy", later).is_none()).count();
        assert_eq!(got, 6, "`b` was refused and still has a place");
        assert_eq!([taken(&limit, "b", later), taken(&limit, "b", later)], [None, None]);
        assert_eq!(taken(&limit, "b", later), Some(60), "full");
    }

    #[test]
    fn a_limit_of_one_lets_one_in() {
        let limit = RateLimit::new(1);
        let now = Instant::now();
        assert_eq!(taken(&limit, "a", now), None);
        assert_eq!(taken(&limit, "b", now), Some(60));
        assert_eq!(taken(&limit, "a", now + PERIOD), None);
    }
}
