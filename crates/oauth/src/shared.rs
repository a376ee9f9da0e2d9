//! The parts that all logins to one server share: its authorization server, the challenge, and requests for tokens.
//!
//! Invariants: every request with a credential has a client of [`Shared::client`], which knows where that credential may
//! be sent. A registration is saved when a login with it has succeeded; before that a few are in memory.
//!
//! Not here: the token of one principal (`account`), and how a person logs in (`logins`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::discovery::is_same_issuer;
use crate::held::ActiveLogin;
use crate::limits::bounded_scopes;
use crate::saved::{LoginStore, SavedLogin, add_registration};
use crate::{
    Challenge, Discovered, Error, Grant, KnownIssuers, OwnClient, Registration, Services, Settings,
    TokenClient, Tokens, union,
};
use net::http::Network;
use runtime::shutdown::Shutdown;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// Why nobody has a token before the first login.
pub(crate) const NO_LOGIN: &str = "nobody has logged in yet";

/// How long a logout without a login keeps new registrations.
const KEPT_FOR: Duration = Duration::from_mins(10);

/// The parts that all logins to one server share.
pub(crate) struct Shared {
    pub(crate) shelf: LoginStore,
    pub(crate) settings: Arc<Settings>,
    pub(crate) shutdown: Shutdown,
    issuers: KnownIssuers,
    /// Registrations with which no login has succeeded yet, and all where there is no vault.
    registrations: Mutex<Vec<Registration>>,
    /// When this process last registered. Locked during a registration, so that logins which start together share it.
    registered: AsyncMutex<Option<Instant>>,
    pub(crate) services: Services,
    challenge: Mutex<Option<Challenge>>,
    was_challenged: AtomicBool,
    /// How often the tokens of all logins changed.
    changes: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        shelf: LoginStore,
        settings: &Arc<Settings>,
        network: &Network,
        shutdown: Shutdown,
        issuers: KnownIssuers,
    ) -> Self {
        Self {
            services: Services::new(&shelf.url, &settings.operator_hosts(), network, &shutdown),
            settings: Arc::clone(settings),
            issuers,
            registrations: Mutex::default(),
            registered: AsyncMutex::default(),
            shelf,
            shutdown,
            challenge: Mutex::default(),
            was_challenged: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    /// Records that the tokens of a login changed. Call it after the change.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records the challenge of a server.
    pub(crate) fn record(&self, challenge: Option<Challenge>) {
        self.was_challenged.store(true, Ordering::Relaxed);
        if challenge.is_some() {
            *lock(&self.challenge) = challenge;
        }
    }

    pub(crate) fn was_challenged(&self) -> bool {
        self.was_challenged.load(Ordering::Relaxed)
    }

    async fn discovered(&self) -> Result<Discovered, Error> {
        let challenge = lock(&self.challenge).clone();
        let (url, settings) = (&self.shelf.url, &self.settings);
        let discovered = crate::discover(&self.services, url, challenge.as_ref(), settings).await?;
        self.issuers.compare(&self.shelf, settings, &discovered.server).map(|()| discovered)
    }

    /// Finds the authorization server and makes Switchyard known there, with `scopes` beside the usual ones.
    pub(crate) async fn known_at(
        &self,
        own: &OwnClient,
        scopes: &[String],
    ) -> Result<(Discovered, Registration), Error> {
        let mut discovered = self.discovered().await?;
        discovered.scopes = bounded_scopes(union(&discovered.scopes, scopes));
        let mut registered = self.registered.lock().await;
        let known = self.registration(&discovered.server.issuer, own.redirect_uri.as_str());
        let registration =
            crate::register(&self.services, &discovered, &self.settings, own, known.as_ref()).await?;
        if known.is_none_or(|known| !known.is(&registration)) {
            *registered = Some(Instant::now());
        }
        add_registration(&mut lock(&self.registrations), &registration);
        Ok((discovered, registration))
    }

    fn registration(&self, issuer: &str, redirect_uri: &str) -> Option<Registration> {
        let is_it = |known: &Registration| known.issuer == issuer && known.redirect_uri == redirect_uri;
        let in_memory = lock(&self.registrations).iter().find(|known| is_it(known)).cloned();
        in_memory.or_else(|| self.shelf.registrations().into_iter().find(is_it))
    }

    /// Saves `registration`, with which a login succeeded, unless the operator made it.
    pub(crate) async fn save_registration(&self, registration: &Registration) {
        if self.settings.client_id.is_none() {
            self.shelf.save_registration(registration).await;
        }
    }

    /// Returns why `login` is not renewed: the file names another authorization server by now.
    pub(crate) fn foreign(&self, login: &SavedLogin) -> Option<String> {
        let pinned = self.settings.issuer.as_deref()?;
        let issuer = &login.server.issuer;
        (!is_same_issuer(pinned, issuer)).then(|| {
            let (issuer, pinned) = (settings::one_line(issuer), settings::one_line(pinned));
            format!("the last login was at `{issuer}`, and `issuer` allows only `{pinned}`")
        })
    }

    /// Returns a new token in the place of `held`, with `scopes` beside the usual ones.
    pub(crate) async fn renewed(
        &self,
        held: Option<&ActiveLogin>,
        scopes: &[String],
    ) -> Result<SavedLogin, Error> {
        if self.settings.grant != Grant::AuthorizationCode {
            return self.of_machine(scopes).await;
        }
        let login = held.map(|held| &held.login).ok_or_else(|| Error::login_required(NO_LOGIN))?;
        let discovered = login.discovered();
        let client = self.client(&discovered, &login.registration).await?;
        let refreshed = crate::refresh(&client, &login.tokens).await;
        let tokens = self.known_or_forgotten(&login.registration, refreshed).await?;
        Ok(SavedLogin { tokens, ..login.clone() })
    }

    /// Forgets a registration that the authorization server does not know any more, unless the operator made it.
    pub(crate) async fn known_or_forgotten<T>(
        &self,
        registration: &Registration,
        answered: Result<T, Error>,
    ) -> Result<T, Error> {
        match answered {
            Err(Error::UnknownClient { reason }) if self.settings.client_id.is_none() => {
                self.forget_registrations(Some(registration)).await;
                Err(Error::LoginRequired { reason })
            }
            answered => answered,
        }
    }

    /// Forgets `registration`, or all registrations, so that the next login registers again. One that the operator made stays.
    pub(crate) async fn forget_registrations(&self, registration: Option<&Registration>) {
        if self.settings.client_id.is_some() {
            return;
        }
        lock(&self.registrations).retain(|known| registration.is_some_and(|gone| !known.is(gone)));
        self.shelf.remove_registrations(registration).await;
    }

    /// Forgets all registrations, unless this process registered a moment ago: somebody who only starts logins and ends them
    /// could otherwise fill the authorization server with clients.
    pub(crate) async fn forget_old_registrations(&self) {
        let registered = *self.registered.lock().await;
        if registered.is_none_or(|at| at.elapsed() >= KEPT_FOR) {
            self.forget_registrations(None).await;
        }
    }

    /// Returns the context of requests with a credential. Fails if the credential belongs to another issuer.
    pub(crate) async fn client<'a>(
        &'a self,
        discovered: &'a Discovered,
        registration: &'a Registration,
    ) -> Result<TokenClient<'a>, Error> {
        let (services, settings) = (&self.services, &*self.settings);
        let binding = self.issuers.bind(&self.shelf, settings, (&discovered.server, registration)).await?;
        Ok(TokenClient { services, discovered, registration, settings, binding })
    }

    /// Revokes the tokens of `login`, where the authorization server can do that (RFC 7009).
    pub(crate) async fn revoke(&self, login: &SavedLogin) -> Result<(), Error> {
        if let Some(reason) = self.foreign(login) {
            return Err(Error::refused(reason));
        }
        let discovered = login.discovered();
        let client = self.client(&discovered, &login.registration).await?;
        crate::revoke(&client, &login.tokens).await
    }

    /// Revokes the tokens of a login that nothing holds any more. A failure is logged.
    pub(crate) async fn revoke_deleted(&self, login: &SavedLogin) {
        if let Err(error) = self.revoke(login).await {
            tracing::warn!(server = %self.shelf.server, %error, "a token was deleted and could not be revoked");
        }
    }

    async fn of_machine(&self, scopes: &[String]) -> Result<SavedLogin, Error> {
        let mut discovered = self.discovered().await?;
        discovered.scopes = bounded_scopes(union(&discovered.scopes, scopes));
        // Nothing returns to a machine: it registers nothing, so this URL is never sent.
        let own = OwnClient { redirect_uri: self.shelf.url.clone(), client_metadata_url: None };
        let registration = crate::register(&self.services, &discovered, &self.settings, &own, None).await?;
        let client = self.client(&discovered, &registration).await?;
        let tokens = match self.settings.grant {
            Grant::JwtBearer => crate::jwt_bearer(&client).await?,
            Grant::AuthorizationCode | Grant::ClientCredentials => crate::client_credentials(&client).await?,
        };
        Ok(self.login(discovered, registration, tokens))
    }

    /// The result of a login.
    pub(crate) fn login(
        &self,
        discovered: Discovered,
        registration: Registration,
        tokens: Tokens,
    ) -> SavedLogin {
        let (resource, server) = (discovered.resource, discovered.server.for_renewal());
        SavedLogin { resource, server, registration, tokens, origin: self.shelf.origin() }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held, and every change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
