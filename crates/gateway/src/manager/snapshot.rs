//! The state of all servers at one moment: their last known offers, and the catalogs made of them.
//!
//! A snapshot is immutable. The registry publishes a new one after each change of an offer, and a call uses
//! the one of its start. Not here: making snapshots (`registry`).

mod history;
mod projected;
mod startup;
mod unknown;

pub(super) use projected::Offers;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::catalog::{Catalog, History, LoginTool, Lookup, Part, Route, Style};
use super::config::{Config, ToolNames};
use super::error::{Error, ItemKind};
use super::known::KnownServers;
use super::naming::Rules;
use super::not_configured::NotConfigured;
use super::selection::{self, Selection};
use super::trust::{Approval, Trust};
use super::view::{self, Holding, Target, ToolFacts, View};
use protocol::feature::{Effect, Kind, List, Lists};
use runtime::telemetry::durations::Durations;
use upstream::{Offer, State, Upstream};

/// The servers that a client sees: all, or those of a view; and either their merged catalog, or one
/// server alone under its own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The view; without one, everything.
    pub view: Option<Arc<str>>,
    /// The server that is alone; without one, the merged catalog.
    pub server: Option<Arc<str>>,
}

impl Scope {
    /// The merged catalog of all servers.
    pub const ALL: Self = Self { view: None, server: None };

    /// One server, verbatim.
    pub fn of_server(name: impl Into<Arc<str>>) -> Self {
        Self { view: None, server: Some(name.into()) }
    }

    /// The merged catalog of a view.
    pub fn of_view(name: impl Into<Arc<str>>) -> Self {
        Self { view: Some(name.into()), server: None }
    }
}

/// One server with its last offer.
#[derive(Clone)]
pub struct Server {
    /// The server itself.
    pub upstream: Arc<Upstream>,
    /// Its last offer. Before it was reached, the offer that it declares without a connection, if any.
    pub offer: Option<Arc<Offer>>,
    /// Whether the server was reached, so that `offer` is its own list.
    pub is_heard: bool,
    /// The trusted definitions of its tools.
    pub trust: Arc<Trust>,
    /// The catalog of this server alone, under its own names.
    pub catalog: Arc<Catalog>,
    /// Number of changes of its lists.
    pub revisions: Revisions,
    /// Whether its first attempt to connect has ended, with success or not.
    pub settled: bool,
    /// Durations of its calls, including those of predecessors with this name.
    pub durations: Arc<Durations>,
    /// The tool with which a person logs in to it, from the first time on that it waited for a login.
    pub login: Option<Arc<LoginTool>>,
    /// The view through which clients see it.
    pub view: Option<Arc<View>>,
    /// The resources that show results of tools that clients of the view get.
    pages: Arc<HashSet<String>>,
}

/// How often each list has changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Revisions([u64; List::ALL.len()]);

impl Revisions {
    /// Returns the number of changes of `list`.
    pub const fn of(&self, list: List) -> u64 {
        self.0[list as usize]
    }

    /// Copies the count of `list` from `others`.
    pub const fn record(&mut self, list: List, others: Self) {
        self.0[list as usize] = others.0[list as usize];
    }

    fn count(&mut self, changed: Lists) {
        changed.iter().for_each(|list| self.0[list as usize] += 1);
    }
}

/// The servers and the catalogs of one moment.
#[derive(Clone)]
pub struct Snapshot {
    servers: Vec<Arc<Server>>,
    /// Ordered, because comparing the few names costs less than a hash.
    by_name: BTreeMap<Arc<str>, usize>,
    /// Entries of the configuration file that cannot be used. A server may run with the settings of an earlier one.
    not_configured: Arc<[NotConfigured]>,
    catalog: Arc<Catalog>,
    /// The servers that have had each name.
    history: Arc<History>,
    revisions: Revisions,
    started: Instant,
    /// Whether all servers of an earlier configuration were settled once.
    was_settled: bool,
    /// The view through which its clients see the servers. All that it has, they may know.
    view: Option<Arc<View>>,
    /// The snapshots for clients of each view.
    projections: Arc<HashMap<Arc<str>, Arc<Self>>>,
}

impl Snapshot {
    /// Makes a snapshot of servers that were not reached yet.
    pub(super) fn new(upstreams: Vec<Arc<Upstream>>) -> Self {
        let by_name = upstreams.iter().enumerate().map(|(i, u)| (u.config().name.clone(), i)).collect();
        Self {
            servers: upstreams.into_iter().map(Server::new).map(Arc::new).collect(),
            by_name,
            not_configured: Arc::default(),
            catalog: Arc::default(),
            history: Arc::default(),
            revisions: Revisions::default(),
            started: Instant::now(),
            was_settled: false,
            view: None,
            projections: Arc::default(),
        }
    }

    /// Returns when this set of servers was started.
    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    /// Returns the servers, in the order of the configuration file.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Returns the server `name`.
    pub fn server(&self, name: &str) -> Result<&Arc<Server>, Error> {
        self.server_called(name).ok_or_else(|| self.no_server(name))
    }

    /// Returns the entries of the configuration file that cannot be used.
    pub(super) fn not_configured(&self) -> &[NotConfigured] {
        &self.not_configured
    }

    /// Returns the catalog of a scope.
    pub fn catalog(&self, scope: &Scope) -> Result<&Arc<Catalog>, Error> {
        match &scope.server {
            None => Ok(&self.catalog),
            Some(name) => self.server(name).map(|server| &server.catalog),
        }
    }

    /// Returns how often the lists of a scope have changed, or were reported as changed.
    pub fn revisions(&self, scope: &Scope) -> Revisions {
        match &scope.server {
            None => self.revisions,
            Some(name) => self.server(name).map(|server| server.revisions).unwrap_or_default(),
        }
    }

    /// Whether a server of a scope declares the capability `name`.
    pub fn offers(&self, scope: &Scope, name: &str) -> bool {
        self.has(scope, |peer| peer.offers(name))
    }

    /// Whether a server of a scope was not reached yet, so that its offer is unknown.
    pub(crate) fn has_unreached(&self, scope: &Scope) -> bool {
        let is_unheard = |server: &Arc<Server>| !server.is_heard && server.upstream.config().enabled;
        self.servers_in(scope).iter().any(is_unheard)
    }

    /// Returns the owner of the tool or prompt `name` in a scope.
    pub fn route(&self, scope: &Scope, kind: ItemKind, name: &str) -> Result<Arc<Route>, Error> {
        let catalog = self.catalog(scope)?;
        let lookup = match kind {
            ItemKind::Tool => catalog.tool(name),
            ItemKind::Prompt => catalog.prompt(name),
        };
        match lookup {
            Lookup::Found(route) => Ok(route.clone()),
            Lookup::Blocked(held) => Err(held.change.refusal(&held.server)),
            Lookup::Ambiguous(candidates) => {
                let (name, candidates) = (name.to_owned(), candidates.to_vec());
                Err(Error::Ambiguous { kind, name, candidates, before: None })
            }
            Lookup::Moved(moved) => Err(Error::Ambiguous {
                kind,
                name: name.to_owned(),
                candidates: vec![moved.exposed.to_owned()],
                before: Some(Arc::clone(moved.owner)),
            }),
            Lookup::Unknown => Err(self.unknown(scope, kind, name)),
        }
    }

    /// Returns the snapshot after `name` settled or has a new offer.
    pub(super) fn updated(&self, config: &Config, name: &str, offer: Option<Arc<Offer>>) -> Self {
        let mut next = self.clone();
        let Some(&index) = self.by_name.get(name) else { return next };
        let server = Arc::make_mut(&mut next.servers[index]);
        server.settled = true;
        let Some(offer) = offer else { return next };
        let before = server.offer.replace(offer);
        server.is_heard = true;
        server.read_offer(config, before.as_deref());
        next.merge(config);
        next
    }

    /// Returns the snapshot after an operator approved definitions of `server`.
    pub(super) fn approved(
        &self,
        config: &Config,
        server: &str,
        approval: Approval<'_>,
    ) -> Result<Self, Error> {
        let there = self.server(server)?;
        let offered = there.offer.iter().flat_map(|offer| offer.trusted_definitions());
        let trust = there.trust.approved(approval, &there.upstream.config().name, offered)?;
        let mut next = self.clone();
        next.release_names(server, approval);
        let server = Arc::make_mut(&mut next.servers[self.by_name[server]]);
        server.trust = Arc::new(trust);
        server.read_offer(config, None);
        next.merge(config);
        Ok(next)
    }

    /// Returns the snapshot for a new set of servers. Known facts about remaining servers are kept, except about
    /// `forgotten`, and `known` are those about new servers.
    pub(super) fn applied(
        &self,
        config: &Config,
        upstreams: Vec<Arc<Upstream>>,
        known: &KnownServers,
        forgotten: Option<&str>,
    ) -> Self {
        let mut next = Self { was_settled: self.has_started(), ..Self::new(upstreams) };
        next.not_configured = config.not_configured.as_slice().into();
        for server in next.servers.iter_mut().map(Arc::make_mut) {
            let name = Arc::clone(&server.upstream.config().name);
            let before = self.server(&name).ok().filter(|_| forgotten != Some(&*name));
            match (before, known.get(&name)) {
                (Some(before), _) => server.follow(before),
                (None, Some(known)) => server.trust = Arc::clone(&known.trust),
                (None, None) => {}
            }
            server.read_offer(config, before.and_then(|before| before.offer.as_deref()));
        }
        (next.catalog, next.revisions) = (Arc::clone(&self.catalog), self.revisions);
        let mut history = self.kept_history(config, forgotten);
        history.restore(known.iter().filter(|(name, _)| self.server(name).is_err()));
        next.history = Arc::new(history);
        next.merge(config);
        next
    }

    /// Returns the snapshot in which `lists` of `server` count as changed.
    pub(super) fn announced(&self, server: &str, lists: Lists) -> Self {
        let mut next = self.clone();
        Arc::make_mut(&mut next.servers[self.by_name[server]]).revisions.count(lists);
        next.revisions.count(lists);
        next
    }

    /// Returns the merged catalog, and records in the history which server has which name.
    fn merged(&mut self, config: &Config) -> Arc<Catalog> {
        let names = match &self.view {
            // A server outside of the view has no influence on its names.
            Some(view) => config.names().into_iter().filter(|name| view.sees(name)).collect(),
            None => config.names(),
        };
        let style = style(config, config.tool_names, &names);
        let servers = self.servers.iter().map(Arc::as_ref);
        Arc::new(catalog(servers, style, Arc::make_mut(&mut self.history)))
    }

    /// Makes the merged catalog.
    fn merge(&mut self, config: &Config) {
        let merged = self.merged(config);
        self.revisions.count(changed(&merged, &self.catalog));
        self.catalog = merged;
    }
}

impl Server {
    fn new(upstream: Arc<Upstream>) -> Self {
        Self {
            // The server may have connected before this snapshot was made.
            settled: !matches!(upstream.status().state, State::Connecting | State::Starting),
            offer: upstream.offer().or_else(|| upstream.declared()),
            is_heard: upstream.offer().is_some(),
            upstream,
            trust: Arc::default(),
            catalog: Arc::default(),
            revisions: Revisions::default(),
            durations: Arc::default(),
            login: None,
            view: None,
            pages: Arc::default(),
        }
    }

    /// Continues with the state of `before`, which has this name.
    fn follow(&mut self, before: &Self) {
        let is_same = Arc::ptr_eq(&self.upstream, &before.upstream);
        let (there, was_there) = (self.upstream.config(), before.upstream.config());
        if !self.is_heard && before.is_heard && there.enabled && there.target == was_there.target {
            (self.offer, self.is_heard) = (before.offer.clone(), true);
        }
        self.settled |= is_same && before.settled;
        self.login = before.login.clone().filter(|_| is_same);
        self.trust = Arc::clone(&before.trust);
        self.durations = Arc::clone(&before.durations);
        (self.catalog, self.revisions) = (Arc::clone(&before.catalog), before.revisions);
    }

    /// Makes its catalog from its offer, which comes after `before`.
    fn read_offer(&mut self, config: &Config, before: Option<&Offer>) {
        if let Some(offer) = &self.offer {
            self.trust = self.reviewed(config, offer, before);
        }
        let own = self.alone(config);
        self.revisions.count(changed(&own, &self.catalog));
        self.catalog = own;
    }

    /// The trusted definitions after a look at `offer`, which comes after `before`.
    fn reviewed(&self, config: &Config, offer: &Offer, before: Option<&Offer>) -> Arc<Trust> {
        let there = self.upstream.config();
        let holding = Holding { views: &config.views, server: &there.name };
        let reviewed = self.trust.reviewed(offer.trusted_definitions(), &there.tools, holding);
        let offered = before.into_iter().flat_map(Offer::trusted_definitions);
        Arc::new(reviewed.with_definitions(&self.trust, offered))
    }

    /// Returns the catalog of this server alone, under its own names.
    fn alone(&self, config: &Config) -> Arc<Catalog> {
        let (alone, mut history) = (HashSet::new(), History::default());
        let style = style(config, alone_mode(config), &alone);
        Arc::new(catalog(std::iter::once(self), style, &mut history))
    }

    /// The tools of `offer` that clients get.
    pub(in crate::manager) fn selection<'a>(&'a self, offer: &'a Offer) -> Selection<'a> {
        self.selection_for(offer, self.view.as_deref())
    }

    /// The tools of `offer` that clients of `view` get.
    pub(in crate::manager) fn selection_for<'a>(
        &'a self,
        offer: &'a Offer,
        view: Option<&'a View>,
    ) -> Selection<'a> {
        let config = self.upstream.config();
        Selection::of(&config.name, (&config.tools, &self.trust), view, &offer.tools)
    }

    /// Whether clients get the tool `name`, as the server declares it now.
    pub(in crate::manager) fn offers_tool(&self, name: &str) -> bool {
        self.offer.as_ref().is_some_and(|offer| {
            let found = offer.tools.iter().find(|tool| tool.name == name);
            found.is_some_and(|tool| self.selection(offer).offers(tool))
        })
    }

    /// Whether clients may get the tool `name`, which was never listed.
    fn may_offer_tool(&self, name: &str) -> bool {
        let config = self.upstream.config();
        let is_new = self.trust.is_new(name);
        let tool = ToolFacts { is_new, ..ToolFacts::of(Effect::Unsafe) };
        let target = Target { server: &config.name, kind: Kind::Tools, name, tool };
        view::offers(self.view.as_deref(), &config.tools, target)
    }

    /// Whether clients get a prompt, a resource, a template or a skill of this server.
    pub(in crate::manager) fn offers(&self, kind: Kind, name: &str) -> bool {
        let config = self.upstream.config();
        let target = selection::item(&config.name, kind, name, || self.pages.contains(name));
        view::offers(self.view.as_deref(), &config.tools, target)
    }
}

/// Returns the lists that differ.
fn changed(now: &Catalog, before: &Catalog) -> Lists {
    List::ALL.into_iter().filter(|list| !now.lists_the_same(before, *list)).collect()
}

/// How the tools of a server alone are named: by their own names, as far as clients accept them.
const fn alone_mode(config: &Config) -> ToolNames {
    match config.tool_names {
        ToolNames::Verbatim => ToolNames::Verbatim,
        ToolNames::Auto | ToolNames::Prefixed => ToolNames::Auto,
    }
}

/// Returns how to make a catalog in which the names of `servers` are reserved.
const fn style<'a>(config: &Config, mode: ToolNames, servers: &'a HashSet<Arc<str>>) -> Style<'a> {
    let rules = Rules { mode, max_length: config.max_tool_name_length, servers, keeps_dots: false };
    Style { rules, per_page: config.tools_per_page }
}

fn catalog<'a>(
    servers: impl Iterator<Item = &'a Server>,
    style: Style<'_>,
    history: &mut History,
) -> Catalog {
    let part = |server: &'a Server| {
        let there = server.upstream.config();
        let (choice, trust, view) = (&there.tools, &*server.trust, server.view.as_deref());
        let login = server.login.as_deref();
        let offer = server.offer.as_deref().or(login.map(LoginTool::nothing))?;
        let lists_login = server.lists_login();
        Some(Part { server: &there.name, choice, view, offer, trust, login, lists_login })
    };
    let parts: Vec<Part<'_>> = servers.filter_map(part).collect();
    Catalog::build(&parts, style, history)
}
