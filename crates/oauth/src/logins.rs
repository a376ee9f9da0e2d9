//! The logins to one server: who is logged in, and the way of a person to a login and out of it.
//!
//! ```text
//! start ── discovery, registration ──► Consent (a URL for the browser) ── the person agrees ──► finish ──► Account
//! ```
//!
//! Invariants: a started login belongs to one principal, works once, and ends after ten minutes. At most
//! [`MAX_STARTED`] are kept, and the oldest one of the same principal makes room first. Credentials that the operator
//! registered at one authorization server are sent to no other.
//!
//! Not here: browsers and pages (`downstream`), the token of one principal (`account`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use auth::vault::Vault;
use secrecy::SecretString;
use tokio::time::Instant;
use url::Url;
use uuid::Uuid;

use crate::account::Account;
use crate::authorization::check_issuer;
use crate::config::ResourceParameter;
use crate::failed_logins::{FailedLogin, FailedLogins};
use crate::saved::LoginStore;
use crate::shared::{Shared, lock};
use crate::token::resource_parameter;
use crate::{
    AuthorizationRequest, AuthorizationResponse, Discovered, Error, Grant, KnownIssuers, OwnClient, Per,
    Pkce, Registration, Settings,
};
use net::http::Network;
use runtime::shutdown::Shutdown;

/// Time for a person to log in.
pub const LOGIN_TIME: Duration = Duration::from_mins(10);
/// Limit of logins to one server that were started and not finished.
const MAX_STARTED: usize = 256;
/// Limit of those of one principal.
const MAX_STARTED_BY_ONE: usize = 4;
/// Limit of principals whose login is in memory. Others are read from the vault again.
const MAX_ACCOUNTS: usize = 10_000;

/// Where logins are kept, and the group of their tasks.
#[derive(Clone)]
pub struct Place {
    /// The vault; without one a login ends with the process.
    pub vault: Option<Arc<Vault>>,
    /// The way to the server and to its authorization servers.
    pub network: Network,
    /// The issuers of credentials, as far as this process knows them.
    pub issuers: KnownIssuers,
    /// The group of all tasks.
    pub shutdown: Shutdown,
}

/// The logins to one server.
pub struct Logins {
    shared: Arc<Shared>,
    accounts: Mutex<HashMap<Option<Arc<str>>, Arc<Account>>>,
    /// Those that ended, whose tokens running requests may carry.
    ended: Mutex<Vec<Weak<Account>>>,
    started: Mutex<HashMap<Pending, Started>>,
    failures: FailedLogins,
}

/// A login that a person was sent to.
struct Started {
    principal: Arc<str>,
    since: Instant,
    discovered: Discovered,
    registration: Registration,
    pkce: Pkce,
}

/// The facts that a person agrees to before a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// The page of the authorization server, with the sealed state.
    pub authorization_url: Url,
    /// The authorization server.
    pub issuer: String,
    /// The scopes that are asked for.
    pub scopes: Vec<String>,
}

/// A reference to a started login, for the sealed `state` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pending(Uuid);

impl Pending {
    /// Reads the text of a reference.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::parse_str(text).ok().map(Self)
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether somebody is logged in to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginState {
    /// There is a token.
    LoggedIn,
    /// A person has to log in.
    LoginRequired,
    /// The server was not seen to demand a login.
    NotRequired,
}

/// The login of one principal, for people and without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatus {
    /// Whether there is a login.
    pub state: LoginState,
    /// The account, if the authorization server named it.
    pub account: Option<String>,
    /// The scopes of the token.
    pub scopes: Vec<String>,
    /// When the token ends; it is renewed before.
    pub expires_at: Option<SystemTime>,
    /// Why a login is required.
    pub reason: Option<String>,
    /// Why the last attempt of the principal to log in failed; `None` after a success.
    pub failure: Option<FailedLogin>,
    /// Whether all principals share the login.
    pub per: Per,
}

impl Logins {
    /// The logins to the server `name` at `url`.
    pub fn new(name: &Arc<str>, url: &Url, settings: &Arc<Settings>, place: Place) -> Arc<Self> {
        let Place { vault, network, issuers, shutdown } = place;
        let shelf = LoginStore { vault, server: Arc::clone(name), url: url.clone() };
        let shared = Shared::new(shelf, settings, &network, shutdown, issuers);
        Arc::new(Self {
            shared: Arc::new(shared),
            accounts: Mutex::default(),
            ended: Mutex::default(),
            started: Mutex::default(),
            failures: FailedLogins::default(),
        })
    }

    /// The principals that use one login.
    pub fn per(&self) -> Per {
        self.shared.settings.per
    }

    /// Whether each principal has a login of its own.
    pub fn is_per_principal(&self) -> bool {
        self.per() == Per::Principal
    }

    /// Whether a person logs in, and not a machine.
    pub fn is_interactive(&self) -> bool {
        self.shared.settings.grant == Grant::AuthorizationCode
    }

    /// The login that requests of `principal` use.
    pub fn account(&self, principal: Option<&Arc<str>>) -> Arc<Account> {
        let key = principal.filter(|_| self.is_per_principal()).cloned();
        let mut accounts = lock(&self.accounts);
        if let Some(account) = accounts.get(&key) {
            return Arc::clone(account);
        }
        if accounts.len() >= MAX_ACCOUNTS {
            // Those in use stay with their connections.
            accounts.retain(|_, account| Arc::strong_count(account) > 1);
        }
        let account = Account::new(Arc::clone(&self.shared), key.clone());
        accounts.insert(key, Arc::clone(&account));
        self.shared.changed();
        account
    }

    /// Starts the login of `principal`. The `state` of the URL is what `seal` returns.
    pub async fn start(
        &self,
        principal: &Arc<str>,
        own: &OwnClient,
        seal: impl FnOnce(&Pending) -> String,
    ) -> Result<Consent, Error> {
        let started = self.begin(principal, own, seal).await;
        self.failures.record(principal, started.as_ref().err());
        started
    }

    async fn begin(
        &self,
        principal: &Arc<str>,
        own: &OwnClient,
        seal: impl FnOnce(&Pending) -> String,
    ) -> Result<Consent, Error> {
        let shared = &self.shared;
        if !self.is_interactive() {
            return Err(Error::refused("the server is configured with a grant for machines: nobody logs in"));
        }
        let missing = self.account(Some(principal)).missing_scopes();
        let (mut discovered, registration) = shared.known_at(own, &missing).await?;
        let (pending, pkce) = (Pending(Uuid::new_v4()), Pkce::new());
        let (state, scopes) = (seal(&pending), discovered.scopes.clone());
        let resource = resource_parameter(&shared.services, &shared.settings, &discovered);
        let request =
            AuthorizationRequest { scopes: &scopes, state: &state, challenge: pkce.challenge(), resource };
        let authorization_url = crate::authorization_url(&discovered, &registration, &request)?;
        let issuer = discovered.server.issuer.clone();
        // Metadata is larger than the part of it that is needed from here on.
        discovered.server = discovered.server.for_renewal();
        let (principal, since) = (Arc::clone(principal), Instant::now());
        self.keep(pending, Started { principal, since, discovered, registration, pkce });
        Ok(Consent { authorization_url, issuer, scopes })
    }

    /// Finishes the login that `principal` started, with what the authorization server gave its browser.
    pub async fn finish(
        &self,
        principal: &Arc<str>,
        pending: Pending,
        response: &AuthorizationResponse,
    ) -> Result<LoginStatus, Error> {
        let finished = self.exchange(principal, pending, response).await;
        self.failures.record(principal, finished.as_ref().err());
        finished.map(|()| self.status(Some(principal)))
    }

    async fn exchange(
        &self,
        principal: &Arc<str>,
        pending: Pending,
        response: &AuthorizationResponse,
    ) -> Result<(), Error> {
        let Started { discovered, registration, pkce, .. } = self.take(principal, pending)?;
        let promises_iss = discovered.server.authorization_response_iss_parameter_supported;
        let code = response.check(&discovered.server.issuer, promises_iss)?;
        let client = self.shared.client(&discovered, &registration).await?;
        let exchanged = crate::exchange_code(&client, code, pkce.verifier(), &discovered.scopes).await;
        let tokens = self.shared.known_or_forgotten(&registration, exchanged).await?;
        self.shared.save_registration(&registration).await;
        let login = self.shared.login(discovered, registration, tokens);
        self.account(Some(principal)).log_in(login).await
    }

    /// Ends the login that `principal` started, which was answered with an error. Returns an error if the answer is not
    /// from the authorization server of that login.
    pub fn abandon(
        &self,
        principal: &Arc<str>,
        pending: Pending,
        response: &AuthorizationResponse,
    ) -> Result<(), Error> {
        let server = self.take(principal, pending)?.discovered.server;
        let promises_iss = server.authorization_response_iss_parameter_supported;
        check_issuer(response.iss.as_deref(), &server.issuer, promises_iss)?;
        let error = response.error.as_deref().unwrap_or_default();
        if error == "invalid_target" && self.shared.settings.resource == ResourceParameter::Discovered {
            self.shared.services.omit_resource_at(&server.issuer);
        }
        self.failures.record(principal, Some(&response.failed(error)));
        Ok(())
    }

    fn take(&self, principal: &Arc<str>, pending: Pending) -> Result<Started, Error> {
        let started = lock(&self.started).remove(&pending);
        let started = started.filter(|started| started.principal == *principal && !started.is_over());
        started.ok_or_else(|| {
            Error::refused(
                "this login was finished already, was started by somebody else, or is too old; start again",
            )
        })
    }

    /// Logs `principal` out, or everybody where all share one login. The token is deleted here first, then revoked where
    /// the authorization server can do that (RFC 7009). The registration is forgotten too, unless another login of this process
    /// has it. Without a login, all old registrations are. An authorization server that does not know one any more tells only
    /// the person, so a logout is the way to a new one.
    pub async fn log_out(&self, principal: Option<&Arc<str>>) -> Result<(), Error> {
        let account = self.account(principal);
        let forgotten = account.forget("the last login was ended by a logout").await;
        let held = forgotten.map_err(|error| Error::refused(error.to_string()))?;
        let Some(held) = held else {
            self.shared.forget_old_registrations().await;
            return Ok(());
        };
        self.shared.revoke_deleted(&held.login).await;
        let registration = &held.login.registration;
        if !self.has_login_with(registration) {
            self.shared.forget_registrations(Some(registration)).await;
        }
        Ok(())
    }

    fn has_login_with(&self, registration: &Registration) -> bool {
        let accounts = lock(&self.accounts);
        let mut held = accounts.values().filter_map(|account| account.held());
        held.any(|held| held.login.registration.is(registration))
    }

    /// Ends the own login of `principal` in memory, because its credential may have another holder. The vault says whether
    /// that one is logged in.
    pub fn end_in_memory(&self, principal: &str) {
        let key = Some(Arc::from(principal));
        if let Some(account) = lock(&self.accounts).remove(&key) {
            account.end();
            let mut ended = lock(&self.ended);
            ended.retain(|account| account.strong_count() > 0);
            ended.push(Arc::downgrade(&account));
            self.shared.changed();
        }
    }

    /// Returns the revocation of the login that `principal` has now, where the authorization server can do that (RFC 7009).
    /// `None` without a login. The login itself stays.
    pub fn revocation(
        self: &Arc<Self>,
        principal: &Arc<str>,
    ) -> Option<impl Future<Output = Result<(), Error>> + Send + use<>> {
        let held = self.account(Some(principal)).held()?;
        let logins = Arc::clone(self);
        Some(async move { logins.shared.revoke(&held.login).await })
    }

    /// The login of `principal`.
    pub fn status(&self, principal: Option<&Arc<str>>) -> LoginStatus {
        let account = self.account(principal);
        let (held, required) = (account.held(), account.required());
        let state = match (&held, &required) {
            (_, Some(_)) => LoginState::LoginRequired,
            (Some(_), None) => LoginState::LoggedIn,
            (None, None) if self.shared.was_challenged() => LoginState::LoginRequired,
            (None, None) => LoginState::NotRequired,
        };
        let tokens = held.as_ref().map(|held| &held.login.tokens);
        LoginStatus {
            state,
            account: tokens.and_then(|tokens| tokens.account.clone()),
            scopes: tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default(),
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            reason: required.map(|reason| reason.to_string()),
            failure: principal.and_then(|principal| self.failures.of(principal)),
            per: self.shared.settings.per,
        }
    }

    /// Changes whenever [`Logins::secrets`] does. Read it before the secrets.
    pub fn changes(&self) -> u64 {
        self.shared.changes()
    }

    /// All tokens in memory, which are redacted from texts of the server.
    pub fn secrets(&self) -> Vec<SecretString> {
        let mut accounts: Vec<_> = lock(&self.accounts).values().cloned().collect();
        accounts.extend(lock(&self.ended).iter().filter_map(Weak::upgrade));
        accounts.iter().flat_map(|account| account.secrets()).collect()
    }

    fn keep(&self, id: Pending, login: Started) {
        let mut started = lock(&self.started);
        started.retain(|_, other| !other.is_over());
        let of_one = |other: &Started| other.principal == login.principal;
        if started.values().filter(|other| of_one(other)).count() >= MAX_STARTED_BY_ONE {
            remove_oldest(&mut started, of_one);
        } else if started.len() >= MAX_STARTED {
            remove_oldest(&mut started, |_| true);
        }
        started.insert(id, login);
    }
}

fn remove_oldest(started: &mut HashMap<Pending, Started>, is_meant: impl Fn(&Started) -> bool) {
    let oldest = started.iter().filter(|(_, login)| is_meant(login)).min_by_key(|(_, login)| login.since);
    if let Some(id) = oldest.map(|(id, _)| *id) {
        started.remove(&id);
    }
}

impl Started {
    fn is_over(&self) -> bool {
        self.since.elapsed() >= LOGIN_TIME
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").field("server", &self.shared.shelf.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "login_limits_tests.rs"]
mod login_limits_tests;
#[cfg(test)]
#[path = "shared_vault_tests.rs"]
mod shared_vault_tests;
#[cfg(test)]
#[path = "logins_tests.rs"]
mod tests;
