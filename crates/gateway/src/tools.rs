//! `tools/call`.

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, error, references};
use crate::{bridge, params};
use auth::Action;
use json::Raw;
use protocol::{ErrorObject, method};
use upstream::{EventSender, ResponseBody};

/// Calls a tool at its server.
pub(super) async fn call(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Result<ResponseBody, ErrorObject> {
    if !caller.principal.may(Action::Call) {
        return Err(error::forbidden("call tools"));
    }
    let (name, params) = params::text(params, "name", "which tool to call")?;
    params::arguments(params)?;
    let route = |call| gateway.manager.tool_request(caller.viewer(), &name, call, None);
    let request = gateway.routed(caller, (method::TOOLS_CALL, &name, params), route, event_sender).await;
    let request = request.map_err(|error| {
        let snapshot = gateway.manager.snapshot();
        let error = snapshot.explained(&caller.principal, (&caller.scope, &name), error);
        error::object(&error, caller.version.era())
    })?;
    if let Some(headers) = &caller.param_headers {
        headers.check(&request.call)?;
    }
    if request.is_login() {
        let answered = gateway.call_login(caller, request.server_name());
        return answered.map(|result| ResponseBody::Buffered(Ok(result)));
    }
    let server = Arc::clone(request.server_name());
    Ok(match bridge::call(gateway, caller, request, event_sender).await {
        ResponseBody::Buffered(reply) => {
            ResponseBody::Buffered(reply.map(|result| {
                // Another server may have the URIs by now.
                let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
                references::followed(&snapshot, &caller.scope, &server, result)
            }))
        }
        streaming @ ResponseBody::Streaming(_) => streaming,
    })
}
