//! Handles the notifications of a server, in the same way for every transport.
//!
//! Not here: finding the call of a notification, which depends on the channel; server requests (`questions`).

use bytes::Bytes;

use super::flood_guard::Relevance;
use crate::connection::{Event, Events};
use crate::state_signs::StateSign;
use json::Raw;
use protocol::feature::List;
use protocol::{Message, Notification, ParseError, Request, method};
use runtime::memory::SMALL;

/// The size limit of a notification that waits together with others.
const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// The members of a notification that name its subject. A listener that needs more of a task requests it.
const KEPT: [&str; 3] = ["uri", "taskId", "elicitationId"];

/// Reduces `notification` for waiting. It gets its own memory, and a large one keeps only its subject. `None` if even
/// that is too large to match a subject.
fn shrink(notification: Notification) -> Option<Notification> {
    let Notification { method, params } = notification;
    let params = match params {
        Some(params) if params.bytes().len() < SMALL => Some(params.detached()),
        Some(params) => {
            let members = KEPT.map(|name| (name, params.get(name)));
            let members: Vec<_> =
                members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?))).collect();
            Some(Raw::object(&members)).filter(|params| params.bytes().len() < MAX_NOTICE_BYTES)
        }
        None => return Some(Notification { method, params: None }),
    };
    params.map(|params| Notification { method, params: Some(params) })
}

/// Whether events of this name carry messages. Events without a name do.
pub(super) fn is_message(name: &Bytes) -> bool {
    name.is_empty() || name == "message"
}

/// Reads `text`, which is one message or a batch, and hands each message and its text to `take`. `join` makes one of two
/// results.
pub(super) fn read<T>(
    text: &Bytes,
    mut take: impl FnMut(Result<Message, ParseError>, &Bytes) -> T,
    join: impl FnMut(T, T) -> T,
) -> T {
    match Message::from_server(text) {
        Err(ParseError::Batch) => {
            let batch = Message::batch(text).unwrap_or_default();
            let taken = batch.iter().map(|text| take(Message::from_server(text), text)).reduce(join);
            taken.unwrap_or_else(|| take(Err(ParseError::Batch), text))
        }
        message => take(message, text),
    }
}

/// Reports what a server request shows about the server: a server that asks a client keeps state for it.
pub(super) fn record(request: &Request, events: &Events) {
    if let Some(sign) = StateSign::of_request(&request.method) {
        events.shows(sign);
    }
}

/// Passes on notifications for the whole server. `offer` gets those of a call, and returns how they are counted.
pub(super) fn sort(
    notification: Notification,
    events: &Events,
    offer: impl FnOnce(Notification) -> Relevance,
) -> Relevance {
    events.heard();
    if let Some(list) = List::changed_by(&notification.method) {
        events.report(Event::Changed(list));
        return Relevance::Notice;
    }
    match notification.method.as_str() {
        method::RESOURCE_UPDATED | method::TASK_STATUS | method::TASKS | method::ELICITATION_COMPLETE => {
            if let Some(small) = shrink(notification) {
                events.report(Event::Notice(small));
            }
            Relevance::Notice
        }
        // No server request is open under this id.
        method::CANCELLED => Relevance::Junk,
        _ => offer(notification),
    }
}
