//! The messages that the gateway sends a listener by itself, as one source.
//!
//! Every transport reads a session's own messages from here: the GET stream, a pipe, the stream of
//! the old HTTP+SSE. What was told is kept in the session's mailbox, so a new feed goes on where the
//! one before it ended.

use std::sync::Arc;

use tokio::sync::watch;

use super::mailbox::Mailbox;
use crate::manager::{Manager, Scope};
use protocol::Notification;
use protocol::feature::List;
use upstream::Home;

/// What a listener is told, one after the other.
pub struct Feed {
    manager: Arc<Manager>,
    scope: Scope,
    home: Home,
    mailbox: Arc<Mailbox>,
    changes: watch::Receiver<u64>,
    arrivals: watch::Receiver<()>,
}

impl Feed {
    /// The feed of a listener that sees what `viewer` does.
    pub fn new(manager: &Arc<Manager>, (scope, home): (&Scope, &Home), mailbox: &Arc<Mailbox>) -> Self {
        Self {
            manager: Arc::clone(manager),
            scope: scope.clone(),
            home: home.clone(),
            mailbox: Arc::clone(mailbox),
            changes: manager.changes(),
            arrivals: mailbox.arrivals(),
        }
    }

    /// The next message; waits for ever when there is none. Dropping the future loses nothing.
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
                // The manager has ended, and the mailbox is ours: nothing will come.
                else => std::future::pending().await,
            }
        }
    }

    fn ready(&self) -> Option<Notification> {
        let now = self.manager.seen_by(Some(&self.home)).revisions(&self.scope);
        self.mailbox.take_changed(now).map(changed).or_else(|| self.mailbox.take())
    }
}

/// The notice that a list changed.
fn changed(list: List) -> Notification {
    Notification { method: list.changed().into(), params: None }
}
