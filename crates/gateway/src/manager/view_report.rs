//! Reports on views for operators: servers and their items, rules, and the tools that a view changes.
//!
//! Invariant: items are counted in the snapshot of the view, which its clients see. Nothing is kept between two requests.
//!
//! Not here: what a view admits (`view`), and who has which view (`auth`).

use std::collections::HashMap;
use std::sync::Arc;

use super::catalog::CatalogEntry;
use super::error::Error;
use super::snapshot::{Server, Snapshot};
use super::tool_change::ToolChange;
use super::view::{RuleUse, Tally, View};
use super::view_warnings::is_unread;
use super::{Manager, Scope};
use json::Raw;
use protocol::feature::{Kind, Tool};
use runtime::worker::WorkBudget;

/// The state of a view: its items, its rules and its changes.
#[derive(Debug, Clone)]
pub struct ViewReport {
    /// The view itself.
    pub view: Arc<View>,
    /// The servers that its clients see, in the order of the file.
    pub servers: Vec<ServerShare>,
    /// Its rules in the order of the file, then the settings that decide without a rule.
    pub rules: Vec<RuleUse>,
    /// The tools that it changes.
    pub changes: Vec<ChangedByView>,
    /// Its tools that wait for an approval, as `server/name`.
    pub held: Vec<String>,
}

/// The items of one server in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerShare {
    /// The server.
    pub server: Arc<str>,
    /// Its tools.
    pub tools: usize,
    /// Its resources.
    pub resources: usize,
    /// Its resource templates.
    pub templates: usize,
    /// Its prompts.
    pub prompts: usize,
}

/// A tool below `tools` of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedByView {
    /// The server.
    pub server: String,
    /// The name of the tool there.
    pub tool: String,
    /// The name under which clients get it; none if they do not.
    pub listed_as: Option<String>,
    /// The members of its definition that clients get otherwise than the server sent them.
    pub members: Vec<String>,
    /// Whether its server has no tool of that name.
    pub is_idle: bool,
}

impl Manager {
    /// Reports on all views, by their names.
    pub async fn view_reports(&self) -> Vec<ViewReport> {
        let shared = self.snapshot();
        let (mut names, mut reports) = (shared.views(), Vec::new());
        names.sort();
        for name in names {
            reports.extend(report(&shared, &name).await);
        }
        reports
    }

    /// Reports on the view `name`.
    pub async fn view_report(&self, name: &str) -> Result<ViewReport, Error> {
        report(&self.snapshot(), name).await.ok_or_else(|| Error::view_not_found(name))
    }
}

async fn report(shared: &Snapshot, name: &str) -> Option<ViewReport> {
    let seen = shared.through(name);
    let view = Arc::clone(seen.view()?);
    let (rules, mut held) = rules(shared, &view).await;
    let tools = seen.catalog(&Scope::ALL).map(|catalog| catalog.all_tools()).unwrap_or_default();
    let listed: HashMap<(&str, &str), &CatalogEntry> =
        tools.iter().map(|entry| ((&*entry.route.server, &*entry.route.subject), entry)).collect();
    let change = |(server, tool, _): (&str, &str, &ToolChange)| {
        let there = shared.server(server).ok().and_then(|server| server.offer.as_deref());
        let own = there.and_then(|offer| offer.tools.iter().find(|own| own.name == tool));
        let entry = listed.get(&(server, tool));
        ChangedByView {
            server: server.to_owned(),
            tool: tool.to_owned(),
            listed_as: entry.map(|entry| entry.exposed.clone()),
            members: entry.zip(own).map(|(entry, own)| changed_members(entry, own)).unwrap_or_default(),
            is_idle: there.is_some() && own.is_none(),
        }
    };
    let changes = view.changes().map(change).collect();
    held.extend(seen.catalog(&Scope::ALL).iter().flat_map(|catalog| catalog.held_tools()));
    Some(ViewReport { servers: shares(&seen), rules, changes, held, view })
}

/// The uses of the rules of `view`, and the new tools that it holds, as `server/name`.
async fn rules(shared: &Snapshot, view: &View) -> (Vec<RuleUse>, Vec<String>) {
    let (mut tally, mut held, mut work) = (Tally::of(view), Vec::new(), WorkBudget::new());
    for server in shared.servers() {
        let config = server.upstream.config();
        if is_unread(server) {
            tally.miss(&config.name);
        }
        let Some(offer) = &server.offer else { continue };
        let selection = server.selection_for(offer, Some(view));
        for tool in &offer.tools {
            let target = selection.target(tool);
            let is_held = tally.count(&config.tools, target);
            held.extend(is_held.then(|| format!("{}/{}", config.name, tool.name)));
            work.charge(tool.name.len());
            work.yield_if_spent().await;
        }
        for kind in Kind::ALL {
            for item in offer.items(kind) {
                tally.count(&config.tools, selection.item(kind, &item.key));
                work.charge(item.key.len());
                work.yield_if_spent().await;
            }
        }
    }
    shared.not_configured().iter().for_each(|wrong| tally.miss(&wrong.name));
    (tally.finish(), held)
}

fn shares(seen: &Snapshot) -> Vec<ServerShare> {
    let Ok(catalog) = seen.catalog(&Scope::ALL) else { return Vec::new() };
    let counts = |kind: Kind| {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for entry in catalog.listing(kind).entries() {
            *counts.entry(&*entry.route.server).or_default() += 1;
        }
        counts
    };
    let [tools, resources, templates, prompts] =
        [Kind::Tools, Kind::Resources, Kind::Templates, Kind::Prompts].map(counts);
    let share = |server: &Arc<Server>| {
        let server = Arc::clone(&server.upstream.config().name);
        let of = |counts: &HashMap<&str, usize>| counts.get(&*server).copied().unwrap_or_default();
        ServerShare {
            tools: of(&tools),
            resources: of(&resources),
            templates: of(&templates),
            prompts: of(&prompts),
            server,
        }
    };
    seen.servers().iter().map(share).collect()
}

/// The members in which the definition of `entry` differs from that of its server, by their names.
fn changed_members(entry: &CatalogEntry, own: &Tool) -> Vec<String> {
    let members = |definition: &Raw| {
        definition.members().map(|(name, value)| (name.into_owned(), value)).collect::<HashMap<_, _>>()
    };
    let (now, before) = (members(&entry.definition), members(&own.definition));
    let is_same = |name: &String| {
        now.get(name).map(|value| value.bytes().clone())
            == before.get(name).map(|value| value.bytes().clone())
    };
    let mut changed: Vec<String> =
        now.keys().chain(before.keys()).filter(|name| !is_same(name)).cloned().collect();
    changed.sort();
    changed.dedup();
    changed
}
