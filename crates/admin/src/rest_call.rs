//! A call of a tool over REST, with a JSON answer or with events: its client, the call itself, and its result.
//!
//! Not here: the route and its answer (`call`), the stream of events (`call_stream`).

use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;

use super::Api;
use super::answer::printed;
use super::body::CallRequest;
use super::problem::Problem;
use super::view;
use auth::Principal;
use gateway::manager::{CallResponse, Scope};
use gateway::{Caller, Gateway};
use json::Raw;
use protocol::{Request, RequestId as MessageId, method};
use runtime::telemetry::RequestId;
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
    Ok(Caller::of_program(principal.clone(), scope, capabilities).in_request(source).forwarding(forwarded))
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
    let CallRequest { tool, arguments, timeout, .. } = request;
    if let Some(response) = gateway.login_called(&caller.principal, (&caller.scope, &tool), host) {
        return response;
    }
    let params = Raw::object(&[("name", &Raw::of(&tool)), ("arguments", &arguments)]);
    let params = Some(match meta {
        Some(meta) => params.with("_meta", meta),
        None => params,
    });
    let request = Request { id: MessageId::from_u64(1), method: method::TOOLS_CALL.into(), params };
    gateway.call_tool(caller, &request, timeout, event_sender).await
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
