//! Tasks that a client cannot follow: the call that created one waits for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::super::caller::Caller;
use super::super::era::task::{self, EXTENSION};
use super::super::{Gateway, error};
use super::ids::Found;
use super::{CallResult, LIMIT, about, call_of, performed, status};
use crate::manager::{Called, Manager, RoutedRequest};
use crate::required_input::RequiredInput;
use json::Raw;
use protocol::error::code;
use protocol::{ErrorCode, Reply, method};
use runtime::shutdown::Shutdown;
use upstream::{Call, Outlet};

/// Shortest and longest pause between two status checks, whatever the server asks for.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// The pause if the server asks for none.
const PAUSE: Duration = Duration::from_millis(500);
/// Time limit for the cancellation of an abandoned task.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);

/// Adds the tasks extension to `capabilities`.
pub(crate) fn declared(capabilities: &Raw) -> Raw {
    let extensions = capabilities.get("extensions").filter(Raw::is_object).unwrap_or_else(Raw::empty_object);
    if extensions.get(EXTENSION).is_some() {
        return capabilities.clone();
    }
    capabilities.with("extensions", &extensions.with(EXTENSION, &Raw::empty_object()))
}

/// Whether a modern server refused a call because its client does not follow tasks.
pub(crate) fn is_required(reply: &Reply) -> bool {
    let Err(refusal) = reply else { return false };
    let required = || refusal.data()?.get("requiredCapabilities")?.get("extensions")?.get(EXTENSION);
    refusal.code() == code::MISSING_CLIENT_CAPABILITY && required().is_some()
}

/// Returns the result of the task that a modern server created for a legacy client's call, or none if it
/// created none. If the client leaves, the task is cancelled.
pub(crate) async fn waited_for(
    gateway: &Gateway,
    caller: &Caller,
    done: &Called,
    outlet: &Outlet,
) -> Option<Reply> {
    let result = done.reply.as_ref().ok()?;
    result.text("resultType").filter(|kind| kind == "task")?;
    let found = Found { server: Arc::clone(&done.server), id: result.get_as("taskId")? };
    let abandoned = Abandoned::new(&gateway.manager, &gateway.shutdown, &found, call_of(caller));
    let outcome = outcome(gateway, caller, &found, outlet).await;
    abandoned.keep();
    Some(outcome.map(|result| task::without_related(&result)))
}

/// Returns the reply to `tasks/result` for a task of the extension, once there is one.
pub(super) async fn outcome(gateway: &Gateway, caller: &Caller, found: &Found, outlet: &Outlet) -> Reply {
    let id = Raw::empty_object().with("taskId", &Raw::of(&found.id));
    let mut answered = HashSet::new();
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let look = about(call_of(caller), found, method::TASKS_GET, id.clone());
        let task = perform(gateway, caller, &look).await?;
        if let Some(outcome) = task::outcome(&task) {
            return outcome;
        }
        let wanted =
            (status(&task) == "input_required").then(|| RequiredInput::of_task(&task, &mut answered));
        if let Some(wanted) = wanted.transpose()?.flatten() {
            let responses = wanted.asked(caller, &look.server, outlet).await?;
            let params = id.with("inputResponses", &responses);
            let update = about(call_of(caller), found, method::TASKS_UPDATE, params);
            perform(gateway, caller, &update).await?;
            continue;
        }
        let wish = task.get_as::<u64>("pollIntervalMs").map_or(PAUSE, Duration::from_millis);
        sleep(wish.clamp(PAUSES.0, PAUSES.1)).await;
    }
    Err(error::input(
        ErrorCode::TaskTooLong,
        "the task has not ended within an hour; ask for its result again",
    ))
}

async fn perform(gateway: &Gateway, caller: &Caller, request: &RoutedRequest) -> Reply {
    let done = performed(&gateway.manager, request, &Outlet::none()).await;
    done.map_err(|failure| error::object(&failure, caller.version.era()))?.reply
}

/// Makes a call of a modern client at a legacy server, as a task if the tool requires that. The reply is
/// final. A refused call may have run, so it is not repeated. `is_asked` says whether the client follows the
/// task itself.
pub(crate) async fn call_as_task(
    (manager, shutdown): (Arc<Manager>, Shutdown),
    mut request: RoutedRequest,
    is_asked: bool,
    outlet: Outlet,
) -> CallResult {
    if !request.needs_task {
        return performed(&manager, &request, &outlet).await;
    }
    request.edit(&[("task", Some(&Raw::empty_object()))]);
    let made = performed(&manager, &request, &outlet).await?;
    let id = made.reply.as_ref().ok().and_then(|result| result.get("task")?.get_as::<String>("taskId"));
    let Some(id) = id.filter(|_| !is_asked) else { return Ok(made) };
    let found = Found { server: Arc::clone(&made.server), id };
    let params = Raw::empty_object().with("taskId", &Raw::of(&found.id));
    let rest = about(request.call.clone(), &found, method::TASKS_RESULT, params);
    let abandoned = Abandoned::new(&manager, &shutdown, &found, request.call);
    let rest = RoutedRequest { timeout: Some(LIMIT), ..rest };
    let done = performed(&manager, &rest, &outlet).await?;
    abandoned.keep();
    Ok(Called { reply: done.reply.map(|result| task::without_related(&result)), ..done })
}

/// A task that a call waits for. Dropping it cancels the task at its server.
struct Abandoned(Option<Cancel>);

struct Cancel {
    manager: Arc<Manager>,
    shutdown: Shutdown,
    request: RoutedRequest,
}

impl Abandoned {
    fn new(manager: &Arc<Manager>, shutdown: &Shutdown, found: &Found, call: Box<Call>) -> Self {
        let params = Raw::empty_object().with("taskId", &Raw::of(&found.id));
        Self(Some(Cancel {
            manager: Arc::clone(manager),
            shutdown: shutdown.clone(),
            request: about(call, found, method::TASKS_CANCEL, params),
        }))
    }

    /// The task has ended by itself.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Some(Cancel { manager, shutdown, request }) = self.0.take() else { return };
        shutdown.spawn(async move {
            let request = RoutedRequest { begun: Instant::now(), timeout: Some(CANCEL_LIMIT), ..request };
            // The result is ignored, because no caller waits for it.
            let _ = timeout(CANCEL_LIMIT, manager.call(&request, &Outlet::none())).await;
        });
    }
}
