//! The login pages of `switchyard stdio`, which has no other listener.
//!
//! Invariants: the listener is on loopback and has the login pages only, no MCP and no REST. It is opened only if people
//! log in to a configured server. A link carries the only ticket to a page, and goes to the client on standard input and
//! output, so no credential is asked for. Without it, the program works as before.
//!
//! Not here: the pages (`downstream::login`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::{bind, logins};
use auth::Sealer;
use downstream::guard::Guard;
use downstream::http_service::HttpService;
use downstream::listener;
use gateway::LoginPages;
use gateway::logins::LoginService;
use gateway::manager::Manager;
use runtime::shutdown::Shutdown;

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
    let logins =
        logins::context(Arc::clone(manager) as Arc<dyn LoginService>, &Arc::new(Sealer::random()), &config);
    let elicited = LoginPages::new(Arc::clone(&logins.links), Some(config.listen.to_string()));
    let pages = logins::pages(&guard, &config, logins, end);
    let service = HttpService::with(guard, None, Vec::new(), pages.router());
    end.spawn(listener::serve(socket, service, config.limits, end.clone()));
    Ok(elicited)
}
