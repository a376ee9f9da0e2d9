//! Whether a failed attempt is made again, and after which pause.
//!
//! Invariants: one table decides, [`after`]; never more extra attempts than configured; never a pause
//! that leaves no time before the deadline; and over a whole server not more retries than a fifth of
//! its requests and three a second, so that a retry never turns an outage into a flood.
//! A call that may have run and is not declared repeatable is never made twice.
//!
//! Not here: reconnecting in the background (`supervise`), which has a schedule of its own.

use std::time::Duration;

use tokio::time::Instant;
use tower::retry::budget::{Budget, TpsBudget};

use super::config;
use super::connection::Call;
use super::error::Error;
use protocol::feature::Effect;
use protocol::method;

/// The longest `Retry-After` that is waited for; a longer one is the caller's to know.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Share of the requests that may be retried, on top of [`ALWAYS_PER_SECOND`].
const BUDGET_SHARE: f32 = 0.2;
/// Retries a second that are allowed to a server with little traffic.
const ALWAYS_PER_SECOND: u32 = 3;
/// How long a request adds to the budget. One second, so that no burst saves up more than a
/// second's worth.
const BUDGET_MEMORY: Duration = Duration::from_secs(1);

/// What may be done twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lists, reads, discovery and health checks: harmless at any time.
    Read,
    /// A tool declared read-only or idempotent.
    Repeatable,
    /// Any other tool, and one that only reads but is paid for.
    Unsafe,
}

impl Kind {
    /// What `call` is.
    pub(super) fn of(call: &Call) -> Self {
        match call.effect {
            Effect::Unsafe | Effect::Metered => Self::Unsafe,
            Effect::ReadOnly | Effect::Idempotent if call.method == method::TOOLS_CALL => Self::Repeatable,
            Effect::ReadOnly | Effect::Idempotent => Self::Read,
        }
    }
}

/// What to do about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Give the failure to the caller.
    Answer,
    /// Try again after a pause of ours.
    Again,
    /// Try again after the pause the server asked for.
    Pace(Duration),
}

/// The table: what we know of the failed attempt × what may be done twice.
#[allow(clippy::match_same_arms)] // one arm per row: the table is read, not computed
const fn after(error: &Error, kind: Kind) -> Next {
    use Kind::{Read, Repeatable, Unsafe};
    match (error, kind) {
        // We refused it ourselves: trying again at once would only be refused again.
        (
            Error::CircuitOpen { .. }
            | Error::Overloaded { .. }
            | Error::Leased { .. }
            | Error::Paced { .. }
            | Error::AuthFailed { .. }
            | Error::LoginRequired { .. }
            | Error::Unavailable { .. },
            Read | Repeatable | Unsafe,
        ) => Next::Answer,
        // Nothing was sent, so nothing can have run.
        (Error::Connect { .. } | Error::NotSent { .. }, Read | Repeatable | Unsafe) => Next::Again,
        // It was sent, and whether it ran is unknown.
        (Error::Lost { .. } | Error::TimedOut { .. }, Read | Repeatable) => Next::Again,
        (Error::Lost { .. } | Error::TimedOut { .. }, Unsafe) => Next::Answer,
        // It ran, and part of the answer is gone.
        (Error::Cut { .. }, Read) => Next::Again,
        (Error::Cut { .. }, Repeatable | Unsafe) => Next::Answer,
        (Error::Status { status, retry_after }, kind) => after_status(*status, *retry_after, kind, false),
        (Error::Backend { status, retry_after, .. }, kind) => after_status(*status, *retry_after, kind, true),
        // It ran, and there was no room for the answer; asking again would need the same room.
        (Error::MemoryExhausted, Read | Repeatable | Unsafe) => Next::Answer,
        // It answered; the same question gets the same answer.
        (Error::Malformed { .. } | Error::TooLarge { .. }, Read | Repeatable | Unsafe) => Next::Answer,
    }
}

/// The rows of [`after`] for an HTTP status without a message. The 429 of the service behind a built-in server is a
/// refusal also without a time, and its 500 may be a model that failed once.
const fn after_status(status: u16, retry_after: Option<Duration>, kind: Kind, is_backend: bool) -> Next {
    match (status, retry_after, kind) {
        // With `Retry-After` both say "I did not take it", which is safe for every kind.
        (429 | 503, Some(pause), _) => Next::Pace(pause),
        // A proxy reports for its server what we else see ourselves: lost, or silent.
        (502..=504, _, Kind::Read | Kind::Repeatable) => Next::Again,
        (429 | 500, _, Kind::Read | Kind::Repeatable) if is_backend => Next::Again,
        _ => Next::Answer,
    }
}

/// What all calls to one server share: the configured limits and the budget.
#[derive(Debug)]
pub(super) struct Retries {
    config: config::Retry,
    budget: TpsBudget,
}

impl Retries {
    /// A full budget.
    pub(super) fn new(config: config::Retry) -> Self {
        Self { config, budget: TpsBudget::new(BUDGET_MEMORY, ALWAYS_PER_SECOND, BUDGET_SHARE) }
    }

    /// Counts a request towards the budget and follows its attempts.
    pub(super) fn begin(&self, kind: Kind) -> Attempts<'_> {
        self.budget.deposit();
        Attempts { retries: self, kind, extra: 0 }
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    retries: &'a Retries,
    kind: Kind,
    extra: u32,
}

impl Attempts<'_> {
    /// Which attempt it is, 1 for the first.
    pub(super) const fn number(&self) -> u32 {
        self.extra + 1
    }

    /// The pause before the next attempt, or `None` when `error` is the answer. `refused_for` is how
    /// long the breaker refuses: waiting for a refusal helps nobody.
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
            Next::Pace(asked) if asked > LONGEST_RETRY_AFTER => return None,
            // Never earlier than asked, and not all at the same moment.
            Next::Pace(asked) => asked + full_jitter(asked / 10),
        };
        let worth_it = self.extra < config.attempts
            && Instant::now() + pause < deadline
            && refused_for.is_none_or(|refused| refused <= pause)
            && self.retries.budget.withdraw();
        self.extra += u32::from(worth_it);
        worth_it.then_some(pause)
    }
}

/// `first` · 2^`doublings`, at most `most`.
pub fn ceiling(first: Duration, most: Duration, doublings: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(doublings)).min(most)
}

/// Any duration up to `most`, all equally likely, so that those who fail together do not return
/// together.
pub fn full_jitter(most: Duration) -> Duration {
    most.mul_f64(rand::random_range(0.0..=1.0))
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
