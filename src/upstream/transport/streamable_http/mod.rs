//! Streamable HTTP, in both of its shapes, with detection of the transport before it.
//!
//! Source: `basic/transports/streamable-http` of 2026-07-28 and its Backward Compatibility part,
//! `basic/transports` of the revisions before.
//!
//! ```text
//! server/discover ── modern answer ──────────────────────────> modern
//!        └─ anything else ─> initialize ── accepted ─────────> legacy (a session)
//!                                └─ 400, 404, 405 ─> GET ────> HTTP+SSE, when `endpoint` comes
//! ```
//!
//! What the server turned out to be is remembered, and found out anew when it stops fitting.

mod answer;
mod legacy;
mod listening;
mod modern;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub(super) use self::answer::is_message;
use self::answer::{Outcome, Refusal};
use self::legacy::Session;
use self::modern::{Modern, Wire};
use super::handshake::{self, Finding, Memory, PROBE_LIMIT};
use super::http::Client;
use super::sse;
use crate::shutdown::Shutdown;
use crate::upstream::config::{Config, Http};
use crate::upstream::connection::{Connection, Connector, Events};
use crate::upstream::error::Error;

/// Reaches one server over HTTP.
pub(super) struct ToUrl(Arc<Server>);

/// What is the same for every connection.
struct Server {
    client: Arc<Client>,
    shutdown: Shutdown,
    requests_per_connection: usize,
    kind: Memory<Kind>,
}

/// What a server turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Modern,
    Legacy,
    /// Not Streamable HTTP at all.
    OldSse,
}

impl ToUrl {
    pub(super) fn new(config: &Config, http: &Http, shutdown: &Shutdown) -> Result<Self, Error> {
        Ok(Self(Arc::new(Server {
            client: Arc::new(Client::new(http, config.limits.message_bytes)?),
            shutdown: shutdown.clone(),
            requests_per_connection: super::requests_per_connection(config),
            kind: Memory::empty(),
        })))
    }
}

impl Connector for ToUrl {
    fn connect(&self, events: Events) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let server = Arc::clone(&self.0);
        async move {
            let connected = server.connect(events).await;
            connected.inspect_err(|_| server.kind.set(None)).map_err(handshake::while_connecting)
        }
        .boxed()
    }

    fn requests_per_connection(&self) -> usize {
        self.0.requests_per_connection
    }
}

impl Server {
    async fn connect(self: &Arc<Self>, events: Events) -> Result<Arc<dyn Connection>, Error> {
        match self.kind.get() {
            None | Some(Kind::Modern) => self.probe(events).await,
            Some(Kind::Legacy) => self.initialize(events).await,
            Some(Kind::OldSse) => self.old_sse(events).await,
        }
    }

    /// A modern request first.
    async fn probe(self: &Arc<Self>, events: Events) -> Result<Arc<dyn Connection>, Error> {
        let wire = Wire::new(Arc::clone(self), events.clone());
        let finding = match tokio::time::timeout(PROBE_LIMIT, wire.discover()).await {
            Ok(Ok(Outcome::Reply(reply, _))) => handshake::find(&reply),
            Ok(Ok(Outcome::Refusal(refusal))) if says_nothing_of_the_era(&refusal) => {
                return Err(refusal.into_error());
            }
            Ok(Ok(Outcome::Refusal(Refusal { error: Some(error), .. }))) => handshake::find(&Err(error)),
            Ok(Ok(Outcome::Refusal(_)) | Err(Error::Malformed { .. })) => Finding::Legacy,
            Ok(Err(error)) => return Err(error),
            Err(_silence) => Finding::Legacy,
        };
        match finding {
            Finding::Modern(peer) => {
                self.kind.set(Some(Kind::Modern));
                Ok(Arc::new(Modern::new(*peer, wire)))
            }
            Finding::Legacy => self.initialize(events).await,
            Finding::Foreign(supported) => Err(handshake::foreign(&supported)),
        }
    }

    /// The handshake of the old era, and when that is refused the transport before it.
    async fn initialize(self: &Arc<Self>, events: Events) -> Result<Arc<dyn Connection>, Error> {
        match Session::open(self, events.clone()).await {
            Ok(session) => {
                self.kind.set(Some(Kind::Legacy));
                Ok(Arc::new(session))
            }
            Err(legacy::Failure { status: Some(400 | 404 | 405), error }) => {
                self.old_sse(events).await.map_err(|_| error)
            }
            Err(legacy::Failure { error, .. }) => Err(error),
        }
    }

    async fn old_sse(&self, events: Events) -> Result<Arc<dyn Connection>, Error> {
        let connected = sse::open(&self.client, &self.shutdown, events).await?;
        self.kind.set(Some(Kind::OldSse));
        Ok(connected)
    }
}

/// Whether the status is about credentials or the way to the server, so that every request would
/// get it.
fn says_nothing_of_the_era(refusal: &Refusal) -> bool {
    matches!(refusal.status.as_u16(), 401 | 403 | 407 | 429 | 502..=504)
}

#[cfg(test)]
mod tests;
