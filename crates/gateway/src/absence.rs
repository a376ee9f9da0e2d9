//! Tells clients of one server that it is down: in `instructions`, and in a log line with a list.
//!
//! Invariants: only clients of the endpoint of that server are told. A legacy session gets one log line, with its first
//! list, if the server was away at `initialize` too. A modern client gets it with each list that asks for log lines.
//!
//! Not here: the errors of calls (`error`).

use serde_json::json;

use super::caller::Caller;
use crate::manager::{Scope, Snapshot};
use json::Raw;
use protocol::{LogLevel, Notification, method};

/// Longest reason that is told, in characters.
const MAX_REASON: usize = 1_000;

/// Why the server that `scope` consists of cannot be used now; none if it can, and for all servers together.
pub(crate) fn reason(snapshot: &Snapshot, scope: &Scope) -> Option<String> {
    let error = snapshot.absence(scope)?.to_string();
    let reason: String =
        error.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_REASON).collect();
    Some(format!("{reason}. Until it is back its lists may be empty or out of date, and calls fail."))
}

/// Whether `caller` gets a log line with a list because its server is down.
pub(super) fn is_due(snapshot: &Snapshot, caller: &Caller) -> bool {
    let is_wanted = || match &caller.mailbox {
        Some(mailbox) => mailbox.owes_reason(),
        None => caller.wants_log(Some(LogLevel::Warning)),
    };
    caller.scope != Scope::All && is_wanted() && snapshot.absence(&caller.scope).is_some()
}

/// The log line that is due, which is told only once to a session.
pub(super) fn line(snapshot: &Snapshot, caller: &Caller) -> Option<Notification> {
    if !is_due(snapshot, caller) {
        return None;
    }
    if let Some(mailbox) = &caller.mailbox {
        mailbox.owe_reason(false);
    }
    let params = json!({
        "level": LogLevel::Warning.as_str(),
        "logger": "switchyard",
        "data": reason(snapshot, &caller.scope)?,
    });
    Some(Notification { method: method::LOG_MESSAGE.into(), params: Some(Raw::of(&params)) })
}
