//! The owner of a call, which says whose messages belong together.

use std::sync::atomic::{AtomicU64, Ordering};

/// The owner of a call: one legacy session, one modern request, or Switchyard itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Switchyard itself: lists, discovery, health checks. It accepts no server requests.
    pub const GATEWAY: Self = Self(0);

    /// Makes an owner that differs from all others.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}
