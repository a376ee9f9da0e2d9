//! `/circuit-breakers`: their state, and closing one by hand.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::{NamedProblems, ReadProblems};
use super::parameters::PathName;
use super::problem::Problem;
use super::view::Breaker;
use super::{Api, json};
use auth::Principal;
use gateway::manager::ServerStatus;

/// All circuit breakers.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CircuitBreakerList)]
struct BreakerList {
    /// One for each server, in the order of the registry.
    circuit_breakers: Vec<Breaker>,
}

/// All circuit breakers
///
/// Needs the role *reader*.
#[utoipa::path(
    get, path = "/circuit-breakers", tag = "circuit breakers", operation_id = "list_circuit_breakers",
    responses((status = 200, description = "The circuit breakers", body = BreakerList), ReadProblems)
)]
pub(super) async fn list(State(api): State<Api>, Extension(principal): Extension<Principal>) -> Response {
    let snapshot = api.seen(&principal);
    let servers = ServerStatus::all(&snapshot);
    json(&BreakerList { circuit_breakers: servers.iter().map(Breaker::from).collect() })
}

/// Close a circuit breaker
///
/// Closes it now and forgets its failures, whatever its state. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/circuit-breakers/{name}/reset", tag = "circuit breakers",
    operation_id = "reset_circuit_breaker",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The circuit breaker, closed", body = Breaker), NamedProblems)
)]
pub(super) async fn reset(State(api): State<Api>, PathName(name): PathName) -> Result<Response, Problem> {
    Ok(json(&Breaker::from(&api.manager.reset_breaker(&name)?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::{Answer, Gateway, server};

    #[tokio::test(start_paused = true)]
    async fn a_breaker_is_shown_and_reset() {
        let docs = server("docs");
        docs.1.answer_calls(Answer::Fail(upstream::Error::Lost { reason: "gone".into() }));
        let gateway = Gateway::of(vec![docs]).await;
        for _ in 0..5 {
            gateway.call(r#"{"tool":"echo"}"#).await;
        }
        let shown = gateway.get("/api/v1/mcp/circuit-breakers").await.json()["circuit_breakers"][0].clone();
        assert_eq!((&shown["server"], &shown["state"]), (&json!("docs"), &json!("open")));
        assert_eq!(shown["failure_count"], 5);
        let seconds = shown["seconds_until_probe"].as_f64().expect("a number");
        let ms = shown["probe_in_ms"].as_f64().expect("a number");
        assert!(seconds > 29.0 && (ms - seconds * 1000.0).abs() < 0.001, "{shown}");
        let reset = gateway.post("/api/v1/mcp/circuit-breakers/docs/reset", "").await.json();
        let closed = json!({"server": "docs", "state": "closed", "failure_count": 0, "success_count": 0, "seconds_until_probe": null, "probe_in_ms": null});
        assert_eq!(reset, closed);
        let unknown = gateway.post("/api/v1/mcp/circuit-breakers/dosc/reset", "").await;
        assert_eq!(unknown.problem(), (404, "server_not_found".into()));
    }
}
