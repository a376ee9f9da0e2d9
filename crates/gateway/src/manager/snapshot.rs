//! What is true at one moment: the servers, their last known offers, and the catalogs made of them.
//!
//! Immutable. The registry publishes a new one whenever an offer changes; every call works on the
//! one it took at its start. Not here: how it comes about (`registry`).

mod history;
mod own;
mod startup;
mod unknown;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::STARTUP_GRACE;
use super::catalog::{Catalog, History, LinkBudget, Lookup, Part, Place, Places, Resources, Route, Style};
use super::config::{Config, ToolNames};
use super::error::{Error, Named};
use super::naming::Rules;
use super::trust::{Approval, Trust};
use crate::manager::routed_request::RoutedRequest;
use protocol::Reply;
use protocol::feature::{List, Lists};
use runtime::telemetry::durations::{Durations, Outcome};
use upstream::config::OnChange;
use upstream::{Delivery, Offer, State, Upstream};

/// Which servers a client sees: all of them merged, or one alone under its own names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The merged catalog.
    All,
    /// One server, verbatim.
    Server(Arc<str>),
}

/// One server with what it last offered.
#[derive(Clone)]
pub struct Server {
    /// How it is called.
    pub upstream: Arc<Upstream>,
    /// Its last offer. Until it was reached for the first time, this is what it declares without that, if anything.
    pub offer: Option<Arc<Offer>>,
    /// Whether it was reached, so that `offer` is its own list.
    pub is_heard: bool,
    /// Which definitions of its tools are trusted.
    pub trust: Arc<Trust>,
    /// What it has alone, under its own names.
    pub catalog: Arc<Catalog>,
    /// Counts the changes of what it lists.
    pub revisions: Revisions,
    /// Whether its first attempt to connect has ended, well or badly.
    pub settled: bool,
    /// How long calls of it took, those of its predecessors of the same name among them.
    pub durations: Arc<Durations>,
}

/// How often each list has changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Revisions([u64; List::ALL.len()]);

impl Revisions {
    /// How often `list` has.
    pub const fn of(&self, list: List) -> u64 {
        self.0[list as usize]
    }

    /// Notes what `list` is in `others`.
    pub const fn note(&mut self, list: List, others: Self) {
        self.0[list as usize] = others.0[list as usize];
    }

    fn count(&mut self, changed: Lists) {
        changed.iter().for_each(|list| self.0[list as usize] += 1);
    }
}

/// The servers and the catalogs of one moment.
#[derive(Clone)]
pub struct Snapshot {
    servers: Vec<Server>,
    by_name: HashMap<Arc<str>, usize>,
    catalog: Arc<Catalog>,
    /// Which server has had each name.
    history: Arc<History>,
    revisions: Revisions,
    started: Instant,
    /// Whether all servers of an earlier configuration were settled once.
    was_settled: bool,
}

impl Snapshot {
    /// A snapshot of servers nothing is known of yet.
    pub(super) fn new(upstreams: Vec<Arc<Upstream>>) -> Self {
        let by_name = upstreams.iter().enumerate().map(|(i, u)| (u.config().name.clone(), i)).collect();
        Self {
            servers: upstreams.into_iter().map(Server::new).collect(),
            by_name,
            catalog: Arc::default(),
            history: Arc::default(),
            revisions: Revisions::default(),
            started: Instant::now(),
            was_settled: false,
        }
    }

    /// When the servers became these.
    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    /// The servers, in the order of the registry file.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server called `name`.
    pub fn server(&self, name: &str) -> Result<&Server, Error> {
        self.server_called(name).ok_or_else(|| {
            Error::server_not_found(name, self.servers.iter().map(|s| s.upstream.config().name.as_ref()))
        })
    }

    /// The catalog a scope sees.
    pub fn catalog(&self, scope: &Scope) -> Result<&Arc<Catalog>, Error> {
        match scope {
            Scope::All => Ok(&self.catalog),
            Scope::Server(name) => self.server(name).map(|server| &server.catalog),
        }
    }

    /// How often the lists that a scope sees have changed, or were said to have.
    pub fn revisions(&self, scope: &Scope) -> Revisions {
        match scope {
            Scope::All => self.revisions,
            Scope::Server(name) => self.server(name).map(|server| server.revisions).unwrap_or_default(),
        }
    }

    /// Whether every server's first attempt to connect has ended.
    pub fn is_settled(&self, scope: &Scope) -> bool {
        match scope {
            Scope::All => self.servers.iter().all(|server| server.settled),
            Scope::Server(name) => self.server(name).is_ok_and(|server| server.settled),
        }
    }

    /// Whether that was so once, of these servers or of those before a reload: then the gateway as a whole is
    /// in use, and a server that is new does not change that. Nor does one that hangs in its first attempt, after the
    /// time that anybody waits for it.
    pub fn has_started(&self) -> bool {
        self.was_settled || self.is_settled(&Scope::All) || self.started.elapsed() >= STARTUP_GRACE
    }

    /// Whether a server that a scope sees declares the capability `name`.
    pub fn offers(&self, scope: &Scope, name: &str) -> bool {
        let has = |server: &Server| server.offer.as_ref().is_some_and(|offer| offer.peer.offers(name));
        self.servers_in(scope).iter().any(has)
    }

    /// Whether a server that a scope sees has not said yet what it has: it may turn out to have anything.
    pub fn has_unheard(&self, scope: &Scope) -> bool {
        let is_unheard = |server: &Server| !server.is_heard && server.upstream.config().enabled;
        self.servers_in(scope).iter().any(is_unheard)
    }

    /// Who owns the tool or the prompt `name` in a scope.
    pub fn route(&self, scope: &Scope, kind: Named, name: &str) -> Result<Arc<Route>, Error> {
        let catalog = self.catalog(scope)?;
        let lookup = match kind {
            Named::Tool => catalog.tool(name),
            Named::Prompt => catalog.prompt(name),
        };
        match lookup {
            Lookup::Found(route) => Ok(route.clone()),
            Lookup::Held(held) => Err(held.change.refusal(&held.server)),
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

    /// Where `uri` leads in a scope. One server alone is asked for whatever it may have.
    pub(super) fn places(&self, scope: &Scope, uri: &str) -> Result<Places, Error> {
        self.places_in(scope, uri, |resources| resources.places(uri))
    }

    /// The same for a template, or a URI, that is completed.
    pub(super) fn template_places(&self, scope: &Scope, uri: &str) -> Result<Places, Error> {
        self.places_in(scope, uri, |resources| resources.template(uri))
    }

    fn places_in(
        &self,
        scope: &Scope,
        uri: &str,
        look: impl FnOnce(&Resources) -> Places,
    ) -> Result<Places, Error> {
        match scope {
            Scope::All => match look(self.catalog.resources()) {
                // It names a server that may have it, so no other one is asked.
                guessed if guessed.are_guessed() => self.away_behind(uri).map_or(Ok(guessed), Err),
                known => Ok(known),
            },
            Scope::Server(name) => {
                let server = self.server(name)?.upstream.config().name.clone();
                Ok(Places::Listed(Place { server, uri: uri.to_owned() }))
            }
        }
    }

    /// Whether servers of a scope can have the same URI, so that [`Snapshot::exposed_uri`] may say
    /// something.
    pub fn can_clash(&self, scope: &Scope) -> bool {
        *scope == Scope::All && self.catalog.resources().can_clash()
    }

    /// The URI under which a scope reaches what `server` calls `uri`, where that is another one.
    /// The links of one message share `budget`.
    pub fn exposed_uri(
        &self,
        scope: &Scope,
        (server, uri): (&str, &str),
        budget: &mut LinkBudget,
    ) -> Option<String> {
        match scope {
            Scope::All => self.catalog.resources().exposed(server, uri, budget),
            Scope::Server(_) => None,
        }
    }

    /// The same servers after one of them settled or offered something new; with an offer come the
    /// lists that count as changed whatever they say.
    pub(super) fn updated(&self, config: &Config, name: &str, offer: Option<(Arc<Offer>, Lists)>) -> Self {
        let mut next = self.clone();
        let Some(&index) = self.by_name.get(name) else { return next };
        let server = &mut next.servers[index];
        server.settled = true;
        let Some((offer, announced)) = offer else { return next };
        (server.offer, server.is_heard) = (Some(offer), true);
        server.read_offer(config, announced);
        next.merge(config, announced);
        next
    }

    /// The same after an operator approved definitions of `server`.
    pub(super) fn approved(
        &self,
        config: &Config,
        server: &str,
        approval: Approval<'_>,
    ) -> Result<Self, Error> {
        let there = self.server(server)?;
        let tools = there.offer.as_ref().map(|offer| offer.tools.as_slice()).unwrap_or_default();
        let trust = there.trust.approved(approval, &there.upstream.config().name, tools)?;
        let mut next = self.clone();
        next.release_names(server, approval.tool);
        let server = &mut next.servers[self.by_name[server]];
        server.trust = Arc::new(trust);
        server.read_offer(config, Lists::default());
        next.merge(config, Lists::default());
        Ok(next)
    }

    /// These servers from now on, with what is known of those that were there already.
    pub(super) fn applied(&self, config: &Config, upstreams: Vec<Arc<Upstream>>) -> Self {
        let mut next = Self { was_settled: self.has_started(), ..Self::new(upstreams) };
        for server in &mut next.servers {
            if let Ok(before) = self.server(&server.upstream.config().name) {
                server.follow(before);
            }
            server.read_offer(config, Lists::default());
        }
        (next.catalog, next.revisions) = (Arc::clone(&self.catalog), self.revisions);
        next.history = Arc::new(self.kept_history(config));
        next.merge(config, Lists::default());
        next
    }

    /// Makes the catalog of all; `announced` counts as changed whatever it says.
    fn merge(&mut self, config: &Config, announced: Lists) {
        let servers = config.servers.iter().map(|server| Arc::clone(&server.name)).collect();
        let style = style(config, config.tool_names, &servers);
        let merged = catalog(self.servers.iter(), style, Arc::make_mut(&mut self.history));
        let merged = Arc::new(merged);
        self.revisions.count(announced.and(changed(&merged, &self.catalog)));
        self.catalog = merged;
    }
}

impl Server {
    fn new(upstream: Arc<Upstream>) -> Self {
        Self {
            // It may have been quicker than whoever wants to know.
            settled: upstream.status().state != State::Connecting,
            offer: upstream.offer().or_else(|| upstream.declared()),
            is_heard: upstream.offer().is_some(),
            upstream,
            trust: Arc::default(),
            catalog: Arc::default(),
            revisions: Revisions::default(),
            durations: Arc::default(),
        }
    }

    /// A request of a client came to `result`, which took `elapsed`. Without a reply it is still arriving.
    pub(super) fn ended(&self, result: Result<Option<&Reply>, &upstream::Error>, elapsed: Duration) {
        let outcome = match result {
            Ok(Some(Err(_))) => Outcome::RpcError,
            Ok(_) => Outcome::Result,
            Err(error) if error.delivery() == Delivery::Refused => Outcome::Refused,
            Err(_) => Outcome::Failed,
        };
        self.durations.ended(outcome, elapsed);
    }

    /// Whether `request` is allowed. A tool that was routed before a reload, or before the server changed it, may
    /// be denied by now.
    pub(super) fn check_policy(&self, request: &RoutedRequest) -> Result<(), Error> {
        let config = self.upstream.config();
        match request.tool() {
            Some(tool) if !config.tools.let_through(tool) => {
                let names = self.catalog.tools().iter().map(|entry| entry.exposed.as_str());
                Err(Error::name_not_found(Named::Tool, tool, Some(&config.name), names))
            }
            Some(tool) if config.tools.on_change == OnChange::Block => {
                let held = self.trust.held(tool);
                held.map_or(Ok(()), |change| Err(change.refusal(&config.name)))
            }
            _ => Ok(()),
        }
    }

    /// Goes on where `before` stood, which has the same name.
    fn follow(&mut self, before: &Self) {
        let is_same = Arc::ptr_eq(&self.upstream, &before.upstream);
        let (there, was_there) = (self.upstream.config(), before.upstream.config());
        if !self.is_heard && before.is_heard && there.enabled && there.target == was_there.target {
            (self.offer, self.is_heard) = (before.offer.clone(), true);
        }
        self.settled |= is_same && before.settled;
        self.trust = Arc::clone(&before.trust);
        self.durations = Arc::clone(&before.durations);
        (self.catalog, self.revisions) = (Arc::clone(&before.catalog), before.revisions);
    }

    /// Makes its catalog of its offer; `announced` counts as changed whatever it says.
    fn read_offer(&mut self, config: &Config, announced: Lists) {
        if let Some(offer) = &self.offer {
            self.trust = Arc::new(self.trust.reviewed(&offer.tools, &self.upstream.config().tools));
        }
        let (alone, mut history) = (HashSet::new(), History::default());
        let style = style(config, ToolNames::Verbatim, &alone);
        let own = Arc::new(catalog(std::iter::once(&*self), style, &mut history));
        self.revisions.count(announced.and(changed(&own, &self.catalog)));
        self.catalog = own;
    }
}

/// The lists that are not the same in both.
fn changed(now: &Catalog, before: &Catalog) -> Lists {
    List::ALL.into_iter().filter(|list| !now.lists_the_same(before, *list)).collect()
}

/// How a catalog is made in which the names of `servers` are reserved.
const fn style<'a>(config: &Config, mode: ToolNames, servers: &'a HashSet<Arc<str>>) -> Style<'a> {
    let rules = Rules { mode, max_length: config.max_tool_name_length, servers };
    Style { rules, per_page: config.tools_per_page }
}

fn catalog<'a>(
    servers: impl Iterator<Item = &'a Server>,
    style: Style<'_>,
    history: &mut History,
) -> Catalog {
    let part = |server: &'a Server| {
        let there = server.upstream.config();
        let (choice, trust) = (&there.tools, &*server.trust);
        Some(Part { server: &there.name, choice, offer: server.offer.as_ref()?, trust })
    };
    let parts: Vec<Part<'_>> = servers.filter_map(part).collect();
    Catalog::build(&parts, style, history)
}
