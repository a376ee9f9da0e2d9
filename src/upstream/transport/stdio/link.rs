//! The pipes of one child: requests go in, answers come out, and four tasks do it.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::child::Child;
use super::keeper::Keeper;
use super::reader::Reader;
use super::stderr::{self, LastWords};
use crate::protocol::{Era, Notification, Raw, Reply, Request};
use crate::upstream::connection::{Call, Events, Outlet};
use crate::upstream::error::Error;
use crate::upstream::transport::closing::Closing;
use crate::upstream::transport::pending::{Pending, Purpose};
use crate::upstream::transport::questions::Questions;
use crate::upstream::transport::{cancelled, compose};
use crate::wire::lines;

/// Messages that may wait for the child to read; more callers wait for room.
const QUEUE: usize = 64;

/// A message on its way to the child.
pub(super) enum Outgoing {
    /// A request that is written only if somebody still waits for its answer.
    Request { id: u64, line: Bytes },
    /// Anything else.
    Other(Bytes),
}

/// The connection's end of the pipes. Dropping it ends the child.
pub(super) struct Link {
    channel: Channel,
    /// Set when the connection is of no more use.
    pub(super) closing: Closing,
    /// The same for operators: its reason may quote what the child wrote last.
    pub(super) obituary: Closing,
    /// Asks the keeper to end the child.
    end: CancellationToken,
    /// Set when the child is reaped and nothing of it is left.
    gone: CancellationToken,
}

/// The way for requests.
#[derive(Clone)]
struct Channel {
    pending: Arc<Pending>,
    queue: mpsc::Sender<Outgoing>,
}

/// What the tasks of one child tell each other.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// One of the pipes is of no more use, with the reason.
    pub(super) broken: Closing,
    /// The writer is to close the child's input.
    pub(super) stop_writing: CancellationToken,
    /// The readers are to stop, whatever still holds the pipes.
    pub(super) stop_reading: CancellationToken,
    /// All of the child's output was handed over.
    pub(super) read: CancellationToken,
    /// All of its standard error was read.
    pub(super) heard: CancellationToken,
}

impl Link {
    pub(super) fn new(child: Child, server: &Server, events: &Events) -> Arc<Self> {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let canceller = queue.clone();
        // A full queue means a child that does not read; it will not read this either.
        let cancel = move |id| drop(canceller.try_send(Outgoing::Other(line(&cancelled(id)))));
        let pending = Pending::new(0, cancel);
        let link = Self {
            channel: Channel { pending, queue },
            closing: Closing::default(),
            obituary: Closing::default(),
            end: CancellationToken::new(),
            gone: CancellationToken::new(),
        };
        link.spawn_tasks(child, outgoing, server, events);
        Arc::new(link)
    }

    fn spawn_tasks(
        &self,
        child: Child,
        outgoing: mpsc::Receiver<Outgoing>,
        server: &Server,
        events: &Events,
    ) {
        let (signals, last, shutdown) = (Signals::default(), LastWords::default(), &server.shutdown);
        let Channel { pending, queue } = self.channel.clone();
        let secrets = stderr::secrets_of(&server.stdio);
        let drain = stderr::drain(child.stderr, Arc::clone(&server.name), secrets, last.clone());
        let Signals { stop_reading, heard, .. } = signals.clone();
        shutdown.spawn(async move {
            stop_reading.run_until_cancelled(drain).await;
            heard.cancel();
        });
        shutdown.spawn(write(child.stdin, outgoing, Arc::clone(&pending), signals.clone()));
        let name = Arc::clone(&server.name);
        let questions = Questions::new(shutdown, move |answer| deliver(queue.clone(), answer).boxed());
        let reader = Reader::new(name, server.message_bytes, Arc::clone(&pending), questions, events.clone());
        shutdown.spawn(reader.run(child.stdout, signals.clone()));
        let (closing, obituary) = (self.closing.clone(), self.obituary.clone());
        let (process, end, gone) = (child.process, self.end.clone(), self.gone.clone());
        let keeper = Keeper { process, signals, last, pending, closing, obituary, end, gone };
        shutdown.spawn(keeper.run(shutdown.clone()));
    }

    /// Sends the request that `compose` makes of its id, and waits for the answer.
    pub(super) async fn exchange(
        &self,
        outlet: &Outlet,
        purpose: Purpose,
        compose: impl FnOnce(u64) -> Request,
    ) -> Result<Reply, Error> {
        if self.closing.is_closed() {
            return Err(Error::NotSent { reason: self.closing.reason() });
        }
        self.channel.exchange(outlet, purpose, compose).await
    }

    /// A request that is part of connecting.
    pub(super) async fn ask(&self, method: &str, params: Option<Raw>, era: Era) -> Result<Reply, Error> {
        let call = Call::of_gateway(method, params);
        self.exchange(&Outlet::none(), Purpose::Handshake, |id| compose(&call, id, era)).await
    }

    /// The child is one client's.
    pub(super) fn be_private(&self) {
        self.channel.pending.be_private();
    }

    /// Whether the child was seen asking.
    pub(super) fn asks(&self) -> bool {
        self.channel.pending.asks()
    }

    /// Sends a notification.
    pub(super) async fn tell(&self, notification: &Notification) -> Result<(), Error> {
        let sent = self.channel.queue.send(Outgoing::Other(line(notification))).await;
        sent.map_err(|_| Error::NotSent { reason: self.closing.reason() })
    }

    /// Ends the child; returns when nothing of it is left.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.gone.cancelled().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Channel {
    async fn exchange(
        &self,
        outlet: &Outlet,
        purpose: Purpose,
        compose: impl FnOnce(u64) -> Request,
    ) -> Result<Reply, Error> {
        let mut ticket = self.pending.open(outlet, purpose)?;
        let request = compose(ticket.id());
        let line = lines::encode(&request.encode());
        // When there is no writer any more, the ticket is about to learn why.
        drop(self.queue.send(Outgoing::Request { id: ticket.id(), line }).await);
        ticket.answer().await
    }
}

fn line(notification: &Notification) -> Bytes {
    lines::encode(&notification.encode())
}

/// Brings the answer to a question to the child, which may be slow to read; when there is no writer
/// any more, nobody waits for it either.
async fn deliver(queue: mpsc::Sender<Outgoing>, answer: Bytes) {
    drop(queue.send(Outgoing::Other(lines::encode(&answer))).await);
}

/// Writes what is queued until it is told to stop; dropping the pipe closes the child's input.
async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Outgoing>,
    pending: Arc<Pending>,
    signals: Signals,
) {
    let work = async {
        while let Some(outgoing) = queue.recv().await {
            let line = match outgoing {
                Outgoing::Request { id, line } if pending.begin_writing(id) => line,
                Outgoing::Request { .. } => continue,
                Outgoing::Other(line) => line,
            };
            if let Err(error) = stdin.write_all(&line).await {
                signals.broken.close(format!("the process closed its input: {error}"));
                return;
            }
        }
    };
    signals.stop_writing.run_until_cancelled(work).await;
}
