//! `/why`: why clients get a tool, or do not.
//!
//! Not here: the explanation (`gateway::manager::why`).

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::openapi::ToolProblems;
use super::parameters::{Parameters, parameters};
use super::problem::Problem;
use super::server_state::ServerState;
use super::view::BreakerState;
use super::{Api, json};
use auth::Role;
use gateway::manager::{Clash, Explanation, Limit, Per};

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
    /// The configuration file, if a setting of it decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("mcp_servers.yaml"))]
    file: Option<String>,
    /// Whether it is new or its definition changed, and an operator has to approve it first.
    is_held: bool,
    /// The tools of others with its name, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name_clash: Option<NameClash>,
    /// The state of the server.
    state: ServerState,
    /// The state of the circuit breaker of the server.
    circuit_breaker: BreakerState,
    /// The remedy: how clients get it, or can call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    advice: Option<String>,
    /// The limits of callers that count calls of it.
    limits: Vec<ExplainedLimit>,
}

/// A limit of callers that counts calls of a tool.
#[derive(Debug, Serialize, ToSchema)]
struct ExplainedLimit {
    /// Its name below `limits` in the configuration file.
    #[schema(examples("helpdesk"))]
    name: String,
    /// Its line in the configuration file.
    #[schema(minimum = 1)]
    line: u32,
    /// The most requests in a minute. Absent if they are not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    requests_per_minute: Option<u32>,
    /// The most calls at a time. Absent if they are not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    calls_at_a_time: Option<u32>,
    /// Whether its callers share it. Otherwise each has it for itself.
    is_shared: bool,
    /// The ids of its callers, with `*` for any characters. Absent if they are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("key:ci"))]
    principal: Option<String>,
    /// The role of its callers. Absent if they have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("caller"))]
    role: Option<&'static str>,
}

impl From<&Limit> for ExplainedLimit {
    fn from(limit: &Limit) -> Self {
        Self {
            name: limit.name.to_string(),
            line: limit.line,
            requests_per_minute: limit.requests_per_minute(),
            calls_at_a_time: limit.calls_at_a_time(),
            is_shared: limit.per() == Per::All,
            principal: limit.principal().map(str::to_owned),
            role: limit.role().map(Role::as_str),
        }
    }
}

/// A name that several tools have, so that not each of them is offered under it.
#[derive(Debug, Serialize, ToSchema)]
struct NameClash {
    /// The name, without the name of a server.
    #[schema(examples("search"))]
    bare_name: String,
    /// The names under which clients get the other tools, at most 20.
    #[schema(examples(json!(["docs__search"])))]
    others: Vec<String>,
    /// The server that had the name before, if only this one has it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("docs"))]
    previous_owner: Option<String>,
}

impl From<Clash> for NameClash {
    fn from(Clash { name, others, owner }: Clash) -> Self {
        Self { bare_name: name, others, previous_owner: owner.map(|owner| owner.to_string()) }
    }
}

impl ExplainedTool {
    /// The explanation `of` a tool, with the name of the configuration `file`.
    fn of(of: Explanation, file: Option<&String>) -> Self {
        Self {
            file: of.decision.setting.as_ref().and(file).cloned(),
            name_clash: of.clash.map(NameClash::from),
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
            limits: of.limits.iter().map(|limit| ExplainedLimit::from(&**limit)).collect(),
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
    query: Parameters<WhyQuery>,
) -> Result<Response, Problem> {
    let WhyQuery { tool, view } =
        parameters(query, "the parameters are `tool`, which is required, and `view`")?;
    let explained = api.manager.why(view.as_deref(), &tool)?;
    let file = api.options.configuration.as_ref().map(|configuration| configuration().file);
    let tool = |explained| ExplainedTool::of(explained, file.as_ref());
    Ok(json(&Explained { tools: explained.into_iter().map(tool).collect() }))
}
