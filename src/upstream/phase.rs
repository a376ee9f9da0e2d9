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
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Tried again when `due`.
    Down,
    /// Its offer is known; asked for its health when `due`.
    Up { since: Instant },
    /// Disconnected by an operator.
    Off,
}
