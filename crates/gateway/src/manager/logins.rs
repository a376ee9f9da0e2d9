//! The logins to servers: whether one is done, and its effect on connections.
//!
//! Not here: the protocol (crate `oauth`), and pages for people (`downstream`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::registry::Order;
use super::{Error, Manager, Revisions, Scope, Snapshot, Viewer};
use crate::logins::{
    CodeResponse, Consent, ErrorResponse, LoginError, LoginService, LoginState, LoginStatus, OwnClient, Per,
    SealState,
};
use auth::Principal;
use oauth::{AuthorizationResponse, Logins, Pending};
use upstream::{State, Upstream};

/// How often a server that reconnects after a login is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Manager {
    /// Whether a server may need a login, or a secret of each principal.
    pub(crate) fn has_logins(&self) -> bool {
        self.published.has_logins.load(Ordering::Relaxed)
    }

    /// The logins to `server`, if it needs one.
    pub fn logins(&self, server: &str) -> Option<Arc<Logins>> {
        self.upstream_of(server)?.logins()
    }

    /// Whether `principal` has to log in to `server` before it is of use.
    pub(crate) fn requires_login(&self, server: &str, principal: &Principal) -> bool {
        self.logins(server)
            .is_some_and(|logins| logins.status(Some(principal.id())).state == LoginState::LoginRequired)
    }

    /// The error for a call of the login tool of `server`.
    pub(crate) fn login_required(&self, server: &str) -> Error {
        match self.snapshot().server(server) {
            Ok(server) => server.login_required(),
            Err(unknown) => unknown,
        }
    }

    fn upstream_of(&self, server: &str) -> Option<Arc<Upstream>> {
        self.snapshot().server(server).ok().map(|server| Arc::clone(&server.upstream))
    }

    /// Resolves when `principal` can use `server`: it is logged in, the server is connected again, and its tools are in
    /// the catalog.
    pub async fn logged_in(&self, server: &str, principal: &Principal) {
        let Some(logins) = self.logins(server) else { return };
        logins.account(Some(principal.id())).renewed().await;
        if logins.is_per_principal() {
            return;
        }
        let is_waiting = |upstream: Arc<Upstream>| {
            matches!(upstream.status().state, State::LoginRequired | State::Connecting)
        };
        while self.upstream_of(server).is_some_and(is_waiting) {
            sleep(LOOK_EVERY).await;
        }
        // A server is ready a moment before its offer is published.
        self.catch_up().await;
    }

    /// Has clients compare their lists again: a login shows or hides a login tool.
    pub(super) async fn announce(&self) {
        // An error says that the program ends.
        let _ = self.orders.send(Order::Announce).await;
    }

    /// Ends the connections that use the login which `principal` uses, because it belongs to another account now or to
    /// none.
    async fn login_changed(&self, server: &str, principal: &Principal) {
        let Some(upstream) = self.upstream_of(server) else { return };
        if upstream.config().is_per_principal() {
            upstream.login_changed(principal.id());
        } else if upstream.status().state == State::Ready {
            // The result does not matter: the state of the server says what happened.
            let _ =
                upstream.reconnect(Instant::now() + upstream::first_attempt_limit(upstream.config())).await;
        }
    }
}

impl Manager {
    /// Returns how often the lists that `principal` sees have changed, with the changes that its logins make.
    pub(crate) fn revisions(&self, viewer: Viewer<'_>, principal: &Principal) -> Revisions {
        let snapshot = self.seen_by(viewer.affinity);
        snapshot.revisions(viewer.scope).without_logins(&self.hidden_logins(
            &snapshot,
            viewer.scope,
            principal,
        ))
    }

    /// Returns the servers in `scope` whose login tool `snapshot` lists, and to which `principal` is logged in.
    pub fn hidden_logins(&self, snapshot: &Snapshot, scope: &Scope, principal: &Principal) -> Vec<Arc<str>> {
        listed_logins(snapshot, scope, |server| !self.requires_login(server, principal))
    }

    /// Returns the servers in `scope` that wait for the first login of `principal`.
    pub(crate) fn awaited_logins(
        &self,
        snapshot: &Snapshot,
        scope: &Scope,
        principal: &Principal,
    ) -> Vec<Arc<str>> {
        listed_logins(snapshot, scope, |server| self.requires_login(server, principal))
    }
}

/// Returns the servers in `scope` that list a login tool, as far as they are meant.
fn listed_logins(snapshot: &Snapshot, scope: &Scope, is_meant: impl Fn(&str) -> bool) -> Vec<Arc<str>> {
    let listed = snapshot.servers_in(scope).iter().filter(|server| server.lists_login());
    let names = listed.map(|server| &server.upstream.config().name);
    names.filter(|name| is_meant(name)).cloned().collect()
}

fn parsed(pending: &str) -> Result<Pending, LoginError> {
    let unknown = || LoginError::Refused("the login was not started here; start it again".to_owned());
    Pending::parse(pending).ok_or_else(unknown)
}

impl LoginService for Manager {
    fn per(&self, server: &str) -> Option<Per> {
        let logins = self.logins(server).filter(|logins| logins.is_interactive())?;
        Some(logins.per())
    }

    fn start<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        own: &'a OwnClient,
        seal: SealState<'a>,
    ) -> BoxFuture<'a, Result<Consent, LoginError>> {
        async move {
            let logins = self.logins(server).ok_or(LoginError::NotOffered)?;
            let seal = |pending: &Pending| seal(&pending.to_string());
            Ok(logins.start(principal.id(), own, seal).await?)
        }
        .boxed()
    }

    fn finish<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
        pending: &'a str,
        response: CodeResponse<'a>,
    ) -> BoxFuture<'a, Result<LoginStatus, LoginError>> {
        async move {
            let logins = self.logins(server).ok_or(LoginError::NotOffered)?;
            let pending = parsed(pending)?;
            let response = AuthorizationResponse {
                code: Some(response.code.into()),
                iss: response.iss.map(str::to_owned),
                ..AuthorizationResponse::default()
            };
            let before = logins.status(Some(principal.id()));
            let was_required = before.state == LoginState::LoginRequired;
            if was_required {
                // Before the login no connection is made. After it, calls that waited for it are running.
                self.login_changed(server, principal).await;
            }
            let status = logins.finish(principal.id(), pending, &response).await?;
            if let Some(upstream) = self.upstream_of(server) {
                upstream.login_succeeded();
            }
            // A login with more scopes does not disturb running calls.
            if !was_required && (before.account.is_none() || before.account != status.account) {
                self.login_changed(server, principal).await;
            }
            self.announce().await;
            Ok(status)
        }
        .boxed()
    }

    fn abandon(
        &self,
        server: &str,
        principal: &Principal,
        pending: &str,
        response: ErrorResponse<'_>,
    ) -> Result<(), LoginError> {
        let logins = self.logins(server).ok_or(LoginError::NotOffered)?;
        let response = AuthorizationResponse {
            error: Some(response.error.to_owned()),
            error_description: response.description.map(str::to_owned),
            iss: response.iss.map(str::to_owned),
            ..AuthorizationResponse::default()
        };
        Ok(logins.abandon(principal.id(), parsed(pending)?, &response)?)
    }

    fn log_out<'a>(
        &'a self,
        server: &'a str,
        principal: &'a Principal,
    ) -> BoxFuture<'a, Result<(), LoginError>> {
        async move {
            let logins = self.logins(server).ok_or(LoginError::NotOffered)?;
            logins.log_out(Some(principal.id())).await?;
            self.login_changed(server, principal).await;
            self.announce().await;
            Ok(())
        }
        .boxed()
    }

    fn status(&self, server: &str, principal: &Principal) -> Option<LoginStatus> {
        Some(self.logins(server)?.status(Some(principal.id())))
    }
}

impl From<oauth::Error> for LoginError {
    fn from(error: oauth::Error) -> Self {
        match error {
            oauth::Error::Later { reason, retry_after } => Self::Later { reason, retry_after },
            other => Self::Refused(other.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "logins_tests.rs"]
mod tests;
