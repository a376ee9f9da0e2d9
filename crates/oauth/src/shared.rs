//! The parts that all logins to one server share: its authorization server, the challenge, and requests for tokens.
//!
//! Not here: the token of one principal (`account`), and how a person logs in (`logins`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use url::Url;

use crate::held::Held;
use crate::saved::{LoginStore, SavedLogin};
use crate::{
    Challenge, Discovered, Error, Grant, OwnClient, Registration, Services, Settings, TokenClient, union,
};
use runtime::shutdown::Shutdown;

/// Why nobody has a token before the first login.
pub(crate) const NO_LOGIN: &str = "nobody has logged in yet";

/// The parts that all logins to one server share.
pub(crate) struct Shared {
    pub(crate) shelf: LoginStore,
    pub(crate) settings: Arc<Settings>,
    pub(crate) shutdown: Shutdown,
    url: Url,
    pub(crate) services: Services,
    challenge: Mutex<Option<Challenge>>,
    was_challenged: AtomicBool,
    /// How often the tokens of all logins changed.
    changes: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        shelf: LoginStore,
        services: Services,
        url: &Url,
        settings: &Arc<Settings>,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            shelf,
            services,
            settings: Arc::clone(settings),
            url: url.clone(),
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
    pub(crate) fn note(&self, challenge: Option<Challenge>) {
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
        crate::discover(&self.services, &self.url, challenge.as_ref(), &self.settings).await
    }

    /// Finds the authorization server and makes Switchyard known there, with `scopes` beside the usual ones.
    pub(crate) async fn known_at(
        &self,
        own: &OwnClient,
        before: Option<&Held>,
        scopes: &[String],
    ) -> Result<(Discovered, Registration), Error> {
        let mut discovered = self.discovered().await?;
        discovered.scopes = union(&discovered.scopes, scopes);
        let known = match before.filter(|_| self.settings.client_id.is_some()) {
            Some(held) => Some(held.login.registration.clone()),
            None => self.shelf.registration(&discovered.server.issuer, own.redirect_uri.as_str()),
        };
        let registration =
            crate::register(&self.services, &discovered, &self.settings, own, known.as_ref()).await?;
        if self.settings.client_id.is_none() {
            self.shelf.save_registration(&registration).await;
        }
        Ok((discovered, registration))
    }

    /// Returns a new token in the place of `held`, with `scopes` beside the usual ones.
    pub(crate) async fn renewed(&self, held: Option<&Held>, scopes: &[String]) -> Result<SavedLogin, Error> {
        if self.settings.grant != Grant::AuthorizationCode {
            return self.of_machine(scopes).await;
        }
        let login = held.map(|held| &held.login).ok_or_else(|| Error::login_required(NO_LOGIN))?;
        let discovered = login.discovered();
        let client = self.client(&discovered, &login.registration);
        let refreshed = crate::refresh(&client, &login.tokens).await;
        let tokens = self.known_or_forgotten(&login.registration, refreshed).await?;
        Ok(SavedLogin { tokens, ..login.clone() })
    }

    /// Forgets a registration that the authorization server does not know any more, unless the operator made it. The
    /// next login registers again.
    pub(crate) async fn known_or_forgotten<T>(
        &self,
        registration: &Registration,
        answered: Result<T, Error>,
    ) -> Result<T, Error> {
        match answered {
            Err(Error::UnknownClient { reason }) if self.settings.client_id.is_none() => {
                self.shelf.remove_registration(registration).await;
                Err(Error::LoginRequired { reason })
            }
            answered => answered,
        }
    }

    pub(crate) fn client<'a>(
        &'a self,
        discovered: &'a Discovered,
        registration: &'a Registration,
    ) -> TokenClient<'a> {
        TokenClient { services: &self.services, discovered, registration, settings: &self.settings }
    }

    async fn of_machine(&self, scopes: &[String]) -> Result<SavedLogin, Error> {
        let mut discovered = self.discovered().await?;
        discovered.scopes = union(&discovered.scopes, scopes);
        // Nothing returns to a machine: it registers nothing, so this URL is never sent.
        let own = OwnClient { redirect_uri: self.url.clone(), client_metadata_url: None };
        let registration = crate::register(&self.services, &discovered, &self.settings, &own, None).await?;
        let client = self.client(&discovered, &registration);
        let tokens = match self.settings.grant {
            Grant::JwtBearer => crate::jwt_bearer(&client).await?,
            Grant::AuthorizationCode | Grant::ClientCredentials => crate::client_credentials(&client).await?,
        };
        let Discovered { resource, server, .. } = discovered;
        Ok(SavedLogin { resource, server, registration, tokens })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held, and every change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
