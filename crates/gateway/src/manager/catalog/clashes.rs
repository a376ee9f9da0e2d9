//! Which URI templates make a URI, and which URIs and templates clash because of that.
//!
//! Invariants: a template without a literal scheme makes no URI where several servers have resources, or one server
//! could claim everything. Templates of two servers clash if one's literal beginning begins with the other's. The
//! work for the list of one server is bounded, and beyond the bound its own URIs count as clashing.
//!
//! Not here: the forms that clashing URIs get (`uris`).

use std::collections::HashMap;
use std::sync::Arc;

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

/// Entries under their prefixes.
///
/// Invariant: a lookup costs one binary search and the entries that it finds, also where every prefix is a prefix of
/// the next one.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// Sorted by their text.
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    text: String,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    entries: Vec<usize>,
}

impl Prefixes {
    /// The index of `entries`, each with its prefix.
    pub(super) fn of<'a>(entries: impl Iterator<Item = (usize, &'a str)>) -> Self {
        let mut sorted: Vec<(&str, usize)> = entries.map(|(entry, prefix)| (prefix, entry)).collect();
        sorted.sort_unstable();
        let (mut nodes, mut open): (Vec<Node>, Vec<usize>) = (Vec::new(), Vec::new());
        for (text, entry) in sorted {
            if let Some(same) = nodes.last_mut().filter(|last| last.text == text) {
                same.entries.push(entry);
                continue;
            }
            while open.last().is_some_and(|&outer| !text.starts_with(&nodes[outer].text)) {
                open.pop();
            }
            let parent = open.last().copied();
            open.push(nodes.len());
            nodes.push(Node { text: text.to_owned(), parent, entries: vec![entry] });
        }
        Self { nodes }
    }

    /// The entries whose prefix `text` begins with, the longest prefix first.
    pub(super) fn matching(&self, text: &str) -> impl Iterator<Item = usize> {
        let nearest = self.nodes.partition_point(|node| node.text.as_str() <= text).checked_sub(1);
        let up = std::iter::successors(nearest, |&node| self.nodes[node].parent);
        let found = up.map(|node| &self.nodes[node]).filter(move |node| text.starts_with(&node.text));
        found.flat_map(|node| node.entries.iter().copied())
    }

    /// Whether the prefix of each entry and that of an entry of another group begin with one another. `group` has
    /// a group for each of the `count` entries.
    pub(super) fn overlapping<G: PartialEq + Copy>(
        &self,
        count: usize,
        group: impl Fn(usize) -> G,
    ) -> Vec<bool> {
        let own: Vec<Groups<G>> =
            self.nodes.iter().map(|node| Groups::of(node.entries.iter().map(|&e| group(e)))).collect();
        let (mut above, mut below) = (own.clone(), own);
        for node in 0..self.nodes.len() {
            if let Some(parent) = self.nodes[node].parent {
                above[node] = above[node].and(above[parent]);
            }
        }
        for node in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[node].parent {
                below[parent] = below[parent].and(below[node]);
            }
        }
        let mut overlapping = vec![false; count];
        for (node, (above, below)) in self.nodes.iter().zip(above.into_iter().zip(below)) {
            node.entries.iter().for_each(|&entry| overlapping[entry] = above.and(below) == Groups::Several);
        }
        overlapping
    }
}

/// The groups of some entries, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Groups<G> {
    One(G),
    Several,
}

impl<G: PartialEq + Copy> Groups<G> {
    /// Those of a node, which has at least one entry.
    fn of(groups: impl Iterator<Item = G>) -> Self {
        groups.map(Self::One).reduce(Self::and).unwrap_or(Self::Several)
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Several }
    }
}

#[cfg(test)]
mod prefixes_tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_scan_finds(prefixes in prop::collection::vec("[ab]{0,4}", 0..12), text in "[ab]{0,6}") {
            let index = Prefixes::of(prefixes.iter().map(String::as_str).enumerate());
            let mut found: Vec<usize> = index.matching(&text).collect();
            found.sort_unstable();
            let scanned = prefixes.iter().enumerate().filter(|(_, prefix)| text.starts_with(prefix.as_str()));
            prop_assert_eq!(found, scanned.map(|(entry, _)| entry).collect::<Vec<_>>());
            let overlaps = |entry: usize| {
                prefixes.iter().enumerate().any(|(other, prefix)| {
                    let (one, two) = (prefix.as_str(), prefixes[entry].as_str());
                    other % 2 != entry % 2 && (one.starts_with(two) || two.starts_with(one))
                })
            };
            let expected: Vec<bool> = (0..prefixes.len()).map(overlaps).collect();
            prop_assert_eq!(index.overlapping(prefixes.len(), |entry| entry % 2), expected);
        }
    }
}
