//! Approving tools with a changed definition.
//!
//! Not here: how they are shown (`changed_tool`), found (`manager`) and treated (`tools.on_change` in the configuration
//! file).

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::openapi::ApprovalProblems;
use super::parameters::{Parameters, PathName, parameters};
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
    /// With `sha256`: the server from which `tool` may take its bare name, `previous_owner` of `changed_tools`. Without it
    /// the name stays where it is.
    #[param(nullable = false, example = "files")]
    previous_owner: Option<String>,
    /// `true` instead of `sha256` approves whatever the server shows by then, without a look at it.
    #[param(nullable = false)]
    current: Option<bool>,
}

impl ApprovalQuery {
    /// Returns the approval of a definition that somebody looked at, or explicitly of the current one.
    fn approval(&self) -> Result<Approval<'_>, &'static str> {
        let Self { tool, sha256, previous_owner, current } = self;
        match (sha256, current.unwrap_or(false)) {
            (None, false) => Err(
                "say what you looked at, with `tool` and `sha256` of `changed_tools`; `current=true` approves \
                                  whatever the server shows now",
            ),
            (Some(_), true) => Err("`sha256` and `current` exclude each other"),
            (Some(_), _) if tool.is_none() => Err("`sha256` says nothing without `tool`"),
            (None, _) if previous_owner.is_some() => Err("`previous_owner` says nothing without `sha256`"),
            _ => Ok(Approval {
                tool: tool.as_deref(),
                sha256: sha256.as_deref(),
                previous_owner: previous_owner.as_deref(),
            }),
        }
    }
}

/// Approve tools that changed
///
/// Trusts the definition with `sha256`, or with `current=true` whatever the server shows now. Tools that were
/// blocked for that are listed and called again. Tools that are trusted already stay so. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/servers/{name}/tools/approve", tag = "servers", operation_id = "approve_tools",
    params(("name" = String, Path, description = "The server", example = "issues"), ApprovalQuery),
    responses((status = 200, description = "The server, with what is still not approved", body = Server), ApprovalProblems)
)]
pub(super) async fn approve(
    State(Api { manager, .. }): State<Api>,
    PathName(name): PathName,
    query: Parameters<ApprovalQuery>,
) -> Result<Response, Problem> {
    let query = parameters(
        query,
        "the parameters are `tool`, `sha256`, `previous_owner` and `current`, each at most once",
    )?;
    let approval = query.approval().map_err(|reason| Problem::new(ErrorCode::InvalidRequest, reason))?;
    let server = manager.approve(&name, approval).await?;
    Ok(json(&Server::from(&server)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::super::fixture::{Answer, Gateway, server};
    use protocol::method;

    #[tokio::test(start_paused = true)]
    async fn change_is_shown_as_the_document_describes_it_until_it_is_approved() {
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
        assert_eq!(approve("?tool=v&current=true").await.problem(), (404, "tool_not_found".into()));
        for unclear in [
            "",
            "?tool=t",
            "?current=false",
            "?tool=t&current=false",
            "?sha256=00",
            "?tool=t&sha256=00&current=true",
            "?tool=t&current=true&previous_owner=x",
            "?tool=t&tool=u&current=true",
            "?current=1",
        ] {
            assert_eq!(approve(unclear).await.problem(), (400, "invalid_request".into()), "{unclear}");
        }
        assert_eq!(approve("?tool=u&current=true").await.json()["changed_tool_count"], 1, "another tool");
        assert_eq!(approve("?current=true").await.json()["changed_tool_count"], 0);
        assert_eq!(approve("?current=true").await.status, 200, "once more does no harm");
    }
}
