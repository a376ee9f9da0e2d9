//! Tasks that a client cannot follow: the call that created one waits for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::super::caller::Caller;
use super::super::era::task::{self, EXTENSION};
use super::super::{Gateway, error};
use super::ids::TaskRef;
use super::{CallResult, LIMIT, about, call_of, performed, request, status};
use crate::manager::{Manager, RoutedRequest};
use crate::required_input::RequiredInput;
use json::Raw;
use protocol::error::code;
use protocol::{ErrorCode, Reply, method};
use runtime::shutdown::Shutdown;
use upstream::{Call, EventSender, ServerResponse};

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
    (server, reply): (&Arc<str>, &Reply),
    event_sender: &EventSender,
) -> Option<Reply> {
    let result = reply.as_ref().ok()?;
    result.text("resultType").filter(|kind| kind == "task")?;
    let found = TaskRef { server: Arc::clone(server), id: result.get_as("taskId")? };
    let abandoned = Abandoned::new(&gateway.manager, &gateway.shutdown, &found, call_of(caller));
    let outcome = outcome(gateway, caller, &found, event_sender).await;
    abandoned.keep();
    Some(outcome.map(|result| task::without_related(&result)))
}

/// Returns the reply to `tasks/result` for a task of the extension, once there is one.
pub(super) async fn outcome(
    gateway: &Gateway,
    caller: &Caller,
    found: &TaskRef,
    event_sender: &EventSender,
) -> Reply {
    let id = Raw::empty_object().with("taskId", &Raw::of(&found.id));
    let mut answered = HashSet::new();
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let look = about(call_of(caller), method::TASKS_GET, id.clone());
        let task = perform(gateway, caller, found, look).await?;
        if let Some(outcome) = task::outcome(&task) {
            return outcome;
        }
        let required_input =
            (status(&task) == "input_required").then(|| RequiredInput::of_task(&task, &mut answered));
        if let Some(required_input) = required_input.transpose()?.flatten() {
            let responses = required_input.ask_client(caller, &found.server, event_sender).await?;
            let params = id.with("inputResponses", &responses);
            let update = about(call_of(caller), method::TASKS_UPDATE, params);
            perform(gateway, caller, found, update).await?;
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

async fn perform(gateway: &Gateway, caller: &Caller, found: &TaskRef, call: Box<Call>) -> Reply {
    let manager = &gateway.manager;
    let done = performed(manager, request(manager, found, call), &EventSender::none()).await;
    done.map_err(|failure| error::object(&failure, caller.version.era()))?.body
}

/// Makes a call of a modern client at a legacy server, as a task if the tool requires that. The reply is
/// final. A refused call may have run, so it is not repeated. `is_asked` says whether the client follows the
/// task itself.
pub(crate) async fn call_as_task(
    (manager, shutdown): (Arc<Manager>, Shutdown),
    mut routed: RoutedRequest,
    is_asked: bool,
    event_sender: EventSender,
) -> CallResult {
    if !routed.needs_task() {
        return performed(&manager, Ok(routed), &event_sender).await;
    }
    routed.edit(&[("task", Some(&Raw::empty_object()))]);
    let (server, call) = (Arc::clone(routed.server_name()), routed.call.clone());
    let made = performed(&manager, Ok(routed), &event_sender).await?;
    let id = made.body.as_ref().ok().and_then(|result| result.get("task")?.get_as::<String>("taskId"));
    let Some(id) = id.filter(|_| !is_asked) else { return Ok(made) };
    let found = TaskRef { server, id };
    let params = Raw::empty_object().with("taskId", &Raw::of(&found.id));
    let rest = request(&manager, &found, about(call.clone(), method::TASKS_RESULT, params));
    let abandoned = Abandoned::new(&manager, &shutdown, &found, call);
    let rest = rest.map(|rest| RoutedRequest { timeout: Some(LIMIT), ..rest });
    let done = performed(&manager, rest, &event_sender).await?;
    abandoned.keep();
    Ok(ServerResponse { body: done.body.map(|result| task::without_related(&result)), ..done })
}

/// A task that a call waits for. Dropping it cancels the task at its server.
struct Abandoned(Option<Cancel>);

struct Cancel {
    manager: Arc<Manager>,
    shutdown: Shutdown,
    found: TaskRef,
    call: Box<Call>,
}

impl Abandoned {
    fn new(manager: &Arc<Manager>, shutdown: &Shutdown, found: &TaskRef, call: Box<Call>) -> Self {
        let params = Raw::empty_object().with("taskId", &Raw::of(&found.id));
        Self(Some(Cancel {
            manager: Arc::clone(manager),
            shutdown: shutdown.clone(),
            found: found.clone(),
            call: about(call, method::TASKS_CANCEL, params),
        }))
    }

    /// The task has ended by itself.
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Some(Cancel { manager, shutdown, found, call }) = self.0.take() else { return };
        shutdown.spawn(async move {
            let Ok(request) = request(&manager, &found, call) else { return };
            let request = RoutedRequest { timeout: Some(CANCEL_LIMIT), ..request };
            // The result is ignored, because no caller waits for it.
            let _ = timeout(CANCEL_LIMIT, manager.call(&request, &EventSender::none())).await;
        });
    }
}
