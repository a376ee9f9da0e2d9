//! `/why`: why clients get a tool, or do not.
//!
//! Not here: the explanation (`gateway::manager::why`).

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::openapi::ToolProblems;
use super::problem::Problem;
use super::server_state::ServerState;
use super::view::BreakerState;
use super::{Api, json};
use gateway::manager::Explanation;
use protocol::ErrorCode;

/// Which tool is explained.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WhyQuery {
    /// The tool: by a name towards clients, by its name at a server, or as `server/name`.
    #[param(max_length = 1024, example = "create_issue")]
    tool: String,
    /// The view of the client; without it, a client without a view.
    #[param(nullable = false, max_length = 256, example = "support")]
    view: Option<String>,
}

/// The tools that a name means.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Why)]
struct Explained {
    /// One for each server that offers a tool of this name.
    tools: Vec<ExplainedTool>,
}

/// Why clients get a tool or do not.
#[derive(Debug, Serialize, ToSchema)]
struct ExplainedTool {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// Its name at the server.
    #[schema(examples("create_issue"))]
    tool: String,
    /// The name under which clients get it. Absent if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    listed_as: Option<String>,
    /// Whether the rules let clients have it.
    is_offered: bool,
    /// The setting that decided. Absent if there is no rule for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("views.support.deny"))]
    setting: Option<String>,
    /// The rule of that setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("issues/delete_*"))]
    rule: Option<String>,
    /// The line of the rule in the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    line: Option<u32>,
    /// Whether it is new or its definition changed, and an operator has to approve it first.
    is_held: bool,
    /// The state of the server.
    state: ServerState,
    /// The state of the circuit breaker of the server.
    circuit_breaker: BreakerState,
    /// The remedy: how clients get it, or can call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    advice: Option<String>,
}

impl From<Explanation> for ExplainedTool {
    fn from(of: Explanation) -> Self {
        Self {
            server: of.server.to_string(),
            tool: of.tool,
            listed_as: of.listed_as,
            is_offered: of.decision.is_offered,
            setting: of.decision.setting,
            rule: of.decision.rule,
            line: of.decision.line,
            is_held: of.is_held,
            state: of.state.into(),
            circuit_breaker: of.breaker.into(),
            advice: of.advice,
        }
    }
}

/// Why clients get a tool
///
/// Whether clients of a view, or without one, get the tool: which rule decides, whether an operator has to approve it,
/// and how its server is. Clients hear only that there is no such tool. Needs the role *superuser*.
#[utoipa::path(
    get, path = "/why", tag = "tools", operation_id = "explain_tool", params(WhyQuery),
    responses((status = 200, description = "The explanation", body = Explained), ToolProblems)
)]
pub(super) async fn explain(
    State(api): State<Api>,
    query: Result<Query<WhyQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(WhyQuery { tool, view }) = query.map_err(|rejection| {
        Problem::new(ErrorCode::InvalidRequest, rejection.body_text())
            .hinting("the parameters are `tool`, which is required, and `view`")
    })?;
    let explained = api.manager.why(view.as_deref(), &tool)?;
    Ok(json(&Explained { tools: explained.into_iter().map(ExplainedTool::from).collect() }))
}
