//! What a server says by itself, and what becomes of it. The same for every transport.
//!
//! Not here: finding the call a notification belongs to, which depends on the channel.

use crate::protocol::error::code;
use crate::protocol::feature::List;
use crate::protocol::{ErrorObject, Notification, Raw, Request, Response, method};
use crate::upstream::connection::{Event, Events};

/// Passes on what concerns the whole server, and gives back what belongs to a call.
pub(super) fn sort(notification: Notification, events: &Events) -> Option<Notification> {
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
        method::SUBSCRIPTIONS_ACKNOWLEDGED | method::CANCELLED => None,
        _ => Some(notification),
    }
}

/// Answers a request of a server to us. We declare no client capabilities, so all it may ask is
/// whether we are there.
pub(super) fn answer(request: Request) -> Response {
    let reply = match request.method.as_str() {
        method::PING => Ok(Raw::empty_object()),
        other => Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("{other:?} is not supported here"))),
    };
    Response { id: Some(request.id), reply }
}
