//! Schedule of the key set that a login service publishes: when it is fetched, and which tokens wait for that.
//!
//! ```text
//!             REFRESH_EVERY, or a retry after a failure
//! fetched ──────────────────────────────────────────────▶ fetch
//!    └── token with an unknown `kid` ── at most once per ASK_EVERY, for all clients together ──▶ fetch
//! ```
//!
//! Invariants: unknown `kid`s of all clients together cause at most one fetch in [`ASK_EVERY`]. At most [`MOST_WAITING`]
//! requests wait for it, each at most [`WAIT`]. Keys that could not be fetched again for [`KEPT`] are dropped.
//! Requests whose key is known never come here.
//!
//! Not here: the fetch (`key_set_fetch`), the keys themselves (`jwt_keys`).

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::token_config::KeySetLocation;
use super::{Denied, Reason};
use net::http::Network;

/// How often the keys are fetched. A key that the login service removed is accepted for at most this long.
const REFRESH_EVERY: Duration = Duration::from_mins(10);
/// The shortest time between two fetches that unknown `kid`s cause.
pub(super) const ASK_EVERY: Duration = Duration::from_mins(1);
/// How long keys are used after the last successful fetch.
pub(super) const KEPT: Duration = Duration::from_hours(24);
/// Pause before the first retry of a failed fetch; it doubles up to [`ASK_EVERY`].
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long a request waits for a fetch.
const WAIT: Duration = Duration::from_secs(2);
/// Limit of requests that wait for a fetch.
const MOST_WAITING: usize = 256;
/// Limit of `kid`s that are known to be missing.
const MOST_MISSING: usize = 64;

/// The schedule of one key set.
#[derive(Debug)]
pub(super) struct KeySet {
    pub(super) location: KeySetLocation,
    /// The `iss` of the tokens, which the metadata must name too.
    pub(super) issuer: String,
    /// The way to the login service.
    pub(super) network: Network,
    state: Mutex<State>,
    /// Wakes the task that fetches.
    wake: Notify,
    /// Whether the last fetch for an unknown `kid` succeeded. It is sent after each of them.
    answered: watch::Sender<bool>,
    places: Semaphore,
    hasher: RandomState,
}

#[derive(Debug)]
struct State {
    /// When the keys are fetched next.
    due: Instant,
    /// The last successful fetch.
    fetched: Option<Instant>,
    /// Failures since then.
    failures: u32,
    /// When an unknown `kid` may cause the next fetch.
    may_ask: Instant,
    request: Request,
    /// Hashes of the `kid`s that requests wait for.
    requested: HashSet<u64>,
    /// Hashes of the `kid`s that the last fetch did not find.
    missing: HashSet<u64>,
}

/// The request for a fetch that an unknown `kid` caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    None,
    Waiting,
    Running,
}

/// Outcome of a fetch, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The first success at all, or after failures.
    Recovered,
    /// A success after a success.
    Usual,
    /// A failure; the number of them in a row.
    Failed(u32),
}

impl KeySet {
    pub(super) fn new(location: KeySetLocation, issuer: String, network: Network) -> Self {
        let now = Instant::now();
        let state = State {
            due: now,
            fetched: None,
            failures: 0,
            may_ask: now,
            request: Request::None,
            requested: HashSet::new(),
            missing: HashSet::new(),
        };
        Self {
            location,
            issuer,
            network,
            state: Mutex::new(state),
            wake: Notify::new(),
            answered: watch::channel(false).0,
            places: Semaphore::new(MOST_WAITING),
            hasher: RandomState::new(),
        }
    }

    /// Whether `other` has the same keys.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.location == other.location && self.issuer == other.issuer && self.network == other.network
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state would be valid even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the keys were fetched for a token with the unknown `kid`.
    pub(super) async fn fetched_for(&self, kid: Option<&str>) -> Result<(), Denied> {
        let _place = self.places.try_acquire().map_err(|_| self.unavailable())?;
        let mut answered = self.answered.subscribe();
        self.ask(kid)?;
        match timeout(WAIT, answered.changed()).await {
            Ok(Ok(())) if *answered.borrow() => Ok(()),
            _ => Err(self.unavailable()),
        }
    }

    /// Requests a fetch for `kid`, if the last one was long enough ago.
    fn ask(&self, kid: Option<&str>) -> Result<(), Denied> {
        let (hash, now, mut state) = (self.hasher.hash_one(kid), Instant::now(), self.state());
        if state.request == Request::None {
            if now < state.may_ask {
                let is_missing = state.missing.contains(&hash);
                drop(state);
                return Err(if is_missing {
                    Denied::Credential(Reason::UnknownKid)
                } else {
                    self.unavailable()
                });
            }
            state.may_ask = now + ASK_EVERY;
            state.request = Request::Waiting;
            self.wake.notify_one();
        }
        if state.requested.len() < MOST_MISSING {
            state.requested.insert(hash);
        }
        Ok(())
    }

    /// The refusal of a token whose key may become known with the next fetch.
    fn unavailable(&self) -> Denied {
        let left = self.state().may_ask.saturating_duration_since(Instant::now());
        Denied::KeysUnavailable { retry_after: u16::try_from(left.as_secs()).unwrap_or(u16::MAX).max(1) }
    }

    /// Resolves when the keys must be fetched.
    pub(super) async fn due(&self) {
        if self.state().request == Request::Waiting {
            return;
        }
        let due = self.state().due;
        tokio::select! {
            () = self.wake.notified() => {}
            () = sleep_until(due) => {}
        }
    }

    /// Whether the last successful fetch was so long ago that the keys must not be used any more. It returns true once.
    pub(super) fn expires(&self) -> bool {
        let mut state = self.state();
        let is_over = state.fetched.is_some_and(|fetched| fetched.elapsed() >= KEPT);
        if is_over {
            state.fetched = None;
        }
        is_over
    }

    /// Records that a fetch begins.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        if state.request == Request::Waiting {
            state.request = Request::Running;
        }
    }

    /// Records the end of a fetch whose keys, if any, are in use now.
    pub(super) fn end(&self, has_succeeded: bool) -> Outcome {
        let (mut state, now) = (self.state(), Instant::now());
        let outcome = match (has_succeeded, state.fetched, state.failures) {
            (true, Some(_), 0) => Outcome::Usual,
            (true, ..) => Outcome::Recovered,
            (false, _, failures) => Outcome::Failed(failures.saturating_add(1)),
        };
        if let Outcome::Failed(failures) = outcome {
            let pause = FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(6)).min(ASK_EVERY);
            let expiry = state.fetched.map(|fetched| fetched + KEPT);
            (state.failures, state.due) =
                (failures, expiry.map_or(now + pause, |expiry| expiry.min(now + pause)));
        } else {
            let pause = REFRESH_EVERY.mul_f64(rand::rng().random_range(0.9..1.0));
            (state.failures, state.fetched, state.due) = (0, Some(now), now + pause);
        }
        if state.request == Request::Running {
            state.request = Request::None;
            let requested = std::mem::take(&mut state.requested);
            if has_succeeded {
                state.missing = requested;
            }
            drop(state);
            self.answered.send_replace(has_succeeded);
        }
        outcome
    }
}

#[cfg(test)]
#[path = "key_set_tests.rs"]
mod tests;
