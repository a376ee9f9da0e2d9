//! The notifications for one listener as one source.
//!
//! Every transport reads the messages outside of calls from here: the GET stream, a pipe, the stream
//! of the old HTTP+SSE. The mailbox stores which notifications were sent, so a new feed continues
//! where the previous one ended.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use super::{LISTEN_WAIT, agreed};
use crate::caller::Caller;
use crate::manager::{Manager, Scope, Viewer};
use crate::notifications::{Mailbox, Subscription, Topic};
use crate::{Gateway, tasks};
use auth::{Action, Principal};
use json::Raw;
use protocol::error::code;
use protocol::feature::List;
use protocol::{Notification, Reply, method};
use upstream::{Affinity, Question, Subject};

/// The notifications for one listener, one after another.
pub struct Feed {
    manager: Arc<Manager>,
    scope: Scope,
    affinity: Affinity,
    principal: Principal,
    mailbox: Arc<Mailbox>,
    changes: watch::Receiver<u64>,
    arrivals: watch::Receiver<()>,
}

impl Feed {
    /// A feed of `mailbox` for the listener `caller`.
    pub fn new(manager: &Arc<Manager>, caller: &Caller, mailbox: &Arc<Mailbox>) -> Self {
        Self {
            manager: Arc::clone(manager),
            scope: caller.scope.clone(),
            affinity: caller.affinity.clone(),
            principal: caller.principal.clone(),
            mailbox: Arc::clone(mailbox),
            changes: manager.changes(),
            arrivals: mailbox.pending().arrivals(),
        }
    }

    /// Returns the next notification; waits until there is one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Notification {
        loop {
            self.changes.mark_unchanged();
            self.arrivals.mark_unchanged();
            if let Some(notice) = self.ready() {
                return notice;
            }
            tokio::select! {
                Ok(()) = self.changes.changed() => {}
                Ok(()) = self.arrivals.changed() => {}
                // The manager has ended, and only this feed holds the mailbox, so no notification
                // will come.
                else => std::future::pending().await,
            }
        }
    }

    fn ready(&self) -> Option<Notification> {
        if self.scope.view.is_some() {
            self.end_hidden();
        }
        let viewer = Viewer { scope: &self.scope, affinity: Some(&self.affinity) };
        let now = self.manager.revisions(viewer, &self.principal);
        self.mailbox.take_changed(now).map(changed).or_else(|| self.mailbox.take())
    }
}

impl Feed {
    /// Ends subscriptions to what the view does not have any longer. Hidden resources are neither sent nor requested.
    fn end_hidden(&self) {
        let snapshot = self.manager.seen_by(Some(&self.affinity));
        self.mailbox.keep_seen(|topic: &Topic| match topic {
            Topic::Resource(server, uri) => snapshot.sees_resource(server, uri),
            Topic::Task(server, _) | Topic::Elicitation(server, _) => snapshot.server(server).is_ok(),
        });
    }
}

/// The notification that a list changed.
fn changed(list: List) -> Notification {
    Notification { method: list.changed().into(), params: None }
}

/// Member with the id of an elicitation.
const ID: &str = "elicitationId";
/// The longest id of a server that is stored, in bytes: each is stored twice.
const MAX_ID: usize = 1_024;
/// Limit of stored elicitations of one answer.
const MAX_PAGES: usize = 64;

impl Gateway {
    /// Records a server request to a session. If it sends the user to a page, the session is notified of the
    /// visit.
    pub fn note_question(&self, caller: &Caller, question: &Question) {
        if question.method == method::ELICITATION_CREATE
            && let Some(server) = &question.server
            && let Some(id) = question.params.as_ref().and_then(elicitation_id)
        {
            self.expect_elicitation(caller, server, &id);
        }
    }

    /// Records the answer of `server` to a session, because an error may send the user to pages too.
    pub(crate) fn note_answer(&self, caller: &Caller, server: &Arc<str>, reply: &Reply) {
        let Err(error) = reply else { return };
        if error.code() != code::URL_ELICITATION_REQUIRED {
            return;
        }
        let pages = error.data().and_then(|data| data.get("elicitations"));
        for page in pages.iter().flat_map(Raw::elements).take(MAX_PAGES) {
            if let Some(id) = elicitation_id(&page) {
                self.expect_elicitation(caller, server, &id);
            }
        }
    }

    /// Subscribes the session to the visit of the page of elicitation `id`. Only `server` can send that
    /// notification.
    pub(crate) fn expect_elicitation(&self, caller: &Caller, server: &Arc<str>, id: &str) {
        let topic = Topic::Elicitation(Arc::clone(server), id.into());
        expect(caller, |mailbox| self.router.subscribe(topic, id, (mailbox.pending(), &caller.affinity)));
    }

    /// Subscribes the session to a task, which `server` calls `there` and the session `shown`.
    pub(crate) fn expect_task(&self, caller: &Caller, server: &str, there: &str, shown: &str) {
        if there.len() > MAX_ID {
            return;
        }
        let topic = Topic::Task(server.into(), there.into());
        expect(caller, |mailbox| self.router.subscribe(topic, shown, (mailbox.pending(), &caller.affinity)));
    }
}

/// Returns the id of the elicitation in `page`, unless it is too long to store.
///
/// A modern client subscribes to its tasks with `subscriptions/listen`, and retries after a visit without a
/// notification. Source: 2025-11-25 `client/elicitation` (URL mode) and `basic/utilities/tasks`.
fn elicitation_id(page: &Raw) -> Option<String> {
    page.get(ID).filter(|id| id.bytes().len() <= MAX_ID)?.read().ok()
}

fn expect(caller: &Caller, subscription: impl FnOnce(&Arc<Mailbox>) -> Subscription) {
    if let Some(mailbox) = &caller.mailbox {
        mailbox.expect(subscription(mailbox));
    }
}

/// Subscribes `mailbox` to the tasks that the client calls `ids`. Returns the accepted ids in order; none if
/// the caller may not follow tasks.
///
/// Invariants: a client is notified only of its own tasks, under the ids it was given. Each notification has the whole
/// task, so that a client need not poll. If a notification may have been lost, Switchyard reads the task itself. A
/// server of 2025-11-25 sends such notifications unreliably and without the whole task, so its tasks are left out of
/// the acknowledgment.
///
/// Source: the extension's "Task Status Notifications".
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
