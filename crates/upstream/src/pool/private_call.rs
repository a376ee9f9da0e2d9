//! One call on a private connection: how its end counts for whether the server hangs (`private`).

use std::time::Duration;

use tokio::time::Instant;

use crate::liveness::{Liveness, Round};
use runtime::worker::now;

/// A call that was cancelled before this age does not trigger a check.
const MIN_CHECKED_AGE: Duration = Duration::from_millis(900);

/// One call on a private connection. Its holder must call [`PrivateCall::over`].
pub(super) struct PrivateCall {
    round: Round,
    started: Instant,
    /// Whether the connection ended the call, and not its caller.
    is_answered: bool,
}

impl PrivateCall {
    pub(super) fn begin(liveness: &Liveness) -> Self {
        Self { round: liveness.begins(), started: now(), is_answered: false }
    }

    /// Records the end of the call by the connection.
    pub(super) fn answered(&mut self, liveness: &Liveness) {
        self.is_answered = true;
        liveness.broken();
    }

    pub(super) fn over(&self, liveness: &Liveness) {
        liveness.ended(self.round);
        if !self.is_answered && now().saturating_duration_since(self.started) >= MIN_CHECKED_AGE {
            liveness.request_check();
        }
    }
}
