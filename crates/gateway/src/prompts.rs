//! `prompts/get`.

use super::caller::Caller;
use super::{Gateway, error, references};
use crate::{bridge, collect, params};
use auth::Action;
use json::Raw;
use protocol::Reply;
use upstream::Outlet;

/// Gets a prompt where it lives.
pub(super) async fn get(gateway: &Gateway, caller: &Caller, params: Option<&Raw>, outlet: &Outlet) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("get prompts"));
    }
    let (name, params) = params::text(params, "name", "which prompt to get")?;
    params::arguments(params)?;
    let invocation = caller.invocation(params);
    let target = gateway.manager.prompt_target(caller.viewer(), &name, params, None).await;
    let target = target.map_err(|error| error::object(&error, caller.version.era()))?;
    let server = target.server.clone();
    let answered = bridge::call(gateway, caller, (target, invocation), outlet).await;
    let result = collect(answered, caller.version.era()).await?;
    Ok(references::followed(&gateway.manager.seen_by(Some(&caller.home)), &caller.scope, &server, result))
}
