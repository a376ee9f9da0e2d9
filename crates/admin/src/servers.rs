//! `/servers`: the servers and their states; rebuilding the connections of one, enabling and disabling it, and what its
//! process wrote to standard error last.
//!
//! Invariant: configured secrets are redacted before a line of standard error is kept. The lines are bounded (`upstream`).

use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::entity_tag::{self, IfNoneMatch};
use super::logins::LoginUrls;
use super::openapi::{NamedProblems, ReadProblems, ReconnectProblems, StderrProblems, SwitchProblems};
use super::parameters::PathName;
use super::problem::Problem;
use super::view::Server;
use super::{Api, json};
use auth::Principal;
use gateway::manager::ServerEntry;
use protocol::ErrorCode;

/// All servers.
#[derive(Debug, Serialize, ToSchema)]
struct ServerList {
    /// In the order of the registry.
    servers: Vec<Server>,
}

/// All servers
///
/// Every server of the registry in its order, whatever its state, also one whose entry has a mistake. Needs the role *reader*.
/// The entity tag is weak: times that only pass do not change it.
#[utoipa::path(
    get, path = "/servers", tag = "servers", operation_id = "list_servers", params(IfNoneMatch),
    responses(
        (status = 200, description = "The servers", body = ServerList,
            headers(("ETag" = String, description = "Names this state of the servers"))),
        (status = 304, description = "The servers are as `If-None-Match` names them"),
        ReadProblems
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> Response {
    let login = LoginUrls { gateway: &api.gateway, principal: &principal, headers: &headers };
    let entries = ServerEntry::all(&api.seen(&principal));
    let mut servers: Vec<Server> = entries.iter().map(|server| login.server(server)).collect();
    let tag = entity_tag::weak(&Server::steady(&mut servers, SystemTime::now()));
    entity_tag::answer(&headers, tag, || json(&ServerList { servers }))
}

/// One server
///
/// Returns its entry in the list of all servers. Needs the role *reader*.
#[utoipa::path(
    get, path = "/servers/{name}", tag = "servers", operation_id = "get_server",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The server", body = Server), NamedProblems)
)]
pub(super) async fn one(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let login = LoginUrls { gateway: &api.gateway, principal: &principal, headers: &headers };
    Ok(json(&login.server(&ServerEntry::one(&api.seen(&principal), &name)?)))
}

/// Rebuild a server's connections
///
/// Drops the connections to the server, connects again and asks again what it offers. Calls that
/// run on the old connections fail. Needs the role *superuser*. 200 when the server is ready again.
#[utoipa::path(
    post, path = "/servers/{name}/reconnect", tag = "servers", operation_id = "reconnect_server",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The server, connected again", body = Server), ReconnectProblems)
)]
pub(super) async fn reconnect(State(api): State<Api>, PathName(name): PathName) -> Result<Response, Problem> {
    Ok(json(&Server::from(&api.manager.reconnect(&name, None).await?)))
}

/// Enable a server
///
/// Connects to a server that is disabled and offers its tools again. This lasts until the next reload or
/// restart, when `enabled` in the configuration file decides again. Needs the role *superuser*. The answer
/// comes after the first attempt to connect, and `state` says how it ended. A server that is enabled stays
/// as it is.
#[utoipa::path(
    post, path = "/servers/{name}/enable", tag = "servers", operation_id = "enable_server",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The server, enabled", body = Server), SwitchProblems)
)]
pub(super) async fn enable(State(api): State<Api>, PathName(name): PathName) -> Result<Response, Problem> {
    Ok(json(&Server::from(&api.manager.set_enabled(&name, true).await?)))
}

/// Forget a server
///
/// Removes what is remembered of the server: its offer, its signs of state, the trusted definitions of its tools and
/// the names that belong to it. Then it is started and read again, and what it offers is trusted. Running calls end where
/// they began. Needs the role *superuser*. The answer comes after the first attempt to connect.
#[utoipa::path(
    post, path = "/servers/{name}/forget", tag = "servers", operation_id = "forget_server",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The server, read again", body = Server), SwitchProblems)
)]
pub(super) async fn forget(State(api): State<Api>, PathName(name): PathName) -> Result<Response, Problem> {
    Ok(json(&Server::from(&api.manager.forget(&name).await?)))
}

/// Disable a server
///
/// Takes its tools, prompts and resources out of all lists and refuses new calls to it. Running calls
/// finish, at the latest after its `max_timeout`; then its connections and child processes end. This lasts
/// until the next reload or restart, when `enabled` in the configuration file decides again. Needs the role
/// *superuser*. A server that is disabled stays as it is.
#[utoipa::path(
    post, path = "/servers/{name}/disable", tag = "servers", operation_id = "disable_server",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The server, disabled", body = Server), SwitchProblems)
)]
pub(super) async fn disable(State(api): State<Api>, PathName(name): PathName) -> Result<Response, Problem> {
    Ok(json(&Server::from(&api.manager.set_enabled(&name, false).await?)))
}

/// The last lines on standard error.
#[derive(Debug, Serialize, ToSchema)]
struct StderrLines {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// The lines, the oldest first: at most 40, with 16 KiB together.
    lines: Vec<String>,
}

/// Standard error of a server
///
/// The last lines that the process of a server wrote to standard error: of the last process that wrote any, also if it has
/// ended. Values of its settings that may be secret are replaced. Needs the role *superuser*.
#[utoipa::path(
    get, path = "/servers/{name}/stderr", tag = "servers", operation_id = "read_stderr",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The lines", body = StderrLines), StderrProblems)
)]
pub(super) async fn stderr(
    State(Api { manager, .. }): State<Api>,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let snapshot = manager.snapshot();
    let lines = snapshot.server(&name)?.upstream.stderr().ok_or_else(|| {
        let text = format!("the server {name} is no program, so it has no standard error here");
        Problem::new(ErrorCode::NotFound, text).with(|document| document.server = Some(name.clone()))
    })?;
    Ok(json(&StderrLines { server: name, lines }))
}
