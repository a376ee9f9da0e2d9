//! Which URI templates make a URI, and which URIs and templates clash because of that.
//!
//! Invariants: a template without a literal scheme makes no URI where several servers have resources, or one server
//! could claim everything. Templates of two servers clash if one's literal beginning begins with the other's. The
//! work for the list of one server is bounded, and beyond the bound its own URIs count as clashing.
//!
//! Not here: the forms that clashing URIs get (`uris`).

use std::collections::HashMap;
use std::sync::Arc;

use super::prefixes::Prefixes;
use super::uris::ResourceKey;
use protocol::skill;
use protocol::uri::{Template, Work, split_owner};

/// Steps of matching for one URI, for each server that has templates.
const LOOKUP_WORK: usize = 1 << 18;
/// Steps of matching for all URIs that one server lists.
const LIST_WORK: usize = 8 << 20;

/// All templates, found by the text that they begin with.
#[derive(Debug, Default)]
pub(super) struct Claims {
    templates: Vec<(Arc<str>, Template)>,
    by_prefix: Prefixes,
}

/// The URIs and templates that clash, by their places.
#[derive(Debug, Default)]
pub(super) struct Clashes {
    pub(super) uris: Vec<bool>,
    pub(super) templates: Vec<bool>,
}

impl Claims {
    /// Makes the claims of `templates`, and behind them those of `skills`: each has all URIs in its directory.
    pub(super) fn of(templates: &[ResourceKey], skills: &[ResourceKey]) -> Self {
        let read = |key: &ResourceKey| (Arc::clone(&key.server), Template::parse(&key.uri));
        let beneath = |key: &ResourceKey| {
            let root = skill::root(&key.uri).unwrap_or(&key.uri);
            (Arc::clone(&key.server), Template::beneath(root))
        };
        let templates: Vec<(Arc<str>, Template)> =
            templates.iter().map(read).chain(skills.iter().map(beneath)).collect();
        let by_prefix = Prefixes::of(templates.iter().map(|(_, template)| template.prefix()).enumerate());
        Self { templates, by_prefix }
    }

    /// Whether a template of `server` makes `uri`.
    pub(super) fn makes(&self, server: &str, uri: &str, work: &mut Work) -> bool {
        let own = self.by_prefix.matching(uri).map(|index| &self.templates[index]);
        own.filter(|(owner, _)| owner.as_ref() == server).any(|(_, template)| template.matches(uri, work))
    }

    /// Adds to `owners` the servers with a template that makes `uri`, each once. The templates of one server use up
    /// the budget of no other.
    pub(super) fn add_makers<'a>(&'a self, uri: &str, owners: &mut Vec<&'a Arc<str>>, work: &mut Work) {
        let mut left: HashMap<&str, Work> = HashMap::new();
        for (server, template) in self.by_prefix.matching(uri).map(|index| &self.templates[index]) {
            if work.is_spent() {
                return;
            }
            if owners.contains(&server) || !template.has_scheme() {
                continue;
            }
            let own = left.entry(server).or_insert(Work::of(LOOKUP_WORK));
            let before = *own;
            if template.matches(uri, own) {
                owners.push(server);
            }
            work.spend_as(before, *own);
        }
    }

    /// Finds the listed `uris` and the templates that clash. `keys` are those it was made of, and `servers` those that
    /// have resources.
    pub(super) fn clashes(
        &self,
        uris: &[ResourceKey],
        keys: &[ResourceKey],
        servers: &[Arc<str>],
    ) -> Clashes {
        let is_reserved = |key: &ResourceKey| {
            let owner = split_owner(&key.uri).map(|(owner, _)| owner.to_owned());
            owner
                .is_some_and(|owner| *owner != *key.server && servers.iter().any(|server| **server == *owner))
        };
        let mut templates = self.overlapping();
        for (clashes, (key, (_, template))) in templates.iter_mut().zip(keys.iter().zip(&self.templates)) {
            *clashes |= !template.has_scheme() || is_reserved(key);
        }
        let (mut left, mut clashing) = (HashMap::new(), Vec::with_capacity(uris.len()));
        for key in uris {
            let work = left.entry(&*key.server).or_insert(Work::of(LIST_WORK));
            clashing.push(self.clash(key, &mut templates, work) || is_reserved(key));
        }
        Clashes { uris: clashing, templates }
    }

    /// Adds to `clashing`, the claims, those of skills with one of the `uris` that clash. The skills begin at `first`.
    pub(super) fn follow(
        &self,
        uris: &[ResourceKey],
        are_clashing: &[bool],
        (first, clashing): (usize, &mut [bool]),
    ) {
        for (key, _) in uris.iter().zip(are_clashing).filter(|(_, clashes)| **clashes) {
            let of_skills = self.by_prefix.matching(&key.uri).filter(|&at| at >= first);
            let own = of_skills.filter(|&at| self.templates[at].0 == key.server);
            own.for_each(|at| clashing[at] = true);
        }
    }

    /// The templates that overlap with one of another server.
    fn overlapping(&self) -> Vec<bool> {
        let with_scheme =
            self.templates.iter().enumerate().filter(|(_, (_, template))| template.has_scheme());
        let index = Prefixes::of(with_scheme.map(|(index, (_, template))| (index, template.prefix())));
        index.overlapping(self.templates.len(), |index| &*self.templates[index].0)
    }

    /// Whether another server's template makes the URI of `key`; notes those that do in `templates`.
    fn clash(&self, key: &ResourceKey, templates: &mut [bool], work: &mut Work) -> bool {
        let mut clashes = false;
        for index in self.by_prefix.matching(&key.uri) {
            let (server, template) = &self.templates[index];
            if *server != key.server && template.has_scheme() && template.matches(&key.uri, work) {
                (clashes, templates[index]) = (true, true);
            }
        }
        clashes || work.is_spent()
    }
}
