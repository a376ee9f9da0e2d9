//! The counts of one limit at this gateway, for each caller.
//!
//! Requests in a minute are one time for each caller: when its whole minute is free again (the generic cell rate algorithm).
//! Invariants: there are at most [`MAX_CALLERS`] counts. A count is forgotten only when it is like a new one, so nobody gets
//! a fresh limit by making the gateway forget. Callers beyond that share one count.
//!
//! Not here: counts that gateways share (`runtime::store`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use runtime::rate;
use runtime::store::{LimitKind, PERIOD};

/// Most callers of one limit with a count of their own.
const MAX_CALLERS: usize = 16_384;
/// The shortest time between two searches for counts that can be forgotten.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// A caller, as a hash with a secret key. Two of [`MAX_CALLERS`] have the same one in less than one of 10^11 gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CallerId(u64);

/// The callers that share one count.
const OTHERS: CallerId = CallerId(0);

/// The counts of one limit.
#[derive(Debug, Default)]
pub(super) struct Counts {
    table: Mutex<Table>,
    hasher: RandomState,
    /// Refused requests, by what was reached.
    refused: [AtomicU64; 2],
}

#[derive(Debug, Default)]
struct Table {
    by_caller: HashMap<CallerId, Count>,
    swept: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    /// When all requests of a minute are free.
    free_at: Instant,
    running: u32,
}

/// The part of a count that one request took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) caller: CallerId,
    /// The part of the minute that it took.
    pub(super) time: Option<Duration>,
    /// Calls that run, if they are limited.
    pub(super) running: Option<u32>,
}

impl Taken {
    /// Whether the caller has a count of its own.
    pub(super) fn is_own(&self) -> bool {
        self.caller != OTHERS
    }
}

impl Counts {
    /// Takes a request of `caller`, of `requests` in a minute and `calls` at a time. The error is what is reached, and
    /// when there is room again, if that is known. `record` gets what was taken before another worker changes the count,
    /// so that numbers are recorded in their order.
    pub(super) fn take(
        &self,
        caller: &str,
        (requests, calls): (Option<u32>, Option<u32>),
        now: Instant,
        record: impl FnOnce(&Taken),
    ) -> Result<Taken, (LimitKind, Option<Duration>)> {
        let mut table = self.lock();
        let caller = table.caller(CallerId(self.hasher.hash_one(caller)), now);
        let count = table.by_caller.entry(caller).or_insert(Count { free_at: now, running: 0 });
        if calls.is_some_and(|most| count.running >= most) {
            return Err((LimitKind::Calls, None));
        }
        let time = requests.map(|most| PERIOD / most);
        if let Some(time) = time {
            rate::take(&mut count.free_at, now, time, PERIOD)
                .map_err(|wait| (LimitKind::Requests, Some(wait)))?;
        }
        count.running += u32::from(calls.is_some());
        let taken = Taken { caller, time, running: calls.map(|_| count.running) };
        record(&taken);
        Ok(taken)
    }

    /// Ends the call of `taken`. A request that was refused in another place did not take `time` of the minute either.
    /// `record` gets the number of calls that still run, before another worker changes it.
    pub(super) fn give_back(&self, taken: &Taken, time: Option<Duration>, record: impl FnOnce(u32)) {
        let mut table = self.lock();
        let Some(count) = table.by_caller.get_mut(&taken.caller) else { return record(0) };
        if let Some(time) = time {
            count.free_at = count.free_at.checked_sub(time).unwrap_or(count.free_at);
        }
        if taken.running.is_some() {
            count.running = count.running.saturating_sub(1);
        }
        record(count.running);
    }

    /// Counts a request that was refused because `kind` is reached.
    pub(super) fn refused(&self, kind: LimitKind) {
        self.refused[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Refused requests: because of those in a minute, and because of calls at a time.
    pub(super) fn refusals(&self) -> [u64; 2] {
        [LimitKind::Requests, LimitKind::Calls]
            .map(|kind| self.refused[kind as usize].load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The id under which `caller` is counted: its own while there is room for it.
    fn caller(&mut self, caller: CallerId, now: Instant) -> CallerId {
        if self.by_caller.len() < MAX_CALLERS || self.by_caller.contains_key(&caller) {
            return caller;
        }
        if self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_PAUSE) {
            self.swept = Some(now);
            self.by_caller.retain(|_, count| count.running > 0 || count.free_at > now);
        }
        if self.by_caller.len() < MAX_CALLERS { caller } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds until there is room; none if the request is taken.
    fn wait(counts: &Counts, caller: &str, now: Instant) -> Option<u64> {
        let taken = counts.take(caller, (Some(6), None), now, |_| ());
        taken.err().map(|(_, wait)| wait.map_or(0, |wait| wait.as_secs()))
    }

    #[test]
    fn a_minute_is_free_again_evenly_and_each_caller_has_its_own() {
        let (counts, start) = (Counts::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..6 {
            assert_eq!(wait(&counts, "a", at(0)), None, "a whole minute is free");
        }
        assert_eq!(wait(&counts, "a", at(0)), Some(10));
        assert_eq!(wait(&counts, "b", at(0)), None);
        assert_eq!(wait(&counts, "a", at(4)), Some(6), "a refused request takes nothing");
        assert_eq!((wait(&counts, "a", at(10)), wait(&counts, "a", at(10))), (None, Some(10)));
        let later = at(1_000);
        assert_eq!((0..10).filter(|_| wait(&counts, "a", later).is_none()).count(), 6);
    }

    #[test]
    fn calls_and_requests_that_are_given_back_are_free() {
        let (counts, now) = (Counts::default(), Instant::now());
        let most = (Some(2), Some(1));
        let take = || counts.take("a", most, now, |_| ());
        let none_runs = |running| assert_eq!(running, 0);
        let taken = take().expect("free");
        assert_eq!(take().err(), Some((LimitKind::Calls, None)));
        counts.give_back(&taken, taken.time, none_runs);
        for _ in 0..2 {
            let taken = take().expect("the refused request was given back");
            counts.give_back(&taken, None, none_runs);
        }
        let refused = take().err();
        assert_eq!(refused, Some((LimitKind::Requests, Some(Duration::from_secs(30)))));
    }

    #[test]
    fn running_calls_are_recorded_before_another_worker_changes_their_number() {
        let (counts, mut recorded) = (Counts::default(), Vec::new());
        let is_held = || counts.table.try_lock().is_err();
        let most = (None, Some(2));
        let taken = counts.take("a", most, Instant::now(), |taken| recorded.push((taken.running, is_held())));
        counts.give_back(&taken.expect("free"), None, |running| recorded.push((Some(running), is_held())));
        assert_eq!(recorded, [(Some(1), true), (Some(0), true)]);
    }

    #[test]
    fn callers_beyond_the_table_share_one_count_and_make_no_other_be_forgotten() {
        let (counts, now) = (Counts::default(), Instant::now());
        let one = (Some(1), None);
        for caller in 0..MAX_CALLERS {
            counts.take(&caller.to_string(), one, now, |_| ()).expect("a new caller");
        }
        let take = |caller, at| counts.take(caller, one, at, |_| ());
        assert!(take("first beyond", now).expect("free").caller == OTHERS);
        assert!(take("second beyond", now).is_err(), "it shares the count of the first");
        assert!(take("0", now).is_err(), "the first caller is not forgotten");
        assert!(counts.lock().by_caller.len() <= MAX_CALLERS + 1);
        let later = now + 2 * PERIOD;
        assert!(take("third beyond", later).expect("free").is_own(), "old ones are gone");
        assert_eq!(counts.lock().by_caller.len(), 1);
    }
}
