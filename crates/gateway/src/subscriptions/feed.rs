//! The notifications for one listener as one source.
//!
//! Every transport reads the messages outside of calls from here: the GET stream, a pipe, the stream
//! of the old HTTP+SSE. The mailbox stores which notifications were sent, so a new feed continues
//! where the previous one ended.

use std::sync::Arc;

use tokio::sync::watch;

use crate::manager::{Manager, Scope};
use crate::notifications::Mailbox;
use protocol::Notification;
use protocol::feature::List;
use upstream::Affinity;

/// The notifications for one listener, one after another.
pub struct Feed {
    manager: Arc<Manager>,
    scope: Scope,
    affinity: Affinity,
    mailbox: Arc<Mailbox>,
    changes: watch::Receiver<u64>,
    arrivals: watch::Receiver<()>,
}

impl Feed {
    /// A feed for a listener of `scope` and `affinity`.
    pub fn new(
        manager: &Arc<Manager>,
        (scope, affinity): (&Scope, &Affinity),
        mailbox: &Arc<Mailbox>,
    ) -> Self {
        Self {
            manager: Arc::clone(manager),
            scope: scope.clone(),
            affinity: affinity.clone(),
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
        let now = self.manager.seen_by(Some(&self.affinity)).revisions(&self.scope);
        self.mailbox.take_changed(now).map(changed).or_else(|| self.mailbox.take())
    }
}

/// The notification that a list changed.
fn changed(list: List) -> Notification {
    Notification { method: list.changed().into(), params: None }
}
