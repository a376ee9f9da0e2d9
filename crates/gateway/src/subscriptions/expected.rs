//! Notifications that a legacy session gets without a subscription: a page was visited, or a task of the
//! session changed.
//!
//! A modern client subscribes to its tasks with `subscriptions/listen`, and retries after a visit without a
//! notification. Source: 2025-11-25 `client/elicitation` (URL mode) and `basic/utilities/tasks`.

use std::sync::Arc;

use crate::notifications::Mailbox;
use crate::notifications::{Subscription, Topic};
use crate::{Caller, Gateway};
use json::Raw;
use protocol::error::code;
use protocol::{Reply, method};
use upstream::Question;

/// Member with the id of an elicitation.
const ID: &str = "elicitationId";
/// The longest id of a server that is stored, in bytes: each is stored twice.
const MAX_ID: usize = 1_024;
/// Limit of stored elicitations of one answer.
const MAX_PAGES: usize = 64;

impl Gateway {
    /// Records a server request to a session. If it sends the user to a page, the session is notified of the
    /// visit.
    pub fn note_question(&self, caller: &Caller, question: &Question) {
        if question.method == method::ELICITATION_CREATE
            && let Some(server) = &question.server
            && let Some(id) = question.params.as_ref().and_then(elicitation_id)
        {
            self.expect_elicitation(caller, server, &id);
        }
    }

    /// Records the answer of `server` to a session, because an error may send the user to pages too.
    pub(crate) fn note_answer(&self, caller: &Caller, server: &Arc<str>, reply: &Reply) {
        let Err(error) = reply else { return };
        if error.code() != code::URL_ELICITATION_REQUIRED {
            return;
        }
        let pages = error.data().and_then(|data| data.get("elicitations"));
        for page in pages.iter().flat_map(Raw::elements).take(MAX_PAGES) {
            if let Some(id) = elicitation_id(&page) {
                self.expect_elicitation(caller, server, &id);
            }
        }
    }

    /// Subscribes the session to the visit of the page of elicitation `id`. Only `server` can send that
    /// notification.
    pub(crate) fn expect_elicitation(&self, caller: &Caller, server: &Arc<str>, id: &str) {
        let topic = Topic::Elicitation(Arc::clone(server), id.into());
        expect(caller, |mailbox| self.router.subscribe(topic, id, (mailbox.pending(), &caller.affinity)));
    }

    /// Subscribes the session to a task, which `server` calls `there` and the session `shown`.
    pub(crate) fn expect_task(&self, caller: &Caller, server: &str, there: &str, shown: &str) {
        if there.len() > MAX_ID {
            return;
        }
        let topic = Topic::Task(server.into(), there.into());
        expect(caller, |mailbox| self.router.subscribe(topic, shown, (mailbox.pending(), &caller.affinity)));
    }
}

/// Returns the id of the elicitation in `page`, unless it is too long to store.
fn elicitation_id(page: &Raw) -> Option<String> {
    page.get(ID).filter(|id| id.bytes().len() <= MAX_ID)?.read().ok()
}

fn expect(caller: &Caller, subscription: impl FnOnce(&Arc<Mailbox>) -> Subscription) {
    if let Some(mailbox) = &caller.mailbox {
        mailbox.expect(subscription(mailbox));
    }
}
