//! What a server says by itself, and what becomes of it. The same for every transport.
//!
//! Not here: finding the call a notification belongs to, which depends on the channel; what a server
//! asks (`questions`).

use super::flood_guard::Worth;
use crate::connection::{Event, Events};
use json::Raw;
use protocol::feature::List;
use protocol::{Notification, Request, method};
use runtime::memory::SMALL;

/// A notification that waits with many others has fewer bytes than this, whatever its server wrote.
const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// Members of a notification that say what it is about, and in short how that is. A listener that needs more of a
/// task asks for it.
const KEPT: [&str; 3] = ["uri", "taskId", "elicitationId"];

/// `notification` in the form in which it waits for its listeners: in memory of its own, and if it is large no
/// more than what it is about. None if even that is too large to be a subject of anybody.
fn lean(notification: Notification) -> Option<Notification> {
    let Notification { method, params } = notification;
    let params = match params {
        Some(params) if params.bytes().len() < SMALL => Some(params.detached()),
        Some(params) => {
            let kept = KEPT.map(|name| (name, params.get(name)));
            let kept: Vec<_> =
                kept.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))).collect();
            Some(Raw::object(&kept)).filter(|params| params.bytes().len() < MAX_NOTICE_BYTES)
        }
        None => return Some(Notification { method, params: None }),
    };
    params.map(|params| Notification { method, params: Some(params) })
}

/// Notes what a request of the server says of it: one that asks for roots keeps state for each client.
pub(super) fn note(request: &Request, events: &Events) {
    if request.method == method::ROOTS_LIST {
        events.report(Event::AsksRoots);
    }
}

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
            if let Some(lean) = lean(notification) {
                events.report(Event::Notice(lean));
            }
            Worth::Notice
        }
        // It withdraws nothing that is open.
        method::CANCELLED => Worth::Junk,
        _ => offer(notification),
    }
}
