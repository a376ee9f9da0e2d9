//! Resources and prompts: what servers offer beside tools, listed and read.
//!
//! Invariants: definitions and results keep the bytes that the servers wrote. Reading needs the role that a call needs,
//! and has its line in the audit log. A server cannot ask the client questions meanwhile, because the answer is no
//! stream.
//!
//! Not here: search and pages (`parameters`), which server has a URI (`manager`), the methods (`gateway`).

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::answer::{not_an_object, text_of};
use super::body::{self, received};
use super::charged::held;
use super::entity_tag::{IfNoneMatch, Tagged};
use super::openapi::{NamedProblems, ServerReadProblems};
use super::parameters::{ListQuery, Parameters, PathName};
use super::printed_lists::printed;
use super::problem::Problem;
use super::view::in_ms;
use super::{Api, json_bytes, rest_call};
use auth::Principal;
use gateway::manager::catalog::CatalogEntry;
use gateway::manager::{ItemKind, Scope};
use gateway::{Caller, collect};
use json::Raw;
use protocol::JsonObject;
use protocol::error::code::{INVALID_PARAMS, RESOURCE_NOT_FOUND};
use protocol::feature::Kind;
use protocol::{ErrorCode, ErrorObject, Reply, Request, RequestId as MessageId, method};
use runtime::telemetry::RequestId;
use upstream::EventSender;

/// The longest URI and the longest name of a prompt, in bytes.
const MAX_NAME: usize = 8192;

/// Resources, resource templates or prompts.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // describes the answer, which `printed_lists` prints
struct OfferList {
    /// In the order of the registry, then in that of the server; with `query` the best matches first.
    items: Vec<Offered>,
    /// The `cursor` of the next page. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A resource, a resource template or a prompt.
#[derive(Debug, Serialize, ToSchema)]
struct Offered {
    /// The URI, the template or the name that it is offered under; enough to read it.
    #[schema(examples("file:///notes.txt"))]
    name: String,
    /// The server that has it.
    #[schema(examples("files"))]
    server: String,
    /// Its definition as the server wrote it, under `name`.
    #[schema(value_type = JsonObject)]
    definition: Raw,
}

impl Offered {
    fn of(entry: &CatalogEntry) -> Self {
        let server = entry.route.server.to_string();
        Self { name: entry.exposed.clone(), server, definition: entry.definition.clone() }
    }
}

/// Every resource
///
/// The resources of all servers, by the URI that `POST /resources/read` takes. Needs the role *reader*.
#[utoipa::path(
    get, path = "/resources", tag = "resources and prompts", operation_id = "list_resources",
    params(ListQuery, IfNoneMatch),
    responses(
        (status = 200, description = "The resources", body = OfferList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        NamedProblems
    )
)]
pub(super) async fn resources(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    query: Parameters<ListQuery>,
) -> Result<Response, Problem> {
    list(&api, &principal, (Kind::Resources, &ListQuery::read(query)?), &headers).await
}

/// Every resource template
///
/// The templates of all servers, from which URIs of resources are made. Needs the role *reader*.
#[utoipa::path(
    get, path = "/resources/templates", tag = "resources and prompts", operation_id = "list_resource_templates",
    params(ListQuery, IfNoneMatch),
    responses(
        (status = 200, description = "The templates", body = OfferList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        NamedProblems
    )
)]
pub(super) async fn templates(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    query: Parameters<ListQuery>,
) -> Result<Response, Problem> {
    list(&api, &principal, (Kind::Templates, &ListQuery::read(query)?), &headers).await
}

/// Every prompt
///
/// The prompts of all servers, by the name that `POST /prompts/{name}` takes. Needs the role *reader*.
#[utoipa::path(
    get, path = "/prompts", tag = "resources and prompts", operation_id = "list_prompts",
    params(ListQuery, IfNoneMatch),
    responses(
        (status = 200, description = "The prompts", body = OfferList,
         headers(("ETag" = String, description = "Changes when the answer does"))),
        (status = 304, description = "The answer is still the one that `If-None-Match` names"),
        NamedProblems
    )
)]
pub(super) async fn prompts(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    query: Parameters<ListQuery>,
) -> Result<Response, Problem> {
    list(&api, &principal, (Kind::Prompts, &ListQuery::read(query)?), &headers).await
}

async fn list(
    api: &Api,
    principal: &Principal,
    (kind, query): (Kind, &ListQuery),
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let scope = api.scope(principal, query.view())?;
    let snapshot = api.manager.seen_by_program(principal.id(), &scope).await;
    let catalog = snapshot.catalog(&scope)?;
    let page = query.page(&snapshot, catalog.listing(kind).entries()).await?;
    Ok(Tagged::of(printed("items", page, principal.id(), Offered::of).await?).answer(headers))
}

/// Which resource to read.
#[derive(Debug, ToSchema)]
#[schema(as = ReadRequest)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct ReadBody {
    /// Its URI, as `GET /resources` lists it or made from a template.
    #[schema(min_length = 1, max_length = 8192, examples("file:///notes.txt"))]
    uri: String,
    /// The view through which it is looked up. A credential that is bound to a view has no other.
    #[schema(min_length = 1, max_length = 1024, examples("support"))]
    view: Option<String>,
}

/// The contents of a resource, or the messages of a prompt.
#[derive(Debug, Serialize, ToSchema)]
struct ReadAnswer {
    /// The result of MCP as the server wrote it, with `contents` or `messages`.
    #[schema(value_type = JsonObject)]
    result: Raw,
    /// The server that has it. Absent if several may.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, examples("files"))]
    server: Option<String>,
    /// From the request to the answer.
    #[schema(examples(12.25), minimum = 0)]
    duration_ms: f64,
    /// The id of the request, which the gateway's log has too.
    #[schema(value_type = String, format = "uuid")]
    request_id: RequestId,
}

/// Read a resource
///
/// Reads the resource at the server that has it. Needs the role *caller*.
#[utoipa::path(
    post, path = "/resources/read", tag = "resources and prompts", operation_id = "read_resource",
    request_body(content = ReadBody),
    responses((status = 200, description = "What the server answered", body = ReadAnswer), ServerReadProblems)
)]
pub(super) async fn read(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = received(body, api.options.max_body).await?;
    let [uri, view] = body::members(&headers, &body, ["uri", "view"])?;
    let uri = body::required_text(uri.as_ref(), "uri", MAX_NAME)?;
    let scope = api.scope(&principal, body::optional_view(view)?.as_deref())?;
    let snapshot = api.manager.seen_by_program(principal.id(), &scope).await;
    let listed = snapshot.catalog(&scope)?.resources().listed(&uri);
    let server = listed.map(|entry| entry.route.server.to_string());
    let params = Raw::object(&[("uri", &Raw::of(&uri))]);
    ask(&api, (&principal, scope, id), (method::RESOURCES_READ, uri, params), server, &headers).await
}

/// The values that a prompt is filled in with.
#[derive(Debug, ToSchema)]
#[schema(as = PromptRequest)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // describes the body, which `body::members` reads
struct PromptBody {
    /// The arguments of the prompt, strings; `{}` when they are left out.
    #[schema(value_type = Option<JsonObject>)]
    arguments: Option<Raw>,
    /// The view through which the prompt is looked up. A credential that is bound to a view has no other.
    #[schema(min_length = 1, max_length = 1024, examples("support"))]
    view: Option<String>,
}

/// Get a prompt
///
/// Gets the prompt from its server, with its arguments filled in. Needs the role *caller*.
#[utoipa::path(
    post, path = "/prompts/{name}", tag = "resources and prompts", operation_id = "get_prompt",
    params(("name" = String, Path, description = "The prompt, as `GET /prompts` lists it", example = "summarize")),
    request_body(content = PromptBody),
    responses((status = 200, description = "What the server answered", body = ReadAnswer), ServerReadProblems)
)]
pub(super) async fn prompt(
    State(api): State<Api>,
    asker: (Extension<RequestId>, Extension<Principal>),
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (Extension(id), Extension(principal)) = asker;
    let body = received(body, api.options.max_body).await?;
    let [arguments, view] = body::members(&headers, &body, ["arguments", "view"])?;
    let arguments = body::optional_object(arguments, "arguments")?.unwrap_or_else(Raw::empty_object);
    let scope = api.scope(&principal, body::optional_view(view)?.as_deref())?;
    let snapshot = api.manager.seen_by_program(principal.id(), &scope).await;
    let route = snapshot.route(&scope, ItemKind::Prompt, &name);
    let server = route.ok().map(|route| route.server.to_string());
    let params = Raw::object(&[("name", &Raw::of(&name)), ("arguments", &arguments)]);
    ask(&api, (&principal, scope, id), (method::PROMPTS_GET, name, params), server, &headers).await
}

/// Makes a request that only reads, and prints its answer.
async fn ask(
    api: &Api,
    (principal, scope, id): (&Principal, Scope, RequestId),
    (method, subject, params): (&'static str, String, Raw),
    server: Option<String>,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let record =
        rest_call::begin_record((principal, id), server.as_deref(), || format!("{method} {subject}"))?;
    let forwarded = api.manager.forwarded(headers).map_err(|too_large| Problem::from(*too_large))?;
    let caller = Caller::of_program(principal.clone(), scope, None).forwarding(forwarded);
    let request = Request { id: MessageId::from_u64(1), method: method.into(), params: Some(params) };
    let reply = api.gateway.handle(&caller, &request, &EventSender::unread()).await;
    let reply = collect(reply, caller.version.era()).await;
    if let Some(record) = record {
        record.answered(&reply);
    }
    let result = result(reply, server.as_deref())?;
    let answer = ReadAnswer { result, server, duration_ms: in_ms(started.elapsed()), request_id: id };
    Ok(json_bytes(held(Raw::of(&answer).bytes().clone(), principal.id())?))
}

fn result(reply: Reply, server: Option<&str>) -> Result<Raw, Problem> {
    match reply {
        Ok(result) if result.is_object() => Ok(result),
        Ok(_) => Err(not_an_object(server)),
        Err(error) => Err(problem(&error, server)),
    }
}

/// The problem of a read that ended with `error`, an answer of the server or an error of Switchyard.
fn problem(error: &ErrorObject, server: Option<&str>) -> Problem {
    let code = match (error.problem(), error.code()) {
        (Some(problem), _) => return problem.clone().into(),
        (None, INVALID_PARAMS) => ErrorCode::InvalidArguments,
        (None, RESOURCE_NOT_FOUND) => ErrorCode::NotFound,
        (None, _) => ErrorCode::ServerError,
    };
    Problem::new(code, text_of(error)).answered_by(server, Some(error))
}
