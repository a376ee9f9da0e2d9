//! `/tools` and `/servers/{name}/tools`: what can be called, with schemas as the servers wrote them.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::{NamedProblems, ReadProblems};
use super::problem::Problem;
use super::view::ListedTool;
use super::{Api, json};
use gateway::manager::{Manager, Scope};

/// Tools.
#[derive(Debug, Serialize, ToSchema)]
struct ToolList {
    /// In the order of the registry, then in that of the server.
    tools: Vec<ListedTool>,
}

/// Every tool
///
/// The tools of all servers. A name is bare while one server alone has it, else it begins with the
/// server's. A server that is away keeps the tools it last offered. Needs the role *reader*.
#[utoipa::path(
    get, path = "/tools", tag = "tools", operation_id = "list_tools",
    responses((status = 200, description = "The tools", body = ToolList), ReadProblems),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn all(State(Api { manager, .. }): State<Api>) -> Result<Response, Problem> {
    list(&manager, &Scope::All)
}

/// One server's tools
///
/// Under the server's own names. Needs the role *reader*.
#[utoipa::path(
    get, path = "/servers/{name}/tools", tag = "tools", operation_id = "list_server_tools",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The tools", body = ToolList), NamedProblems),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn of_server(
    State(Api { manager, .. }): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    list(&manager, &Scope::Server(name.into()))
}

fn list(manager: &Manager, scope: &Scope) -> Result<Response, Problem> {
    let snapshot = manager.snapshot();
    let entries = snapshot.catalog(scope)?.tools();
    Ok(json(&ToolList { tools: entries.iter().map(|entry| ListedTool::of(&snapshot, entry)).collect() }))
}
