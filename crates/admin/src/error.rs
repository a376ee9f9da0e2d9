//! The layer that prints problem documents (RFC 9457).
//!
//! Invariants: a problem document always has the id of its request. The text of a panic is in the log under that id and
//! nowhere else.
//!
//! Does not handle the answers of a *server*, errors included (`call`).

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::problem::{PROBLEM_JSON, Problem};
use auth::Principal;
use gateway::manager;
use protocol::ErrorCode;
use runtime::memory::Account;
use runtime::telemetry::audit::Full;
use runtime::telemetry::limit::FAILURES;
use runtime::telemetry::{RequestId, panics, untrusted, untrusted_if_any};

impl From<manager::Error> for Problem {
    fn from(error: manager::Error) -> Self {
        error.problem().into()
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        protocol::Problem::from(full).into()
    }
}

/// The outermost layer: gives the request an id if it has none yet, prints problems with it, and
/// turns a panic into one.
pub(super) async fn finish(mut request: Request, next: Next) -> Response {
    let id = *request.extensions_mut().get_or_insert_with(RequestId::new);
    let account = Account::of(request.extensions().get().map(Principal::id));
    let mut response = finished(next.run(request), id, &account).await;
    response.headers_mut().insert(RequestId::HEADER, id.header_value());
    response
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
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn print(problem: &Problem, (id, account): (RequestId, &Account), response: &mut Response) {
    let (code, detail) = (problem.code(), untrusted(&problem.detail));
    let [server, tool] = [&problem.server, &problem.tool].map(|name| untrusted_if_any(name.as_deref()));
    if problem.is_failure() {
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
