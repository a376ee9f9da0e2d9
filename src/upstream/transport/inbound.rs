//! What a server says by itself, and what becomes of it. The same for every transport.
//!
//! Not here: finding the call a notification belongs to, which depends on the channel; what a server
//! asks (`questions`).

use crate::protocol::feature::List;
use crate::protocol::{Notification, method};
use crate::upstream::connection::{Event, Events};

/// Passes on what concerns the whole server, and gives back what belongs to a call.
pub(super) fn sort(notification: Notification, events: &Events) -> Option<Notification> {
    events.heard();
    if let Some(list) = List::changed_by(&notification.method) {
        events.report(Event::Changed(list));
        return None;
    }
    match notification.method.as_str() {
        method::RESOURCE_UPDATED | method::TASK_STATUS | method::TASKS | method::ELICITATION_COMPLETE => {
            events.report(Event::Notice(notification));
            None
        }
        // Bookkeeping of channels, which needs no reader.
        method::CANCELLED => None,
        _ => Some(notification),
    }
}
