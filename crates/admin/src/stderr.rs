//! `/servers/{name}/stderr`: what the process of a server wrote to standard error last.
//!
//! Invariant: configured secrets are redacted before a line is kept here. The lines are bounded (`upstream`).

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use super::openapi::StderrProblems;
use super::parameters::PathName;
use super::problem::Problem;
use super::{Api, json};
use protocol::ErrorCode;

/// The last lines on standard error.
#[derive(Debug, Serialize, ToSchema)]
struct StderrLines {
    /// The server.
    #[schema(examples("issues"))]
    server: String,
    /// The lines, the oldest first: at most 40, with 16 KiB together.
    lines: Vec<String>,
}

/// Standard error of a server
///
/// The last lines that the process of a server wrote to standard error: of the last process that wrote any, also if it has
/// ended. Values of its settings that may be secret are replaced. Needs the role *superuser*.
#[utoipa::path(
    get, path = "/servers/{name}/stderr", tag = "servers", operation_id = "read_stderr",
    params(("name" = String, Path, description = "The server", example = "issues")),
    responses((status = 200, description = "The lines", body = StderrLines), StderrProblems)
)]
pub(super) async fn read(
    State(Api { manager, .. }): State<Api>,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let snapshot = manager.snapshot();
    let lines = snapshot.server(&name)?.upstream.stderr().ok_or_else(|| {
        let text = format!("the server {name} is no program, so it has no standard error here");
        Problem::new(ErrorCode::NotFound, text).with(|document| document.server = Some(name.clone()))
    })?;
    Ok(json(&StderrLines { server: name, lines }))
}
