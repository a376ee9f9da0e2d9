//! Resources, templates and skills of all servers, and the server that a URI leads to.
//!
//! A URI leads to the server that offers it, then to the server that it names behind its scheme. Else it leads to the
//! only server that lists it or has a template that makes it. If several servers have it, it is ambiguous, so that
//! no server can take a URI from another one. A URI that no server has may still exist; then
//! [`Resources::places`] lists the servers worth asking.
//!
//! A skill has all URIs in its directory, like a template that makes them. If it clashes, the URIs of its whole entry get
//! the name of the server, so that they stay in one directory.
//!
//! A server that listed a URI keeps it: later it counts as one of those that have it, although it no longer lists it.
//!
//! Invariant: a lookup has a budget for each server, and what a server lists can exhaust its own alone.
//! Not here: asking (`gateway`), which URIs clash (`clashes`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::clashes::{Claims, Clashes};
use super::listing::{CatalogEntry, Listing};
use super::uris::{ResourceKey, ServerResource, UriServers, Uris};
use super::{MovedName, Part, caching, read_only};
use crate::manager::owners::Owners;
use json::Raw;
use protocol::feature::{Item, Kind};
use protocol::skill::with_uris;
use protocol::uri::{MAX_URI, Work, scheme, split_owner, with_owner};
use runtime::telemetry::limit::Limit;

/// Servers that are asked for a URI that none lists.
const MAX_ASKED: usize = 8;
/// Steps of matching for all the links of one message. Links beyond it name their server.
const MESSAGE_WORK: usize = 2 << 20;

/// Resources, templates and skills of all servers.
#[derive(Debug, Default)]
pub struct Resources {
    uris: Uris,
    listing: Listing,
    template_uris: Uris,
    templates: Listing,
    skills: Listing,
    /// Which templates make a URI.
    claims: Claims,
    /// The servers that have resources at all, in the order of the file.
    servers: Vec<Arc<str>>,
    /// Those of them that list something with a scheme.
    by_scheme: HashMap<String, HashSet<Arc<str>>>,
    /// The first server that listed each URI and each template.
    history: Arc<Owners>,
    /// Whether two servers have resources, or had.
    can_clash: bool,
}

/// The budget for the links of one message.
#[derive(Debug)]
pub struct LinkBudget(Work);

impl Default for LinkBudget {
    fn default() -> Self {
        Self(Work::of(MESSAGE_WORK))
    }
}

impl Resources {
    /// Merges the lists of `parts`, and notes in `history` who listed a URI first.
    pub(super) fn build(parts: &[Part<'_>], per_page: usize, history: &mut Arc<Owners>) -> Self {
        let has_resources =
            |part: &&Part<'_>| part.offer.peer.has(Kind::Resources) || part.offer.peer.has(Kind::Skills);
        let with_resources = parts.iter().filter(has_resources);
        let servers: Vec<Arc<str>> = with_resources.map(|part| Arc::clone(part.server)).collect();
        let [keys, template_keys, skill_keys] =
            [Kind::Resources, Kind::Templates, Kind::Skills].map(|kind| keys(parts, kind));
        let claims = Claims::of(&template_keys, &skill_keys);
        let claim_keys = [template_keys.as_slice(), &skill_keys].concat();
        let can_clash = servers.len() > 1 || history.has_others(&servers);
        let mut clashes =
            if can_clash { claims.clashes(&keys, &claim_keys, &servers) } else { Clashes::default() };
        record(history, &keys, &mut clashes.uris);
        record(history, &claim_keys, &mut clashes.templates);
        claims.follow(&keys, &clashes.uris, (template_keys.len(), &mut clashes.templates));
        let uris = Uris::assign(&keys, &clashes.uris);
        let (of_templates, of_skills) = clashes.templates.split_at(template_keys.len());
        let template_uris = Uris::assign(&template_keys, of_templates);
        let listing = merged(parts, Kind::Resources, &uris, per_page);
        let templates = merged(parts, Kind::Templates, &template_uris, per_page);
        let skills = skill_listing(parts, of_skills, per_page);
        let by_scheme =
            by_scheme(listing.entries().iter().chain(templates.entries()).chain(skills.entries()));
        let history = Arc::clone(history);
        Self {
            uris,
            listing,
            template_uris,
            templates,
            skills,
            claims,
            servers,
            by_scheme,
            history,
            can_clash,
        }
    }

    pub(super) const fn listing(&self) -> &Listing {
        &self.listing
    }

    pub(super) const fn templates(&self) -> &Listing {
        &self.templates
    }

    pub(super) const fn skills(&self) -> &Listing {
        &self.skills
    }

    /// The URIs or templates that another server listed before.
    pub(super) fn moved(&self, kind: Kind) -> impl Iterator<Item = MovedName<'_>> {
        let listing = match kind {
            Kind::Resources => Some(&self.listing),
            Kind::Templates => Some(&self.templates),
            Kind::Skills => Some(&self.skills),
            Kind::Tools | Kind::Prompts => None,
        };
        // An offer under the own name of a server is the only kind that can have moved.
        let entries = listing.into_iter().flat_map(Listing::entries);
        let entries = entries.filter(|entry| self.can_clash() && entry.exposed != *entry.route.subject);
        entries.filter_map(move |entry| {
            let owner = self.history.owner(&entry.route.subject)?;
            let (server, uri) = (&entry.route.server, &*entry.route.subject);
            let lists = |owner: &str| match kind {
                Kind::Skills => self.claims.makes(owner, uri, &mut LinkBudget::default().0),
                _ => self.lists(owner, uri),
            };
            let is_moved = owner != server && !lists(owner);
            is_moved.then(|| MovedName { owner, route: (server, uri), name: uri, exposed: &entry.exposed })
        })
    }

    /// Whether `server` lists `uri` itself, or the template that it is.
    fn lists(&self, server: &str, uri: &str) -> bool {
        self.uris.of_owner(server, uri).or(self.template_uris.of_owner(server, uri)).is_some()
    }

    /// The resource that is offered under `uri`.
    pub fn listed(&self, uri: &str) -> Option<&CatalogEntry> {
        self.uris.offered(uri).map(|index| &self.listing.entries()[index])
    }

    /// Where `uri` leads; at most 8 places.
    pub fn places(&self, uri: &str) -> UriServers {
        if let Some(entry) = self.listed(uri) {
            return UriServers::Listed(place(entry));
        }
        if !self.can_clash() {
            return self.places_of_one(uri);
        }
        if let Some((server, rest)) = self.named_in(uri) {
            return self.places_named(server, uri, rest);
        }
        match self.owners(uri, &mut LinkBudget::default()).as_slice() {
            [] => self.guessed(uri),
            [only] => UriServers::Listed(ServerResource { server: Arc::clone(only), uri: uri.to_owned() }),
            several => UriServers::Ambiguous(several.iter().map(|server| with_owner(uri, server)).collect()),
        }
    }

    /// Where `uri` leads where at most one server has resources: there, also with the name of that server in it.
    fn places_of_one(&self, uri: &str) -> UriServers {
        let Some(server) = self.servers.first() else { return UriServers::Guessed(Vec::new()) };
        let has = |uri: &str| self.has(server, uri, &mut LinkBudget::default().0);
        match split_owner(uri).filter(|(owner, _)| **owner == **server) {
            Some((_, rest)) if !has(uri) => self.places_named(server, uri, rest),
            None if !has(uri) => self.guessed(uri),
            _ => UriServers::Listed(ServerResource { server: Arc::clone(server), uri: uri.to_owned() }),
        }
    }

    /// The places of `uri`, in which `server` stands behind the scheme of `rest`: no other server is asked.
    fn places_named(&self, server: &Arc<str>, uri: &str, rest: String) -> UriServers {
        let place = |uri: String| ServerResource { server: Arc::clone(server), uri };
        let mut work = LinkBudget::default().0;
        if self.has(server, &rest, &mut work) {
            return UriServers::Listed(place(rest));
        }
        if self.has(server, uri, &mut work) {
            return UriServers::Listed(place(uri.to_owned()));
        }
        UriServers::Guessed(vec![place(rest), place(uri.to_owned())])
    }

    /// The servers that are worth asking for `uri`, which none lists.
    fn guessed(&self, uri: &str) -> UriServers {
        let same_scheme = scheme(uri).and_then(|scheme| self.by_scheme.get(scheme));
        let servers =
            self.servers.iter().filter(|server| same_scheme.is_none_or(|all| all.contains(*server)));
        let places = servers.map(|server| ServerResource { server: Arc::clone(server), uri: uri.to_owned() });
        UriServers::Guessed(places.take(MAX_ASKED).collect())
    }

    /// The server with resources whose name stands behind the scheme of `uri`, and the URI without it.
    fn named_in(&self, uri: &str) -> Option<(&Arc<str>, String)> {
        let (owner, rest) = split_owner(uri)?;
        let server = self.servers.iter().find(|server| server.as_ref() == owner)?;
        Some((server, rest))
    }

    /// The servers that list `uri`, listed it first, or have a template that makes it, in the order of the file.
    fn owners(&self, uri: &str, budget: &mut LinkBudget) -> Vec<&Arc<str>> {
        let listed = self.uris.bare(uri).iter().map(|&index| &self.listing.entries()[index].route.server);
        let mut owners: Vec<&Arc<str>> = listed.collect();
        self.claims.add_makers(uri, &mut owners, &mut budget.0);
        owners.extend(self.history.owner(uri).filter(|first| !owners.contains(first)));
        let place = |owner: &&Arc<str>| self.servers.iter().position(|server| server == *owner);
        owners.sort_by_key(place);
        owners
    }

    /// Whether `server` lists `uri` or has a template that makes it.
    fn has(&self, server: &str, uri: &str, work: &mut Work) -> bool {
        self.uris.of_owner(server, uri).is_some() || self.claims.makes(server, uri, work)
    }

    /// Where the template `text` lives, for completing it, or the resource whose URI it is.
    pub fn template(&self, text: &str) -> UriServers {
        let by_owner = || {
            let (owner, rest) = split_owner(text)?;
            self.template_uris.of_owner(owner, &rest)
        };
        let listed = |index: usize| UriServers::Listed(place(&self.templates.entries()[index]));
        if let Some(index) = self.template_uris.offered(text).or_else(by_owner) {
            return listed(index);
        }
        match self.template_uris.bare(text) {
            [] => self.places(text),
            [only] if self.history.is_free_for(text, &self.templates.entries()[*only].route.server) => {
                listed(*only)
            }
            several => {
                let exposed = several.iter().map(|&index| self.template_uris.exposed(index).to_owned());
                UriServers::Ambiguous(exposed.collect())
            }
        }
    }

    /// The URI under which clients reach what `server` calls `uri`, where that is another one.
    pub fn exposed(&self, server: &str, uri: &str, budget: &mut LinkBudget) -> Option<String> {
        if !self.can_clash() || uri.len() > MAX_URI {
            return None;
        }
        if let Some(index) = self.uris.of_owner(server, uri) {
            let exposed = self.uris.exposed(index);
            return (exposed != uri).then(|| exposed.to_owned());
        }
        let leads_back = match self.named_in(uri) {
            Some((named, rest)) if named.as_ref() == server => {
                !self.has(server, &rest, &mut budget.0) && self.has(server, uri, &mut budget.0)
            }
            Some(_) => false,
            None => self.owners(uri, budget).iter().all(|owner| owner.as_ref() == server),
        };
        if budget.0.is_spent() {
            return Limit::LinkWork.met(Some(with_owner(uri, server)));
        }
        (!leads_back).then(|| with_owner(uri, server))
    }

    /// Whether two servers have resources, or had, so that their URIs can be the same.
    pub(crate) const fn can_clash(&self) -> bool {
        self.can_clash
    }

    /// A definition of `server` whose references to resources lead clients to that server's (MCP
    /// Apps: `_meta.ui.resourceUri`, and `_meta["ui/resourceUri"]` of its first drafts).
    pub(super) fn with_references(&self, server: &str, definition: Raw, budget: &mut LinkBudget) -> Raw {
        if !self.can_clash() {
            return definition;
        }
        let Some(meta) = definition.get("_meta") else { return definition };
        let followed = self.followed(server, &meta, "ui/resourceUri", budget);
        let followed = match followed.get("ui") {
            Some(ui) => followed.with("ui", &self.followed(server, &ui, "resourceUri", budget)),
            None => followed,
        };
        if followed == meta { definition } else { definition.with("_meta", &followed) }
    }

    /// `object` with the reference in `member` led to `server`'s resource.
    fn followed(&self, server: &str, object: &Raw, member: &str, budget: &mut LinkBudget) -> Raw {
        let exposed = object.get_as(member).and_then(|uri: String| self.exposed(server, &uri, budget));
        exposed.map_or_else(|| object.clone(), |uri| object.with(member, &Raw::of(&uri)))
    }
}

/// Notes the servers of `keys` as the first that listed them; what another server listed before is `clashing`.
///
/// Beyond the bound of [`Owners`] a URI is not remembered and stays free: lists of resources may change all day.
fn record(history: &mut Arc<Owners>, keys: &[ResourceKey], clashing: &mut Vec<bool>) {
    clashing.resize(keys.len(), false);
    for (key, clashes) in keys.iter().zip(clashing) {
        match history.owner(&key.uri) {
            Some(owner) => *clashes |= *owner != key.server,
            None => drop(Arc::make_mut(history).claim(&key.uri, &key.server)),
        }
    }
}

/// The resource or template of `entry`, as its server knows it.
fn place(entry: &CatalogEntry) -> ServerResource {
    ServerResource { server: Arc::clone(&entry.route.server), uri: entry.route.subject.to_string() }
}

/// Lists the keys of all parts.
fn keys(parts: &[Part<'_>], kind: Kind) -> Vec<ResourceKey> {
    let key =
        |part: &Part<'_>, item: &Item| ResourceKey { server: Arc::clone(part.server), uri: item.key.clone() };
    parts.iter().flat_map(|part| part.items(kind).map(move |item| key(part, item))).collect()
}

/// One list of all parts, under `uris`, in which each has its place.
fn merged(parts: &[Part<'_>], kind: Kind, uris: &Uris, per_page: usize) -> Listing {
    let offered = parts.iter().flat_map(|part| part.items(kind).map(|item| (part.server, item)));
    let entry = |(index, (server, item)): (usize, (&Arc<str>, &Item))| {
        read_only(kind, uris.exposed(index), server, item)
    };
    let entries = offered.enumerate().map(entry).collect();
    Listing::new(entries, per_page, caching(parts, kind))
}

/// Which servers list something with a scheme, in the order of the file.
fn by_scheme<'a>(entries: impl Iterator<Item = &'a CatalogEntry>) -> HashMap<String, HashSet<Arc<str>>> {
    let mut by_scheme: HashMap<String, HashSet<Arc<str>>> = HashMap::new();
    for entry in entries {
        if let Some(scheme) = scheme(&entry.route.subject) {
            by_scheme.entry(scheme.to_owned()).or_default().insert(Arc::clone(&entry.route.server));
        }
    }
    by_scheme
}

/// The skills of all parts that are not blocked, each in its exposed form.
///
/// Invariant: the URIs of an entry have one form, because clients resolve paths in its directory.
pub(super) fn skill_listing(parts: &[Part<'_>], are_clashing: &[bool], per_page: usize) -> Listing {
    let offered = parts.iter().flat_map(|part| part.items(Kind::Skills).map(move |skill| (part, skill)));
    let open = offered.zip(are_clashing).filter(|((part, skill), _)| part.trust.held(&skill.key).is_none());
    let entry = |((part, skill), clashes): ((&Part<'_>, &Item), &bool)| {
        let exposed = |uri: &str| clashes.then(|| with_owner(uri, part.server));
        let entry = read_only(Kind::Skills, &skill.key, part.server, skill);
        CatalogEntry {
            exposed: exposed(&skill.key).unwrap_or(entry.exposed),
            definition: with_uris(&skill.definition, exposed),
            ..entry
        }
    };
    Listing::new(open.map(entry).collect(), per_page, caching(parts, Kind::Skills))
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod takeover_tests;
