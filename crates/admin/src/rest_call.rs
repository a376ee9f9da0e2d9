//! A call of a tool over REST, with a JSON answer or with events: its client, the call itself, its result, and its entry in
//! the audit log. Reads of resources and prompts have the same entry.
//!
//! Not here: the route and its answer (`call`), the stream of events (`call_stream`), the log (`runtime::telemetry::audit`),
//! entries of operations (`lib`).

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;

use super::answer::printed;
use super::body::CallRequest;
use super::problem::Problem;
use super::{Api, view, who};
use auth::Principal;
use gateway::manager::{CallResponse, Scope};
use gateway::{Caller, Gateway};
use json::Raw;
use protocol::{ErrorObject, Request, RequestId as MessageId, method};
use runtime::telemetry::RequestId;
use runtime::telemetry::audit::{self, AuditRecord};
use upstream::{CallSource, EventSender};

/// The client of the call `request`, whose request had `headers`. With `capabilities`, it can answer the server requests that they declare.
pub(super) fn caller(
    api: &Api,
    principal: &Principal,
    (headers, request): (&HeaderMap, &CallRequest),
    id: RequestId,
    capabilities: Option<Raw>,
) -> Result<Caller, Problem> {
    let server = request.server.as_deref().map(Arc::from);
    let scope = Scope { server, ..api.scope(principal, request.view.as_deref())? };
    let source = CallSource { request_id: Some(id), is_rest: true };
    let forwarded = api.manager.forwarded(headers).map_err(|too_large| Problem::from(*too_large))?;
    let caller = Caller::of_program(principal.clone(), scope, capabilities).within(request.timeout);
    Ok(caller.in_request(source).forwarding(forwarded))
}

/// Calls the tool of `request`. Messages of the server before its response go to `event_sender`. `host` is the `Host` of the
/// request, for the URL of a login, and `meta` the `_meta` of the call.
pub(super) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    request: CallRequest,
    host: Option<&str>,
    meta: Option<&Raw>,
    event_sender: &EventSender,
) -> CallResponse {
    let CallRequest { tool, arguments, .. } = request;
    if let Some(response) = gateway.login_called(&caller.principal, (&caller.scope, &tool), host) {
        return response;
    }
    let params = Raw::object(&[("name", &Raw::of(&tool)), ("arguments", &arguments)]);
    let params = Some(match meta {
        Some(meta) => params.with("_meta", meta),
        None => params,
    });
    let request = Request { id: MessageId::from_u64(1), method: method::TOOLS_CALL.into(), params };
    gateway.call_tool(caller, &request, event_sender).await
}

/// The result in `response` as its client gets it.
pub(super) fn result(
    gateway: &Gateway,
    caller: &Caller,
    response: &CallResponse,
    id: RequestId,
) -> Result<Bytes, Problem> {
    let snapshot = gateway.manager().seen_by(Some(&caller.affinity));
    let tool = view::tool_name(&snapshot, &response.server, &response.subject);
    printed(response, &tool, id, &caller.principal)
}

/// Begins the entry of a call in the audit log, if calls are logged. `server` is the one that the caller named.
pub(super) fn begin_record(
    (principal, id): (&Principal, RequestId),
    server: Option<&str>,
    subject: impl FnOnce() -> String,
) -> Result<Option<Box<AuditRecord>>, Problem> {
    let mut record = audit::call(who(principal, Some(id)), subject)?;
    if let (Some(record), Some(server)) = (&mut record, server) {
        record.at(server);
    }
    Ok(record)
}

/// Ends `record`, if calls are logged. An answer of the server is on record, also if the client got `problem` instead of it.
pub(super) fn end_record(
    record: Option<Box<AuditRecord>>,
    response: Option<&CallResponse>,
    problem: Option<&Problem>,
) {
    let Some(mut record) = record else { return };
    let is_of_server =
        |response: &CallResponse| response.reply.as_ref().err().and_then(ErrorObject::problem).is_none();
    if let Some(response) = response.filter(|response| problem.is_none() || is_of_server(response)) {
        record.at(&response.server);
        record.answered(&response.reply);
    } else if let Some(problem) = problem {
        problem.server.iter().for_each(|server| record.at(server));
        record.ended(problem.code().to_string());
    }
}
