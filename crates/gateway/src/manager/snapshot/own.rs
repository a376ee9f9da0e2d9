//! The snapshot that one client sees which has connections of its own.
//!
//! Invariants: trust, and the history of names and URIs, are one for all offers of a server. An offer to one
//! client never takes a name from another server, and no other server takes its names.
//!
//! Not here: which offers are one client's (`manager::views`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::catalog::Catalog;
use super::super::config::Config;
use super::{History, Revisions, Server, Snapshot, alone_mode, catalog, changed, style};
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
        let mut view = self.clone();
        let mut differs = false;
        for server in &mut view.servers {
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
        for server in &mut view.servers {
            if let Ok(was) = seen.server(&server.upstream.config().name) {
                let revisions = was.revisions.followed(&server.catalog, &was.catalog);
                if server.revisions != revisions {
                    Arc::make_mut(server).revisions = revisions;
                }
            }
        }
        let servers = config.names();
        let style = style(config, config.tool_names, &servers);
        view.catalog =
            Arc::new(catalog(view.servers.iter().map(Arc::as_ref), style, Arc::make_mut(&mut view.history)));
        view.revisions = seen.revisions.followed(&view.catalog, &seen.catalog);
        if view.history.count() == self.history.count() {
            view.history = Arc::clone(&self.history);
        }
        Some(view)
    }

    /// Returns the shared snapshot with what the offers `own`, which `view` shows to a single client, add to the state of
    /// their servers: trusted and changed definitions, names and URIs. `None` if they add nothing.
    /// `before` is what the client saw until now.
    pub(in crate::manager) fn learned_from(
        &self,
        config: &Config,
        (view, before): (&Self, Option<&Self>),
        own: &Offers,
    ) -> Option<Self> {
        let mut next = None;
        for (at, server) in self.servers.iter().enumerate() {
            let name = &server.upstream.config().name;
            let Some(seen) = view.server(name).ok().filter(|_| own.contains_key(name)) else { continue };
            let before = before.and_then(|before| before.server(name).ok()).map(|before| &*before.trust);
            if let Some(trust) = server.trust.learned_from(&seen.trust, before) {
                let next = next.get_or_insert_with(|| self.clone());
                Arc::make_mut(&mut next.servers[at]).trust = Arc::new(trust);
            }
        }
        if !Arc::ptr_eq(&view.history, &self.history) {
            let next = next.get_or_insert_with(|| self.clone());
            next.history = Arc::clone(&view.history);
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
            let reviewed = self.trust.reviewed(offer.trusted_definitions(), &self.upstream.config().tools);
            let offered = shared.into_iter().flat_map(Offer::trusted_definitions);
            self.trust = Arc::new(reviewed.with_definitions(&self.trust, offered));
        }
        let (alone, mut history) = (HashSet::new(), History::default());
        let style = style(config, alone_mode(config), &alone);
        self.catalog = Arc::new(catalog(std::iter::once(&*self), style, &mut history));
    }
}
