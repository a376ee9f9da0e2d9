//! Switchyard inside a Rust program: servers written in code, and calls of their tools.
//!
//! Not here: what a call does ([`Manager`]), and what a setting means (the reader of configuration files, which reads
//! what is built here too).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::app::CLOSE_TIME;
use crate::config::{self, Config};
use gateway::manager::catalog::CatalogEntry;
use gateway::manager::{self, CallResponse, Manager, Scope};
use json::Raw;
use protocol::ErrorObject;
use runtime::shutdown::Shutdown;

/// The name of a configuration that is no file, in errors.
const IN_CODE: &str = "(configuration in code)";
/// How long [`Switchyard::tools`] waits for servers that connect for the first time.
const FIRST_LIST: Duration = Duration::from_secs(10);

/// One running gateway in this program: connections to its servers, and calls of their tools.
///
/// ```
/// use serde_json::{Value, json};
/// use switchyard_mcp::{ServerConfig, Switchyard};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let switchyard = Switchyard::builder()
///     .server("docs", ServerConfig::builtin("handbook").set("handbook", json!({"path": "docs"})))
///     .start()?;
/// let response = switchyard.call("search_handbook", &json!({"query": "circuit breaker"})).await?;
/// assert!(!response.is_error());
/// let found: Value = response.structured()?;
/// assert!(found["hits"][0]["content"].is_string());
/// switchyard.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Switchyard {
    manager: Arc<Manager>,
}

impl Switchyard {
    /// Begins a gateway whose servers are written in code.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts the servers of a configuration, such as one that [`Config::load`] read. It must be called within a tokio
    /// runtime, and returns at once: servers connect meanwhile.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Ok(Self { manager: Manager::initialize(config.manager, &Shutdown::new())? })
    }

    /// Returns all tools under the names by which [`Switchyard::call`] finds them. Waits at most ten seconds for servers
    /// that connect for the first time; one that is down delays no later list.
    pub async fn tools(&self) -> Vec<CatalogEntry> {
        self.manager.settled(&Scope::All, FIRST_LIST).await;
        self.manager.list_tools(None).unwrap_or_default()
    }

    /// Calls a tool by the name under which [`Switchyard::tools`] lists it. `arguments` serializes to an object.
    /// Dropping the future cancels the call at the server.
    pub async fn call(&self, tool: &str, arguments: &impl Serialize) -> Result<ToolResponse, CallError> {
        let arguments = object(arguments)?;
        ToolResponse::of(self.manager.route_tool(tool, &arguments, None).await?)
    }

    /// Calls a tool of one server by the server's own name for it, like [`Switchyard::call`].
    pub async fn call_at(
        &self,
        server: &str,
        tool: &str,
        arguments: &impl Serialize,
    ) -> Result<ToolResponse, CallError> {
        let arguments = object(arguments)?;
        ToolResponse::of(self.manager.call_tool(server, tool, &arguments, None).await?)
    }

    /// Returns the manager: the state of servers, operations for operators, and what [`crate::app::router`] serves.
    pub const fn manager(&self) -> &Arc<Manager> {
        &self.manager
    }

    /// Closes all connections and ends child processes. Takes at most eight seconds. Returns whether all of it ended.
    pub async fn shutdown(self) -> bool {
        self.manager.shutdown(CLOSE_TIME).await
    }
}

/// Servers and settings of a gateway that is about to start.
///
/// It has every setting of a configuration file, with the same names, defaults and checks. Text is taken as it is:
/// `$` refers to no variable, and `~` to no folder. Offers of servers are not remembered, and no vault is opened, unless a
/// `state_dir` is set.
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

    /// Checks the configuration and returns it, for [`crate::app::router`] and the other parts of the library.
    pub fn config(mut self) -> Result<Config, StartError> {
        let has_state = self.root.get("server").is_some_and(|server| server.get("state_dir").is_some());
        if let Some(Value::Object(others)) = self.root.remove("mcp_servers") {
            self.servers.extend(others);
        }
        self.root.insert("mcp_servers".to_owned(), Value::Object(self.servers));
        let mut config = Config::literal(Path::new(IN_CODE), &format!("{:#}", Value::Object(self.root)))?;
        if !has_state {
            (config.manager.remembered, config.manager.vault) = (None, None);
            config.manager.history_folder = None;
        }
        Ok(config)
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

fn object(arguments: &impl Serialize) -> Result<Raw, CallError> {
    let text = serde_json::to_vec(arguments).map_err(CallError::Arguments)?;
    let arguments = Raw::parse(&text.into()).map_err(CallError::Arguments)?;
    if arguments.is_object() { Ok(arguments) } else { Err(CallError::NotAnObject) }
}

/// The result of a tool, as its server sent it.
#[derive(Debug, Clone)]
pub struct ToolResponse {
    server: Arc<str>,
    result: Raw,
    elapsed: Duration,
}

impl ToolResponse {
    fn of(called: CallResponse) -> Result<Self, CallError> {
        let result = called.reply.map_err(CallError::Refused)?;
        Ok(Self { server: called.server, result, elapsed: called.elapsed })
    }

    /// Whether the tool says that it failed (`isError`). Its content then says why.
    pub fn is_error(&self) -> bool {
        self.raw().get_as("isError").unwrap_or(false)
    }

    /// Returns the blocks of content, in order: text, images, audio and resources.
    pub fn content(&self) -> Vec<Raw> {
        self.raw().get("content").map(|blocks| blocks.elements().collect()).unwrap_or_default()
    }

    /// Returns the text of all blocks of text, a line break between two.
    pub fn text(&self) -> String {
        let texts = self.content().into_iter().filter(|block| block.text("type").as_deref() == Some("text"));
        texts.filter_map(|block| block.get_as::<String>("text")).collect::<Vec<_>>().join("\n")
    }

    /// Reads `structuredContent`. A tool without an output schema has none, which is an error.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let missing = || serde::de::Error::custom("the result has no `structuredContent`");
        let value = self.raw().get("structuredContent").ok_or_else(missing)?;
        value.read()
    }

    /// Returns the whole result, byte for byte.
    pub const fn raw(&self) -> &Raw {
        &self.result
    }

    /// Returns the name of the server that ran the tool.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns how long the call took, with waiting and retries.
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

/// Why a gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not valid; the error names all its problems.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A server cannot be reached in the way that its settings say.
    #[error(transparent)]
    Server(#[from] upstream::Error),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The arguments cannot be JSON.
    #[error("the arguments cannot be written as JSON: {0}")]
    Arguments(serde_json::Error),
    /// The arguments are a list or a single value.
    #[error("the arguments of a tool are an object")]
    NotAnObject,
    /// The server refused the call with a JSON-RPC error. With [`ErrorObject::problem`], Switchyard refused what the server
    /// answered.
    #[error("the server refused the call: {}", .0.message())]
    Refused(ErrorObject),
    /// No server has the tool, or the call failed on its way. [`manager::Error::problem`] says whether it may be repeated.
    #[error(transparent)]
    Failed(#[from] manager::Error),
}
