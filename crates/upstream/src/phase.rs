//! Where a server stands in its life, as the task that keeps it up sees it.

use tokio::time::Instant;

/// ```text
///            ┌─────────── offer read ───────────┐
///            │                                  ▼
///        ┌──────┐   connection lost, unwell   ┌────┐ ──┐ health tick,
///   ───► │ down │ ◄────────────────────────── │ up │   │ list changed
///        └──────┘   or a discovery failed     └────┘ ◄─┘
///         ▲    │                                │
/// connect │    └──────────┐    ┌── disconnect ──┘
///         │    disconnect ▼    ▼
///         └────────────── ( off )
///
///   down, up ── our credentials are refused ──► ( parked ) ── connect ──► down
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Tried again when `due`.
    Down,
    /// Its offer is known; asked for its health when `due`.
    Up { since: Instant },
    /// Disconnected by an operator.
    Off,
    /// It refuses our credentials, which trying again would not change: an operator has to.
    Parked,
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
