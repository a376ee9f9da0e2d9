//! Problems as responses of the REST API, and the layer that prints them as documents (RFC 9457).
//!
//! Invariants: a response has the code that its failure has over REST (`Problem::over_rest`). A problem document always has
//! the id of its request. The text of a panic is in the log under that id and nowhere else.
//!
//! Not here: what a failure means (`protocol::problem`), the answers of a *server*, errors included (`call`).

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;

use auth::{Principal, Role};
use gateway::manager;
use json::Raw;
use protocol::problem::FieldError;
use protocol::{ErrorCode, ErrorObject};
use runtime::memory::{self, Account, ChargeKind};
use runtime::telemetry::audit::Full;
use runtime::telemetry::pace::FAILURES;
use runtime::telemetry::{RequestId, panics, untrusted, untrusted_if_any};

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem before it is printed; [`finish`] prints it with the id of its request.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    problem: Box<protocol::Problem>,
    /// The role that the action needs, if the one of the principal is weaker.
    needed_role: Option<Role>,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        protocol::Problem::new(code, detail).into()
    }

    /// A problem of a principal whose role is too weak for an action that `role` may do.
    pub(super) fn forbidden(detail: impl Into<String>, role: Role) -> Self {
        Self { needed_role: Some(role), ..Self::new(ErrorCode::Forbidden, detail) }
    }

    /// A problem of a body that does not match the documentation; the first error becomes the detail.
    pub(super) fn of_fields(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map_or_else(String::new, |error| {
            let at = if error.field.is_empty() { "the body" } else { &error.field };
            format!("{at}: found {}, expected {}", error.found, error.expected)
        });
        Self::new(ErrorCode::InvalidRequest, detail).with(|problem| problem.errors = errors)
    }

    /// Names the server that answered, and the JSON-RPC error object that it sent.
    pub(super) fn answered_by(self, server: Option<&str>, error: Option<&ErrorObject>) -> Self {
        self.with(|problem| {
            problem.server = server.map(str::to_owned);
            problem.rpc_error = error.map(|error| error.raw().clone());
        })
    }

    pub(super) fn hinting(self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.with(|problem| problem.hint = hint.into())
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut protocol::Problem)) -> Self {
        change(&mut self);
        self
    }

    /// The header with the time after which a retry is useful.
    pub(super) fn retry_after(&self) -> Option<HeaderValue> {
        self.retry_after_seconds().map(HeaderValue::from)
    }

    /// Prints the document as JSON, charged to `account` until it was written. If the budget has no room for it, what
    /// the server sent is left out.
    pub(super) fn print(&self, id: RequestId, account: &Account) -> Bytes {
        let mut problem = self.problem.clone();
        problem.request_id = Some(id.to_string());
        let printed = Raw::of(&*problem).bytes().clone();
        memory::hold(printed, || account.clone(), ChargeKind::Answer).unwrap_or_else(|_| {
            (problem.rpc_error, problem.backend) = (None, None);
            Raw::of(&*problem).bytes().clone()
        })
    }
}

impl Deref for Problem {
    type Target = protocol::Problem;

    fn deref(&self) -> &protocol::Problem {
        &self.problem
    }
}

impl DerefMut for Problem {
    fn deref_mut(&mut self) -> &mut protocol::Problem {
        &mut self.problem
    }
}

impl From<protocol::Problem> for Problem {
    fn from(problem: protocol::Problem) -> Self {
        Self { problem: Box::new(problem.over_rest()), needed_role: None }
    }
}

impl IntoResponse for Problem {
    /// Returns the status and the facts; [`finish`] adds the body, because it knows the request. The layer that
    /// knows about scopes finds the role among the extensions.
    fn into_response(self) -> Response {
        let mut response = self.code().status().into_response();
        if let Some(role) = self.needed_role {
            response.extensions_mut().insert(role);
        }
        response.extensions_mut().insert(self);
        response
    }
}

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
#[path = "problem_tests.rs"]
mod tests;
