//! Messages for a client as they wait for it: encoded, and charged to its principal until they were written.
//!
//! Invariant: a response is never dropped silently. If the memory budget has no room for it, the client gets an
//! error in its place. A notification is dropped and counted, and a question of a server is refused.
//!
//! Not here: the admission rule ([`runtime::memory`]), where a message waits (`replay`, `conversation`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::questions::Questions;
use gateway::error::memory_exhausted;
use protocol::{Era, Message, Response};
use runtime::memory::{Account, Charge, ChargeKind, Exhausted, SMALL};
use runtime::telemetry::limit::Limit;

/// Encodes messages for one client.
#[derive(Debug, Clone)]
pub(super) struct MessageEncoder {
    principal: Arc<str>,
    era: Era,
}

impl MessageEncoder {
    /// For a client of `era`; `principal` pays.
    pub(super) fn new(principal: &Arc<str>, era: Era) -> Self {
        Self { principal: Arc::clone(principal), era }
    }

    /// `message` in the form that `frame` gives it; none for a notification without room, and for a question of a
    /// server, which is then refused.
    pub(super) fn encode(
        &self,
        message: &Message,
        questions: Option<&Questions>,
        frame: impl Fn(Bytes) -> Bytes,
    ) -> Option<Bytes> {
        match (self.charged(message, &frame), message) {
            (Ok(encoded), _) => Some(encoded),
            (Err(_), Message::Response(response)) => Some(frame(self.refused(response).encode())),
            (Err(_), Message::Notification(_)) => Limit::CallNotices.met(None),
            (Err(_), Message::Request(request)) => {
                if let Some(questions) = questions {
                    questions.refuse(&request.id);
                }
                Limit::SessionQuestions.met(None)
            }
        }
    }

    /// A charge of the principal for notifications.
    pub(super) fn charge(&self) -> Charge {
        self.open(ChargeKind::Notice)
    }

    fn open(&self, kind: ChargeKind) -> Charge {
        Charge::open(Account::Principal(Arc::clone(&self.principal)), kind)
    }

    /// The encoded message. Room is found before it is encoded: a refusal must not cost the memory that it saves.
    fn charged(&self, message: &Message, frame: impl Fn(Bytes) -> Bytes) -> Result<Bytes, Exhausted> {
        let size = size(message);
        if size < SMALL {
            return Ok(frame(message.encode()));
        }
        let kind =
            if matches!(message, Message::Response(_)) { ChargeKind::Answer } else { ChargeKind::Notice };
        let mut charge = self.open(kind);
        // Two copies at a time: the encoded message and the framed one.
        charge.resize(2 * size)?;
        charge.hold(frame(message.encode()))
    }

    fn refused(&self, response: &Response) -> Response {
        Response { id: response.id.clone(), reply: Err(memory_exhausted(self.era)) }
    }
}

/// Bytes of the part of a message that may be large.
fn size(message: &Message) -> usize {
    let value = match message {
        Message::Response(Response { reply: Ok(result), .. }) => Some(result),
        Message::Response(Response { reply: Err(error), .. }) => Some(error.raw()),
        Message::Notification(notification) => notification.params.as_ref(),
        Message::Request(request) => request.params.as_ref(),
    };
    value.map_or(0, |value| value.bytes().len())
}

/// The event that asks a client to come back after `pause`, and nothing else.
pub(super) fn retry(pause: Duration) -> Bytes {
    Bytes::from(format!("retry: {}\n\n", pause.as_millis()))
}
