//! Which server has had each name and URI, carried from one snapshot to the next.
//!
//! Invariants: only an operator gives a name or URI to another server. That is by an approval, by a `rename` in the
//! configuration file, or by removing or forgetting the server that had it. Each name that would move is logged once.
//!
//! Not here: the memory itself (`owners`), and how names are made (`naming`).

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::{Revisions, Server, Snapshot};
use crate::manager::catalog::{History, LoginTool, MovedName};
use crate::manager::config::Config;
use crate::manager::known::{Known, OwnedNames};
use crate::manager::trust::Approval;
use crate::manager::{Error, failed_at};
use protocol::feature::{Kind, List};
use runtime::telemetry::audit::{self, Full};
use upstream::State;

/// Moved names of one snapshot that are logged at most.
const MAX_LOGGED: usize = 20;

impl History {
    /// Adds the names that servers had in an earlier run.
    pub(in crate::manager) fn restore<'a>(&mut self, known: impl Iterator<Item = (&'a Arc<str>, &'a Known)>) {
        for (server, Known { names, .. }) in known {
            self.tools.restore(server, &names.tools);
            self.prompts.restore(server, &names.prompts);
            Arc::make_mut(&mut self.uris).restore(server, &names.uris);
        }
    }
}

impl Snapshot {
    /// The names of a server, to be remembered.
    pub(in crate::manager) fn names_of(&self, server: &str) -> OwnedNames {
        let History { tools, prompts, uris } = &*self.history;
        OwnedNames {
            tools: tools.names_of(server),
            prompts: prompts.names_of(server),
            uris: uris.names_of(server),
        }
    }

    /// The history without servers that are gone and without names that the operator gives in `config`.
    pub(super) fn kept_history(&self, config: &Config, forgotten: Option<&str>) -> History {
        let mut history = History::clone(&self.history);
        let names = config.names();
        let is_there = |name: &str| forgotten != Some(name) && names.contains(name);
        history.tools.retain(is_there);
        history.prompts.retain(is_there);
        Arc::make_mut(&mut history.uris).retain(is_there);
        for server in &config.servers {
            let renamed = server.tools.rename.values();
            for name in renamed.flat_map(|name| [name.clone(), name.replace('.', "_")]) {
                let name = name.as_str();
                if !history.tools.is_free_for(name, &server.name) {
                    history.tools.release(name);
                }
            }
        }
        history
    }

    /// Lets `server` have what another server had before: the name of one tool, or all names and URIs. The name of a
    /// tool that was approved by its definition moves only from the server that the operator saw.
    pub(super) fn release_names(&mut self, server: &str, approval: Approval<'_>) {
        let Approval { tool, sha256, previous_owner } = approval;
        let is_seen = |owner: &str| sha256.is_none() || previous_owner == Some(owner);
        let is_wanted = |(owner, subject): (&Arc<str>, &str)| {
            owner.as_ref() == server && tool.is_none_or(|tool| tool == subject)
        };
        let history = Arc::make_mut(&mut self.history);
        let tools = self.catalog.moved(Kind::Tools).filter(|moved| is_wanted(moved.route));
        for moved in tools.filter(|moved| is_seen(moved.owner)) {
            history.tools.release(moved.name);
            // Its own spelling, if that has dots.
            if history.tools.owner(moved.route.1) == Some(moved.owner) {
                history.tools.release(moved.route.1);
            }
        }
        for moved in self.catalog.moved(Kind::Prompts).filter(|_| tool.is_none()) {
            if is_wanted(moved.route) {
                history.prompts.release(moved.name);
            }
        }
        for kind in [Kind::Resources, Kind::Templates, Kind::Skills].into_iter().filter(|_| tool.is_none()) {
            for moved in self.catalog.moved(kind).filter(|moved| is_wanted(moved.route)) {
                Arc::make_mut(&mut history.uris).release(moved.name);
            }
        }
    }

    /// Logs the names that another server had before, less those that were so `before` already. If the audit log is
    /// full, this fails and is to be repeated.
    pub(in crate::manager) fn log_moved_names(&self, before: Option<&Self>) -> Result<(), Full> {
        for kind in Kind::ALL {
            let known: HashSet<MovedName<'_>> =
                before.into_iter().flat_map(|before| before.catalog.moved(kind)).collect();
            let new = self.catalog.moved(kind).filter(|moved| !known.contains(moved));
            for moved in new.take(MAX_LOGGED) {
                audit::name_moved(moved.route.0, moved.name, moved.owner, moved.exposed)?;
            }
        }
        Ok(())
    }
}

// Servers that wait for their first login, and have one tool instead of their own.
//
// Invariants: a server with an offer lists its own tools, also while it waits for another login. The tool stays
// understood after the login. A principal that is logged in does not see it, even before its own tools were read.

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
