//! `prompts/get`.

use super::caller::Caller;
use super::{Gateway, error, references};
use crate::manager::Error;
use crate::{bridge, collect, params, unlisted};
use auth::Action;
use json::Raw;
use protocol::{Reply, method};
use upstream::Outlet;

/// Gets a prompt where it lives.
pub(super) async fn get(gateway: &Gateway, caller: &Caller, params: Option<&Raw>, outlet: &Outlet) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("get prompts"));
    }
    let (name, params) = params::text(params, "name", "which prompt to get")?;
    params::arguments(params)?;
    let call = || caller.call(method::PROMPTS_GET, params);
    let routed = || gateway.manager.prompt_request(caller.viewer(), &name, call(), None);
    let mut request = routed().await;
    if gateway.open_for(caller, &request, outlet).await {
        request = routed().await;
    }
    if let Err(Error::NameNotFound { .. }) = &request
        && let Some(unlisted) = unlisted::request(&gateway.manager, caller, &name, call())
    {
        request = Ok(unlisted);
    }
    let request = request.map_err(|error| error::object(&error, caller.version.era()))?;
    let server = request.server.clone();
    let answered = bridge::call(gateway, caller, request, outlet).await;
    let result = collect(answered, caller.version.era()).await?;
    Ok(references::followed(&gateway.manager.seen_by(Some(&caller.affinity)), &caller.scope, &server, result))
}
