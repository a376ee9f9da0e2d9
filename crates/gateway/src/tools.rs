//! `tools/call`, and calls of tools over REST.

use std::pin::pin;
use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, Row, collect, error, references};
use crate::manager::{CallResponse, RoutedRequest};
use crate::{bridge, params};
use auth::Action;
use json::Raw;
use protocol::{ErrorCode, ErrorObject, Problem, Request, method};
use runtime::worker::now;
use tokio::time::{Instant, timeout_at};
use upstream::{Deadline, EventSender, ResponseBody};

impl Gateway {
    /// Calls a tool for a REST client, within the time of `caller`.
    pub async fn call_tool(
        &self,
        caller: &Caller,
        request: &Request,
        event_sender: &EventSender,
    ) -> CallResponse {
        let arrived = now();
        if self.manager.needs_own_session(caller.viewer()) {
            // Boxed: it is large, and each client waits once.
            Box::pin(self.open_session(caller, Some(Row::CallTool), event_sender)).await;
        }
        let routed = route(self, caller, request.params.as_ref(), event_sender).await;
        // Without a server, the reply is an error that says why.
        let (server, subject) = match &routed {
            Ok(routed) => (Arc::clone(routed.server_name()), Arc::clone(&routed.subject)),
            Err(_) => ("".into(), "".into()),
        };
        // Pinned in place, because moving a large future costs time in every call.
        let mut call = pin!(async {
            collect(forward(self, caller, routed?, event_sender).await?, caller.version.era()).await
        });
        let mut reply = match caller.deadline {
            // Usually the deadline of the request at its server ends it.
            Some(deadline) => timeout_at(deadline.at, &mut call)
                .await
                .unwrap_or_else(|_| Err(timed_out(caller, &server, &subject))),
            None => (&mut call).await,
        };
        if !caller.reads_both_eras && self.manager.has_logins() {
            reply = reply.or_else(|refusal| self.with_login(caller, request, (refusal, 0)));
        }
        // The time of the turn would not include work within one turn.
        CallResponse { server, subject, reply, elapsed: Instant::now().saturating_duration_since(arrived) }
    }
}

/// Calls a tool at its server.
pub(super) async fn call(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Result<ResponseBody, ErrorObject> {
    let request = route(gateway, caller, params, event_sender).await?;
    forward(gateway, caller, request, event_sender).await
}

/// Finds the server of a call that `caller` may make. Waits for servers that are still starting.
async fn route(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Result<RoutedRequest, ErrorObject> {
    if !caller.principal.may(Action::Call) {
        return Err(error::forbidden("call tools"));
    }
    let (name, params) = params::text(params, "name", "which tool to call")?;
    params::arguments(params)?;
    let patience = || caller.deadline.map(Deadline::left);
    let route = |call| gateway.manager.tool_request(caller.viewer(), &name, call, patience());
    let request = gateway.routed(caller, (method::TOOLS_CALL, &name, params), route, event_sender).await;
    request.map_err(|error| {
        let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
        let error = snapshot.explained(&caller.principal, (&caller.scope, &name), error);
        error::object(&error, caller.version.era())
    })
}

fn timed_out(caller: &Caller, server: &str, tool: &str) -> ErrorObject {
    let limit = caller.timeout().unwrap_or_default();
    let text = format!("the call took longer than its timeout of {} s", limit.as_secs_f64());
    Problem::new(ErrorCode::TimedOut, text).about(Some(server), Some(tool)).error(caller.version.era())
}

/// Makes the call at its server.
async fn forward(
    gateway: &Gateway,
    caller: &Caller,
    request: RoutedRequest,
    event_sender: &EventSender,
) -> Result<ResponseBody, ErrorObject> {
    caller.check_headers(&request)?;
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
