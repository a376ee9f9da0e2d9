//! Approving tools with a changed definition.
//!
//! Not here: how they are shown (`changed_tool`), found (`manager`) and treated (`tools.on_change` in the configuration
//! file).

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::openapi::ApprovalProblems;
use super::problem::Problem;
use super::view::Server;
use super::{Api, json};
use gateway::manager::Approval;
use protocol::ErrorCode;

/// Query parameters that select what is approved.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalQuery {
    /// One tool, by its name at the server. Without it all that changed are approved.
    #[param(nullable = false, example = "create_issue")]
    tool: Option<String>,
    /// The definition of `tool` that you looked at, `sha256` of `changed_tools`. With it nothing is approved
    /// that the server changed again since.
    #[param(nullable = false)]
    sha256: Option<String>,
}

/// Approve tools that changed
///
/// Trusts the definitions that the server shows now in place of those it showed first; tools that were
/// blocked for that are listed and called again. Tools that are trusted already stay so. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/servers/{name}/tools/approve", tag = "servers", operation_id = "approve_tools",
    params(("name" = String, Path, description = "The server", example = "issues"), ApprovalQuery),
    responses((status = 200, description = "The server, with what is still not approved", body = Server), ApprovalProblems)
)]
pub(super) async fn approve(
    State(Api { manager, .. }): State<Api>,
    name: Result<Path<String>, PathRejection>,
    wanted: Result<Query<ApprovalQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    let Query(ApprovalQuery { tool, sha256 }) = wanted?;
    if tool.is_none() && sha256.is_some() {
        return Err(Problem::new(ErrorCode::InvalidRequest, "`sha256` says nothing without `tool`"));
    }
    let approval = Approval { tool: tool.as_deref(), sha256: sha256.as_deref() };
    let server = manager.approve(&name, approval).await?;
    Ok(json(&Server::from(&server)))
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(ErrorCode::InvalidRequest, rejection.body_text())
            .hinting("the parameters are `tool` and `sha256`, each at most once")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::super::fixture::{Answer, Gateway, server};
    use protocol::method;

    #[tokio::test(start_paused = true)]
    async fn what_changed_is_shown_as_the_document_describes_it_until_it_is_approved() {
        let (docs, lists) = (server("docs"), Arc::new(AtomicUsize::new(0)));
        docs.1.answer(move |call| {
            let listed = || {
                let at = lists.fetch_add(1, Ordering::SeqCst);
                Answer::result(&json!({"tools": [{"name": "t", "title": at, "x": 1.5}, {"name": "u"}]}))
            };
            (call.method == method::TOOLS_LIST).then(listed)
        });
        let gateway = Gateway::of(vec![docs]).await;
        let shown = gateway.get("/api/v1/mcp/servers").await.json()["servers"][0].clone();
        assert!(shown["changed_tool_count"] == 0 && shown["changed_tools"].is_null());
        let shown = gateway.post("/api/v1/mcp/servers/docs/reconnect", "").await.json();
        assert_eq!(shown["changed_tool_count"], 1);
        let change = &shown["changed_tools"][0];
        assert_eq!((&change["tool"], &change["changed"]), (&json!("t"), &json!(["title"])));
        assert_eq!(change["definition"], json!({"name": "t", "title": 1, "x": 1.5}));
        assert_eq!(change["trusted_definition"], json!({"name": "t", "title": 0, "x": 1.5}));
        assert_eq!(
            gateway.get("/api/v1/mcp/servers").await.json()["servers"][0]["changed_tools"][0],
            *change
        );

        let approve = async |query: &str| {
            gateway.post(&format!("/api/v1/mcp/servers/docs/tools/approve{query}"), "").await
        };
        assert_eq!(approve("?tool=t&sha256=00").await.problem(), (409, "other_definition".into()));
        assert_eq!(approve("?tool=v").await.problem(), (404, "tool_not_found".into()));
        assert_eq!(approve("?sha256=00").await.problem(), (400, "invalid_request".into()));
        assert_eq!(approve("?tool=t&tool=u").await.problem(), (400, "invalid_request".into()));
        assert_eq!(approve("?tool=u").await.json()["changed_tool_count"], 1, "another tool");
        assert_eq!(approve("").await.json()["changed_tool_count"], 0);
        assert_eq!(approve("").await.status, 200, "once more does no harm");
    }
}
