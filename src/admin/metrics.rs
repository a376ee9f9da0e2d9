//! `/metrics`: what is counted, for Prometheus.
//!
//! Not here: the names (`telemetry::metrics`), the counting.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::openapi::ReadProblems;
use super::problem::{Code, Problem};
use crate::manager::ServerStatus;
use crate::telemetry::metrics::{self, Cache, MEDIA_TYPE, Server};

/// Metrics
///
/// In the text format of Prometheus (`OpenMetrics` 1.0). Needs the role *reader*.
#[utoipa::path(
    get, path = "/metrics", tag = "gateway", operation_id = "metrics",
    responses((
        status = 200, description = "What is counted", body = String,
        content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ), ReadProblems),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn metrics(State(Api { manager, options }): State<Api>) -> Result<Response, Problem> {
    let (servers, store) = (manager.list_servers(), manager.store());
    let servers: Vec<Server<'_>> = servers.iter().map(server).collect();
    let counts = store.counts();
    let caches: Vec<Cache<'_>> = counts
        .iter()
        .map(|(area, counts)| Cache { area, hits: counts.hits, misses: counts.misses, faults: counts.faults })
        .collect();
    let clients = options.door.map(|door| door());
    let text = metrics::text(&servers, clients, &caches, store.is_there())
        .map_err(|_| Problem::new(Code::InternalError, "the metrics could not be printed"))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}

fn server(server: &ServerStatus) -> Server<'_> {
    let (status, changed) = (&server.status, server.trust.changes().len());
    Server {
        name: &server.config.name,
        state: status.state.as_str(),
        breaker: status.breaker.state.as_str(),
        is_healthy: status.is_healthy(),
        calls: [status.counters.calls, status.counters.failures, status.counters.refusals],
        retries: status.counters.retries,
        load: [status.running, status.waiting],
        connections: status.connections,
        sockets: status.sockets.map(|sockets| [sockets.open.saturating_sub(sockets.idle), sockets.idle]),
        tools: server.tools,
        changed: [changed, if server.trust.holds() { changed } else { 0 }],
        latency: status.latency,
    }
}
