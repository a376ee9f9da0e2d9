//! Builds the login pages and the links to them.
//!
//! Invariant: the pages, the REST API and the gateway seal with one key, so each opens the values of the others.

use std::sync::Arc;

use auth::Sealer;
use downstream::guard::Guard;
use downstream::login::Pages;
use gateway::login_links::{LocalHosts, LoginContext, LoginLinks};
use gateway::logins::LoginService;
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

/// Builds the pages, whose sessions end when their time is over or their credential is revoked.
pub(super) fn pages(
    guard: &Guard,
    config: &downstream::Config,
    logins: LoginContext,
    shutdown: &Shutdown,
) -> Arc<Pages> {
    let pages = Arc::new(Pages::new(guard, config, logins));
    let (sessions, mut renewals) = (pages.sessions(), guard.authenticator().renewals());
    let sweeper = Arc::clone(&sessions);
    shutdown.spawn_until_end(async move { sweeper.sweep_forever().await });
    shutdown.spawn_until_end(async move {
        while renewals.changed().await.is_ok() {
            sessions.sweep();
        }
    });
    pages
}
