//! Streamable HTTP in both eras, and detection of the older HTTP+SSE transport.
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
//! The detected kind of server is stored, and detected again when it no longer fits.

mod answer;
mod legacy;
mod modern;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::legacy::{LegacySession, RecentLosses, SessionFailure};
use self::modern::{Modern, Wire};
use super::handshake::{self, Finding, PROBE_LIMIT};
use super::http::{HttpClient, is_of_every_request};
use super::{PrincipalCredentials, sse};
use crate::ServerContext;
use crate::config::{Config, Http};
use crate::connection::{Connection, Connector, Dialect, Events, Sockets};
use crate::dialect::Eras;
use crate::error::Error;
use crate::principal_secrets::PrincipalSecrets;
use answer::{HttpRefusal, RequestOutcome};
use oauth::Logins;
use protocol::Era;
use runtime::shutdown::Shutdown;

/// Reaches one server over HTTP.
pub(super) struct ToUrl(Arc<HttpServer>);

/// State that all connections share.
struct HttpServer {
    name: Arc<str>,
    client: Arc<HttpClient>,
    shutdown: Shutdown,
    requests_per_connection: usize,
    eras: Arc<Eras>,
    /// Whether its legacy era is not Streamable HTTP at all.
    is_old_sse: Arc<AtomicBool>,
    /// Whether it was seen handing out no session in the legacy era.
    has_no_sessions: Arc<AtomicBool>,
    /// Sessions that it forgot lately.
    losses: Arc<RecentLosses>,
    credentials: PrincipalCredentials,
}

impl ToUrl {
    pub(super) fn new(config: &Config, http: &Http, server_context: &ServerContext) -> Result<Self, Error> {
        let shutdown = &server_context.shutdown;
        let (credential, credentials) = super::credentials(config, http, server_context);
        Ok(Self(Arc::new(HttpServer {
            name: Arc::clone(&config.name),
            client: Arc::new(HttpClient::new(http, config, credential, shutdown)?),
            shutdown: shutdown.clone(),
            requests_per_connection: super::requests_per_connection(config),
            eras: Arc::new(Eras::pinned(config.era)),
            is_old_sse: Arc::default(),
            has_no_sessions: Arc::default(),
            losses: Arc::default(),
            credentials,
        })))
    }
}

impl Connector for ToUrl {
    fn connect(
        &self,
        events: Events,
        dialect: Dialect,
    ) -> BoxFuture<'static, Result<Arc<dyn Connection>, Error>> {
        let shared = Arc::clone(&self.0);
        async move {
            let server = shared.of(dialect.principal.as_ref()).await?;
            let open = || server.connect(events.clone(), dialect.clone());
            let opened = server.client.located(&server.name, open).await;
            opened.map_err(handshake::while_connecting).map_err(|error| server.client.advise(error))
        }
        .boxed()
    }

    fn speaks(&self, era: Era) -> Option<bool> {
        self.0.eras.speaks(era)
    }

    fn has_sessions(&self, era: Era) -> bool {
        era == Era::Legacy && !self.0.has_no_sessions.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.0.eras.forget();
        self.0.has_no_sessions.store(false, Ordering::Relaxed);
        self.0.is_old_sse.store(false, Ordering::Relaxed);
        self.0.client.forget();
    }

    fn remark(&self) -> Option<String> {
        self.0.client.remark()
    }

    fn renewed(&self) -> BoxFuture<'_, ()> {
        self.0.client.renewed()
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        self.0.credentials.logins.clone()
    }

    fn principal_secrets(&self) -> Option<Arc<PrincipalSecrets>> {
        self.0.credentials.secrets.clone()
    }

    fn requests_per_connection(&self) -> usize {
        self.0.requests_per_connection
    }

    fn sockets(&self) -> Option<Sockets> {
        Some(self.0.client.sockets())
    }
}

impl HttpServer {
    /// The server with the credentials of `principal`, if each principal has its own.
    async fn of(self: Arc<Self>, principal: Option<&Arc<str>>) -> Result<Arc<Self>, Error> {
        let client = self.credentials.client(&self.client, principal).await?;
        if Arc::ptr_eq(&client, &self.client) {
            return Ok(self);
        }
        Ok(Arc::new(Self {
            name: Arc::clone(&self.name),
            client,
            shutdown: self.shutdown.clone(),
            requests_per_connection: self.requests_per_connection,
            eras: Arc::clone(&self.eras),
            is_old_sse: Arc::clone(&self.is_old_sse),
            has_no_sessions: Arc::clone(&self.has_no_sessions),
            losses: Arc::clone(&self.losses),
            credentials: self.credentials.clone(),
        }))
    }

    async fn connect(
        self: &Arc<Self>,
        events: Events,
        dialect: Dialect,
    ) -> Result<Arc<dyn Connection>, Error> {
        let speaks = |era| self.eras.speaks(era);
        match (dialect.era, speaks(Era::Modern), speaks(Era::Legacy)) {
            (Era::Modern, Some(true) | None, _) | (Era::Legacy, _, Some(false)) => {
                self.probe(events, dialect).await
            }
            (Era::Modern, Some(false), _) | (Era::Legacy, ..) => {
                let opened = self.initialize(events, dialect).await;
                if speaks(Era::Modern) == Some(true) && opened.as_ref().is_err_and(is_refusal_for_good) {
                    // The next connect uses the other era and succeeds.
                    self.eras.record(Era::Legacy, false);
                }
                opened.map_err(|failure| handshake::of_pinned(failure.error, self.eras.pin()))
            }
        }
    }

    /// Tries a modern request first.
    async fn probe(self: &Arc<Self>, events: Events, dialect: Dialect) -> Result<Arc<dyn Connection>, Error> {
        let wire = Wire::new(Arc::clone(self), events.clone());
        let mut is_certain = true;
        let finding = match tokio::time::timeout(PROBE_LIMIT, wire.discover()).await {
            Ok(Ok(RequestOutcome::Reply(reply, _))) => handshake::find(&reply),
            // Some servers crash on a request before `initialize`, and the proxy before them says so.
            Ok(Ok(RequestOutcome::Refusal(refusal))) if (502..=504).contains(&refusal.status.as_u16()) => {
                is_certain = false;
                Finding::Legacy
            }
            Ok(Ok(RequestOutcome::Refusal(refusal))) if is_of_every_request(refusal.status.as_u16()) => {
                return Err(refusal.into_error());
            }
            Ok(Ok(RequestOutcome::Refusal(HttpRefusal { error: Some(error), .. }))) => {
                handshake::find(&Err(error))
            }
            // They may also close the connection.
            Ok(
                Ok(RequestOutcome::Refusal(_) | RequestOutcome::Streaming(_))
                | Err(
                    Error::Malformed { .. }
                    | Error::Unreadable { .. }
                    | Error::Lost { .. }
                    | Error::Cut { .. },
                ),
            ) => Finding::Legacy,
            Ok(Err(error)) => return Err(error),
            Err(_silence) => Finding::Legacy,
        };
        match finding {
            Finding::Modern(peer) => {
                self.eras.record(Era::Modern, true);
                Ok(Arc::new(Modern::new(*peer, wire)))
            }
            Finding::Legacy if self.eras.pin().is_some() => Err(handshake::no_modern()),
            Finding::Legacy => {
                let opened = self.initialize(events, dialect).await.map_err(|failure| failure.error)?;
                if is_certain {
                    self.eras.record(Era::Modern, false);
                }
                Ok(opened)
            }
            Finding::Foreign(supported) => Err(handshake::foreign(&supported)),
        }
    }

    /// Opens a legacy session, or else a connection over HTTP+SSE.
    async fn initialize(
        self: &Arc<Self>,
        events: Events,
        dialect: Dialect,
    ) -> Result<Arc<dyn Connection>, SessionFailure> {
        if self.is_old_sse.load(Ordering::Relaxed) {
            let stream = sse::start(&self.name, &self.client).await?;
            return Ok(self.old_sse(stream, events, dialect).await?);
        }
        match LegacySession::open(self, events.clone(), dialect.clone()).await {
            Ok(session) => {
                self.has_no_sessions.store(!session.has_id(), Ordering::Relaxed);
                self.eras.record(Era::Legacy, true);
                Ok(Arc::new(session))
            }
            Err(failure) if matches!(failure.status, Some(400 | 404 | 405)) => {
                let Ok(stream) = sse::start(&self.name, &self.client).await else { return Err(failure) };
                Ok(self.old_sse(stream, events, dialect).await?)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn old_sse(
        &self,
        stream: sse::StartedStream,
        events: Events,
        dialect: Dialect,
    ) -> Result<Arc<dyn Connection>, Error> {
        let connected = sse::open(stream, &self.client, &self.shutdown, (events, dialect)).await?;
        self.is_old_sse.store(true, Ordering::Relaxed);
        self.eras.record(Era::Legacy, true);
        Ok(connected)
    }
}

/// Whether a failed handshake shows that the server does not speak the era. The answer must come from the
/// server and not from a proxy.
fn is_refusal_for_good(failure: &SessionFailure) -> bool {
    match (failure.status, &failure.error) {
        (Some(status), _) => !is_of_every_request(status),
        // An error with HTTP 200, or an unusable answer.
        (None, Error::Connect { .. }) => failure.is_answer,
        (None, error) => matches!(error, Error::Malformed { .. } | Error::Unreadable { .. }),
    }
}

#[cfg(test)]
mod tests;
