//! `completion/complete`: goes to whoever has what is completed, with that server's own name of it.

use super::caller::Caller;
use super::resources::{first, refused};
use super::{Gateway, error};
use crate::auth::Action;
use crate::manager::Reference;
use crate::protocol::{ErrorObject, Raw, Reply};
use crate::upstream::Outlet;

/// Completes an argument of a prompt, or a variable of a resource template.
pub(super) async fn complete(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&Raw>,
    outlet: &Outlet,
) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("complete arguments"));
    }
    let params = params.ok_or_else(|| error::bad_input("params is missing; ref says what to complete"))?;
    let reference = reference(params)?;
    let found = gateway.manager.completion_targets(&caller.scope, &reference, params).await;
    let targets = found.map_err(|failure| refused(caller, &failure))?;
    first(gateway, caller, targets, outlet).await.map(|(_, result)| result)
}

fn reference(params: &Raw) -> Result<Reference, ErrorObject> {
    let reference = params
        .get("ref")
        .filter(Raw::is_object)
        .ok_or_else(|| error::bad_input("params.ref must be an object that says what to complete"))?;
    let text = |member: &str| {
        let text = reference.get_as::<String>(member);
        text.ok_or_else(|| error::bad_input(&format!("params.ref.{member} must be a string")))
    };
    match reference.get_as::<String>("type").as_deref() {
        Some("ref/prompt") => text("name").map(Reference::Prompt),
        Some("ref/resource") => text("uri").map(Reference::Resource),
        _ => Err(error::bad_input("params.ref.type must be \"ref/prompt\" or \"ref/resource\"")),
    }
}
