//! The circuit breaker of one server: it stops asking a server that keeps failing, and finds out
//! with one request at a time when it is worth asking again.
//!
//! Invariants: half-open, exactly one permit is out, however many callers ask. An attempt without a result, whose caller
//! left or gave the server no time, returns its permit and counts as nothing. A result that belongs to an earlier state
//! never changes a later one. [`Error::trips_breaker`] decides what counts as a failure: an error *from* the server is
//! an answer.
//!
//! Does not wait and try again (`retry`, `supervise`), and does not hold permits (`inflight_guard`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::config;
use super::error::{Delivery, Error};

/// What a refused caller is told while a probe is out, whose end nobody knows.
const WHILE_PROBING: Duration = Duration::from_secs(1);

/// The breaker of one server.
///
/// ```text
///                    `threshold` failures in a row
///        ┌────────┐ ───────────────────────────────► ┌────────┐
///        │ closed │                                  │  open  │ ◄─┐
///        └────────┘ ◄──── reset (from anywhere) ──── └────────┘   │
///             ▲                                           │       │
///             │                   `timeout` is over and somebody  │
///             │                   asks: that one is the probe     │
///             │                                           ▼       │ the probe failed
///             │                                    ┌───────────┐  │
///             └─ `successes` probes succeeded ──── │ half-open │ ─┘
///                                                  └───────────┘
///                              the probe was dropped: the seat is free, the next one who asks has it
/// ```
#[derive(Debug)]
pub struct Breaker {
    config: config::Breaker,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    phase: Phase,
    /// Consecutive failures; kept while open, for operators.
    failures: u32,
    /// Counts the changes of `phase`, so that a late result is known as one.
    generation: u64,
    /// Counts the connection faults that were counted, see [`Breaker::settle`].
    faults: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open {
        until: Instant,
    },
    /// `successes` probes in a row succeeded so far.
    HalfOpen {
        probing: bool,
        successes: u32,
    },
}

/// The state of a breaker as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One call is trying out whether the server is back.
    HalfOpen,
}

impl State {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// `closed`, `open` or `half_open`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// A breaker at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// Its state.
    pub state: State,
    /// Failures in a row, up to now.
    pub consecutive_failures: u32,
    /// While open: time until a probe is let through, zero when the next call is one.
    pub retry_in: Option<Duration>,
}

/// What a result means to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The server answered.
    Success,
    /// It failed for this call: silence, a broken answer, 502 to 504.
    Failure,
    /// The connection failed, and with it possibly many calls at a time.
    ConnectionFault,
    /// Nothing was learnt: we refused it ourselves, or the caller left.
    Nothing,
}

impl Verdict {
    fn of<T>(result: &Result<T, Error>) -> Self {
        match result {
            Ok(_) => Self::Success,
            Err(Error::Connect { .. } | Error::NotSent { .. } | Error::Lost { .. } | Error::Cut { .. }) => {
                Self::ConnectionFault
            }
            Err(error) if error.trips_breaker() => Self::Failure,
            // HTTP 404 or 429, or an answer that is too large: somebody is there and answers.
            Err(error) if error.delivery() == Delivery::Answered => Self::Success,
            Err(_) => Self::Nothing,
        }
    }
}

impl Breaker {
    /// A closed breaker.
    pub const fn new(config: config::Breaker) -> Self {
        let inner = Inner { phase: Phase::Closed, failures: 0, generation: 0, faults: 0 };
        Self { config, inner: Mutex::new(inner) }
    }

    /// Asks to make one attempt; [`Error::CircuitOpen`] when the server is to be left alone.
    pub fn admit(&self) -> Result<Permit, Error> {
        self.admit_at(Instant::now)
    }

    fn admit_at(&self, now: impl FnOnce() -> Instant) -> Result<Permit, Error> {
        let mut inner = self.lock();
        if let Some(retry_in) = inner.refuses_for(now) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let is_probe = !matches!(inner.phase, Phase::Closed);
        match inner.phase {
            Phase::Closed => {}
            Phase::Open { .. } => inner.change(Phase::HalfOpen { probing: true, successes: 0 }),
            Phase::HalfOpen { successes, .. } => {
                inner.phase = Phase::HalfOpen { probing: true, successes };
            }
        }
        Ok(Permit { generation: inner.generation, faults: inner.faults, is_probe })
    }

    /// Time for which [`Breaker::admit`] would refuse; `None` when it would not. Takes no seat.
    pub fn refuses_for(&self) -> Option<Duration> {
        self.lock().refuses_for(Instant::now)
    }

    /// Its state now.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_at(Instant::now())
    }

    fn snapshot_at(&self, now: Instant) -> Snapshot {
        let inner = self.lock();
        let (state, retry_in) = match inner.phase {
            Phase::Closed => (State::Closed, None),
            Phase::Open { until } => (State::Open, Some(until.saturating_duration_since(now))),
            Phase::HalfOpen { .. } => (State::HalfOpen, None),
        };
        Snapshot { state, consecutive_failures: inner.failures, retry_in }
    }

    /// Records how the attempt with this permit ended.
    pub fn judge<T>(&self, permit: Permit, result: &Result<T, Error>) {
        self.settle(permit, Verdict::of(result), Instant::now);
    }

    /// Records an attempt that says nothing of the server.
    pub fn forget(&self, permit: Permit) {
        self.settle(permit, Verdict::Nothing, Instant::now);
    }

    /// Closes it now; results of calls that are still running no longer count.
    pub fn reset(&self) {
        let mut inner = self.lock();
        inner.failures = 0;
        inner.change(Phase::Closed);
    }

    /// Takes in the result of one permit.
    ///
    /// Calls that share a connection fail together, and so do all that wait for one connect. Such a
    /// failure counts once: a connection fault does not count for a call that was admitted before
    /// the last one that did. Otherwise one crash of a busy child process would open the breaker.
    fn settle(&self, permit: Permit, verdict: Verdict, now: impl FnOnce() -> Instant) {
        let (Permit { generation, faults, .. }, mut inner) = (permit, self.lock());
        if inner.generation != generation {
            return;
        }
        match (inner.phase, verdict) {
            // Nobody holds a permit of an open breaker.
            (Phase::Open { .. }, _) | (Phase::Closed, Verdict::Nothing) => {}
            (Phase::Closed, Verdict::Success) => inner.failures = 0,
            (Phase::Closed, Verdict::ConnectionFault) if faults != inner.faults => {}
            (Phase::Closed, Verdict::Failure | Verdict::ConnectionFault) => {
                inner.faults += u64::from(verdict == Verdict::ConnectionFault);
                inner.failures = inner.failures.saturating_add(1);
                if inner.failures >= self.config.threshold {
                    inner.change(Phase::Open { until: now() + self.config.timeout });
                }
            }
            (Phase::HalfOpen { successes, .. }, Verdict::Nothing) => {
                inner.phase = Phase::HalfOpen { probing: false, successes };
            }
            (Phase::HalfOpen { successes, .. }, Verdict::Success)
                if successes + 1 < self.config.successes =>
            {
                inner.phase = Phase::HalfOpen { probing: false, successes: successes + 1 };
            }
            (Phase::HalfOpen { .. }, Verdict::Success) => {
                inner.failures = 0;
                inner.change(Phase::Closed);
            }
            (Phase::HalfOpen { .. }, Verdict::Failure | Verdict::ConnectionFault) => {
                inner.failures = inner.failures.saturating_add(1);
                inner.change(Phase::Open { until: now() + self.config.timeout });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn change(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
        tracing::debug!(?phase, failures = self.failures, "circuit breaker changed");
    }

    /// A closed one, which is the usual one, needs no clock.
    fn refuses_for(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        match self.phase {
            Phase::Closed | Phase::HalfOpen { probing: false, .. } => None,
            Phase::HalfOpen { probing: true, .. } => Some(WHILE_PROBING),
            Phase::Open { until } => {
                Some(until.saturating_duration_since(now())).filter(|left| !left.is_zero())
            }
        }
    }
}

/// Leave to make one attempt. Its holder owes the breaker [`Breaker::judge`] or [`Breaker::forget`].
#[derive(Debug)]
#[must_use = "a probe that is never settled keeps the breaker half-open"]
pub struct Permit {
    generation: u64,
    faults: u64,
    is_probe: bool,
}

impl Permit {
    /// Whether other calls wait for its result.
    pub const fn is_probe(&self) -> bool {
        self.is_probe
    }
}

#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
