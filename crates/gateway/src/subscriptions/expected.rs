//! What a legacy session is told because of something that happened to it: the page that it was sent
//! to was visited, a task that it began went on.
//!
//! Source: 2025-11-25 `client/elicitation` (URL mode) and `basic/utilities/tasks`. A modern client
//! asks for notices of its tasks with `subscriptions/listen`, and retries after a visit by itself.

use std::sync::Arc;

use super::mailbox::Mailbox;
use crate::subscriptions::notification_router::{Subscription, Topic};
use crate::{Caller, Gateway};
use json::Raw;
use protocol::error::code;
use protocol::{Reply, method};
use upstream::Question;

/// The member that names an elicitation.
const ID: &str = "elicitationId";
/// The longest id of a server that is remembered, in bytes: each is kept twice.
const MAX_ID: usize = 1_024;
/// Elicitations of one answer that are remembered.
const MAX_PAGES: usize = 64;

impl Gateway {
    /// Notes what a session is asked: when it is sent to a page, it hears of the visit.
    pub fn note_question(&self, caller: &Caller, question: &Question) {
        if question.method == method::ELICITATION_CREATE
            && let Some(server) = &question.server
            && let Some(id) = question.params.as_ref().and_then(elicitation_id)
        {
            self.expect_elicitation(caller, server, &id);
        }
    }

    /// Notes the answer of `server` to a session: an error may send it to pages too.
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

    /// Tells the session when `server` says that the page of its elicitation `id` was visited. No other server
    /// can say that.
    pub fn expect_elicitation(&self, caller: &Caller, server: &Arc<str>, id: &str) {
        let topic = Topic::Elicitation(Arc::clone(server), id.into());
        expect(caller, |mailbox| self.board.tell(topic, id, (mailbox, &caller.home)));
    }

    /// Tells the session of the task that `server` calls `there` and the session `shown`.
    pub fn expect_task(&self, caller: &Caller, server: &str, there: &str, shown: &str) {
        if there.len() > MAX_ID {
            return;
        }
        let topic = Topic::Task(server.into(), there.into());
        expect(caller, |mailbox| self.board.tell(topic, shown, (mailbox, &caller.home)));
    }
}

/// The id of the elicitation that `page` describes, unless it is too long to be remembered.
fn elicitation_id(page: &Raw) -> Option<String> {
    page.get(ID).filter(|id| id.bytes().len() <= MAX_ID)?.read().ok()
}

fn expect(caller: &Caller, subscription: impl FnOnce(&Arc<Mailbox>) -> Subscription) {
    if let Some(mailbox) = &caller.mailbox {
        mailbox.expect(subscription(mailbox));
    }
}
