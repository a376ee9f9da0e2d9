//! Health of the servers for operators; liveness and readiness for supervisors.
//!
//! Invariants: an answer uses known states and sends nothing to a server, except with `check=true`. Only readers
//! may request that, and the manager limits how often servers are asked. Public routes name no server. The line
//! at `/` and `/health` report the same state.

use std::time::SystemTime;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::logins::LoginUrls;
use super::openapi::QueryProblems;
use super::parameters::{Parameters, parameters};
use super::problem::Problem;
use super::server_state::ServerState;
use super::view::ServerHealth;
use super::{Api, json};
use auth::{Action, Principal};
use gateway::manager::ServerEntry;

/// All servers in one word; those that are disabled do not count. `healthy`: every server is.
/// `degraded`: some are. `unhealthy`: none is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Overall {
    /// Every server is.
    Healthy,
    /// Some are.
    Degraded,
    /// None is.
    Unhealthy,
}

impl Overall {
    fn of(servers: &[ServerEntry]) -> Self {
        let enabled = servers.iter().filter(|server| server.is_enabled());
        let (healthy, ill): (Vec<_>, Vec<_>) = enabled.partition(|server| server.is_healthy());
        match (healthy.is_empty(), ill.is_empty()) {
            (_, true) => Self::Healthy,
            (false, false) => Self::Degraded,
            (true, false) => Self::Unhealthy,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// How all servers are.
#[derive(Debug, Serialize, ToSchema)]
struct Health {
    status: Overall,
    /// In the order of the registry.
    servers: Vec<ServerHealth>,
}

/// The query parameters of `/health`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct HealthQuery {
    /// Whether to ask every server now. It takes at most about 10 s. Servers are asked at most once in 5 s
    /// for all callers together. Requests in between are answered with what was found then.
    #[serde(default)]
    #[param(required = false)]
    check: bool,
}

/// How the servers are
///
/// As of their last health check or call, or, with `check=true`, as they answer now. Needs the role *reader*.
#[utoipa::path(
    get, path = "/health", tag = "servers", operation_id = "server_health",
    params(HealthQuery),
    responses((status = 200, description = "How they are", body = Health), QueryProblems)
)]
pub(super) async fn servers(
    State(api): State<Api>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    requested: Parameters<HealthQuery>,
) -> Result<Response, Problem> {
    let HealthQuery { check } = parameters(requested, "the only parameter is `check`, `true` or `false`")?;
    let manager = &api.manager;
    if check {
        manager.health_check().await;
    }
    let servers = ServerEntry::all(&api.seen(&principal));
    let login = LoginUrls { gateway: &api.gateway, principal: &principal, headers: &headers };
    let now = SystemTime::now();
    Ok(json(&Health {
        status: Overall::of(&servers),
        servers: servers.iter().map(|server| login.health(server, ServerHealth::of(server, now))).collect(),
    }))
}

/// The gateway and its servers in short.
#[derive(Debug, Serialize, ToSchema)]
struct Summary {
    status: Overall,
    /// The version of the gateway.
    version: &'static str,
    /// The state of each server, for readers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    servers: Option<Vec<NamedState>>,
}

/// The state of one server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ServerSummary)]
struct NamedState {
    name: String,
    /// Its name, as all answers about a server have it.
    server: String,
    state: ServerState,
}

/// Health in short
///
/// Open to everybody; who may read also sees the state of each server.
#[utoipa::path(
    get, path = "/health", tag = "gateway", operation_id = "health",
    responses((status = 200, description = "The gateway runs; `status` tells of its servers", body = Summary))
)]
pub(super) async fn summary(State(api): State<Api>, principal: Option<Extension<Principal>>) -> Response {
    let view = principal.as_ref().and_then(|Extension(principal)| principal.view());
    let servers = ServerEntry::all(&api.manager.seen_through(view));
    let named = |server: &ServerEntry| NamedState {
        name: server.name().to_string(),
        server: server.name().to_string(),
        state: server.state().into(),
    };
    let may_see = principal.is_some_and(|Extension(principal)| principal.may(Action::List));
    json(&Summary {
        status: Overall::of(&servers),
        version: env!("CARGO_PKG_VERSION"),
        servers: may_see.then(|| servers.iter().map(named).collect()),
    })
}

/// Whether the process lives or is ready.
#[derive(Debug, Serialize, ToSchema)]
struct Probe {
    status: ProbeStatus,
}

/// Whether the process lives or is ready. `starting`: the first attempt to connect to some server has
/// not ended yet. `draining`: the gateway is about to end.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ProbeStatus {
    /// The process answers.
    Alive,
    /// Ready for work.
    Ready,
    /// Some servers' first attempt to connect has not ended yet.
    Starting,
    /// The gateway is about to end.
    Draining,
}

/// Health in a line
///
/// Name and version of the gateway and the word that `/health` has for all servers: `switchyard 0.1.0: healthy`.
/// Open to everybody.
#[utoipa::path(
    get, path = "/", tag = "gateway", operation_id = "health_line",
    responses((
        status = 200, description = "The gateway runs", body = String,
        content_type = "text/plain; charset=utf-8",
    )),
    security()
)]
pub(super) async fn line(State(Api { manager, .. }): State<Api>) -> Response {
    let status = Overall::of(&manager.entries()).as_str();
    format!("switchyard {}: {status}\n", env!("CARGO_PKG_VERSION")).into_response()
}

/// Liveness
///
/// 200 while the process answers at all. Open to everybody, and answered whatever the `Host` is.
#[utoipa::path(
    get, path = "/health/live", tag = "gateway", operation_id = "live",
    responses((status = 200, description = "The process lives", body = Probe)),
    security()
)]
pub(super) async fn live() -> Response {
    json(&Probe { status: ProbeStatus::Alive })
}

/// Readiness
///
/// 200 once the first attempt to connect to every enabled server has ended, well or badly, or ten seconds after
/// the start, until the gateway is asked to end. Servers that a reload brings do not count. Open to everybody,
/// and answered whatever the `Host` is.
#[utoipa::path(
    get, path = "/health/ready", tag = "gateway", operation_id = "ready",
    responses(
        (status = 200, description = "Ready for work", body = Probe),
        (status = 503, description = "Starting or draining", body = Probe),
    ),
    security()
)]
pub(super) async fn ready(State(Api { manager, options, .. }): State<Api>) -> Response {
    let status = if options.drain.is_begun() {
        ProbeStatus::Draining
    } else if manager.snapshot().has_started() {
        return json(&Probe { status: ProbeStatus::Ready });
    } else {
        ProbeStatus::Starting
    };
    (StatusCode::SERVICE_UNAVAILABLE, json(&Probe { status })).into_response()
}
