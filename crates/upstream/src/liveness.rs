//! Liveness: whether a silent server is hung, or still works on a call.
//!
//! If a caller cancels a call or sets a short deadline, the end of the call says nothing about the server.
//! Its tool may be slow, and otherwise any client could open the breaker for all others. So the server gets a
//! health check, which costs nothing to answer. The check is open until the server sends anything: an answer,
//! a notification or a request.
//!
//! Invariants:
//!
//! - A cancelled call or a short deadline counts as a failure only after a check was open for its whole time
//!   limit. The server then failed to answer Switchyard as well.
//! - An open check is *excused* while a call runs that began before it. Many servers, most of those on stdio,
//!   work on one request at a time and answer nothing else meanwhile. Such a call has its own deadline. Until
//!   it ends, no further check is sent, no check counts, and no connection is closed.
//! - A call that began after the check excuses nothing, because the server has not reached it yet. Neither
//!   does a call whose caller has left.
//!
//! Not here: the consequences (`inflight_guard`, `supervise`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Unanswered health checks after which a server counts as hung.
pub(super) const UNWELL: u32 = 2;

/// How long a server may leave a request unanswered.
#[derive(Debug, Clone, Copy)]
pub(super) struct SilenceLimits {
    /// A health check.
    pub check: Duration,
    /// A call.
    pub call: Duration,
}

/// The open check of one server, and the calls that may excuse it.
///
/// The counters are approximate. A call that begins while a check is sent may count as an earlier one and
/// excuse the check.
#[derive(Debug)]
pub(super) struct Liveness {
    started: Instant,
    /// When the open check was sent, in milliseconds after `started` plus one. Zero if none is open.
    probed_at: AtomicU64,
    /// Number of checks so far, without those that found calls from before the previous check.
    round: AtomicUsize,
    /// Running calls of even rounds, and of odd rounds. Calls of the previous round began before the check. A
    /// new round begins only if no call of that round runs.
    calls: [AtomicUsize; 2],
    doubt: Notify,
}

/// The round in which a call began. Its holder must call [`Liveness::ended`].
#[derive(Debug, Clone, Copy)]
#[must_use = "a call that never ends excuses its server for ever"]
pub(super) struct Round(usize);

impl Default for Liveness {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            probed_at: AtomicU64::new(0),
            round: AtomicUsize::new(0),
            calls: [const { AtomicUsize::new(0) }; 2],
            doubt: Notify::new(),
        }
    }
}

impl Liveness {
    /// Closes the check, because the server sent something or the check never reached it.
    pub(super) fn broken(&self) {
        // Usually no check is open. Not writing avoids contention, because all calls read this value.
        if self.probed_at.load(Ordering::Relaxed) != 0 {
            self.probed_at.store(0, Ordering::Relaxed);
        }
    }

    /// Opens a check. Does nothing if one is open, or if calls from before an earlier check still run.
    pub(super) fn ask(&self) {
        let round = self.round.load(Ordering::Relaxed);
        // Such calls would excuse this check too.
        if self.probed_at.load(Ordering::Relaxed) != 0 || self.of(round + 1).load(Ordering::Relaxed) != 0 {
            return;
        }
        self.round.store(round + 1, Ordering::Relaxed);
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.probed_at.store(millis + 1, Ordering::Relaxed);
    }

    /// Returns how long the check has been open, if one is.
    pub(super) fn open_for(&self) -> Option<Duration> {
        let millis = self.probed_at.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.started.elapsed().saturating_sub(Duration::from_millis(millis)))
    }

    /// Whether calls run that began before the last check.
    pub(super) fn is_excused(&self) -> bool {
        self.of(self.round.load(Ordering::Relaxed) + 1).load(Ordering::Relaxed) > 0
    }

    /// Whether a check has been open for `limit` without an excuse.
    pub(super) fn is_hung(&self, limit: Duration) -> bool {
        self.open_for().is_some_and(|open| open >= limit) && !self.is_excused()
    }

    /// Whether the server was silent for so long that none of the running calls can still succeed.
    pub(super) fn is_beyond_recovery(&self, silence_limits: SilenceLimits, is_idle: bool) -> bool {
        let checks = silence_limits.check * UNWELL;
        self.is_hung(if is_idle { checks } else { checks.max(silence_limits.call) })
    }

    /// Counts a call that begins.
    pub(super) fn begins(&self) -> Round {
        let round = self.round.load(Ordering::Relaxed);
        self.of(round).fetch_add(1, Ordering::Relaxed);
        Round(round)
    }

    /// Counts a call that ended.
    pub(super) fn ended(&self, Round(round): Round) {
        self.of(round).fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests a health check soon.
    pub(super) fn request_check(&self) {
        self.doubt.notify_one();
    }

    /// Resolves when a check was requested.
    pub(super) async fn check_requested(&self) {
        self.doubt.notified().await;
    }

    /// Returns the number of running calls.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.calls.iter().map(|calls| calls.load(Ordering::Relaxed)).sum()
    }

    const fn of(&self, round: usize) -> &AtomicUsize {
        &self.calls[round % 2]
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_question_is_open_until_anything_is_heard() {
        let liveness = Liveness::default();
        advance(LIMIT).await;
        assert!(!liveness.is_hung(Duration::ZERO), "who was not asked need not answer");
        liveness.ask();
        assert!(!liveness.is_hung(LIMIT));
        advance(LIMIT / 2).await;
        liveness.ask();
        advance(LIMIT / 2).await;
        assert_eq!(
            (liveness.open_for(), liveness.is_hung(LIMIT)),
            (Some(LIMIT), true),
            "since the first one"
        );
        liveness.broken();
        assert_eq!((liveness.open_for(), liveness.is_hung(LIMIT)), (None, false));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_call_from_before_the_question_excuses() {
        let liveness = Liveness::default();
        let before = liveness.begins();
        liveness.ask();
        let after = liveness.begins();
        advance(LIMIT).await;
        assert!(liveness.is_excused() && !liveness.is_hung(LIMIT));
        liveness.ended(before);
        assert!(!liveness.is_excused() && liveness.is_hung(LIMIT));
        liveness.broken();
        liveness.ask();
        assert!(liveness.is_excused(), "by now it is one from before");
        liveness.broken();
        let younger = liveness.begins();
        liveness.ask();
        assert!(liveness.is_excused() && liveness.open_for().is_none(), "the older one still runs");
        liveness.ended(after);
        liveness.ask();
        assert!(liveness.is_excused() && liveness.open_for().is_some(), "the younger one is from before too");
        liveness.ended(younger);
        assert!(!liveness.is_excused());
    }
}
