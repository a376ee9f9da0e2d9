//! `prompts/get` and `completion/complete`.

use std::sync::Arc;

use super::caller::Caller;
use super::manager::{Error, Reference};
use super::resources::{first, only_server, refused};
use super::{Gateway, bridge, collect, error, params, references, unlisted};
use auth::Action;
use json::Raw;
use protocol::{ErrorObject, Reply, method};
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

/// The required form of `ref`.
const REFERENCE: &str = "an object with type, and name or uri";

/// Completes an argument of a prompt, or a variable of a resource template.
pub(super) async fn complete(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("complete arguments"));
    }
    let params = params
        .ok_or_else(|| params::bad("params is missing; ref says what to complete", "ref", None, REFERENCE))?;
    let reference = reference(params)?;
    let (started, call) = (caller.started(), caller.call(method::COMPLETE, params));
    let find = || gateway.manager.completion_requests(caller.viewer(), &reference, &call);
    let mut found = gateway.found(caller, find, only_server, event_sender).await;
    if let (Err(Error::NameNotFound { .. }), Reference::Prompt(name)) = (&found, &reference)
        && let Some(unlisted) = unlisted::request(&gateway.manager, caller, name, call)
    {
        found = unlisted.map(|request| vec![request]);
    }
    let requests = found.map_err(|failure| refused(caller, &failure))?;
    first(gateway, caller, started, requests, event_sender).await.map(|(_, result)| result)
}

fn reference(params: &Raw) -> Result<Reference, ErrorObject> {
    let found = params.get("ref");
    let reference = found.as_ref().filter(|reference| reference.is_object()).ok_or_else(|| {
        let text = "params.ref must be an object that says what to complete";
        params::bad(text, "ref", found.as_ref(), REFERENCE)
    })?;
    let text = |member: &str| {
        let text = reference.get_as::<String>(member);
        text.ok_or_else(|| {
            let (member, found) = (format!("ref.{member}"), reference.get(member));
            params::bad(&format!("params.{member} must be a string"), &member, found.as_ref(), "a string")
        })
    };
    match reference.get_as::<String>("type").as_deref() {
        Some("ref/prompt") => text("name").map(Reference::Prompt),
        Some("ref/resource") => {
            let uri = text("uri")?;
            params::short_uri(&uri, "ref.uri")?;
            Ok(Reference::Resource(uri))
        }
        _ => {
            let valid = "\"ref/prompt\" or \"ref/resource\"";
            let found = reference.get("type");
            Err(params::bad(&format!("params.ref.type must be {valid}"), "ref.type", found.as_ref(), valid))
        }
    }
}
