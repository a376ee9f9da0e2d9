//! `tools/call`.

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, error, references};
use crate::manager::{Error, Manager};
use crate::{bridge, params};
use auth::Action;
use json::Raw;
use protocol::headers::HeaderParam;
use protocol::{ErrorObject, method};
use upstream::{Outlet, ResponseBody};

/// Calls a tool at its server.
pub(super) async fn call(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    outlet: &Outlet,
) -> Result<ResponseBody, ErrorObject> {
    if !caller.principal.may(Action::Call) {
        return Err(error::forbidden("call tools"));
    }
    let (name, params) = params::text(params, "name", "which tool to call")?;
    params::arguments(params)?;
    let route = |call| gateway.manager.tool_request(caller.viewer(), &name, call, None);
    let request = gateway.routed(caller, (method::TOOLS_CALL, &name, params), route, outlet).await;
    let request = request.map_err(|error| {
        let snapshot = gateway.manager.snapshot();
        let error = snapshot.explained(&caller.principal, (&caller.scope, &name), error);
        error::object(&error, caller.version.era())
    })?;
    let server = Arc::clone(&request.server);
    if request.is_login {
        return gateway.call_login(caller, &server).map(|result| ResponseBody::Buffered(Ok(result)));
    }
    Ok(match bridge::call(gateway, caller, request, outlet).await {
        ResponseBody::Buffered(reply) => ResponseBody::Buffered(reply.map(|result| {
            references::followed(
                &gateway.manager.seen_by(Some(&caller.affinity)),
                &caller.scope,
                &server,
                result,
            )
        })),
        streaming @ ResponseBody::Streaming(_) => streaming,
    })
}

/// A parameter that a modern client repeats in a header.
#[derive(Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The header, in lower case.
    pub header: String,
    /// The value in the body, if there is one.
    pub value: Option<String>,
    /// Whether the body has the parameter twice, so that its value is ambiguous.
    pub is_ambiguous: bool,
}

/// Returns the parameters that a modern client repeats in headers for this call. An unknown tool is an error,
/// and its call fails with it too.
pub async fn mirrored(manager: &Manager, caller: &Caller, params: &Raw) -> Result<Vec<Mirrored>, Error> {
    let name = params.text("name").unwrap_or_default();
    let route = manager.route(caller.viewer(), &name).await?;
    let arguments = params.part("arguments");
    let mirrored = |param: &HeaderParam| Mirrored {
        header: param.header_name(),
        value: param.value_in(arguments),
        is_ambiguous: param.is_ambiguous_in(arguments),
    };
    Ok(route.header_params.iter().map(mirrored).collect())
}
