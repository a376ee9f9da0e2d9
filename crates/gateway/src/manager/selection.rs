//! The items of one server as clients of a view get them, and the facts that decide about each tool.
//!
//! Invariant: every surface asks here about a tool, so that lists, calls and explanations have the same answer.
//!
//! Not here: the decision (`view`).

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use super::tool_change::ToolChange;
use super::trust::Trust;
use super::view::{AppTool, Decision, Target, ToolFacts, View, decide, offers};
use protocol::feature::{Effect, Kind, Tool};
use upstream::config::Tools;

/// How the URIs of resources begin that show results of tools (MCP Apps).
const PAGES: &str = "ui://";

/// The items of one server, seen through a view or without one.
pub(super) struct Selection<'a> {
    server: &'a Arc<str>,
    choice: &'a Tools,
    trust: &'a Trust,
    view: Option<&'a View>,
    tools: &'a [Tool],
    /// The resources that show the results of tools in the view, once they are needed.
    apps: OnceCell<HashSet<&'a str>>,
}

impl<'a> Selection<'a> {
    /// The selection among `tools` of `server`.
    pub(super) fn of(
        server: &'a Arc<str>,
        (choice, trust): (&'a Tools, &'a Trust),
        view: Option<&'a View>,
        tools: &'a [Tool],
    ) -> Self {
        Self { server, choice, trust, view, tools, apps: OnceCell::new() }
    }

    /// The decision about `tool`, with the rule.
    pub(super) fn decide(&self, tool: &Tool) -> Decision {
        decide(self.view, self.choice, self.target(tool))
    }

    /// Whether clients get `tool`.
    pub(super) fn offers(&self, tool: &Tool) -> bool {
        offers(self.view, self.choice, self.target(tool))
    }

    /// Whether clients get a prompt, a resource, a template or a skill. They get the resource that shows the results of a
    /// tool with the tool.
    pub(super) fn offers_item(&self, kind: Kind, name: &str) -> bool {
        offers(self.view, self.choice, self.item(kind, name))
    }

    /// The resources that show results of tools that clients of the view get.
    pub(super) fn pages(&self) -> HashSet<String> {
        self.apps().iter().map(|page| (*page).to_owned()).collect()
    }

    /// A prompt, a resource, a template or a skill as the decision sees it.
    pub(super) fn item<'t>(&'t self, kind: Kind, name: &'t str) -> Target<'t> {
        item(self.server, kind, name, || self.view.is_some() && self.apps().contains(name))
    }

    /// The effect of `tool`, as the operator or else its server declares it.
    pub(super) fn effect(&self, tool: &Tool) -> Effect {
        self.view.map_or(tool.effect, |view| view.effect(self.server, tool))
    }

    /// The changes of `tool` by the view.
    pub(super) fn change(&self, tool: &Tool) -> Option<&'a ToolChange> {
        self.view?.change(self.server, &tool.name)
    }

    /// A tool as the decision sees it.
    pub(super) fn target<'t>(&'t self, tool: &'t Tool) -> Target<'t> {
        let tool_facts = ToolFacts {
            effect: self.effect(tool),
            is_new: self.view.is_some_and(View::holds_new_tools) && self.trust.is_new(&tool.name),
            app: self.app(tool),
            is_unfit: self.change(tool).is_some_and(|change| change.arguments_for(tool).is_err()),
        };
        Target { server: self.server, kind: Kind::Tools, name: &tool.name, tool: tool_facts }
    }

    fn apps(&self) -> &HashSet<&'a str> {
        self.apps.get_or_init(|| {
            let shows = |tool: &&Tool| {
                let is_shown = !tool.ui.is_app_only && tool.ui.resource.is_some();
                is_shown && self.trust.held(&tool.name).is_none() && self.offers(tool)
            };
            self.tools.iter().filter(shows).filter_map(|tool| tool.ui.resource.as_deref()).collect()
        })
    }

    /// An app calls tools of its own server. A tool with a resource belongs to the app of that resource, and one without to
    /// all apps of the server.
    fn app(&self, tool: &Tool) -> AppTool {
        if self.view.is_none() || !tool.ui.is_app_only {
            return AppTool::No;
        }
        let is_shown = match &tool.ui.resource {
            Some(resource) => self.apps().contains(resource.as_str()),
            None => !self.apps().is_empty(),
        };
        if is_shown { AppTool::Shown } else { AppTool::Hidden }
    }
}

/// An item of `server` beside its tools, as the decision sees it. `is_shown` says whether it shows results of a tool that
/// clients of the view get; it is asked about pages alone.
pub(super) fn item<'t>(
    server: &'t str,
    kind: Kind,
    name: &'t str,
    is_shown: impl FnOnce() -> bool,
) -> Target<'t> {
    let is_page = kind == Kind::Resources && name.starts_with(PAGES);
    let app = if is_page && is_shown() { AppTool::Shown } else { AppTool::No };
    Target { server, kind, name, tool: ToolFacts { app, ..ToolFacts::of(Effect::ReadOnly) } }
}
