//! Checks that every HTTP request passes before it is routed.
//!
//! ```text
//! Host, Origin ──▶ (preflight?) ──▶ declared size ──▶ credential ──▶ body, within size and time ──▶ route
//! ```
//!
//! An admitted request has a [`Principal`] and a complete body within the size limit, so routes check neither again.
//! The body of a request that is not authenticated is not buffered.
//!
//! Not here: the order of the checks and the routes after them (`http_service`), time and connection limits
//! (`listener`), what a principal may do ([`auth`]).

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Version, request};
use http_body_util::BodyExt;

use super::Config;
use super::authority::{Authority, Hosts, Origin, Origins};
use super::client_address::{ClientAddress, TrustedProxies};
use super::protected_resource::Metadata;
use super::refusal::Refusal;
pub(crate) use super::request_class::MAX_FORM;
use super::request_class::{
    is_for_people, is_health, is_of_authorization_server, is_of_oauth, is_of_oauth_client, is_of_operator,
    is_probe, is_public, is_rest_read, limit_of_client,
};
use super::tls::Certified;
use crate::bodies::FromClient;
use crate::body_budget::{self, Growth, Incoming};
use crate::browser::access::BrowserAccess;
use crate::browser::form;
use crate::browser::sessions::{BrowserSessions, Visitors};
use auth::{Authenticator, Denied, Principal, Reason, Role};
use net::http::has_supported_transfer_coding;
use runtime::memory::{Account, Charge, ChargeKind};
use runtime::telemetry::limit::Limit;
use runtime::worker::{WorkBudget, bulk};

/// How long the rest of a refused body is read and dropped. A client that is still sending then sees the answer instead
/// of a reset connection.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// The part of the program that authenticates requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Switchyard, from the credential in the headers.
    Credential,
    /// The program that embeds Switchyard, with a [`Principal`] among the extensions of the request. Clients
    /// cannot reach those.
    Host,
}

/// The result of the checks of a head that need no waiting.
enum Checked {
    /// The sender, or none on a public path.
    Done(Option<Principal>),
    /// The key of the sender needs a slow hash.
    NeedsSlowHash,
    /// There is no credential, but a cookie that may name a session.
    NeedsSession,
}

/// The checks and their configuration.
#[derive(Debug)]
pub struct Guard {
    hosts: Hosts,
    origins: Origins,
    proxies: TrustedProxies,
    identity: Identity,
    authenticator: Arc<Authenticator>,
    metadata: Metadata,
    /// Authenticates REST requests without a credential by the session of a browser.
    browser: Arc<BrowserAccess>,
    /// The principal of requests that read the REST API without a credential, if the file allows them.
    anonymous: Option<Principal>,
    max_body_bytes: usize,
    /// Whether the gateway has an authorization server, whose clients come without a credential and from any origin.
    has_authorization_server: bool,
    /// The first `Host` that was allowed. Most clients send this one, so it is compared before anything is parsed.
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
        let visitors = match identity {
            Identity::Credential => Visitors::Credentials(Arc::clone(&authenticator)),
            Identity::Host => Visitors::Host,
        };
        let sessions = Arc::new(BrowserSessions::new(visitors));
        // A host program alone decides who may read.
        let has_anonymous = config.anonymous_reader && matches!(identity, Identity::Credential);
        Ok(Self {
            hosts: config.hosts.clone(),
            origins: config.origins.clone(),
            proxies: TrustedProxies::new(config.trusted_proxies.clone(), config.client_address_header),
            identity,
            metadata: Metadata::new(config.url(), Arc::clone(&authenticator)),
            browser: Arc::new(BrowserAccess::new(sessions, config)),
            authenticator,
            anonymous: has_anonymous.then(Principal::anonymous_reader),
            max_body_bytes: config.max_body_bytes,
            has_authorization_server: false,
            usual_host: OnceLock::new(),
        })
    }

    /// Returns the authenticator that checks credentials.
    pub fn authenticator(&self) -> Arc<Authenticator> {
        Arc::clone(&self.authenticator)
    }

    /// Accepts clients of the authorization server from now on.
    pub(crate) const fn serve_authorization(&mut self) {
        self.has_authorization_server = true;
    }

    /// Whether a client of the authorization server sent the request.
    pub(super) fn is_for_authorization(&self, parts: &request::Parts) -> bool {
        self.has_authorization_server && is_of_authorization_server(parts.uri.path())
    }

    /// Returns the limit of the body, if it is read before anybody is authenticated.
    fn limit_of_form(&self, parts: &request::Parts) -> Option<usize> {
        if self.is_for_authorization(parts) {
            return Some(limit_of_client(parts.uri.path()));
        }
        is_for_people(parts).then_some(MAX_FORM)
    }

    /// Whether a client that acts for `principal` gets a token with `role` if the person agrees.
    pub(super) fn may_grant(&self, principal: &Principal, role: Role) -> bool {
        principal.is_of_grant() && self.authenticator.may_grant(principal.id(), role)
    }

    /// Returns the sessions of browsers.
    pub fn browser_sessions(&self) -> Arc<BrowserSessions> {
        self.browser.sessions()
    }

    /// Returns the part that knows the sessions of browsers.
    pub(crate) fn browser(&self) -> Arc<BrowserAccess> {
        Arc::clone(&self.browser)
    }

    /// Returns the metadata that names the token issuer.
    pub(super) const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Checks `Host` and `Origin`: the host must be one of Switchyard's, and the origin, if any, must be allowed.
    /// Returns the allowed origin as the client wrote it, or `*` if every origin is allowed.
    pub(super) fn check_source(&self, parts: &request::Parts) -> Result<Option<HeaderValue>, Refusal> {
        if self.is_usual(parts) {
            return Ok(None);
        }
        if is_probe(parts) {
            return match checked_host(parts) {
                Err(refusal @ Refusal::HostCount) => Err(refusal),
                _ => Ok(None),
            };
        }
        let host = checked_host(parts)?;
        if !self.hosts.allow(&host) {
            let is_passed = is_health(parts) && host.is_address();
            return if is_passed { Ok(None) } else { Err(Refusal::Host) };
        }
        if let Some(header) = parts.headers.get(HOST) {
            // Only the first allowed host is stored; other hosts are parsed for each request.
            let _ = self.usual_host.get_or_init(|| header.clone());
        }
        if self.is_for_authorization(parts) {
            return Ok(parts.headers.contains_key(ORIGIN).then(|| HeaderValue::from_static("*")));
        }
        if is_for_people(parts) {
            return Ok(None);
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        let Some(written) = origins.next() else {
            return if form::is_embedded_elsewhere(&parts.headers) { Err(Refusal::Origin) } else { Ok(None) };
        };
        let origin = written.to_str().ok().and_then(Origin::parse).ok_or(Refusal::Origin)?;
        let allowed = origins.next().is_none() && self.origins.allow(&origin, &host);
        if allowed { Ok(Some(written.clone())) } else { Err(Refusal::Origin) }
    }

    /// Whether the request names no origin, and its only `Host` equals the stored one byte for byte.
    fn is_usual(&self, parts: &request::Parts) -> bool {
        let headers = &parts.headers;
        let is_repeated = headers.len() > headers.keys_len();
        let Some(usual) = self.usual_host.get() else { return false };
        !is_repeated
            && parts.uri.authority().is_none()
            && headers.get(HOST) == Some(usual)
            && !headers.contains_key(ORIGIN)
            && !headers.contains_key(&form::SEC_FETCH_SITE)
    }

    /// Authenticates the head. For a public path `None` is a valid result; a valid credential is still returned there,
    /// because it may show more.
    fn check_head(&self, parts: &request::Parts) -> Result<Checked, Refusal> {
        if is_of_oauth_client(parts) && !self.is_for_authorization(parts) {
            return Err(Refusal::Loop);
        }
        let limit_of_form = self.limit_of_form(parts);
        let limit = limit_of_form.unwrap_or(self.max_body_bytes);
        if declared_length(&parts.headers).is_some_and(|length| length > limit as u64) {
            return Err(Refusal::TooLarge { limit });
        }
        if limit_of_form.is_some() && self.identity == Identity::Credential {
            return Ok(Checked::Done(None));
        }
        let judged = match self.identity {
            Identity::Credential => self.authenticator.authenticate(&parts.headers),
            Identity::Host => parts.extensions.get().cloned().ok_or(Denied::Missing),
        };
        match judged.and_then(|principal| at_its_endpoint(parts, principal)) {
            Ok(principal) if principal.is_anonymous() => self.ambient(parts, principal).map(Checked::Done),
            Ok(principal) => Ok(Checked::Done(Some(principal))),
            Err(Denied::Unchecked) => Ok(Checked::NeedsSlowHash),
            Err(Denied::Missing) if self.browser.may_have_session(parts) => Ok(Checked::NeedsSession),
            Err(denied) => self.without_credential(parts, denied).map(Checked::Done),
        }
    }

    /// Decides on a request whose headers have no credential, or a bad one.
    fn without_credential(
        &self,
        parts: &request::Parts,
        denied: Denied,
    ) -> Result<Option<Principal>, Refusal> {
        if denied == Denied::Missing
            && let Some(Certified(client)) = parts.extensions.get()
        {
            return self.ambient(parts, client.clone());
        }
        if denied == Denied::Missing
            && let Some(reader) = self.anonymous.as_ref().filter(|_| is_rest_read(parts))
        {
            return Ok(Some(reader.clone()));
        }
        if is_public(parts) {
            return Ok(None);
        }
        if denied == Denied::Missing && is_of_oauth(parts.uri.path()) {
            return Err(Refusal::NoSuchPath);
        }
        Err(Refusal::Denied(denied))
    }

    /// Accepts a principal that nothing in the headers names: any page that a browser shows could have caused the request.
    /// An action of an operator must therefore come from a page of Switchyard, or from a program, which names no page.
    fn ambient(&self, parts: &request::Parts, principal: Principal) -> Result<Option<Principal>, Refusal> {
        if is_of_operator(parts) && self.browser.is_of_other_page(parts) {
            return Err(Refusal::OperatorPage);
        }
        Ok(Some(principal))
    }

    /// Authenticates the head, in whichever way its credential needs.
    async fn identify(&self, head: &request::Parts) -> Result<Option<Principal>, Refusal> {
        // Boxed: most requests need neither.
        match self.check_head(head)? {
            Checked::Done(principal) => Ok(principal),
            Checked::NeedsSlowHash => Box::pin(self.check_key(head)).await,
            Checked::NeedsSession => Box::pin(self.check_session(head)).await,
        }
    }

    /// Authenticates the head if its key needs a slow hash.
    async fn check_key(&self, parts: &request::Parts) -> Result<Option<Principal>, Refusal> {
        let judged = self.authenticator.check(&parts.headers).await;
        match judged.and_then(|principal| at_its_endpoint(parts, principal)) {
            Err(_) if is_public(parts) => Ok(None),
            judged => judged.map(Some).map_err(Refusal::Denied),
        }
    }

    /// Authenticates the head by the session of a browser. Without a valid session it is one without a credential.
    async fn check_session(&self, parts: &request::Parts) -> Result<Option<Principal>, Refusal> {
        match self.browser.principal(parts).await? {
            Some(principal) => Ok(Some(principal)),
            None => self.without_credential(parts, Denied::Missing),
        }
    }

    /// Returns the address of the client of a request that came from `peer`, if that is known.
    pub(super) fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<ClientAddress> {
        peer.map(|peer| self.proxies.client(peer, headers))
    }

    /// Authenticates the head, and has its connection record the result.
    async fn sender(
        &self,
        head: &request::Parts,
        body: &mut impl FromClient,
    ) -> Result<Option<Principal>, Refusal> {
        // On a public path nobody needs to be known.
        let identified = self.identify(head).await.inspect_err(|_| body.unidentified())?;
        let Some(principal) = identified else { return Ok(None) };
        // The address is needed only for clients that nothing else distinguishes.
        let client = if principal.is_anonymous() { self.client(body.peer(), &head.headers) } else { None };
        match body.identified(&principal, client) {
            Ok(()) => Ok(Some(principal)),
            Err(_) if is_public(head) => Ok(None),
            Err(refusal) => Err(Limit::SocketShare.met(refusal)),
        }
    }

    /// Authenticates the request and reads its body. If the credential is revoked while the body arrives, the request
    /// is refused.
    pub(super) async fn admit<B: Incoming + FromClient>(
        &self,
        head: &request::Parts,
        body: &mut B,
    ) -> Result<(Option<Principal>, Bytes), Refusal> {
        if !has_supported_transfer_coding(&head.headers, body) {
            return Err(Refusal::TransferCoding);
        }
        let Some(principal) = self.sender(head, body).await? else {
            // A request without a credential needs a body only if it is a form. A body that is not read
            // costs nothing: its connection ends after the answer.
            let limit = self.limit_of_form(head).filter(|_| head.method == Method::POST);
            let nobody = || Charge::open(Account::Nobody, ChargeKind::Request);
            let form = match limit {
                Some(limit) => body_budget::read(body, limit, nobody).await?,
                None => Bytes::new(),
            };
            return Ok((None, form));
        };
        let mut waited = false;
        let body = {
            let open = || Charge::open(Account::of(Some(principal.id())), ChargeKind::Request);
            let mut reading = pin!(body_budget::read(body, self.max_body_bytes, open));
            let body = poll_fn(|cx| {
                let body = reading.as_mut().poll(cx);
                waited |= body.is_pending();
                body
            });
            body.await?
        };
        // The check takes a lock, so it is skipped for a body that arrived at once.
        if waited && principal.is_revoked() {
            return Err(Refusal::Denied(Denied::Credential(Reason::Revoked)));
        }
        Ok((Some(principal), body))
    }

    /// Reads and drops what is left of a refused body, within limits. The head is dropped first, because a slow
    /// client must not make it stay. A client that waits for `100 Continue` (`Expect`) gets the refusal instead.
    pub(super) async fn discard<B: Incoming>(&self, head: request::Parts, mut body: B) {
        let is_sent = !head.headers.contains_key(EXPECT);
        drop(head);
        let nobody = || Charge::open(Account::Nobody, ChargeKind::Request);
        // A body that does not fit the memory budget is not read: its connection ends after the answer.
        if is_sent && let Ok(_trailers) = body_budget::trailers(&body, nobody) {
            let rest = drop_rest(&mut body, self.max_body_bytes);
            // The result does not matter: the answer is already decided.
            let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
        }
    }
}

/// Returns the host that the request is for: `Host`, or the authority of an absolute target. If both are present, they
/// must agree.
fn checked_host(parts: &request::Parts) -> Result<Authority, Refusal> {
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

/// Refuses a principal whose credential is for another endpoint than the requested one.
fn at_its_endpoint(parts: &request::Parts, principal: Principal) -> Result<Principal, Denied> {
    let reaches = principal.may_reach(parts.uri.path());
    if reaches { Ok(principal) } else { Err(Denied::Credential(Reason::Audience)) }
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
