//! The program against servers and clients of other makers: `scripts/test peers` installs them.
//! Without them these tests fail and say so; plain `cargo nextest run` leaves them out.

mod cells;
mod clients;
mod direct;
mod fixtures;
mod lists;
mod rmcp_client;
mod servers;

use crate::support::{Gateway, Registry, peers};

/// A gateway that finds the pinned interpreters first.
fn gateway(registry: &Registry) -> Gateway {
    Gateway::of(registry).path(&peers::folder())
}
