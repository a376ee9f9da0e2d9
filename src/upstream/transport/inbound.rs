//! What a server says by itself, and what becomes of it. The same for every transport.
//!
//! Not here: finding the call a notification belongs to, which depends on the channel; what a server
//! asks (`questions`).

use super::flood_guard::Worth;
use crate::protocol::feature::List;
use crate::protocol::{Notification, method};
use crate::upstream::connection::{Event, Events};

/// Passes on what concerns the whole server; `offer` gets what belongs to a call, and says what it was worth.
pub(super) fn sort(
    notification: Notification,
    events: &Events,
    offer: impl FnOnce(Notification) -> Worth,
) -> Worth {
    events.heard();
    if let Some(list) = List::changed_by(&notification.method) {
        events.report(Event::Changed(list));
        return Worth::Notice;
    }
    match notification.method.as_str() {
        method::RESOURCE_UPDATED | method::TASK_STATUS | method::TASKS | method::ELICITATION_COMPLETE => {
            events.report(Event::Notice(notification));
            Worth::Notice
        }
        // It withdraws nothing that is open.
        method::CANCELLED => Worth::Junk,
        _ => offer(notification),
    }
}
