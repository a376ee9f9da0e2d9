//! Why clients get a tool or do not: for operators, who may know of everything.
//!
//! Not here: the decision itself (`view`), and the errors that clients read (`error`).

use std::sync::Arc;

use super::catalog::{CatalogEntry, Lookup};
use super::error::Error;
use super::limits::Limit;
use super::selection::Selection;
use super::snapshot::{Server, Snapshot};
use super::view::Decision;
use super::{Manager, Scope, naming};
use protocol::feature::Tool;
use upstream::config::OnChange;
use upstream::{State, breaker};

/// The most tools that one answer explains.
const MAX_EXPLAINED: usize = 20;

/// Why clients get one tool of a server or do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The server.
    pub server: Arc<str>,
    /// The name of the tool at the server.
    pub tool: String,
    /// The name under which clients get it; none if they do not.
    pub listed_as: Option<String>,
    /// The rule that decided.
    pub decision: Decision,
    /// Whether it is new or its definition changed, and an operator has to approve it first.
    pub is_held: bool,
    /// The tools of others with its name, if there are some.
    pub clash: Option<Clash>,
    /// The state of the server.
    pub state: State,
    /// The state of the circuit breaker of the server.
    pub breaker: breaker::State,
    /// The remedy: how clients get it, or can call it.
    pub advice: Option<String>,
    /// The limits of callers that count calls of it.
    pub limits: Vec<Arc<Limit>>,
}

/// A name that several tools have, so that not each of them is offered under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The name.
    pub name: String,
    /// The names under which clients get the other tools, at most 20.
    pub others: Vec<String>,
    /// The server that had the name before, if only this one has it now.
    pub owner: Option<Arc<str>>,
}

impl Manager {
    /// Explains the tools that `name` means: towards clients of `view`, towards all, or at a server, also as
    /// `server/name`. An error if no server offers one.
    pub fn why(&self, view: Option<&str>, name: &str) -> Result<Vec<Explanation>, Error> {
        let shared = self.snapshot();
        let known = |view: &str| shared.view_called(view).ok_or_else(|| shared.no_view(view));
        let seen = match view.map(known).transpose()? {
            Some(view) => shared.through(&view),
            None => Arc::clone(&shared),
        };
        let view = seen.view();
        let explained = shared.servers().iter().flat_map(|server| {
            let Some(offer) = &server.offer else { return Vec::new() };
            let selection = server.selection_for(offer, view.map(AsRef::as_ref));
            let there = &server.upstream.config().name;
            let explained = tools_at(&shared, &seen, server, name).into_iter().map(|tool| Explanation {
                limits: self.limits.about(view.map(|view| &view.name), there, &tool.name),
                ..explanation(&seen, server, (&selection, tool))
            });
            explained.collect()
        });
        let explained: Vec<Explanation> = explained.take(MAX_EXPLAINED).collect();
        if explained.is_empty() {
            // Says what is near, and which servers were not reached yet.
            return Err(shared.unknown_tool(name));
        }
        Ok(explained)
    }
}

/// The tools of `server` that `name` means.
fn tools_at<'a>(shared: &Snapshot, seen: &Snapshot, server: &'a Server, name: &str) -> Vec<&'a Tool> {
    let config = server.upstream.config();
    let means = |entry: &&CatalogEntry| entry.exposed == name && entry.route.server == config.name;
    let listed = [shared, seen].map(|snapshot| snapshot.listed_tools().iter().find(means));
    let (qualified, slashed) = (
        naming::qualifier(name, |other| (*config.name == *other).then_some(())),
        name.split_once('/').filter(|(other, _)| *config.name == **other),
    );
    let is_meant = |own: &str| {
        own == name
            || config.tools.rename.get(own).is_some_and(|shown| shown == name)
            || listed.iter().flatten().any(|entry| *entry.route.subject == *own)
            || qualified.as_ref().is_some_and(|((), rest)| *rest == own)
            || slashed.is_some_and(|(_, rest)| rest == own)
    };
    let tools = server.offer.iter().flat_map(|offer| &offer.tools);
    tools.filter(|tool| is_meant(&tool.name)).collect()
}

fn explanation(seen: &Snapshot, server: &Server, (selection, tool): (&Selection<'_>, &Tool)) -> Explanation {
    let (config, status) = (server.upstream.config(), server.upstream.status());
    let decision = selection.decide(tool);
    let is_held_in_view = decision.setting.as_deref().is_some_and(|setting| setting.ends_with(".new_tools"));
    let is_blocked = config.tools.on_change == OnChange::Block && server.trust.held(&tool.name).is_some();
    let is_it =
        |entry: &&CatalogEntry| entry.route.server == config.name && *entry.route.subject == *tool.name;
    let listed_as = seen.listed_tools().iter().find(is_it).map(|entry| entry.exposed.clone());
    let breaker = status.breaker.state;
    let own = &*tool.name;
    let clash = Some(seen).filter(|_| decision.is_offered).and_then(|seen| clash(seen, server, own));
    let flaw = || selection.change(tool).and_then(|change| change.arguments_for(tool).err());
    let advice = match (&decision, listed_as.is_some()) {
        _ if is_held_in_view || decision.is_offered && is_blocked => Some(format!(
            "look at it and approve it: `switchyard approve {}`, or POST /api/v1/mcp/servers/{}/tools/approve",
            config.name, config.name
        )),
        (Decision { is_offered: false, .. }, _) => {
            let setting = decision.setting.as_deref().unwrap_or_default();
            let is_by = |keys: &[&str]| {
                setting.starts_with("views.") && keys.iter().any(|key| setting.ends_with(key))
            };
            Some(match flaw().filter(|_| is_by(&[".tools"])) {
                Some(flaw) => format!("the arguments that the view gives it do not fit: {flaw}"),
                None if tool.ui.is_app_only && is_by(&[".allow", ".servers"]) => {
                    "only apps call it, and the view has no tool that shows its app".to_owned()
                }
                None => change_of(&decision, &config.name, own),
            })
        }
        (_, false) => Some(format!("another tool of {} has this name: see `tools.rename`", config.name)),
        _ if breaker == breaker::State::Open => Some(format!(
            "the server fails: see `last_error` of {}, or reset its circuit breaker",
            config.name
        )),
        _ if !status.is_healthy() => {
            Some(format!("the server is {}: see its `last_error`", status.state.as_str()))
        }
        _ if tool.ui.is_app_only => Some("only clients that show apps list it; its app calls it".to_owned()),
        _ => clash.as_ref().map(|_| {
            let of_view = seen.view().map(|view| {
                format!(", or `name` of `{}/{own}` below `views.{}.tools`", config.name, view.name)
            });
            let of_view = of_view.unwrap_or_default();
            format!("to give it another name, set `mcp_servers.{}.tools.rename`{of_view}", config.name)
        }),
    };
    let (server, is_held) = (Arc::clone(&config.name), is_held_in_view || is_blocked);
    let (tool, state, limits) = (tool.name.clone(), status.state, Vec::new());
    Explanation { server, tool, listed_as, decision, is_held, clash, state, breaker, advice, limits }
}

/// The change of the configuration file with which clients get the tool `own` of `server`, which `decision` hides.
fn change_of(decision: &Decision, server: &str, own: &str) -> String {
    let setting = decision.setting.as_deref().unwrap_or_default();
    let (of, key) = setting.rsplit_once('.').unwrap_or_default();
    let is_of_view = setting.starts_with("views.");
    let change = match (key, &decision.rule) {
        ("deny", Some(rule)) => format!("remove or narrow `{rule}` in `{setting}`"),
        ("allow", _) if is_of_view => format!("add `{server}/{own}` to `{setting}`"),
        ("allow", _) => format!("add `{own}` to `{setting}`"),
        ("servers", _) => format!("add `{server}` to `{setting}`"),
        ("read_only", _) => format!(
            "if it changes nothing, write `read_only: true` for `{server}/{own}` below `{of}.tools`, or else remove `{setting}`"
        ),
        _ => format!("change `{setting}`"),
    };
    format!("{change} in the configuration file, and reload")
}

/// The other tools that would have the name of the tool `own` of `server`.
fn clash(seen: &Snapshot, server: &Server, own: &str) -> Option<Clash> {
    let config = server.upstream.config();
    let of_view = seen.view().and_then(|view| view.change(&config.name, own)?.name());
    let name = of_view.or_else(|| config.tools.rename.get(own)).map_or(own, String::as_str);
    let catalog = seen.catalog(&Scope::ALL).ok()?;
    let is_own = |server: &str, tool: &str| *config.name == *server && own == tool;
    let is_other = |exposed: &&String| {
        let is_it = |entry: &&CatalogEntry| entry.exposed == **exposed;
        seen.listed_tools().iter().find(is_it).is_none_or(|it| !is_own(&it.route.server, &it.route.subject))
    };
    let (others, owner) = match catalog.tool(name) {
        Lookup::Ambiguous(names) => {
            (names.iter().filter(is_other).take(MAX_EXPLAINED).cloned().collect(), None)
        }
        Lookup::Found(route) if !is_own(&route.server, &route.subject) => (vec![name.to_owned()], None),
        Lookup::Blocked(held) if !is_own(&held.server, &held.change.tool) => {
            (vec![format!("{}/{}", held.server, held.change.tool)], None)
        }
        Lookup::Moved(moved) => (Vec::new(), Some(Arc::clone(moved.owner))),
        Lookup::Found(_) | Lookup::Blocked(_) | Lookup::Unknown => return None,
    };
    Some(Clash { name: name.to_owned(), others, owner })
}

impl Snapshot {
    /// The tools of the merged catalog.
    fn listed_tools(&self) -> &[CatalogEntry] {
        self.catalog(&Scope::ALL).map(|catalog| catalog.all_tools()).unwrap_or_default()
    }

    fn unknown_tool(&self, name: &str) -> Error {
        let lookup = self.route(&Scope::ALL, super::ItemKind::Tool, name);
        lookup
            .err()
            .unwrap_or_else(|| Error::name_not_found(super::ItemKind::Tool, name, None, std::iter::empty()))
    }
}
