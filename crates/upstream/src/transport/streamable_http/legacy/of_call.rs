//! The messages of a legacy server on the stream of one call.
//!
//! Invariant: the stream determines the call of a message, so nothing is guessed.
//!
//! Not here: the stream of the session (`listening`).

use std::sync::Arc;

use super::State;
use crate::connection::Outlet;
use crate::transport::flood_guard::Relevance;
use crate::transport::inbound;
use crate::transport::streamable_http::answer::MessageHandler;
use crate::transport::streamable_http::modern::offer;
use protocol::{Message, method};

/// Handles the messages on the stream of a call.
pub(super) struct LegacyCallHandler<'a> {
    pub(super) id: u64,
    pub(super) wants_progress: bool,
    pub(super) outlet: &'a Outlet,
    pub(super) state: &'a State,
}

impl MessageHandler for LegacyCallHandler<'_> {
    fn handle(&self, message: Message) -> Relevance {
        match message {
            Message::Notification(said) if self.state.questions.is_withdrawn_by(&said) => Relevance::Wanted,
            // There is no notification stream in this era.
            Message::Notification(said) if said.method == method::SUBSCRIPTIONS_ACKNOWLEDGED => {
                Relevance::Junk
            }
            Message::Notification(said) => {
                let token = self.wants_progress.then_some(self.id);
                inbound::sort(said, &self.state.events, |said| offer(self.outlet, said, token))
            }
            // The stream determines the call.
            Message::Request(request) => {
                inbound::note(&request, &self.state.events);
                let (pending, id) = (Arc::clone(&self.state.pending), self.id);
                self.state.questions.take(request, move |_| pending.attribute_to(id))
            }
            Message::Response(_) => Relevance::Junk,
        }
    }
}
