//! A server request of the fake server that its client does not answer.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Fake;
use crate::connection::ServerRequests;

/// That server request.
#[derive(Default)]
pub(super) struct Unanswered {
    since: Mutex<Option<Instant>>,
    ended: Notify,
}

impl ServerRequests for Unanswered {
    fn unanswered_since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_unanswered(&self) {
        if self.since.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.ended.notify_waiters();
        }
    }
}

impl Fake {
    /// From now on it has one that gives way to others.
    pub fn asks_in_vain(&self) {
        *self.0.unanswered.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Resolves when it gives way.
    pub async fn refused(&self) {
        self.0.unanswered.ended.notified().await;
    }
}
