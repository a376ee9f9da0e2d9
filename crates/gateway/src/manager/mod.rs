//! The facade over all servers: their list, their offers, and the routing of names.
//!
//! REST, the MCP endpoint, the command line and programs that embed the crate use [`Manager`], and never a
//! server directly. Invariant: a request is routed in one immutable [`Snapshot`] and uses the server that it had there. A
//! further request of the same call is routed again: a new configuration may have another server of that name, or not
//! permit the tool any longer.
//!
//! Not here: HTTP, protocol eras of clients, permissions of clients.

mod apply;
pub mod catalog;
mod client_snapshots;
pub mod config;
mod error;
mod headers;
mod health_check;
pub mod history;
mod history_config;
mod instructions;
mod known;
mod limits;
pub mod live_events;
mod logins;
pub mod naming;
mod not_configured;
mod offer_writer;
mod owners;
mod principal_secrets;
mod problem;
mod recorded_call;
mod registry;
pub mod remembered;
mod response_cache;
mod routed_request;
mod routing;
mod selection;
mod server_status;
mod snapshot;
mod stepped_charge;
mod tool_arguments;
mod tool_change;
mod trust;
mod unrequested;
mod view;
mod view_report;
mod view_warnings;
mod why;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;

pub use apply::Applied;
pub use client_snapshots::Viewer;
pub use config::Config;
pub use error::{Error, Hidden, ItemKind};
use error::{failed, failed_at};
pub use limits::{Admission, Limit, LimitTargets, LimitUsage, Limited, OwnChange, Per, without_effect};
pub use not_configured::NotConfigured;
pub use principal_secrets::{NeededSecret, Revocations, SecretError};
pub use problem::MEMORY_EXHAUSTED;
pub use registry::ServerNotice;
use routed_request::RequestEnd;
pub use routed_request::{CallResponse, RoutedRequest};
pub use routing::Reference;
pub use server_status::{MovedTool, ServerEntry, ServerStatus};
pub use snapshot::{Revisions, Scope, Server, Snapshot};
pub use trust::{Approval, Change, Trust};
pub use view::{Decision, RuleUse, View};
pub use view_report::{ChangedByView, ServerShare, ViewReport};
pub use view_warnings::ViewWarning;
pub use why::{Clash, Explanation};

use auth::vault::Vault;
use json::Raw;
use oauth::KnownIssuers;
use protocol::{Notification, method};
use runtime::shutdown::Shutdown;
use runtime::store::Store;
use upstream::{
    Call, Connector, EventSender, Owner, ServerContext, ServerResponse, Update, Upstream, transport,
};

use history::CallHistory;
use limits::{CallerLimits, OwnChanges};
use offer_writer::Writer;
use registry::{Approve, Order, Published, Registry};
use response_cache::CacheableCall;

/// How long after the start, or after a new configuration, requests wait for servers that connect for the
/// first time. A server that hangs longer is not waited for again.
const STARTUP_GRACE: Duration = Duration::from_secs(10);
/// Most updates of servers that wait for the registry.
const UPDATES: usize = 256;

/// The facade over all servers.
pub struct Manager {
    published: Published,
    shutdown: Shutdown,
    store: Store,
    /// The issuers that credentials of servers belong to, also after a reload.
    issuers: KnownIssuers,
    /// Has the secrets of principals.
    vault: Option<Arc<Vault>>,
    /// Where servers send their updates.
    updates: mpsc::Sender<Update>,
    orders: mpsc::Sender<Order>,
    /// Held while a configuration is applied.
    applying: Mutex<()>,
    /// Writes what servers offered, if there is a folder for it.
    writer: Option<Arc<Writer>>,
    rounds: health_check::Rounds,
    limits: CallerLimits,
    own_changes: OwnChanges,
}

impl Manager {
    /// Starts every enabled server of `config` and returns at once. A server that is down or slow delays
    /// nothing, and its tools appear when it connects. Tasks run until [`Manager::shutdown`], or until
    /// `shutdown` begins.
    pub fn initialize(config: Config, shutdown: &Shutdown) -> Result<Arc<Self>, upstream::Error> {
        Self::begin(config, shutdown.child(), false)
    }

    /// Starts the servers only to inspect their offers. A built-in server then resumes no earlier work and
    /// stores nothing.
    pub fn inspect(config: Config, shutdown: &Shutdown) -> Result<Arc<Self>, upstream::Error> {
        Self::begin(config, shutdown.child(), true)
    }

    fn begin(config: Config, shutdown: Shutdown, is_inspection: bool) -> Result<Arc<Self>, upstream::Error> {
        let (store, vault) = (Store::open(&config.cache), config.vault.clone());
        let (issuers, network) = (KnownIssuers::default(), config.network.clone());
        let context = ServerContext {
            shutdown: shutdown.clone(),
            store: store.clone(),
            is_inspection,
            vault,
            issuers: issuers.clone(),
            network,
        };
        let connect = |server: &upstream::Config| transport::connector(server, &context);
        let connectors = config.servers.iter().map(connect).collect::<Result<Vec<_>, _>>()?;
        if !is_inspection {
            config.not_configured.iter().for_each(|wrong| wrong.log(false));
        }
        let config = if is_inspection { config.of_inspection() } else { config };
        Ok(Self::with_store(config, connectors, shutdown, (store, issuers)))
    }

    /// Starts the servers with the given connectors, one for each server of `config`, in its order.
    pub fn with_connectors(
        config: Config,
        connectors: Vec<Arc<dyn Connector>>,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let store = Store::open(&config.cache);
        Self::with_store(config, connectors, shutdown, (store, KnownIssuers::default()))
    }

    fn with_store(
        config: Config,
        connectors: Vec<Arc<dyn Connector>>,
        shutdown: Shutdown,
        (store, issuers): (Store, KnownIssuers),
    ) -> Arc<Self> {
        shutdown.spawn_until_end(store.clone().maintain());
        let ((sender, updates), (orders, inbox)) = (mpsc::channel(UPDATES), mpsc::channel(1));
        let (writer, known) = offer_writer::prepared(&config);
        let vault = config.vault.clone();
        let start = |(server, connector): (&upstream::Config, _)| {
            let known = known.get(&server.name).and_then(|known| known.remembered.as_ref());
            Upstream::start_remembered(server.clone(), connector, known, sender.clone(), &shutdown)
        };
        let first =
            Snapshot::first(&config, config.servers.iter().zip(connectors).map(start).collect(), &known);
        let history = CallHistory::new(config.history_folder.clone());
        let limits = CallerLimits::new(&config.limits, store.clone());
        let (registry, published) = Registry::new(Arc::new(config), first, &history);
        shutdown.spawn_until_end(registry.run(updates, inbox));
        offer_writer::start(writer.as_ref(), &published, &shutdown);
        history.start(&shutdown);
        Arc::new(Self {
            published,
            shutdown,
            store,
            issuers,
            vault,
            updates: sender,
            orders,
            applying: Mutex::default(),
            writer,
            rounds: health_check::Rounds::default(),
            limits,
            own_changes: OwnChanges::default(),
        })
    }

    /// Ends every connection and child process. Returns when all have ended, at most after `limit`.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.shutdown.begin();
        self.shutdown.wait(limit).await
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.snapshot.load_full()
    }

    /// Returns a counter that changes with the snapshot.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.published.count.clone()
    }

    /// Returns future notifications of servers for subscribers. The receiver has to filter them.
    pub fn notices(&self) -> broadcast::Receiver<ServerNotice> {
        self.published.notices.subscribe()
    }

    /// Returns the cache.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns all servers that are configured, in the order of the configuration file.
    pub fn list_servers(&self) -> Vec<ServerStatus> {
        ServerStatus::all(&self.snapshot())
    }

    /// Returns the entries of the configuration file: all servers, and those that are not configured, in the order of the
    /// file.
    pub fn entries(&self) -> Vec<ServerEntry> {
        let snapshot = self.snapshot();
        ServerEntry::all(&snapshot)
    }

    /// Returns one entry of the configuration file.
    pub fn entry(&self, name: &str) -> Result<ServerEntry, Error> {
        ServerEntry::one(&self.snapshot(), name)
    }

    /// Returns the status of one server.
    pub fn server(&self, name: &str) -> Result<ServerStatus, Error> {
        let snapshot = self.snapshot();
        snapshot.server(name).map(|server| ServerStatus::of(&snapshot, server))
    }

    /// Returns the tools of one server under its own names, or all tools under their exposed names.
    pub fn list_tools(&self, server: Option<&str>) -> Result<Vec<catalog::CatalogEntry>, Error> {
        let scope = server.map_or(Scope::ALL, Scope::of_server);
        self.snapshot().catalog(&scope).map(|catalog| catalog.tools().to_vec())
    }

    /// Calls a tool of a named server. `arguments` is an object.
    pub async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: &Raw,
        timeout: Option<Duration>,
    ) -> Result<CallResponse, Error> {
        self.invoke(&Scope::of_server(server), (tool, arguments), timeout).await
    }

    /// Calls a tool by its exposed name, at the server that has it. `arguments` is an object.
    pub async fn route_tool(
        &self,
        tool: &str,
        arguments: &Raw,
        timeout: Option<Duration>,
    ) -> Result<CallResponse, Error> {
        self.invoke(&Scope::ALL, (tool, arguments), timeout).await
    }

    /// Calls a tool for a program that is not an MCP client and gets no notifications.
    async fn invoke(
        &self,
        scope: &Scope,
        (tool, arguments): (&str, &Raw),
        timeout: Option<Duration>,
    ) -> Result<CallResponse, Error> {
        let params = Raw::object(&[("name", &Raw::of(tool)), ("arguments", arguments)]);
        let of_program = Call::of_gateway(method::TOOLS_CALL, Some(params));
        let call = Box::new(Call { owner: Owner::new(), ..of_program });
        let viewer = Viewer { scope, affinity: None };
        let request = RoutedRequest { timeout, ..self.tool_request(viewer, tool, call, timeout).await? };
        let event_sender = if timeout.is_none() { EventSender::unread() } else { EventSender::none() };
        let response = request.whole(self.call(&request, &event_sender).await?).await?;
        Ok(CallResponse {
            server: Arc::clone(request.server_name()),
            subject: Arc::clone(&request.subject),
            reply: response.body,
            // The time of the turn would not include work within one turn.
            elapsed: Instant::now().saturating_duration_since(request.started),
        })
    }

    /// Sends `notification` of a client to `server`, on the connection that `call` of this client uses.
    pub(crate) async fn notify(
        &self,
        server: &str,
        call: &Call,
        notification: &Notification,
    ) -> Result<(), Error> {
        let upstream = Arc::clone(&self.snapshot().server(server)?.upstream);
        upstream.notify(call, notification).await.map_err(|source| failed_at(&upstream, None, source))
    }

    /// Sends one request to its server. Messages of the server before its response go to `event_sender`. Dropping
    /// the future cancels the request at the server.
    pub async fn call(
        &self,
        request: &RoutedRequest,
        event_sender: &EventSender,
    ) -> Result<ServerResponse, Error> {
        let call = std::pin::pin!(self.call_unrecorded(request, event_sender));
        let called =
            if request.tool().is_some() { self.call_recorded(request, call).await } else { call.await };
        called.map(|(response, _)| response)
    }

    async fn call_unrecorded(
        &self,
        request: &RoutedRequest,
        event_sender: &EventSender,
    ) -> Result<(ServerResponse, RequestEnd), Error> {
        let compared;
        let mut server = &request.server;
        if server.compares_first(request.call.affinity.as_ref()) {
            // Boxed: it is large, and needed once for each start.
            compared = Box::pin(self.read_first(request, event_sender)).await?;
            server = &compared;
        }
        request.check_policy(server)?;
        request.check_unambiguous(&request.call.header_params)?;
        if let Some(recall) = CacheableCall::of(server, request) {
            // Boxed: it is large, and rarely needed.
            return Box::pin(self.recall(&recall, event_sender)).await;
        }
        let upstream = &server.upstream;
        let (deadline, _charge) = (request.deadline(), request.charged()?);
        let mut answered = upstream.call(&request.call, deadline, event_sender).await;
        if answered.as_ref().is_ok_and(|answered| headers::are_refused(request, answered)) {
            // Boxed: they are large, and rarely needed.
            if let Some(others) = Box::pin(self.other_headers(request, deadline.at)).await {
                request.check_unambiguous(&others)?;
                let call = Box::new(Call { header_params: others, ..(*request.call).clone() });
                request.call.attempts.hand_over(&call.attempts);
                answered = Box::pin(upstream.call(&call, deadline, event_sender)).await;
                call.attempts.hand_over(&request.call.attempts);
            }
        }
        let answered = answered.map(|response| request.checked(response));
        let reply = answered.as_ref().map(|response| response.body.as_buffered());
        let end = request.end(reply);
        self.published.recorder.ended(request, server, end);
        match answered {
            Ok(response) => Ok((response, end)),
            Err(source) => Err(failed_at(upstream, request.tool(), source)),
        }
    }

    /// Enables a disconnected server again.
    pub async fn connect(&self, server: &str, timeout: Option<Duration>) -> Result<ServerStatus, Error> {
        let upstream = self.snapshot().server(server)?.upstream.clone();
        let deadline = Instant::now() + timeout.unwrap_or(upstream.config().timeout);
        upstream.connect(deadline).await.map_err(|source| failed_at(&upstream, None, source))?;
        self.status_after_updates(server).await
    }

    /// Ends the connections to a server, and does not contact it until [`Manager::connect`] or
    /// [`Manager::reconnect`]. Its offer stays known, and calls to it are refused.
    pub async fn disconnect(&self, server: &str) -> Result<ServerStatus, Error> {
        let upstream = self.snapshot().server(server)?.upstream.clone();
        upstream.disconnect().await.map_err(|source| failed_at(&upstream, None, source))?;
        self.server(server)
    }

    /// Drops the connections to a server, opens a new one and reads the offer again.
    pub async fn reconnect(&self, server: &str, timeout: Option<Duration>) -> Result<ServerStatus, Error> {
        let upstream = self.snapshot().server(server)?.upstream.clone();
        let deadline = Instant::now() + timeout.unwrap_or(upstream.config().timeout);
        upstream.reconnect(deadline).await.map_err(|source| failed_at(&upstream, None, source))?;
        self.status_after_updates(server).await
    }

    /// Returns the status of a server, including the lists that were just read.
    async fn status_after_updates(&self, server: &str) -> Result<ServerStatus, Error> {
        self.catch_up().await;
        self.server(server)
    }

    /// Waits until everything that the servers reported before is published.
    async fn catch_up(&self) {
        let (done, published) = oneshot::channel();
        if self.orders.send(Order::CatchUp(done)).await.is_ok() {
            let _ = published.await; // an error says that the program ends
        }
    }

    /// Approves the current definitions of a server, so that blocked tools are offered again. The server also
    /// gets names that another server had before. Approving a trusted definition changes nothing.
    pub async fn approve(&self, server: &str, approval: Approval<'_>) -> Result<ServerStatus, Error> {
        let upstream = Arc::clone(&self.snapshot().server(server)?.upstream);
        let gone = || failed_at(&upstream, None, upstream::Error::Unavailable { state: "shutting down" });
        let (done, outcome) = oneshot::channel();
        let chosen = [approval.tool, approval.sha256, approval.previous_owner];
        let [tool, sha256, previous_owner] = chosen.map(|text| text.map(str::to_owned));
        let order = Order::Approve(Approve { server: server.to_owned(), tool, sha256, previous_owner, done });
        self.orders.send(order).await.map_err(|_| gone())?;
        outcome.await.map_err(|_| gone())??;
        self.server(server)
    }

    /// Closes the breaker of a server.
    pub fn reset_breaker(&self, server: &str) -> Result<ServerStatus, Error> {
        self.snapshot().server(server)?.upstream.reset_breaker();
        self.server(server)
    }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;
