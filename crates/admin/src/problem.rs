//! Problems as responses of the REST API.
//!
//! Invariant: a response has the code that its failure has over REST (`Problem::over_rest`). Not here: what a failure
//! means (`protocol::problem`), printing with the id of the request (`error`).

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use auth::Role;
use json::Raw;
use protocol::problem::FieldError;
use protocol::{ErrorCode, ErrorObject};
use runtime::memory::{self, Account, ChargeKind};
use runtime::telemetry::RequestId;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem before it is printed; [`super::error::finish`] prints it with the id of its request.
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
    /// Returns the status and the facts; [`super::error::finish`] adds the body, because it knows the request. The layer that
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
