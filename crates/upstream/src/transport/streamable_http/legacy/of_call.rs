//! The messages of a legacy server on the stream of one call.
//!
//! Invariant: the stream determines the call of a message, so nothing is guessed.
//!
//! Not here: the stream of the session (`listening`).

use std::sync::Arc;

use super::State;
use crate::connection::EventSender;
use crate::transport::flood_guard::Relevance;
use crate::transport::inbound;
use crate::transport::streamable_http::answer::MessageHandler;
use crate::transport::streamable_http::modern::offer;
use protocol::{Message, method};

/// Handles the messages on the stream of a call.
pub(super) struct LegacyCallHandler<'a> {
    pub(super) id: u64,
    pub(super) wants_progress: bool,
    pub(super) event_sender: &'a EventSender,
    pub(super) state: &'a State,
}

impl MessageHandler for LegacyCallHandler<'_> {
    fn handle(&self, message: Message) -> Relevance {
        match message {
            Message::Notification(notification) if self.state.questions.is_withdrawn_by(&notification) => {
                Relevance::Wanted
            }
            // There is no notification stream in this era.
            Message::Notification(notification)
                if notification.method == method::SUBSCRIPTIONS_ACKNOWLEDGED =>
            {
                Relevance::Junk
            }
            Message::Notification(notification) => {
                let token = self.wants_progress.then_some(self.id);
                inbound::sort(notification, &self.state.events, |notification| {
                    offer(self.event_sender, notification, token)
                })
            }
            // The stream determines the call.
            Message::Request(request) => {
                inbound::record(&request, &self.state.events);
                let (pending, id) = (Arc::clone(&self.state.pending), self.id);
                self.state.questions.take(request, move |_| pending.attribute_to(id))
            }
            Message::Response(_) => Relevance::Junk,
        }
    }
}
