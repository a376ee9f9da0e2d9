//! Views: named selections of servers and of what they offer (`views`), and the decision what of a server is offered.
//!
//! Invariants: [`decide`] is the only decision. A snapshot for a view has only what it admits. So a list, a lookup of a
//! name, a hint and a notification cannot differ, and hidden things are like things that do not exist. Rules know the names
//! of the servers, not those towards clients. Something that no rule selects is hidden, also if it appears later.
//!
//! Not here: who has which view (`auth`, and [`super::Manager::reach`]), the snapshot for a view (`snapshot::projected`).

mod report;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

pub use report::RuleUse;
pub(super) use report::Tally;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::Url;

use super::tool_change::ToolChange;
use json::Raw;
use protocol::feature::{Effect, Kind, Tool};
use settings::{FromSetting, Setting, settings, words};
use upstream::config::{Tools, is_match};

/// The longest name of a view, in bytes.
const MAX_NAME: usize = 64;
/// The longest instructions of a view, in bytes. Claude Code cuts what is longer.
const MAX_INSTRUCTIONS: usize = 2 * 1024;

words! {
    /// The treatment of a tool that its server did not have before.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(super) enum NewTools {
        /// It is in the view if the rules select it.
        #[default]
        Offered = "offered",
        /// It is not in the view until an operator approves it, unless `allow` has its name.
        Held = "held",
    }
}

settings! {
    struct ViewSettings {
        /// only these servers, by name; `*` stands for any characters
        servers: Option<Vec<Rule>> => "those that `allow` names", with read_servers;
        /// only these tools, prompts and resources of the servers, as `server/name` by their names at the server, or
        /// `server/URI`; `*` stands for any characters
        allow: Option<Vec<Rule>> => "all", with read_items;
        /// never these, written as in `allow`; `deny` takes precedence over `allow`
        deny: Vec<Rule>, with read_items;
        /// whether it has only tools that are declared to change nothing (`readOnlyHint`)
        read_only: bool;
        /// what becomes of a tool that its server did not have before and that the rules select: `held` until an operator
        /// [approves](security/changed-tools.md#new-tools-of-a-view) it, unless `allow` has its name without `*`
        new_tools: NewTools;
        /// the instructions for clients of the view, instead of those of its servers
        instructions: Option<String> => "those of its servers", with read_instructions;
        /// changes of tools of the view, by `server/tool`
        tools: BTreeMap<String, BTreeMap<String, ToolChange>>, with read_changes;
    }
    check ViewSettings::check;
}

/// A rule of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    server: String,
    /// The name or URI at the server; all of them where a rule names servers.
    item: Option<String>,
    /// The line of the configuration file.
    line: u32,
}

/// A rule of a view with its setting.
pub(super) struct RuleAt<'a> {
    /// The setting below the view.
    pub(super) key: &'static str,
    /// The rule as it is written.
    pub(super) text: String,
    rule: &'a Rule,
}

impl<'a> RuleAt<'a> {
    /// The line of the configuration file.
    pub(super) const fn line(&self) -> u32 {
        self.rule.line
    }

    /// The name or URI at the server; none where a rule names servers.
    pub(super) fn item(&self) -> Option<&'a str> {
        self.rule.item.as_deref()
    }

    /// Whether it may select something of `server`.
    pub(super) fn is_about(&self, server: &str) -> bool {
        is_match(&self.rule.server, server)
    }

    /// Whether it selects an item of a server that it is about. A template may make any URI.
    pub(super) fn matches(&self, kind: Kind, name: &str) -> bool {
        let makes_uris = || kind == Kind::Templates && self.item().is_some_and(|item| item.contains("://"));
        self.item().is_none_or(|item| is_match(item, name)) || makes_uris()
    }
}

/// A named selection of servers and of what they offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: Arc<str>,
    servers: Option<Vec<Rule>>,
    allow: Option<Vec<Rule>>,
    deny: Vec<Rule>,
    read_only: bool,
    new_tools: NewTools,
    /// The changes of tools, by the names of the server and of the tool there.
    tools: BTreeMap<String, BTreeMap<String, ToolChange>>,
    /// Instructions in the place of those of its servers.
    pub instructions: Option<Arc<str>>,
}

/// Something that a server offers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The server.
    pub server: &'a str,
    /// The kind of item.
    pub kind: Kind,
    /// Its name or URI at the server.
    pub name: &'a str,
    /// The facts that decide about a tool. Everything else is only read.
    pub tool: ToolFacts,
}

/// The facts that decide about a tool, beside its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolFacts {
    /// Its effect, as the operator or else its server declares it.
    pub effect: Effect,
    /// Whether its server did not have it before, and nobody approved it.
    pub is_new: bool,
    /// Whether it is for apps alone.
    pub app: AppTool,
    /// Whether the arguments that the view gives it do not fit its schema.
    pub is_unfit: bool,
}

/// Whether something is for apps alone (`_meta.ui.visibility` of MCP Apps), or is the page of an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AppTool {
    /// It is neither.
    #[default]
    No,
    /// It is one, and the view has a tool that shows its app.
    Shown,
    /// It is one, and the view has no such tool.
    Hidden,
}

impl ToolFacts {
    /// Those of a known tool for the model, and of anything else that has this effect.
    pub(super) const fn of(effect: Effect) -> Self {
        Self { effect, is_new: false, app: AppTool::No, is_unfit: false }
    }
}

/// The views that may hold new tools of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holding<'a> {
    /// All views.
    pub views: &'a [Arc<View>],
    /// The server.
    pub server: &'a str,
}

impl<'a> Holding<'a> {
    fn views(self) -> impl Iterator<Item = &'a Arc<View>> {
        self.views.iter().filter(move |view| view.holds_new_tools() && view.sees(self.server))
    }

    /// Whether there is such a view.
    pub(super) fn is_any(self) -> bool {
        self.views().next().is_some()
    }

    /// Whether one of them would have the tool `name` if it were not new.
    pub(super) fn holds(self, tools: &Tools, name: &str, definition: &Raw) -> bool {
        let tool = Tool::from_definition(definition.clone()).filter(|tool| tool.name == name);
        tool.is_some_and(|tool| self.names(tools, &tool).next().is_some())
    }

    /// The names of the views that would have `tool` if it were not new.
    pub(super) fn names(self, tools: &Tools, tool: &Tool) -> impl Iterator<Item = Arc<str>> {
        let app = if tool.ui.is_app_only { AppTool::Shown } else { AppTool::No };
        let holds = move |view: &&Arc<View>| {
            let facts = ToolFacts { app, ..ToolFacts::of(view.effect(self.server, tool)) };
            let has = |is_new| {
                let tool_facts = ToolFacts { is_new, ..facts };
                let target =
                    Target { server: self.server, kind: Kind::Tools, name: &tool.name, tool: tool_facts };
                offers(Some(view), tools, target)
            };
            has(false) && !has(true)
        };
        self.views().filter(holds).map(|view| Arc::clone(&view.name))
    }
}

/// The rule that decided whether something is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is offered.
    pub is_offered: bool,
    /// The setting, such as `views.support.deny`; none if no rule selects.
    pub setting: Option<String>,
    /// The text of the rule.
    pub rule: Option<String>,
    /// Its line in the configuration file.
    pub line: Option<u32>,
}

/// Decides whether a server with the selection `tools` offers `target` to clients of `view`, or to clients without one.
pub(super) fn decide(view: Option<&View>, tools: &Tools, target: Target<'_>) -> Decision {
    let (is_offered, key, rule) = verdict(view, tools, target);
    let setting = key.map(|key| key.setting(target.server));
    let (rule, line) = match (key, rule) {
        (Some(Key::Server(_)), _) => match tools.denied_by(target.name) {
            Some((rule, line)) => (Some(rule.to_owned()), line),
            None => (None, None),
        },
        (_, rule) => (rule.map(Rule::text), rule.and_then(Rule::line)),
    };
    Decision { is_offered, setting, rule, line }
}

/// Whether [`decide`] offers it, without saying why.
pub(super) fn offers(view: Option<&View>, tools: &Tools, target: Target<'_>) -> bool {
    verdict(view, tools, target).0
}

/// Whether something is offered, and the setting and its rule that decided.
type Verdict<'a> = (bool, Option<Key<'a>>, Option<&'a Rule>);

/// A setting that decides about a target.
#[derive(Clone, Copy)]
enum Key<'a> {
    /// One of the entry of its server.
    Server(&'static str),
    /// One of the view of this name.
    View(&'a str, &'static str),
}

impl Key<'_> {
    /// The setting by its path in the configuration file.
    fn setting(self, server: &str) -> String {
        match self {
            Self::Server(key) => format!("mcp_servers.{server}.{key}"),
            Self::View(view, key) => format!("views.{view}.{key}"),
        }
    }
}

fn verdict<'a>(view: Option<&'a View>, tools: &Tools, target: Target<'_>) -> Verdict<'a> {
    match tools.hidden_by(target.name).filter(|_| target.kind == Kind::Tools) {
        Some(setting) => (false, Some(Key::Server(setting)), None),
        None => view.map_or((true, None, None), |view| view.verdict(target)),
    }
}

impl View {
    /// The effect of a tool, as the operator or else its server declares it.
    pub(super) fn effect(&self, server: &str, tool: &Tool) -> Effect {
        self.change(server, &tool.name).map_or(tool.effect, |change| change.effect(tool))
    }

    /// Whether new tools are held until an operator approves them.
    pub(super) fn holds_new_tools(&self) -> bool {
        self.new_tools == NewTools::Held
    }

    /// Its rules with their settings.
    pub(super) fn rules(&self) -> impl Iterator<Item = RuleAt<'_>> {
        let lists = [
            ("servers", self.servers.as_deref()),
            ("allow", self.allow.as_deref()),
            ("deny", Some(self.deny.as_slice())),
        ];
        lists.into_iter().flat_map(|(key, rules)| {
            rules.into_iter().flatten().map(move |rule| RuleAt { key, text: rule.text(), rule })
        })
    }

    /// All its changes of tools, by the names of the server and of the tool there.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&str, &str, &ToolChange)> {
        self.tools.iter().flat_map(|(server, tools)| {
            tools.iter().map(move |(tool, change)| (server.as_str(), tool.as_str(), change))
        })
    }

    /// The changes of a tool by the view.
    pub(super) fn change(&self, server: &str, tool: &str) -> Option<&ToolChange> {
        self.tools.get(server)?.get(tool)
    }

    /// Whether it has only tools that are declared to change nothing.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether clients of the view see `server`.
    pub fn sees(&self, server: &str) -> bool {
        let is_named = |rules: &[Rule]| rules.iter().any(|rule| is_match(&rule.server, server));
        self.servers.as_deref().is_none_or(is_named) && self.allow.as_deref().is_none_or(is_named)
    }

    /// A view of these rules, written as in the configuration file; none if an item is not written as `server/name`.
    pub fn of(name: &str, servers: Option<&[&str]>, allow: Option<&[&str]>, deny: &[&str]) -> Option<Self> {
        let named = |server: &&str| Rule { server: (*server).to_owned(), item: None, line: 0 };
        let items =
            |rules: &[&str]| rules.iter().map(|rule| Rule::of_item(rule, 0)).collect::<Option<Vec<_>>>();
        let allow = allow.map(|allow| items(allow).ok_or(())).transpose().ok()?;
        Some(Self {
            name: name.into(),
            servers: servers.map(|servers| servers.iter().map(named).collect()),
            allow,
            deny: items(deny)?,
            read_only: false,
            new_tools: NewTools::Offered,
            tools: BTreeMap::new(),
            instructions: None,
        })
    }

    /// This view, which fixes an argument of a tool.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn fixing(
        mut self,
        (server, tool): (&str, &str),
        (argument, value): (&str, &serde_json::Value),
    ) -> Self {
        let tools = self.tools.entry(server.to_owned()).or_default();
        tools.entry(tool.to_owned()).or_default().fix(argument, value);
        self
    }

    /// This view, which holds new tools until an operator approves them.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn holding_new_tools(self) -> Self {
        Self { new_tools: NewTools::Held, ..self }
    }

    fn verdict(&self, target: Target<'_>) -> Verdict<'_> {
        let key = |key| Some(Key::View(&self.name, key));
        let of_server = self.servers.iter().flatten().find(|rule| is_match(&rule.server, target.server));
        if self.servers.is_some() && of_server.is_none() {
            return (false, key("servers"), None);
        }
        let others = other_spellings(target);
        let spellings = || std::iter::once(target.name).chain(others.iter().map(|other| &**other));
        let matching = |rules: &'_ [Rule], spelling: &str| {
            rules.iter().position(|rule| rule.matches(target.server, spelling))
        };
        if let Some(at) = spellings().find_map(|spelling| matching(&self.deny, spelling)) {
            return (false, key("deny"), Some(&self.deny[at]));
        }
        let ToolFacts { effect, is_new, app, is_unfit } = target.tool;
        if self.read_only && target.kind == Kind::Tools && !effect.is_read_only() {
            return (false, key("read_only"), None);
        }
        let selected = match &self.allow {
            None => (true, key("servers"), of_server),
            Some(allow) => {
                let mut allowing = spellings().map(|spelling| matching(allow, spelling));
                match allowing.next().flatten() {
                    Some(at) if allowing.all(|other| other.is_some()) => {
                        (true, key("allow"), Some(&allow[at]))
                    }
                    _ => (false, key("allow"), None),
                }
            }
        };
        let is_offered = match app {
            AppTool::No => selected.0,
            AppTool::Shown => true,
            AppTool::Hidden => false,
        };
        if !is_offered {
            return (false, selected.1, None);
        }
        if is_new && self.holds_new_tools() && !self.names(target) {
            return (false, key("new_tools"), None);
        }
        if is_unfit {
            return (false, key("tools"), None);
        }
        // Items that come with an app need no rule.
        if selected.0 { selected } else { (true, None, None) }
    }

    /// Whether `allow` has the name of a tool, and not only a pattern that fits.
    fn names(&self, target: Target<'_>) -> bool {
        let is_it = |rule: &Rule| rule.server == target.server && rule.item.as_deref() == Some(target.name);
        self.allow.iter().flatten().any(is_it)
    }
}

impl Rule {
    /// Reads `server/name`.
    pub(super) fn of_item(text: &str, line: u32) -> Option<Self> {
        let (server, item) =
            text.split_once('/').filter(|(server, item)| !server.is_empty() && !item.is_empty())?;
        Some(Self { server: server.to_owned(), item: Some(item.to_owned()), line })
    }

    /// Whether it selects `name` of `server`.
    pub(super) fn matches(&self, server: &str, name: &str) -> bool {
        let is_item = self.item.as_deref().is_none_or(|item| is_match(item, name));
        is_item && is_match(&self.server, server)
    }

    /// Its line, if it is from a file.
    fn line(&self) -> Option<u32> {
        Some(self.line).filter(|line| *line > 0)
    }

    /// The name or pattern of the server.
    pub(super) const fn server(&self) -> &String {
        &self.server
    }

    fn text(&self) -> String {
        self.item.as_ref().map_or_else(|| self.server.clone(), |item| format!("{}/{item}", self.server))
    }
}

/// Further spellings of a target, which all have to be selected too. A server may read an escaped URI, or one with `..`, as
/// another one.
fn other_spellings(target: Target<'_>) -> Vec<String> {
    let mut others = Vec::new();
    let is_plain = !["%", "/.", "\\"].iter().any(|unusual| target.name.contains(unusual));
    if matches!(target.kind, Kind::Tools | Kind::Prompts) || is_plain {
        return others;
    }
    let mut add = |text: String| {
        if text != target.name && !others.contains(&text) {
            others.push(text);
        }
    };
    let decoded = percent_decode_str(target.name).decode_utf8_lossy().into_owned();
    let whole = |text: &str| Url::parse(text).ok().map(|url| url.to_string());
    // Characters that the parser escapes are read as they were written.
    let readable = |text: String| percent_decode_str(&text).decode_utf8_lossy().into_owned();
    whole(target.name).map(readable).into_iter().for_each(&mut add);
    whole(&decoded).map(readable).into_iter().for_each(&mut add);
    add(decoded);
    others
}

fn read_servers(setting: &Setting<'_>) -> Option<Vec<Rule>> {
    let rule = |item: &Setting<'_>| {
        let server = item.parsed("the name of a server", |text| {
            (!text.is_empty() && !text.contains('/')).then(|| text.to_owned())
        })?;
        Some(Rule { server, item: None, line: item.mark().line })
    };
    Some(setting.list()?.iter().filter_map(rule).collect())
}

fn read_items(setting: &Setting<'_>) -> Option<Vec<Rule>> {
    let rule = |item: &Setting<'_>| {
        let expected = "`server/name`, such as `files/read_*`, or `files/*` for all that a server has";
        item.parsed(expected, |text| Rule::of_item(text, item.mark().line))
    };
    Some(setting.list()?.iter().filter_map(rule).collect())
}

/// Reads changes of tools by `server/tool`.
fn read_changes(setting: &Setting<'_>) -> Option<BTreeMap<String, BTreeMap<String, ToolChange>>> {
    let mut changes: BTreeMap<String, BTreeMap<String, ToolChange>> = BTreeMap::new();
    for (name, entry) in setting.entries()? {
        let change = ToolChange::from_setting(&entry);
        let Some(Rule { server, item: Some(tool), .. }) =
            Rule::of_item(name, 0).filter(|_| !name.contains('*'))
        else {
            if !entry.is_any() {
                let hint = "such as `files/read_file`; a pattern would change many tools alike";
                entry.key_problem("expected `server/tool`", Some(hint.into()));
            }
            continue;
        };
        changes.entry(server).or_default().extend(change.map(|change| (tool, change)));
    }
    Some(changes)
}

fn read_instructions(setting: &Setting<'_>) -> Option<String> {
    let text = String::from_setting(setting)?;
    if text.len() > MAX_INSTRUCTIONS {
        setting.problem(
            format!(
                "these are {} bytes, and clients such as Claude Code cut what is longer than 2048",
                text.len()
            ),
            Some("say what matters first, and less".into()),
        );
    }
    Some(text)
}

impl ViewSettings {
    fn check(_: &mut Self, setting: &Setting<'_>) {
        if setting.member("servers").is_none() && setting.member("allow").is_none() {
            let hint = "add `servers: [NAME]`, or `allow: [NAME/TOOL]`; `servers: [\"*\"]` is all of them";
            setting.key_problem("the view selects nothing", Some(hint.into()));
        }
    }
}

/// Whether `name` can be the name of a view.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Reads `views`.
pub(super) fn read(setting: &Setting<'_>) -> Option<Vec<Arc<View>>> {
    let view = |(name, entry): &(&str, Setting<'_>)| {
        if !entry.is_any() && !is_name(name) {
            let hint = "1 to 64 letters, digits, `-` and `_`: it stands in URLs";
            entry.key_problem("this cannot be the name of a view", Some(hint.into()));
        }
        let ViewSettings { servers, allow, deny, read_only, new_tools, instructions, tools } =
            ViewSettings::from_setting(entry)?;
        let (name, instructions) = ((*name).into(), instructions.map(Arc::from));
        Some(Arc::new(View { name, servers, allow, deny, read_only, new_tools, tools, instructions }))
    };
    Some(setting.entries()?.iter().filter_map(view).collect())
}

/// The values of variables in fixed arguments, by the server that gets them.
pub(super) fn secrets(views: &Setting<'_>) -> Vec<(String, SecretString)> {
    let mut secrets = Vec::new();
    for (_, view) in views.entries().unwrap_or_default() {
        for (name, change) in view.member("tools").and_then(|tools| tools.entries()).unwrap_or_default() {
            let server = name.split('/').next().unwrap_or_default();
            let fixed = change.member("fixed_arguments");
            let values = fixed.map(|fixed| fixed.secrets()).unwrap_or_default();
            secrets.extend(values.into_iter().map(|value| (server.to_owned(), value)));
        }
    }
    secrets
}

/// Reports views of `views` that have the name of one of `servers`: both have one place in URLs.
pub(super) fn check_names(views: &Setting<'_>, servers: &HashSet<Arc<str>>) {
    for (name, entry) in views.entries().unwrap_or_default() {
        if servers.contains(name) {
            let hint = format!("`/mcp/{name}` would mean both; give one of the two another name");
            entry.key_problem(format!("`{name}` is the name of a server too"), Some(hint));
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
