//! The snapshots of single clients, for servers that have a connection for each client.
//!
//! Such a snapshot has the client's own offers in the place of the shared ones, seen through the client's view if it has
//! one. Invariants: a client without offers that differ has none, and sees what all of its view see. The registry task
//! alone writes them. Changes are counted apart from the shared counts, so a client hears of a change when its snapshot
//! comes or goes. There are at most as many as private connections, and sessions whose principals were offered something
//! before.
//!
//! Not here: reading the offers (`upstream`), and who waits for them (`gateway::private_connections`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::time::Instant;

use super::snapshot::{Offers, Snapshot};
use super::{Error, Manager, STARTUP_GRACE, Scope};
use json::Raw;
use protocol::{Era, LogLevel, method};
use upstream::{Affinity, Call, Offer, Upstream, WaitFor};

/// A client or a program that looks a name up.
#[derive(Debug, Clone, Copy)]
pub struct Viewer<'a> {
    /// The servers it sees.
    pub scope: &'a Scope,
    /// Where its private connections belong; none for programs.
    pub affinity: Option<&'a Affinity>,
}

impl<'a> From<&'a Scope> for Viewer<'a> {
    fn from(scope: &'a Scope) -> Self {
        Self { scope, affinity: None }
    }
}

/// The snapshots that are published for single clients. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct ClientSnapshots(Arc<SnapshotTable>);

#[derive(Default)]
struct SnapshotTable {
    /// Read for every request, so it needs no lock.
    count: AtomicUsize,
    by_client: RwLock<HashMap<Affinity, Arc<Snapshot>>>,
}

impl ClientSnapshots {
    pub(super) fn get(&self, affinity: &Affinity) -> Option<Arc<Snapshot>> {
        if self.0.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.0.by_client.read().unwrap_or_else(PoisonError::into_inner).get(affinity).cloned()
    }

    pub(super) fn put(&self, affinity: Affinity, snapshot: Option<Snapshot>) {
        let mut by_client = self.0.by_client.write().unwrap_or_else(PoisonError::into_inner);
        match snapshot {
            Some(snapshot) => by_client.insert(affinity, Arc::new(snapshot)),
            None => by_client.remove(&affinity),
        };
        self.0.count.store(by_client.len(), Ordering::Release);
    }
}

/// Offers of servers to single clients.
#[derive(Default)]
pub(super) struct OwnOffers(HashMap<Affinity, Offers>);

impl OwnOffers {
    pub(super) fn record(&mut self, server: &Arc<str>, affinity: &Affinity, offer: Option<Arc<Offer>>) {
        let Some(offer) = offer else {
            let Some(offers) = self.0.get_mut(affinity) else { return };
            offers.remove(server);
            if offers.is_empty() {
                self.0.remove(affinity);
            }
            return;
        };
        let offer = self.known(server, &offer).unwrap_or(offer);
        self.0.entry(affinity.clone()).or_default().insert(Arc::clone(server), offer);
    }

    /// Returns the offer of `server` to another client that equals `offer`.
    fn known(&self, server: &str, offer: &Arc<Offer>) -> Option<Arc<Offer>> {
        let mut compared: Vec<*const Offer> = Vec::new();
        let mut others = self.0.values().filter_map(|offers| offers.get(server));
        // Each of the few different ones is compared once.
        others
            .find(|other| {
                let is_new = other.bytes == offer.bytes && !compared.contains(&Arc::as_ptr(other));
                compared.push(Arc::as_ptr(other));
                is_new && *other == offer
            })
            .cloned()
    }

    /// Forgets what `server` offered; the clients that it offered something.
    pub(super) fn forget(&mut self, server: &str) -> Vec<Affinity> {
        let offered = self
            .0
            .iter_mut()
            .filter_map(|(affinity, offers)| offers.remove(server).map(|_| affinity.clone()));
        let affinities = offered.collect();
        self.0.retain(|_, offers| !offers.is_empty());
        affinities
    }

    pub(super) fn of(&self, affinity: &Affinity) -> Offers {
        self.0.get(affinity).cloned().unwrap_or_default()
    }

    pub(super) fn affinities(&self) -> Vec<Affinity> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Manager {
    /// Returns the era of a server, from its last offer.
    pub(crate) fn era_of(&self, server: &str) -> Option<Era> {
        let snapshot = self.published.snapshot.load();
        let offer = snapshot.server(server).ok()?.offer.as_ref()?;
        Some(offer.peer.version.era())
    }

    pub(super) fn grace_ends(&self) -> Instant {
        self.snapshot().started() + STARTUP_GRACE
    }

    /// The snapshot for the client of `affinity`: its own if servers offer it something else, or that of its view.
    pub fn seen_by(&self, affinity: Option<&Affinity>) -> Arc<Snapshot> {
        match affinity {
            Some(affinity) => {
                self.published.clients.get(affinity).unwrap_or_else(|| self.seen_through(affinity.view()))
            }
            None => self.snapshot(),
        }
    }

    /// The snapshot of the view `view`, or of everything.
    pub fn seen_through(&self, view: Option<&Arc<str>>) -> Arc<Snapshot> {
        match view {
            Some(view) => self.published.snapshot.load().through(view),
            None => self.snapshot(),
        }
    }

    /// The names of the views.
    pub fn views(&self) -> Vec<Arc<str>> {
        self.published.snapshot.load().views()
    }

    /// Returns the scope of a client that is bound to the view `own`. It asks for `named`, a view or a server, or in another
    /// place for the view `view`. Nothing outside of its own view exists for it.
    pub fn reach(
        &self,
        own: Option<&Arc<str>>,
        named: Option<&str>,
        view: Option<&str>,
    ) -> Result<Scope, Error> {
        let shared = self.published.snapshot.load();
        let find = |name: &str| shared.view_called(name).filter(|view| own.is_none_or(|own| own == view));
        let missing = |view: &str| match own {
            Some(_) => Error::view_not_found(view),
            None => shared.no_view(view),
        };
        let view = view.map(|view| find(view).ok_or_else(|| missing(view))).transpose()?;
        let (view, server) = match named.filter(|_| view.is_none()).and_then(find) {
            Some(view) => (Some(view), None),
            None => (view.or_else(|| own.cloned()), named),
        };
        let known = |server: &str| {
            let found = match &view {
                Some(view) => shared.through(view).server(server).cloned(),
                None => shared.server(server).cloned(),
            };
            found.map(|server| Arc::clone(&server.upstream.config().name))
        };
        let server = server.map(known).transpose()?;
        Ok(Scope { view, server })
    }

    /// The snapshot for programs of `principal`, after a wait for its connections to servers where each principal logs in.
    pub async fn seen_by_program(&self, principal: &Arc<str>, scope: &Scope) -> Arc<Snapshot> {
        if !self.has_logins() {
            return self.seen_through(scope.view.as_ref());
        }
        let affinity = Affinity::of_program(Arc::clone(principal), None).through(scope.view.clone());
        if self.needs_own_session(Viewer { scope, affinity: Some(&affinity) }) {
            let call = Call::of_gateway(method::TOOLS_LIST, None);
            let principal = Some(Arc::clone(principal));
            let call = Call { affinity: Some(affinity.clone()), principal, ..call };
            // Boxed: it is large, and each principal waits once.
            Box::pin(self.open_session(scope, &call, None, WaitFor::Connection)).await;
        }
        self.seen_by(Some(&affinity))
    }

    /// Whether a first request of `viewer`, also a list, has to wait for servers where each principal logs in
    /// ([`Manager::open_session`]): they list nothing without a login.
    pub fn needs_own_session(&self, viewer: Viewer<'_>) -> bool {
        let Some(affinity) = viewer.affinity.filter(|_| self.has_logins()) else { return false };
        let snapshot = self.seen_through(viewer.scope.view.as_ref());
        let mut servers = snapshot.servers_in(viewer.scope).iter().map(|server| &server.upstream);
        servers.any(|server| {
            server.config().is_per_principal() && server.needs_own_session(affinity, &Raw::empty_object())
        })
    }

    /// Returns `server` if the next request of the client of `affinity` opens its own connection to it, or may do so.
    pub(crate) fn to_open(
        &self,
        affinity: &Affinity,
        capabilities: &Raw,
        server: &str,
    ) -> Option<Arc<Upstream>> {
        let snapshot = self.seen_through(affinity.view());
        let upstream = &snapshot.server(server).ok()?.upstream;
        let may_open = upstream.needs_own_session(affinity, capabilities) || upstream.has_to_decide();
        may_open.then(|| Arc::clone(upstream))
    }

    /// Whether the lists of `viewer` are to be read again first, because a server announced a change on its own connection
    /// ([`Manager::refresh`]).
    pub(crate) fn is_stale(&self, viewer: Viewer<'_>) -> bool {
        let Some(affinity) = viewer.affinity else { return false };
        let snapshot = self.seen_through(viewer.scope.view.as_ref());
        snapshot.servers_in(viewer.scope).iter().any(|server| server.upstream.is_stale(affinity))
    }

    /// Reads the lists of `viewer` again where a server announced a change on its own connection.
    pub(crate) async fn refresh(&self, viewer: Viewer<'_>) {
        if let Some(affinity) = viewer.affinity.filter(|_| self.is_stale(viewer)) {
            let snapshot = self.seen_through(viewer.scope.view.as_ref());
            let servers = snapshot.servers_in(viewer.scope).iter();
            futures_util::future::join_all(servers.map(|server| server.upstream.refresh(affinity))).await;
        }
    }

    /// Has servers that have a connection for the client of `affinity` write log lines of `level` and above on it.
    pub async fn want_log(&self, scope: &Scope, affinity: &Affinity, level: LogLevel) {
        let snapshot = self.seen_through(scope.view.as_ref());
        let requests =
            snapshot.servers_in(scope).iter().map(|server| server.upstream.want_log(affinity, level));
        futures_util::future::join_all(requests).await;
    }

    /// Connects the client of `call` to the servers in `scope` where each principal logs in, and waits for what is `awaited`
    /// of each. With `only` it is that one server, wherever its clients log in.
    pub async fn open_session(&self, scope: &Scope, call: &Call, only: Option<&str>, awaited: WaitFor) {
        let snapshot = self.seen_through(scope.view.as_ref());
        let is_meant = |upstream: &Upstream| match only {
            Some(only) => *upstream.config().name == *only,
            None => upstream.config().is_per_principal(),
        };
        let upstreams = snapshot.servers_in(scope).iter().map(|server| &server.upstream);
        let attended = upstreams
            .filter(|upstream| is_meant(upstream))
            .map(|upstream| upstream.open_session(call, awaited));
        futures_util::future::join_all(attended).await;
    }
}
