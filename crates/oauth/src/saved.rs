//! The form in which the vault keeps tokens and registrations.
//!
//! Invariants: a token is kept together with the authorization server and the registration that it came from, so that
//! it is renewed there and nowhere else. A token goes to the origin of its server only. A value of another form that
//! cannot be read counts as no value. A server has one entry for each login and two more, however many registrations
//! its logins made.
//!
//! Not here: sealing and files (`auth::vault`).

use std::sync::Arc;
use std::time::Duration;

use auth::vault::{Entry, EntryKind, Lease, Vault};
use secrecy::ExposeSecret;
use secrecy::zeroize::Zeroizing;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{AuthorizationServer, Discovered, Error, Registration, Tokens};

/// The longest wait for a renewal by another process: longer than a request for a token takes.
const LEASE_WAIT: Duration = Duration::from_secs(20);

/// Limit of registrations for one server. It needs one for each URL at which browsers reach Switchyard.
const MAX_REGISTRATIONS: usize = 4;

/// The result of one login.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SavedLogin {
    /// The identifier of the protected server, for which the token is valid.
    pub(crate) resource: String,
    /// Where the token came from.
    pub(crate) server: AuthorizationServer,
    pub(crate) registration: Registration,
    pub(crate) tokens: Tokens,
    /// The origin of the server that the token is sent to.
    pub(crate) origin: String,
}

impl SavedLogin {
    /// Where the token is renewed.
    pub(crate) fn discovered(&self) -> Discovered {
        let (resource, server) = (self.resource.clone(), self.server.clone());
        Discovered { resource, scopes: self.tokens.scopes.clone(), server }
    }
}

/// The vault, as far as the logins to one server use it. Without a vault, values end with the process.
#[derive(Clone)]
pub(crate) struct LoginStore {
    pub(crate) vault: Option<Arc<Vault>>,
    pub(crate) server: Arc<str>,
    /// The URL of the server.
    pub(crate) url: Url,
}

impl LoginStore {
    /// The origin of the server.
    pub(crate) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the login of `principal`. `None` also for one from the time when the server had a URL of another origin,
    /// which must not get its token.
    pub(crate) fn login(&self, principal: Option<&str>) -> Option<SavedLogin> {
        let login: SavedLogin = self.read(&self.token_entry(principal))?;
        (login.origin == self.origin()).then_some(login)
    }

    /// Saves `login`. Returns whether other processes can read it.
    pub(crate) async fn save_login(&self, principal: Option<&str>, login: &SavedLogin) -> bool {
        self.write(&self.token_entry(principal), login).await
    }

    /// Saves `login` in the place of `renewed`. Returns whether other processes can read it; `None` if that is not there any
    /// more, or if another login took its place, so that nothing was saved.
    pub(crate) async fn replace_login(
        &self,
        principal: Option<&str>,
        login: &SavedLogin,
        renewed: &SavedLogin,
    ) -> Option<bool> {
        let Some(vault) = &self.vault else { return Some(false) };
        let Ok(text) = serde_json::to_vec(login).map(Zeroizing::new) else { return Some(false) };
        let renewed = renewed.tokens.clone();
        let replace = move |before: Option<&[u8]>| {
            let before = before.and_then(|before| serde_json::from_slice::<SavedLogin>(before).ok());
            let is_same =
                before.is_some_and(|before| refresh_token(&renewed) == refresh_token(&before.tokens));
            is_same.then_some(text)
        };
        match vault.update(&self.token_entry(principal), replace).await {
            Ok(false) => None,
            written => Some(self.is_saved(&written)),
        }
    }

    /// Waits until no other process renews the login of `principal`. `None` where no other process can read it.
    pub(crate) async fn lease(&self, principal: Option<&str>) -> Result<Option<Lease>, Error> {
        let Some(vault) = &self.vault else { return Ok(None) };
        match vault.lease(&self.token_entry(principal), LEASE_WAIT).await {
            Ok(lease) => Ok(Some(lease)),
            Err(auth::vault::Error::Locked { .. }) => {
                Err(Error::later("another process that shares the vault renews the token"))
            }
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "a token is renewed without regard to other processes");
                Ok(None)
            }
        }
    }

    pub(crate) async fn remove_login(&self, principal: Option<&str>) -> Result<(), auth::vault::Error> {
        match &self.vault {
            Some(vault) => vault.remove(&self.token_entry(principal)).await.map(drop),
            None => Ok(()),
        }
    }

    /// Returns the registrations of Switchyard for this server, the oldest first.
    pub(crate) fn registrations(&self) -> Vec<Registration> {
        self.read(&self.client_entry()).unwrap_or_default()
    }

    /// Saves `registration`, with which a login succeeded.
    pub(crate) async fn save_registration(&self, registration: &Registration) {
        if !self.registrations().iter().any(|known| known.is(registration)) {
            let registration = registration.clone();
            self.update(&self.client_entry(), move |all| add_registration(all, &registration)).await;
        }
    }

    /// Forgets `registration`, or all registrations.
    pub(crate) async fn remove_registrations(&self, registration: Option<&Registration>) {
        let registration = registration.cloned();
        let edit = move |all: &mut Vec<Registration>| {
            all.retain(|known| registration.as_ref().is_some_and(|gone| !known.is(gone)));
        };
        if !self.registrations().is_empty() {
            self.update(&self.client_entry(), edit).await;
        }
    }

    /// Edits the list in `entry`. A list that cannot be read stays as it is. A failure is logged.
    pub(crate) async fn update<T: Serialize + DeserializeOwned>(
        &self,
        entry: &Entry,
        edit: impl FnOnce(&mut Vec<T>) + Send + 'static,
    ) {
        let Some(vault) = &self.vault else { return };
        let edited = vault.update(entry, |value| {
            let mut list = value.map_or_else(|| Ok(Vec::new()), serde_json::from_slice).ok()?;
            edit(&mut list);
            serde_json::to_vec(&list).map(Zeroizing::new).ok()
        });
        if let Err(error) = edited.await {
            tracing::error!(server = %self.server, %error, "a change of {entry} could not be saved and ends with this process");
        }
    }

    fn client_entry(&self) -> Entry {
        Entry { kind: EntryKind::Client, name: self.server.to_string(), principal: None }
    }

    fn token_entry(&self, principal: Option<&str>) -> Entry {
        Entry {
            kind: EntryKind::Token,
            name: self.server.to_string(),
            principal: principal.map(str::to_owned),
        }
    }

    fn read<T: DeserializeOwned>(&self, entry: &Entry) -> Option<T> {
        match self.vault.as_ref()?.get(entry) {
            Ok(value) => serde_json::from_slice(&value?).ok(),
            Err(error) => {
                tracing::error!(server = %self.server, %error, "the vault cannot be read");
                None
            }
        }
    }

    /// Writes `value`. Returns false if there is no vault. Also after a failure, which is logged: what the process has in
    /// memory stays usable.
    async fn write<T: Serialize + Sync>(&self, entry: &Entry, value: &T) -> bool {
        let Some(vault) = &self.vault else { return false };
        let Ok(text) = serde_json::to_vec(value).map(Zeroizing::new) else { return false };
        self.is_saved(&vault.put(entry, &text).await)
    }

    /// Whether `written` is a success. A failure is logged.
    fn is_saved<T>(&self, written: &Result<T, auth::vault::Error>) -> bool {
        if let Err(error) = written {
            tracing::error!(server = %self.server, %error, "a login could not be saved and ends with this process");
        }
        written.is_ok()
    }
}

/// The refresh token of `tokens`. Two logins never have the same one.
fn refresh_token(tokens: &Tokens) -> Option<&str> {
    tokens.refresh_token.as_ref().map(ExposeSecret::expose_secret)
}

/// Adds `registration` in the place of the one for its issuer and redirect URI. The oldest goes if there are too many.
pub(crate) fn add_registration(all: &mut Vec<Registration>, registration: &Registration) {
    all.retain(|known| !known.is_in_place_of(registration));
    if all.len() >= MAX_REGISTRATIONS {
        all.remove(0);
    }
    all.push(registration.clone());
}
