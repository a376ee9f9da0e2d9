//! Builds the login pages and the links to them, and the listener for them beside `switchyard stdio`.
//!
//! Invariants: the pages, the REST API and the gateway seal with one key, so each opens the values of the others. The
//! listener of `switchyard stdio` is on loopback and has the login pages only, no MCP and no REST. It is opened only if
//! people log in to a configured server. A link carries the only ticket to a page, and goes to the client on standard input
//! and output, so no credential is asked for. Without it, the program works as before.
//!
//! Not here: the pages (`downstream::login`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::authorization_server::Opened;
use super::bind;
use auth::Sealer;
use downstream::guard::Guard;
use downstream::http_service::HttpService;
use downstream::listener;
use downstream::login::Pages;
use gateway::LoginPages;
use gateway::login_links::{LocalHosts, LoginContext, LoginLinks};
use gateway::logins::LoginService;
use gateway::manager::Manager;
use runtime::shutdown::Shutdown;

/// The logins of `service`, with links that `sealer` seals.
pub(super) fn context(
    service: Arc<dyn LoginService>,
    sealer: &Arc<Sealer>,
    config: &downstream::Config,
) -> LoginContext {
    let links = LoginLinks::new(Arc::clone(sealer), config.public_url.clone());
    let local = LocalHosts { listen: Some(config.listen), listed: config.hosts.listed_with_port() };
    let links = Arc::new(links.over_tls(config.tls.is_some()).reached_at(local));
    LoginContext { service, links }
}

/// Builds the pages, at which people sign in for the clients of the authorization server `tokens`. Their sessions end when
/// their time is over or their credential is revoked.
pub(super) fn pages(
    guard: &Guard,
    config: &downstream::Config,
    logins: LoginContext,
    tokens: Option<&Opened>,
    shutdown: &Shutdown,
) -> Arc<Pages> {
    let mut pages = Pages::new(guard, config, logins);
    if let Some(Opened { people: Some(people), takes_keys, .. }) = tokens {
        pages = pages.with_provider(Arc::clone(people), *takes_keys);
    }
    let pages = Arc::new(pages);
    let (sessions, mut renewals) = (guard.browser_sessions(), guard.authenticator().renewals());
    let sweeper = Arc::clone(&sessions);
    shutdown.spawn_until_end(async move { sweeper.sweep_forever().await });
    shutdown.spawn_until_end(async move {
        while renewals.changed().await.is_ok() {
            sessions.sweep();
        }
    });
    pages
}

/// Opens the login pages of `manager` until `end` begins. None if nobody logs in to a server.
pub(super) fn open(manager: &Arc<Manager>, end: &Shutdown) -> Option<LoginPages> {
    let snapshot = manager.snapshot();
    let mut servers = snapshot.servers().iter();
    if !servers.any(|server| manager.per(&server.upstream.config().name).is_some()) {
        return None;
    }
    listen(manager, end)
        .inspect_err(|error| tracing::warn!(%error, "people cannot log in to servers at this process"))
        .ok()
}

fn listen(manager: &Arc<Manager>, end: &Shutdown) -> Result<LoginPages, io::Error> {
    let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let config = downstream::Config { listen: socket.local_addr()?, ..downstream::Config::default() };
    let guard = Guard::new(&config).map_err(io::Error::other)?;
    let logins = context(Arc::clone(manager) as Arc<dyn LoginService>, &Arc::new(Sealer::random()), &config);
    let elicited = LoginPages::new(Arc::clone(&logins.links), Some(config.listen.to_string()));
    let pages = pages(&guard, &config, logins, None, end);
    let service = HttpService::new(guard, pages.router());
    end.spawn(listener::serve(socket, service, config.limits, end.clone()));
    Ok(elicited)
}
