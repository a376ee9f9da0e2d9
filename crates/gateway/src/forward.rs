//! Forwards `tools/call`, `prompts/get` and `resources/read`, during which a server may send requests to the client.
//!
//! If client and server speak the same era, such requests pass unchanged. A legacy client gets them on the stream of its
//! call, and a modern one in the result `input_required`. Otherwise [`legacy_client`] serves a legacy client of a modern
//! server, and [`modern_client`] a modern client of a legacy server.
//!
//! Does not decide who owns a name (`manager`). Source: 2026-07-28 `basic/patterns/mrtr`.

use super::Gateway;
use super::caller::Caller;
use super::{era, error, tasks};
use crate::bridge::{legacy_client, modern_client};
use crate::manager::{Called, Invocation, Target};
use json::envelope_stream::{Added, Terms};
use protocol::{Era, Reply, method};
use upstream::{Outlet, ResponseBody};

/// A result that passes from a modern server to a modern client while it arrives. A task is not the
/// client's own before its id is exposed.
const MODERN: Terms = Terms {
    refused: &["task"],
    added: &[Added { name: "resultType", value: "\"complete\"", only_final: false }],
};
/// The same between legacy ones, where a type that only the modern era has would be acted on here.
const LEGACY: Terms = Terms { refused: &["task", "input_required"], added: &[] };

/// Under which terms the result of a tool may pass while it arrives; none: it is wanted whole, because
/// somebody here would read or change it. Those who read a result, and why none of them does then:
///
/// - `era::answer`: the eras are the same (`legacy_client` and `modern_client` are for others), and what the modern
///   one demands is added by the terms;
/// - `tasks::created`, `tasks::waited_for` and `legacy_client` look for types that the terms refuse; a legacy
///   client that asks for a task (`params.task`) gets its result whole;
/// - `legacy_client` wraps a structured result where a legacy client was told so (`wraps_result`);
/// - `references` looks for URIs where some can clash.
fn terms(gateway: &Gateway, caller: &Caller, target: &Target) -> Option<Terms> {
    let era = caller.version.era();
    let is_plain =
        target.method == method::TOOLS_CALL && gateway.manager.passes(caller.viewer(), &target.server, era);
    match era {
        Era::Modern => is_plain.then_some(MODERN),
        Era::Legacy => {
            let is_plain = is_plain && !target.wraps_result && target.params.get("task").is_none();
            is_plain.then_some(LEGACY)
        }
    }
}

/// The same as [`answer`], but a large result that nobody here would look at is given while it
/// arrives.
pub(super) async fn receive(
    gateway: &Gateway,
    caller: &Caller,
    request: (Target, Invocation),
    outlet: &Outlet,
) -> ResponseBody {
    let Some(terms) = terms(gateway, caller, &request.0) else {
        // Boxed, so that what flows does not carry the room for it about.
        return ResponseBody::Whole(Box::pin(answer(gateway, caller, request, outlet)).await);
    };
    let (target, invocation) = &request;
    let done = gateway.manager.receive(target, invocation, Some(terms), outlet).await;
    let done = match done {
        Ok(Called { reply: ResponseBody::Flowing(flow), version, .. })
            if version.era() == caller.version.era() =>
        {
            return ResponseBody::Flowing(flow);
        }
        Ok(done) => done.whole(target.tool()).await,
        Err(failure) => Err(failure),
    };
    ResponseBody::Whole(match done {
        Err(failure) => Err(error::object(&failure, caller.version.era())),
        Ok(done) if caller.version.is_modern() => finished(gateway, caller, target.method, done),
        Ok(done) => Box::pin(legacy_client::answer(gateway, caller, request, Some(done), outlet)).await,
    })
}

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
        return Box::pin(legacy_client::answer(gateway, caller, (target, invocation), None, outlet)).await;
    }
    let era = manager.era_of(&target.server);
    if era != Some(Era::Modern) {
        // Boxed: it is large, and seldom needed.
        return Box::pin(modern_client::answer(gateway, caller, (target, invocation), outlet)).await;
    }
    let done = manager.perform(&target, &invocation, outlet).await;
    let done = done.map_err(|failure| error::object(&failure, caller.version.era()))?;
    finished(gateway, caller, target.method, done)
}

/// What a modern server answered a modern client.
fn finished(gateway: &Gateway, caller: &Caller, method: &str, done: Called) -> Reply {
    match tasks::created(gateway, caller, &done, true) {
        Some(task) => Ok(task),
        None => era::answer(caller, method, done.version, done.reply),
    }
}
