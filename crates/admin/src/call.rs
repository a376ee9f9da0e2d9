//! `POST /call`: runs a tool.
//!
//! Not here: parsing the body (`body`), the form of the answer (`answer`), who may call (`operations`), routing and
//! everything between Switchyard and the server (`gateway`).

use std::pin::pin;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::answer::Answer;
use super::body::{self, CallRequest, received};
use super::logins::host;
use super::openapi::CallProblems;
use super::problem::{Problem, finished};
use super::{Api, authorised, call_stream, json_bytes, rest_call};
use auth::{Action, Principal};
use runtime::memory::Account;
use runtime::telemetry::RequestId;
use upstream::EventSender;

/// Run a tool
///
/// Calls `tool` at `server`, or, when `server` is left out, wherever a tool of that name lives. Needs
/// the role *caller*. The call is cancelled when the client closes the connection.
///
/// 200 means that the server answered. `success` is false when its tool reported an error, and then
/// `error` says which. A call that could not be made is a problem document with a stable `code`.
///
/// With `Accept: text/event-stream` the answer is a stream. The schemas of the `data` of its events are `CallEvent`,
/// `ProgressEvent`, `MessageEvent`, `QuestionEvent` and `QuestionWithdrawnEvent`; the last event is `result` with a
/// `CallAnswer`, or `error` with a `Problem`.
#[utoipa::path(
    post, path = "/call", tag = "tools", operation_id = "call_tool",
    request_body(content = CallRequest, examples(
        ("named" = (summary = "A tool of a named server", value = json!({
            "server": "issues", "tool": "create_issue",
            "arguments": {"title": "The door squeaks", "labels": ["house"]}, "timeout": 30}))),
        ("routed" = (summary = "A tool by its discovered name", value = json!({
            "tool": "search_handbook", "arguments": {"query": "timeouts"}}))),
    )),
    responses((status = 200, description = "The server answered", content((Answer = "application/json", examples(
        ("success" = (summary = "The tool did it", value = json!({
            "success": true, "data": {"issue_id": "12345"},
            "content": [{"type": "text", "text": "{\"issue_id\": \"12345\"}"}],
            "tool": "create_issue", "server": "issues",
            "tool_name": "create_issue", "server_name": "issues", "execution_time_ms": 234.5,
            "request_id": "550e8400-e29b-41d4-a716-446655440000"}))),
        ("failure" = (summary = "The tool reported an error", value = json!({
            "success": false, "data": null, "content": [{"type": "text", "text": "the title is taken"}],
            "error": "the title is taken", "code": "tool_error",
            "hint": "read `error`, and change the arguments", "retryable": false,
            "tool": "create_issue", "server": "issues",
            "tool_name": "create_issue", "server_name": "issues", "execution_time_ms": 12.25,
            "request_id": "550e8400-e29b-41d4-a716-446655440000"}))),
    )), (Value = "text/event-stream"))), CallProblems)
)]
pub(super) async fn call(
    State(api): State<Api>,
    Extension(id): Extension<RequestId>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = received(body, api.options.max_body).await?;
    answer(&api, &principal, (&headers, &body), id).await
}

/// Handles a call for a caller that has already matched this route.
pub async fn direct(api: Arc<Api>, posted: Posted) -> Response {
    let Posted { headers, body, principal, id } = posted;
    // Pinned in place, because moving a large future costs time in every call.
    let answered = pin!(async {
        let answered = match authorised(principal.as_ref(), Action::Call, Some(id)) {
            Ok(principal) => answer(&api, principal, (&headers, &body), id).await,
            Err(problem) => Err(problem),
        };
        answered.into_response()
    });
    finished(answered, id, &Account::of(principal.as_ref().map(Principal::id))).await
}

/// A call that was posted.
#[derive(Debug)]
pub struct Posted {
    /// The headers of the request.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
    /// The authenticated sender.
    pub principal: Option<Principal>,
    /// The id of the request in answers and logs.
    pub id: RequestId,
}

async fn answer(
    api: &Api,
    principal: &Principal,
    (headers, body): (&HeaderMap, &Bytes),
    id: RequestId,
) -> Result<Response, Problem> {
    let request = body::read(headers, body)?;
    if call_stream::is_wanted(headers) {
        return call_stream::begin(api, principal, (headers, request), id);
    }
    let caller = rest_call::caller(api, principal, (headers, &request), id, None)?;
    let record =
        rest_call::begin_record((principal, id), request.server.as_deref(), || request.tool.clone())?;
    let event_sender = if request.timeout.is_none() { EventSender::unread() } else { EventSender::none() };
    let response = rest_call::run(&api.gateway, &caller, request, host(headers), None, &event_sender).await;
    let result = rest_call::result(&api.gateway, &caller, &response, id);
    rest_call::end_record(record, Some(&response), result.as_ref().err());
    Ok(json_bytes(result?))
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
