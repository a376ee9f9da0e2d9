//! The phase of a server, as its supervisor sees it.

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
///   up ── not needed for a while ──► ( idle ) ── a call connects ──► down
///   down, up, idle ── our credentials are refused ──► ( refused ) ── connect ──► down
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The supervisor connects when `due`.
    Down,
    /// The offer is known, and nothing needs the server. A call connects, and the supervisor then reads the offer.
    Idle,
    /// The offer is known. The health is checked when `due`.
    Up { since: Instant },
    /// Disconnected by an operator.
    Off,
    /// The server refuses the credentials. A retry would not change that, so an operator must.
    Refused,
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
