//! Assigns the URI under which each resource is offered, and each template of URIs.
//!
//! A URI stays bare while its server alone can have it. If it clashes, each of its servers offers it with the
//! server's name behind the scheme ([`with_owner`]). A bare URI that reads like such a form has its own server's
//! name too.
//!
//! Pure. Invariants (property-tested): no two share an exposed URI; the exposed URIs depend on the set of all
//! alone, not on order or history. Not here: where a URI leads (`resources`).

use std::collections::HashMap;
use std::sync::Arc;

use protocol::uri::with_owner;

/// A URI, or a template, by its server and as that server has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ResourceKey {
    /// The server's name.
    pub server: Arc<str>,
    /// The server's own spelling.
    pub uri: String,
}

impl ResourceKey {
    /// It with its owner behind the scheme. No two keys have the same.
    fn owned(&self) -> String {
        with_owner(&self.uri, &self.server)
    }
}

/// The exposed forms of a set of URIs.
#[derive(Debug, Default)]
pub(super) struct Uris {
    exposed: Vec<String>,
    /// The place of each exposed form.
    by_exposed: HashMap<String, usize>,
    /// The places of those with the same bare form.
    by_bare: HashMap<String, Vec<usize>>,
    /// The place of each owned form.
    by_owner: HashMap<String, usize>,
}

impl Uris {
    /// Gives each of `keys` its exposed form; those that are `clashing` for a reason of their own do not stay
    /// bare. Every key is there once.
    pub(super) fn assign(keys: &[ResourceKey], clashing: &[bool]) -> Self {
        let mut by_bare: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            by_bare.entry(key.uri.clone()).or_default().push(index);
        }
        let clashing = all_clashing(keys, &by_bare, clashing);
        let form =
            |(key, clashes): (&ResourceKey, &bool)| if *clashes { key.owned() } else { key.uri.clone() };
        let exposed: Vec<String> = keys.iter().zip(&clashing).map(form).collect();
        let by_exposed = exposed.iter().enumerate().map(|(index, uri)| (uri.clone(), index)).collect();
        let by_owner = keys.iter().enumerate().map(|(index, key)| (key.owned(), index)).collect();
        Self { exposed, by_exposed, by_bare, by_owner }
    }

    /// The form under which the one at `index` is offered.
    pub(super) fn exposed(&self, index: usize) -> &str {
        &self.exposed[index]
    }

    /// The place of the one that is offered under `uri`.
    pub(super) fn offered(&self, uri: &str) -> Option<usize> {
        self.by_exposed.get(uri).copied()
    }

    /// The places of all that their servers call `uri`.
    pub(super) fn bare(&self, uri: &str) -> &[usize] {
        self.by_bare.get(uri).map_or(&[], Vec::as_slice)
    }

    /// The place of a server's own URI.
    pub(super) fn of_owner(&self, server: &str, uri: &str) -> Option<usize> {
        self.by_owner.get(&with_owner(uri, server)).copied()
    }
}

/// Adds to `clashing` the keys that share their bare form with another one, and those whose bare form reads like
/// the owned form of a key that clashes.
fn all_clashing(keys: &[ResourceKey], by_bare: &HashMap<String, Vec<usize>>, clashing: &[bool]) -> Vec<bool> {
    let shared = by_bare.values().filter(|all| all.len() > 1).flatten().copied();
    let mut found: Vec<usize> = (0..clashing.len()).filter(|index| clashing[*index]).chain(shared).collect();
    let mut clashing = vec![false; keys.len()];
    while let Some(index) = found.pop() {
        clashing[index] = true;
        let shadowed = by_bare.get(&keys[index].owned()).into_iter().flatten();
        found.extend(shadowed.filter(|other| !clashing[**other]));
    }
    clashing
}

/// A resource as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerResource {
    /// The server's name.
    pub server: Arc<str>,
    /// The URI there.
    pub uri: String,
}

/// The servers that can have a URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriServers {
    /// One server, which lists the URI or has a matching template.
    Listed(ServerResource),
    /// No server lists it; these may have it, the most likely first.
    Guessed(Vec<ServerResource>),
    /// Several servers have it; the URIs that are not ambiguous.
    Ambiguous(Vec<String>),
}

impl UriServers {
    /// Whether no server lists the URI.
    pub(crate) const fn are_guessed(&self) -> bool {
        matches!(self, Self::Guessed(_))
    }

    /// Returns those places that `is_wanted`. A place that is not wanted is none.
    pub(crate) fn only(self, is_wanted: impl Fn(&ServerResource) -> bool) -> Self {
        match self {
            Self::Listed(place) if !is_wanted(&place) => Self::Guessed(Vec::new()),
            Self::Guessed(places) => Self::Guessed(places.into_iter().filter(is_wanted).collect()),
            known => known,
        }
    }

    /// Returns the places of the URI without `end`.
    pub(crate) fn without_end(self, end: &str) -> Self {
        let cut = |uri: String| uri.strip_suffix(end).map_or_else(|| uri.clone(), str::to_owned);
        let at = |place: ServerResource| ServerResource { uri: cut(place.uri), ..place };
        match self {
            Self::Listed(place) => Self::Listed(at(place)),
            Self::Guessed(places) => Self::Guessed(places.into_iter().map(at).collect()),
            Self::Ambiguous(uris) => Self::Ambiguous(uris.into_iter().map(cut).collect()),
        }
    }

    /// The servers to be asked, best first; the error has the URIs that are not ambiguous.
    pub(crate) fn into_vec(self) -> Result<Vec<ServerResource>, Vec<String>> {
        match self {
            Self::Listed(place) => Ok(vec![place]),
            Self::Guessed(places) => Ok(places),
            Self::Ambiguous(candidates) => Err(candidates),
        }
    }
}

#[cfg(test)]
#[path = "uris_tests.rs"]
mod tests;
