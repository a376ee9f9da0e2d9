//! The REST API for operators and programs.
//!
//! Invariants: a route and its description are one row of `operations`, so the `OpenAPI` document cannot
//! describe another API. The row also names the required action, and `auth` decides who may do it. Every
//! refusal is a problem document with a stable code.
//!
//! Not here: authentication and the other checks of requests, which wrap this router.

mod answer;
mod approval;
mod body;
mod breakers;
mod call;
mod call_questions;
mod call_stream;
mod catalog;
mod changed_tool;
mod charged;
mod clients;
mod configuration;
mod dashboard;
mod entity_tag;
mod event_data;
mod events;
#[cfg(test)]
mod fixture;
mod grants;
mod health;
mod history;
mod keys;
mod logins;
mod metrics;
mod offers;
mod openapi;
#[cfg(test)]
mod openapi_base;
mod operations;
mod pages;
mod parameters;
mod printed_lists;
mod problem;
mod rest_call;
mod secrets;
mod server_entries;
mod server_state;
mod servers;
mod view;
mod views;
mod why;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use auth::{Action, Authenticator, Principal, Role};
use authorization::AuthorizationServer;
use call_questions::OpenCalls;
use gateway::Gateway;
use gateway::login_links::LoginContext;
use gateway::manager::live_events::LiveEvents;
use gateway::manager::{Manager, Scope, Snapshot};
use json::Raw;
use metrics::MetricsText;
use printed_lists::Lists;
use problem::Problem;
use protocol::ErrorCode;
use runtime::shutdown::Shutdown;
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, Actor, Subject};
use runtime::telemetry::metrics::Clients;

/// Path prefix of the API.
pub const PREFIX: &str = "/api/v1/mcp";
/// Path of calls of tools: `POST` here is [`call()`].
pub const CALL: &str = "/api/v1/mcp/call";
/// The default limit of the body of a call: 4 MiB.
const MAX_BODY: usize = 4 * 1024 * 1024;

pub use call::{Posted, direct as call};
pub use configuration::{Configuration, Loaded, NotReloaded, Reload, Reloaded};

pub use server_entries::{EditEntry, EditedEntry, EntryChange, EntrySettings, NotEdited};

/// Options of the router, beside the manager.
#[derive(Clone)]
pub struct Options {
    /// The largest body accepted, in bytes.
    pub max_body: usize,
    /// The `OpenAPI` document of this API, compressed by gzip; none if it is not served. A test makes it of the operations.
    pub document: Option<&'static [u8]>,
    /// Once this has begun, `/health/ready` reports that the instance is not ready.
    pub drain: Shutdown,
    /// Reloads the configuration file; none if there is no such file.
    pub reload: Option<Reload>,
    /// The configuration in effect; none if there is no such file.
    pub configuration: Option<Configuration>,
    /// Changes servers of the configuration file; none if there is no such file.
    pub edit_entry: Option<EditEntry>,
    /// Has the API keys; none if the host of this router authenticates clients.
    pub authenticator: Option<Arc<Authenticator>>,
    /// The views of clients that are bound to one by the names in their certificates.
    pub certificate_views: BTreeMap<String, String>,
    /// The logins to servers; none if nobody can log in here.
    pub logins: Option<LoginContext>,
    /// Has the grants of people to clients; none if this gateway has no authorization server.
    pub grants: Option<Arc<AuthorizationServer>>,
    /// Counts the clients for the metrics; none if they are not counted.
    pub count_clients: Option<CountClients>,
    /// The MCP methods, over which streaming calls, prompts and resources go; none makes them over the manager.
    pub gateway: Option<Gateway>,
}

/// Counts the connected clients.
pub type CountClients = Arc<dyn Fn() -> Clients + Send + Sync>;

impl Default for Options {
    fn default() -> Self {
        Self {
            max_body: MAX_BODY,
            document: None,
            drain: Shutdown::new(),
            reload: None,
            configuration: None,
            edit_entry: None,
            authenticator: None,
            certificate_views: BTreeMap::new(),
            logins: None,
            grants: None,
            count_clients: None,
            gateway: None,
        }
    }
}

/// The shared state of the routes.
#[derive(Clone)]
pub struct Api {
    manager: Arc<Manager>,
    options: Options,
    lists: Lists,
    gateway: Gateway,
    calls: OpenCalls,
    metrics: MetricsText,
}

impl Api {
    /// The API over `manager`.
    pub fn new(manager: Arc<Manager>, options: Options) -> Self {
        let own = || Gateway::new(Arc::clone(&manager), options.drain.clone());
        let gateway = options.gateway.clone().unwrap_or_else(own);
        Self {
            manager,
            options,
            lists: Lists::default(),
            gateway,
            calls: OpenCalls::default(),
            metrics: MetricsText::default(),
        }
    }

    /// The routes of this API; see [`router`]. Streaming calls that [`call()`] began are answered there.
    pub fn router(self) -> Router {
        operations::served(self.manager.live_events())
            .merge(pages::routes(self.options.document))
            .merge(dashboard::routes())
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(middleware::from_fn(problem::finish))
            .with_state(self)
    }
}

/// The REST API, the health routes with a line at `/`, `/metrics`, `/openapi.json`, `/docs`, `/docs/errors`, and the
/// dashboard at `/ui/`.
///
/// The routes under [`PREFIX`] and `/metrics` need a [`Principal`] among the extensions of the request, where
/// the authenticating layer puts it. Without one they answer with 401. The others are public, and say nothing
/// about servers unless a principal is present. A `telemetry::RequestId` among the extensions becomes the id of
/// the request; otherwise a new one is made.
///
/// The router has a fallback, so that unknown paths are answered with a problem document. To merge
/// it into one that has its own, call [`Router::reset_fallback`] first; one that has its own `/` nests it.
pub fn router(manager: Arc<Manager>, options: Options) -> Router {
    Api::new(manager, options).router()
}

async fn authorise(
    State((action, events)): State<(Action, Arc<LiveEvents>)>,
    named: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
    next: Next,
) -> Response {
    let (principal, id) = (request.extensions().get(), request.extensions().get().copied());
    let mut operated = None;
    let is_operation = action.is_operation() && !server_entries::is_dry_run(request.uri());
    // The only parameter of a path is a server, a key, a secret or a grant.
    let parameter = named.as_ref().ok().and_then(|named| named.iter().next());
    let subject = subject_of(action, parameter, request.uri(), principal);
    let (payer, record) = match authorised_about(principal, action, id, &subject) {
        Ok(principal) if is_operation => {
            let server = parameter.filter(|(kind, _)| *kind == "name").map(|(_, name)| name);
            match audit::operation(who(principal, id), action.as_str(), server) {
                Ok(mut record) => {
                    if let Some(record) = &mut record {
                        record.about(subject);
                    }
                    operated = server.map(str::to_owned);
                    (Arc::clone(principal.id()), record)
                }
                Err(full) => return Problem::from(full).into_response(),
            }
        }
        Ok(principal) => (Arc::clone(principal.id()), None),
        Err(problem) => return problem.into_response(),
    };
    let response = next.run(request).await;
    if is_operation {
        let failure = response.extensions().get::<Problem>().map(|problem| problem.code().to_string());
        let outcome = failure.map_or(Cow::Borrowed(audit::DONE), Cow::Owned);
        events.operated(&payer, (action.as_str(), operated.as_deref()), &outcome, id);
        if let Some(mut record) = record {
            if let Some(known) = response.extensions().get::<Subject>() {
                record.about(known.clone());
            }
            record.ended(outcome);
        }
    }
    charged::charged(response, &payer, is_operation).await
}

/// Returns what a request for `uri` does `action` to, as the parameter of its path and its query say. A handler that knows more
/// makes that an extension of its response.
fn subject_of(
    action: Action,
    parameter: Option<(&str, &str)>,
    uri: &Uri,
    principal: Option<&Principal>,
) -> Subject {
    let of = |kind| parameter.filter(|(other, _)| *other == kind).map(|(_, name)| name.to_owned());
    let requested = |name| Query::<BTreeMap<String, String>>::try_from_uri(uri).ok()?.0.remove(name);
    let mut subject =
        Subject { key: of("key"), secret: of("secret"), grant: of("grant"), ..Subject::default() };
    if subject.secret.is_some() {
        subject.of = requested("principal").or_else(|| Some(principal?.id().to_string()));
    } else if action == Action::RevokeGrant && subject.grant.is_none() {
        subject.of = requested("principal");
    } else if action == Action::RemoveClient {
        subject.client = requested("client");
    }
    subject
}

/// Returns `principal` as the audit log shows it.
fn who(principal: &Principal, request: Option<RequestId>) -> Actor<'_> {
    Actor { principal: principal.id(), role: principal.role().as_str(), request }
}

impl Api {
    /// Returns the scope of `principal`: the view that it is bound to, or else the one that it asks for.
    fn scope(&self, principal: &Principal, view: Option<&str>) -> Result<Scope, Problem> {
        Ok(self.manager.reach(principal.view(), None, view)?)
    }

    /// Returns the servers as `principal` sees them.
    fn seen(&self, principal: &Principal) -> Arc<Snapshot> {
        self.manager.seen_through(principal.view())
    }
}

/// Returns the principal, if it may do `action` in the request `id`.
fn authorised(
    principal: Option<&Principal>,
    action: Action,
    id: Option<RequestId>,
) -> Result<&Principal, Problem> {
    authorised_about(principal, action, id, &Subject::default())
}

/// Returns the principal, if it may do `action` in the request `id`. The audit line of a refusal names `subject`.
fn authorised_about<'p>(
    principal: Option<&'p Principal>,
    action: Action,
    id: Option<RequestId>,
    subject: &Subject,
) -> Result<&'p Principal, Problem> {
    match principal {
        Some(principal) if principal.may(action) => Ok(principal),
        Some(principal) => {
            audit::refused(who(principal, id), action.as_str(), subject)?;
            let (detail, other) = match principal.view() {
                Some(view) => {
                    (format!("a credential for the view {view} may not do this"), " and without a view")
                }
                None => (format!("the role {} may not do this", principal.role()), ""),
            };
            let role = Role::needed_for(action);
            Err(Problem::forbidden(detail, role)
                .hinting(format!("use a credential with the role {role}{other}")))
        }
        None => Err(Problem::new(ErrorCode::Unauthorized, "the request carries no credential")),
    }
}

async fn not_found(uri: Uri) -> Problem {
    let problem = Problem::new(ErrorCode::NotFound, format!("there is nothing at {}", uri.path()));
    problem.hinting("GET /openapi.json describes every path of the REST API; the MCP endpoint is `/mcp`")
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!("{} does not have the method {method}", uri.path());
    let problem = Problem::new(ErrorCode::MethodNotAllowed, detail);
    if uri.path() == "/" { problem.hinting("the MCP endpoint is `/mcp`") } else { problem }
}

/// An answer with status 200.
fn json<T: Serialize>(answer: &T) -> Response {
    json_bytes(Raw::of(answer).bytes().clone())
}

/// A JSON text as an answer.
fn json_bytes(body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod described_tests;
#[cfg(test)]
mod member_names_tests;
#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
