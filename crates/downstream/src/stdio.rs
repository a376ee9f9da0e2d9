//! MCP over a pipe: one message per line, for clients that spawn a process.
//!
//! Both eras share the pipe: a request that describes itself is modern, and all others belong to
//! the one legacy session that `initialize` opens. Invariants: only messages are written. Requests
//! before the end of input are answered before the pipe is closed. A line over the limit is
//! answered with an error and does not end the conversation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::codec::FramedRead;

use super::conversation::Conversation;
use super::error::MessageRefusal;
use super::sessions::Session;
use auth::{Principal, Sealer};
use gateway::manager::{Manager, Scope};
use gateway::{Caller, Gateway, LoginPages};
use json::raw;
use net::lines::{self, Line, Lines};
use protocol::Message;
use runtime::shutdown::Shutdown;
use runtime::telemetry::limit::Limit;
use runtime::worker::WorkBudget;

/// Limit of messages that wait for the client to read.
const OUTGOING: usize = 256;
/// Longer than any call: each call has its own deadline.
const FOR_EVER: Duration = Duration::MAX;

/// Serves the client at the other end of `input` and `output`, which sees the servers in `scope`, until the input ends or
/// shutdown begins. Lines longer than `max_line` bytes are refused. People log in to servers at `pages`, if there are any.
pub async fn serve<R, W>(
    (manager, pages): (Arc<Manager>, Option<LoginPages>),
    scope: Scope,
    (input, output): (R, W),
    tasks: &Shutdown,
    max_line: usize,
) where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outgoing, written) = mpsc::channel(OUTGOING);
    let (writer, requests) = (Shutdown::new(), Shutdown::new());
    writer.spawn(write(output, written));
    let sealer = Arc::new(Sealer::random());
    let gateway = Gateway::sealed_by(sealer, manager, requests.clone(), pages);
    let session = Session::alone(Caller::legacy(Principal::anonymous(), scope, None));
    let conversation = Conversation::new(gateway, session, outgoing, requests.clone(), (true, lines::encode));
    tokio::select! {
        () = read(&conversation, input, max_line) => {}
        () = tasks.requested() => {}
    }
    // The client can no longer answer server requests, and no call may wait for an answer.
    conversation.session().questions.close();
    drop(conversation);
    requests.begin();
    requests.wait(FOR_EVER).await;
    writer.wait(FOR_EVER).await;
}

async fn write<W: AsyncWrite + Unpin>(mut output: W, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        let mut result = output.write_all(&message).await;
        while let Ok(next) = messages.try_recv() {
            result = result.and(output.write_all(&next).await);
        }
        if result.and(output.flush().await).is_err() {
            return; // the client has disconnected; later answers find the channel closed
        }
    }
}

/// Handles one line. Programs of Windows heritage begin their output with a byte order mark, some on a line of its own.
async fn take_line(conversation: &Arc<Conversation>, line: Bytes) {
    if raw::without_byte_order_mark(&line).is_some_and(|rest| rest.trim_ascii().is_empty()) {
        return;
    }
    match Message::from_client(&line) {
        Ok(message) => conversation.take(message, None, None).await,
        Err(error) => conversation.refuse(Message::readable_id(&line), &MessageRefusal::from(error)).await,
    }
}

async fn read<R: AsyncRead + Unpin>(conversation: &Arc<Conversation>, input: R, max_line: usize) {
    let (mut lines, mut work) = (FramedRead::new(input, Lines::new(max_line)), WorkBudget::new());
    while let Some(Ok(line)) = lines.next().await {
        work.charge(line.length());
        work.yield_if_spent().await;
        match line {
            Line::Whole(line) => take_line(conversation, line).await,
            Line::TooLong(_) => {
                let refusal = Limit::Body.met(MessageRefusal::body_too_large(max_line));
                conversation.refuse(None, &refusal).await;
            }
        }
    }
}
