//! Closing the shared connections of a server that nothing needs.
//!
//! Invariants: the decision and the removal are one step, so no call gets a connection that is about to close. The next
//! connect waits until the closed ones have ended, because some programs can run only once.
//!
//! Not here: when a server is not needed (`supervise::rest`), and connections of single clients, which end with them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::timeout;

use super::live::Live;
use super::{CLOSE_LIMIT, Pool};

impl Pool {
    /// Closes all shared connections, if no request uses them and `is_unneeded`. Returns whether it did.
    pub(crate) fn rest(&self, is_unneeded: impl FnOnce() -> bool) -> bool {
        let mut state = self.lock();
        let shared = || state.groups.iter().filter(|group| group.private.is_none());
        let is_connecting = shared().any(|group| group.connecting.is_some());
        let is_used = |live: &Arc<Live>| live.requests.load(Ordering::Relaxed) > 0;
        if is_connecting || shared().flat_map(|group| &group.live).any(is_used) || !is_unneeded() {
            return false;
        }
        let closed = shared().flat_map(|group| group.live.iter().cloned()).collect();
        state.resting = closed;
        state.groups.iter_mut().filter(|group| group.private.is_none()).for_each(super::Group::retire);
        self.publish(&state, None);
        true
    }

    /// Waits until the connections that were closed before have ended.
    pub(super) async fn rested(&self) {
        let resting = std::mem::take(&mut self.lock().resting);
        for live in resting {
            // The task of the connection has the same limit, and logs it.
            let _ = timeout(CLOSE_LIMIT, live.connection.close()).await;
        }
    }
}
