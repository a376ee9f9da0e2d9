//! Converts tasks between the two eras.
//!
//! 2025-11-25 (`basic/utilities/tasks`) has `ttl` and `pollInterval`, wraps a new task in `task`, and
//! returns its result by a separate method. The 2026-07-28 extension `io.modelcontextprotocol/tasks` has
//! `ttlMs` and `pollIntervalMs`. There a new task is flat, with `resultType: "task"`, and contains
//! result, error and server requests. A tool that answers `isError` is `failed` in the first and
//! `completed` in the second. Members that neither defines keep their bytes.
//!
//! Not here: task ids, which Switchyard assigns, and which requests create tasks.

use crate::error;
use json::Raw;
use protocol::lifecycle::Peer;
/// The modern extension, in the capabilities of clients and servers.
pub use protocol::lifecycle::TASKS_EXTENSION as EXTENSION;
use protocol::{ErrorObject, Reply, Version};

/// `_meta` key of legacy messages that belong to a task.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Adds the tasks of all `peers` to `capabilities`, in the form of the client's revision. If a server of
/// 2025-11-25 makes tasks of calls, a modern client sees the extension. The reverse is not possible: a
/// legacy client requests tasks only for tools whose definition says so, and modern definitions do not.
pub fn declared(capabilities: &Raw, client: Version, peers: &[&Peer]) -> Raw {
    let tasks: Vec<Raw> = peers.iter().filter_map(|peer| peer.capabilities.get("tasks")).collect();
    let has = |part: &str| tasks.iter().any(|tasks| tasks.get(part).is_some_and(|part| part.is_object()));
    let empty = Raw::empty_object();
    let one = |name: &str, value: &Raw| Raw::empty_object().with(name, value);
    let calls = peers.iter().any(|peer| peer.makes_tasks());
    if client.is_modern() {
        let extensions =
            capabilities.get("extensions").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
        if !calls || extensions.get(EXTENSION).is_some() {
            return capabilities.clone();
        }
        return capabilities.with("extensions", &extensions.with(EXTENSION, &empty));
    }
    if tasks.is_empty() || client < Version::V2025_11_25 || capabilities.get("tasks").is_some() {
        return capabilities.clone();
    }
    let requests = one("tools", &one("call", &empty));
    let all = Raw::empty_object().edit(&[
        ("list", has("list").then_some(&empty)),
        ("cancel", has("cancel").then_some(&empty)),
        ("requests", calls.then_some(&requests)),
    ]);
    capabilities.with("tasks", &all)
}

/// Converts a legacy task to the extension. For a task that has ended, use [`finished`].
pub(crate) fn task_to_modern(task: &Raw) -> Raw {
    let ttl = task.get("ttl").and_then(|ttl| milliseconds(&ttl)).unwrap_or_else(|| Raw::of(&()));
    let poll = task.get("pollInterval").and_then(|poll| milliseconds(&poll)).filter(|poll| !poll.is_null());
    task.edit(&[
        ("ttl", None),
        ("pollInterval", None),
        ("ttlMs", Some(&ttl)),
        ("pollIntervalMs", poll.as_ref()),
    ])
}

/// Converts a task of the extension to 2025-11-25: without result, error and server requests.
pub(crate) fn task_to_legacy(task: &Raw) -> Raw {
    let failed = Raw::of("failed");
    let status = if is_tool_error(task) { Some(failed) } else { task.get("status") };
    let ttl = task.get("ttlMs").unwrap_or_else(|| Raw::of(&()));
    task.edit(&[
        ("resultType", None),
        ("inputRequests", None),
        ("result", None),
        ("error", None),
        ("ttlMs", None),
        ("pollIntervalMs", None),
        ("status", status.as_ref()),
        ("ttl", Some(&ttl)),
        ("pollInterval", task.get("pollIntervalMs").as_ref()),
    ])
}

/// Converts a legacy `{task}`, the answer that created one, to the extension; none for any other result.
pub(crate) fn created_to_modern(result: &Raw) -> Option<Raw> {
    let task = result.get("task").filter(|task| task.text("taskId").is_some())?;
    let meta = result.get("_meta");
    let task = task_to_modern(&task);
    Some(task.edit(&[("resultType", Some(&Raw::of("task"))), ("_meta", meta.as_ref())]))
}

/// Converts the extension's answer that created a task to 2025-11-25; none for any other result.
pub(crate) fn created_to_legacy(result: &Raw) -> Option<Raw> {
    result.text("resultType").filter(|kind| kind == "task")?;
    let meta = result.get("_meta");
    let task = task_to_legacy(&result.without("_meta"));
    Some(Raw::empty_object().edit(&[("task", Some(&task)), ("_meta", meta.as_ref())]))
}

/// Converts a legacy task that has ended to the extension. `outcome` is the answer of `tasks/result`.
/// Any result, even with `isError`, means that the task completed.
pub fn finished(task: &Raw, outcome: &Reply) -> Raw {
    let task = task_to_modern(task);
    match outcome {
        Ok(result) => {
            let result = without_related(result);
            task.edit(&[("status", Some(&Raw::of("completed"))), ("result", Some(&result)), ("error", None)])
        }
        Err(error) => {
            let error = error.raw();
            task.edit(&[("status", Some(&Raw::of("failed"))), ("error", Some(error)), ("result", None)])
        }
    }
}

/// Returns the answer of a legacy `tasks/result` for a task of the extension; none while the task is
/// running.
pub fn outcome(task: &Raw) -> Option<Reply> {
    let id = task.get("taskId").unwrap_or_else(|| Raw::of(""));
    match task.get_as::<String>("status")?.as_str() {
        "completed" => Some(match task.get("result") {
            Some(result) => Ok(with_related(&result, &id)),
            None => Err(own("the task has completed, and its server does not tell its result")),
        }),
        "failed" => {
            let error = task.get("error").and_then(ErrorObject::from_raw);
            Some(Err(error.unwrap_or_else(|| own("the task has failed, and its server does not tell why"))))
        }
        "cancelled" => Some(Err(own("the task was cancelled"))),
        _ => None,
    }
}

/// Marks `message`, a result or parameters, as belonging to the task `id`.
pub(crate) fn with_related(message: &Raw, id: &Raw) -> Raw {
    let meta = message.get("_meta").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    let related = Raw::empty_object().with("taskId", id);
    message.with("_meta", &meta.with(RELATED_TASK, &related))
}

/// Removes that mark from `message`, and `_meta` if it becomes empty.
pub(crate) fn without_related(message: &Raw) -> Raw {
    match message.get("_meta").filter(|meta| meta.get(RELATED_TASK).is_some()) {
        Some(meta) if meta.members().count() == 1 => message.without("_meta"),
        Some(meta) => message.with("_meta", &meta.without(RELATED_TASK)),
        None => message.clone(),
    }
}

fn is_tool_error(task: &Raw) -> bool {
    let has_ended = task.get_as::<String>("status").as_deref() == Some("completed");
    has_ended && task.get("result").and_then(|result| result.get_as("isError")).unwrap_or(false)
}

/// Converts a duration for the extension, which allows whole numbers only; none for any other value.
fn milliseconds(value: &Raw) -> Option<Raw> {
    if value.is_null() || value.read::<u64>().is_ok() {
        return Some(value.clone());
    }
    let value: f64 = value.read().ok().filter(|value: &f64| (0.0..9e15).contains(value))?;
    // Every whole number in this range is exact.
    format!("{:.0}", value.ceil()).parse::<u64>().ok().map(|whole| Raw::of(&whole))
}

fn own(text: &str) -> ErrorObject {
    error::invalid_answer(text)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
