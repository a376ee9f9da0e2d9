//! Warnings about views for operators: rules that select nothing, arguments that do not fit, and texts that clients cut.
//!
//! Invariant: a rule is judged only when all servers that it may be about were read. Values of arguments are never shown.
//!
//! Not here: what is selected (`view`), and where a warning is shown.

use std::sync::Arc;

use super::catalog::CatalogEntry;
use super::snapshot::{Scope, Server, Snapshot};
use super::view::{RuleAt, View};
use protocol::feature::Kind;
use protocol::sanitize::shown;
use settings::nearest;

/// The most warnings about one view.
const MAX_WARNINGS: usize = 20;
/// The most names in one warning.
const MAX_NAMES: usize = 5;
/// The longest text in bytes that Claude Code does not cut.
const MAX_TEXT: usize = 2 * 1024;

/// Something in a view that an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ViewWarning {
    /// The view.
    pub view: Arc<str>,
    /// The mistake, with the setting.
    pub text: String,
}

impl Snapshot {
    /// The mistakes in the views, as far as their servers were read.
    pub fn view_warnings(&self) -> Vec<ViewWarning> {
        let of_view = |view: Arc<View>| {
            let changes = std::iter::once_with(|| self.changes_without_effect(&view)).flatten();
            let texts = view.rules().filter_map(|rule| self.unused(&rule)).chain(changes).take(MAX_WARNINGS);
            texts.map(|text| ViewWarning { view: Arc::clone(&view.name), text }).collect::<Vec<_>>()
        };
        self.all_views().into_iter().flat_map(of_view).collect()
    }

    /// Whether the views and the offers of servers are those of `before`, so that the mistakes are the same.
    pub(super) fn has_views_and_offers_of(&self, before: &Self) -> bool {
        let is_same = |(now, before): (&Arc<Server>, &Arc<Server>)| {
            let offers = (now.offer.as_ref().map(Arc::as_ptr), before.offer.as_ref().map(Arc::as_ptr));
            offers.0 == offers.1
                && now.is_heard == before.is_heard
                && now.upstream.config().name == before.upstream.config().name
        };
        let servers = (self.servers(), before.servers());
        servers.0.len() == servers.1.len()
            && servers.0.iter().zip(servers.1).all(is_same)
            && self.not_configured().len() == before.not_configured().len()
            && self.all_views() == before.all_views()
    }

    /// Why a rule selects nothing, if it certainly does not.
    fn unused(&self, rule: &RuleAt<'_>) -> Option<String> {
        let (key, text, line) = (rule.key, &rule.text, rule.line());
        let servers = || self.servers().iter().filter(|server| rule.is_about(&server.upstream.config().name));
        let wrong = self.not_configured().iter().any(|wrong| rule.is_about(&wrong.name));
        let place = format!("`{key}` has `{}` in line {line}", shown(text));
        if servers().next().is_none() && !wrong {
            return Some(format!("{place}, and there is no such server"));
        }
        let may_have = |server: &Arc<Server>| {
            is_unread(server) || keys(server).any(|(kind, key)| rule.matches(kind, key))
        };
        if wrong || rule.item().is_none() || servers().any(may_have) {
            return None;
        }
        let item = rule.item().filter(|item| !item.contains('*'));
        let near = item
            .and_then(|item| nearest(item, servers().flat_map(|server| keys(server).map(|(_, key)| key))));
        Some(format!("{place}, which matches nothing{}", or_near(near)))
    }

    /// The tools that the view changes and that are not there, or whose arguments do not fit.
    fn changes_without_effect(&self, view: &Arc<View>) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, tool, change) in view.changes() {
            let place = format!("`tools` has `{}/{}`", shown(name), shown(tool));
            let Ok(server) = self.server(name) else {
                if !self.not_configured().iter().any(|wrong| *wrong.name == *name) {
                    texts.push(format!("{place}, and there is no such server"));
                }
                continue;
            };
            let Some(offer) = server.offer.as_ref().filter(|_| !is_unread(server)) else { continue };
            let Some(found) = offer.tools.iter().find(|found| found.name == *tool) else {
                let near = nearest(tool, offer.tools.iter().map(|found| found.name.as_str()));
                texts.push(format!("{place}, and the server has no such tool{}", or_near(near)));
                continue;
            };
            texts.extend(
                change.arguments_for(found).err().map(|flaw| {
                    format!("{place}, which is left out because its arguments do not fit: {flaw}")
                }),
            );
        }
        texts
    }

    /// The instructions and descriptions that are so long that clients such as Claude Code cut them.
    pub fn long_texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut add = |place: String, text: &str| {
            if text.len() > MAX_TEXT {
                let most = "clients such as Claude Code cut what is longer than 2048";
                texts.push(format!("{place}: the instructions have {} bytes, and {most}", text.len()));
            }
        };
        add("/mcp".to_owned(), &self.instructions(&Scope::ALL));
        for server in self.servers() {
            let name = &server.upstream.config().name;
            add(format!("/mcp/{name}"), &self.instructions(&Scope::of_server(Arc::clone(name))));
        }
        for view in self.all_views() {
            add(format!("/mcp/{}", view.name), &self.through(&view.name).instructions(&Scope::ALL));
        }
        for server in self.servers() {
            let is_long = |entry: &&CatalogEntry| {
                entry.definition.text("description").is_some_and(|text| text.len() > MAX_TEXT)
            };
            let long: Vec<_> = server
                .catalog
                .all_tools()
                .iter()
                .filter(is_long)
                .map(|entry| shown(&entry.exposed))
                .collect();
            if !long.is_empty() {
                let more = long.len().saturating_sub(MAX_NAMES);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                texts.push(format!(
                    "{}: tools have descriptions of more than 2048 bytes, which clients such as Claude Code cut: {}{more}",
                    server.upstream.config().name,
                    long[..long.len().min(MAX_NAMES)].join(", ")
                ));
            }
        }
        texts
    }
}

/// Asks whether a similar name was meant.
fn or_near(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean `{}`?", shown(near))).unwrap_or_default()
}

/// Whether it is not known all that a server has.
pub(super) fn is_unread(server: &Server) -> bool {
    let config = server.upstream.config();
    !server.is_heard
        || config.is_per_principal()
        || server.offer.as_ref().is_none_or(|offer| offer.is_partial)
}

/// The names and URIs of all that a server has.
fn keys(server: &Server) -> impl Iterator<Item = (Kind, &str)> {
    server.offer.iter().flat_map(|offer| {
        let tools = offer.tools.iter().map(|tool| (Kind::Tools, tool.name.as_str()));
        let items =
            Kind::ALL.into_iter().flat_map(|kind| offer.items(kind).iter().map(move |item| (kind, item)));
        tools.chain(items.map(|(kind, item)| (kind, item.key.as_str())))
    })
}
