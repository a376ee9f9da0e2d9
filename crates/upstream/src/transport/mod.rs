//! The transports to servers, each in its own file.
//!
//! [`connector`] is all that other crates need. All transports share the table of open requests (`pending`) and the
//! detection of the protocol era (`handshake`). They also share requests of a server (`questions`), its notifications and
//! flood protection (both in `inbound`).
//!
//! The transports over HTTP share sending (`http`), reading (`body`), and messages without a response (`background_send`).

mod background_send;
mod handshake;
mod http;
mod inbound;
mod pending;
mod questions;
mod sse;
pub mod stdio;
mod streamable_http;
#[cfg(test)]
mod testing;
mod unreadable;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use self::http::HttpClient;
pub use self::http::proxy_variable;
use crate::ServerContext;
use crate::config::{Config, Http, Transport};
use crate::connection::{Call, Connector};
use crate::credential::{Credential, TokenSource};
use crate::error::Error;
use crate::principal_secrets::PrincipalSecrets;
use json::{Part, Raw};
use net::http::RequestBody;
use net::lines;
use oauth::Logins;
use protocol::compose::{self, Composed};
use protocol::{Era, Notification, meta, method};
use runtime::memory::{self, Account, ChargeKind};

/// The least length of a part of a request that is sent from the memory where it is, in bytes.
const LEAST_PASSED: usize = 16 * 1024;
/// Retry hint if the memory budget has no room for a request.
const ROOM_RETRY_IN: Duration = Duration::from_secs(1);

/// Makes a request for one server, in JSON, with an id of Switchyard and the `_meta` of the era. `claimed` is
/// the revision that the call itself claims. Large parameters are not copied; they are charged as a part of the call.
fn compose(call: &Call, id: u64, era: Era, claimed: Option<Part<'_>>) -> Result<RequestBody, Error> {
    let (text, passed) = print(call, id, (era, claimed), LEAST_PASSED).into_parts();
    let text = charged(call, text.into())?;
    Ok(match passed {
        None => text.into(),
        Some((at, part)) => RequestBody::of_parts([text.slice(..at), part, text.slice(at..)]),
    })
}

/// Makes a request for one server, as a line.
fn compose_line(call: &Call, id: u64, era: Era) -> Result<Bytes, Error> {
    let claimed = if era == Era::Modern { meta::claimed_version(call.params.as_ref()) } else { None };
    let (text, _) = print(call, id, (era, claimed), usize::MAX).into_parts();
    charged(call, lines::of(text))
}

/// Charges a printed request until it was sent. Requests of Switchyard are small and cost nothing.
fn charged(call: &Call, request: Bytes) -> Result<Bytes, Error> {
    memory::hold(request, || Account::of(call.principal.as_ref()), ChargeKind::Request)
        .map_err(|_| Error::Overloaded { retry_in: ROOM_RETRY_IN })
}

/// Returns the printed request. A part of its parameters of `least_passed` bytes or more is not copied.
fn print(call: &Call, id: u64, (era, claimed): (Era, Option<Part<'_>>), least_passed: usize) -> Composed {
    // Nothing that describes the client is added to such a request.
    let is_described = era == Era::Legacy || claimed.is_some();
    let (params, sender, token) = (call.params.as_ref(), &call.sender, call.wants_progress.then_some(id));
    let passed = params.map_or(0, |params| params.bytes().len());
    let passed = if passed < least_passed { 0 } else { passed };
    // One byte is for the end of a line.
    let room = meta::room(params, is_described, sender, token) - passed + 1;
    compose::compose(id, &call.method, (room, least_passed), |out| {
        meta::write_dressed(out, params, era, sender, token);
    })
}

/// Makes the notification that cancels the request `id`.
fn cancelled(id: u64) -> Notification {
    let params = json!({"requestId": id, "reason": "the caller no longer waits for it"});
    Notification { method: method::CANCELLED.into(), params: Some(Raw::of(&params)) }
}

/// Returns the connector to the server that `config` describes. Nothing is contacted yet.
///
/// `server_context.shutdown` is the group of all tasks of its connections. When its end is requested, the connections
/// close. Waiting for the group waits for the last child process, so end it after the calls have ended.
pub fn connector(config: &Config, server_context: &ServerContext) -> Result<Arc<dyn Connector>, Error> {
    let shutdown = &server_context.shutdown;
    Ok(match &config.transport {
        Transport::Stdio(stdio) => Arc::new(stdio::ToChild::new(config, stdio, shutdown)),
        Transport::Builtin(options) => {
            let own = ServerContext { network: config.network.clone(), ..server_context.clone() };
            options.connector(&config.name, &own)
        }
        Transport::Http(http) => Arc::new(streamable_http::ToUrl::new(config, http, server_context)?),
        Transport::Sse(http) => Arc::new(sse::ToStream::new(config, http, server_context)?),
    })
}

/// The credential of requests to the server of `config` that belong to no principal, and those of principals.
fn credentials(
    config: &Config,
    http: &Http,
    server_context: &ServerContext,
) -> (Option<Credential>, PrincipalCredentials) {
    let (credential, logins) = credential(config, http, server_context);
    let secrets = PrincipalSecrets::in_headers(&http.principal_headers, server_context.vault.clone());
    (credential, PrincipalCredentials { logins, secrets })
}

fn credential(
    config: &Config,
    http: &Http,
    server_context: &ServerContext,
) -> (Option<Credential>, Option<Arc<Logins>>) {
    match &http.token {
        None => (None, None),
        Some(TokenSource::File(file)) => (Some(Credential::File(file.clone())), None),
        Some(TokenSource::OAuth(settings)) => {
            let place = oauth::Place {
                vault: server_context.vault.clone(),
                network: config.network.clone(),
                issuers: server_context.issuers.clone(),
                shutdown: server_context.shutdown.clone(),
            };
            let logins = Logins::new(&config.name, &http.url, settings, place);
            (Some(Credential::Login(logins.account(None))), Some(logins))
        }
    }
}

/// The credentials of principals for one server, where each has its own.
#[derive(Clone)]
struct PrincipalCredentials {
    logins: Option<Arc<Logins>>,
    secrets: Option<Arc<PrincipalSecrets>>,
}

impl PrincipalCredentials {
    /// Returns `client` with the credentials of `principal`. Without one there is no client if headers have secrets.
    async fn client(
        &self,
        client: &Arc<HttpClient>,
        principal: Option<&Arc<str>>,
    ) -> Result<Arc<HttpClient>, Error> {
        let logins = self.logins.as_ref().filter(|logins| logins.is_per_principal());
        let login = logins.zip(principal).map(|(logins, principal)| logins.account(Some(principal)));
        let secrets = match &self.secrets {
            Some(secrets) => Some(secrets.of(principal).await?),
            None if login.is_none() => return Ok(Arc::clone(client)),
            None => None,
        };
        Ok(Arc::new(client.of_principal(login.map(Credential::Login), secrets)))
    }
}

/// Returns how many requests share a connection over HTTP: as few as let `concurrent_calls` calls fit on
/// `connections` connections.
fn requests_per_connection(config: &Config) -> usize {
    config.limits.concurrent_calls.div_ceil(config.limits.connections.max(1)).max(1)
}
