//! The only place where all parts meet: built in floor order, run, and taken down again.
//!
//! ```text
//! config ─► Manager ─► Gateway ─► Endpoint ─┐
//!                └──────► admin router ─────┴─► Front ─► listener
//! ```
//!
//! Ending has an order too: readiness off and no new connections, streams end, running calls finish
//! within the drain time, then connections to servers are closed and children are gone.
//!
//! Not here: what a part does.

mod reload;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::config::Config;
use crate::downstream::config::Transport;
use crate::downstream::front::{Admitted, Front, Shortcut};
use crate::downstream::guard::Guard;
use crate::downstream::listener;
use crate::downstream::places::Places;
use crate::downstream::refusal::{Face, Refusal};
use crate::downstream::sessions::Sessions;
use crate::downstream::streamable_http::Endpoint;
use crate::downstream::{self, sse, stdio};
use crate::gateway::Gateway;
use crate::manager::Manager;
use crate::shutdown::Shutdown;
use crate::telemetry::metrics::Clients;
use crate::worker::Crew;
use crate::{admin, auth, upstream};

pub use reload::{Load, Renewal};

/// Time for closing connections and ending children, after the calls have ended. Children are asked
/// twice, with pauses, before they are killed.
const CLOSE_TIME: Duration = Duration::from_secs(8);

/// Time for cancelled calls to end.
const CANCEL_TIME: Duration = Duration::from_millis(500);
/// Time for servers to be told that calls were cancelled.
const NOTICE_TIME: Duration = Duration::from_millis(200);

/// Why the program could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server's configuration cannot be used.
    #[error("{0}")]
    Server(#[from] upstream::Error),
    /// Keys could not be read.
    #[error("{0}")]
    Keys(#[from] auth::Error),
    /// The system gave no threads.
    #[error("cannot start the threads that serve clients: {0}; set fewer `workers` under `server:`")]
    Workers(io::Error),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {reason}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        reason: io::Error,
    },
}

/// The whole HTTP side over one manager, behind the guard: MCP, REST, health and documentation.
///
/// For programs that mount it in an axum application of their own. Streams end when `shutdown`
/// begins. Blocks while key files are read.
pub fn router(
    manager: &Arc<Manager>,
    config: &downstream::Config,
    shutdown: &Shutdown,
) -> Result<Router, Error> {
    let guard = Guard::new(config)?;
    Ok(front(guard, manager, config, shutdown, None).0.into_router())
}

/// The door and all behind it, and the sessions whose calls can be cut at the end.
fn front(
    guard: Guard,
    manager: &Arc<Manager>,
    config: &downstream::Config,
    shutdown: &Shutdown,
    reload: Option<admin::Reload>,
) -> (Front, Arc<Sessions>) {
    let sessions = Sessions::new(config.max_sessions, config.session_idle_timeout);
    let sessions = Arc::new(sessions.among(Places::new(config.max_connections)));
    let sweeper = Arc::clone(&sessions);
    shutdown.spawn_until_end(async move { sweeper.sweep_for_ever().await });
    let (sweeper, mut renewals) = (Arc::clone(&sessions), guard.authenticator().renewals());
    shutdown.spawn_until_end(async move {
        while renewals.changed().await.is_ok() {
            sweeper.sweep();
        }
    });
    let gateway = Gateway::new(Arc::clone(manager), shutdown.clone());
    let (of_sessions, max_body) = (|| Arc::clone(&sessions), config.max_body_bytes);
    let endpoint = Endpoint::new(gateway.clone(), of_sessions(), shutdown.clone(), max_body);
    let old = sse::Endpoint::new(gateway, of_sessions(), shutdown.clone(), max_body);
    let door = door(of_sessions());
    let options = admin::Options { max_body, drain: shutdown.clone(), reload, door: Some(door) };
    let api = admin::Api::new(Arc::clone(manager), options.clone());
    let places = of_sessions();
    let call: Shortcut = Box::new(move |Admitted { head, body, principal, id }| {
        let place = places.place_for(principal.as_ref().map_or("", |principal| principal.id()));
        let api = api.clone();
        Box::pin(async move {
            match place {
                Ok(_place) => {
                    admin::call(api, admin::Posted { headers: head.headers, body, principal, id }).await
                }
                Err(full) => Refusal::Full { most: full.most }.response(Face::Rest, id),
            }
        })
    });
    let rest = admin::router(Arc::clone(manager), options).merge(old.router());
    (Front::with(guard, Some(endpoint), vec![(admin::CALL, call)], rest), sessions)
}

/// Who counts the clients.
fn door(sessions: Arc<Sessions>) -> admin::Door {
    Arc::new(move || Clients {
        clients: sessions.clients(),
        sessions: sessions.count(),
        kept_bytes: sessions.kept_bytes(),
    })
}

/// Serves HTTP, and with `transport: both` standard input and output too, until `stop` resolves, and returns when nothing is left running. Without a `renewal` the
/// configuration stays as it is.
pub async fn serve(
    config: Config,
    renewal: Option<Renewal>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let address = config.server.listen;
    let listen = |reason| Error::Listen { address, reason };
    let socket = TcpListener::bind(address).await.map_err(listen)?;
    let bound = socket.local_addr().map_err(listen)?;
    let (edge, servers) = (Shutdown::new(), Shutdown::new());
    // Before any server is started: keys that cannot be read stop the start.
    let guard = Guard::new(&config.server)?;
    let manager = Manager::initialize(config.manager, &servers)?;
    let authenticator = guard.authenticator();
    let reload = renewal.map(|Renewal { load, wanted }| {
        let server = downstream::Config { listen: bound, ..config.server.clone() };
        let running =
            reload::Running { manager: Arc::clone(&manager), authenticator, server, fixed: config.fixed };
        let reload = running.reloading(load, &edge);
        edge.spawn_until_end(reload::follow(wanted, Arc::clone(&reload)));
        reload
    });
    let (front, sessions) = front(guard, &manager, &config.server, &edge, reload);
    if config.server.transport == Transport::Both {
        serve_pipe(&manager, &edge, config.server.max_body_bytes);
    }
    tracing::info!(address = %bound, "listening");
    let limits = config.server.limits;
    listener::allow_open_files(&limits);
    let crew = Crew::start(config.server.workers).map_err(Error::Workers)?;
    let serving = listener::serve_with(socket, front, (limits, edge.clone()), &crew);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = stop => {
            tracing::info!("draining");
            let begun = Instant::now();
            edge.begin();
            serving.await;
            // Calls of legacy clients run in tasks of their own: their connection may be gone
            // already. The limit is one for all of them and for the connections together.
            if !edge.wait(limits.drain_timeout.saturating_sub(begun.elapsed())).await {
                tracing::warn!("calls were still running and are cancelled");
                sessions.close_all();
                edge.wait(CANCEL_TIME).await;
                // Servers are told beside the calls; closing their connections ends that too.
                tokio::time::sleep(NOTICE_TIME).await;
            }
        }
    }
    end(&manager).await;
    Ok(())
}

/// Serves one more client on standard input and output, until its input ends. That ends the client and not
/// the program, which others use; what it asked is answered within the drain time.
fn serve_pipe(manager: &Arc<Manager>, edge: &Shutdown, max_line: usize) {
    let (manager, end) = (Arc::clone(manager), edge.clone());
    edge.spawn(async move {
        stdio::serve(manager, tokio::io::stdin(), tokio::io::stdout(), &end, max_line).await;
    });
}

/// Serves one MCP client on standard input and output, until its input ends or `stop` resolves;
/// what it asked is answered before.
pub async fn stdio(config: Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let (edge, servers) = (Shutdown::new(), Shutdown::new());
    let manager = Manager::initialize(config.manager, &servers)?;
    let drain_timeout = config.server.limits.drain_timeout;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let serving = stdio::serve(Arc::clone(&manager), input, output, &edge, config.server.max_body_bytes);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        () = stop => {
            edge.begin();
            // Whoever asked to stop does not wait for a call that takes minutes.
            let _ = tokio::time::timeout(drain_timeout, serving).await;
        }
    }
    end(&manager).await;
    Ok(())
}

async fn end(manager: &Manager) {
    if !manager.shutdown(CLOSE_TIME).await {
        tracing::warn!("some connections to servers did not close in time");
    }
}
