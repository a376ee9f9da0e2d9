//! A server that is a child process: one message per line on its input and output.
//!
//! Source: `basic/transports/stdio` of 2026-07-28, `basic/transports` of the revisions before.
//!
//! ```text
//! request ─> outbox ─> child ─> reader ─> pending ─> request
//!               │        │        │
//!               └──── reaper: watches, ends, reaps, reports ─────> closed
//! ```
//!
//! Invariants: reader and writer never wait for each other, so full pipes cannot cause a deadlock. The
//! process group of the child ends with the connection. A request that was cancelled before it was written is
//! never written. Not here: when a dead child is started again (the pool decides).

mod cgroup;
mod child;
mod environment;
mod link;
mod outbox;
pub mod parent_death;
mod reader;
mod reaper;
mod stderr;

pub use self::environment::CERTIFICATE_VARIABLES;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use tokio::sync::watch;

use self::link::StdioLink;
use self::stderr::StderrTail;
use super::compose_line;
use super::handshake::{self, Finding, PROBE_LIMIT};
use super::http::proxy_variable;
use super::pending::Purpose;
use crate::config::{Config, Stdio};
use crate::connection::{
    Call, Connection, Connector, Dialect, EventSender, Events, RequestFuture, ServerRequests, Starting,
};
use crate::dialect::Eras;
use crate::error::Error;
use crate::response_stream::ResponseBody;
use crate::secrets::Secrets;
use crate::session_affinity::Affinity;
use child::{StartLimits, StartReport};
use protocol::lifecycle::Peer;
use protocol::meta::Sender;
use protocol::{Abilities, Era, Notification, Reply, method};
use runtime::shutdown::Shutdown;

/// Finds the file to execute for the command of `config`, as a start would. The error says how to fix the command, and
/// does not contain it.
pub fn find_program(config: &Stdio) -> Result<PathBuf, String> {
    environment::program(config, &environment::of(config, std::env::vars_os()))
}

/// How long a second child of a modern server may leave `initialize` unanswered before it is pinged. This is
/// used if it is unknown whether the server speaks the legacy era.
const SECOND_LIMIT: Duration = Duration::from_secs(15);
/// How much later than another answer the answer to `initialize` may come.
const SECOND_GRACE: Duration = Duration::from_secs(1);
/// The handshake ends this long before the limit of the pool, which cannot quote standard error.
const REPORT_MARGIN: Duration = Duration::from_millis(100);

/// Starts the child of one server.
pub(super) struct ToChild(Arc<StdioServer>);

/// State that all connections share.
struct StdioServer {
    name: Arc<str>,
    /// The command as operators may see it.
    target: String,
    stdio: Stdio,
    /// Secrets that are redacted from the child's standard error.
    secrets: Secrets,
    message_bytes: usize,
    /// How long the start of a child may take. Tests with a paused clock have no limit.
    start_limits: Option<StartLimits>,
    /// The start that is under way.
    start: watch::Sender<Option<Starting>>,
    /// The lines of the child that was started last, and before it those of the last one that wrote any.
    last_lines: ArcSwap<[StderrTail; 2]>,
    shutdown: Shutdown,
    eras: Eras,
}

impl ToChild {
    pub(super) fn new(config: &Config, stdio: &Stdio, shutdown: &Shutdown) -> Self {
        Self(Arc::new(StdioServer {
            name: Arc::clone(&config.name),
            target: config.target.clone(),
            stdio: stdio.clone(),
            secrets: Secrets::of(config, None, None),
            message_bytes: config.limits.message_bytes,
            start_limits: Some(StartLimits {
                silence: config.lifecycle.start_timeout.saturating_sub(REPORT_MARGIN),
                whole: config.connect_limit().saturating_sub(REPORT_MARGIN),
            }),
            start: watch::Sender::default(),
            last_lines: ArcSwap::default(),
            shutdown: shutdown.clone(),
            eras: Eras::pinned(config.era),
        }))
    }
}

impl Connector for ToChild {
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let server = Arc::clone(&self.0);
        async move {
            let connected = server.connect(&events, dialect).await?;
            Ok(Arc::new(connected) as Arc<dyn Connection>)
        }
        .boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        self.0.eras.speaks(era)
    }

    fn is_a_process(&self) -> bool {
        true
    }

    /// One child of an era serves all clients that share.
    fn declares(&self, _abilities: Abilities) -> Abilities {
        Abilities::WITHOUT_ROOTS
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }

    fn starting(&self) -> Option<watch::Receiver<Option<Starting>>> {
        Some(self.0.start.subscribe())
    }

    fn stderr(&self) -> Option<Vec<String>> {
        let lines = self.0.last_lines.load();
        let written = lines.iter().find(|lines| !lines.is_empty());
        Some(written.map(|lines| lines.lines(&self.0.secrets)).unwrap_or_default())
    }
}

impl StdioServer {
    /// Connects. The error contains the end of the child's standard error, or else of its standard output.
    async fn connect(&self, events: &Events, dialect: Dialect) -> Result<ToServer, Error> {
        let tail = StderrTail::reporting(self.start.clone());
        self.last_lines.rcu(|lines| {
            let [last, before] = &**lines;
            let written = if last.is_empty() { before } else { last };
            [tail.clone(), written.clone()]
        });
        let starting = StartReport::begin(&self.start);
        let connecting = self.greet_child(events, dialect, &tail);
        let connected = match self.start_limits {
            Some(limits) => limits.applied(connecting, &tail).await,
            None => connecting.await,
        };
        drop(starting);
        let connected = connected.map_err(handshake::while_connecting);
        connected.map_err(|error| {
            error.reworded(|reason| {
                let reason = tail.append_to(&reason, &self.secrets);
                let advice = environment::proxy_advice(&self.stdio, &reason, proxy_variable());
                let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let trust = environment::certificate_advice(&self.stdio, &reason, is_set);
                format!("{reason}{advice}{trust}")
            })
        })
    }

    /// Probes with `server/discover`, unless the server is known to be legacy. It also skips the probe for a
    /// legacy client's own child, unless the legacy era is known to be refused.
    ///
    /// The era is recorded before `initialize` succeeds. So a server that is slow or dies on the probe is not
    /// probed again by the next attempt.
    async fn greet_child(
        &self,
        events: &Events,
        dialect: Dialect,
        tail: &StderrTail,
    ) -> Result<ToServer, Error> {
        let (client, sender) = (dialect.client.clone(), dialect.sender());
        let link = self.start(events, client.clone(), tail).await?;
        match (dialect.era, self.eras.speaks(Era::Modern), self.eras.speaks(Era::Legacy)) {
            (_, Some(false), _) => return self.initialize(link, sender).await,
            (Era::Legacy, Some(true), None | Some(true)) => {
                return self.initialize_too(link, sender).await;
            }
            _ if self.eras.pin() == Some(Era::Modern) => {
                let reply = link.ask(method::DISCOVER, None, Era::Modern).await?;
                return Ok(self.modern(handshake::only_modern(&reply)?, link));
            }
            _ => {}
        }
        let probed = Arc::clone(&link);
        let mut probe = pin!(async move { probed.ask(method::DISCOVER, None, Era::Modern).await });
        match tokio::time::timeout(PROBE_LIMIT, &mut probe).await {
            Ok(Ok(reply)) => match handshake::find(&reply) {
                Finding::Modern(peer) => Ok(self.modern(*peer, link)),
                Finding::Legacy => self.initialize(link, sender).await,
                Finding::Foreign(supported) => Err(handshake::foreign(&supported)),
            },
            // Some servers exit on an unknown request. A new child gets the legacy handshake.
            Ok(Err(Error::Lost { .. } | Error::NotSent { .. })) => {
                link.closing.wait().await;
                let link = self.start(events, client, tail).await?;
                self.initialize(link, sender).await
            }
            Ok(Err(error)) => Err(error),
            // The server may only be slow to start. Then its answer to the probe comes first, and a modern
            // server refuses the legacy handshake.
            Err(_silence) => tokio::select! {
                biased;
                Some(peer) = late(probe) => Ok(self.modern(peer, Arc::clone(&link))),
                server = self.initialize(Arc::clone(&link), sender) => server,
            },
        }
    }

    fn modern(&self, peer: Peer, link: Arc<StdioLink>) -> ToServer {
        self.eras.record(Era::Modern, true);
        ToServer { peer, link }
    }

    /// Starts a child, whose last lines on standard error go into `tail`.
    async fn start(
        &self,
        events: &Events,
        client: Option<Affinity>,
        tail: &StderrTail,
    ) -> Result<Arc<StdioLink>, Error> {
        tail.clear();
        let cannot = |reason| Error::Connect { reason: format!("cannot start {}: {reason}", self.target) };
        let child = child::start(&self.stdio).await.map_err(cannot)?;
        let link = StdioLink::new(child, self, events, tail);
        match client {
            Some(client) => link.open_own_session(client),
            None => link.be_shared(events),
        }
        Ok(link)
    }

    /// The handshake with a legacy server.
    async fn initialize(&self, link: Arc<StdioLink>, sender: Sender) -> Result<ToServer, Error> {
        self.eras.record(Era::Modern, false);
        let server = self.greet(link, sender).await;
        match &server {
            Ok(_) => self.eras.record(Era::Legacy, true),
            Err(HandshakeFailure::Refused(_)) => self.eras.forget(),
            Err(HandshakeFailure::Other(_)) => {}
        }
        server.map_err(|failure| handshake::of_pinned(failure.into_error(), self.eras.pin()))
    }

    /// The legacy handshake with a modern server that may speak both eras. The outcome is recorded for the
    /// next connect. A modern server may also exit on this handshake, or stay silent.
    async fn initialize_too(&self, link: Arc<StdioLink>, sender: Sender) -> Result<ToServer, Error> {
        let is_known = self.eras.speaks(Era::Legacy) == Some(true);
        let passes_over = passes_over_initialize(Arc::clone(&link));
        let server = tokio::select! {
            biased;
            server = self.greet(link, sender) => server,
            () = passes_over => Err(HandshakeFailure::Other(handshake::refused("no answer to initialize"))),
        };
        if server.is_ok() || !is_known {
            self.eras.record(Era::Legacy, server.is_ok());
        }
        server.map_err(HandshakeFailure::into_error)
    }

    async fn greet(&self, link: Arc<StdioLink>, sender: Sender) -> Result<ToServer, HandshakeFailure> {
        let initialize = |params| link.ask(method::INITIALIZE, Some(params), Era::Legacy);
        let reply = handshake::negotiate(&sender, initialize).await?;
        let peer = handshake::initialized(reply).map_err(HandshakeFailure::Refused)?;
        link.expect_refusal();
        link.notify(&Notification { method: method::INITIALIZED.into(), params: None }).await?;
        Ok(ToServer { peer, link })
    }
}

/// Returns the late answer to a probe, if it comes from a modern server.
async fn late(probe: impl Future<Output = Result<Reply, Error>>) -> Option<Peer> {
    match handshake::find(&probe.await.ok()?) {
        Finding::Modern(peer) => Some(*peer),
        Finding::Legacy | Finding::Foreign(_) => None,
    }
}

/// Resolves when a server answers a request that was sent after `initialize`, but not `initialize` itself. A
/// server that is slow to start answers neither.
async fn passes_over_initialize(link: Arc<StdioLink>) {
    tokio::time::sleep(SECOND_LIMIT).await;
    if link.ask(method::PING, None, Era::Legacy).await.is_err() {
        // The child ended, and `initialize` fails too.
        return std::future::pending().await;
    }
    tokio::time::sleep(SECOND_GRACE).await;
}

/// Why the legacy handshake failed.
enum HandshakeFailure {
    /// The server refused it.
    Refused(Error),
    /// The handshake failed for another reason.
    Other(Error),
}

impl From<Error> for HandshakeFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl HandshakeFailure {
    fn into_error(self) -> Error {
        let (Self::Refused(error) | Self::Other(error)) = self;
        error
    }
}

/// A live connection to a child.
struct ToServer {
    peer: Peer,
    link: Arc<StdioLink>,
}

impl Connection for ToServer {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, event_sender: &'a EventSender) -> RequestFuture<'a> {
        let exchange =
            self.link.exchange(event_sender, Purpose::of(call), |id| compose_line(call, id, self.peer.era()));
        exchange.map_ok(ResponseBody::Buffered).boxed()
    }

    fn notify<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        // If delivery fails, the connection is about to end.
        async move { drop(self.link.notify(notification).await) }.boxed()
    }

    fn server_requests(&self) -> Option<&dyn ServerRequests> {
        Some(&self.link.questions)
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.link.exit_reason.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.link.end().boxed()
    }
}

#[cfg(test)]
mod tests;
