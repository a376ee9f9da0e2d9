//! Task ids for clients: sealed tokens with the server and its own id.
//!
//! Invariants: a task has one id for a principal, on every endpoint and without stored state. An id of
//! another client or another instance, or an invented one, is unknown.

use std::sync::Arc;

use super::super::caller::Caller;
use super::super::era::task::RELATED_TASK;
use auth::{Principal, Sealer};
use json::Raw;

/// The purpose that the tokens are sealed for.
const PURPOSE: &str = "task";
/// Separates the server's name, which contains no such byte, from its id.
const SEPARATOR: u8 = 0;

/// Seals and opens task ids.
#[derive(Clone)]
pub(crate) struct TaskIds(Arc<Sealer>);

/// A task and its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskRef {
    pub server: Arc<str>,
    /// The id on the server.
    pub id: String,
}

impl TaskIds {
    pub(crate) const fn new(sealer: Arc<Sealer>) -> Self {
        Self(sealer)
    }

    /// The ids of one server for one principal.
    pub(super) fn of<'a>(&'a self, principal: &'a Principal, server: &'a str) -> Ids<'a> {
        Ids { sealer: &self.0, principal, server, client_id: None }
    }

    /// Returns the task of `token`, if it belongs to the client and to a server that the client sees.
    pub(super) fn find(&self, caller: &Caller, token: &str) -> Option<TaskRef> {
        let payload = self.0.open(PURPOSE, &caller.principal, token)?;
        let at = payload.iter().position(|byte| *byte == SEPARATOR)?;
        let (server, id) = (std::str::from_utf8(&payload[..at]).ok()?, payload.get(at + 1..)?);
        let is_seen = caller.scope.server.as_deref().is_none_or(|name| name == server);
        is_seen.then_some(TaskRef { server: server.into(), id: String::from_utf8(id.to_vec()).ok()? })
    }
}

/// The ids of one server for one principal.
#[derive(Clone, Copy)]
pub(super) struct Ids<'a> {
    sealer: &'a Sealer,
    principal: &'a Principal,
    server: &'a str,
    /// A task by its id on the server, and the id that the client used for it.
    client_id: Option<(&'a str, &'a str)>,
}

impl<'a> Ids<'a> {
    /// Records that the client calls the task `id` `token`, which may be sealed with an older key.
    pub(super) const fn known_as(self, id: &'a str, token: &'a str) -> Self {
        Self { client_id: Some((id, token)), ..self }
    }

    /// Returns the client's id of the task `id`.
    pub(super) fn expose(&self, id: &str) -> String {
        if let Some((_, token)) = self.client_id.filter(|(client_id, _)| *client_id == id) {
            return token.to_owned();
        }
        let payload = [self.server.as_bytes(), &[SEPARATOR], id.as_bytes()].concat();
        self.sealer.seal(PURPOSE, self.principal, &payload)
    }

    /// Replaces `taskId` in an object for the client.
    pub(super) fn exposed(&self, object: &Raw) -> Raw {
        let id: Option<String> = object.get_as("taskId");
        id.map_or_else(|| object.clone(), |id| object.with("taskId", &Raw::of(&self.expose(&id))))
    }

    /// Replaces the task id in the mark of a message for the client.
    pub(super) fn related(&self, message: &Raw) -> Raw {
        related(message, |id| Some(self.expose(id)))
    }

    /// Replaces the task id in the mark of a client's message for the server.
    pub(super) fn related_back(&self, message: &Raw) -> Raw {
        related(message, |token| {
            let payload = self.sealer.open(PURPOSE, self.principal, token)?;
            let id = payload.strip_prefix(self.server.as_bytes())?.strip_prefix(&[SEPARATOR])?;
            String::from_utf8(id.to_vec()).ok()
        })
    }
}

fn related(message: &Raw, id: impl Fn(&str) -> Option<String>) -> Raw {
    let changed = || {
        let meta = message.get("_meta")?;
        let mark = meta.get(RELATED_TASK)?;
        let id = id(&mark.get_as::<String>("taskId")?)?;
        let mark = mark.with("taskId", &Raw::of(&id));
        Some(message.with("_meta", &meta.with(RELATED_TASK, &mark)))
    };
    changed().unwrap_or_else(|| message.clone())
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{modern, raw};
    use super::*;

    #[test]
    fn an_id_is_the_same_for_its_owner_and_unknown_to_all_others() {
        let ids = TaskIds::new(Arc::new(Sealer::random()));
        let (client, stranger) = (modern("c", "{}"), modern("d", "{}"));
        let token = ids.of(&client.principal, "s").expose("t/1");
        assert_eq!(token, ids.of(&client.principal, "s").expose("t/1"));
        assert_ne!(token, ids.of(&client.principal, "s").expose("t/2"));
        let found = TaskRef { server: "s".into(), id: "t/1".into() };
        assert_eq!(ids.find(&client, &token), Some(found.clone()));
        assert_eq!(ids.find(&stranger, &token), None);
        let narrow = |server: &str| {
            let mut narrow = client.clone();
            narrow.scope = crate::manager::Scope::of_server(server);
            narrow
        };
        assert_eq!(ids.find(&narrow("s"), &token), Some(found));
        assert_eq!(ids.find(&narrow("other"), &token), None);
        for at in 0..token.len() {
            let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert_eq!(ids.find(&client, &changed), None);
        }
    }

    #[test]
    fn marks_are_rewritten_there_and_back() {
        let ids = TaskIds::new(Arc::new(Sealer::random()));
        let client = modern("c", "{}");
        let ids = ids.of(&client.principal, "s");
        let own = raw(
            r#"{"x":1e400,"_meta":{"k":1,"io.modelcontextprotocol/related-task":{"taskId":"7","y":null}}}"#,
        );
        let shown = ids.related(&own);
        assert!(!shown.as_str().contains(r#""7""#) && shown.as_str().contains(r#""y":null"#));
        assert_eq!(ids.related_back(&shown), own);
        let plain = raw(r#"{"_meta":{"k":1}}"#);
        assert_eq!((ids.related(&plain), ids.related_back(&plain)), (plain.clone(), plain));
    }
}
