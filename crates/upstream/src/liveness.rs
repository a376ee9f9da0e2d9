//! Whether a server that says nothing is hung, or at work on something that somebody still waits for.
//!
//! How a call ends that its caller ended, by a short deadline or by leaving, says nothing of the server:
//! its tool may be slow, and with such calls anybody could shut a good server for all. So the server is
//! asked. A health check is a question that costs nothing to answer; it is open until anything at all is
//! heard of the server: an answer, a late one too, a notice, a question of its own.
//!
//! Invariants: nobody's leaving and no short deadline counts against a server but while a question has
//! been open for as long as a health check may take; then each does, because the server owed an answer
//! to us as well. And an open question is *excused* while a call runs that was begun before it: many
//! servers, most of those on stdio, work on one thing at a time and answer nothing meanwhile. Such a
//! call has its own deadline, which judges it; until then the server is not asked again, no health
//! check counts, and no connection is given up. What was begun after the question excuses nothing: the
//! server has not come to it. Nor does a call whose caller has left: nobody waits for it.
//!
//! Not here: what follows from it (`inflight_guard`, `supervise`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::HEALTH_LIMIT;
use super::config::Config;

/// Health checks that a server may leave unanswered.
pub(super) const UNWELL: u32 = 2;

/// How long a server may leave something unanswered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// A health check.
    pub check: Duration,
    /// A call.
    pub call: Duration,
}

impl Patience {
    /// With the server of `config`.
    pub(super) fn of(config: &Config) -> Self {
        Self { check: config.timeout.min(HEALTH_LIMIT), call: config.timeout }
    }
}

/// The open question of one server, and the calls that it may be at work on instead.
///
/// Nothing of it is exact to the microsecond: a call that begins while a question is asked may count
/// as one from before it, and excuse it for its own time.
#[derive(Debug)]
pub(super) struct Silence {
    begun: Instant,
    /// When the open question was asked: milliseconds after `begun`, plus one; zero while none is open.
    asked: AtomicU64,
    /// Questions asked so far, but for those that found calls from before the last one.
    round: AtomicUsize,
    /// Calls that run: begun in a round with an even number, and with an odd one. Those of the round
    /// before are those from before the question; a round begins when there are none of two before.
    calls: [AtomicUsize; 2],
    doubt: Notify,
}

/// The round in which a call was begun. Who has one owes [`Silence::ended`].
#[derive(Debug, Clone, Copy)]
#[must_use = "a call that never ends excuses its server for ever"]
pub(super) struct Round(usize);

impl Default for Silence {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            asked: AtomicU64::new(0),
            round: AtomicUsize::new(0),
            calls: [const { AtomicUsize::new(0) }; 2],
            doubt: Notify::new(),
        }
    }
}

impl Silence {
    /// Something was heard of the server, or what it was asked never reached it: no question is open.
    pub(super) fn broken(&self) {
        // Nearly always there is none, and what everybody reads is better not written.
        if self.asked.load(Ordering::Relaxed) != 0 {
            self.asked.store(0, Ordering::Relaxed);
        }
    }

    /// The server is asked something that it can answer at once, unless it was already.
    pub(super) fn ask(&self) {
        let round = self.round.load(Ordering::Relaxed);
        // Calls from before an earlier question still run: they excuse this one too.
        if self.asked.load(Ordering::Relaxed) != 0 || self.of(round + 1).load(Ordering::Relaxed) != 0 {
            return;
        }
        self.round.store(round + 1, Ordering::Relaxed);
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.asked.store(millis + 1, Ordering::Relaxed);
    }

    /// For how long a question has been open; none when none is.
    pub(super) fn open_for(&self) -> Option<Duration> {
        let millis = self.asked.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.begun.elapsed().saturating_sub(Duration::from_millis(millis)))
    }

    /// Whether calls run that were begun before the last question.
    pub(super) fn is_excused(&self) -> bool {
        self.of(self.round.load(Ordering::Relaxed) + 1).load(Ordering::Relaxed) > 0
    }

    /// Whether a question has been open for `limit` without an excuse.
    pub(super) fn is_hung(&self, limit: Duration) -> bool {
        self.open_for().is_some_and(|open| open >= limit) && !self.is_excused()
    }

    /// Whether the server owed an answer for so long that none of the calls that run can come to anything.
    pub(super) fn is_past_hope(&self, patience: Patience, is_idle: bool) -> bool {
        let checks = patience.check * UNWELL;
        self.is_hung(if is_idle { checks } else { checks.max(patience.call) })
    }

    /// A call begins.
    pub(super) fn begins(&self) -> Round {
        let round = self.round.load(Ordering::Relaxed);
        self.of(round).fetch_add(1, Ordering::Relaxed);
        Round(round)
    }

    /// A call ended.
    pub(super) fn ended(&self, Round(round): Round) {
        self.of(round).fetch_sub(1, Ordering::Relaxed);
    }

    /// The server should be asked soon.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Resolves when it should.
    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Calls that run.
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
        let silence = Silence::default();
        advance(LIMIT).await;
        assert!(!silence.is_hung(Duration::ZERO), "who was not asked need not answer");
        silence.ask();
        assert!(!silence.is_hung(LIMIT));
        advance(LIMIT / 2).await;
        silence.ask();
        advance(LIMIT / 2).await;
        assert_eq!((silence.open_for(), silence.is_hung(LIMIT)), (Some(LIMIT), true), "since the first one");
        silence.broken();
        assert_eq!((silence.open_for(), silence.is_hung(LIMIT)), (None, false));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_call_from_before_the_question_excuses() {
        let silence = Silence::default();
        let before = silence.begins();
        silence.ask();
        let after = silence.begins();
        advance(LIMIT).await;
        assert!(silence.is_excused() && !silence.is_hung(LIMIT));
        silence.ended(before);
        assert!(!silence.is_excused() && silence.is_hung(LIMIT));
        silence.broken();
        silence.ask();
        assert!(silence.is_excused(), "by now it is one from before");
        silence.broken();
        let younger = silence.begins();
        silence.ask();
        assert!(silence.is_excused() && silence.open_for().is_none(), "the older one still runs");
        silence.ended(after);
        silence.ask();
        assert!(silence.is_excused() && silence.open_for().is_some(), "the younger one is from before too");
        silence.ended(younger);
        assert!(!silence.is_excused());
    }
}
