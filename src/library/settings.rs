//! The configuration of a gateway in a host program: a file, or servers written in code.
//!
//! Not here: what a setting means. The reader of configuration files reads what is built here too.

use std::env::VarError;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{StartError, Switchyard};
use crate::config;
use settings::problem::{Error, Report};

/// The name of a configuration that is no file, in errors.
const IN_CODE: &str = "(configuration in code)";

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config(pub(super) config::Config);

impl Config {
    /// Loads the file at `path`, which must have no mistake. `variable` resolves `${NAME}`, usually with
    /// [`std::env::var`]. Paths in the file are relative to its folder.
    ///
    /// ```
    /// use switchyard_mcp::Config;
    ///
    /// let config = Config::load("mcp_servers.yaml", |name| std::env::var(name))?;
    /// switchyard_mcp::set_memory_budget(config.memory_budget());
    /// # Ok::<(), switchyard_mcp::ConfigError>(())
    /// ```
    pub fn load(
        path: impl AsRef<Path>,
        variable: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<Self, Error> {
        config::Config::load(path.as_ref(), &variable).map(Self)
    }

    /// Loads the file at `path` like [`Config::load`], and leaves out only the servers whose entries have mistakes. The
    /// report is about these; `None` if there are none.
    pub fn load_each(
        path: impl AsRef<Path>,
        variable: impl Fn(&str) -> Result<String, VarError>,
    ) -> Result<(Self, Option<Report>), Error> {
        let (config, report) = config::Config::load_each(path.as_ref(), &variable)?;
        Ok((Self(config), report))
    }

    /// Returns the setting `memory_budget`, in bytes, for [`crate::set_memory_budget`].
    pub const fn memory_budget(&self) -> usize {
        self.0.server.memory_budget
    }
}

/// Servers and settings of a gateway that is about to start.
///
/// It has every setting of a configuration file, with the same names, defaults and checks. Text is taken as it is:
/// `$` refers to no variable, and `~` to no folder. Offers of servers are not remembered, and no vault is opened, unless a
/// `state_dir` is set.
///
/// ```
/// use std::time::Duration;
/// use switchyard_mcp::{ServerConfig, Switchyard};
///
/// let tickets = ServerConfig::http("https://tickets.example.com/mcp").timeout(Duration::from_secs(10));
/// let config = Switchyard::builder().server("tickets", tickets).set("tool_names", "prefixed").config()?;
/// # drop(config);
/// let misspelled = ServerConfig::stdio("uvx").args(["mcp-server-time"]).set("timeuot", 10);
/// let error = Switchyard::builder().server("time", misspelled).config().unwrap_err();
/// assert!(error.to_string().contains("timeuot"));
/// # Ok::<(), switchyard_mcp::StartError>(())
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    root: Map<String, Value>,
    servers: Map<String, Value>,
}

impl Builder {
    /// Adds a server under `name`, which replaces one of the same name.
    #[must_use]
    pub fn server(mut self, name: &str, server: ServerConfig) -> Self {
        self.servers.insert(name.to_owned(), Value::Object(server.entry));
        self
    }

    /// Sets a field at the root of the configuration, such as `tool_names`.
    #[must_use]
    pub fn set(mut self, field: &str, value: impl Serialize) -> Self {
        self.root.insert(field.to_owned(), to_json(value));
        self
    }

    /// Checks the configuration and starts the servers, like [`Switchyard::start`].
    pub fn start(self) -> Result<Switchyard, StartError> {
        Switchyard::start(self.config()?)
    }

    /// Checks the configuration and returns it, for [`Switchyard::start`] and [`Switchyard::inspect`].
    pub fn config(mut self) -> Result<Config, StartError> {
        let has_state = self.root.get("server").is_some_and(|server| server.get("state_dir").is_some());
        if let Some(Value::Object(others)) = self.root.remove("mcp_servers") {
            self.servers.extend(others);
        }
        self.root.insert("mcp_servers".to_owned(), Value::Object(self.servers));
        let mut config =
            config::Config::literal(Path::new(IN_CODE), &format!("{:#}", Value::Object(self.root)))?;
        if !has_state {
            (config.manager.remembered, config.manager.vault) = (None, None);
            config.manager.history_folder = None;
        }
        Ok(Config(config))
    }
}

/// One server, with the settings of an entry of `mcp_servers` in a configuration file.
#[derive(Debug)]
pub struct ServerConfig {
    entry: Map<String, Value>,
}

impl ServerConfig {
    /// A server over Streamable HTTP at `url`. An old HTTP+SSE server is detected.
    pub fn http(url: &str) -> Self {
        Self::over("http").set("url", url)
    }

    /// A child process that speaks MCP over standard input and output.
    pub fn stdio(program: &str) -> Self {
        Self::over("stdio").set("command", program)
    }

    /// A built-in server: `handbook`, `r2r`, `chroma` or `rag`, each a feature of the crate. Its settings are the field
    /// of its name, for [`ServerConfig::set`].
    pub fn builtin(kind: &str) -> Self {
        Self::over("builtin").set("builtin", kind)
    }

    fn over(transport: &str) -> Self {
        Self { entry: Map::new() }.set("transport", transport)
    }

    /// Sets the arguments of a child process.
    #[must_use]
    pub fn args<A: AsRef<str>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        let arguments: Vec<String> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        self.set("args", arguments)
    }

    /// Adds a variable to the environment of a child process.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.member("env", name, value)
    }

    /// Adds a header to each request over HTTP.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.member("headers", name, value)
    }

    /// Limits the time without a message of the server after which a call times out.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        self.set("timeout", limit.as_secs_f64())
    }

    /// Sets any field of the entry. `docs/servers.md` lists them.
    #[must_use]
    pub fn set(mut self, field: &str, value: impl Serialize) -> Self {
        self.entry.insert(field.to_owned(), to_json(value));
        self
    }

    fn member(mut self, field: &str, name: &str, value: &str) -> Self {
        let members = self.entry.entry(field).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(members) = members {
            members.insert(name.to_owned(), to_json(value));
        }
        self
    }
}

/// Returns `value` as JSON. One that cannot be JSON becomes `null`, which the check of the configuration names.
fn to_json(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
