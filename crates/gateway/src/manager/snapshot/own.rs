//! The snapshot that one client sees which has connections of its own.
//!
//! Invariants: trust, and the history of names and URIs, are one for all offers of a server. An offer to one
//! client never takes a name from another server, and no other server takes its names.
//!
//! Not here: which offers are one client's (`manager::client_snapshots`).

use std::collections::HashMap;
use std::sync::Arc;

use super::super::catalog::Catalog;
use super::super::config::Config;
use super::{Revisions, Server, Snapshot, changed};
use protocol::feature::Lists;
use upstream::Offer;

/// The offers of one client by server.
pub(in crate::manager) type Offers = HashMap<Arc<str>, Arc<Offer>>;

impl Revisions {
    /// Counts changes of one client's own lists, so that the count is never one of the shared lists.
    fn count_own(&mut self, changed: Lists) {
        changed.iter().for_each(|list| self.0[list as usize] += 1 << 32);
    }

    /// The count after a client that saw `before` sees `now`.
    fn followed(mut self, now: &Arc<Catalog>, before: &Arc<Catalog>) -> Self {
        if !Arc::ptr_eq(now, before) {
            self.count_own(changed(now, before));
        }
        self
    }
}

impl Snapshot {
    /// The snapshot for a client to which servers offer `own` and which saw `before`; `None` if it is the shared one.
    pub(in crate::manager) fn seen_with(
        &self,
        config: &Config,
        before: Option<&Self>,
        own: &Offers,
    ) -> Option<Self> {
        let mut seen_now = Self { projections: Arc::default(), ..self.clone() };
        let mut differs = false;
        for server in &mut seen_now.servers {
            let offer = own.get(&server.upstream.config().name);
            if let Some(offer) = offer.filter(|offer| server.offer.as_ref() != Some(offer)) {
                let server = Arc::make_mut(server);
                let shared = server.offer.replace(Arc::clone(offer));
                server.offer_alone(config, shared.as_deref());
                differs = true;
            }
        }
        if !differs {
            return None;
        }
        let seen = before.unwrap_or(self);
        for server in &mut seen_now.servers {
            if let Ok(was) = seen.server(&server.upstream.config().name) {
                let revisions = was.revisions.followed(&server.catalog, &was.catalog);
                if server.revisions != revisions {
                    Arc::make_mut(server).revisions = revisions;
                }
            }
        }
        seen_now.catalog = seen_now.merged(config);
        seen_now.revisions = seen.revisions.followed(&seen_now.catalog, &seen.catalog);
        if seen_now.history.count() == self.history.count() {
            seen_now.history = Arc::clone(&self.history);
        }
        Some(seen_now)
    }

    /// Returns the shared snapshot with what the offers `own`, which a single client sees in `seen`, add to the state of
    /// their servers: trusted and changed definitions, names and URIs. `None` if they add nothing.
    /// `before` is what the client saw until now. The names in a view are those of the view alone.
    pub(in crate::manager) fn learned_from(
        &self,
        config: &Config,
        (seen, before): (&Self, Option<&Self>),
        own: &Offers,
    ) -> Option<Self> {
        let mut next = None;
        for (at, server) in self.servers.iter().enumerate() {
            let name = &server.upstream.config().name;
            let Some(there) = seen.server(name).ok().filter(|_| own.contains_key(name)) else { continue };
            let before = before.and_then(|before| before.server(name).ok()).map(|before| &*before.trust);
            if let Some(trust) = server.trust.learned_from(&there.trust, before) {
                let next = next.get_or_insert_with(|| self.clone());
                Arc::make_mut(&mut next.servers[at]).trust = Arc::new(trust);
            }
        }
        if seen.view.is_none() && !Arc::ptr_eq(&seen.history, &self.history) {
            let next = next.get_or_insert_with(|| self.clone());
            next.history = Arc::clone(&seen.history);
            // The catalog looks up URIs that are in no list, too.
            next.merge(config);
        }
        next
    }
}

impl Server {
    /// Makes its catalog of its offer to one client; `shared` is the one to all.
    fn offer_alone(&mut self, config: &Config, shared: Option<&Offer>) {
        if let Some(offer) = &self.offer {
            self.trust = self.reviewed(config, offer, shared);
        }
        self.catalog = self.alone(config);
    }
}
