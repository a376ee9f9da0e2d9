//! What a legacy session is told because of something that happened to it: the page that it was sent
//! to was visited, a task that it began went on.
//!
//! Source: 2025-11-25 `client/elicitation` (URL mode) and `basic/utilities/tasks`. A modern client
//! asks for notices of its tasks with `subscriptions/listen`, and retries after a visit by itself.

use std::sync::Arc;

use super::board::{Subscription, Topic};
use super::mailbox::Mailbox;
use crate::gateway::{Caller, Gateway};
use crate::protocol::error::code;
use crate::protocol::{Raw, Reply, method};

impl Gateway {
    /// Notes that a session is asked `method`: when it is sent to a page, it hears of the visit.
    pub fn note_question(&self, caller: &Caller, method: &str, params: Option<&Raw>) {
        if method == method::ELICITATION_CREATE
            && let Some(id) = params.and_then(|params| params.get_as::<String>("elicitationId"))
        {
            self.expect_elicitation(caller, &id);
        }
    }

    /// Notes the answer that a session gets: an error may send it to pages too.
    pub fn note_answer(&self, caller: &Caller, reply: &Reply) {
        let Err(error) = reply else { return };
        if error.code() != code::URL_ELICITATION_REQUIRED {
            return;
        }
        let pages = error.data().and_then(|data| data.get("elicitations"));
        for page in pages.iter().flat_map(Raw::elements) {
            if let Some(id) = page.get_as::<String>("elicitationId") {
                self.expect_elicitation(caller, &id);
            }
        }
    }

    /// Tells the session when the page of the elicitation `id` was visited.
    pub fn expect_elicitation(&self, caller: &Caller, id: &str) {
        expect(caller, |mailbox| self.board.tell(Topic::Elicitation(id.into()), id, mailbox));
    }

    /// Tells the session of the task that `server` calls `there` and the session `shown`.
    pub fn expect_task(&self, caller: &Caller, server: &str, there: &str, shown: &str) {
        let topic = Topic::Task(server.into(), there.into());
        expect(caller, |mailbox| self.board.tell(topic, shown, mailbox));
    }
}

fn expect(caller: &Caller, subscription: impl FnOnce(&Arc<Mailbox>) -> Subscription) {
    if let Some(mailbox) = &caller.mailbox {
        mailbox.expect(subscription(mailbox));
    }
}
