//! What there is to read: resources and templates of all servers, and where a URI leads.
//!
//! A URI that is listed leads to its server, then one that a template makes, then one with its
//! owner behind the scheme. A URI nobody lists may still exist: servers may have more than they
//! list; then [`Resources::places`] says who is worth asking.
//!
//! Not here: asking (`gateway`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::listing::{Entry, Listing};
use super::uris::{Key, Uris};
use super::{Part, caching, read_only};
use crate::protocol::Raw;
use crate::protocol::feature::{Item, Kind, List};
use crate::protocol::uri::{Template, scheme, split_owner, with_owner};

/// Servers that are asked for a URI nobody lists.
const MAX_ASKED: usize = 8;

/// A resource as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The server's name.
    pub server: Arc<str>,
    /// The URI there.
    pub uri: String,
}

/// Where a URI leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// Here: somebody lists it, or has a template that makes it.
    Listed(Place),
    /// Nobody lists it; these are worth asking one after another, best first.
    Guessed(Vec<Place>),
}

impl Places {
    /// Whether nobody lists it.
    pub const fn are_guessed(&self) -> bool {
        matches!(self, Self::Guessed(_))
    }

    /// Who is to be asked, best first.
    pub fn into_vec(self) -> Vec<Place> {
        match self {
            Self::Listed(place) => vec![place],
            Self::Guessed(places) => places,
        }
    }
}

/// Resources and templates of all servers.
#[derive(Debug, Default)]
pub struct Resources {
    uris: Uris,
    listing: Listing,
    template_uris: Uris,
    templates: Listing,
    /// The server's own text of each of them.
    own_templates: Vec<Template>,
    /// What URIs are held against; of equally good ones the last counts.
    forms: Vec<Form>,
    /// The servers that have resources at all, in the order of the file.
    servers: Vec<Arc<str>>,
    /// Those of them that list something with a scheme.
    by_scheme: HashMap<String, HashSet<Arc<str>>>,
}

/// A template that is held against URIs.
#[derive(Debug)]
struct Form {
    template: Template,
    /// The place of its entry.
    entry: usize,
    /// Whether what it makes has the owner behind the scheme.
    is_owned: bool,
}

impl Resources {
    pub(super) fn build(parts: &[Part<'_>], per_page: usize) -> Self {
        let (uris, listing) = merged(parts, Kind::Resources, per_page);
        let (template_uris, templates) = merged(parts, Kind::Templates, per_page);
        let with_resources = parts.iter().filter(|part| part.offer.peer.offers(List::Resources.capability()));
        let forms = forms(&templates, &template_uris);
        let by_scheme = by_scheme(listing.entries().iter().chain(templates.entries()));
        let servers = with_resources.map(|part| Arc::clone(part.server)).collect();
        let own_templates = templates.entries().iter().map(|e| Template::parse(&e.route.subject)).collect();
        Self { uris, listing, template_uris, templates, own_templates, forms, servers, by_scheme }
    }

    pub(super) const fn listing(&self) -> &Listing {
        &self.listing
    }

    pub(super) const fn templates(&self) -> &Listing {
        &self.templates
    }

    /// Where `uri` leads; at most 8 places.
    pub fn places(&self, uri: &str) -> Places {
        if let Some(place) = self.listed(uri) {
            return Places::Listed(place);
        }
        let owned = split_owner(uri).and_then(|(owner, rest)| {
            let server = self.servers.iter().find(|server| server.as_ref() == owner)?;
            Some(Place { server: Arc::clone(server), uri: rest })
        });
        if let Some(place) = owned.clone().filter(|place| self.is_listed_by(place)) {
            return Places::Listed(place);
        }
        let same_scheme = scheme(uri).and_then(|scheme| self.by_scheme.get(scheme));
        let others = self.servers.iter().filter(|server| same_scheme.is_none_or(|all| all.contains(*server)));
        let others = others.map(|server| Place { server: Arc::clone(server), uri: uri.to_owned() });
        Places::Guessed(owned.into_iter().chain(others).take(MAX_ASKED).collect())
    }

    /// The place of a URI that is listed, or made by a template.
    fn listed(&self, uri: &str) -> Option<Place> {
        if let Some(index) = self.uris.meant(uri) {
            let route = &self.listing.entries()[index].route;
            return Some(Place { server: Arc::clone(&route.server), uri: route.subject.to_string() });
        }
        let matching = self.forms.iter().filter(|form| form.template.matches(uri));
        let form = matching.max_by_key(|form| form.template.specificity())?;
        let server = &self.templates.entries()[form.entry].route.server;
        let uri = if form.is_owned { split_owner(uri)?.1 } else { uri.to_owned() };
        Some(Place { server: Arc::clone(server), uri })
    }

    /// Whether a server lists its own URI, or has a template that makes it.
    fn is_listed_by(&self, place: &Place) -> bool {
        let makes = |(entry, template): (&Entry, &Template)| {
            entry.route.server == place.server && template.matches(&place.uri)
        };
        self.uris.of_owner(&place.server, &place.uri).is_some()
            || self.templates.entries().iter().zip(&self.own_templates).any(makes)
    }

    /// Where the template `text` lives, for completing it, or the resource whose URI it is.
    pub fn template(&self, text: &str) -> Places {
        let place = |index: usize| {
            let route = &self.templates.entries()[index].route;
            Place { server: Arc::clone(&route.server), uri: route.subject.to_string() }
        };
        let by_owner = || {
            let (owner, rest) = split_owner(text)?;
            self.template_uris.of_owner(owner, &rest)
        };
        match self.template_uris.meant(text).or_else(by_owner) {
            Some(index) => Places::Listed(place(index)),
            None => self.places(text),
        }
    }

    /// The URI under which clients reach what `server` calls `uri`, where that is another one.
    pub fn exposed(&self, server: &str, uri: &str) -> Option<String> {
        if !self.can_clash() {
            return None;
        }
        if let Some(index) = self.uris.of_owner(server, uri) {
            let exposed = self.uris.exposed(index);
            return (exposed != uri).then(|| exposed.to_owned());
        }
        let leads_elsewhere = self.listed(uri).is_some_and(|place| place.server.as_ref() != server);
        leads_elsewhere.then(|| with_owner(uri, server))
    }

    /// Whether two servers have resources, so that their URIs can be the same.
    pub const fn can_clash(&self) -> bool {
        self.servers.len() > 1
    }

    /// A definition of `server` whose references to resources lead clients to that server's (MCP
    /// Apps: `_meta.ui.resourceUri`, and `_meta["ui/resourceUri"]` of its first drafts).
    pub(super) fn with_references(&self, server: &str, definition: Raw) -> Raw {
        if !self.can_clash() {
            return definition;
        }
        let Some(meta) = definition.get("_meta") else { return definition };
        let followed = self.followed(server, &meta, "ui/resourceUri");
        let followed = match followed.get("ui") {
            Some(ui) => followed.with("ui", &self.followed(server, &ui, "resourceUri")),
            None => followed,
        };
        if followed == meta { definition } else { definition.with("_meta", &followed) }
    }

    /// `object` with the reference in `member` led to `server`'s resource.
    fn followed(&self, server: &str, object: &Raw, member: &str) -> Raw {
        let exposed = object.get_as(member).and_then(|uri: String| self.exposed(server, &uri));
        exposed.map_or_else(|| object.clone(), |uri| object.with(member, &Raw::of(&uri)))
    }
}

/// One list of all parts, under URIs that no two share.
fn merged(parts: &[Part<'_>], kind: Kind, per_page: usize) -> (Uris, Listing) {
    let offered: Vec<(&Arc<str>, &Item)> =
        parts.iter().flat_map(|part| items(part, kind).iter().map(|item| (part.server, item))).collect();
    let key = |(server, item): &(&Arc<str>, &Item)| Key { server: Arc::clone(server), uri: item.key.clone() };
    let uris = Uris::assign(&offered.iter().map(key).collect::<Vec<_>>());
    let entry = |(index, (server, item)): (usize, &(&Arc<str>, &Item))| {
        read_only(kind, uris.exposed(index), server, item)
    };
    let entries = offered.iter().enumerate().map(entry).collect();
    (uris, Listing::new(entries, per_page, caching(parts, kind)))
}

fn items<'a>(part: &Part<'a>, kind: Kind) -> &'a [Item] {
    match kind {
        Kind::Templates => &part.offer.templates,
        _ => &part.offer.resources,
    }
}

/// What URIs are held against: the server's own text of each template, less those by which another
/// server is meant, and then the offered text of those that are offered with their owner.
fn forms(templates: &Listing, uris: &Uris) -> Vec<Form> {
    let form = |text: &str, entry, is_owned| Form { template: Template::parse(text), entry, is_owned };
    let all = || templates.entries().iter().enumerate().rev();
    let bare = all().filter(|(index, entry)| uris.meant(&entry.route.subject) == Some(*index));
    let owned = all().filter(|(_, entry)| *entry.exposed != *entry.route.subject);
    bare.map(|(index, entry)| form(&entry.route.subject, index, false))
        .chain(owned.map(|(index, entry)| form(&entry.exposed, index, true)))
        .collect()
}

/// Which servers list something with a scheme, in the order of the file.
fn by_scheme<'a>(entries: impl Iterator<Item = &'a Entry>) -> HashMap<String, HashSet<Arc<str>>> {
    let mut by_scheme: HashMap<String, HashSet<Arc<str>>> = HashMap::new();
    for entry in entries {
        if let Some(scheme) = scheme(&entry.route.subject) {
            by_scheme.entry(scheme.to_owned()).or_default().insert(Arc::clone(&entry.route.server));
        }
    }
    by_scheme
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
