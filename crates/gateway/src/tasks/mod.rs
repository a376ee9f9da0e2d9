//! Tasks: requests about tasks, and calls that create them.
//!
//! There are two protocols: tasks of 2025-11-25, which the client requests, and the extension of 2026-07-28,
//! where the server decides. If client and server use the same protocol, only ids change. Otherwise the task
//! is translated. A request without a counterpart is refused with the reason.
//!
//! Invariants: no table of tasks exists here, because the id names the server. If the client did not request
//! a task and cannot follow it, the call waits for its result. The task is cancelled if the client leaves.
//!
//! Source: 2025-11-25 `basic/utilities/tasks`; the extension `io.modelcontextprotocol/tasks`
//! (SEP-2663). Not here: the translation of a task (`era::task`).

mod ids;
mod list;
mod relay;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::era::task::{self, EXTENSION};
use super::error::InvalidParam;
use super::{Gateway, era, error};
use crate::manager::{Error, Manager, RoutedRequest};
use auth::Action;
use json::Raw;
use protocol::error::code;
use protocol::feature::Effect;
use protocol::{Era, ErrorCode, ErrorObject, Method, Reply, method};
use upstream::{Call, EventSender, ServerResponse};

pub(super) use ids::TaskIds;
use ids::TaskRef;
pub(super) use waiting::{call_as_task, declared, is_required, waited_for};

/// Longest wait for the end of a task.
const LIMIT: Duration = Duration::from_hours(1);

/// One request about a task.
struct TaskRequest<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    found: &'a TaskRef,
    params: Raw,
}

/// Answers `tasks/get`, `tasks/result`, `tasks/update`, `tasks/cancel` and `tasks/list`.
pub(super) async fn handle(
    gateway: &Gateway,
    caller: &Caller,
    name: &'static str,
    params: Option<&Raw>,
    event_sender: &EventSender,
) -> Reply {
    if !caller.principal.may(Action::Call) {
        return Err(error::forbidden("follow tasks"));
    }
    check_extension(caller)?;
    if name == method::TASKS_LIST {
        return list::answer(gateway, caller, params).await;
    }
    let params = params.cloned().unwrap_or_else(Raw::empty_object);
    let token: String = params.get_as("taskId").ok_or_else(unknown)?;
    let found = find(gateway, caller, &token).ok_or_else(unknown)?;
    let params = params.with("taskId", &Raw::of(&found.id));
    gateway.open(caller, &found.server, event_sender).await;
    let asking = TaskRequest { gateway, caller, found: &found, params };
    let ids = gateway.task_ids.of(&caller.principal, &found.server).known_as(&found.id, &token);
    let reply = match (name, caller.version.era()) {
        (method::TASKS_GET, Era::Modern) => asking.get_modern().await,
        (method::TASKS_GET, Era::Legacy) => asking.get_legacy().await,
        (method::TASKS_UPDATE, _) => asking.update().await,
        (method::TASKS_CANCEL, Era::Modern) => asking.cancel_modern().await,
        (method::TASKS_CANCEL, Era::Legacy) => asking.cancel_legacy().await,
        _ => return asking.result(event_sender).await.map(|result| ids.related(&result)),
    };
    let result = ids.exposed(&reply?);
    // Adds the members that the modern era requires.
    era::answer(caller, name, caller.version, Ok(result))
}

/// Returns the task that the client calls `token`, if it belongs to the client and to a server that the client sees now.
fn find(gateway: &Gateway, caller: &Caller, token: &str) -> Option<TaskRef> {
    let found = gateway.task_ids.find(caller, token)?;
    let is_seen = || gateway.manager.seen_by(Some(&caller.affinity)).server(&found.server).is_ok();
    (caller.scope.view.is_none() || is_seen()).then_some(found)
}

/// Refuses a modern client that did not declare the tasks extension.
pub(super) fn check_extension(caller: &Caller) -> Result<(), ErrorObject> {
    if !caller.version.is_modern() || has_extension(caller.capabilities()) {
        return Ok(());
    }
    let needed = declared(&Raw::empty_object());
    Err(error::needs(&needed, "the client did not declare the tasks extension"))
}

/// Returns the server and the server's id of the task that the client calls `token`. The task must belong to
/// the client, and the server must support notifications about it.
pub(super) fn task_at(gateway: &Gateway, caller: &Caller, token: &str) -> Option<(Arc<str>, Arc<str>)> {
    let TaskRef { server, id } = find(gateway, caller, token)?;
    (gateway.manager.era_of(&server)? == Era::Modern).then(|| (server, id.into()))
}

/// Returns the current state of the task in `params`, in the client's form.
pub(super) async fn look(gateway: &Gateway, caller: &Caller, params: &Raw) -> Reply {
    handle(gateway, caller, method::TASKS_GET, Some(params), &EventSender::none()).await
}

/// The error for an unknown id or one of another client, which look alike.
fn unknown() -> ErrorObject {
    let wrong = InvalidParam {
        field: "params.taskId",
        found: None,
        valid: "the id of a task that this client was given",
        suggestion: "use the taskId of the answer that made the task",
    };
    error::bad_input("params.taskId is not the id of a task of this client", wrong)
}

/// Whether a modern client declared the tasks extension.
pub(super) fn has_extension(capabilities: &Raw) -> bool {
    capabilities.part("extensions").and_then(|extensions| extensions.get(EXTENSION)).is_some()
}

impl TaskRequest<'_> {
    /// Sends the request `name` about the task.
    async fn perform(&self, name: &'static str) -> Result<ServerResponse<Reply>, ErrorObject> {
        let manager = &self.gateway.manager;
        let call = about(call_of(self.caller), name, self.params.clone());
        let done = performed(manager, request(manager, self.found, call), &EventSender::none()).await;
        done.map_err(|failure| error::object(&failure, self.caller.version.era()))
    }

    async fn get_modern(&self) -> Reply {
        let done = self.perform(method::TASKS_GET).await?;
        let task = done.body?;
        if done.version.is_modern() {
            return Ok(task);
        }
        match status(&task).as_str() {
            "completed" | "failed" => {
                let outcome = self.perform(method::TASKS_RESULT).await?.body;
                Ok(task::finished(&task, &outcome))
            }
            "input_required" => Err(error::input(
                ErrorCode::TaskNeedsAStream,
                "the task waits for input, which its server asks for in the way of 2025-11-25 only: on the \
                 stream of tasks/result, which this revision does not have; a client of that revision can \
                 answer, or the tool can be called without the tasks extension",
            )),
            _ => Ok(task::task_to_modern(&task)),
        }
    }

    async fn get_legacy(&self) -> Reply {
        let done = self.perform(method::TASKS_GET).await?;
        let task = done.body?;
        Ok(if done.version.is_modern() { task::task_to_legacy(&task) } else { task })
    }

    async fn update(&self) -> Reply {
        let done = self.perform(method::TASKS_UPDATE).await?;
        if !done.version.is_modern() {
            return Err(error::input(
                ErrorCode::TaskNeedsAStream,
                "the server of this task speaks 2025-11-25, where input is given on the stream that asks for it",
            ));
        }
        done.body
    }

    async fn cancel_modern(&self) -> Reply {
        let done = self.perform(method::TASKS_CANCEL).await?;
        if done.version.is_modern() {
            return done.body;
        }
        match done.body {
            // In that era an ended task cannot be cancelled. In this one that is a success.
            Err(refusal) if refusal.code() == code::INVALID_PARAMS => {
                let known = self.perform(method::TASKS_GET).await?.body;
                known.map(|_| Raw::empty_object()).map_err(|_| refusal)
            }
            reply => reply.map(|_| Raw::empty_object()),
        }
    }

    async fn cancel_legacy(&self) -> Reply {
        let done = self.perform(method::TASKS_CANCEL).await?;
        if !done.version.is_modern() {
            return done.body;
        }
        done.body?;
        self.get_legacy().await
    }

    /// Waits for the result of the task.
    async fn result(&self, event_sender: &EventSender) -> Reply {
        let manager = &self.gateway.manager;
        let call = about(call_of(self.caller), method::TASKS_RESULT, self.params.clone());
        let request = request(manager, self.found, call);
        let request = request.map(|request| RoutedRequest { timeout: Some(LIMIT), ..request });
        let ids = self.gateway.task_ids.of(&self.caller.principal, &self.found.server);
        let done = relay::perform(manager, request, event_sender, ids).await;
        let done = done.map_err(|failure| error::object(&failure, self.caller.version.era()))?;
        match done.body {
            Err(refusal) if done.version.is_modern() && refusal.code() == code::METHOD_NOT_FOUND => {
                waiting::outcome(self.gateway, self.caller, self.found, event_sender).await
            }
            reply => reply,
        }
    }
}

/// Makes the call `name` about a task, for the client of `call`.
fn about(mut call: Box<Call>, name: &'static str, params: Raw) -> Box<Call> {
    let effect = match name {
        method::TASKS_UPDATE => Effect::Unsafe,
        method::TASKS_CANCEL => Effect::Idempotent,
        _ => Effect::ReadOnly,
    };
    (call.method, call.params, call.effect) = (Method::constant(name), Some(params), effect);
    (call.header_params, call.terms) = (Arc::default(), None);
    call
}

/// Makes a request about the task `found`.
fn request(manager: &Manager, found: &TaskRef, call: Box<Call>) -> Result<RoutedRequest, Error> {
    manager.request_at(&found.server, found.id.as_str().into(), call)
}

/// Makes a call of the caller that declares the tasks extension to a modern server.
fn call_of(caller: &Caller) -> Box<Call> {
    let mut call = caller.call(method::TASKS_GET, &Raw::empty_object());
    call.sender.capabilities = declared(&call.sender.capabilities);
    call
}

fn status(task: &Raw) -> String {
    task.get_as("status").unwrap_or_default()
}

/// Returns the result of a call that may have created a task, with the client's id of it. `is_asked` says
/// whether the client can follow one.
pub(super) fn created(
    gateway: &Gateway,
    caller: &Caller,
    server: &Arc<str>,
    done: &ServerResponse<Reply>,
    is_asked: bool,
) -> Option<Raw> {
    let result = done.body.as_ref().ok()?;
    let ids = gateway.task_ids.of(&caller.principal, server);
    match (done.version.era(), caller.version.era()) {
        (Era::Modern, Era::Modern) => result.part("resultType")?.says("task").then(|| ids.exposed(result)),
        _ if !is_asked => None,
        (Era::Legacy, Era::Modern) => task::created_to_modern(result).map(|task| ids.exposed(&task)),
        (Era::Modern, Era::Legacy) => task::created_to_legacy(result).map(|result| inner(&result, ids)),
        (Era::Legacy, Era::Legacy) => {
            let task = result.get("task").filter(|task| task.get("taskId").is_some())?;
            if let Some(id) = task.get_as::<String>("taskId") {
                gateway.expect_task(caller, server, &id, &ids.expose(&id));
            }
            Some(inner(result, ids))
        }
    }
}

fn inner(result: &Raw, ids: ids::Ids<'_>) -> Raw {
    let task = result.get("task").map(|task| ids.exposed(&task));
    ids.related(&task.map_or_else(|| result.clone(), |task| result.with("task", &task)))
}

/// The whole response to a request.
pub(crate) type CallResult = Result<ServerResponse<Reply>, Error>;

/// Sends a request about a task. Returns the whole response.
async fn performed(
    manager: &Manager,
    request: Result<RoutedRequest, Error>,
    event_sender: &EventSender,
) -> CallResult {
    let request = request?;
    request.whole(manager.call(&request, event_sender).await?).await
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
