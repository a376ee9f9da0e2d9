//! The gateway over a pipe: one message a line, for clients that spawn a process.
//!
//! Both eras share the pipe: a request that describes itself is modern, everything else belongs to
//! the one legacy session that `initialize` opened. Invariants: nothing but messages is ever
//! written; what was asked before the end of input is answered before we end; a line longer than
//! the cap is answered with an error and does not end the conversation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::codec::FramedRead;

use super::error::Refusal;
use super::exchange::Exchange;
use super::headers::check_meta;
use super::sessions::Session;
use super::streamable_http::note;
use crate::auth::Principal;
use crate::gateway::subscriptions::Feed;
use crate::gateway::{Caller, Gateway};
use crate::manager::{Manager, Scope};
use crate::protocol::{Message, Notification, Request, RequestId, Response, meta, method};
use crate::shutdown::Shutdown;
use crate::wire::lines::{self, Line, Lines};

/// Messages that may wait for the client to read.
const OUTGOING: usize = 256;
/// Longer than any call: each has a deadline of its own.
const FOR_EVER: Duration = Duration::MAX;

/// One conversation over a pipe.
struct Conversation {
    gateway: Gateway,
    /// Requests under way; its end ends subscriptions, and is waited for at the end of input.
    requests: Shutdown,
    outgoing: mpsc::Sender<Bytes>,
    /// The books of requests of both eras: ids are unique on a pipe.
    books: Arc<Session>,
    /// The legacy client, once it said `initialize`.
    legacy: RwLock<Option<Arc<Caller>>>,
    /// Whether the legacy client is told of changes; once is enough.
    announcing: AtomicBool,
}

/// Serves the client at the other end of `input` and `output` until the input ends or `tasks` are
/// asked to end. Lines longer than `max_line` bytes are refused.
pub async fn serve<R, W>(manager: Arc<Manager>, input: R, output: W, tasks: &Shutdown, max_line: usize)
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outgoing, written) = mpsc::channel(OUTGOING);
    let (writer, requests) = (Shutdown::new(), Shutdown::new());
    writer.spawn(write(output, written));
    let conversation = Arc::new(Conversation {
        gateway: Gateway::new(manager, requests.clone()),
        requests: requests.clone(),
        outgoing,
        books: Session::alone(Caller::legacy(Principal::anonymous(), Scope::All, None)),
        legacy: RwLock::new(None),
        announcing: AtomicBool::new(false),
    });
    tokio::select! {
        () = read(&conversation, input, max_line) => {}
        () = tasks.requested() => {}
    }
    // Nobody will answer a question any more, and no call may wait for that.
    conversation.books.questions.close();
    drop(conversation);
    requests.begin();
    requests.wait(FOR_EVER).await;
    writer.wait(FOR_EVER).await;
}

async fn write<W: AsyncWrite + Unpin>(mut output: W, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        let mut result = output.write_all(&lines::encode(&message)).await;
        while let Ok(next) = messages.try_recv() {
            result = result.and(output.write_all(&lines::encode(&next)).await);
        }
        if result.and(output.flush().await).is_err() {
            return; // the client is gone; whoever still answers finds the channel closed
        }
    }
}

async fn read<R: AsyncRead + Unpin>(conversation: &Arc<Conversation>, input: R, max_line: usize) {
    let mut lines = FramedRead::new(input, Lines::new(max_line));
    while let Some(Ok(line)) = lines.next().await {
        match line {
            Line::Whole(line) => conversation.take(&line).await,
            Line::TooLong(_) => conversation.refuse(None, &Refusal::BodyTooLarge { limit: max_line }).await,
        }
    }
}

impl Conversation {
    async fn take(self: &Arc<Self>, line: &Bytes) {
        match Message::from_client(line) {
            Ok(Message::Request(request)) => {
                let id = request.id.clone();
                if let Err(refusal) = self.request(request) {
                    self.refuse(Some(id), &refusal).await;
                }
            }
            Ok(Message::Notification(notice)) => self.notification(&notice),
            Ok(Message::Response(response)) => self.books.questions.answer(response),
            Err(error) => self.refuse(Message::readable_id(line), &Refusal::from(error)).await,
        }
    }

    fn request(self: &Arc<Self>, request: Request) -> Result<(), Refusal> {
        let caller = self.caller(&request)?;
        let running = self.books.begin(&request.id)?;
        let cancel = running.cancel.clone();
        let mut exchange = Exchange::detached(&self.gateway, caller, request, running, &self.requests);
        let outgoing = self.outgoing.clone();
        self.requests.spawn(async move {
            while let Some(message) = exchange.next().await {
                if outgoing.send(message.encode()).await.is_err() {
                    cancel.cancel(); // the client is gone
                    return;
                }
            }
        });
        Ok(())
    }

    /// Whose request it is: its own description if it has one, else the session's client.
    fn caller(&self, request: &Request) -> Result<Arc<Caller>, Refusal> {
        let (principal, params) = (Principal::anonymous(), request.params.as_ref());
        if meta::claimed_version(params).is_some() {
            check_meta(request)?;
            return Ok(Arc::new(Caller::modern(principal, Scope::All, params)));
        }
        let mut legacy = self.legacy.write().unwrap_or_else(PoisonError::into_inner);
        if request.method == method::INITIALIZE {
            *legacy = Some(Arc::new(Caller::legacy(principal, Scope::All, params)));
        }
        match &*legacy {
            Some(caller) => Ok(caller.clone()),
            // Asking for life is allowed before the handshake (2025-11-25, `basic/lifecycle`).
            None if request.method == method::PING => Ok(self.books.caller.clone()),
            None => Err(Refusal::NoSession),
        }
    }

    fn notification(self: &Arc<Self>, notice: &Notification) {
        if notice.method == method::INITIALIZED {
            let caller = self.legacy.read().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(feed) = caller.and_then(|caller| self.gateway.feed(&caller))
                && !self.announcing.swap(true, Ordering::Relaxed)
            {
                self.requests.spawn_until_end(announce(feed, self.outgoing.clone()));
            }
        }
        note(&self.books, notice);
    }

    async fn refuse(&self, id: Option<RequestId>, refusal: &Refusal) {
        let response = Response { id, reply: Err(refusal.object()) };
        // A closed channel means that the client is gone.
        let _ = self.outgoing.send(response.encode()).await;
    }
}

/// Tells a legacy client what it asked to be told, for as long as the conversation lasts.
async fn announce(mut feed: Feed, outgoing: mpsc::Sender<Bytes>) {
    loop {
        let notice = feed.next().await;
        if outgoing.send(notice.encode()).await.is_err() {
            return;
        }
    }
}
