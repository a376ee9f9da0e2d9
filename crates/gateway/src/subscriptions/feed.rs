//! The notifications for one listener as one source.
//!
//! Every transport reads the messages outside of calls from here: the GET stream, a pipe, the stream
//! of the old HTTP+SSE. The mailbox stores which notifications were sent, so a new feed continues
//! where the previous one ended.

use std::sync::Arc;

use tokio::sync::watch;

use crate::caller::Caller;
use crate::manager::{Manager, Scope, Viewer};
use crate::notifications::{Mailbox, Topic};
use auth::Principal;
use protocol::Notification;
use protocol::feature::List;
use upstream::Affinity;

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
