//! The circuit breaker of one server. It stops calls to a server that keeps failing, and then sends one probe
//! at a time to find out whether the server is back.
//!
//! Invariants: while half-open, at most one permit is issued, for any number of callers. An attempt without a
//! result returns its permit and does not count. Its caller left, or gave the server no time. A result that
//! belongs to an earlier state never changes a later one. [`Error::trips_breaker`] decides which errors count
//! as failures. An error response of the server does not.
//!
//! If all failures in a row come from calls of one principal, the breaker opens for that principal only. It opens for
//! all with the first failure of another caller, or once `threshold` of them failed in a row if one succeeded meanwhile.
//! So one principal shuts out nobody else, and a dead server costs the others one call.
//!
//! Does not wait and try again (`retry`, `supervise`), and does not hold permits (`inflight_guard`).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::config;
use super::error::{Delivery, Error};

/// The `retry_in` of callers that are refused during a probe, because the end of the probe is unknown.
const WHILE_PROBING: Duration = Duration::from_secs(1);

/// The breaker of one server.
///
/// ```text
///                    `threshold` failures in a row
///        ┌────────┐ ───────────────────────────────► ┌────────┐
///        │ closed │                                  │  open  │ ◄─┐
///        └────────┘ ◄──── reset (from anywhere) ──── └────────┘   │
///             ▲                                           │       │
///             │                   `timeout` is over and a call    │
///             │                   arrives, which is the probe     │
///             │                                           ▼       │ the probe failed
///             │                                    ┌───────────┐  │
///             └─ `successes` probes succeeded ──── │ half-open │ ─┘
///                                                  └───────────┘
///                              if the probe is dropped, the next call is the probe
/// ```
#[derive(Debug)]
pub struct Breaker {
    config: config::BreakerConfig,
    inner: Mutex<BreakerState>,
}

#[derive(Debug)]
struct BreakerState {
    phase: BreakerPhase,
    /// Consecutive failures; kept while open, for operators.
    failures: u32,
    /// Counts the changes of `phase`, to detect late results.
    generation: u64,
    /// Number of connection faults that counted as failures, see [`Breaker::settle`].
    faults: u64,
    /// The callers of the failures in a row.
    callers: FailingCallers,
    /// Failures in a row of other callers, while the breaker is not closed for one principal.
    others: u32,
    listener: Option<Listener>,
}

/// A change of the state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// Consecutive failures.
    pub failures: u32,
}

/// Receives each change, while the breaker is locked.
struct Listener(Box<dyn Fn(Changed) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

#[derive(Debug, Clone, Copy)]
enum BreakerPhase {
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

impl BreakerPhase {
    const fn state(self) -> State {
        match self {
            Self::Closed => State::Closed,
            Self::Open { .. } => State::Open,
            Self::HalfOpen { .. } => State::HalfOpen,
        }
    }
}

/// The state of a breaker as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One call at a time probes whether the server is back.
    HalfOpen,
}

impl State {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Returns `closed`, `open` or `half_open`.
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
    /// Consecutive failures.
    pub consecutive_failures: u32,
    /// While half-open: probes in a row that succeeded.
    pub successes: u32,
    /// While open: time until a probe is allowed, or zero if the next call is one.
    pub retry_in: Option<Duration>,
}

impl Breaker {
    /// A closed breaker.
    pub const fn new(config: config::BreakerConfig) -> Self {
        let inner = BreakerState {
            phase: BreakerPhase::Closed,
            failures: 0,
            generation: 0,
            faults: 0,
            callers: FailingCallers::Nobody,
            others: 0,
            listener: None,
        };
        Self { config, inner: Mutex::new(inner) }
    }

    /// A closed breaker that passes its changes to `listener`, which must not wait.
    pub fn telling(
        config: config::BreakerConfig,
        listener: impl Fn(Changed) + Send + Sync + 'static,
    ) -> Self {
        let breaker = Self::new(config);
        breaker.lock().listener = Some(Listener(Box::new(listener)));
        breaker
    }

    /// Returns a permit for one attempt of `principal`, or of Switchyard itself, or [`Error::CircuitOpen`] if the server
    /// must not be called.
    pub fn admit(&self, principal: Option<&Arc<str>>) -> Result<Permit, Error> {
        self.admit_at(principal, Instant::now)
    }

    fn admit_at(&self, principal: Option<&Arc<str>>, now: impl FnOnce() -> Instant) -> Result<Permit, Error> {
        let mut inner = self.lock();
        if let Some(retry_in) = inner.refuses_for(principal, now) {
            return Err(Error::CircuitOpen { retry_in });
        }
        let is_bystander = !inner.concerns(principal);
        let is_probe = !is_bystander && !matches!(inner.phase, BreakerPhase::Closed);
        match inner.phase {
            _ if is_bystander => {}
            BreakerPhase::Closed => {}
            BreakerPhase::Open { .. } => inner.change(BreakerPhase::HalfOpen { probing: true, successes: 0 }),
            BreakerPhase::HalfOpen { successes, .. } => {
                inner.phase = BreakerPhase::HalfOpen { probing: true, successes };
            }
        }
        let (generation, faults, principal) = (inner.generation, inner.faults, principal.cloned());
        Ok(Permit { generation, faults, principal, is_bystander, is_probe })
    }

    /// Returns the time for which [`Breaker::admit`] refuses, or `None` if it does not. Takes no permit.
    pub(crate) fn refuses_for(&self, principal: Option<&Arc<str>>) -> Option<Duration> {
        self.lock().refuses_for(principal, Instant::now)
    }

    /// Returns its current state.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_at(Instant::now())
    }

    fn snapshot_at(&self, now: Instant) -> Snapshot {
        let inner = self.lock();
        let retry_in = match inner.phase {
            BreakerPhase::Open { until } => Some(until.saturating_duration_since(now)),
            BreakerPhase::Closed | BreakerPhase::HalfOpen { .. } => None,
        };
        let successes = match inner.phase {
            BreakerPhase::HalfOpen { successes, .. } => successes,
            BreakerPhase::Closed | BreakerPhase::Open { .. } => 0,
        };
        let (state, consecutive_failures) = (inner.phase.state(), inner.failures);
        Snapshot { state, consecutive_failures, successes, retry_in }
    }

    /// Records the result of the attempt with this permit.
    pub fn judge<T>(&self, permit: Permit, result: &Result<T, Error>) {
        self.settle(permit, Verdict::of(result), Instant::now);
    }

    /// Records an attempt that says nothing about the server.
    pub fn forget(&self, permit: Permit) {
        self.settle(permit, Verdict::Nothing, Instant::now);
    }

    /// Closes the breaker. Results of running calls no longer count.
    pub fn reset(&self) {
        let mut inner = self.lock();
        inner.close();
    }

    /// Records the result of one permit.
    ///
    /// Calls that share a connection fail together, and so do all that wait for one connect. Such a failure
    /// counts once. A connection fault does not count if the call was admitted before the last fault that
    /// counted. Otherwise one crash of a busy child process would open the breaker.
    fn settle(&self, permit: Permit, verdict: Verdict, now: impl FnOnce() -> Instant) {
        let (Permit { generation, faults, principal, is_bystander, .. }, mut inner) = (permit, self.lock());
        if is_bystander {
            return self.settle_bystander(&mut inner, (principal.as_ref(), faults), verdict, now);
        }
        if inner.generation != generation {
            return;
        }
        match (inner.phase, verdict) {
            // No permit was issued by an open breaker.
            (BreakerPhase::Open { .. }, _) | (BreakerPhase::Closed, Verdict::Nothing) => {}
            (BreakerPhase::Closed, Verdict::Success) => {
                (inner.failures, inner.callers) = (0, FailingCallers::Nobody);
            }
            (BreakerPhase::Closed, Verdict::ConnectionFault) if faults != inner.faults => {}
            (BreakerPhase::Closed, Verdict::Failure | Verdict::ConnectionFault) => {
                inner.faults += u64::from(verdict == Verdict::ConnectionFault);
                inner.failures = inner.failures.saturating_add(1);
                inner.callers.add(principal);
                if inner.failures >= self.config.threshold {
                    inner.others = self.config.threshold.saturating_sub(1);
                    inner.change(BreakerPhase::Open { until: now() + self.config.timeout });
                }
            }
            (BreakerPhase::HalfOpen { successes, .. }, Verdict::Nothing) => {
                inner.phase = BreakerPhase::HalfOpen { probing: false, successes };
            }
            (BreakerPhase::HalfOpen { successes, .. }, Verdict::Success)
                if successes + 1 < self.config.successes =>
            {
                inner.phase = BreakerPhase::HalfOpen { probing: false, successes: successes + 1 };
            }
            (BreakerPhase::HalfOpen { .. }, Verdict::Success) => inner.close(),
            (BreakerPhase::HalfOpen { .. }, Verdict::Failure | Verdict::ConnectionFault) => {
                inner.failures = inner.failures.saturating_add(1);
                inner.change(BreakerPhase::Open { until: now() + self.config.timeout });
            }
        }
    }

    /// Records the result of a caller whom the breaker did not concern. It is opened for all if enough of them fail.
    fn settle_bystander(
        &self,
        inner: &mut BreakerState,
        (principal, faults): (Option<&Arc<str>>, u64),
        verdict: Verdict,
        now: impl FnOnce() -> Instant,
    ) {
        if inner.concerns(principal) {
            return;
        }
        match verdict {
            Verdict::Nothing => return,
            Verdict::ConnectionFault if faults != inner.faults => return,
            Verdict::Success => return inner.others = 0,
            Verdict::ConnectionFault => inner.faults += 1,
            Verdict::Failure => {}
        }
        inner.others = inner.others.saturating_add(1);
        if inner.others >= self.config.threshold {
            inner.failures = inner.failures.saturating_add(1);
            inner.callers = FailingCallers::Several;
            inner.change(BreakerPhase::Open { until: now() + self.config.timeout });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerState {
    /// Whether the phase is that of calls of `principal`. An open breaker may concern another one only.
    fn concerns(&self, principal: Option<&Arc<str>>) -> bool {
        match (&self.phase, &self.callers) {
            (BreakerPhase::Closed, _) | (_, FailingCallers::Nobody | FailingCallers::Several) => true,
            (_, FailingCallers::One(one)) => principal == Some(one),
        }
    }

    fn close(&mut self) {
        (self.failures, self.callers) = (0, FailingCallers::Nobody);
        self.change(BreakerPhase::Closed);
    }

    fn change(&mut self, phase: BreakerPhase) {
        let from = std::mem::replace(&mut self.phase, phase).state();
        let changed = Changed { from, to: phase.state(), failures: self.failures };
        if let Some(Listener(notify)) = self.listener.as_ref().filter(|_| changed.from != changed.to) {
            notify(changed);
        }
        self.generation += 1;
        tracing::debug!(?phase, failures = self.failures, "circuit breaker changed");
    }

    /// Returns how long calls are refused. A closed breaker, which is the usual case, does not read the
    /// clock.
    fn refuses_for(&self, principal: Option<&Arc<str>>, now: impl FnOnce() -> Instant) -> Option<Duration> {
        match self.phase {
            _ if !self.concerns(principal) => None,
            BreakerPhase::Closed | BreakerPhase::HalfOpen { probing: false, .. } => None,
            BreakerPhase::HalfOpen { probing: true, .. } => Some(WHILE_PROBING),
            BreakerPhase::Open { until } => {
                Some(until.saturating_duration_since(now())).filter(|left| !left.is_zero())
            }
        }
    }
}

/// Permission to make one attempt. Its holder must call [`Breaker::judge`] or [`Breaker::forget`].
#[derive(Debug)]
#[must_use = "a probe that is never settled keeps the breaker half-open"]
pub struct Permit {
    generation: u64,
    faults: u64,
    principal: Option<Arc<str>>,
    /// Whether the breaker concerned another principal only.
    is_bystander: bool,
    is_probe: bool,
}

impl Permit {
    /// Whether this attempt is a probe, so that other calls depend on its result.
    pub const fn is_probe(&self) -> bool {
        self.is_probe
    }
}

/// The callers of the failures in a row.
#[derive(Debug)]
enum FailingCallers {
    /// No call failed.
    Nobody,
    /// All were calls of one principal. While the breaker is not closed, it concerns this one only.
    One(Arc<str>),
    /// Several principals, or Switchyard itself.
    Several,
}

impl FailingCallers {
    /// Adds the caller of a failure.
    fn add(&mut self, principal: Option<Arc<str>>) {
        match (&*self, principal) {
            (Self::Nobody, Some(principal)) => *self = Self::One(principal),
            (Self::One(one), Some(principal)) if *one == principal => {}
            _ => *self = Self::Several,
        }
    }
}

/// The meaning of a result for the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The server answered.
    Success,
    /// The call failed: silence, an invalid answer, or a 5xx that counts ([`Error::trips_breaker`]).
    Failure,
    /// The connection failed, possibly with many calls.
    ConnectionFault,
    /// The result says nothing about the server: Switchyard refused the call, or the caller left.
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
            // HTTP 404 or 429, or a response that is too large: the server answers.
            Err(error) if error.delivery() == Delivery::Answered => Self::Success,
            Err(_) => Self::Nothing,
        }
    }
}

#[cfg(test)]
#[path = "breaker_principal_tests.rs"]
mod principal_tests;
#[cfg(test)]
#[path = "breaker_tests.rs"]
mod tests;
