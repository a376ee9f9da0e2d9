//! A server that is a child process: one message per line on its input and output.
//!
//! Source: `basic/transports/stdio` of 2026-07-28, `basic/transports` of the revisions before.
//!
//! ```text
//! request ─> outbox ─> child ─> reader ─> pending ─> request
//!               │        │        │
//!               └──── keeper: watches, ends, reaps, says why ────> closed
//! ```
//!
//! Invariants: reader and writer never wait for each other, so full pipes can not lock us; the
//! child's group is gone when the connection is; a request that was given up before it was written
//! is never written. Not here: when a child that died is started again (the pool decides).

mod cgroup;
mod child;
mod environment;
mod link;
mod outbox;
pub mod parent_death;
mod reader;
mod reaper;
mod stderr;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};

use self::link::Link;
use self::stderr::StderrTail;
use super::compose_line;
use super::handshake::{self, Finding, PROBE_LIMIT};
use super::http::proxy_variable;
use super::pending::Purpose;
use crate::config::{Config, Stdio};
use crate::connection::{
    Call, Connection, Connector, Dialect, Events, Outlet, Owner, RequestFuture, Unanswered,
};
use crate::dialect::Eras;
use crate::error::Error;
use crate::response_stream::ResponseBody;
use crate::secrets::Secrets;
use crate::session_affinity::Home;
use json::Raw;
use protocol::lifecycle::Peer;
use protocol::{Abilities, Era, Notification, Reply, method};
use runtime::shutdown::Shutdown;

/// After how long it is asked for a sign of life, a second child of which it is not known whether it speaks the old era.
const SECOND_LIMIT: Duration = Duration::from_secs(15);
/// How much later than another answer its answer to `initialize` may come.
const SECOND_GRACE: Duration = Duration::from_secs(1);
/// The handshake ends this long before the limit of the pool, which cannot quote standard error.
const REPORT_MARGIN: Duration = Duration::from_millis(100);

/// Starts the child of one server.
pub(super) struct ToChild(Arc<Server>);

/// What is the same for every connection.
struct Server {
    name: Arc<str>,
    /// The command as operators may see it.
    target: String,
    stdio: Stdio,
    /// What is blanked in what it writes to its standard error.
    secrets: Secrets,
    message_bytes: usize,
    /// How long a child has for its handshake; none in tests whose clock is paused while children work.
    handshake_limit: Option<Duration>,
    shutdown: Shutdown,
    eras: Eras,
}

impl ToChild {
    pub(super) fn new(config: &Config, stdio: &Stdio, shutdown: &Shutdown) -> Self {
        Self(Arc::new(Server {
            name: Arc::clone(&config.name),
            target: config.target.clone(),
            stdio: stdio.clone(),
            secrets: Secrets::of(config, None),
            message_bytes: config.limits.message_bytes,
            handshake_limit: Some(config.connect_limit().saturating_sub(REPORT_MARGIN)),
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

    /// One child is for everybody, in the newest era that it speaks.
    fn is_one_for_both_eras(&self) -> bool {
        true
    }

    /// One child is for everybody.
    fn declares(&self, _abilities: Abilities) -> Abilities {
        Abilities::WITHOUT_ROOTS
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

impl Server {
    /// Connects, or says why not with the end of the child's standard error.
    async fn connect(&self, events: &Events, dialect: Dialect) -> Result<ToServer, Error> {
        let tail = StderrTail::default();
        let connecting = self.greet_child(events, dialect, &tail);
        let connected = match self.handshake_limit {
            Some(limit) => {
                let silent =
                    |_| handshake::refused(&format!("no handshake within {:.0} s", limit.as_secs_f64()));
                tokio::time::timeout(limit, connecting).await.map_err(silent).flatten()
            }
            None => connecting.await,
        };
        let connected = connected.map_err(handshake::while_connecting);
        connected.map_err(|error| {
            error.reworded(|reason| {
                let reason = tail.append_to(&reason, &self.secrets);
                let advice = environment::proxy_advice(&self.stdio, &reason, proxy_variable());
                format!("{reason}{advice}")
            })
        })
    }

    /// Probes with `server/discover`, unless the era is known to be the old one, or the old one is
    /// wanted for one client's own child and not known to be refused.
    ///
    /// The era is noted before `initialize` succeeds, so that a server which is slow or dies on the
    /// probe is not probed again by the next attempt.
    async fn greet_child(
        &self,
        events: &Events,
        dialect: Dialect,
        tail: &StderrTail,
    ) -> Result<ToServer, Error> {
        let client = dialect.client;
        let link = self.start(events, client.clone(), tail).await?;
        match (dialect.era, self.eras.speaks(Era::Modern), self.eras.speaks(Era::Legacy)) {
            (_, Some(false), _) => return self.initialize(link, dialect.capabilities).await,
            (Era::Legacy, Some(true), None | Some(true)) => {
                return self.initialize_too(link, dialect.capabilities).await;
            }
            _ if self.eras.pin() == Some(Era::Modern) => {
                let reply = link.ask(method::DISCOVER, None, Era::Modern).await?;
                return Ok(self.modern(handshake::only_modern(&reply)?, link));
            }
            _ => {}
        }
        let asked = Arc::clone(&link);
        let mut probe = pin!(async move { asked.ask(method::DISCOVER, None, Era::Modern).await });
        match tokio::time::timeout(PROBE_LIMIT, &mut probe).await {
            Ok(Ok(reply)) => match handshake::find(&reply) {
                Finding::Modern(peer) => Ok(self.modern(*peer, link)),
                Finding::Legacy => self.initialize(link, dialect.capabilities).await,
                Finding::Foreign(supported) => Err(handshake::foreign(&supported)),
            },
            // It ended on a request it does not know, as some do: a new one is greeted in the old way.
            Ok(Err(Error::Lost { .. } | Error::NotSent { .. })) => {
                link.closing.wait().await;
                let link = self.start(events, client, tail).await?;
                self.initialize(link, dialect.capabilities).await
            }
            Ok(Err(error)) => Err(error),
            // Perhaps it is only slow to start: then its answer to the probe comes first, and the old
            // handshake is refused by a server that has begun to speak modern.
            Err(_silence) => tokio::select! {
                biased;
                Some(peer) = late(probe) => Ok(self.modern(peer, Arc::clone(&link))),
                server = self.initialize(Arc::clone(&link), dialect.capabilities) => server,
            },
        }
    }

    fn modern(&self, peer: Peer, link: Arc<Link>) -> ToServer {
        self.eras.note(Era::Modern, true);
        ToServer { peer, link }
    }

    /// Starts a child whose last lines on standard error go into `tail`.
    async fn start(
        &self,
        events: &Events,
        client: Option<Home>,
        tail: &StderrTail,
    ) -> Result<Arc<Link>, Error> {
        tail.clear();
        let cannot = |reason| Error::Connect { reason: format!("cannot start {}: {reason}", self.target) };
        let child = child::start(&self.stdio).await.map_err(cannot)?;
        let link = Link::new(child, self, events, tail);
        if let Some(client) = client {
            link.be_private(client);
        }
        Ok(link)
    }

    /// The handshake with a server that is not modern.
    async fn initialize(&self, link: Arc<Link>, capabilities: Raw) -> Result<ToServer, Error> {
        self.eras.note(Era::Modern, false);
        let server = self.greet(link, capabilities).await;
        match &server {
            Ok(_) => self.eras.note(Era::Legacy, true),
            Err(Failure::Refused(_)) => self.eras.forget(),
            Err(Failure::Other(_)) => {}
        }
        server.map_err(|failure| handshake::of_pinned(failure.into_error(), self.eras.pin()))
    }

    /// The handshake with a modern server that may speak the old era too. If it does not, the next
    /// connect knows; a modern one may as well end on it, or say nothing.
    async fn initialize_too(&self, link: Arc<Link>, capabilities: Raw) -> Result<ToServer, Error> {
        let is_known = self.eras.speaks(Era::Legacy) == Some(true);
        let passes_over = passes_over_initialize(Arc::clone(&link));
        let server = tokio::select! {
            biased;
            server = self.greet(link, capabilities) => server,
            () = passes_over => Err(Failure::Other(handshake::refused("no answer to initialize"))),
        };
        if server.is_ok() || !is_known {
            self.eras.note(Era::Legacy, server.is_ok());
        }
        server.map_err(Failure::into_error)
    }

    async fn greet(&self, link: Arc<Link>, capabilities: Raw) -> Result<ToServer, Failure> {
        let params = Some(handshake::initialize_params(capabilities));
        let reply = link.ask(method::INITIALIZE, params, Era::Legacy).await?;
        let peer = handshake::initialized(reply).map_err(Failure::Refused)?;
        link.tell(&Notification { method: method::INITIALIZED.into(), params: None }).await?;
        Ok(ToServer { peer, link })
    }
}

/// The answer to a probe that was waited for in vain, if it is a modern one.
async fn late(probe: impl Future<Output = Result<Reply, Error>>) -> Option<Peer> {
    match handshake::find(&probe.await.ok()?) {
        Finding::Modern(peer) => Some(*peer),
        Finding::Legacy | Finding::Foreign(_) => None,
    }
}

/// Resolves when a server answers what it was asked after `initialize`, and that not. One that is slow to start
/// answers nothing.
async fn passes_over_initialize(link: Arc<Link>) {
    tokio::time::sleep(SECOND_LIMIT).await;
    if link.ask(method::PING, None, Era::Legacy).await.is_err() {
        // It ended, and `initialize` learns that too.
        return std::future::pending().await;
    }
    tokio::time::sleep(SECOND_GRACE).await;
}

/// Why the old handshake failed.
enum Failure {
    /// By the answer to it.
    Refused(Error),
    /// On the way.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Failure {
    fn into_error(self) -> Error {
        let (Self::Refused(error) | Self::Other(error)) = self;
        error
    }
}

/// A live connection to a child.
struct ToServer {
    peer: Peer,
    link: Arc<Link>,
}

impl Connection for ToServer {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> RequestFuture<'a> {
        let exchange =
            self.link.exchange(outlet, Purpose::of(call), |id| compose_line(call, id, self.peer.era()));
        exchange.map_ok(ResponseBody::Buffered).boxed()
    }

    fn tells_whose(&self) -> bool {
        // In the modern era it must not ask, so nothing has to be told.
        self.peer.version.is_modern()
    }

    fn asks(&self) -> bool {
        self.link.asks()
    }

    fn unanswered(&self, owner: Owner) -> Option<Unanswered> {
        self.link.unanswered(owner)
    }

    fn tell<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, ()> {
        // If it is not delivered, the connection is about to end.
        async move { drop(self.link.tell(notification).await) }.boxed()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        self.link.obituary.wait().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.link.end().boxed()
    }
}

#[cfg(test)]
mod tests;
