//! The pipes of one child, and the four tasks that send requests and receive responses.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::net::unix::pipe;
use tokio::process::ChildStderr;
use tokio_util::sync::CancellationToken;

use super::StdioServer;
use super::child::{Child, Process};
use super::outbox::{Outbox, Outgoing, WriterWaker};
use super::reader::{OutputEnd, ResponseRouter, Signals, StdioReader};
use super::stderr::{self, StderrTail};
use crate::connection::{Call, Closing, EventSender, Events};
use crate::error::Error;
use crate::session_affinity::Affinity;
use crate::transport::pending::{Pending, Purpose};
use crate::transport::questions::Questions;
use crate::transport::stdio::reaper::Reaper;
use crate::transport::{cancelled, compose_line};
use json::Raw;
use net::lines;
use protocol::{Era, Notification, Reply};
use runtime::memory::{self, Account, ChargeKind};
use runtime::shutdown::Shutdown;
use runtime::worker::Runtimes;

/// The connection's end of the pipes. Dropping it ends the child.
pub(super) struct StdioLink {
    channel: Channel,
    pub(super) questions: Questions,
    /// Closed when the connection is broken.
    pub(super) closing: Closing,
    /// Closed too, with a reason for operators that may quote the child's last output.
    pub(super) exit_reason: Closing,
    /// Requests the end of the child from the reaper.
    end: CancellationToken,
    /// Set when the child is reaped and none of its processes is left.
    gone: CancellationToken,
}

/// The sending side for requests.
#[derive(Clone)]
struct Channel {
    pending: Arc<Pending>,
    outbox: Arc<Outbox>,
    /// Closed when a pipe breaks.
    broken: Closing,
    /// Ends the writers.
    stop: CancellationToken,
    /// The runtimes of the callers.
    runtimes: Arc<Runtimes>,
    tasks: Shutdown,
}

impl StdioLink {
    pub(super) fn new(child: Child, server: &StdioServer, events: &Events, tail: &StderrTail) -> Arc<Self> {
        let (outbox, due) = Outbox::new(child.stdin);
        let outbox = Arc::new(outbox);
        let canceller = Arc::clone(&outbox);
        // A full queue means that the child does not read. It will not read this either.
        let pending = Pending::new(0, move |id| canceller.offer(line(&cancelled(id))));
        let signals = Signals::default();
        let (broken, stop) = (signals.broken.clone(), signals.stop_writing.clone());
        let (runtimes, tasks) = (Arc::default(), server.shutdown.clone());
        let channel = Channel { pending, outbox, broken, stop, runtimes, tasks };
        server.shutdown.spawn(write(channel.clone(), due));
        let (answering, payer) = (channel.clone(), Account::Server(Arc::clone(&server.name)));
        let answers = move |answer| deliver(answering.clone(), answer, payer.clone()).boxed();
        let questions = Questions::new(&server.name, &server.shutdown, answers);
        let link = Self {
            channel,
            questions,
            closing: Closing::default(),
            exit_reason: Closing::default(),
            end: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        let pipes = (child.process, child.stdout, child.stderr, tail.clone());
        link.spawn_tasks(pipes, signals, server, events);
        Arc::new(link)
    }

    fn spawn_tasks(
        &self,
        (process, stdout, stderr, tail): (Process, pipe::Receiver, ChildStderr, StderrTail),
        signals: Signals,
        server: &StdioServer,
        events: &Events,
    ) {
        let (channel, shutdown) = (self.channel.clone(), &server.shutdown);
        let pending = Arc::clone(&channel.pending);
        let drain = stderr::drain(stderr, Arc::clone(&server.name), server.secrets.clone(), tail.clone());
        let Signals { stop_reading, heard, .. } = signals.clone();
        shutdown.spawn(async move {
            stop_reading.run_until_cancelled(drain).await;
            heard.cancel();
        });
        let (name, runtimes) = (Arc::clone(&server.name), Arc::clone(&channel.runtimes));
        let router = ResponseRouter { pending: Arc::clone(&pending), runtimes, tasks: shutdown.clone() };
        let ends = (self.questions.clone(), events.clone());
        let reader =
            StdioReader::new(name, server.message_bytes, router, ends, &signals.broken, tail.clone());
        shutdown.spawn(reader.run(stdout, OutputEnd::new(signals.clone())));
        let (closing, exit_reason) = (self.closing.clone(), self.exit_reason.clone());
        let (end, gone) = (self.end.clone(), self.gone.clone());
        let secrets = server.secrets.clone();
        let owner = Reaper { process, signals, tail, secrets, pending, closing, exit_reason, end, gone };
        shutdown.spawn(owner.run(shutdown.clone()));
    }

    /// Sends the request that `compose` makes with its id, and waits for the response.
    pub(super) async fn exchange(
        &self,
        event_sender: &EventSender,
        purpose: Purpose,
        compose: impl FnOnce(u64) -> Result<Bytes, Error>,
    ) -> Result<Reply, Error> {
        if self.closing.is_closed() {
            return Err(Error::NotSent { reason: self.closing.reason() });
        }
        self.channel.exchange(event_sender, purpose, compose).await
    }

    /// Sends a request that is part of connecting.
    pub(super) async fn ask(&self, method: &str, params: Option<Raw>, era: Era) -> Result<Reply, Error> {
        let call = Call::of_gateway(method, params);
        self.exchange(&EventSender::none(), Purpose::Handshake, |id| compose_line(&call, id, era)).await
    }

    /// Marks the child as private to `client`.
    pub(super) fn open_own_session(&self, client: Affinity) {
        self.channel.pending.open_own_session(client);
    }

    /// Marks the child as shared by clients.
    pub(super) fn be_shared(&self, events: &Events) {
        self.channel.pending.be_shared(events.signs());
    }

    /// Declares that `notifications/initialized` is about to be sent, which the server may refuse.
    pub(super) fn expect_refusal(&self) {
        self.channel.pending.expect_refusal();
    }

    /// Sends a notification.
    pub(super) async fn notify(&self, notification: &Notification) -> Result<(), Error> {
        let sent = self.channel.send(Outgoing::Other(line(notification)), true).await;
        if sent { Ok(()) } else { Err(Error::NotSent { reason: self.closing.reason() }) }
    }

    /// Ends the child. Returns when none of its processes is left.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.gone.cancelled().await;
    }
}

impl Drop for StdioLink {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Channel {
    async fn exchange(
        &self,
        event_sender: &EventSender,
        purpose: Purpose,
        compose: impl FnOnce(u64) -> Result<Bytes, Error>,
    ) -> Result<Reply, Error> {
        let mut ticket = self.pending.open(event_sender, purpose)?;
        self.runtimes.note_here();
        let line = compose(ticket.id())?;
        // If nothing can be written any more, the ticket gets the reason.
        self.send(Outgoing::Request { id: ticket.id(), line }, ticket.is_alone()).await;
        ticket.answer().await
    }

    /// Sends a message to the child, which may be slow to read. Returns false if its input is closed.
    async fn send(&self, outgoing: Outgoing, is_alone: bool) -> bool {
        match self.outbox.send(&self.pending, outgoing, is_alone).await {
            Ok(None) => true,
            Ok(Some(due)) => {
                self.tasks.spawn(self.clone().write_when(due));
                true
            }
            Err(error) => {
                self.lost(&error);
                false
            }
        }
    }

    /// Runs the writer of another worker.
    async fn write_when(self, due: WriterWaker) {
        let work = self.outbox.write_when(&self.pending, &due);
        if let Some(error) = self.stop.run_until_cancelled(work).await {
            self.lost(&error);
        }
    }

    fn lost(&self, error: &io::Error) {
        self.broken.close(format!("the process closed its input: {error}"));
    }
}

fn line(notification: &Notification) -> Bytes {
    lines::encode(notification.encode())
}

/// Sends the response to a server request. If the child's input is closed, nothing waits for it.
async fn deliver(channel: Channel, answer: Bytes, payer: Account) {
    let line = lines::encode(answer);
    // The response was charged until now. If there is no memory for it now, it is sent uncharged.
    let line = memory::hold(line.clone(), || payer, ChargeKind::Request).unwrap_or(line);
    channel.send(Outgoing::Other(line), true).await;
}

/// Runs the first writer until it must stop, then closes the child's input.
async fn write(channel: Channel, due: WriterWaker) {
    let work = channel.outbox.write(&channel.pending, &due);
    if let Some(error) = channel.stop.run_until_cancelled(work).await {
        channel.lost(&error);
    }
    channel.outbox.close();
}
