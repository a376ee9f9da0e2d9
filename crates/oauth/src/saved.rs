//! The form in which the vault keeps tokens and registrations.
//!
//! Invariants: a token is kept together with the authorization server and the registration that it came from, so that
//! it is renewed there and nowhere else. A value of a newer form that cannot be read counts as no value.
//!
//! Not here: sealing and files (`auth::vault`).

use std::sync::Arc;
use std::time::Duration;

use auth::vault::{Entry, EntryKind, Lease, Vault};
use secrecy::zeroize::Zeroizing;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{AuthorizationServer, Discovered, Error, Registration, Tokens};

/// The longest wait for a renewal by another process: longer than a request for a token takes.
const LEASE_PATIENCE: Duration = Duration::from_secs(20);

/// The result of one login.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct SavedLogin {
    /// The identifier of the protected server, for which the token is valid.
    pub(crate) resource: String,
    /// Where the token came from.
    pub(crate) server: AuthorizationServer,
    pub(crate) registration: Registration,
    pub(crate) tokens: Tokens,
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
}

impl LoginStore {
    /// Returns the login of `principal`.
    pub(crate) fn login(&self, principal: Option<&str>) -> Option<SavedLogin> {
        self.read(&self.token_entry(principal))
    }

    /// Saves `login`. Returns whether other processes can read it.
    pub(crate) async fn save_login(&self, principal: Option<&str>, login: &SavedLogin) -> bool {
        self.write(&self.token_entry(principal), login).await
    }

    /// Waits until no other process renews the login of `principal`. `None` where no other process can read it.
    pub(crate) async fn lease(&self, principal: Option<&str>) -> Result<Option<Lease>, Error> {
        let Some(vault) = &self.vault else { return Ok(None) };
        match vault.lease(&self.token_entry(principal), LEASE_PATIENCE).await {
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
            Some(vault) => vault.remove(&self.token_entry(principal)).await,
            None => Ok(()),
        }
    }

    /// Returns the registration of Switchyard at `issuer` for `redirect_uri`.
    pub(crate) fn registration(&self, issuer: &str, redirect_uri: &str) -> Option<Registration> {
        self.read(&client_entry(issuer, redirect_uri))
    }

    pub(crate) async fn save_registration(&self, registration: &Registration) {
        self.write(&client_entry(&registration.issuer, &registration.redirect_uri), registration).await;
    }

    /// Forgets `registration`, which its authorization server does not know any more.
    pub(crate) async fn remove_registration(&self, registration: &Registration) {
        let Some(vault) = &self.vault else { return };
        if let Err(error) =
            vault.remove(&client_entry(&registration.issuer, &registration.redirect_uri)).await
        {
            tracing::error!(server = %self.server, %error, "a registration could not be removed");
        }
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
        let written = vault.put(entry, &text).await;
        if let Err(error) = &written {
            tracing::error!(server = %self.server, %error, "a login could not be saved and ends with this process");
        }
        written.is_ok()
    }
}

/// A registration is for one redirect URI. An issuer has no space in it.
fn client_entry(issuer: &str, redirect_uri: &str) -> Entry {
    Entry { kind: EntryKind::Client, name: format!("{issuer} {redirect_uri}"), principal: None }
}
