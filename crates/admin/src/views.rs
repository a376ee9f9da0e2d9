//! `/views` and `/views/{view}`: the items, the callers and the rules of each view.
//!
//! Invariants: a report is made when it is asked for, and nothing of it is kept. It has the names of keys, and no key and no
//! hash. Its size depends on the configuration file, and not on the number of tools: `GET /tools?view=` lists those.
//!
//! Not here: the report itself (`gateway::manager::ViewReport`), and why one tool is there or not (`why`).

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::charged::held;
use super::entity_tag::{IfNoneMatch, Tagged};
use super::openapi::{ReadProblems, ViewProblems};
use super::parameters::PathName;
use super::problem::Problem;
use super::{Api, keys};
use auth::{Principal, ViewWords};
use gateway::manager::{ChangedByView, RuleUse, ServerShare, ViewReport};
use json::Raw;

/// The most tools of a view that are named because they wait for an approval.
const MAX_HELD: usize = 100;

/// All views.
#[derive(Debug, Serialize, ToSchema)]
struct ViewList {
    /// By name.
    views: Vec<ViewSummary>,
    /// Views that a key or a token is bound to, and that do not exist. Their callers see nothing.
    missing: Vec<ViewCallers>,
    /// The claim of tokens that names a view, or a word for one. Absent if tokens are bound to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("groups"))]
    token_claim: Option<String>,
}

/// One view in numbers.
#[derive(Debug, Serialize, ToSchema)]
struct ViewSummary {
    /// The view.
    #[schema(examples("support"))]
    view: String,
    /// The API keys that are bound to it, by name.
    keys: Vec<BoundKey>,
    /// The words in the claim of tokens that bind to it.
    #[schema(examples(json!(["helpdesk"])))]
    token_words: Vec<String>,
    /// The names in the certificates of clients that are bound to it.
    #[schema(examples(json!(["dns:robot.example.org"])))]
    certificates: Vec<String>,
    /// Whether it has only tools that are declared to change nothing.
    read_only: bool,
    /// The servers that its clients see, in the order of the configuration file.
    servers: Vec<ViewServer>,
    /// Tools that clients get.
    tool_count: usize,
    /// Resources that clients get.
    resource_count: usize,
    /// Resource templates that clients get.
    template_count: usize,
    /// Prompts that clients get.
    prompt_count: usize,
    /// Its tools that wait for the approval of an operator.
    held_tool_count: usize,
    /// Rules, and changes of tools, that select nothing of what the servers have.
    idle_rule_count: usize,
}

/// The callers that are bound to a view. Others choose it by its address.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
struct ViewCallers {
    /// The view.
    #[schema(examples("support"))]
    view: String,
    /// The API keys that are bound to it, by name.
    keys: Vec<BoundKey>,
    /// The words in the claim of tokens that bind to it.
    #[schema(examples(json!(["helpdesk"])))]
    token_words: Vec<String>,
    /// The names in the certificates of clients that are bound to it.
    #[schema(examples(json!(["dns:robot.example.org"])))]
    certificates: Vec<String>,
}

/// An API key that is bound to a view.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct BoundKey {
    /// Its name, which is part of the key.
    #[schema(examples("laptop"))]
    id: String,
    /// The role of its holder.
    #[schema(examples("caller"))]
    role: String,
}

/// The items of one server in a view.
#[derive(Debug, Serialize, ToSchema)]
struct ViewServer {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// Tools that clients get.
    tool_count: usize,
    /// Resources that clients get.
    resource_count: usize,
    /// Resource templates that clients get.
    template_count: usize,
    /// Prompts that clients get.
    prompt_count: usize,
}

/// One view with its rules.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = View)]
struct ViewDetail {
    summary: ViewSummary,
    /// Its instructions for clients. Absent if they are those of its servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    instructions: Option<String>,
    /// Its rules in the order of the file, then the settings that decide about items for which there is no rule.
    rules: Vec<ViewRule>,
    /// The tools that it changes.
    changes: Vec<ViewChange>,
    /// Tools that wait for the approval of an operator, as `server/name`; at most 100.
    #[schema(examples(json!(["issues/create_issue"])))]
    held_tools: Vec<String>,
    /// The configuration file. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("mcp_servers.yaml"))]
    file: Option<String>,
}

/// The items that a rule of a view selects now, or that a setting decides about without a rule.
#[derive(Debug, Serialize, ToSchema)]
struct ViewRule {
    /// The setting.
    #[schema(examples("views.support.allow"))]
    setting: String,
    /// The rule. Absent for items about which the setting decides because it has no rule for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("issues/read_*"))]
    rule: Option<String>,
    /// The line of the rule in the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    line: Option<u32>,
    /// Whether clients get what it decides about, or do not.
    is_offering: bool,
    /// The number of tools, prompts, resources and templates that it matches, also where another rule decides.
    selects: usize,
    /// The number of those that it decides about.
    decides: usize,
    /// The first 20 of those, as `server/name` by their names at the server.
    #[schema(examples(json!(["issues/read_issue"])))]
    items: Vec<String>,
    /// Whether it selects nothing, so that it may be misspelled or not needed any more.
    is_idle: bool,
    /// Whether a server that it names was not reached yet, so that it may select more.
    is_unsure: bool,
}

/// A tool that a view changes.
#[derive(Debug, Serialize, ToSchema)]
struct ViewChange {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// The name of the tool there.
    #[schema(examples("create_issue"))]
    tool: String,
    /// The name under which clients get it. Absent if they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    listed_as: Option<String>,
    /// The members of its definition that clients get otherwise than the server sent them.
    #[schema(examples(json!(["annotations", "description"])))]
    changed: Vec<String>,
    /// Whether its server has no tool of that name.
    is_idle: bool,
}

impl From<RuleUse> for ViewRule {
    fn from(of: RuleUse) -> Self {
        let is_idle = of.is_idle();
        let RuleUse { setting, rule, line, is_offering, selects, decides, items, is_unsure } = of;
        Self { setting, rule, line, is_offering, selects, decides, items, is_idle, is_unsure }
    }
}

impl From<ChangedByView> for ViewChange {
    fn from(ChangedByView { server, tool, listed_as, members, is_idle }: ChangedByView) -> Self {
        Self { server, tool, listed_as, changed: members, is_idle }
    }
}

impl From<&ServerShare> for ViewServer {
    fn from(of: &ServerShare) -> Self {
        Self {
            server: of.server.to_string(),
            tool_count: of.tools,
            resource_count: of.resources,
            template_count: of.templates,
            prompt_count: of.prompts,
        }
    }
}

impl ViewSummary {
    fn of(report: &ViewReport, callers: ViewCallers) -> Self {
        let sum = |count: fn(&ServerShare) -> usize| report.servers.iter().map(count).sum();
        let idle_rules = report.rules.iter().filter(|rule| rule.is_idle()).count();
        let ViewCallers { view, keys, token_words, certificates } = callers;
        Self {
            view,
            keys,
            token_words,
            certificates,
            read_only: report.view.is_read_only(),
            servers: report.servers.iter().map(ViewServer::from).collect(),
            tool_count: sum(|share| share.tools),
            resource_count: sum(|share| share.resources),
            template_count: sum(|share| share.templates),
            prompt_count: sum(|share| share.prompts),
            held_tool_count: report.held.len(),
            idle_rule_count: idle_rules + report.changes.iter().filter(|change| change.is_idle).count(),
        }
    }
}

/// The callers of all views, by the names of the views.
struct Callers {
    by_view: BTreeMap<String, ViewCallers>,
    words: Option<ViewWords>,
}

impl Callers {
    async fn of(api: &Api) -> Result<Self, Problem> {
        let authenticator = api.options.authenticator.as_ref();
        let keys = match authenticator.and_then(|authenticator| authenticator.api_keys()) {
            Some(keys) => keys::all(keys).await?,
            None => Vec::new(),
        };
        let words = authenticator.and_then(|authenticator| authenticator.view_words());
        let mut callers = Self { by_view: BTreeMap::new(), words };
        for key in keys {
            if let Some(view) = key.view {
                callers.of_view(&view).keys.push(BoundKey { id: key.id, role: key.role });
            }
        }
        let views = callers.words.as_ref().and_then(|words| words.views.clone());
        for (word, view) in views.into_iter().flatten() {
            callers.of_view(&view).token_words.push(word);
        }
        for (name, view) in &api.options.certificate_views {
            callers.of_view(view).certificates.push(name.clone());
        }
        Ok(callers)
    }

    fn of_view(&mut self, view: &str) -> &mut ViewCallers {
        self.by_view
            .entry(view.to_owned())
            .or_insert_with(|| ViewCallers { view: view.to_owned(), ..ViewCallers::default() })
    }

    /// Takes the callers of a view that exists.
    fn take(&mut self, view: &str) -> ViewCallers {
        self.of_view(view);
        let mut callers = self.by_view.remove(view).unwrap_or_default();
        if self.words.as_ref().is_some_and(|words| words.views.is_none()) {
            callers.token_words.push(view.to_owned());
        }
        callers
    }
}

/// All views
///
/// Each view has the number of items that its clients get, their servers, and the callers that are bound to it. It also has
/// the number of its rules that select nothing. Needs the role *superuser*, which no credential has that is bound to a view.
#[utoipa::path(
    get, path = "/views", tag = "gateway", operation_id = "list_views", params(IfNoneMatch),
    responses(
        (status = 200, description = "The views", body = ViewList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        ReadProblems
    )
)]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (mut callers, reports) = (Callers::of(&api).await?, api.manager.view_reports().await);
    let summary = |report: &ViewReport| ViewSummary::of(report, callers.take(&report.view.name));
    let views = reports.iter().map(summary).collect();
    let token_claim = callers.words.map(|words| words.claim);
    let all = ViewList { views, missing: callers.by_view.into_values().collect(), token_claim };
    answer(&all, &principal, &headers)
}

/// One view
///
/// The answer has the items that each rule selects now, the tools that the view changes, and the callers that are bound to it.
/// `GET /tools?view=` lists its tools as its clients get them. Needs the role *superuser*, which no credential has that is bound to a view.
#[utoipa::path(
    get, path = "/views/{view}", tag = "gateway", operation_id = "get_view",
    params(("view" = String, Path, description = "The view", example = "support"), IfNoneMatch),
    responses(
        (status = 200, description = "The view", body = ViewDetail,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        ViewProblems
    )
)]
pub(super) async fn one(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    PathName(view): PathName,
) -> Result<Response, Problem> {
    let report = api.manager.view_report(&view).await?;
    let summary = ViewSummary::of(&report, Callers::of(&api).await?.take(&report.view.name));
    let ViewReport { view, rules, changes, held: mut held_tools, .. } = report;
    held_tools.truncate(MAX_HELD);
    let detail = ViewDetail {
        summary,
        instructions: view.instructions.as_ref().map(ToString::to_string),
        rules: rules.into_iter().map(ViewRule::from).collect(),
        changes: changes.into_iter().map(ViewChange::from).collect(),
        held_tools,
        file: api.options.configuration.as_ref().map(|configuration| configuration().file),
    };
    answer(&detail, &principal, &headers)
}

/// Answers with `report`, which is charged to `principal`.
fn answer(report: &impl Serialize, principal: &Principal, headers: &HeaderMap) -> Result<Response, Problem> {
    Ok(Tagged::of(held(Raw::of(report).bytes().clone(), principal.id())?).answer(headers))
}
