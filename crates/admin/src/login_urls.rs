//! The login pages of servers in answers about servers, for the principal of a request.
//!
//! Invariant: a principal gets only links to logins that it has to do and may do. A link carries no authority.
//!
//! Not here: the links themselves (`gateway::login_links`), and the route that makes one (`logins`).

use axum::http::HeaderMap;
use axum::http::header::HOST;

use super::view::{Server, ServerHealth};
use auth::Principal;
use gateway::Gateway;
use gateway::manager::ServerEntry;

/// The login pages of servers for one principal.
pub(super) struct LoginUrls<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) principal: &'a Principal,
    /// The headers of its request.
    pub(super) headers: &'a HeaderMap,
}

impl LoginUrls<'_> {
    /// The answer about `server`.
    pub(super) fn server(&self, server: &ServerEntry) -> Server {
        let mut shown = Server::from(server);
        shown.login_url = self.of(server);
        shown
    }

    /// Adds the page to the health of `server`.
    pub(super) fn health(&self, server: &ServerEntry, mut health: ServerHealth) -> ServerHealth {
        health.login_url = self.of(server);
        health
    }

    /// The page at which the principal logs in to `server`.
    fn of(&self, server: &ServerEntry) -> Option<String> {
        self.gateway.required_login_url(server.name(), self.principal, host(self.headers))
    }
}

/// The `Host` of a request.
pub(super) fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(HOST).and_then(|host| host.to_str().ok())
}
