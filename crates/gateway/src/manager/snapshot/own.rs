//! The snapshot that one client sees which has connections of its own.
//!
//! Invariant: names are given as in the shared catalog, with its history; what one client's connection lists never
//! moves a name for another client.
//!
//! Not here: which offers are one client's (`manager::views`).

use std::collections::HashMap;
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
                server.offer = Some(Arc::clone(offer));
                server.offer_alone(config);
                differs = true;
            }
        }
        if !differs {
            return None;
        }
        let seen = before.unwrap_or(self);
        for server in &mut view.servers {
            if let Ok(was) = seen.server(&server.upstream.config().name) {
                server.revisions = was.revisions.followed(&server.catalog, &was.catalog);
            }
        }
        let servers = config.servers.iter().map(|server| Arc::clone(&server.name)).collect();
        let style = style(config, config.tool_names, &servers);
        view.catalog = Arc::new(catalog(view.servers.iter(), style, Arc::make_mut(&mut view.history)));
        view.revisions = seen.revisions.followed(&view.catalog, &seen.catalog);
        Some(view)
    }
}

impl Server {
    /// Makes its catalog of its offer, for one client.
    fn offer_alone(&mut self, config: &Config) {
        if let Some(offer) = &self.offer {
            self.trust =
                Arc::new(self.trust.reviewed(offer.trusted_definitions(), &self.upstream.config().tools));
        }
        let (alone, mut history) = (std::collections::HashSet::new(), History::default());
        let style = style(config, alone_mode(config), &alone);
        self.catalog = Arc::new(catalog(std::iter::once(&*self), style, &mut history));
    }
}
