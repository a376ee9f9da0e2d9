//! `/tools`, `/tools/{name}` and `/servers/{name}/tools`: what can be called, with schemas as the servers wrote them.
//!
//! Invariant: equal lists that are unread at the same time are one text in memory, if they are whole. Not here:
//! search and pages (`parameters`), the other lists (`offers`).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::charged::held;
use super::entity_tag::{IfNoneMatch, Tagged};
use super::openapi::{NamedProblems, ToolProblems};
use super::parameters::{ListQuery, Parameters, PathName, ViewQuery};
use super::printed_lists::printed;
use super::problem::Problem;
use super::view::ListedTool;
use super::{Api, json_bytes};
use auth::Principal;
use gateway::manager::{Error, ItemKind, Scope};
use json::Raw;

/// Tools.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // describes the answer, which `printed_lists` prints
struct ToolList {
    /// In the order of the registry, then in that of the server; with `query` the best matches first.
    tools: Vec<ListedTool>,
    /// The `cursor` of the next page. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// Every tool
///
/// The tools of all servers. A name is bare while one server alone has it, else it begins with the
/// server's. A server that is away keeps the tools it last offered. Needs the role *reader*.
#[utoipa::path(
    get, path = "/tools", tag = "tools", operation_id = "list_tools",
    params(ListQuery, IfNoneMatch),
    responses(
        (status = 200, description = "The tools", body = ToolList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        NamedProblems
    )
)]
pub(super) async fn all(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    query: Parameters<ListQuery>,
) -> Result<Response, Problem> {
    let query = ListQuery::read(query)?;
    let scope = api.scope(&principal, query.view())?;
    list(&api, &principal, (scope, &query), &headers).await
}

/// One tool
///
/// By the name that it is offered under. If a setting hides the tool, the error says so to the role *superuser*. Needs the
/// role *reader*.
#[utoipa::path(
    get, path = "/tools/{name}", tag = "tools", operation_id = "get_tool",
    params(("name" = String, Path, description = "The tool", example = "create_issue"), ViewQuery),
    responses(
        (status = 200, description = "The tool", body = ListedTool),
        ToolProblems
    ),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn one(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    PathName(name): PathName,
    query: Parameters<ViewQuery>,
) -> Result<Response, Problem> {
    let query = ViewQuery::read(query)?;
    let scope = api.scope(&principal, query.view.as_deref())?;
    let snapshot = api.manager.seen_by_program(principal.id(), &scope).await;
    let tools = snapshot.catalog(&scope)?.tools();
    let hidden = api.manager.hidden_logins(&snapshot, &scope, &principal);
    let shown = || tools.iter().filter(|entry| !entry.route.is_login_to(&hidden));
    let Some(entry) = shown().find(|entry| entry.exposed == name) else {
        let names = shown().map(|entry| entry.exposed.as_str());
        let error = Error::name_not_found(ItemKind::Tool, &name, None, names);
        return Err(snapshot.explained(&principal, (&scope, &name), error).into());
    };
    let tool = Raw::of(&ListedTool::of(&snapshot, entry));
    Ok(json_bytes(held(tool.bytes().clone(), principal.id())?))
}

/// One server's tools
///
/// Under the server's own names. Needs the role *reader*.
#[utoipa::path(
    get, path = "/servers/{name}/tools", tag = "tools", operation_id = "list_server_tools",
    params(("name" = String, Path, description = "The server", example = "issues"), ViewQuery, IfNoneMatch),
    responses(
        (status = 200, description = "The tools", body = ToolList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        NamedProblems
    )
)]
pub(super) async fn of_server(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    PathName(name): PathName,
    query: Parameters<ViewQuery>,
) -> Result<Response, Problem> {
    let query = ViewQuery::read(query)?;
    let scope = Scope { server: Some(name.into()), ..api.scope(&principal, query.view.as_deref())? };
    list(&api, &principal, (scope, &ListQuery::default()), &headers).await
}

async fn list(
    api: &Api,
    principal: &Principal,
    (scope, query): (Scope, &ListQuery),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let snapshot = api.manager.seen_by_program(principal.id(), &scope).await;
    let catalog = Arc::clone(snapshot.catalog(&scope)?);
    let (mut tools, next) = query.page(&snapshot, catalog.tools()).await?;
    let hidden = api.manager.hidden_logins(&snapshot, &scope, principal);
    tools.retain(|entry| !entry.route.is_login_to(&hidden));
    let print = printed("tools", (tools, next), principal.id(), |entry| ListedTool::of(&snapshot, entry));
    let printed = if query.is_whole() && hidden.is_empty() {
        api.lists.of((&snapshot, scope), print).await?
    } else {
        Tagged::of(print.await?)
    };
    Ok(printed.answer(headers))
}
