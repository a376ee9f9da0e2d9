//! The catalog: all offers merged into one immutable snapshot.
//!
//! A lookup of a name or URI takes no lock and allocates no list. Each page of each list is encoded once.
//! Invariants: entries have the order of the servers in the configuration file, then that of the server's own
//! list. Equal offers give equal bytes. A server that is down keeps its last known offer, so names and lists do
//! not change when it crashes.
//!
//! Not here: connections, health, permissions.

mod clashes;
#[cfg(test)]
mod fixture;
mod listing;
mod login_tool;
mod resources;
mod uris;

use std::collections::HashSet;
use std::sync::Arc;

pub use listing::{CatalogEntry, Form, Listing, Page, Route};
pub use login_tool::LoginTool;
pub use resources::{LinkBudget, Resources};
pub use uris::{ServerResource, UriServers};

use self::login_tool::LoginNames;
use super::config::ToolNames;
use super::naming::{ItemKey, Names, ResolvedName, Rules};
use super::owners::Owners;
use super::selection::Selection;
use super::tool_change::ToolChange;
use super::trust::{Change, Trust};
use super::view::View;
use json::Raw;
use protocol::caching::Caching;
use protocol::feature::{Effect, Item, Kind, List, Tool};
use upstream::Offer;
use upstream::config::Tools;

/// The contribution of one server to a catalog.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The server's name.
    pub server: &'a Arc<str>,
    /// The operator's selection of its tools.
    pub choice: &'a Tools,
    /// The view through which clients see the server.
    pub view: Option<&'a View>,
    /// The tools, prompts and resources of the server.
    pub offer: &'a Offer,
    /// The trusted definitions of its tools.
    pub trust: &'a Trust,
    /// The tool with which a person logs in to the server, if it waits for a login or waited for one.
    pub login: Option<&'a LoginTool>,
    /// Whether that tool is listed.
    pub lists_login: bool,
}

/// Result of looking up the owner of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// One server has the name.
    Found(&'a Arc<Route>),
    /// One tool has the name, and it is blocked.
    Blocked(&'a BlockedTool),
    /// Several servers have it; these are their exposed names.
    Ambiguous(&'a [String]),
    /// Another server had the name before.
    Moved(MovedName<'a>),
    /// No server has the name.
    Unknown,
}

/// A bare name or URI that belonged to another server before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MovedName<'a> {
    /// The server that had it.
    pub owner: &'a Arc<str>,
    /// The server that would have it now, and the item's name there.
    pub route: (&'a Arc<str>, &'a str),
    /// The bare name.
    pub name: &'a str,
    /// The name that is offered instead.
    pub exposed: &'a str,
}

/// Options for the lists of a catalog.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// How tools and prompts are named.
    pub rules: Rules<'a>,
    /// Items on one page.
    pub per_page: usize,
}

/// The server that had each name, URI and URI template first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The names of tools.
    pub tools: Owners,
    /// The names of prompts.
    pub prompts: Owners,
    /// URIs of resources and templates. The catalog shares them, because it also looks up URIs that are in no
    /// list.
    pub uris: Arc<Owners>,
}

impl History {
    /// The number of remembered names and URIs.
    pub fn count(&self) -> usize {
        self.tools.count() + self.prompts.count() + self.uris.count()
    }
}

/// A blocked tool: it keeps its name, but is neither listed nor called.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockedTool {
    /// The server's name.
    pub server: Arc<str>,
    /// The change of its definition.
    pub change: Arc<Change>,
}

/// The item behind a name. Only tools can be blocked.
#[derive(Debug)]
enum Slot {
    Open(Arc<Route>),
    Blocked(BlockedTool),
}

/// Named items of one kind.
#[derive(Debug, Default)]
struct NamedList {
    names: Names,
    /// In the order of the names. A blocked tool keeps its slot; otherwise the tool of another server would get
    /// its name.
    slots: Vec<Slot>,
    /// The bare name, the server and its own name of each item whose name moved, in the order of `names.moved()`.
    moved: Vec<(String, Arc<str>, String)>,
    listing: Listing,
    /// The list with tools for apps alone, if there are any.
    with_apps: Option<Box<Listing>>,
}

/// All items offered under one naming, immutable.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: NamedList,
    prompts: NamedList,
    resources: Resources,
}

impl Catalog {
    /// Merges `parts` and records in `history` which server has which name.
    pub fn build(parts: &[Part<'_>], style: Style<'_>, history: &mut History) -> Self {
        let resources = Resources::build(parts, style.per_page, &mut history.uris);
        let tools = tools(parts, style, &resources, &mut history.tools);
        let prompts = prompts(parts, style, &mut history.prompts);
        Self { tools, prompts, resources }
    }

    /// Returns the names, URIs or templates that a server does not get because another server had them before.
    pub fn moved(&self, kind: Kind) -> impl Iterator<Item = MovedName<'_>> {
        let named = match kind {
            Kind::Tools => Some(&self.tools),
            Kind::Prompts => Some(&self.prompts),
            Kind::Resources | Kind::Templates | Kind::Skills => None,
        };
        let named = named.into_iter().flat_map(|list| (0..list.moved.len()).map(|place| list.moved(place)));
        named.chain(self.resources.moved(kind))
    }

    /// Returns the list of one kind.
    pub const fn listing(&self, kind: Kind) -> &Listing {
        match kind {
            Kind::Tools => &self.tools.listing,
            Kind::Prompts => &self.prompts.listing,
            Kind::Resources => self.resources.listing(),
            Kind::Templates => self.resources.templates(),
            Kind::Skills => self.resources.skills(),
        }
    }

    /// Returns the list of one kind for a client that shows apps: it has the tools for apps alone too.
    pub fn listing_for_apps(&self, kind: Kind) -> &Listing {
        let with_apps = self.tools.with_apps.as_deref().filter(|_| kind == Kind::Tools);
        with_apps.unwrap_or_else(|| self.listing(kind))
    }

    /// Every tool, in list order, those for apps alone too.
    pub fn all_tools(&self) -> &[CatalogEntry] {
        self.listing_for_apps(Kind::Tools).entries()
    }

    /// Every tool for models, in list order.
    pub fn tools(&self) -> &[CatalogEntry] {
        self.tools.listing.entries()
    }

    /// The tools that wait for an approval, as `server/name` by their names at the server.
    pub fn held_tools(&self) -> impl Iterator<Item = String> {
        self.tools.slots.iter().filter_map(|slot| match slot {
            Slot::Open(_) => None,
            Slot::Blocked(BlockedTool { server, change }) => Some(format!("{server}/{}", change.tool)),
        })
    }

    /// Looks up the owner of the tool `name`.
    pub fn tool(&self, name: &str) -> Lookup<'_> {
        self.tools.lookup(name)
    }

    /// Looks up the owner of the prompt `name`.
    pub fn prompt(&self, name: &str) -> Lookup<'_> {
        self.prompts.lookup(name)
    }

    /// The resources and templates.
    pub const fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Whether both list the same bytes.
    pub(crate) fn lists_the_same(&self, other: &Self, list: List) -> bool {
        let mut kinds = Kind::ALL.into_iter().filter(|kind| kind.list() == list);
        kinds.all(|kind| self.listing_for_apps(kind).lists_the_same(other.listing_for_apps(kind)))
    }
}

impl<'a> Part<'a> {
    /// The tools that clients get.
    fn selection(&self) -> Selection<'a> {
        Selection::of(self.server, (self.choice, self.trust), self.view, &self.offer.tools)
    }

    /// The items of `kind`, no tools, that clients get.
    fn items(&self, kind: Kind) -> impl Iterator<Item = &'a Item> {
        let selection = self.selection();
        self.offer.items(kind).iter().filter(move |item| selection.offers_item(kind, &item.key))
    }
}

impl NamedList {
    fn lookup(&self, name: &str) -> Lookup<'_> {
        match self.names.meaning(name) {
            Some(ResolvedName::One(index)) => match &self.slots[*index] {
                Slot::Open(route) => Lookup::Found(route),
                Slot::Blocked(held) => Lookup::Blocked(held),
            },
            Some(ResolvedName::Ambiguous(candidates)) => Lookup::Ambiguous(candidates),
            Some(ResolvedName::Moved(place)) => Lookup::Moved(self.moved(*place)),
            None => Lookup::Unknown,
        }
    }

    fn moved(&self, place: usize) -> MovedName<'_> {
        let (moved, (name, server, subject)) = (&self.names.moved()[place], &self.moved[place]);
        MovedName {
            owner: &moved.owner,
            route: (server, subject),
            name,
            exposed: self.names.exposed(moved.index),
        }
    }
}

/// Returns the moved names of `names`; `subject` gives the name of each of `keys` on its server.
fn moved<'a>(
    names: &Names,
    keys: &[ItemKey],
    subject: impl Fn(usize) -> &'a str,
) -> Vec<(String, Arc<str>, String)> {
    let one = |index: usize, name: &String| {
        (name.clone(), Arc::clone(&keys[index].server), subject(index).to_owned())
    };
    names.moved().iter().map(|moved| one(moved.index, &moved.name)).collect()
}

fn tools(parts: &[Part<'_>], style: Style<'_>, resources: &Resources, owners: &mut Owners) -> NamedList {
    let offered = offered_tools(parts, style.rules, owners);
    let keys: Vec<ItemKey> = offered.iter().map(|offered| offered.key.clone()).collect();
    let names = Names::assign(&keys, &style.rules, owners);
    let moved = moved(&names, &keys, |index| offered[index].tool.name.as_str());
    let (mut budget, mut apps) = (LinkBudget::default(), HashSet::new());
    let (mut slots, mut entries) = (Vec::with_capacity(offered.len()), Vec::with_capacity(offered.len()));
    for (index, OfferedTool { part, tool, is_login, .. }) in offered.iter().enumerate() {
        if let Some(change) = part.trust.held(&tool.name).filter(|_| !is_login) {
            slots.push(Slot::Blocked(BlockedTool {
                server: Arc::clone(part.server),
                change: Arc::clone(change),
            }));
            continue;
        }
        let entry = tool_entry(&offered[index], names.exposed(index), (resources, &mut budget));
        slots.push(Slot::Open(Arc::clone(&entry.route)));
        if tool.ui.is_app_only {
            apps.insert((&**part.server, &*tool.name));
        }
        if !is_login || part.lists_login {
            entries.push(entry);
        }
    }
    let is_of_app = |entry: &CatalogEntry| apps.contains(&(&*entry.route.server, &*entry.route.subject));
    let has_apps = entries.iter().any(is_of_app);
    let caching = caching(parts, Kind::Tools);
    // The list depends on what the client declares.
    let caching = Caching { is_public: caching.is_public && !has_apps, ..caching };
    let listing = |entries| Listing::new(entries, style.per_page, caching);
    let for_models = has_apps.then(|| entries.iter().filter(|entry| !is_of_app(entry)).cloned().collect());
    let (listing, with_apps) = match for_models {
        Some(for_models) => (listing(for_models), Some(Box::new(listing(entries)))),
        None => (listing(entries), None),
    };
    NamedList { names, slots, moved, listing, with_apps }
}

/// A tool of a part that clients can call.
struct OfferedTool<'a> {
    key: ItemKey,
    part: &'a Part<'a>,
    tool: &'a Tool,
    /// Whether it is the tool with which a person logs in to the server.
    is_login: bool,
}

/// Returns the tools of all parts, and behind those of a server its login tool.
fn offered_tools<'a>(parts: &'a [Part<'a>], rules: Rules<'_>, owners: &Owners) -> Vec<OfferedTool<'a>> {
    let logins = LoginNames::of(parts, rules, owners);
    let mut offered = Vec::new();
    for part in parts {
        let of_server = chosen(part).map(|tool| (tool, false));
        let tools = of_server.chain(logins.tool(part).map(|tool| (tool, true)));
        offered.extend(tools.map(|((key, tool), is_login)| OfferedTool { key, part, tool, is_login }));
    }
    offered
}

fn tool_entry(
    OfferedTool { part, tool, is_login, .. }: &OfferedTool<'_>,
    exposed: &str,
    (resources, budget): (&Resources, &mut LinkBudget),
) -> CatalogEntry {
    let (definition, selection) = (tool.definition_as(exposed), part.selection());
    let change = selection.change(tool).filter(|_| !is_login);
    // A tool with arguments that do not fit is not offered.
    let arguments = change.and_then(|change| change.arguments_for(tool).ok().flatten());
    let definition = change.map_or_else(|| definition.clone(), |change| change.applied(&definition));
    let definition = arguments.as_ref().map_or(definition.clone(), |given| given.applied(&definition));
    let definition = resources.with_references(part.server, definition, budget);
    let older = tool.legacy.of(&definition);
    let route = Route {
        server: Arc::clone(part.server),
        subject: tool.name.as_str().into(),
        effect: selection.effect(tool),
        header_params: tool.header_params.clone().unwrap_or_default().into(),
        arguments,
        wraps_result: tool.legacy.wraps_output,
        // Without the capability, anything that a definition says about tasks is ignored.
        needs_task: tool.needs_task && part.offer.peer.makes_tasks(),
        is_login: *is_login,
    };
    CatalogEntry { exposed: exposed.to_owned(), route: Arc::new(route), definition, older }
}

/// Returns the tools of a part that the operator selected, under the operator's names.
fn chosen<'a>(part: &'a Part<'a>) -> impl Iterator<Item = (ItemKey, &'a Tool)> {
    let (server, choice, offer, selection) = (part.server, part.choice, part.offer, part.selection());
    let mut taken = HashSet::new();
    offer.tools.iter().filter_map(move |tool| {
        if !selection.offers(tool) {
            return None;
        }
        let of_view = selection.change(tool).and_then(ToolChange::name);
        let name = of_view.or_else(|| choice.rename.get(&tool.name)).unwrap_or(&tool.name).clone();
        // If a name occurs twice, by the server's list or by a rename, the first one counts.
        taken.insert(name.clone()).then(|| (ItemKey { server: Arc::clone(server), name }, tool))
    })
}

fn prompts(parts: &[Part<'_>], style: Style<'_>, owners: &mut Owners) -> NamedList {
    let offered: Vec<(&Arc<str>, &Item)> =
        parts.iter().flat_map(|part| part.items(Kind::Prompts).map(|prompt| (part.server, prompt))).collect();
    let key = |(server, prompt): &(&Arc<str>, &Item)| ItemKey {
        server: Arc::clone(server),
        name: prompt.key.clone(),
    };
    let keys: Vec<ItemKey> = offered.iter().map(key).collect();
    // A server alone keeps the names of its prompts.
    let mode = if style.rules.servers.is_empty() { ToolNames::Verbatim } else { style.rules.mode };
    let names = Names::assign(&keys, &Rules { mode, keeps_dots: true, ..style.rules }, owners);
    let moved = moved(&names, &keys, |index| offered[index].1.key.as_str());
    let entry = |(index, (server, prompt)): (usize, &(&Arc<str>, &Item))| {
        read_only(Kind::Prompts, names.exposed(index), server, prompt)
    };
    let entries: Vec<CatalogEntry> = offered.iter().enumerate().map(entry).collect();
    let slots = entries.iter().map(|entry| Slot::Open(Arc::clone(&entry.route))).collect();
    let listing = Listing::new(entries, style.per_page, caching(parts, Kind::Prompts));
    NamedList { names, slots, moved, listing, with_apps: None }
}

/// The entry of an item that is only read.
fn read_only(kind: Kind, exposed: &str, server: &Arc<str>, item: &Item) -> CatalogEntry {
    let route = Route {
        server: Arc::clone(server),
        subject: item.key.as_str().into(),
        effect: Effect::ReadOnly,
        header_params: Arc::default(),
        arguments: None,
        wraps_result: false,
        needs_task: false,
        is_login: false,
    };
    let definition: Raw = item.definition_as(kind, exposed);
    CatalogEntry { exposed: exposed.to_owned(), route: Arc::new(route), definition, older: None }
}

/// How caches may store the lists of `kind` of all parts.
fn caching(parts: &[Part<'_>], kind: Kind) -> Caching {
    // A login changes the list at any moment.
    let logins = parts.iter().filter(|part| part.lists_login && kind == Kind::Tools).map(|_| Caching::NONE);
    let caching = Caching::of_all(parts.iter().filter_map(|part| part.offer.caching(kind)).chain(logins));
    // A list may depend on the credential where there are views.
    let is_whole = parts.iter().all(|part| part.view.is_none());
    Caching { is_public: caching.is_public && is_whole, ..caching }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
