//! A request that reaches a server and may be asked back: the one way of `tools/call`, `prompts/get`
//! and `resources/read`.
//!
//! Where client and server speak one era nothing is done here: a legacy client is asked through the
//! outlet, a modern one gets `input_required` as its server wrote it. Between the eras: [`rounds`]
//! for a legacy client of a modern server, [`bridged`] for a modern client of a legacy one.
//!
//! Source: 2026-07-28 `basic/patterns/mrtr`. Not here: who owns a name (`manager`).

use super::Gateway;
use super::caller::Caller;
use super::{bridged, era, error, rounds, tasks};
use crate::manager::{Invocation, Target};
use crate::protocol::{Era, Reply};
use crate::upstream::Outlet;

/// Makes the request and answers it in the way of the caller's era. Dropping the future cancels it
/// at its server.
pub(super) async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    request: (Target, Invocation),
    outlet: &Outlet,
) -> Reply {
    let (target, invocation) = request;
    let manager = &gateway.manager;
    if !caller.version.is_modern() {
        return Box::pin(rounds::answer(gateway, caller, (target, invocation), outlet)).await;
    }
    let era = manager.era_of(&target.server);
    if era != Some(Era::Modern) {
        // Boxed: it is large, and seldom needed.
        return Box::pin(bridged::answer(gateway, caller, (target, invocation), outlet)).await;
    }
    let done = manager.perform(&target, &invocation, outlet).await;
    let done = done.map_err(|failure| error::object(&failure))?;
    match tasks::created(gateway, caller, &done, true) {
        Some(task) => Ok(task),
        None => era::answer(caller, target.method, done.version, done.reply),
    }
}
