//! The GET stream of a session: messages of the server outside the streams of calls.
//!
//! Servers may omit it. If they offer it, it is kept open, and resumed where it ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::session_loss::Loss;
use super::{Opened, State, pause};
use crate::connection::{Event, EventSender, Events};
use crate::error::Error;
use crate::subscription_task::ReopenPauses;
use crate::transport::inbound::{self, Relevance, is_message};
use crate::transport::streamable_http::answer::MessageHandler;
use crate::transport::streamable_http::modern::offer;
use net::http::EventStream;
use net::sse::Item;
use protocol::{Message, ParseError, method};

/// How long a server may take to begin the stream before calls are sent without it.
const BEGIN_LIMIT: Duration = Duration::from_secs(1);

/// Keeps the stream open until the session closes. Returns when the stream is open, is not offered, or does not begin
/// soon. Some SDKs send the server requests of calls on it, and those sent before it is open are lost.
pub(super) async fn begin(state: Arc<State>) {
    let (started, there) = oneshot::channel();
    let shutdown = state.server.shutdown.clone();
    shutdown.spawn_until_end(async move {
        tokio::select! {
            () = keep_open(&state, started) => {}
            _ = state.closing.wait() => {}
        }
    });
    // If the sender is dropped, there is no stream to wait for.
    let _ = timeout(BEGIN_LIMIT, there).await;
}

async fn keep_open(state: &State, first: oneshot::Sender<()>) {
    let mut first = Some(first);
    let mut pauses = ReopenPauses::new();
    let mut last_id: Option<Bytes> = None;
    let mut was_open = false;
    loop {
        let started = Instant::now();
        let mut requested = None;
        let opened = state.get(last_id.as_ref(), None).await;
        drop(first.take());
        match opened {
            Ok(Opened::Stream(mut stream)) => {
                // Changes while there was no stream were reported to no client, unless they are reported now.
                if was_open && last_id.is_none() {
                    state.events.report(Event::Missed);
                }
                was_open = true;
                // The reason of its end makes no difference.
                let _ = read(state, &mut stream).await;
                last_id = stream.last_id().or(last_id);
                requested = pause(stream.retry());
            }
            // It may only have forgotten the events. A server that does not offer the stream may send the same status.
            Ok(Opened::Refused(400 | 401)) if last_id.take().is_some() => continue,
            Ok(Opened::Refused(status)) if was_open && ends_session(state, status) => return,
            Ok(Opened::Refused(status)) if !was_open && (400..500).contains(&status) => return,
            Ok(Opened::Refused(_)) => last_id = None,
            Err(_) => {}
        }
        let own = pauses.after(started.elapsed());
        tokio::time::sleep(requested.unwrap_or(own)).await;
    }
}

/// Whether the session has ended, because the server refuses with `status` what it offered before.
fn ends_session(state: &State, status: u16) -> bool {
    let loss = Loss::of_status(status).or((status == 401).then_some(Loss::Unclear));
    loss.is_some_and(|loss| state.session.lose(loss))
}

async fn read(state: &State, stream: &mut EventStream) -> Result<(), Error> {
    while let Some(item) = state.floods.next(stream).await? {
        let ((relevance, messages), length) = match item {
            Item::Event(event) if !event.data.is_empty() && is_message(&event.name) => {
                (take(state, &event.data), event.data.len())
            }
            Item::Event(event) => ((Relevance::Junk, 1), event.data.len()),
            Item::TooLong(_) => ((Relevance::Junk, 1), state.server.client.limit),
        };
        state.floods.admit_batch(relevance, length, messages).await?;
    }
    Ok(())
}

fn take(state: &State, text: &Bytes) -> (Relevance, usize) {
    inbound::read(text, |message, _| take_message(state, message), Relevance::and)
}

fn take_message(state: &State, message: Result<Message, ParseError>) -> Relevance {
    match message {
        Ok(Message::Notification(notification)) if state.questions.is_withdrawn_by(&notification) => {
            Relevance::Wanted
        }
        Ok(Message::Notification(notification)) => {
            inbound::sort(notification, &state.events, |notification| state.pending.notify(notification))
        }
        // It belongs to no stream of a call. Only if all running calls have one owner, the receiver is known.
        Ok(Message::Request(request)) => {
            inbound::record(&request, &state.events);
            let pending = Arc::clone(&state.pending);
            state.questions.take(request, move |owner| pending.attribute(owner))
        }
        // Responses arrive on the streams of their calls.
        Ok(Message::Response(_)) => Relevance::Junk,
        Err(error) => {
            tracing::debug!(%error, "an event that is no message was skipped");
            Relevance::Junk
        }
    }
}

/// Handles messages on the stream of `initialize`, on which server requests are not allowed yet.
pub(super) struct BeforeSession<'a> {
    pub(super) events: &'a Events,
}

impl MessageHandler for BeforeSession<'_> {
    fn handle(&self, message: Message) -> Relevance {
        match message {
            Message::Notification(notification) => {
                inbound::sort(notification, self.events, |_| Relevance::Notice)
            }
            Message::Request(_) | Message::Response(_) => Relevance::Junk,
        }
    }
}

/// Handles the messages on the stream of a call.
///
/// Invariant: the stream determines the call of a message, so nothing is guessed.
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
