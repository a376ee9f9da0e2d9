//! The tasks of a `subscriptions/listen`: `taskIds` of the extension `io.modelcontextprotocol/tasks`.
//!
//! Invariants: a client is notified only of its own tasks, under the ids it was given. Each notification has
//! the whole task, so that a client need not poll. If a notification may have been lost, Switchyard reads the
//! task itself. A server of 2025-11-25 sends such notifications unreliably and without the whole task, so its
//! tasks are left out of the acknowledgment.
//!
//! Source: the extension's "Task Status Notifications". Not here: notifications of tasks for legacy sessions
//! (`expected`).

use std::sync::Arc;

use tokio::time::timeout;

use super::{LISTEN_WAIT, agreed};
use crate::notifications::Mailbox;
use crate::notifications::Topic;
use crate::{Caller, Gateway, tasks};
use auth::Action;
use protocol::{Notification, method};
use upstream::Subject;

/// Subscribes `mailbox` to the tasks that the client calls `ids`. Returns the accepted ids in order; none if
/// the caller may not follow tasks.
pub(super) async fn follow_all(
    gateway: &Gateway,
    caller: &Caller,
    mailbox: &Arc<Mailbox>,
    ids: Vec<String>,
) -> Vec<String> {
    if !caller.principal.may(Action::Call) {
        return Vec::new();
    }
    let one = |id: String| async move { follow(gateway, caller, mailbox, &id).await.map(|()| id) };
    agreed(ids.into_iter().map(one)).await
}

async fn follow(gateway: &Gateway, caller: &Caller, mailbox: &Arc<Mailbox>, id: &str) -> Option<()> {
    let (server, there) = tasks::task_at(gateway, caller, id)?;
    // The listener is registered before the server is asked, so that the first notification finds it.
    let topic = Topic::Task(server.clone(), there.clone());
    let subscription = gateway.router.subscribe(topic, id, (mailbox.pending(), &caller.affinity));
    let client = (caller.principal.id(), Some(&caller.affinity));
    let watched = gateway.manager().watch(client, &server, Subject::Task(there)).await;
    let (_, watching) = watched.ok()?.ok()?;
    mailbox.subscribe(id.to_owned(), subscription.kept_by(watching)).ok()
}

/// Completes `notice` for the client: if it names a task without its state, the current task is read. Returns
/// none if the task is gone, or if no server can be asked.
pub(super) async fn whole(gateway: &Gateway, caller: &Caller, notice: Notification) -> Option<Notification> {
    if notice.method != method::TASKS {
        return Some(notice);
    }
    let params = notice.params.as_ref()?;
    if params.text("status").is_some() {
        return Some(notice);
    }
    let task = timeout(LISTEN_WAIT, tasks::look(gateway, caller, params)).await.ok()?.ok()?;
    Some(Notification { method: method::TASKS.into(), params: Some(task.without("resultType")) })
}
