//! `prompts/get`.

use std::sync::Arc;

use super::caller::Caller;
use super::{Gateway, error, references};
use crate::{bridge, collect, params};
use auth::Action;
use json::Raw;
use protocol::{Reply, method};
use upstream::EventSender;

/// Gets a prompt where it lives.
pub(super) async fn get(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("get prompts"));
    }
    let (name, params) = params::text(params, "name", "which prompt to get")?;
    params::arguments(params)?;
    let route = |call| gateway.manager.prompt_request(caller.viewer(), &name, call, None);
    let request = gateway.routed(caller, (method::PROMPTS_GET, &name, params), route, event_sender).await;
    let request = request.map_err(|error| error::object(&error, caller.version.era()))?;
    let server = Arc::clone(request.server_name());
    let answered = bridge::call(gateway, caller, request, event_sender).await;
    let result = collect(answered, caller.version.era()).await?;
    Ok(references::followed(&gateway.manager.seen_by(Some(&caller.affinity)), &caller.scope, &server, result))
}
