//! The checks at the door: who and what is let in, before any route is looked at.
//!
//! ```text
//! Host, Origin ──▶ (preflight?) ──▶ declared size ──▶ credential ──▶ body, within size and time ──▶ route
//! ```
//!
//! Who is let in has a [`Principal`] and a body that is complete and small enough, so no route limits
//! or waits for one again. Nothing of a body is buffered for somebody who was not let in.
//!
//! Not here: the order of the checks and the routes behind them (`http_service`), time and connection limits
//! (`listener`), what a principal may do ([`auth`]).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Version, request};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;

use super::Config;
use super::authority::{Authority, Hosts, Origin, Origins};
use super::protected_resource::{self, Metadata};
use super::refusal::{Face, Refusal};
use crate::body_budget;
use crate::body_budget::Growth;
use auth::{Authenticator, Denied, Principal, Reason};
use net::transfer_coding;
use runtime::memory::{Account, Charge, Kind};
use runtime::worker::{WorkBudget, bulk};

/// The paths that need no credential, for GET and HEAD: somebody who watches over the process, and a description
/// that is the same of every gateway, which a browser opens before its user can name a credential. Beside them
/// there is only what tells where to get one (`protected_resource`).
const PUBLIC: [&str; 6] = ["/", "/health", "/health/live", "/health/ready", "/openapi.json", "/docs"];
/// Of those, what a supervisor asks that knows us by an address alone (Kubernetes sends that of the pod): they are
/// answered whatever the host is called, because all they tell is that we live, and whether we are ready.
const PROBES: [&str; 2] = ["/health/live", "/health/ready"];
/// Paths that clients try to log in at (OAuth 2.0). Without a credential they are answered 404, because clients take 401
/// for a login that was rejected and do not tell their users that a key is missing.
const OAUTH: [&str; 5] = ["/register", "/authorize", "/token", "/revoke", "/introspect"];
/// The metadata of such a login (RFC 8414, `OpenID` Connect Discovery), at any place of a path.
const OAUTH_METADATA: [&str; 2] =
    ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
/// Path prefix of the scripts and styles of the page at `/docs`.
const PAGES: &str = "/docs/";
/// How long the rest of a refused body is read and thrown away, so that a client that is still
/// sending gets to see the answer instead of a reset connection.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// A body on its way in.
pub(super) trait Incoming: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Unpin + Send {}

impl<B: HttpBody<Data = Bytes, Error: Into<axum::BoxError>> + Unpin + Send> Incoming for B {}

/// The part of the program that says which principal sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Switchyard, from the credential in the headers.
    Credential,
    /// The program that embeds Switchyard, with a [`Principal`] among the extensions of the request. Clients
    /// cannot reach those.
    Host,
}

/// What the door knows.
#[derive(Debug)]
pub struct Guard {
    hosts: Hosts,
    origins: Origins,
    identity: Identity,
    authenticator: Arc<Authenticator>,
    metadata: Metadata,
    /// The principal of requests that read the REST API without a credential, if the file allows them.
    anonymous: Option<Principal>,
    max_body_bytes: usize,
    /// The first `Host` that was allowed: most clients write the same.
    usual_host: OnceLock<HeaderValue>,
}

impl Guard {
    /// Reads the key files that `config` names; blocks on them.
    pub fn new(config: &Config) -> Result<Self, auth::Error> {
        Self::with(config, Identity::Credential, &config.auth)
    }

    /// Accepts the [`Principal`] among the extensions of a request and nothing else. For a program that
    /// authenticates requests before they come here; the `auth` of `config` is not used.
    pub fn of_host(config: &Config) -> Result<Self, auth::Error> {
        Self::with(config, Identity::Host, &auth::Config::None)
    }

    fn with(config: &Config, identity: Identity, keys: &auth::Config) -> Result<Self, auth::Error> {
        let authenticator = Arc::new(Authenticator::new(keys)?);
        // A host program decides alone who reads.
        let has_anonymous = config.anonymous_reader && matches!(identity, Identity::Credential);
        Ok(Self {
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            identity,
            metadata: Metadata::new(config.public_url.clone(), Arc::clone(&authenticator)),
            authenticator,
            anonymous: has_anonymous.then(Principal::anonymous_reader),
            max_body_bytes: config.max_body_bytes,
            usual_host: OnceLock::new(),
        })
    }

    /// Who judges credentials.
    pub fn authenticator(&self) -> Arc<Authenticator> {
        Arc::clone(&self.authenticator)
    }

    /// What tells where to get a credential.
    pub(super) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether the request means us and comes from nowhere or from a listed origin, which is
    /// returned as it was written.
    pub(super) fn check_source(&self, parts: &request::Parts) -> Result<Option<HeaderValue>, Refusal> {
        if self.is_usual(parts) {
            return Ok(None);
        }
        if is_probe(parts) {
            return match host_of(parts) {
                Err(refusal @ Refusal::HostCount) => Err(refusal),
                _ => Ok(None),
            };
        }
        let host = host_of(parts)?;
        if !self.hosts.allow(&host) {
            return Err(Refusal::Host);
        }
        if let Some(header) = parts.headers.get(HOST) {
            // Whoever comes second with another one is read each time.
            let _ = self.usual_host.get_or_init(|| header.clone());
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(written) = origins.next() else { return Ok(None) };
        let origin = written.to_str().ok().and_then(Origin::parse).ok_or(Refusal::Origin)?;
        let allowed = origins.next().is_none() && self.origins.allow(&origin, &host);
        if allowed { Ok(Some(written.clone())) } else { Err(Refusal::Origin) }
    }

    /// Whether nothing but `Host` says where the request comes from, and that says, byte for byte, what
    /// was read and allowed before.
    fn is_usual(&self, parts: &request::Parts) -> bool {
        let headers = &parts.headers;
        let is_repeated = headers.len() > headers.keys_len();
        let Some(usual) = self.usual_host.get() else { return false };
        !is_repeated
            && parts.uri.authority().is_none()
            && headers.get(HOST) == Some(usual)
            && !headers.contains_key(ORIGIN)
    }

    /// Who asks, judged by the head alone; for what is public `None`, unless there is a good credential,
    /// which may show more.
    fn check_head(&self, parts: &request::Parts) -> Result<Option<Principal>, Refusal> {
        if declared_length(&parts.headers).is_some_and(|length| length > self.max_body_bytes as u64) {
            return Err(Refusal::TooLarge { limit: self.max_body_bytes });
        }
        let judged = match self.identity {
            Identity::Credential => self.authenticator.authenticate(&parts.headers),
            Identity::Host => parts.extensions.get().cloned().ok_or(Denied::Missing),
        };
        let denied = match judged {
            Ok(principal) => return Ok(Some(principal)),
            Err(denied) => denied,
        };
        if denied == Denied::Missing
            && let Some(reader) = self.anonymous.as_ref().filter(|_| is_rest_read(parts))
        {
            return Ok(Some(reader.clone()));
        }
        if denied != Denied::Unchecked && is_public(parts) {
            return Ok(None);
        }
        if denied == Denied::Missing && is_of_oauth(parts.uri.path()) {
            return Err(Refusal::NoSuchPath);
        }
        Err(Refusal::Denied(denied))
    }

    /// The same for a key that it takes long to check.
    async fn check_key(&self, parts: &request::Parts) -> Result<Option<Principal>, Refusal> {
        match self.authenticator.check(&parts.headers).await {
            Err(_) if is_public(parts) => Ok(None),
            judged => judged.map(Some).map_err(Refusal::Denied),
        }
    }

    /// Who asks, and the whole body. A credential that was taken back while the body arrived opens nothing.
    pub(super) async fn admit<B: Incoming>(
        &self,
        head: &request::Parts,
        body: &mut B,
    ) -> Result<(Option<Principal>, Bytes), Refusal> {
        if !transfer_coding::is_supported(&head.headers, body) {
            return Err(Refusal::TransferCoding);
        }
        let principal = match self.check_head(head) {
            Err(Refusal::Denied(Denied::Unchecked)) => Box::pin(self.check_key(head)).await?,
            judged => judged?,
        };
        let Some(principal) = principal else {
            // Only public pages are answered without a credential, and none of them needs a body. A body that is
            // not read costs nothing: its connection ends after the answer.
            return Ok((None, Bytes::new()));
        };
        let mut waited = false;
        let body = {
            let open = || Charge::open(Account::of(Some(principal.id())), Kind::Request);
            let mut reading = pin!(body_budget::read(body, self.max_body_bytes, open));
            let body = poll_fn(|cx| {
                let body = reading.as_mut().poll(cx);
                waited |= body.is_pending();
                body
            });
            body.await?
        };
        // Looking takes a lock, so who sent all at once is spared it.
        if waited && principal.is_taken_back() {
            return Err(Refusal::Denied(Denied::Credential(Reason::TakenBack)));
        }
        Ok((Some(principal), body))
    }

    /// Reads and drops what is left of a refused body, within limits. The head is dropped first, because a slow
    /// client must not make it stay. A client that waits for `100 Continue` (`Expect`) gets the refusal instead.
    pub(super) async fn discard<B: Incoming>(&self, head: request::Parts, mut body: B) {
        let is_sent = !head.headers.contains_key(EXPECT);
        drop(head);
        let nobody = || Charge::open(Account::Nobody, Kind::Request);
        // A body that has no room is not read: its connection ends after the answer.
        if is_sent && let Ok(_trailers) = body_budget::trailers(&body, nobody) {
            let rest = drop_rest(&mut body, self.max_body_bytes);
            // Whatever comes of it, the answer is decided.
            let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
        }
    }
}

/// The host that the request is for: `Host`, or the authority of an absolute target; where
/// both are there they agree.
fn host_of(parts: &request::Parts) -> Result<Authority, Refusal> {
    let mut headers = parts.headers.get_all(HOST).iter();
    let header = headers.next();
    if headers.next().is_some() {
        return Err(Refusal::HostCount);
    }
    let read = |text: &str| Authority::parse(text).ok_or(Refusal::Host);
    let header = header.map(|value| value.to_str().map_err(|_| Refusal::Host).and_then(read)).transpose()?;
    let target = parts.uri.authority().map(|authority| read(authority.as_str())).transpose()?;
    match (header, target) {
        (Some(header), Some(target)) if header != target => Err(Refusal::Host),
        (Some(host), _) => Ok(host),
        (None, Some(host)) if parts.version >= Version::HTTP_2 => Ok(host),
        (None, _) => Err(Refusal::HostCount),
    }
}

fn is_public(parts: &request::Parts) -> bool {
    let path = parts.uri.path();
    matches!(parts.method, Method::GET | Method::HEAD)
        && (PUBLIC.contains(&path) || path.starts_with(PAGES) || protected_resource::is_below(path))
}

fn is_of_oauth(path: &str) -> bool {
    OAUTH.contains(&path) || OAUTH_METADATA.iter().any(|metadata| path.contains(metadata))
}

/// Whether it reads the REST API. MCP uses GET too, for streams and sessions, which are for clients with a credential.
fn is_rest_read(parts: &request::Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && Face::of(parts.uri.path()) == Face::Rest
}

/// Whether it only asks how we are. A page of another origin is none that may, as everywhere.
fn is_probe(parts: &request::Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
        && PROBES.contains(&parts.uri.path())
        && !parts.headers.contains_key(ORIGIN)
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn drop_rest<B: Incoming>(body: &mut B, limit: usize) {
    let (mut left, mut work, mut growth) = (limit, WorkBudget::new(), Growth::default());
    if growth.turns_large(body, 0) {
        bulk::enter().await;
    }
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        work.charge(length);
        work.yield_if_spent().await;
        if growth.turns_large(body, length) {
            bulk::enter().await;
        }
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
