//! A call to a server that needs a login: its client is sent to the login page.
//!
//! | client | what it gets |
//! |---|---|
//! | 2025-11-25, declares elicitation by URL | error -32042 with the page; it calls again |
//! | 2026-07-28, declares elicitation by URL | `input_required` with the page; it repeats the call with its answer |
//! | any other | for a tool a result with `isError`, else an error; both with the URL |
//!
//! Invariants: nothing was sent to the server. `accept` means that the user agreed to open the page, and not that the
//! login is done. So a repeated call waits a moment for the login, and then asks again, at most [`MAX_ROUNDS`] times. The
//! link carries no authority (`login_links`). The state of a repeated call is sealed for one principal and one request.
//!
//! Source: `client/elicitation` of 2025-11-25 and 2026-07-28. Not here: the login itself (crate `oauth`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;

use super::caller::Caller;
use super::login_links::{LIFETIME, LoginLinks};
use super::logins::{LoginService, Per};
use super::manager::{CallResponse, ItemKind, Scope, Viewer};
use super::{Gateway, era, error, params, questions};
use auth::Principal;
use json::Raw;
use protocol::{Abilities, ErrorCode, ErrorObject, Notification, Reply, Request, Version, method};
use upstream::{Affinity, EventSender, ResponseBody};

/// How often one call asks for the same login.
const MAX_ROUNDS: u8 = 10;
/// How long a repeated call waits for the login to be done.
const LOGIN_WAIT: Duration = Duration::from_secs(20);
/// Limit of clients that are notified when a login is done. Others call again.
const MAX_LOGIN_WATCHERS: usize = 1_024;
/// The key of the question in `inputRequests`.
const KEY: &str = "login";
/// The notification that an elicitation is complete (2025-11-25).
const COMPLETE: &str = "notifications/elicitation/complete";

/// The links to the login pages, and the clients that wait for a login.
pub struct LoginPages {
    links: Arc<LoginLinks>,
    /// The address of the listener, for a browser on this machine.
    local_host: Option<String>,
    watchers: Arc<Semaphore>,
}

impl LoginPages {
    /// Pages at `links`. `local_host` is the address of a listener on loopback.
    pub fn new(links: Arc<LoginLinks>, local_host: Option<String>) -> Self {
        Self { links, local_host, watchers: Arc::new(Semaphore::new(MAX_LOGIN_WATCHERS)) }
    }
}

/// The content of the sealed state of a repeated call.
#[derive(Serialize, Deserialize)]
struct State {
    server: String,
    round: u8,
}

/// A request whose client was asked for a login before.
struct RepeatedRequest {
    /// The request without the answer.
    request: Request,
    round: u8,
}

/// A login that a request needs.
struct RequiredLogin {
    server: String,
    url: String,
    text: String,
}

/// Whether `request` has a state that it returns, which may be that of a login.
pub(super) fn may_repeat(caller: &Caller, request: &Request) -> bool {
    caller.version.is_modern()
        && request.params.as_ref().is_some_and(|params| params.get("requestState").is_some())
}

impl Gateway {
    /// Answers one request that may repeat an earlier one, whose client was asked for a login ([`may_repeat`]).
    pub(super) async fn handle_repeated(
        &self,
        caller: &Caller,
        request: &Request,
        event_sender: &EventSender,
    ) -> ResponseBody {
        let repeated = self.repeated(caller, request).await;
        let (request, round) = match &repeated {
            Some(repeated) => (&repeated.request, repeated.round),
            None => (request, 0),
        };
        match self.answer(caller, request, event_sender).await {
            ResponseBody::Buffered(Err(refusal)) => {
                ResponseBody::Buffered(self.with_login(caller, request, (refusal, round)))
            }
            answered => answered,
        }
    }

    /// The request that `request` repeats after its client was asked for a login; `None` if it was not asked. Waits a
    /// moment for the login.
    async fn repeated(&self, caller: &Caller, request: &Request) -> Option<RepeatedRequest> {
        let params = request.params.as_ref()?;
        let sealed: String = params.get_as("requestState")?;
        let bare = params.without("requestState").without("inputResponses");
        let purpose = purpose(&request.method, &bare);
        let opened = self.sealer.open(&purpose, &caller.principal, &sealed)?;
        let state: State = serde_json::from_slice(&opened).ok()?;
        let action =
            params.get("inputResponses").and_then(|given| given.get(KEY)?.get_as::<String>("action"));
        // A client that declined is not asked again: the call tells it what it needs.
        let round = if action.as_deref() == Some("accept") { state.round } else { MAX_ROUNDS };
        if round < MAX_ROUNDS {
            let _ = timeout(LOGIN_WAIT, self.manager.logged_in(&state.server, &caller.principal)).await;
        }
        let request = Request { params: Some(bare), ..request.clone() };
        Some(RepeatedRequest { request, round })
    }

    /// The reply to `request`, which failed with `refusal`: that of a server that needs a login asks for it.
    pub(super) fn with_login(
        &self,
        caller: &Caller,
        request: &Request,
        (refusal, round): (ErrorObject, u8),
    ) -> Reply {
        let Some(server) = required_login(&refusal) else { return Err(refusal) };
        let is_call = request.method.as_str() == method::TOOLS_CALL;
        let asks_for_login = is_call && self.calls_login(caller, request);
        let url = match self.login_url(&server, &caller.principal, None) {
            Ok(url) => url,
            Err(instead) if asks_for_login => return Ok(answer(caller, &instead, true)),
            // Its hint says what to do.
            Err(instead) => return Err(refusal.amended(|problem| problem.hint = instead.into())),
        };
        let text = format!("{}; open this page to log in, then call again: {url}", refusal.message());
        let needed = RequiredLogin { server, url, text };
        let can_open = caller.abilities().covers(Abilities::of(&questions::required_by_url()));
        if can_open && round < MAX_ROUNDS && caller.version.is_modern() {
            return Ok(self.input_required(caller, request, &needed, round));
        }
        if can_open && caller.version >= Version::V2025_11_25 && !caller.version.is_modern() {
            return Err(self.url_required(caller, &needed));
        }
        if asks_for_login {
            return Ok(answer(caller, &link_text(&needed.server, &needed.url), false));
        }
        if is_call {
            return Ok(answer(caller, &needed.text, true));
        }
        let RequiredLogin { url, text, .. } = needed;
        Err(refusal.amended(|problem| {
            problem.detail = text;
            problem.add_mcp("login_url", &url);
        }))
    }

    /// The page at which `principal` logs in to `server`. The error says what to do instead. `host` is the `Host` of the
    /// request, if that is known.
    pub(super) fn login_url(
        &self,
        server: &str,
        principal: &Principal,
        host: Option<&str>,
    ) -> Result<String, String> {
        let per = self.manager.per(server).ok_or_else(|| format!("nobody can log in to {server}"))?;
        if !principal.may(per.log_in()) {
            return Err(who_may(server, per));
        }
        let command = format!("`switchyard login {server}`");
        let Some(pages) = &self.pages else {
            return Err(format!(
                "this process has no login page: start `switchyard serve` with the same configuration file, and run {command}"
            ));
        };
        let host = host.or(pages.local_host.as_deref());
        let link = pages.links.link(server, principal, host, SystemTime::now());
        link.map(|link| link.url).ok_or_else(|| {
            format!(
                "the URL at which a browser reaches this gateway is not known: an operator runs {command}, or sets `server.public_url`"
            )
        })
    }

    fn input_required(&self, caller: &Caller, request: &Request, needed: &RequiredLogin, round: u8) -> Raw {
        let state = State { server: needed.server.clone(), round: round + 1 };
        let bare = request.params.clone().unwrap_or_else(Raw::empty_object);
        let purpose = purpose(&request.method, &bare);
        let sealed = self.sealer.seal(&purpose, &caller.principal, Raw::of(&state).bytes());
        let input_request = Raw::empty_object()
            .with("method", &Raw::of(method::ELICITATION_CREATE))
            .with("params", &elicitation(needed));
        let result = Raw::empty_object()
            .with("inputRequests", &Raw::empty_object().with(KEY, &input_request))
            .with("requestState", &Raw::of(&sealed));
        era::own(caller, &result).with("resultType", &Raw::of("input_required"))
    }

    /// The error for a legacy client, which is notified when the login is done.
    fn url_required(&self, caller: &Caller, needed: &RequiredLogin) -> ErrorObject {
        let id = Uuid::new_v4().to_string();
        let input_request = elicitation(needed).with("elicitationId", &Raw::of(&id));
        self.tell_when_done(caller, &needed.server, id);
        let data = Raw::empty_object().with("elicitations", &Raw::of(&[input_request]));
        ErrorObject::new(questions::URL_ELICITATION_REQUIRED, &needed.text).with_data(&data)
    }

    /// Tells a legacy client when the login of its elicitation `id` is done.
    fn tell_when_done(&self, caller: &Caller, server: &str, id: String) {
        let Some(pages) = &self.pages else { return };
        let Ok(place) = Arc::clone(&pages.watchers).try_acquire_owned() else { return };
        let (manager, server) = (Arc::clone(&self.manager), server.to_owned());
        let (principal, affinity) = (caller.principal.clone(), caller.affinity.clone());
        self.shutdown.spawn_until_end(async move {
            let _place = place;
            let done = tokio::select! {
                done = timeout(LIFETIME, manager.logged_in(&server, &principal)) => done.is_ok(),
                () = affinity.ended() => false,
            };
            if done {
                let params = Raw::empty_object().with("elicitationId", &Raw::of(&id));
                affinity.notify(Notification { method: COMPLETE.into(), params: Some(params) });
            }
        });
    }
}

/// The parameters of the question.
fn elicitation(needed: &RequiredLogin) -> Raw {
    let message = format!("Log in to the server \"{}\" to go on", needed.server);
    Raw::empty_object()
        .with("mode", &Raw::of("url"))
        .with("url", &Raw::of(&needed.url))
        .with("message", &Raw::of(&message))
}

/// The server that `refusal` asks a login for, if it does. The error of a server never does: it must not send users to
/// the login of another one.
fn required_login(refusal: &ErrorObject) -> Option<String> {
    let problem = refusal.problem()?;
    problem.server.clone().filter(|_| problem.code() == ErrorCode::LoginRequired)
}

/// The purpose of a sealed state: it belongs to one method with these parameters.
fn purpose(method: &str, params: &Raw) -> String {
    format!("login state\n{method}\n{}", params::digest(params))
}

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
///
/// ```text
/// login required ─► the link: elicitation where the client can, else the text of the result
/// logged in      ─► a text: the tools of the server are listed now
/// ```
///
/// Invariants: nothing is sent to the server. A principal gets a link only if it may log in; others get a text that
/// says who may. A link is sealed and not kept, so calls of the tool cost no memory.
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
