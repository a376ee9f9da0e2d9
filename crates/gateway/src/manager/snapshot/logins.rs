//! Servers that wait for their first login, and have one tool instead of their own.
//!
//! Invariants: a server with an offer lists its own tools, also while it waits for another login. The tool stays
//! understood after the login. A principal that is logged in does not see it, even before its own tools were read.
//!
//! Not here: the tool and its name (`catalog::login_tool`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::super::catalog::LoginTool;
use super::super::config::Config;
use super::{Revisions, Server, Snapshot};
use crate::manager::{Error, failed_at};
use protocol::feature::List;
use upstream::State;

impl Snapshot {
    /// Whether a server may need a login, or a secret of each principal.
    pub(in crate::manager) fn has_logins(&self) -> bool {
        let mut upstreams = self.servers.iter().map(|server| &server.upstream);
        upstreams.any(|upstream| upstream.logins().is_some() || upstream.config().is_per_principal())
    }

    /// Returns the snapshot after `name` came into `state`, if that changes whether it waits for a login.
    pub(in crate::manager) fn with_state(&self, config: &Config, name: &str, state: State) -> Option<Self> {
        let server = self.server_called(name)?;
        let is_waiting = state == State::LoginRequired && server.offer.is_none();
        if server.waits_for_login() == is_waiting {
            return None;
        }
        let login = server.login_tool(is_waiting)?;
        let mut next = self.clone();
        let server = Arc::make_mut(&mut next.servers[self.by_name[name]]);
        (server.settled, server.login) = (true, Some(Arc::new(login)));
        server.read_offer(config, None);
        next.merge(config);
        Some(next)
    }
}

impl Server {
    /// Whether it waits for its first login.
    fn waits_for_login(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_waiting)
    }

    /// Whether its login tool is listed.
    pub(in crate::manager) fn lists_login(&self) -> bool {
        self.offer.is_none() && self.waits_for_login()
    }

    /// The error for a call of its login tool.
    pub(in crate::manager) fn login_required(&self) -> Error {
        let reason = "a person has to log in to it".to_owned();
        failed_at(&self.upstream, None, upstream::Error::LoginRequired { reason, only_this_call: false })
    }

    fn login_tool(&self, is_waiting: bool) -> Option<LoginTool> {
        if let Some(login) = &self.login {
            return Some(login.waiting(is_waiting));
        }
        let logins = self.upstream.logins().filter(|logins| logins.is_interactive())?;
        LoginTool::new(&self.upstream.config().name, logins.per())
    }
}

impl Revisions {
    /// The revisions of a client from which the login tools of `servers` are hidden. They are compared with others of that
    /// client only.
    pub(in crate::manager) fn without_logins(mut self, servers: &[Arc<str>]) -> Self {
        if !servers.is_empty() {
            let mut hasher = DefaultHasher::new();
            servers.hash(&mut hasher);
            self.0[List::Tools as usize] ^= hasher.finish() | 1;
        }
        self
    }
}
