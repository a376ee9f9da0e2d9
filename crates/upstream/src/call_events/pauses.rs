//! The clock of one call. It is paused while a server request is open, and each message extends the deadline.
//!
//! Notifications have a pace. A flood of them does not extend the deadline until its server was quiet for some seconds.
//! So a call whose server only floods ends at its timeout.
//!
//! Invariants: a call without messages and server requests takes the lock only to check it once. The time of open
//! server requests is not counted, so the time of the last message is stored without it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::OpenChannel;
use crate::rate_limit::{MESSAGE, TokenBucket};
use runtime::telemetry::limit::Limit;
use runtime::worker::{now, until};

/// The most bytes that one notification counts for.
const LARGEST: usize = 256 * 1024;
/// The most open server requests of one call.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Keeps the deadline paused until it is dropped.
pub struct Hold(#[allow(dead_code)] Pause); // held for its drop

impl Hold {
    pub(super) const fn of(pause: Pause) -> Self {
        Self(pause)
    }
}

/// The times in which at least one server request of a call was open, and when its server last sent a message.
#[derive(Default)]
pub(super) struct Pauses {
    state: Mutex<Paused>,
    changed: Notify,
}

#[derive(Default, Clone, Copy)]
struct Paused {
    questions: usize,
    since: Option<Instant>,
    total: Duration,
    /// When the last message came, without the time of open server requests.
    heard: Option<Instant>,
    /// The notifications so far; none before the first one.
    pace: Option<TokenBucket>,
    is_flooded: bool,
}

impl Paused {
    /// The current end of `deadline`.
    fn end_of(&self, deadline: Deadline) -> Instant {
        deadline.after(self.heard) + self.total
    }

    fn hear(&mut self) {
        self.heard = Some(self.since.unwrap_or_else(now) - self.total);
    }

    /// Counts a notification of `bytes`. Returns whether a flood begins with it.
    fn hear_notice(&mut self, bytes: usize) -> bool {
        let now = now();
        let pace = self.pace.get_or_insert_with(|| TokenBucket::full(now));
        let was_flooded = self.is_flooded && !pace.is_full(now);
        self.is_flooded = pace.take(bytes.min(LARGEST) + MESSAGE, now) || was_flooded;
        if !self.is_flooded {
            self.hear();
        }
        self.is_flooded && !was_flooded
    }
}

impl Pauses {
    /// Resolves at the end of `deadline`. Pauses and messages only extend it, so it is enough to check them at its end.
    pub(super) async fn expired(&self, deadline: Deadline) {
        loop {
            let paused = *self.lock();
            until(paused.end_of(deadline)).await;
            let changed = self.changed.notified();
            let paused = *self.lock();
            if paused.questions > 0 {
                changed.await;
            } else if Instant::now() >= paused.end_of(deadline) {
                return;
            }
        }
    }

    /// Records a notification of `bytes`. Returns whether a flood begins with it.
    pub(super) fn hear_notice(&self, bytes: usize) -> bool {
        self.lock().hear_notice(bytes)
    }

    /// When the last message came, without the time of open server requests.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.lock().heard
    }

    pub(super) fn heard_since(&self, started: Instant) -> bool {
        let paused = *self.lock();
        paused.heard.is_some_and(|heard| heard + paused.total >= started)
    }

    fn lock(&self) -> MutexGuard<'_, Paused> {
        // Nothing panics while the lock is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open server request. The deadline is paused until it is dropped.
pub(super) struct Pause(Arc<OpenChannel>);

impl Pause {
    pub(super) fn open(&self) -> &OpenChannel {
        &self.0
    }

    pub(super) fn begin(open: &Arc<OpenChannel>) -> Option<Self> {
        open.has_asked.store(true, Ordering::Release);
        let mut paused = open.pauses.lock();
        if paused.questions >= MAX_QUESTIONS {
            paused.hear();
            return Limit::CallQuestions.met(None);
        }
        paused.questions += 1;
        paused.hear();
        paused.since.get_or_insert_with(Instant::now);
        drop(paused);
        open.pauses.changed.notify_waiters();
        Some(Self(Arc::clone(open)))
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut paused = self.0.pauses.lock();
        paused.questions -= 1;
        if paused.questions == 0
            && let Some(since) = paused.since.take()
        {
            paused.total += since.elapsed();
        }
        drop(paused);
        self.0.pauses.changed.notify_waiters();
    }
}

/// The deadline of a call.
///
/// Invariants: a message only extends a deadline, and never beyond its fixed end. A deadline that the caller chose is
/// fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When the time began.
    pub started: Instant,
    /// The end, unless the server sends a message before.
    pub at: Instant,
    /// How messages extend it; `None` if they do not.
    pub(crate) moves: Option<Moves>,
}

/// How far messages extend a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moves {
    /// The time from one message of the server to the next.
    pub idle: Duration,
    /// The latest end, whatever messages arrive.
    pub last: Instant,
}

impl Deadline {
    /// A deadline `idle` after `started` or after the last message of the call, but at most `most` after `started`.
    pub fn moving(started: Instant, idle: Duration, most: Duration) -> Self {
        Self { started, at: started + idle, moves: Some(Moves { idle, last: started + most }) }
    }

    /// A deadline `limit` after `started`, which does not move.
    pub fn fixed(started: Instant, limit: Duration) -> Self {
        Self { started, at: started + limit, moves: None }
    }

    /// The time from now to its end.
    pub fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// The end after a message at `heard`.
    pub(crate) fn after(self, heard: Option<Instant>) -> Instant {
        match (self.moves, heard) {
            (Some(Moves { idle, last }), Some(heard)) => self.at.max(last.min(heard + idle)),
            _ => self.at,
        }
    }

    /// Returns the deadline with `margin` added.
    #[must_use]
    pub fn plus(self, margin: Duration) -> Self {
        let moves = self.moves.map(|Moves { idle, last }| Moves { idle: idle + margin, last: last + margin });
        Self { at: self.at + margin, moves, ..self }
    }
}

/// A deadline that does not move, of work that begins now.
impl From<Instant> for Deadline {
    fn from(at: Instant) -> Self {
        Self { started: now(), at, moves: None }
    }
}

#[cfg(test)]
mod deadline_tests {
    use super::*;

    #[test]
    fn messages_move_it_away_up_to_the_last_moment() {
        let (started, second) = (Instant::now(), Duration::from_secs(1));
        let moving = Deadline::moving(started, 30 * second, 100 * second);
        let seconds = |deadline: Deadline, heard: Option<u32>| {
            (deadline.after(heard.map(|heard| started + heard * second)) - started).as_secs()
        };
        assert_eq!(
            [None, Some(0), Some(20), Some(80)].map(|heard| seconds(moving, heard)),
            [30, 30, 50, 100]
        );
        assert_eq!(seconds(moving.plus(second), Some(20)), 51);
        assert_eq!(seconds((started + 30 * second).into(), Some(20)), 30, "a fixed one does not move");
    }
}
