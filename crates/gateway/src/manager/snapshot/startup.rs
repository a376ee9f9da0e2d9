//! The first snapshot, and the waits for servers that have not ended their first attempt to connect.
//!
//! Invariant: a server that connects delays lists only for a fixed time after its start, so that one that hangs costs
//! later lists nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::{Scope, Server, Snapshot};
use crate::manager::config::Config;
use crate::manager::known::KnownServers;
use crate::manager::{Manager, STARTUP_GRACE};
use upstream::config::Transport;
use upstream::{State, Upstream};

/// How long after the start of a server lists wait for its first attempt to connect over HTTP.
const READY_WAIT: Duration = Duration::from_millis(300);
/// How long one list waits at most, however many servers become ready meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Snapshot {
    /// The snapshot before any server was reached, with what servers declare without that and what is `known` of them
    /// from an earlier run.
    pub(in crate::manager) fn first(
        config: &Config,
        upstreams: Vec<Arc<Upstream>>,
        known: &KnownServers,
    ) -> Self {
        let mut first = Self::new(upstreams);
        first.not_configured = config.not_configured.as_slice().into();
        // In the order of the configuration file, so that each start gives the same names.
        let names = config
            .entries()
            .into_iter()
            .map(|entry| entry.map_or_else(|wrong| &wrong.name, |server| &server.name));
        let of_servers = names.filter_map(|name| known.get_key_value(name));
        Arc::make_mut(&mut first.history).restore(of_servers);
        for server in first.servers.iter_mut().map(Arc::make_mut) {
            if let Some(known) = known.get(&server.upstream.config().name) {
                server.trust = Arc::clone(&known.trust);
            }
            server.read_offer(config, None);
        }
        first.merge(config);
        first.with_projections(config, None)
    }

    /// Whether the first attempt to connect has ended for every server.
    pub fn is_settled(&self, scope: &Scope) -> bool {
        match &scope.server {
            None => self.servers.iter().all(|server| server.settled),
            Some(name) => self.server(name).is_ok_and(|server| server.settled),
        }
    }

    /// Whether every server has ended its first attempt to connect, and no list is still being read.
    pub(in crate::manager) fn is_complete(&self) -> bool {
        let is_partial = |server: &Arc<Server>| server.offer.as_ref().is_some_and(|offer| offer.is_partial);
        self.is_settled(&Scope::ALL) && !self.servers.iter().any(is_partial)
    }

    /// Whether all servers were settled once, before or after a reload. The gateway as a whole is then in
    /// use, and a new server does not change that. A server that hangs in its first attempt counts as settled
    /// after `STARTUP_GRACE`.
    pub fn has_started(&self) -> bool {
        self.was_settled || self.is_settled(&Scope::ALL) || self.started.elapsed() >= STARTUP_GRACE
    }

    /// When a list of `scope` need not wait any longer; none if it need not wait at all.
    ///
    /// A server that has ended its first attempt is in one of the next snapshots, however long ago it was started. So
    /// a client that saw it `ready` gets its tools.
    pub(crate) fn listable_at(&self, scope: &Scope) -> Option<Instant> {
        let now = Instant::now();
        // A remembered list is there at once.
        let is_awaited = |server: &&Arc<Server>| !server.settled && !server.upstream.is_remembered();
        let unsettled = self.servers_in(scope).iter().filter(is_awaited).map(|server| &server.upstream);
        let until = |server: &Arc<Upstream>| match server.status().state {
            State::Connecting | State::Starting => server.started() + patience(server),
            _ => now + READY_WAIT,
        };
        unsettled.map(until).max().filter(|latest| *latest > now)
    }
}

/// How long after its start lists wait for a server. A program needs longer than a server that already runs.
fn patience(server: &Upstream) -> Duration {
    match server.config().transport {
        Transport::Stdio(_) => server.config().lifecycle.first_list_wait,
        _ => READY_WAIT,
    }
}

impl Manager {
    fn longest_patience(&self, scope: &Scope) -> Duration {
        let snapshot = self.seen_through(scope.view.as_ref());
        let unsettled = snapshot.servers_in(scope).iter().filter(|server| !server.settled);
        unsettled.map(|server| patience(&server.upstream)).max().unwrap_or_default()
    }

    /// Returns when a list of `scope` need not wait any longer. Then every server has ended its first attempt
    /// to connect, or was started more than 300 ms ago, or `first_list_wait` if it is a program.
    pub(crate) async fn listable(&self, scope: &Scope) {
        if self.seen_through(scope.view.as_ref()).listable_at(scope).is_none() {
            return;
        }
        let mut changes = self.changes();
        let end = Instant::now() + LONGEST_WAIT.max(self.longest_patience(scope));
        loop {
            changes.mark_unchanged();
            let Some(at) = self.seen_through(scope.view.as_ref()).listable_at(scope) else { return };
            if !matches!(timeout_at(at.min(end), changes.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Returns when the first attempt to connect has ended for every server, at most after `patience`.
    pub async fn settled(&self, scope: &Scope, patience: Duration) {
        if self.seen_through(scope.view.as_ref()).is_settled(scope) {
            return;
        }
        let mut changes = self.changes();
        let wait = async {
            while !self.seen_through(scope.view.as_ref()).is_settled(scope) && changes.changed().await.is_ok()
            {
            }
        };
        // The state of a server reports a late one.
        let _ = timeout(patience, wait).await;
    }

    /// Returns when every server has ended its first attempt to connect and all its lists were read, at most after
    /// `patience`.
    pub async fn listed(&self, patience: Duration) {
        let mut changes = self.changes();
        let wait = async { while !self.snapshot().is_complete() && changes.changed().await.is_ok() {} };
        let _ = timeout(patience, wait).await;
    }
}
