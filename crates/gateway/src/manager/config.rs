//! Configuration of the manager: its own settings, and the list of servers.

use std::path::Path;
use std::sync::Arc;

use super::remembered::Folder;
use auth::vault::Vault;
use net::http::Network;
use runtime::store;
use settings::{Fields, Setting};
use upstream::config::{Defaults, Kinds};

/// How tools are named towards clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNames {
    /// Bare while unique; `server__tool` for all on a clash. The default.
    #[default]
    Auto,
    /// Always `server__tool`.
    Prefixed,
    /// Always as on the server; on a clash the first server in the file keeps the bare name.
    Verbatim,
}

/// The settings of a [`super::Manager`].
#[derive(Debug, Clone)]
pub struct Config {
    /// The servers, in the order of the configuration file.
    pub servers: Vec<upstream::Config>,
    /// The location of the response cache.
    pub cache: store::Config,
    /// How tools are named.
    pub tool_names: ToolNames,
    /// The longest exposed name, in bytes.
    pub max_tool_name_length: usize,
    /// Tools in one page of `tools/list`.
    pub tools_per_page: usize,
    /// Whether live events of calls have the arguments.
    pub arguments_in_events: bool,
    /// The vault for tokens of logins; without one they end with the process.
    pub vault: Option<Arc<Vault>>,
    /// Where the offers of servers are kept until the next start; without it they end with the process.
    pub remembered: Option<Arc<Folder>>,
    /// The way to services that belong to no server (`proxy`).
    pub network: Network,
}

impl Config {
    /// Reads the manager's settings at the root of the file. Paths are relative to `folder`;
    /// `kinds` are the built-in servers of the program.
    pub fn from_fields(fields: &mut Fields<'_>, folder: &Path, kinds: Kinds) -> Self {
        let defaults = Defaults::from_fields(fields, folder, kinds);
        let names =
            [("auto", ToolNames::Auto), ("prefixed", ToolNames::Prefixed), ("verbatim", ToolNames::Verbatim)];
        Self {
            servers: fields.part("mcp_servers", |all| servers(all, &defaults)).unwrap_or_default(),
            cache: fields.part("cache", store::Config::from_settings).unwrap_or_default(),
            tool_names: fields.choice("tool_names", &names).unwrap_or_default(),
            max_tool_name_length: fields.integer("max_tool_name_length", 32..=128).unwrap_or(64),
            tools_per_page: fields.integer("tools_per_page", 1..=10_000).unwrap_or(1_000),
            arguments_in_events: fields.boolean("arguments_in_events").unwrap_or(false),
            vault: None,
            remembered: None,
            network: defaults.network(),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Config {
    /// `servers` with the settings that most tests need: names unchanged, and lists in pages.
    pub fn of(servers: Vec<upstream::Config>) -> Self {
        Self {
            servers,
            cache: store::Config::default(),
            tool_names: ToolNames::Auto,
            max_tool_name_length: 64,
            tools_per_page: 100,
            arguments_in_events: false,
            vault: None,
            remembered: None,
            network: Network::default(),
        }
    }
}

fn servers(all: &Setting<'_>, defaults: &Defaults) -> Option<Vec<upstream::Config>> {
    let read =
        |(name, setting): &(&str, Setting<'_>)| upstream::Config::from_settings(setting, name, defaults);
    Some(all.entries()?.iter().filter_map(read).collect())
}
