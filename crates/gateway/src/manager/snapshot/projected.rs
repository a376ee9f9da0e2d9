//! The snapshots for clients of a view: they have what the view admits, and nothing else.
//!
//! Invariants: a server outside of the view is not in them, so no name, count, hint or state of it has an influence. Unchanged
//! parts are shared with the snapshot before. Each view has its own history of names, because a name that is
//! taken outside of it is free in it.
//!
//! Not here: what a view admits (`manager::view`).

use std::collections::HashMap;
use std::sync::Arc;

use super::{Revisions, Server, Snapshot, changed};
use crate::manager::catalog::{Catalog, History};
use crate::manager::config::Config;
use crate::manager::error::Error;
use crate::manager::view::View;
use protocol::feature::Lists;
use upstream::Offer;

impl Snapshot {
    /// Returns this snapshot with those for all views, which come after those of `before`.
    pub(in crate::manager) fn with_projections(mut self, config: &Config, before: Option<&Self>) -> Self {
        let of_view = |view: &Arc<View>| {
            let was = before.and_then(|before| Some((before, before.projections.get(&view.name)?)));
            (Arc::clone(&view.name), Arc::new(self.projected(config, view, was)))
        };
        self.projections = Arc::new(config.views.iter().map(of_view).collect());
        self
    }

    /// The snapshot for clients of the view `name`. Without such a view they see nothing.
    pub(in crate::manager) fn through(&self, name: &str) -> Arc<Self> {
        let nothing = || Arc::new(Self { started: self.started, was_settled: true, ..Self::new(Vec::new()) });
        self.projections.get(name).map_or_else(nothing, Arc::clone)
    }

    /// The names of the views.
    pub(in crate::manager) fn views(&self) -> Vec<Arc<str>> {
        self.projections.keys().cloned().collect()
    }

    /// The error for a view that is not there, for somebody who may know the others.
    pub(in crate::manager) fn no_view(&self, view: &str) -> Error {
        let mut views = self.views();
        views.sort_unstable();
        Error::no_such_view(view, views.iter().map(AsRef::as_ref))
    }

    /// The views, by name.
    pub(in crate::manager) fn all_views(&self) -> Vec<Arc<View>> {
        let mut views: Vec<_> = self.projections.values().filter_map(|seen| seen.view.clone()).collect();
        views.sort_by(|one, other| one.name.cmp(&other.name));
        views
    }

    /// The name of the view `name`, if there is one.
    pub(in crate::manager) fn view_called(&self, name: &str) -> Option<Arc<str>> {
        self.projections.get_key_value(name).map(|(name, _)| Arc::clone(name))
    }

    /// The view through which it shows the servers.
    pub(crate) const fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    /// The snapshot for clients of `view`; `was` are the shared one before and its one for the view.
    fn projected(&self, config: &Config, view: &Arc<View>, was: Option<(&Self, &Arc<Self>)>) -> Self {
        let is_same_view = was.is_some_and(|(_, was)| was.view.as_ref() == Some(view));
        let projected = |server: &Arc<Server>| {
            let name = &server.upstream.config().name;
            let before =
                was.and_then(|(shared, was)| Some((shared.server_called(name)?, was.server_called(name)?)));
            match before {
                Some((shared, was)) if is_same_view && Arc::ptr_eq(shared, server) => Arc::clone(was),
                _ => Arc::new(server.projected(config, view, before.map(|(_, was)| &**was))),
            }
        };
        let seen = self.servers.iter().filter(|server| view.sees(&server.upstream.config().name));
        let servers: Vec<Arc<Server>> = seen.map(projected).collect();
        let by_name = |(at, server): (usize, &Arc<Server>)| (Arc::clone(&server.upstream.config().name), at);
        let wrong = self.not_configured.iter().filter(|wrong| view.sees(&wrong.name));
        let mut next = Self {
            by_name: servers.iter().enumerate().map(by_name).collect(),
            not_configured: wrong.cloned().collect(),
            catalog: was.map(|(_, was)| Arc::clone(&was.catalog)).unwrap_or_default(),
            history: match was {
                Some((shared, was)) if is_same_view && Arc::ptr_eq(&shared.history, &self.history) => {
                    Arc::clone(&was.history)
                }
                _ => self.history_in(view, was.map(|(_, was)| &was.history)),
            },
            revisions: was.map(|(_, was)| was.revisions).unwrap_or_default(),
            started: self.started,
            was_settled: self.was_settled,
            view: Some(Arc::clone(view)),
            projections: Arc::new(HashMap::new()),
            servers,
        };
        let is_same = |(_, was): &(&Self, &Arc<Self>)| {
            is_same_view
                && was.servers.len() == next.servers.len()
                && was.servers.iter().zip(&next.servers).all(|(was, now)| Arc::ptr_eq(was, now))
        };
        // The history may differ, and then the names do.
        if !was.is_some_and(|was| is_same(&was) && was.1.history == next.history) {
            next.merge(config);
        }
        next
    }

    /// The history of names in `view`, which was `before`. An operator may have given a name to another server since.
    fn history_in(&self, view: &View, before: Option<&Arc<History>>) -> Arc<History> {
        let mut history = History::clone(before.unwrap_or(&self.history));
        let is_seen = |server: &str| view.sees(server);
        history.tools.follow(&self.history.tools, is_seen);
        history.prompts.follow(&self.history.prompts, is_seen);
        Arc::make_mut(&mut history.uris).follow(&self.history.uris, is_seen);
        match before {
            Some(before) if **before == history => Arc::clone(before),
            _ => Arc::new(history),
        }
    }
}

impl Server {
    /// The server as clients of `view` see it, who saw `was` before.
    fn projected(&self, config: &Config, view: &Arc<View>, was: Option<&Self>) -> Self {
        let mut projected = Self { view: Some(Arc::clone(view)), ..self.clone() };
        let pages = projected.offer.as_ref().map(|offer| projected.selection(offer).pages());
        projected.pages = Arc::new(pages.unwrap_or_default());
        projected.catalog = projected.alone(config);
        projected.revisions = was.map(|was| was.revisions).unwrap_or_default();
        if let Some(was) = was {
            projected.revisions.count(changed(&projected.catalog, &was.catalog));
        }
        projected
    }
}

/// The offers of one client by server.
///
/// Invariants: trust, and the history of names and URIs, are one for all offers of a server. An offer to one client
/// never takes a name from another server, and no other server takes its names.
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
