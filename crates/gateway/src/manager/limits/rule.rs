//! The rules of `limits`: whom and what each of them counts.
//!
//! Not here: the counts (`counts`).

use std::collections::HashSet;
use std::sync::Arc;

use auth::{Principal, Role};
use runtime::store::LimitKind;
use settings::{FromSetting, Setting, settings, words};
use upstream::config::is_match;

use crate::manager::view::{self, Rule};

/// Most rules. Each request is compared with all of them.
const MAX_RULES: usize = 64;

words! {
    /// The callers that have one count.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Per {
        /// Each has its own.
        #[default]
        Principal = "principal",
        /// All of them share one.
        All = "all",
    }
}

settings! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct LimitSettings {
        /// the most requests that reach a server in a minute. After a pause all of them may come at once; they are free again
        /// one after another, evenly over the minute
        requests_per_minute: Option<u32> => "no limit", in 1..=1_000_000;
        /// the most calls that run at a time
        calls_at_a_time: Option<u32> => "no limit", in 1..=100_000;
        /// `principal`: each caller has this limit for itself. `all`: the callers share it
        per: Per;
        /// only callers with this id, such as `key:ci` for an API key, `jwt:SUBJECT` for a token or `cert:NAME` for a
        /// certificate; `*` stands for any characters
        principal: Option<String> => "all";
        /// only callers with this role
        role: Option<Role> => "all";
        /// only requests through this view: of keys and tokens that are bound to it, and at its URL
        view: Option<String> => "all";
        /// only requests to this server; `*` stands for any characters
        server: Option<String> => "all";
        /// only calls of this tool, as `server/tool` by its name at the server; `*` stands for any characters
        tool: Option<Rule> => "all requests", with read_tool;
    }
    check LimitSettings::check;
}

/// A limit of callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Its name.
    pub name: Arc<str>,
    /// Its line in the configuration file.
    pub line: u32,
    settings: LimitSettings,
}

impl Limit {
    /// The most requests in a minute.
    pub const fn requests_per_minute(&self) -> Option<u32> {
        self.settings.requests_per_minute
    }

    /// The most calls at a time.
    pub const fn calls_at_a_time(&self) -> Option<u32> {
        self.settings.calls_at_a_time
    }

    /// The number that limits `kind`.
    pub(super) const fn most(&self, kind: LimitKind) -> Option<u32> {
        match kind {
            LimitKind::Requests => self.settings.requests_per_minute,
            LimitKind::Calls => self.settings.calls_at_a_time,
        }
    }

    /// The callers that have one count.
    pub const fn per(&self) -> Per {
        self.settings.per
    }

    /// The pattern of the ids of its callers.
    pub fn principal(&self) -> Option<&str> {
        self.settings.principal.as_deref()
    }

    /// The role of its callers.
    pub const fn role(&self) -> Option<Role> {
        self.settings.role
    }

    /// Whether it counts requests of `principal`.
    fn is_of(&self, principal: &Principal) -> bool {
        self.role().is_none_or(|role| role == principal.role())
            && self.principal().is_none_or(|pattern| is_match(pattern, principal.id()))
    }

    /// Whether it counts requests through `view` to `server`, which call `tool` if there is one.
    pub(in crate::manager) fn is_about(
        &self,
        view: Option<&Arc<str>>,
        server: &str,
        tool: Option<&str>,
    ) -> bool {
        let LimitSettings { view: of_view, server: of_server, tool: of_tool, .. } = &self.settings;
        of_view.as_ref().is_none_or(|of_view| view.is_some_and(|view| **view == **of_view))
            && of_server.as_ref().is_none_or(|pattern| is_match(pattern, server))
            && of_tool.as_ref().is_none_or(|rule| tool.is_some_and(|tool| rule.matches(server, tool)))
    }

    /// Whether it counts `request`.
    pub(super) fn counts(&self, request: CountedRequest<'_>) -> bool {
        self.is_of(request.principal) && self.is_about(request.view, request.server, request.tool)
    }

    /// Whether `other` counts the same requests of the same callers, so that its counts stay valid.
    pub(super) fn counts_like(&self, other: &Self) -> bool {
        let without_numbers = |limit: &Self| LimitSettings {
            requests_per_minute: None,
            calls_at_a_time: None,
            ..limit.settings.clone()
        };
        self.name == other.name && without_numbers(self) == without_numbers(other)
    }

    /// The reason why it limits nothing, if a view, server or key is missing that it is for.
    fn unmet(&self, known: &LimitTargets<'_>) -> Option<String> {
        let LimitSettings { view, server, tool, principal, .. } = &self.settings;
        let is_missing = |pattern: &&String| !known.servers.iter().any(|server| is_match(pattern, server));
        if let Some(view) = view.as_ref().filter(|view| !known.views.contains(&view.as_str())) {
            return Some(format!("there is no view `{view}`"));
        }
        if let Some(server) = server.as_ref().or(tool.as_ref().map(Rule::server)).filter(is_missing) {
            return Some(format!("there is no server `{server}`"));
        }
        let principal = principal.as_ref().filter(|pattern| !pattern.starts_with('*'))?;
        match principal.split_once(':') {
            Some(("key", id)) if known.keys.is_some_and(|keys| !keys.iter().any(|key| is_match(id, key))) => {
                Some(format!("there is no key `{id}`"))
            }
            Some(("key" | "jwt" | "cert", _)) => None,
            _ if Principal::is_anonymous_id(principal) => None,
            _ => Some(format!(
                "no id is like `{principal}`: they begin with `key:`, `jwt:` or `cert:`, and without \
                 authentication the id is `anonymous`"
            )),
        }
    }
}

/// A request of a client to a server, as limits see it.
#[derive(Debug, Clone, Copy)]
pub(in crate::manager) struct CountedRequest<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The view of the caller, if it has one.
    pub view: Option<&'a Arc<str>>,
    /// The server that gets it.
    pub server: &'a Arc<str>,
    /// The tool, if one is called.
    pub tool: Option<&'a str>,
}

/// The names in the configuration that limits refer to.
#[derive(Debug, Clone, Copy)]
pub struct LimitTargets<'a> {
    /// The names of the views.
    pub views: &'a [&'a str],
    /// The names of the servers.
    pub servers: &'a HashSet<Arc<str>>,
    /// The ids of the API keys; none if they cannot be read.
    pub keys: Option<&'a [String]>,
}

/// Warnings about those of `limits` that count nothing.
pub fn without_effect(limits: &[Arc<Limit>], known: &LimitTargets<'_>) -> Vec<String> {
    let warning = |limit: &Arc<Limit>| {
        let reason = limit.unmet(known)?;
        Some(format!("`limits.{}` in line {} limits nothing: {reason}", limit.name, limit.line))
    };
    limits.iter().filter_map(warning).collect()
}

impl LimitSettings {
    fn check(_: &mut Self, setting: &Setting<'_>) {
        let has = |name| setting.member(name).is_some();
        if !has("requests_per_minute") && !has("calls_at_a_time") {
            let hint = "add `requests_per_minute`, `calls_at_a_time` or both";
            setting.key_problem("it limits nothing", Some(hint.into()));
        }
    }
}

fn read_tool(setting: &Setting<'_>) -> Option<Rule> {
    let expected = "`server/tool`, such as `tickets/find`";
    // The line is that of the limit.
    setting.parsed(expected, |text| Rule::of_item(text, 0))
}

/// Reads `limits`.
pub(in crate::manager) fn read(setting: &Setting<'_>) -> Option<Vec<Arc<Limit>>> {
    let limit = |(name, entry): &(&str, Setting<'_>)| {
        if !entry.is_any() && !view::is_name(name) {
            let hint = "1 to 64 letters, digits, `-` and `_`: it is a label of metrics";
            entry.key_problem("this cannot be the name of a limit", Some(hint.into()));
        }
        let settings = LimitSettings::from_setting(entry)?;
        Some(Arc::new(Limit { name: (*name).into(), line: entry.mark().line, settings }))
    };
    let limits: Vec<Arc<Limit>> = setting.entries()?.iter().filter_map(limit).collect();
    if limits.len() > MAX_RULES {
        let hint = "each request is compared with all of them; `*` in `principal` stands for many callers";
        setting.key_problem(format!("there are more than {MAX_RULES} limits"), Some(hint.into()));
    }
    Some(limits)
}
