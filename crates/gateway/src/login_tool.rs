//! `login_to_NAME`: the tool of a server that waits for its first login, and the links in `instructions`.
//!
//! ```text
//! login required ─► the link: elicitation where the client can, else the text of the result
//! logged in      ─► a text: the tools of the server are listed now
//! ```
//!
//! Invariants: nothing is sent to the server. A principal gets a link only if it may log in; others get a text that says
//! who may. A link is sealed and not kept, so calls of the tool cost no memory.
//!
//! Not here: which server has the tool, and its name (`manager::catalog`), the elicitation (`login_elicitation`).

use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::{Gateway, era, error};
use crate::logins::Per;
use crate::manager::{CallResponse, ItemKind, Scope, Viewer};
use auth::Principal;
use json::Raw;
use protocol::{ErrorObject, Request};
use upstream::Affinity;

/// Servers whose links are written out in `instructions`. Language models read all of it at every start.
const MAX_LINKS: usize = 8;

impl Gateway {
    /// Answers a call of the login tool of `server`. The error asks for the login (`login_elicitation`).
    pub(super) fn call_login(&self, caller: &Caller, server: &str) -> Result<Raw, ErrorObject> {
        if !self.manager.requires_login(server, &caller.principal) {
            return Ok(answer(caller, &logged_in(server), false));
        }
        Err(error::object(&self.manager.login_required(server), caller.version.era()))
    }

    /// Whether `request` calls a login tool.
    pub(super) fn calls_login(&self, caller: &Caller, request: &Request) -> bool {
        let name = request.params.as_ref().and_then(|params| params.text("name"));
        name.is_some_and(|name| self.login_behind(caller.viewer(), &name).is_some())
    }

    /// The server whose login tool `viewer` calls `name`.
    fn login_behind(&self, viewer: Viewer<'_>, name: &str) -> Option<Arc<str>> {
        let route = self.manager.seen_by(viewer.affinity).route(viewer.scope, ItemKind::Tool, name).ok()?;
        route.is_login.then(|| Arc::clone(&route.server))
    }

    /// Answers the call of a program, if `tool` is a login tool. `host` is the `Host` of its request.
    pub fn login_called(
        &self,
        principal: &Principal,
        (scope, tool): (&Scope, &str),
        host: Option<&str>,
    ) -> Option<CallResponse> {
        if !self.manager.has_logins() {
            return None;
        }
        let affinity = Affinity::of_program(Arc::clone(principal.id()), None).through(scope.view.clone());
        let server = self.login_behind(Viewer { scope, affinity: Some(&affinity) }, tool)?;
        let (text, is_error) = match self.login_url(&server, principal, host) {
            _ if !self.manager.requires_login(&server, principal) => (logged_in(&server), false),
            Ok(url) => (link_text(&server, &url), false),
            Err(instead) => (instead, true),
        };
        let reply = Ok(result(&text, is_error));
        Some(CallResponse { server, subject: tool.into(), reply, elapsed: Duration::ZERO })
    }

    /// The page at which `principal` logs in to `server`, if it has to and may. `host` is the `Host` of its request.
    pub fn required_login_url(
        &self,
        server: &str,
        principal: &Principal,
        host: Option<&str>,
    ) -> Option<String> {
        let is_required = self.manager.has_logins() && self.manager.requires_login(server, principal);
        is_required.then(|| self.login_url(server, principal, host).ok()).flatten()
    }

    /// The logins that servers wait for, for `instructions`. None if there are none.
    pub(super) fn login_instructions(&self, caller: &Caller) -> Option<String> {
        let snapshot = self.manager.seen_by(Some(&caller.affinity));
        let servers = self.manager.awaited_logins(&snapshot, &caller.scope, &caller.principal);
        if servers.is_empty() {
            return None;
        }
        let line = |server: &Arc<str>| match self.login_url(server, &caller.principal, None) {
            Ok(url) => format!("- {server}: {url}"),
            Err(instead) => format!("- {server}: {instead}"),
        };
        let mut lines: Vec<String> = servers.iter().take(MAX_LINKS).map(line).collect();
        if servers.len() > MAX_LINKS {
            lines.push(format!("- {} more: call their tools", servers.len() - MAX_LINKS));
        }
        Some(format!(
            "These servers wait for a login. Give the user the link. It lasts ten minutes; the tool `login_to_…` of the server gives a new one.\n{}",
            lines.join("\n")
        ))
    }
}

/// The result of a login tool, for `caller`.
pub(super) fn answer(caller: &Caller, text: &str, is_error: bool) -> Raw {
    let result = result(text, is_error);
    if caller.version.is_modern() { era::own(caller, &result) } else { result }
}

fn result(text: &str, is_error: bool) -> Raw {
    let content = Raw::of(&[serde_json::json!({"type": "text", "text": text})]);
    let result = Raw::empty_object().with("content", &content);
    if is_error { result.with("isError", &Raw::of(&true)) } else { result }
}

/// The text with the link.
pub(super) fn link_text(server: &str, url: &str) -> String {
    format!(
        "Open this page in a browser to log in to {server}: {url}\nThe link lasts ten minutes. After the login, the tools of {server} are in the list of tools."
    )
}

fn logged_in(server: &str) -> String {
    format!("You are logged in to {server}. Its tools are in the list of tools: read the list again.")
}

/// The principals that may log in to `server`.
pub(super) fn who_may(server: &str, per: Per) -> String {
    match per {
        Per::Shared => format!(
            "the login to {server} is used by everybody here, so only an operator (role superuser) may log in: ask one to run `switchyard login {server}`"
        ),
        Per::Principal => format!("a login to {server} needs a credential with the role caller"),
    }
}
