//! `/tools` and `/servers/{name}/tools`: what can be called, with schemas as the servers wrote them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::charged::json_charged;
use super::openapi::{NamedProblems, ReadProblems};
use super::problem::Problem;
use super::view::ListedTool;
use auth::Principal;
use gateway::manager::Scope;
use json::Raw;

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
pub(super) async fn all(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
) -> Result<Response, Problem> {
    list(&api, &principal, Scope::All)
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
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    list(&api, &principal, Scope::Server(name.into()))
}

fn list(api: &Api, principal: &Principal, scope: Scope) -> Result<Response, Problem> {
    let snapshot = api.manager.snapshot();
    let catalog = Arc::clone(snapshot.catalog(&scope)?);
    let print = || {
        let tools = catalog.tools().iter().map(|entry| ListedTool::of(&snapshot, entry)).collect();
        Raw::of(&ToolList { tools }).bytes().clone()
    };
    Ok(json_charged(api.lists.of((&snapshot, scope), principal.id(), print)?))
}
