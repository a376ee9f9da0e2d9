//! The tasks of a `subscriptions/listen`: `taskIds` of the extension `io.modelcontextprotocol/tasks`.
//!
//! Invariants: a client hears of its own tasks only, under the ids that it was given; each notice has the
//! whole task, because a client that listens need not look: where one may have been lost, we look for it.
//! A server of 2025-11-25 tells neither reliably nor the whole, so its tasks are not honoured.
//!
//! Source: the extension's "Task Status Notifications". Not here: what a legacy session is told of its
//! tasks (`expected`).

use std::sync::Arc;

use tokio::time::timeout;

use super::mailbox::Mailbox;
use super::{LISTEN_PATIENCE, agreed};
use crate::subscriptions::notification_router::Topic;
use crate::{Caller, Gateway, tasks};
use auth::Action;
use json::Raw;
use protocol::{Notification, method};
use upstream::Subject;

/// Has `mailbox` told of all tasks that the client calls `ids`; those that it is told of, in their order. None
/// for a caller that may not follow tasks.
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
    let (server, there) = tasks::told_at(gateway, caller, id)?;
    // Before the server is asked, so that its first notice finds us.
    let topic = Topic::Task(server.clone(), there.clone());
    let subscription = gateway.board.tell(topic, id, (mailbox, &caller.home));
    let client = (caller.principal.id(), Some(&caller.home));
    let watched = gateway.manager().watch(client, &server, Subject::Task(there)).await;
    let (_, watching) = watched.ok()?.ok()?;
    mailbox.subscribe(id.to_owned(), subscription.kept_by(watching)).ok()
}

/// What says that the task `id` may have gone on while nobody listened.
pub(super) fn missed(id: &str) -> Notification {
    Notification {
        method: method::TASKS.into(),
        params: Some(Raw::empty_object().with("taskId", &Raw::of(id))),
    }
}

/// `notice` as the client is to get it: one of a task that does not say how it is has the task as it is now.
/// None when there is no such task any more, or nobody to ask.
pub(super) async fn whole(gateway: &Gateway, caller: &Caller, notice: Notification) -> Option<Notification> {
    if notice.method != method::TASKS {
        return Some(notice);
    }
    let params = notice.params.as_ref()?;
    if params.text("status").is_some() {
        return Some(notice);
    }
    let task = timeout(LISTEN_PATIENCE, tasks::look(gateway, caller, params)).await.ok()?.ok()?;
    Some(Notification { method: method::TASKS.into(), params: Some(task.without("resultType")) })
}
