//! What failed, as a problem document for whoever called.
//!
//! One match maps every failure of the facade; the codes are those the MCP endpoint puts into
//! `data.code`. Invariants: a problem document always carries the id of its request; a text that is
//! only for us (a panic, a bug) stands in the log under that id and nowhere else.
//!
//! Not here: what a *server* answered, its errors included; that is an answer (`call`).

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::Request;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::problem::{Code, ErrorType, FieldError, PROBLEM_JSON, Problem, clipped};
use gateway::manager;
use runtime::telemetry::audit::{self, Full};
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, panics, untrusted, untrusted_if_any};

/// The one table of what the facade's failures are called here.
impl From<manager::Error> for Problem {
    fn from(error: manager::Error) -> Self {
        use manager::Error as E;
        let (detail, verdict, guidance) = (error.to_string(), error.verdict(), error.guidance());
        let problem = match error {
            E::ServerNotFound { server, available, nearest } => {
                Self::new(Code::ServerNotFound, detail).with(|document| {
                    document.server = Some(clipped(server));
                    document.suggestion =
                        Some(instead(&nearest, "GET /api/v1/mcp/servers lists the servers"));
                    (document.available, document.nearest) = (available, nearest);
                })
            }
            E::NameNotFound { name, server, available, nearest, unreached, .. } => {
                Self::new(Code::ToolNotFound, detail).with(|document| {
                    (document.tool, document.server) = (Some(clipped(name)), server);
                    document.suggestion = Some(instead(&nearest, "GET /api/v1/mcp/tools lists the tools"));
                    (document.available, document.nearest) = (available, nearest);
                    document.unreached = unreached.iter().map(ToString::to_string).collect();
                })
            }
            E::Ambiguous { name, candidates, .. } => {
                Self::new(Code::AmbiguousTool, detail).with(|document| {
                    (document.tool, document.candidates) = (Some(name), candidates);
                })
            }
            E::AmbiguousArgument { server, tool, member } => {
                let error = FieldError {
                    field: clipped(member),
                    found: "more than one value".to_owned(),
                    expected: "one, because the server has it in a header too".to_owned(),
                };
                Self::of_fields(vec![error]).with(|document| {
                    (document.server, document.tool) = (Some(server.to_string()), Some(clipped(tool)));
                })
            }
            E::ToolChanged { server, tool, changed } => {
                Self::new(Code::ToolChanged, detail).with(|document| {
                    (document.server, document.tool) = (Some(server.to_string()), Some(clipped(tool)));
                    document.changed = changed;
                })
            }
            E::OtherDefinition { server, tool, .. } => {
                Self::new(Code::OtherDefinition, detail).with(|document| {
                    (document.server, document.tool) = (Some(server.to_string()), Some(clipped(tool)));
                })
            }
            // Resources are not read over REST.
            E::ResourceNotFound { .. } | E::AmbiguousUri { .. } => Self::new(Code::NotFound, detail),
            E::Upstream { server, tool, source, .. } => {
                let (code, retry_after) = of_upstream(&source);
                Self::new(code, detail).with(|document| {
                    (document.server, document.tool) = (Some(server.to_string()), tool);
                    document.retry_after_seconds = retry_after.or(verdict.retry_after);
                    document.backend = source.facts().cloned();
                    if let upstream::Error::Status { status, .. } | upstream::Error::Backend { status, .. } =
                        source
                    {
                        document.server_status = Some(status);
                    }
                })
            }
        };
        problem.with(|document| {
            if let Some(guidance) = guidance {
                document.suggestion = Some(guidance.into_owned());
            }
            document.error_type = ErrorType(verdict.word);
            document.retryable = Some(verdict.is_retryable);
        })
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        let retry_in = Some(audit::RETRY_IN);
        Self::new(Code::AuditFull, full.to_string())
            .with(|document| (document.retry_after_seconds, document.retryable) = (retry_in, Some(true)))
    }
}

/// What the failure of one server is called, and when it is worth trying again.
const fn of_upstream(error: &upstream::Error) -> (Code, Option<Duration>) {
    use upstream::Error as E;
    match error {
        E::CircuitOpen { retry_in } => (Code::CircuitOpen, Some(*retry_in)),
        E::Overloaded { retry_in } | E::Leased { retry_in } | E::Paced { retry_in, .. } => {
            (Code::Overloaded, Some(*retry_in))
        }
        E::Connect { .. } | E::NotSent { .. } => (Code::ConnectionFailed, None),
        E::Lost { .. } | E::Cut { .. } => (Code::OutcomeUnknown, None),
        E::TimedOut { .. } => (Code::TimedOut, None),
        E::MemoryExhausted => (Code::MemoryExhausted, None),
        E::Status { status: 401 | 403, .. } | E::AuthFailed { .. } => (Code::AuthFailed, None),
        E::Status { status: 429, retry_after } => (Code::RateLimited, *retry_after),
        E::Status { status: 500.., retry_after } => (Code::ServerError, *retry_after),
        E::Status { retry_after, .. } => (Code::InvalidAnswer, *retry_after),
        E::Backend { retry_after, .. } => (Code::BackendError, *retry_after),
        E::Malformed { .. } | E::TooLarge { .. } => (Code::InvalidAnswer, None),
        E::Unavailable { .. } => (Code::ServerUnavailable, None),
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(Code::InvalidRequest, rejection.body_text())
    }
}

fn instead(nearest: &[String], otherwise: &str) -> String {
    nearest.first().map_or_else(|| otherwise.to_owned(), |name| format!("did you mean {name:?}?"))
}

/// The outermost layer: gives the request an id if it has none yet, prints problems with it, and
/// turns a panic into one.
pub(super) async fn finish(mut request: Request, next: Next) -> Response {
    let id = *request.extensions_mut().get_or_insert_with(RequestId::new);
    finished(next.run(request), id).await
}

/// What `answer` comes to, as the answer to the request `id`.
pub(super) async fn finished(answer: impl Future<Output = Response>, id: RequestId) -> Response {
    let outcome = AssertUnwindSafe(answer).catch_unwind().await;
    let mut response = outcome.unwrap_or_else(|_| {
        panics::caught(id, None);
        Problem::new(Code::InternalError, "the request could not be completed").into_response()
    });
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        print(&problem, id, &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(RequestId::HEADER, id.header_value());
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn print(problem: &Problem, id: RequestId, response: &mut Response) {
    let (code, detail) = (problem.code(), untrusted(problem.detail()));
    let [server, tool] = problem.about().map(untrusted_if_any);
    if response.status().is_server_error() {
        if let Some(suppressed) = FAILURES.admit() {
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::warn!(request_id = %id, server, tool, %code, %detail, suppressed, "request failed");
        }
    } else {
        tracing::debug!(request_id = %id, server, tool, %code, %detail, "request refused");
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if let Some(seconds) = problem.retry_after() {
        headers.insert(RETRY_AFTER, seconds);
    }
    if problem.code() == Code::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    *response.body_mut() = problem.print(id).into();
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
