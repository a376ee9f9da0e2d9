//! Which URI each resource is offered under, and what every other spelling of it means. The same
//! for templates of URIs.
//!
//! A URI is bare while one server alone has it. On a clash each of its owners offers it with the
//! owner's name behind the scheme ([`with_owner`]), and the bare form still means that of the first
//! server in the file. A bare URI that reads like such an offered form gives way, and is offered with
//! its own owner's name too.
//!
//! Pure. Invariants (property-tested): no two share an exposed URI; which URI that is depends on the
//! set of all alone, not on order or history; every exposed URI means what it stands for.

use std::collections::HashMap;
use std::sync::Arc;

use crate::protocol::uri::with_owner;

/// A URI, or a template, by its server and as that server has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The server's name.
    pub server: Arc<str>,
    /// The server's own spelling.
    pub uri: String,
}

impl Key {
    /// It with its owner behind the scheme. No two keys have the same.
    fn owned(&self) -> String {
        with_owner(&self.uri, &self.server)
    }
}

/// The exposed forms of a set of URIs.
#[derive(Debug, Default)]
pub(super) struct Uris {
    exposed: Vec<String>,
    /// Who is meant: by exposed form, then by bare form.
    meant: HashMap<String, usize>,
    /// Who it is, by owned form.
    by_owner: HashMap<String, usize>,
}

impl Uris {
    /// Gives every one of `keys` its exposed form. They stand in the order of the registry file,
    /// which decides who is meant by a bare form that several have; no key stands twice.
    pub(super) fn assign(keys: &[Key]) -> Self {
        let clashing = clashing(keys);
        let form = |(key, clashes): (&Key, &bool)| if *clashes { key.owned() } else { key.uri.clone() };
        let exposed: Vec<String> = keys.iter().zip(&clashing).map(form).collect();
        let mut meant: HashMap<String, usize> =
            exposed.iter().enumerate().map(|(index, uri)| (uri.clone(), index)).collect();
        for (index, key) in keys.iter().enumerate() {
            meant.entry(key.uri.clone()).or_insert(index);
        }
        let by_owner = keys.iter().enumerate().map(|(index, key)| (key.owned(), index)).collect();
        Self { exposed, meant, by_owner }
    }

    /// The form under which the one at `index` is offered.
    pub(super) fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// Who is meant by `uri`: an exposed form, or the bare form of a clash.
    pub(super) fn meant(&self, uri: &str) -> Option<usize> {
        self.meant.get(uri).copied()
    }

    /// The place of a server's own URI.
    pub(super) fn of_owner(&self, server: &str, uri: &str) -> Option<usize> {
        self.by_owner.get(&with_owner(uri, server)).copied()
    }
}

/// Who cannot have its bare form: it shares that with another, or somebody's owned form, which
/// must be offered because *its* bare form is taken, reads the same.
fn clashing(keys: &[Key]) -> Vec<bool> {
    let mut by_uri: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, key) in keys.iter().enumerate() {
        by_uri.entry(&key.uri).or_default().push(index);
    }
    let mut clashing = vec![false; keys.len()];
    let mut found: Vec<usize> = by_uri.values().filter(|all| all.len() > 1).flatten().copied().collect();
    while let Some(index) = found.pop() {
        clashing[index] = true;
        let shadowed = by_uri.get(keys[index].owned().as_str()).into_iter().flatten();
        found.extend(shadowed.filter(|other| !clashing[**other]));
    }
    clashing
}

#[cfg(test)]
#[path = "uris_tests.rs"]
mod tests;
