//! The GET stream of a session: what the server says that belongs to no call, or that it did not
//! tie to one.
//!
//! Servers need not offer it. Where they do it is kept open, from where it left off.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::answer::Hear;
use super::is_message;
use super::legacy::{Opened, SESSION_ENDED, State, pause};
use crate::connection::{Event, Events};
use crate::error::Error;
use crate::listen::Pauses;
use crate::transport::body::EventStream;
use crate::transport::flood_guard::Worth;
use crate::transport::inbound;
use net::sse::Item;
use protocol::Message;

/// How long a server may take to begin the stream before calls are made without it.
const BEGIN_LIMIT: Duration = Duration::from_secs(1);

/// Keeps the stream open until the session closes. Returns when it is there, is not offered, or does
/// not come soon: some SDKs ask here what belongs to a call, and what is asked before is lost.
pub(super) async fn begin(state: Arc<State>) {
    let (begun, there) = oneshot::channel();
    let shutdown = state.server.shutdown.clone();
    shutdown.spawn_until_end(async move {
        tokio::select! {
            () = keep_open(&state, begun) => {}
            _ = state.closing.wait() => {}
        }
    });
    // Dropped unsent is as good: then there is no stream to wait for.
    let _ = timeout(BEGIN_LIMIT, there).await;
}

async fn keep_open(state: &State, first: oneshot::Sender<()>) {
    let mut first = Some(first);
    let mut pauses = Pauses::new();
    let mut last_id: Option<Bytes> = None;
    let mut was_open = false;
    loop {
        let begun = Instant::now();
        let mut asked = None;
        let opened = state.get(last_id.as_ref()).await;
        drop(first.take());
        match opened {
            Ok(Opened::Stream(mut stream)) => {
                // What changed while there was no stream was told to nobody, unless it is told now.
                if was_open && last_id.is_none() {
                    state.events.report(Event::Missed);
                }
                was_open = true;
                // How it ended makes no difference.
                let _ = read(state, &mut stream).await;
                last_id = stream.last_id().or(last_id);
                asked = pause(stream.retry());
            }
            // A server that does not offer the stream may say that with the same status.
            Ok(Opened::Refused(404)) if was_open && state.has_session() => {
                state.lose(SESSION_ENDED);
                return;
            }
            Ok(Opened::Refused(status)) if !was_open && (400..500).contains(&status) => return,
            Ok(Opened::Refused(_)) => last_id = None,
            Err(_) => {}
        }
        let own = pauses.after(begun.elapsed());
        tokio::time::sleep(asked.unwrap_or(own)).await;
    }
}

async fn read(state: &State, stream: &mut EventStream) -> Result<(), Error> {
    while let Some(item) = stream.next(&state.floods).await? {
        let (worth, length) = match item {
            Item::Event(event) if !event.data.is_empty() && is_message(&event.name) => {
                (take(state, &event.data), event.data.len())
            }
            Item::Event(event) => (Worth::Junk, event.data.len()),
            Item::TooLong(_) => (Worth::Junk, state.server.client.limit),
        };
        state.floods.admit(worth, length).await?;
    }
    Ok(())
}

fn take(state: &State, message: &Bytes) -> Worth {
    match Message::from_server(message) {
        Ok(Message::Notification(said)) if state.questions.is_withdrawn_by(&said) => Worth::Wanted,
        Ok(Message::Notification(said)) => {
            inbound::sort(said, &state.events, |said| state.pending.notify(said))
        }
        // It belongs to no stream of a call; with one owner's calls alone in flight it is clear.
        Ok(Message::Request(request)) => {
            inbound::note(&request, &state.events);
            let pending = Arc::clone(&state.pending);
            state.questions.take(request, move |owner| pending.whose(owner))
        }
        // Answers come on the streams of their calls.
        Ok(Message::Response(_)) => Worth::Junk,
        Err(error) => {
            tracing::debug!(%error, "an event that is no message was skipped");
            Worth::Junk
        }
    }
}

/// Takes what the server says on the stream of `initialize`, where it can not ask anything yet.
pub(super) struct BeforeSession<'a> {
    pub(super) events: &'a Events,
}

impl Hear for BeforeSession<'_> {
    fn hear(&self, message: Message) -> Worth {
        match message {
            Message::Notification(said) => inbound::sort(said, self.events, |_| Worth::Notice),
            Message::Request(_) | Message::Response(_) => Worth::Junk,
        }
    }
}
