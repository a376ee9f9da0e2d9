//! Decides whether a failed attempt is repeated, and after which pause.
//!
//! Invariants: one table decides, [`after`]. There are never more retries than configured, and a pause always
//! ends before the deadline. The retries to one server are at most a fifth of its requests plus three a
//! second. So a retry never turns an outage into a flood. A call that may have run and is not declared
//! repeatable is never sent twice.
//!
//! Not here: reconnecting in the background (`supervise`), which has its own schedule.

use std::time::Duration;

use tokio::time::Instant;
use tower::retry::budget::{Budget, TpsBudget};

use super::config;
use super::connection::Call;
use super::error::Error;
use protocol::feature::Effect;
use protocol::method;

/// The longest `Retry-After` that Switchyard waits for. A longer one is returned to the caller.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Share of the requests that may be retried, in addition to [`ALWAYS_PER_SECOND`].
const BUDGET_SHARE: f32 = 0.2;
/// Retries per second that are always allowed, for servers with little traffic.
const ALWAYS_PER_SECOND: u32 = 3;
/// How long a request adds to the budget. One second, so that a burst cannot save up more.
const BUDGET_MEMORY: Duration = Duration::from_secs(1);

/// Whether a call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetrySafety {
    /// Lists, reads, discovery and health checks: harmless at any time.
    Read,
    /// A tool declared read-only or idempotent.
    Repeatable,
    /// Any other tool, and a read-only tool whose calls cost money.
    Unsafe,
}

impl RetrySafety {
    /// Returns the kind of `call`.
    pub(super) fn of(call: &Call) -> Self {
        match call.effect {
            Effect::Unsafe | Effect::Metered => Self::Unsafe,
            Effect::ReadOnly | Effect::Idempotent if call.method == method::TOOLS_CALL => Self::Repeatable,
            Effect::ReadOnly | Effect::Idempotent => Self::Read,
        }
    }
}

/// The reaction to a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Return the failure to the caller.
    Answer,
    /// Retry after a pause that Switchyard chooses.
    Again,
    /// Retry after the pause that the server asked for.
    Pace(Duration),
}

/// The table: the failure of the attempt × whether the call may be repeated.
#[allow(clippy::match_same_arms)] // one arm per row: the table is read, not computed
const fn after(error: &Error, kind: RetrySafety) -> Next {
    use RetrySafety::{Read, Repeatable, Unsafe};
    match (error, kind) {
        // Switchyard itself refused the call, and an immediate retry would be refused again.
        (
            Error::CircuitOpen { .. }
            | Error::Overloaded { .. }
            | Error::Full { .. }
            | Error::Paced { .. }
            | Error::AuthFailed { .. }
            | Error::LoginRequired { .. }
            | Error::SecretRequired { .. }
            | Error::Unavailable { .. },
            Read | Repeatable | Unsafe,
        ) => Next::Answer,
        // The request was not sent, so it cannot have run.
        (
            Error::Connect { .. } | Error::NotSent { .. } | Error::SessionEnded(_),
            Read | Repeatable | Unsafe,
        ) => Next::Again,
        // The request was sent, and it is unknown whether it ran.
        (Error::Lost { .. } | Error::TimedOut { .. }, Read | Repeatable) => Next::Again,
        (Error::Lost { .. } | Error::TimedOut { .. }, Unsafe) => Next::Answer,
        // The request ran, and part of the response is lost.
        (Error::Cut { .. }, Read) => Next::Again,
        (Error::Cut { .. }, Repeatable | Unsafe) => Next::Answer,
        (Error::Status { status, retry_after, .. }, kind) => after_status(*status, *retry_after, kind, false),
        (Error::Backend { status, retry_after, .. }, kind) => after_status(*status, *retry_after, kind, true),
        // The request ran, but there was no memory for the response. A retry would need the same memory.
        (Error::MemoryExhausted, Read | Repeatable | Unsafe) => Next::Answer,
        // The server answered, and a retry would get the same answer.
        (
            Error::Malformed { .. } | Error::Unreadable { .. } | Error::TooLarge { .. },
            Read | Repeatable | Unsafe,
        ) => Next::Answer,
    }
}

/// The rows of [`after`] for an HTTP status without a message. A 429 of the service behind a built-in server
/// is a refusal even without `Retry-After`. Its 500 may be a model that failed once.
const fn after_status(
    status: u16,
    retry_after: Option<Duration>,
    kind: RetrySafety,
    is_backend: bool,
) -> Next {
    match (status, retry_after, kind) {
        // With `Retry-After` both mean that the request was not accepted, so a retry is safe for every kind.
        (429 | 503, Some(pause), _) => Next::Pace(pause),
        // A proxy reports that its server was unreachable or silent.
        (502..=504, _, RetrySafety::Read | RetrySafety::Repeatable) => Next::Again,
        (429 | 500, _, RetrySafety::Read | RetrySafety::Repeatable) if is_backend => Next::Again,
        _ => Next::Answer,
    }
}

/// State that all calls to one server share: the configured limits and the budget.
#[derive(Debug)]
pub(super) struct Retries {
    config: config::Retry,
    budget: TpsBudget,
}

impl Retries {
    /// Makes a full budget.
    pub(super) fn new(config: config::Retry) -> Self {
        Self { config, budget: TpsBudget::new(BUDGET_MEMORY, ALWAYS_PER_SECOND, BUDGET_SHARE) }
    }

    /// Counts a request towards the budget and returns its attempts.
    pub(super) fn begin(&self, kind: RetrySafety) -> Attempts<'_> {
        self.budget.deposit();
        Attempts { retries: self, kind, extra: 0 }
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    retries: &'a Retries,
    kind: RetrySafety,
    extra: u32,
}

impl Attempts<'_> {
    /// Returns the number of the current attempt, from 1.
    pub(super) const fn number(&self) -> u32 {
        self.extra + 1
    }

    /// Returns the pause before the next attempt, or `None` to return `error` to the caller. `refused_for` is
    /// how long the breaker refuses calls. A retry during that time would be refused.
    pub(super) fn pause_after(
        &mut self,
        error: &Error,
        deadline: Instant,
        refused_for: Option<Duration>,
    ) -> Option<Duration> {
        let config = &self.retries.config;
        let pause = match after(error, self.kind) {
            Next::Answer => return None,
            Next::Again => full_jitter(ceiling(config.delay, config.max_delay, self.extra)),
            Next::Pace(requested) if requested > LONGEST_RETRY_AFTER => return None,
            // Wait at least as long as asked, and add a random time so that callers do not return together.
            Next::Pace(requested) => requested + full_jitter(requested / 10),
        };
        let worth_it = self.extra < config.attempts
            && Instant::now() + pause < deadline
            && refused_for.is_none_or(|refused| refused <= pause)
            && self.retries.budget.withdraw();
        self.extra += u32::from(worth_it);
        worth_it.then_some(pause)
    }
}

/// Returns `first` · 2^`doublings`, at most `most`.
pub fn ceiling(first: Duration, most: Duration, doublings: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(doublings)).min(most)
}

/// Returns a random duration up to `most`, with equal probability, so that callers that fail together do not
/// return together.
pub fn full_jitter(most: Duration) -> Duration {
    most.mul_f64(rand::random_range(0.0..=1.0))
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
