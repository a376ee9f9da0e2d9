//! Configuration of the manager: its own settings, and the list of servers.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use super::history_config;
use super::limits::{self, Limit};
use super::not_configured::{NotConfigured, in_file_order};
use super::remembered::Folder;
use super::view::{self, View};
use auth::vault::Vault;
use net::http::Network;
use runtime::store;
use settings::{Fields, Problem, Setting, settings, words};
use upstream::config::{Defaults, Kinds};

words! {
    /// How tools are named towards clients.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum ToolNames {
        /// Bare while unique; `server__tool` for all on a clash. The default.
        #[default]
        Auto = "auto",
        /// Always `server__tool`.
        Prefixed = "prefixed",
        /// Always as on the server; on a clash the first server in the file keeps the bare name.
        Verbatim = "verbatim",
    }
}

settings! {
    /// The settings of a [`super::Manager`].
    #[derive(Debug, Clone)]
    pub struct Config {
        /// where Switchyard caches answers
        pub cache: store::Config => "in memory", with store::Config::from_settings;
        /// `auto`: a tool keeps its name while no other server has it, else all of them are called `server__tool`.
        /// `prefixed`: always `server__tool`. `verbatim`: always as at the server, and the first server in the file wins.
        /// Prompts are named in this way too
        pub tool_names: ToolNames;
        /// longer names are shortened, in a way that never changes
        pub max_tool_name_length: usize = 64, in 32..=128;
        /// tools in one page of `tools/list`, and prompts, resources and resource templates in one page of their lists
        pub tools_per_page: usize = 1_000, in 1..=10_000;
        /// whether [live events](rest-api.md#live-events) of calls have the arguments, with the secrets of the server
        /// blanked
        pub arguments_in_events: bool;
        /// whether [live events](rest-api.md#live-events) of failed calls have the text of the error, with the secrets of the
        /// server blanked
        pub errors_in_events: bool = true;
        /// whether the [metrics](reference/metrics.md) have calls by the names of tools and clients
        pub metrics_by_name: bool = true;
        /// named selections of servers and tools, each at its own URL `/mcp/NAME`; see [Views](views.md)
        pub views: Vec<Arc<View>> => "none", with view::read;
        /// how many requests each caller may send, by name; see [Limits of callers](operate/limits.md#limits-of-callers)
        pub limits: Vec<Arc<Limit>> => "none", with limits::read;
        /// the [history](operate/monitor.md#history-of-calls) of calls
        pub history: history_config::Config => "on";
    }
    other {
        /// The servers, in the order of the configuration file.
        pub servers: Vec<upstream::Config>;
        /// The servers whose entries have problems. They are not among `servers`.
        pub not_configured: Vec<NotConfigured>;
        /// The secrets that views give as arguments, each with the name of its server.
        pub argument_secrets: Vec<(String, SecretString)>;
        /// The vault for tokens of logins; without one they end with the process.
        pub vault: Option<Arc<Vault>>;
        /// Where the offers of servers are kept until the next start; without it they end with the process.
        pub remembered: Option<Arc<Folder>>;
        /// Where past calls are kept; without it they end with the process.
        pub history_folder: Option<PathBuf>;
        /// The way to services that belong to no server (`proxy`).
        pub network: Network;
    }
}

impl Config {
    /// Reads the manager's settings at the root of the file. `kinds` are the built-in servers of the program.
    pub fn read(fields: &mut Fields<'_>, kinds: Kinds) -> Self {
        let defaults = Defaults::from_fields(fields, kinds);
        let entries = fields.part("mcp_servers", Setting::entries).unwrap_or_default();
        let mut config = Self::from_fields(fields).unwrap_or_default();
        config.network = defaults.network();
        for (name, entry) in &entries {
            match server(entry, name, &defaults) {
                Ok(server) => config.servers.push(server),
                Err((is_enabled, problems)) => {
                    let (name, position) = (Arc::from(*name), config.servers.len());
                    config.not_configured.push(NotConfigured { name, position, is_enabled, problems });
                }
            }
        }
        if let Some(views) = fields.setting().member("views") {
            view::check_names(&views, &config.names());
            if !views.is_any() {
                config.argument_secrets = view::secrets(&views);
            }
        }
        let redacted = config.servers.drain(..).map(|server| redacting(server, &config.argument_secrets));
        config.servers = redacted.collect();
        config
    }

    /// Says that what views hold is forgotten with each restart, if so.
    pub fn warning(&self) -> Option<String> {
        let holding = self.views.iter().find(|view| view.holds_new_tools() && self.remembered.is_none())?;
        let name = &holding.name;
        Some(format!(
            "views.{name}: no folder for state is known, so every tool that is there after a restart is known: set \
             `state_dir` below `server`"
        ))
    }

    /// The view `name`.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.iter().find(|view| *view.name == *name)
    }

    /// The servers and the entries that cannot be used, in the order of the file.
    pub fn entries(&self) -> Vec<Result<&upstream::Config, &NotConfigured>> {
        in_file_order(&self.servers, &self.not_configured)
    }

    /// The names of all entries, also of those that cannot be used.
    pub fn names(&self) -> HashSet<Arc<str>> {
        let wrong = self.not_configured.iter().map(|wrong| &wrong.name);
        self.servers.iter().map(|server| &server.name).chain(wrong).cloned().collect()
    }

    /// Continues with the settings of each server that is `running` and whose new entry has a mistake, unless it disables
    /// the server. Returns their names.
    pub(super) fn keep(&mut self, running: impl Fn(&str) -> Option<upstream::Config>) -> HashSet<Arc<str>> {
        let mut retained = HashSet::new();
        for wrong in &mut self.not_configured {
            wrong.position += retained.len();
            if let Some(old) = running(&wrong.name).filter(|_| wrong.is_mistake() && wrong.is_enabled) {
                self.servers.insert(wrong.position, redacting(old, &self.argument_secrets));
                retained.insert(Arc::clone(&wrong.name));
            }
        }
        retained
    }

    /// Returns the configuration of a manager that only inspects servers: it keeps nothing.
    pub(super) fn of_inspection(self) -> Self {
        Self { remembered: None, ..self.without_history() }
    }

    /// Returns the configuration of a gateway without anybody who could read its history.
    #[must_use]
    pub fn without_history(self) -> Self {
        let history = history_config::Config { calls: 0, ..self.history };
        Self { history, history_folder: None, ..self }
    }

    /// `servers` with the settings that most tests need: names unchanged, and lists in pages.
    #[cfg(any(test, feature = "testing"))]
    pub fn of(servers: Vec<upstream::Config>) -> Self {
        Self { servers, tools_per_page: 100, ..Self::default() }
    }
}

/// Returns `server`, which redacts those of `secrets` that are its own. A server with other secrets is another one.
fn redacting(mut server: upstream::Config, secrets: &[(String, SecretString)]) -> upstream::Config {
    for (_, secret) in secrets.iter().filter(|(name, _)| *server.name == **name) {
        let value = secret.expose_secret();
        if !server.secrets.iter().any(|known| known.expose_secret() == value) {
            server.source = server.source.and(value);
            server.secrets.push(secret.clone());
        }
    }
    server
}

/// Reads one server by itself: the problems of its entry are those of no other server. The error says whether the server is
/// enabled too.
fn server(
    entry: &Setting<'_>,
    name: &str,
    defaults: &Defaults,
) -> Result<upstream::Config, (bool, Vec<Problem>)> {
    let read = upstream::Config::from_settings(entry, name, defaults);
    if read.is_none() && entry.problems().is_empty() {
        entry.key_problem("this server cannot be used", None);
    }
    let problems = entry.problems();
    match read {
        Some(server) if problems.is_empty() => Ok(server),
        _ => {
            let enabled = entry.member("enabled").filter(|enabled| !enabled.is_null() && !enabled.is_any());
            Err((enabled.and_then(|enabled| enabled.boolean()).unwrap_or(true), problems))
        }
    }
}
