//! Switchyard inside a Rust program: servers written in code, calls of their tools, and its routes.
//!
//! Not here: what a call does ([`Manager`]). Types of the crates below are no part of the interface. So they can change
//! while this one stays.

mod outcome;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::{self, CLOSE_TIME};
use gateway::manager::{Approval, Manager, Scope, ServerEntry};
use json::Raw;
use outcome::as_raw_value;
pub use outcome::{CallError, Failure, StartError, ToolResponse};
use runtime::memory;
use runtime::shutdown::Shutdown;
pub use settings::{Builder, Config, ServerConfig};

/// How long [`Switchyard::tools`] waits for servers that connect for the first time.
const FIRST_LIST: Duration = Duration::from_secs(10);

/// Limits the bytes of messages in flight, in sum over all gateways of this program, because they share its memory. The
/// default depends on the memory that the process may have. Message bytes beyond a smaller limit stay until they are released.
pub fn set_memory_budget(bytes: usize) {
    memory::budget().set_limit(bytes);
}

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
    server: downstream::Config,
}

impl Switchyard {
    /// Begins a gateway whose servers are written in code.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts the servers of a configuration, such as one that [`Config::load`] read. It must be called within a tokio
    /// runtime, and returns at once: servers connect meanwhile.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::begin(config, Manager::initialize)
    }

    /// Starts the servers like [`Switchyard::start`], only to see what they offer. A built-in server then resumes no
    /// earlier work and stores nothing.
    pub fn inspect(config: Config) -> Result<Self, StartError> {
        Self::begin(config, Manager::inspect)
    }

    fn begin(
        Config(config): Config,
        start: fn(gateway::manager::Config, &Shutdown) -> Result<Arc<Manager>, upstream::Error>,
    ) -> Result<Self, StartError> {
        let manager = start(config.manager, &Shutdown::new());
        let manager = manager.map_err(|error| StartError::Server(error.to_string()))?;
        Ok(Self { manager, server: config.server })
    }

    /// Returns all tools under the names by which [`Switchyard::call`] finds them. Waits at most ten seconds for servers
    /// that connect for the first time; one that is down delays no later list.
    pub async fn tools(&self) -> Vec<Tool> {
        self.manager.settled(&Scope::ALL, FIRST_LIST).await;
        let entries = self.manager.list_tools(None).unwrap_or_default();
        let tool = |entry: gateway::manager::catalog::CatalogEntry| {
            let definition = as_raw_value(&entry.definition)?;
            Some(Tool { name: entry.exposed, server: entry.route.server.to_string(), definition })
        };
        entries.into_iter().filter_map(tool).collect()
    }

    /// Calls a tool by the name under which [`Switchyard::tools`] lists it. `arguments` serializes to an object.
    /// Dropping the future cancels the call at the server.
    ///
    /// ```
    /// use serde_json::json;
    /// use switchyard_mcp::{CallError, ServerConfig, Switchyard};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let handbook = ServerConfig::builtin("handbook").set("handbook", json!({"path": "docs"}));
    /// let switchyard = Switchyard::builder().server("docs", handbook).start()?;
    /// match switchyard.call("serch_handbook", &json!({"query": "retries"})).await {
    ///     Ok(response) => println!("{}", response.text()),
    ///     Err(CallError::Failed(failure)) => {
    ///         assert_eq!(failure.code, "tool_not_found");
    ///         assert_eq!(failure.nearest, ["search_handbook"]);
    ///         assert!(!failure.is_retryable);
    ///     }
    ///     Err(error) => eprintln!("{error}"),
    /// }
    /// # switchyard.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
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

    /// Returns the state of all configured servers, in the order of the configuration. It contacts none of them.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.manager.entries().iter().map(ServerStatus::of).collect()
    }

    /// Connects a server that was disconnected, within its timeout.
    pub async fn connect(&self, server: &str) -> Result<(), Failure> {
        Ok(self.manager.connect(server, None).await.map(drop)?)
    }

    /// Ends the connections to a server, and does not contact it until it is connected again. Calls to it are refused.
    pub async fn disconnect(&self, server: &str) -> Result<(), Failure> {
        Ok(self.manager.disconnect(server).await.map(drop)?)
    }

    /// Drops the connections to a server, opens a new one, and reads again what the server offers.
    pub async fn reconnect(&self, server: &str) -> Result<(), Failure> {
        Ok(self.manager.reconnect(server, None).await.map(drop)?)
    }

    /// Takes a server into use or out of use.
    pub async fn set_enabled(&self, server: &str, is_enabled: bool) -> Result<(), Failure> {
        Ok(self.manager.set_enabled(server, is_enabled).await.map(drop)?)
    }

    /// Checks all servers now.
    pub async fn health_check(&self) {
        self.manager.health_check().await;
    }

    /// Closes the circuit breaker of a server.
    pub fn reset_breaker(&self, server: &str) -> Result<(), Failure> {
        Ok(self.manager.reset_breaker(server).map(drop)?)
    }

    /// Approves changed tools of a server, which were blocked. They are offered again.
    pub async fn approve(&self, server: &str, approval: Approval<'_>) -> Result<(), Failure> {
        Ok(self.manager.approve(server, approval).await.map(drop)?)
    }

    /// Returns all HTTP routes: MCP, REST, health and documentation, behind the checks of the section `server` of the
    /// configuration. Streams end when `shutdown` begins. It reads key files and blocks meanwhile.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use switchyard_mcp::{Shutdown, Switchyard};
    ///
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let shutdown = Shutdown::new();
    /// let switchyard = Switchyard::builder().start()?;
    /// let routes = switchyard.router(&shutdown)?;
    /// let application: Router = Router::new().route("/hello", get(async || "hello")).fallback_service(routes);
    /// # switchyard.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn router(&self, shutdown: &Shutdown) -> Result<Router, StartError> {
        app::router(&self.manager, &self.server, shutdown)
            .map_err(|error| StartError::Keys(error.to_string()))
    }

    /// Returns the routes of [`Switchyard::router`] for a program that authenticates requests itself. Each request needs a
    /// [`Principal`] among its extensions. Without one it is answered with 401, except on public routes (health,
    /// documentation).
    ///
    /// Keys and tokens of the configuration are ignored. Principals with the same id and role are the same client.
    ///
    /// [`Principal`]: crate::Principal
    pub fn router_for_principals(&self, shutdown: &Shutdown) -> Result<Router, StartError> {
        let router = app::router_for_principals(&self.manager, &self.server, shutdown);
        router.map_err(|error| StartError::Keys(error.to_string()))
    }

    /// Returns the REST API alone, without checks of `Host`, `Origin` and credentials. A request needs a
    /// [`Principal`](crate::Principal) among its extensions. Once `shutdown` begins, `/health/ready` reports that the
    /// gateway is not ready.
    pub fn rest_router(&self, shutdown: &Shutdown) -> Router {
        let (max_body, drain) = (self.server.max_body_bytes, shutdown.clone());
        admin::router(
            Arc::clone(&self.manager),
            admin::Options { max_body, drain, document: Some(app::OPENAPI), ..admin::Options::default() },
        )
    }

    /// Closes all connections and ends child processes. Takes at most eight seconds. Returns whether all of it ended.
    pub async fn shutdown(&self) -> bool {
        self.manager.shutdown(CLOSE_TIME).await
    }
}

/// A tool of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tool {
    /// The name under which it is offered.
    pub name: String,
    /// The server that runs it.
    pub server: String,
    /// Its definition under that name: description, schemas, annotations.
    pub definition: Box<RawValue>,
}

/// The state of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether it is in use.
    pub is_enabled: bool,
    /// A word of the table of states in `docs/resilience.md`, such as `ready`.
    pub state: &'static str,
    /// Whether calls to it can succeed.
    pub is_healthy: bool,
    /// Its last failure, or the first problem of its entry in the configuration.
    pub last_error: Option<String>,
}

impl ServerStatus {
    fn of(entry: &ServerEntry) -> Self {
        Self {
            name: entry.name().to_string(),
            is_enabled: entry.is_enabled(),
            state: entry.state().as_str(),
            is_healthy: entry.is_healthy(),
            last_error: entry.last_error(),
        }
    }
}

fn object(arguments: &impl Serialize) -> Result<Raw, CallError> {
    let text = serde_json::to_vec(arguments).map_err(CallError::Arguments)?;
    let arguments = Raw::parse(&text.into()).map_err(CallError::Arguments)?;
    if arguments.is_object() { Ok(arguments) } else { Err(CallError::NotAnObject) }
}
