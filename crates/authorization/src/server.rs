//! The authorization server: each endpoint as a function.
//!
//! ```text
//! authorize ──► Consent ── the person agrees ──► approve ──► code ── token ──► access token, refresh token
//! ```
//!
//! Invariants: a client is looked up only for a person who is signed in, or for the holder of a code or token of this
//! server. A grant changes in one write. If that is lost to another request, the request is judged again.
//!
//! Not here: HTTP, pages, and who is signed in.

use std::sync::Arc;
use std::time::SystemTime;

use auth::vault::Vault;
use auth::{Principal, Role, TokenIssuer};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use json::Raw;
use jsonwebtoken::DecodingKey;
use net::http::Network;
use runtime::shutdown::Shutdown;
use runtime::telemetry::RequestId;
use runtime::telemetry::limit::Limit;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::access::{Access, Host, RequestedAccess};
use crate::authorization_request::{AuthorizationError, AuthorizationRequest};
use crate::client::Client;
use crate::clients::{Clients, client_host};
use crate::error::{Code, Error};
use crate::fetch::Fetcher;
use crate::grant::{Grant, GrantEnd, GrantedPerson, Step, TokenFamily};
use crate::grants::Grants;
use crate::keys::{KeyEntries, KeyError, KeyRing, Keys};
use crate::metadata::{REGISTER, TOKEN, metadata};
use crate::records::Records;
use crate::redirect_uri::Receiver;
use crate::registration::{self, Registrations};
use crate::request_counts::{Answer, CountedEndpoint, CountedStore, RequestCounts};
use crate::store::{Store, StoreError, Table};
use crate::token_request::{Credential, Fields, TokenRequest, TokenResponse};
use crate::{access_token, resource, seconds};

/// How often a request is judged again after another one changed its grant.
const MAX_TURNS: usize = 8;
/// Seconds after which a request may be repeated if the keys cannot be read.
const KEYS_RETRY: u64 = 30;

/// The configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The public URL of the gateway, without a trailing slash: the issuer.
    pub issuer: String,
    /// Whether clients may register themselves.
    pub registers: bool,
    /// The clients of the operator's file.
    pub clients: Vec<Client>,
    /// Hosts whose documents may be at any address, and whose clients need no warning. Each names one port: 443, unless it
    /// ends with another one.
    pub trusted_hosts: Vec<String>,
}

/// The parts of the gateway that the server uses.
pub struct Parts {
    /// Holds the keys, or seals them if the store is shared.
    pub vault: Arc<Vault>,
    /// Holds grants and registrations.
    pub store: Arc<dyn Store>,
    /// The gateway.
    pub host: Arc<dyn Host>,
    /// The way to the documents of clients.
    pub network: Network,
    /// The group of all tasks.
    pub shutdown: Shutdown,
}

/// The question to a person before a client gets access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The request, which the page carries.
    pub request: AuthorizationRequest,
    /// The name that the client chose for itself.
    pub client_name: Option<String>,
    /// The host that vouches for the client, if one does.
    pub client_host: Option<String>,
    /// The receiver of the answer.
    pub receiver: Receiver,
    /// The access that the client gets.
    pub access: Access,
    /// The endpoint that it gets access to.
    pub resource: String,
    /// Whether the operator has vouched for the client.
    pub is_trusted: bool,
    /// Whether the person has agreed to as much before, for the same client and web site. The choices are remembered, and not
    /// the decision: another one is needed for each code, as anybody may have begun the request.
    pub is_remembered: bool,
}

/// The authorization server of one gateway.
pub struct AuthorizationServer {
    pub(crate) config: Config,
    token_endpoint: String,
    pub(crate) keys: Arc<Keys>,
    pub(crate) clients: Clients,
    pub(crate) grants: Grants,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) counts: Arc<RequestCounts>,
}

impl AuthorizationServer {
    /// Opens the server. Its keys are made if there are none. [`AuthorizationServer::follow_removals`] has to run then.
    pub async fn open(mut config: Config, parts: Parts, now: SystemTime) -> Result<Self, KeyError> {
        let Parts { vault, store, host, network, shutdown } = parts;
        let counts = Arc::<RequestCounts>::default();
        let store: Arc<dyn Store> = Arc::new(CountedStore { store, counts: Arc::clone(&counts) });
        let entries = KeyEntries::new(vault, &store, &config.issuer);
        let keys = Arc::new(Keys::open(entries, seconds(now)).await?);
        let registrations = Registrations::new(Records::new(&store, &keys, Table::Clients));
        let fetcher = Fetcher::new(&network, &config.trusted_hosts, &shutdown);
        Ok(Self {
            token_endpoint: format!("{}{TOKEN}", config.issuer),
            grants: Grants::new(&store, &keys, &host),
            keys,
            clients: Clients::new(std::mem::take(&mut config.clients), registrations, fetcher),
            host,
            config,
            counts,
        })
    }

    /// How requests were answered since the start.
    pub fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    /// The metadata (RFC 8414).
    pub fn metadata(&self) -> Value {
        metadata(&self.config.issuer, self.config.registers)
    }

    /// The public keys.
    pub async fn key_set(&self, now: SystemTime) -> Result<Value, Error> {
        Ok(self.keys(seconds(now)).await?.published.clone())
    }

    /// Judges the authorization request in `query`, for the person who is signed in as `owner`.
    pub async fn authorize(
        &self,
        owner: &Principal,
        query: &str,
        now: SystemTime,
    ) -> Result<Consent, AuthorizationError> {
        let judged = self.judge(owner, query, now).await;
        self.count_authorization(judged.as_ref().map(|_| Answer::Shown));
        judged
    }

    async fn judge(
        &self,
        owner: &Principal,
        query: &str,
        now: SystemTime,
    ) -> Result<Consent, AuthorizationError> {
        let (fields, now) =
            (Fields::parse(query.as_bytes()).map_err(AuthorizationError::Shown)?, seconds(now));
        let id = fields.require("client_id").map_err(AuthorizationError::Shown)?;
        let client = self.clients.find(id, owner.id(), now).await.map_err(AuthorizationError::Shown)?;
        let judged = self.judge_client(owner, &client, &fields, now).await;
        let Err(error @ AuthorizationError::Redirected { .. }) = judged else { return judged };
        let uri = fields.get("redirect_uri").ok().flatten().unwrap_or_default();
        let Some(registered) = client.metadata.allows_redirect_to(uri) else { return Err(error) };
        if self.clients.is_trusted(client.source, id) || self.has_agreed(owner, id, uri, now).await {
            return Err(error);
        }
        Err(error.offered(registered.receiver()))
    }

    /// Whether `owner` has a grant to `client`, and the code went to `redirect_uri`.
    async fn has_agreed(&self, owner: &Principal, client: &str, redirect_uri: &str, now: u64) -> bool {
        let grants = self.grants.list(Some(owner.id()), now).await.unwrap_or_default();
        grants.iter().any(|(_, grant)| grant.client == client && grant.redirect_uri == redirect_uri)
    }

    async fn judge_client(
        &self,
        owner: &Principal,
        client: &Client,
        fields: &Fields,
        now: u64,
    ) -> Result<Consent, AuthorizationError> {
        let (id, issuer) = (&*client.id, &self.config.issuer);
        let request = AuthorizationRequest::read(fields, client, issuer, &*self.host)?;
        let access = self.access(owner, &request)?;
        let remembered = self.is_remembered(owner, &request, &access, now).await;
        Ok(Consent {
            client_name: request.client_name.clone(),
            client_host: client_host(id),
            receiver: request.receiver.clone(),
            access,
            resource: request.resource.clone(),
            is_trusted: self.clients.is_trusted(client.source, id),
            is_remembered: remembered.map_err(|error| request.refused(error.into(), issuer))?,
            request,
        })
    }

    /// Gives the client a code, because `owner` agreed to `request`. Returns where the browser goes.
    pub async fn approve(
        &self,
        owner: &Principal,
        request: &AuthorizationRequest,
        now: SystemTime,
    ) -> Result<String, AuthorizationError> {
        let approved = self.add_grant(owner, request, now).await;
        self.count_authorization(approved.as_ref().map(|_| Answer::Granted));
        approved
    }

    async fn add_grant(
        &self,
        owner: &Principal,
        request: &AuthorizationRequest,
        now: SystemTime,
    ) -> Result<String, AuthorizationError> {
        let (access, now) = (self.access(owner, request)?, seconds(now));
        let grant = Grant {
            owner: owner.id().to_string(),
            credential: self.host.credential(owner.id()),
            client: request.client.clone(),
            source: request.source,
            client_name: request.client_name.clone(),
            redirect_uri: request.redirect_uri.clone(),
            resource: request.resource.clone(),
            access,
            refreshes: request.refreshes,
            authenticates: request.authenticates,
            person: GrantedPerson::of(owner),
            made: now,
            family: TokenFamily::new(request.challenge.clone()),
        };
        let added = async {
            let (registrations, client) = (&self.clients.registrations, &grant.client);
            let removed = || Error::new(Code::InvalidClient, "the client is not registered here any more");
            if registration::is_id(client) && !registrations.agreed(client, now).await? {
                return Err(removed());
            }
            let id = self.grants.add(&grant, now).await?;
            // Somebody may have removed the client meanwhile, before it had this grant.
            if registration::is_id(client) && registrations.find(client, now).await?.is_none() {
                self.grants.end(&id).await?;
                return Err(removed());
            }
            Ok(id)
        };
        let id = added.await.map_err(|error| request.refused(error, &self.config.issuer))?;
        Ok(request.granted(&grant.code(&id), &self.config.issuer))
    }

    /// Returns where the browser goes if the person refuses `request`.
    pub fn deny(&self, request: &AuthorizationRequest) -> AuthorizationError {
        let denied =
            request.refused(Error::new(Code::AccessDenied, "the person refused"), &self.config.issuer);
        self.count_authorization(Err(&denied));
        denied
    }

    fn count_authorization(&self, answered: Result<Answer, &AuthorizationError>) {
        self.count(CountedEndpoint::Authorize, answered.map_err(AuthorizationError::error));
    }

    pub(crate) fn count(&self, endpoint: CountedEndpoint, answered: Result<Answer, &Error>) {
        match answered {
            Ok(answer) => self.counts.answered(answer),
            Err(error) => self.counts.refused(endpoint, error.code),
        }
    }

    /// Answers the request `id` to the token endpoint with `form`.
    pub async fn token(&self, form: &[u8], id: RequestId, now: SystemTime) -> Result<TokenResponse, Error> {
        let exchanged = self.exchange(form, id, seconds(now)).await;
        self.count(CountedEndpoint::Token, exchanged.as_ref().map(|(answer, _)| *answer));
        exchanged.map(|(_, response)| response)
    }

    async fn exchange(&self, form: &[u8], id: RequestId, now: u64) -> Result<(Answer, TokenResponse), Error> {
        let request = TokenRequest::parse(form)?;
        let answer = match request.credential {
            Credential::Code { .. } => Answer::Issued,
            Credential::Refresh(_) => Answer::Refreshed,
        };
        for _ in 0..MAX_TURNS {
            if let Some(response) = self.token_once(&request, id, now).await? {
                return Ok((answer, response));
            }
        }
        Err(Error::later("too many requests with one token at once", 1))
    }

    /// Registers the client that `json` describes. The answer has the token that manages the registration.
    pub async fn register(&self, json: &Raw, now: SystemTime) -> Result<Value, Error> {
        let registered = self.add_registration(json, seconds(now)).await;
        self.count(CountedEndpoint::Register, registered.as_ref().map(|_| Answer::Registered));
        registered
    }

    async fn add_registration(&self, json: &Raw, now: u64) -> Result<Value, Error> {
        if !self.config.registers {
            return Err(Error::new(Code::InvalidRequest, "clients cannot register here"));
        }
        let with_grants = async || self.grants.clients(now).await;
        let (id, answer, token) = self.clients.registrations.add(json, with_grants, now).await?;
        Ok(self.managed(answer, &id, &token))
    }

    /// Returns the registration `id` for the holder of its token.
    pub async fn registration(
        &self,
        id: &str,
        token: &SecretString,
        now: SystemTime,
    ) -> Result<Value, Error> {
        let answer = self.clients.registrations.read(id, token, seconds(now)).await?;
        Ok(self.managed(answer, id, token))
    }

    /// Removes the registration `id` for the holder of its token, with all grants of the client.
    pub async fn unregister(&self, id: &str, token: &SecretString, now: SystemTime) -> Result<(), Error> {
        self.registration(id, token, now).await?;
        self.remove_client(id, now).await?;
        Ok(())
    }

    /// Adds where and with which token the registration `id` is managed (RFC 7592, section 3).
    fn managed(&self, mut answer: Value, id: &str, token: &SecretString) -> Value {
        answer["registration_client_uri"] = format!("{}{REGISTER}/{id}", self.config.issuer).into();
        answer["registration_access_token"] = token.expose_secret().into();
        answer
    }

    /// Judges `request` once. `None` says that another request changed the grant meanwhile.
    async fn token_once(
        &self,
        request: &TokenRequest,
        id: RequestId,
        now: u64,
    ) -> Result<Option<TokenResponse>, Error> {
        let presented = request.presented();
        let found = self.grants.find(&presented.grant).await?;
        let Some(stored) = found.filter(|stored| stored.value.has_made(presented)) else {
            return Err(self.unknown_grant(request, now).await?);
        };
        let grant = &stored.value;
        self.clients.check(&request.client, grant, self.audiences(), now).await?;
        self.check_place(request, grant)?;
        let (step, scope) = match &request.credential {
            Credential::Code { code, verifier } => (grant.redeem(code, verifier, now), None),
            Credential::Refresh(token) => (grant.refresh(token, now), request.scope.as_deref()),
        };
        let next = match step {
            Step::Wait(seconds) => {
                let reason = "the client refreshes the tokens of this login too often; try again later";
                return Err(Limit::GrantRate.met(Error::too_many(reason, seconds)));
            }
            Step::Refuse(reason) => return Err(Error::new(Code::InvalidGrant, reason)),
            Step::End(end) => return Err(self.ended(&presented.grant, grant, end, id).await?),
            Step::Repeat => None,
            Step::Advance(next) => Some(next),
        };
        let Some(access) = self.grants.rights(grant).and_then(|rights| grant.access.within(&rights)) else {
            return Err(self.ended(&presented.grant, grant, GrantEnd::NoAccess, id).await?);
        };
        let access = RequestedAccess::parse(scope)?.narrowed(&access)?;
        let keys = self.keys(now).await?;
        let response =
            self.response(&keys, &presented.grant, next.as_deref().unwrap_or(grant), &access, now)?;
        let is_written = match &next {
            Some(next) => self.grants.advance(&presented.grant, &stored, next).await?,
            None => true,
        };
        Ok(is_written.then_some(response))
    }

    /// The tokens of the present step of `grant`.
    fn response(
        &self,
        keys: &KeyRing,
        id: &str,
        grant: &Grant,
        access: &Access,
        now: u64,
    ) -> Result<TokenResponse, Error> {
        let signed = access_token::sign(keys, &self.config.issuer, id, grant, access);
        let failed = || Error::later("no token can be signed now", KEYS_RETRY);
        let (access_token, expires) = signed.ok_or_else(failed)?;
        Ok(TokenResponse {
            access_token,
            expires_in: expires.saturating_sub(now),
            refresh_token: grant.refresh_token(id),
            scope: access.scope(),
        })
    }

    /// Checks that `request` names the redirect URI and the resource of `grant`, if it names any.
    fn check_place(&self, request: &TokenRequest, grant: &Grant) -> Result<(), Error> {
        if request.redirect_uri.as_ref().is_some_and(|uri| *uri != grant.redirect_uri) {
            return Err(Error::new(Code::InvalidGrant, "`redirect_uri` is not the one that got the code"));
        }
        // Also if the server or view does not exist for a while.
        let Some(named) = request.resource.as_deref().filter(|named| *named != grant.resource) else {
            return Ok(());
        };
        let named = resource::find(Some(named), &self.config.issuer, &*self.host)?;
        if named.identifier == grant.resource {
            return Ok(());
        }
        Err(Error::new(Code::InvalidTarget, "`resource` is not the one that the person agreed to"))
    }

    /// The error for a code or token that no grant has made. A client whose registration is gone has to register again.
    async fn unknown_grant(&self, request: &TokenRequest, now: u64) -> Result<Error, Error> {
        if let Some(id) = request.client.id()?.filter(|id| registration::is_id(id)) {
            // A registration is in the store, and nothing is fetched.
            self.clients.find(id, id, now).await?;
        }
        Ok(Error::new(Code::InvalidGrant, "the code or refresh token is not known, or its login was revoked"))
    }

    fn access(
        &self,
        owner: &Principal,
        request: &AuthorizationRequest,
    ) -> Result<Access, AuthorizationError> {
        let refused = |reason| request.refused(Error::new(Code::AccessDenied, reason), &self.config.issuer);
        if !self.host.may_agree(owner.id()) {
            return Err(refused(
                "the credential of the sign-in is of a kind that agrees to no login of a client",
            ));
        }
        let access = request.requested.granted(&Access::of(owner));
        access.ok_or_else(|| refused("the person has no access to this view"))
    }

    /// Whether `owner` has a grant that covers `request`, and the client does not want another question. An answer that a
    /// program on the machine receives is never remembered: any program could ask for it (RFC 8252, section 8.6).
    async fn is_remembered(
        &self,
        owner: &Principal,
        request: &AuthorizationRequest,
        access: &Access,
        now: u64,
    ) -> Result<bool, StoreError> {
        if request.asks_again || !matches!(request.receiver, Receiver::Site(_)) {
            return Ok(false);
        }
        let grants = self.grants.list(Some(owner.id()), now).await?;
        Ok(grants.iter().any(|(_, grant)| {
            grant.client == request.client
                && grant.redirect_uri == request.redirect_uri
                && grant.resource == request.resource
                && grant.step().is_some()
                && access.within(&grant.access).as_ref() == Some(access)
        }))
    }

    pub(crate) async fn keys(&self, now: u64) -> Result<Arc<KeyRing>, Error> {
        self.keys.at(now).await.map_err(|error| {
            tracing::error!(%error, "the authorization server refuses a request");
            Error::later("the keys of the authorization server cannot be read now", KEYS_RETRY)
        })
    }

    /// The audiences that an assertion of a client may name.
    pub(crate) fn audiences(&self) -> [&str; 2] {
        [&self.config.issuer, &self.token_endpoint]
    }
}

impl TokenIssuer for AuthorizationServer {
    fn issuer(&self) -> &str {
        &self.config.issuer
    }

    fn key(&self, kid: &str) -> Option<DecodingKey> {
        self.keys.verifying(kid)
    }

    fn knows_keys(&self) -> bool {
        self.keys.are_known()
    }

    fn may_grant(&self, owner: &str, role: Role) -> bool {
        self.grants.role(owner).is_some_and(|most| role <= most)
    }

    fn has_grant<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        async move {
            let exists = self.grants.exists(id, seconds(SystemTime::now())).await;
            exists.inspect_err(|error| tracing::error!(%error, "tokens cannot be checked")).ok()
        }
        .boxed()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "document_flow_tests.rs"]
mod document_flow_tests;

#[cfg(test)]
#[path = "token_check_tests.rs"]
mod token_check_tests;

#[cfg(test)]
#[path = "grant_end_tests.rs"]
mod grant_end_tests;
