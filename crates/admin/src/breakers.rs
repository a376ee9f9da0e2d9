//! `/circuit-breakers`: their state, and closing one by hand.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::{NamedProblems, ReadProblems};
use super::problem::Problem;
use super::view::Breaker;
use super::{Api, json};

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
    responses((status = 200, description = "The circuit breakers", body = BreakerList), ReadProblems),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn list(State(Api { manager, .. }): State<Api>) -> Response {
    json(&BreakerList { circuit_breakers: manager.list_servers().iter().map(Breaker::from).collect() })
}

/// Close a circuit breaker
///
/// Closes it now and forgets its failures, whatever its state. Needs the role *superuser*.
#[utoipa::path(
    post, path = "/circuit-breakers/{name}/reset", tag = "circuit breakers",
    operation_id = "reset_circuit_breaker",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The circuit breaker, closed", body = Breaker), NamedProblems),
    security((), ("bearer" = []), ("api_key" = []))
)]
pub(super) async fn reset(
    State(Api { manager, .. }): State<Api>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name?;
    let server = manager.reset_breaker(&name)?;
    Ok(json(&Breaker::from(&server)))
}
