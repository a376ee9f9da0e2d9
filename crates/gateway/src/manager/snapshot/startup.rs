//! The first snapshot, and how long lists wait for servers that have not ended their first attempt to connect.
//!
//! Invariant: a server that connects delays lists only for a fixed time after its start, so that one that hangs costs
//! later lists nothing. Not here: the waiting itself ([`crate::manager::Manager::listable`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Lists, Scope, Snapshot};
use crate::manager::config::Config;
use upstream::{State, Upstream};

/// How long after the start of a server lists wait for its first attempt to connect.
const PATIENCE: Duration = Duration::from_millis(300);

impl Snapshot {
    /// The snapshot before any server was reached, with what servers declare without that.
    pub(in crate::manager) fn first(config: &Config, upstreams: Vec<Arc<Upstream>>) -> Self {
        let mut first = Self::new(upstreams);
        first.servers.iter_mut().for_each(|server| server.read_offer(config, Lists::default()));
        first.merge(config, Lists::default());
        first
    }

    /// When a list of `scope` need not wait any longer; none if it need not wait at all.
    ///
    /// A server that has ended its first attempt is in one of the next snapshots, however long ago it was started. So
    /// a client that saw it `ready` gets its tools.
    pub(crate) fn listable_at(&self, scope: &Scope) -> Option<Instant> {
        let now = Instant::now();
        let unsettled =
            self.servers_in(scope).iter().filter(|server| !server.settled).map(|server| &server.upstream);
        let until = |server: &Arc<Upstream>| match server.status().state {
            State::Connecting => server.started() + PATIENCE,
            _ => now + PATIENCE,
        };
        unsettled.map(until).max().filter(|latest| *latest > now)
    }
}
