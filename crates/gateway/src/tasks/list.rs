//! `tasks/list` of 2025-11-25, over all servers that have it.
//!
//! Servers see Switchyard as one client, so their lists may contain tasks of all principals. A list is
//! therefore returned only without authentication. Each page comes from one server, and the cursor names it.

use super::super::caller::Caller;
use super::super::lists::cursor;
use super::super::{Gateway, error};
use super::{call_of, performed};
use auth::Principal;
use json::Raw;
use protocol::feature::Effect;
use protocol::{ErrorCode, ErrorObject, Method, Reply, method};
use upstream::{EventSender, ServerResponse};

/// The purpose to which cursors are sealed.
const PURPOSE: &str = "tasks/list";

/// Returns one page.
pub(super) async fn answer(gateway: &Gateway, caller: &Caller, params: Option<&Raw>) -> Reply {
    if caller.principal != Principal::anonymous() {
        return Err(error::input(
            ErrorCode::TasksNotListed,
            "servers cannot tell whose tasks are whose behind a gateway, so they are not listed; \
             ask for a task by its id",
        ));
    }
    let servers = servers(gateway, caller);
    let at = cursor(params).map(|cursor| read(gateway, caller, &cursor)).transpose()?;
    let (first, mut inner) = at.map_or((0, None), |(server, inner)| {
        (servers.iter().position(|name| *name == server).unwrap_or(servers.len()), inner)
    });
    for (number, server) in servers.iter().enumerate().skip(first) {
        let (tasks, next) = page(gateway, caller, server, inner.take()).await?;
        let next = next.map(|next| (server, Some(next))).or_else(|| Some((servers.get(number + 1)?, None)));
        if tasks.is_empty() && next.as_ref().is_some_and(|(_, inner)| inner.is_none()) {
            continue;
        }
        let next = next.map(|(server, inner)| Raw::of(&write(gateway, caller, server, inner.as_deref())));
        return Ok(result(&tasks, next.as_ref()));
    }
    Ok(result(&[], None))
}

fn result(tasks: &[Raw], next: Option<&Raw>) -> Raw {
    Raw::empty_object().edit(&[("tasks", Some(&Raw::of(tasks))), ("nextCursor", next)])
}

/// Returns one page of one server, and its cursor for the next one.
async fn page(
    gateway: &Gateway,
    caller: &Caller,
    server: &str,
    cursor: Option<String>,
) -> Result<(Vec<Raw>, Option<String>), ErrorObject> {
    let cursor = cursor.map(|cursor| Raw::of(&cursor));
    let mut call = call_of(caller);
    (call.method, call.effect) = (Method::constant(method::TASKS_LIST), Effect::ReadOnly);
    call.params = Some(Raw::empty_object().edit(&[("cursor", cursor.as_ref())]));
    let request = gateway.manager.request_at(server, "".into(), call);
    // A server that is unavailable, or does not list tasks, must not hide those of the others.
    let Ok(ServerResponse { body: Ok(result), .. }) =
        performed(&gateway.manager, request, &EventSender::none()).await
    else {
        return Ok((Vec::new(), None));
    };
    let ids = gateway.task_ids.of(&caller.principal, server);
    let tasks = result.get("tasks").map(|tasks| tasks.elements().map(|task| ids.exposed(&task)).collect());
    Ok((tasks.unwrap_or_default(), result.get_as("nextCursor")))
}

/// Returns the servers that list tasks, in the order of the configuration.
fn servers(gateway: &Gateway, caller: &Caller) -> Vec<String> {
    let snapshot = gateway.manager.seen_by(Some(&caller.affinity));
    let lists = |capabilities: &Raw| capabilities.get("tasks").and_then(|tasks| tasks.get("list")).is_some();
    let listing = snapshot.servers_in(&caller.scope).iter().filter_map(|server| {
        let offer = server.offer.as_ref()?;
        lists(&offer.peer.capabilities).then(|| server.upstream.config().name.to_string())
    });
    listing.collect()
}

fn write(gateway: &Gateway, caller: &Caller, server: &str, inner: Option<&str>) -> String {
    let payload = Raw::of(&(server, inner));
    gateway.sealer.seal(PURPOSE, &caller.principal, payload.bytes())
}

fn read(gateway: &Gateway, caller: &Caller, cursor: &Raw) -> Result<(String, Option<String>), ErrorObject> {
    let opened = || {
        let payload = gateway.sealer.open(PURPOSE, &caller.principal, &cursor.read::<String>().ok()?)?;
        serde_json::from_slice(&payload).ok()
    };
    opened().ok_or_else(|| error::bad_cursor(cursor))
}
