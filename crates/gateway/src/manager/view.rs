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
use url::Url;

use super::tool_change::ToolChange;
use protocol::feature::{Effect, Kind, Tool};
use settings::{FromSetting, Setting, settings};
use upstream::config::{Tools, is_match};

/// The longest name of a view, in bytes.
const MAX_NAME: usize = 64;
/// The longest instructions of a view, in bytes. Claude Code cuts what is longer.
const MAX_INSTRUCTIONS: usize = 2 * 1024;

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

/// A named selection of servers and of what they offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub name: Arc<str>,
    servers: Option<Vec<Rule>>,
    allow: Option<Vec<Rule>>,
    deny: Vec<Rule>,
    read_only: bool,
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
    /// The effect of a tool. Everything else is only read.
    pub effect: Effect,
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

    /// The changes of a tool by the view.
    pub(super) fn change(&self, server: &str, tool: &str) -> Option<&ToolChange> {
        self.tools.get(server)?.get(tool)
    }

    /// Whether it has only tools that are declared to change nothing.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The tools that it changes, by the names of their servers and their own.
    pub(super) fn changed_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools
            .iter()
            .flat_map(|(server, tools)| tools.keys().map(move |tool| (server.as_str(), tool.as_str())))
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
            tools: BTreeMap::new(),
            instructions: None,
        })
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
        let changes_nothing = matches!(target.effect, Effect::ReadOnly | Effect::Metered);
        if self.read_only && target.kind == Kind::Tools && !changes_nothing {
            return (false, key("read_only"), None);
        }
        let Some(allow) = &self.allow else { return (true, key("servers"), of_server) };
        let mut allowing = spellings().map(|spelling| matching(allow, spelling));
        match allowing.next().flatten() {
            Some(at) if allowing.all(|other| other.is_some()) => (true, key("allow"), Some(&allow[at])),
            _ => (false, key("allow"), None),
        }
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
        let ViewSettings { servers, allow, deny, read_only, instructions, tools } =
            ViewSettings::from_setting(entry)?;
        let instructions = instructions.map(Arc::from);
        Some(Arc::new(View { name: (*name).into(), servers, allow, deny, read_only, tools, instructions }))
    };
    Some(setting.entries()?.iter().filter_map(view).collect())
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
