//! `/servers/{name}/login`: a link with which a person logs in to a server, the state of the login, and its end. Also the
//! login pages in answers about servers.
//!
//! Invariants: a link carries no authority, so its answer is no secret. A principal gets only links to logins that it has to
//! do and may do. A caller sees and changes the own login only; one that all share is changed by superusers. No answer has a
//! token.
//!
//! Not here: the page that the link opens (`downstream::login`), the links (`gateway::login_links`), the logins themselves
//! (`gateway::logins`).

use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::{LoginProblems, ReadProblems};
use super::parameters::PathName;
use super::problem::Problem;
use super::view::{Server, ServerHealth, date};
use super::{Api, authorised, json, who};
use auth::{Action, Principal};
use gateway::Gateway;
use gateway::login_links::LoginContext;
use gateway::logins::{FailedLogin, LoginError, LoginState, LoginStatus, Per};
use gateway::manager::{ServerEntry, ServerStatus};
use protocol::ErrorCode;
use protocol::sanitize::clipped;
use runtime::telemetry::{RequestId, audit};

/// A link for one person.
#[derive(Debug, Serialize, ToSchema)]
struct LoginLink {
    /// The page to open in a browser. It asks the person to sign in as the principal of this request, and to agree.
    #[schema(examples("http://127.0.0.1:8080/oauth/start?login=AAECAwQF"))]
    url: String,
    /// The time until which the page can be opened.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// The state of a login. `logged_in`: calls have a token. `login_required`: a person must log in. `not_required`:
/// the server was not seen to demand a login.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LoginStateName {
    /// Calls have a token.
    LoggedIn,
    /// A person must log in.
    LoginRequired,
    /// The server was not seen to demand a login.
    NotRequired,
}

/// The principals that use a login. `shared`: all of them. `principal`: each has an own login.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LoginUsers {
    /// All principals.
    Shared,
    /// Each principal has an own login.
    Principal,
}

/// The login that the principal of the request uses at one server.
#[derive(Debug, Serialize, ToSchema)]
struct Login {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    state: LoginStateName,
    /// The account at the login service, if the service named it. For display only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("ann@example.org"))]
    account: Option<String>,
    /// The granted scopes.
    scopes: Vec<String>,
    /// The end of the current access token, where it is known. Switchyard renews the token before, where it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    expires_at: Option<String>,
    per: LoginUsers,
    /// Why a login is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The last attempt of this principal to log in, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    failure: Option<LoginFailure>,
}

/// A failed attempt to log in.
#[derive(Debug, Serialize, ToSchema)]
struct LoginFailure {
    /// Why it failed.
    #[schema(examples("the login was declined (access_denied)"))]
    reason: String,
    /// When it failed.
    #[schema(format = DateTime)]
    at: String,
}

impl Login {
    fn of(server: String, status: LoginStatus) -> Self {
        Self {
            server,
            state: match status.state {
                LoginState::LoggedIn => LoginStateName::LoggedIn,
                LoginState::LoginRequired => LoginStateName::LoginRequired,
                LoginState::NotRequired => LoginStateName::NotRequired,
            },
            account: status.account.map(clipped),
            scopes: status.scopes,
            expires_at: status.expires_at.map(date),
            per: match status.per {
                Per::Shared => LoginUsers::Shared,
                Per::Principal => LoginUsers::Principal,
            },
            reason: status.reason.map(clipped),
            failure: status
                .failure
                .map(|FailedLogin { reason, at }| LoginFailure { reason: clipped(reason), at: date(at) }),
        }
    }
}

/// All logins of one principal.
#[derive(Debug, Serialize, ToSchema)]
struct LoginList {
    /// Those at the servers that somebody logs in to, in the order of the registry.
    logins: Vec<Login>,
}

/// All logins
///
/// The logins that the principal of this request uses, at all servers that have `auth: oauth`. Needs the role *caller*.
#[utoipa::path(
    get, path = "/logins", tag = "servers", operation_id = "list_logins",
    responses((status = 200, description = "The logins", body = LoginList), ReadProblems)
)]
pub(super) async fn list(State(api): State<Api>, Extension(principal): Extension<Principal>) -> Response {
    let servers = ServerStatus::all(&api.seen(&principal));
    let names = servers.iter().map(|server| server.config.name.to_string());
    let status = |name: &str| api.options.logins.as_ref()?.service.status(name, &principal);
    let logins = names.filter_map(|name| status(&name).map(|status| Login::of(name, status))).collect();
    json(&LoginList { logins })
}

/// Log in to a server
///
/// Makes a link with which a person logs in. The link carries no authority: the page that it opens demands a browser
/// session of the principal of this request. Needs the role *caller* where each principal has an own login, and
/// *superuser* where all share one.
#[utoipa::path(
    post, path = "/servers/{name}/login", tag = "servers", operation_id = "log_in",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The link", body = LoginLink), LoginProblems)
)]
pub(super) async fn start(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let (logins, per) = logins(&api, &principal, &name)?;
    authorised(Some(&principal), per.log_in(), Some(id))?;
    let link = logins.links.link(&name, &principal, host(&headers), SystemTime::now()).ok_or_else(no_base)?;
    Ok(json(&LoginLink { url: link.url, expires_at: date(link.expires_at) }))
}

/// The login to a server
///
/// The login that the principal of this request uses. Needs the role *caller*.
#[utoipa::path(
    get, path = "/servers/{name}/login", tag = "servers", operation_id = "get_login",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The login", body = Login), LoginProblems)
)]
pub(super) async fn status(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let (logins, _) = logins(&api, &principal, &name)?;
    shown(logins, name, &principal)
}

/// Log out of a server
///
/// Deletes the tokens of the login, and revokes them where the login service can. Needs the role *caller* where each
/// principal has an own login, and *superuser* where all share one.
#[utoipa::path(
    delete, path = "/servers/{name}/login", tag = "servers", operation_id = "log_out",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The login, which has no tokens any more", body = Login), LoginProblems)
)]
pub(super) async fn end(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    Extension(id): Extension<RequestId>,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let (logins, per) = logins(&api, &principal, &name)?;
    let action: Action = per.log_out();
    authorised(Some(&principal), action, Some(id))?;
    let record = audit::operation(who(&principal, Some(id)), action.as_str(), Some(&name))?;
    let ended = logins.service.log_out(&name, &principal).await;
    let outcome = if ended.is_ok() { audit::DONE } else { "logout_failed" };
    let events = api.manager.live_events();
    events.operated(principal.id(), (action.as_str(), Some(&name)), outcome, Some(id));
    if let Some(record) = record {
        record.ended(outcome);
    }
    ended.map_err(|error| of_login(&name, error))?;
    shown(logins, name, &principal)
}

fn shown(logins: &LoginContext, name: String, principal: &Principal) -> Result<Response, Problem> {
    let status = logins.service.status(&name, principal).ok_or_else(|| no_login(&name))?;
    Ok(json(&Login::of(name, status)))
}

/// Returns the logins, and who uses one at the server `name`.
fn logins<'a>(api: &'a Api, principal: &Principal, name: &str) -> Result<(&'a LoginContext, Per), Problem> {
    api.seen(principal).server(name)?;
    let logins = api.options.logins.as_ref();
    let per = logins.and_then(|logins| Some((logins, logins.service.per(name)?)));
    per.ok_or_else(|| no_login(name))
}

fn of_login(name: &str, error: LoginError) -> Problem {
    let problem = match error {
        LoginError::NotOffered => return no_login(name),
        LoginError::Refused(reason) => Problem::new(ErrorCode::LoginFailed, reason),
        LoginError::Later { reason, retry_after } => Problem::new(ErrorCode::LoginFailed, reason)
            .with(|document| (document.retryable, document.retry_after) = (true, retry_after)),
    };
    problem.with(|document| document.server = Some(name.to_owned()))
}

fn no_login(name: &str) -> Problem {
    let text = format!("nobody logs in to the server {name}: it has no `auth: oauth`");
    Problem::new(ErrorCode::LoginNotPossible, text).with(|document| document.server = Some(name.to_owned()))
}

fn no_base() -> Problem {
    let text = "the URL at which a browser reaches this gateway is not known";
    Problem::new(ErrorCode::LoginNotPossible, text)
        .hinting("set `server.public_url` in the configuration file")
}

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

#[cfg(test)]
#[path = "logins_tests.rs"]
pub(super) mod tests;
