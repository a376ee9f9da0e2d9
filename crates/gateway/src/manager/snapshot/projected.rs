//! The snapshots for clients of a view: they have what the view admits, and nothing else.
//!
//! Invariants: a server outside of the view is not in them, so no name, count, hint or state of it has an influence. Unchanged
//! parts are shared with the snapshot before. Each view has its own history of names, because a name that is
//! taken outside of it is free in it.
//!
//! Not here: what a view admits (`manager::view`).

use std::collections::HashMap;
use std::sync::Arc;

use super::super::catalog::History;
use super::super::config::Config;
use super::super::error::Error;
use super::{Server, Snapshot, changed};
use crate::manager::view::View;

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
