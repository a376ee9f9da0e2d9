//! Failures as problem documents (RFC 9457).
//!
//! Invariants: MCP clients get the same code, hint and retryability (`manager::ErrorClass`). A problem
//! document always has the id of its request. The text of a panic is in the log under that id and nowhere else.
//!
//! Does not handle the answers of a *server*, errors included (`call`).

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::problem::{Document, FieldError, PROBLEM_JSON, Problem, clipped};
use auth::Principal;
use gateway::manager;
use protocol::ErrorCode;
use runtime::memory::Account;
use runtime::telemetry::audit::{self, Full};
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, panics, untrusted, untrusted_if_any};

impl From<manager::Error> for Problem {
    fn from(error: manager::Error) -> Self {
        let (class, hint) = (error.class(), error.hint());
        let [server, tool] =
            [error.server(), error.tool()].map(|name| name.map(|name| clipped(name.to_owned())));
        let problem = match &error {
            manager::Error::AmbiguousArgument { member, .. } => Self::of_fields(vec![several(member)]),
            _ => Self::new(of_rest(class.code), error.to_string()),
        };
        problem.with(|document| {
            (document.server, document.tool, document.hint) = (server, tool, hint);
            (document.retryable, document.retry_after) = (class.is_retryable, class.retry_after);
            add_facts(document, error);
        })
    }
}

/// The code over REST, where prompts and resources have no codes of their own.
pub(super) const fn of_rest(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::InvalidParams => ErrorCode::InvalidRequest,
        ErrorCode::PromptNotFound | ErrorCode::ResourceNotFound | ErrorCode::AmbiguousUri => {
            ErrorCode::NotFound
        }
        ErrorCode::AmbiguousPrompt => ErrorCode::AmbiguousTool,
        other => other,
    }
}

/// A member of the arguments that must have one value.
fn several(member: &str) -> FieldError {
    FieldError {
        field: clipped(member.to_owned()),
        found: "more than one value".to_owned(),
        expected: "one, because the server has it in a header too".to_owned(),
    }
}

/// Writes the facts that only some failures have.
fn add_facts(document: &mut Document, error: manager::Error) {
    use manager::Error as E;
    match error {
        E::ServerNotFound { available, nearest, .. } => {
            (document.available, document.nearest) = (available, nearest);
        }
        E::NameNotFound { nearest, unreached, .. } => {
            document.nearest = nearest;
            document.unreached = unreached.iter().map(ToString::to_string).collect();
        }
        E::Ambiguous { candidates, .. } => document.candidates = candidates,
        E::ToolChanged { changed, .. } => document.changed = changed,
        E::Upstream { source, .. } => {
            document.backend = source.facts().cloned();
            document.server_status = source.status();
        }
        E::AmbiguousArgument { .. }
        | E::OtherDefinition { .. }
        | E::ResourceNotFound { .. }
        | E::AmbiguousUri { .. } => {}
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        let retry_in = Some(audit::RETRY_IN);
        Self::new(ErrorCode::AuditFull, full.to_string()).with(|document| document.retry_after = retry_in)
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::new(ErrorCode::InvalidRequest, rejection.body_text())
    }
}

/// The outermost layer: gives the request an id if it has none yet, prints problems with it, and
/// turns a panic into one.
pub(super) async fn finish(mut request: Request, next: Next) -> Response {
    let id = *request.extensions_mut().get_or_insert_with(RequestId::new);
    let account = Account::of(request.extensions().get().map(Principal::id));
    finished(next.run(request), id, &account).await
}

/// The response to the request `id` that `answer` gives, also if it panics. `account` pays for a problem document.
pub(super) async fn finished(
    answer: impl Future<Output = Response>,
    id: RequestId,
    account: &Account,
) -> Response {
    let outcome = AssertUnwindSafe(answer).catch_unwind().await;
    let mut response = outcome.unwrap_or_else(|_| {
        panics::caught(id, None);
        Problem::new(ErrorCode::InternalError, "the request could not be completed").into_response()
    });
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        print(&problem, (id, account), &mut response);
    }
    let headers = response.headers_mut();
    headers.insert(RequestId::HEADER, id.header_value());
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn print(problem: &Problem, (id, account): (RequestId, &Account), response: &mut Response) {
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
    if problem.code() == ErrorCode::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    *response.body_mut() = problem.print(id, account).into();
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
