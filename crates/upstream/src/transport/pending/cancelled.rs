//! Cancelled and timed-out calls without a response. The server may still work on them, and send requests for them.
//!
//! Invariant: a call counts until its late response or the end of the channel, so a server request that may belong to it
//! is never sent to another client.

use std::collections::HashMap;

use crate::connection::Owner;

/// The most calls that are kept. After more than these, it is unknown until the end of the channel whose are open.
const MAX_CALLS: usize = 1024;

/// The cancelled calls of one channel without a response.
#[derive(Default)]
pub(super) struct Cancelled {
    calls: HashMap<u64, Owner>,
    were_too_many: bool,
}

impl Cancelled {
    /// Adds a call.
    pub(super) fn add(&mut self, id: u64, owner: Owner) {
        if self.calls.len() < MAX_CALLS {
            self.calls.insert(id, owner);
        } else {
            self.were_too_many = true;
        }
    }

    /// Removes a call that was answered late.
    pub(super) fn answered(&mut self, id: u64) {
        self.calls.remove(&id);
    }

    /// Whether none of them belongs to another owner than `owner`.
    pub(super) fn are_all_of(&self, owner: Owner) -> bool {
        !self.were_too_many && self.calls.values().all(|other| *other == owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.were_too_many && self.calls.is_empty()
    }
}
