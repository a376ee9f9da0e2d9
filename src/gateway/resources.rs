//! `resources/read`.
//!
//! A URI that somebody lists, or makes by a template, is read there. One that nobody lists is asked
//! for at the servers that may have it, one after another; the first that has it answers.
//!
//! Not here: who may have it (`manager::catalog`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::caller::Caller;
use super::{Gateway, asking, era, error, references, wanted};
use crate::auth::Action;
use crate::manager::{Error, Invocation, Target};
use crate::protocol::error::code;
use crate::protocol::{ErrorObject, Raw, Reply};
use crate::upstream::Outlet;

/// How long each of several servers is asked for what it may not have.
const TRIAL: Duration = Duration::from_secs(10);

/// Reads a resource where it lives.
pub(super) async fn read(gateway: &Gateway, caller: &Caller, params: Option<&Raw>, outlet: &Outlet) -> Reply {
    if !caller.principal.may(Action::Read) {
        return Err(error::forbidden("read resources"));
    }
    let (uri, params) = wanted::text(params, "uri", "which resource to read")?;
    let found = gateway.manager.resource_targets(&caller.scope, &uri, params, None).await;
    let targets = found.map_err(|failure| refused(caller, &failure))?;
    let is_alone = targets.len() == 1;
    match first(gateway, caller, targets, outlet).await {
        Ok((place, result)) => {
            let snapshot = gateway.manager.snapshot();
            Ok(references::of_contents(&snapshot, &caller.scope, (&place.server, &place.uri, &uri), &result))
        }
        Err(refusal) if !is_alone && is_missing(&refusal) => Err(era::no_resource(caller, &uri)),
        Err(refusal) => Err(refusal),
    }
}

/// Who answered, and about what.
pub(super) struct Place {
    server: Arc<str>,
    uri: String,
}

/// The first result that one of `targets` gives; else the first error that says more than that
/// there is no such thing, else the last one.
pub(super) async fn first(
    gateway: &Gateway,
    caller: &Caller,
    targets: Vec<Target>,
    outlet: &Outlet,
) -> Result<(Place, Raw), ErrorObject> {
    let several = targets.len() > 1;
    let mut told: Option<ErrorObject> = None;
    for target in targets {
        let place = Place { server: Arc::clone(&target.server), uri: target.subject.clone() };
        let invocation = Invocation {
            begun: Instant::now(),
            timeout: several.then_some(TRIAL),
            ..caller.invocation(&target.params)
        };
        match asking::answer(gateway, caller, (target, invocation), outlet).await {
            Ok(result) => return Ok((place, result)),
            Err(error) if told.as_ref().is_none_or(is_missing) => told = Some(error),
            Err(_) => {}
        }
    }
    Err(told.unwrap_or_else(|| error::bad_input("nobody has that")))
}

/// Whether a server says that it has no such resource: the code of either era, or that it has no
/// resources at all.
fn is_missing(error: &ErrorObject) -> bool {
    [code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND, code::METHOD_NOT_FOUND].contains(&error.code())
}

/// The failure to find somebody to ask.
pub(super) fn refused(caller: &Caller, failure: &Error) -> ErrorObject {
    match failure {
        Error::ResourceNotFound { uri } => era::no_resource(caller, uri),
        other => error::object(other),
    }
}
