//! A server that is a child process: one message per line on its input and output.
//!
//! Source: `basic/transports/stdio` of 2026-07-28, `basic/transports` of the revisions before.
//!
//! ```text
//! request ─> queue (64) ─> writer ─> child ─> reader ─> pending ─> request
//!                            │         │         │
//!                            └──── keeper: watches, ends, reaps, says why ────> closed
//! ```
//!
//! Invariants: reader and writer never wait for each other, so full pipes can not lock us; the
//! child's group is gone when the connection is; a request that was given up while it stood in the
//! queue is never written. Not here: when a child that died is started again (the pool decides).

mod child;
mod environment;
mod keeper;
mod link;
pub mod parent_death;
mod reader;
mod stderr;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::link::Link;
use super::compose;
use super::handshake::{self, Finding, Memory, PROBE_LIMIT};
use super::pending::Purpose;
use crate::protocol::abilities::Abilities;
use crate::protocol::lifecycle::Peer;
use crate::protocol::{Era, Notification, Reply, method};
use crate::shutdown::Shutdown;
use crate::upstream::config::{Config, Stdio};
use crate::upstream::connection::{Call, Connection, Connector, Events, Outlet};
use crate::upstream::error::Error;

/// Starts the child of one server.
pub(super) struct ToChild(Arc<Server>);

/// What is the same for every connection.
struct Server {
    name: Arc<str>,
    /// The command as operators may see it.
    target: String,
    stdio: Stdio,
    message_bytes: usize,
    shutdown: Shutdown,
    era: Memory<Era>,
}

impl ToChild {
    pub(super) fn new(config: &Config, stdio: &Stdio, shutdown: &Shutdown) -> Self {
        Self(Arc::new(Server {
            name: Arc::clone(&config.name),
            target: config.target.clone(),
            stdio: stdio.clone(),
            message_bytes: config.limits.message_bytes,
            shutdown: shutdown.clone(),
            era: Memory::empty(),
        }))
    }
}

impl Connector for ToChild {
    fn connect(&self, events: Events) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let server = Arc::clone(&self.0);
        async move {
            let connected = server.connect(&events).await.map_err(handshake::while_connecting)?;
            connected.link.listen_for_changes(&connected.peer, &server.shutdown);
            Ok(Arc::new(connected) as Arc<dyn Connection>)
        }
        .boxed()
    }

    fn requests_per_connection(&self) -> usize {
        usize::MAX
    }
}

impl Server {
    /// Probes with `server/discover`, unless the era is known to be the old one.
    ///
    /// The era is noted before `initialize` succeeds, so that a server which is slow or dies on the
    /// probe is not probed again by the next attempt.
    async fn connect(&self, events: &Events) -> Result<ToServer, Error> {
        let link = self.start(events).await?;
        if self.era.get() == Some(Era::Legacy) {
            return self.initialize(link).await;
        }
        match tokio::time::timeout(PROBE_LIMIT, link.ask(method::DISCOVER, None, Era::Modern)).await {
            Ok(Ok(reply)) => match handshake::find(&reply) {
                Finding::Modern(peer) => {
                    self.era.set(Some(Era::Modern));
                    Ok(ToServer { peer: *peer, link })
                }
                Finding::Legacy => self.initialize(link).await,
                Finding::Foreign(supported) => Err(handshake::foreign(&supported)),
            },
            // It ended on a request it does not know, as some do: a new one is greeted in the old way.
            Ok(Err(Error::Lost { .. } | Error::NotSent { .. })) => {
                link.closing.wait().await;
                let link = self.start(events).await?;
                self.initialize(link).await
            }
            Ok(Err(error)) => Err(error),
            Err(_silence) => self.initialize(link).await,
        }
    }

    async fn start(&self, events: &Events) -> Result<Arc<Link>, Error> {
        let cannot = |reason| Error::Connect { reason: format!("cannot start {}: {reason}", self.target) };
        let child = child::start(&self.stdio).await.map_err(cannot)?;
        Ok(Link::new(child, self, events))
    }

    async fn initialize(&self, link: Arc<Link>) -> Result<ToServer, Error> {
        self.era.set(Some(Era::Legacy));
        let params = Some(handshake::initialize_params(Abilities::WITHOUT_ROOTS));
        let reply = link.ask(method::INITIALIZE, params, Era::Legacy).await?;
        let peer = handshake::initialized(reply).inspect_err(|_| self.era.set(None))?;
        link.tell(&Notification { method: method::INITIALIZED.into(), params: None }).await?;
        Ok(ToServer { peer, link })
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

    fn request<'a>(&'a self, call: &'a Call, outlet: &'a Outlet) -> BoxFuture<'a, Result<Reply, Error>> {
        self.link.exchange(outlet, Purpose::of(call), |id| compose(call, id, self.peer.era())).boxed()
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
