//! The clock of one call: it stands still while its server waits for a person, and each message moves the deadline.
//!
//! Invariants: a call without messages and questions never takes the lock but to look at it once. The time
//! of open questions is not counted, so the last message is kept as a time without it.
//!
//! Not here: how far a message moves a deadline (`deadline`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Open;
use crate::deadline::Deadline;
use runtime::telemetry::limit::Limit;
use runtime::worker::{now, until};

/// Questions of one call that may be open at a time.
pub(super) const MAX_QUESTIONS: usize = 16;

/// Lets the deadline go on when it is dropped.
pub struct Hold(#[allow(dead_code)] Pause); // held for its drop

impl Hold {
    pub(super) const fn of(pause: Pause) -> Self {
        Self(pause)
    }
}

/// The times in which at least one question of a call was open, and when its server last sent a message.
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
    /// When the last message came, as if no question had ever been open.
    heard: Option<Instant>,
}

impl Paused {
    /// When `deadline` is over, as of now.
    fn end_of(&self, deadline: Deadline) -> Instant {
        deadline.after(self.heard) + self.total
    }

    fn hear(&mut self) {
        self.heard = Some(self.since.unwrap_or_else(now) - self.total);
    }
}

impl Pauses {
    /// Pauses and messages only move the deadline away, so it is enough to ask for them when it has come.
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

    /// The server sent a message.
    pub(super) fn hear(&self) {
        self.lock().hear();
    }

    /// When the last one came, as if no question had ever been open.
    pub(super) fn heard(&self) -> Option<Instant> {
        self.lock().heard
    }

    pub(super) fn heard_since(&self, begun: Instant) -> bool {
        let paused = *self.lock();
        paused.heard.is_some_and(|heard| heard + paused.total >= begun)
    }

    fn lock(&self) -> MutexGuard<'_, Paused> {
        // Nothing panics while it is held, and every write leaves a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open question; the deadline stands still until it is dropped.
pub(super) struct Pause(Arc<Open>);

impl Pause {
    pub(super) fn open(&self) -> &Open {
        &self.0
    }

    pub(super) fn begin(open: &Arc<Open>) -> Option<Self> {
        open.asked.store(true, Ordering::Release);
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
