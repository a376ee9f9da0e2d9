//! The connections of a dialect that are being replaced, and those that were and still have calls.
//!
//! Invariant: at most [`MAX_OUTGOING`] replaced connections are there at a time.
//!
//! Not here: why and when a connection is replaced (`replace`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::live::Live;

/// Replaced connections of one dialect that may still be there.
pub(super) const MAX_OUTGOING: usize = 4;

/// The connections of a dialect that are being replaced, and those that were.
#[derive(Default)]
pub(super) struct Replacement {
    /// Connections that the pending connect will replace.
    pub due: Vec<Arc<Live>>,
    outgoing: Vec<Weak<Live>>,
    /// Until when connections stay in use, because there is no successor.
    kept_until: Option<Instant>,
}

impl Replacement {
    /// Replaced connections that still exist.
    pub(super) fn outgoing(&mut self) -> Vec<Arc<Live>> {
        std::mem::take(&mut self.outgoing).iter().filter_map(Weak::upgrade).collect()
    }

    /// Keeps the connections in use for `pause`.
    pub(super) fn keep_for(&mut self, pause: Duration) {
        self.due.clear();
        self.kept_until = Some(Instant::now() + pause);
    }

    /// Whether connections wait to be replaced.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether the connections stay in use for now.
    pub(super) fn keeps(&self) -> bool {
        self.kept_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether another connection may be replaced.
    pub(super) fn has_room(&mut self) -> bool {
        self.outgoing.retain(|live| live.strong_count() > 0);
        self.outgoing.len() < MAX_OUTGOING
    }

    /// Adds a connection that takes no new calls from now on.
    pub(super) fn add_outgoing(&mut self, old: &Arc<Live>) {
        self.outgoing.push(Arc::downgrade(old));
        old.replaced.cancel();
    }
}
