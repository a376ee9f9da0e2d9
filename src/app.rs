//! Builds all parts of the program, runs them, and shuts them down.
//!
//! ```text
//! config ─► Manager ─► Gateway ─► Endpoint ─┐
//!                └──────► admin router ─────┴─► HttpService ─► listener
//! ```
//!
//! Shutdown has an order. Readiness is off first, while clients are still served for the shutdown delay. Then no
//! connections are accepted, streams end, and running calls may finish within the drain time. Last, connections to
//! servers are closed and child processes are ended.
//!
//! Not here: the work of each part.

mod authorization_server;
mod http;
mod logins;
mod reload;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::stream::{Stream, StreamExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;

use crate::config::Config;
use downstream::config::Transport;
use downstream::guard::Guard;
use downstream::listener::{self, ListeningSockets};
use downstream::listening_sockets::SocketCounts;
use downstream::sessions::Sessions;
use downstream::stdio;
use downstream::tls::Certificates;
use gateway::LoginPages;
use gateway::manager::{Manager, Scope};
use runtime::shutdown::Shutdown;
use runtime::worker::Workers;
use runtime::{memory, telemetry};

#[cfg(feature = "program")]
pub(crate) use authorization_server::check as check_authorization_server;
pub(crate) use http::OPENAPI;
#[cfg(feature = "program")]
pub use reload::Load;
pub use reload::Renewal;
#[cfg(feature = "program")]
pub use watch::WatchedFile;

/// Time to close connections and end children after the calls have ended. Children are asked twice, with pauses, before
/// they are killed.
pub(crate) const CLOSE_TIME: Duration = Duration::from_secs(8);

/// Limit of connections that wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 4_096;

/// Time for cancelled calls to end.
const CANCEL_TIME: Duration = Duration::from_millis(500);

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server's configuration cannot be used.
    #[error("{0}")]
    Server(#[from] upstream::Error),
    /// Keys could not be read.
    #[error("{0}")]
    Keys(#[from] auth::Error),
    /// The authorization server cannot be opened.
    #[error("{0}")]
    AuthorizationServer(#[from] authorization_server::Error),
    /// The certificate of the listener cannot be used.
    #[error("{0}")]
    Tls(#[from] downstream::tls::Error),
    /// The system gave no threads.
    #[error("cannot start the threads that serve clients: {0}; set fewer `workers` under `server:`")]
    Workers(io::Error),
    /// The address is in use, or does not belong to this machine.
    #[error("cannot listen on {address}: {reason}; {}choose another address with --listen", advice(.reason))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        reason: io::Error,
    },
}

/// The action against the reason why an address cannot be used, besides another address.
fn advice(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::AddrInUse => "`switchyard doctor` names the program that has it, or ",
        io::ErrorKind::PermissionDenied => "ports below 1024 need the capability CAP_NET_BIND_SERVICE, or ",
        _ => "",
    }
}

/// Returns all HTTP routes for one manager, with the checks of requests: MCP, REST, health and documentation.
///
/// Use it to mount Switchyard in an axum application. Streams end when `shutdown` begins. It reads key files and blocks
/// meanwhile. There is no authorization server in it: `server.authorization_server` is for `switchyard serve`.
pub fn router(
    manager: &Arc<Manager>,
    config: &downstream::Config,
    shutdown: &Shutdown,
) -> Result<Router, Error> {
    Ok(mounted(Guard::new(config)?, manager, config, shutdown))
}

/// Returns the routes of [`router`] for a program that authenticates requests itself. Each request needs a
/// [`Principal`] among its extensions. Without one it is answered with 401, except on public routes (health,
/// documentation).
///
/// Keys and tokens of `config` are ignored. Principals with the same id and role are the same client.
///
/// [`Principal`]: auth::Principal
pub(crate) fn router_for_principals(
    manager: &Arc<Manager>,
    config: &downstream::Config,
    shutdown: &Shutdown,
) -> Result<Router, Error> {
    Ok(mounted(Guard::of_host(config)?, manager, config, shutdown))
}

fn mounted(guard: Guard, manager: &Arc<Manager>, config: &downstream::Config, shutdown: &Shutdown) -> Router {
    let steps = ShutdownSteps { edge: shutdown.clone(), leaving: shutdown.clone() };
    let sockets = SocketCounts::default(); // those of the host are not counted
    if config.authorization_server.is_some() {
        tracing::warn!("`server.authorization_server` has no effect in a program that embeds Switchyard");
    }
    let options = admin::Options::default();
    http::service(guard, manager, config, &steps, options, sockets, None).0.into_router()
}

/// The two steps of shutdown on the HTTP side.
struct ShutdownSteps {
    /// Begins when readiness is turned off, before the shutdown delay and the drain.
    leaving: Shutdown,
    /// Begins when no new clients are accepted.
    edge: Shutdown,
}

impl ShutdownSteps {
    fn new() -> Self {
        let edge = Shutdown::new();
        Self { leaving: edge.child(), edge }
    }
}

/// Listens on `address`. The backlog of tokio's own `bind` is short, and a burst of connections then delays all of them
/// by a second.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Otherwise a restart would have to wait until the connections of the previous process are gone.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves HTTP, and with `transport: both` also standard input and output. Returns when all tasks have ended.
///
/// The first value of `stop` begins the shutdown, and a second one ends the shutdown delay. Without a `renewal` the
/// configuration cannot be reloaded.
pub async fn serve(
    config: Config,
    renewal: Option<Renewal>,
    stop: impl Stream<Item = ()>,
) -> Result<(), Error> {
    serve_on(Vec::new(), config, renewal, stop).await
}

/// Serves like [`serve`], on `sockets` that another process opened, such as systemd. Without any it binds the address of
/// `config`.
pub async fn serve_on(
    sockets: Vec<std::net::TcpListener>,
    config: Config,
    renewal: Option<Renewal>,
    stop: impl Stream<Item = ()>,
) -> Result<(), Error> {
    let address = config.server.listen;
    let listen = |reason| Error::Listen { address, reason };
    let inherited = (!sockets.is_empty()).then(|| ListeningSockets::inherited(sockets));
    let sockets = inherited.unwrap_or_else(|| bind(address).map(ListeningSockets::from)).map_err(listen)?;
    let addresses = sockets.addresses().map_err(listen)?;
    // A port that the system chose, unless the address is one of several.
    let address = if addresses.contains(&address) { address } else { addresses[0] };
    for warning in config.limits_without_effect() {
        tracing::warn!("{warning}");
    }
    let server = downstream::Config { listen: address, ..config.server };
    let (steps, servers) = (ShutdownSteps::new(), Shutdown::new());
    memory::budget().set_limit(server.memory_budget);
    // Keys are read before any server starts, so that an unreadable key prevents the start.
    let guard = Guard::new(&server)?;
    let certificates = server.tls.as_ref().map(Certificates::read).transpose()?;
    let (vault, network) = (config.manager.vault.clone(), config.manager.network.clone());
    let manager = Manager::initialize(config.manager, &servers)?;
    let uses = authorization_server::Uses {
        manager: Arc::clone(&manager),
        authenticator: guard.authenticator(),
        browsers: guard.browser_sessions(),
        vault,
        network,
        shutdown: steps.edge.clone(),
    };
    let tokens = open_authorization(&server, uses).await?;
    let running = reload::ReloadTarget {
        manager: Arc::clone(&manager),
        authenticator: guard.authenticator(),
        certificates: certificates.clone(),
        server: server.clone(),
        fixed: config.fixed,
        loaded: reload::loaded(config.shown, &config.file),
    };
    let (of_file, counts) = (running.of_file(renewal, &steps.edge), sockets.counts().clone());
    let (http_service, sessions, pages) =
        http::service(guard, &manager, &server, &steps, of_file, counts, tokens);
    if server.transport == Transport::Both {
        serve_pipe(&manager, pages, &steps.edge, server.max_body_bytes);
    }
    let views = manager.views();
    announce(&server, &views.iter().map(|view| &**view).collect::<Vec<_>>(), &addresses);
    listener::allow_open_files(&server.limits);
    let workers = Workers::start(server.workers).map_err(Error::Workers)?.with_bulk_threads();
    if let Some(certificates) = certificates.clone() {
        steps.edge.spawn_until_end(certificates.follow());
    }
    let limits = (server.limits, steps.edge.clone());
    let serving = listener::serve_with(sockets, http_service, limits, certificates, &workers);
    run_until_drained(serving, stop, &steps, &sessions, &server).await;
    end(&manager).await;
    Ok(())
}

/// Opens the authorization server. If that fails, no server of the manager stays running.
async fn open_authorization(
    server: &downstream::Config,
    uses: authorization_server::Uses,
) -> Result<Option<authorization_server::Opened>, Error> {
    let manager = Arc::clone(&uses.manager);
    let opened = authorization_server::open(server, uses).await;
    if opened.is_err() {
        end(&manager).await;
    }
    Ok(opened?)
}

/// Serves until `stop` asks to end, then drains. Returns earlier if serving ends by itself.
async fn run_until_drained(
    serving: impl Future<Output = ()>,
    stop: impl Stream<Item = ()>,
    steps: &ShutdownSteps,
    sessions: &Sessions,
    server: &downstream::Config,
) {
    tokio::pin!(serving, stop);
    if is_asked_to_end(&mut serving, &mut stop, steps, server.shutdown_delay).await {
        drain(serving, &steps.edge, sessions, server.limits.drain_timeout).await;
    }
}

/// Logs the address, each setting that accepts clients without a credential, and each credential whose view is none of
/// `views`.
fn announce(server: &downstream::Config, views: &[&str], addresses: &[SocketAddr]) {
    for exception in server.exceptions() {
        tracing::warn!(target: telemetry::EXPOSURE, "{exception}");
    }
    for warning in server.without_view(views).into_iter().chain(server.unknown_clients()) {
        tracing::warn!("{warning}");
    }
    if let Some(remark) = server.remark_on_hosts() {
        tracing::info!("{remark}");
    }
    for address in addresses {
        tracing::info!(%address, memory_budget_bytes = server.memory_budget, "listening");
    }
    greet(server, addresses);
}

/// Tells a person at a terminal what to open and to type next.
fn greet(server: &downstream::Config, addresses: &[SocketAddr]) {
    let mut err = io::stderr().lock();
    let Some(address) = addresses.first().filter(|_| err.is_terminal()) else { return };
    let address = downstream::config::reachable(*address);
    let scheme = if server.tls.is_some() { "https" } else { "http" };
    let text = format!(
        "\n  MCP endpoint  {scheme}://{address}/mcp\n  Dashboard     {scheme}://{address}/ui/\n  Next          \
         `switchyard connect` lists the clients to connect\n\n"
    );
    // In one piece, because another thread writes the log. A terminal that is gone needs nothing.
    let _ = err.write_all(text.as_bytes());
}

/// Serves until `stop` gives a value and the shutdown delay is over. Returns false if serving ended earlier.
async fn is_asked_to_end(
    serving: &mut (impl Future<Output = ()> + Unpin),
    stop: &mut (impl Stream<Item = ()> + Unpin),
    steps: &ShutdownSteps,
    delay: Duration,
) -> bool {
    tokio::select! {
        () = &mut *serving => return false,
        () = stopped(stop) => steps.leaving.begin(),
    }
    tokio::select! {
        () = serving => false,
        () = wait_for_load_balancers(delay, stopped(stop)) => true,
    }
}

/// Accepts no new connections, waits up to `limit` for running calls, and cancels the rest.
async fn drain(serving: impl Future<Output = ()>, edge: &Shutdown, sessions: &Sessions, limit: Duration) {
    tracing::info!("draining");
    let started = Instant::now();
    edge.begin();
    serving.await;
    // Calls of legacy clients run in separate tasks, because their connection may already be gone. One limit covers
    // these calls and the connections together.
    if !edge.wait(limit.saturating_sub(started.elapsed())).await {
        tracing::warn!("calls were still running and are cancelled");
        sessions.close_all();
        edge.wait(CANCEL_TIME).await;
    }
}

/// Resolves when `stop` gives a value. A stream that has ended never gives one.
async fn stopped(stop: &mut (impl Stream<Item = ()> + Unpin)) {
    if stop.next().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Returns after `delay`, or when `hurry` resolves. During the delay, load balancers see that Switchyard is not ready.
async fn wait_for_load_balancers(delay: Duration, hurry: impl Future<Output = ()>) {
    if delay.is_zero() {
        return;
    }
    tracing::info!(shutdown_delay = ?delay, "not ready any more, clients are still served");
    // The result does not matter: serving ends either way.
    let _ = tokio::time::timeout(delay, hurry).await;
}

/// Serves one more client on standard input and output until its input ends. The process continues then, because it
/// serves others. Pending requests of the client are answered within the drain time.
fn serve_pipe(manager: &Arc<Manager>, pages: LoginPages, edge: &Shutdown, max_line: usize) {
    let (manager, end) = (Arc::clone(manager), edge.clone());
    edge.spawn(async move {
        let streams = (tokio::io::stdin(), tokio::io::stdout());
        stdio::serve((manager, Some(pages)), Scope::ALL, streams, &end, max_line).await;
    });
}

/// Serves one MCP client, which sees the servers in `scope`, on standard input and output, until its input ends or `stop`
/// resolves. Pending requests are answered first.
pub async fn stdio(config: Config, scope: Scope, stop: impl Future<Output = ()>) -> Result<(), Error> {
    memory::budget().set_limit(config.server.memory_budget);
    let (edge, servers) = (Shutdown::new(), Shutdown::new());
    // Without REST, nobody can read the history.
    let manager = Manager::initialize(config.manager.without_history(), &servers)?;
    let drain_timeout = config.server.limits.drain_timeout;
    let pages = logins::open(&manager, &edge);
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    let served = (Arc::clone(&manager), pages);
    let serving = stdio::serve(served, scope, streams, &edge, config.server.max_body_bytes);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = stop => {
            edge.begin();
            // After `stop`, a call that takes minutes must not delay the end beyond the drain time.
            let _ = tokio::time::timeout(drain_timeout, serving).await;
        }
    }
    edge.begin();
    end(&manager).await;
    Ok(())
}

async fn end(manager: &Manager) {
    if !manager.shutdown(CLOSE_TIME).await {
        tracing::warn!("some connections to servers did not close in time");
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, stream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_delay_is_as_long_as_it_says_unless_somebody_is_in_a_hurry() {
        let delay = Duration::from_secs(30);
        for (delay, hurry, expected) in [
            (Duration::ZERO, None, Duration::ZERO),
            (delay, None, delay),
            (delay, Some(Duration::from_secs(2)), Duration::from_secs(2)),
            (delay, Some(Duration::from_mins(1)), delay),
        ] {
            let started = Instant::now();
            let hurry = async move {
                match hurry {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            wait_for_load_balancers(delay, hurry).await;
            assert_eq!(started.elapsed(), expected);
        }
    }

    #[tokio::test]
    async fn a_wish_to_end_is_not_taken_for_two() {
        let mut once = stream::once(async {}).boxed();
        assert!(stopped(&mut once).now_or_never().is_some());
        assert!(stopped(&mut once).now_or_never().is_none(), "nobody is in a hurry");
    }

    #[test]
    fn readiness_ends_before_the_rest_or_with_it() {
        let steps = ShutdownSteps::new();
        steps.leaving.begin();
        assert!(!steps.edge.is_begun());
        let steps = ShutdownSteps::new();
        steps.edge.begin();
        assert!(steps.leaving.is_begun());
    }
}
