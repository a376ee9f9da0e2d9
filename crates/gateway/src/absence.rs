//! Notifies clients of one server that it is down: in `instructions`, and in a log message with a list.
//!
//! Invariants: only clients of the endpoint of that server are notified. A legacy session gets one log message with its
//! first list, if the server was also down at `initialize`. A modern client gets one with each list for which it
//! enabled log messages.
//!
//! Not here: the errors of calls (`error`).

use serde_json::json;

use super::caller::Caller;
use crate::manager::{Scope, Snapshot};
use json::Raw;
use protocol::visible::escaped;
use protocol::{LogLevel, Notification, method};

/// Longest reason in such a message, in characters.
const MAX_REASON: usize = 1_000;

/// Why the only server of `scope` cannot be used now; none if it can be used, and none for all servers together.
pub(crate) fn reason(snapshot: &Snapshot, scope: &Scope) -> Option<String> {
    let error = snapshot.absence(scope)?.to_string();
    let reason: String = error.replace('\n', " ").chars().take(MAX_REASON).flat_map(escaped).collect();
    Some(format!("{reason}. Until it is back its lists may be empty or out of date, and calls fail."))
}

/// Whether `caller` gets a log message with a list because its server is down.
pub(super) fn is_due(snapshot: &Snapshot, caller: &Caller) -> bool {
    let is_wanted = || match &caller.mailbox {
        Some(mailbox) => mailbox.owes_down_notice(),
        None => caller.wants_log(Some(LogLevel::Warning)),
    };
    caller.scope.server.is_some() && is_wanted() && snapshot.absence(&caller.scope).is_some()
}

/// Returns the log message, if it is due. A session gets it only once.
pub(super) fn line(snapshot: &Snapshot, caller: &Caller) -> Option<Notification> {
    if !is_due(snapshot, caller) {
        return None;
    }
    if let Some(mailbox) = &caller.mailbox {
        mailbox.set_owes_down_notice(false);
    }
    let params = json!({
        "level": LogLevel::Warning.as_str(),
        "logger": "switchyard",
        "data": reason(snapshot, &caller.scope)?,
    });
    Some(Notification { method: method::LOG_MESSAGE.into(), params: Some(Raw::of(&params)) })
}
