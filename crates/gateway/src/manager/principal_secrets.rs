//! The secrets of principals that headers of servers have (`${principal:NAME}`): their names, and changes of them. And the end
//! of all that the vault has of a principal.
//!
//! Invariant: no value leaves this module. A change ends the connections that use the value before it returns.
//!
//! Not here: the file (`auth::vault`), requests to servers (`upstream`), and who may change what (`admin`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::timeout;

use auth::vault::{self, Entry, EntryCounts, Vault};

use super::limits::OwnChange;
use super::{Manager, Scope};
use runtime::secret::{ExposeSecret, SecretString};

/// A secret that servers need of each principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededSecret {
    /// Its name.
    pub name: String,
    /// The servers that are sent it.
    pub servers: Vec<Arc<str>>,
}

/// How long services have to revoke the logins of a principal that is gone.
const REVOCATION_TIME: Duration = Duration::from_secs(10);

/// The logins of a principal, to be revoked after they have ended here.
pub struct Revocations(Vec<BoxFuture<'static, Result<(), oauth::Error>>>);

/// Why a secret of a principal was not read or changed. No text has a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// There is no vault.
    #[error("no vault is known: set `state_dir` under `server:` in the configuration file")]
    NoVault,
    /// The value cannot be sent in a header.
    #[error("the value is empty, or is not one line of ASCII characters")]
    Unsendable,
    /// The principal changes its secrets too often, or too many others do so now.
    #[error("secrets are changed too often")]
    TooOften {
        /// When it is worth trying again.
        retry_in: Duration,
    },
    /// The vault cannot be used, or has no room.
    #[error(transparent)]
    Vault(#[from] vault::Error),
}

impl Manager {
    /// Returns the secrets that the servers in `scope` need of each principal, by their names.
    pub fn needed_secrets(&self, scope: &Scope) -> Vec<NeededSecret> {
        let snapshot = self.seen_through(scope.view.as_ref());
        let mut needed: Vec<NeededSecret> = Vec::new();
        for server in snapshot.servers_in(scope) {
            let config = server.upstream.config();
            for name in config.principal_secrets() {
                match needed.iter_mut().find(|secret| secret.name == name) {
                    Some(secret) => secret.servers.push(Arc::clone(&config.name)),
                    None => needed.push(NeededSecret {
                        name: name.to_owned(),
                        servers: vec![Arc::clone(&config.name)],
                    }),
                }
            }
        }
        needed.sort_by(|one, other| one.name.cmp(&other.name));
        needed
    }

    /// Returns the names of the secrets of `principal`, with the times at which they were set.
    pub async fn secrets_of(&self, principal: &str) -> Result<Vec<(String, SystemTime)>, SecretError> {
        let principal = principal.to_owned();
        Ok(self.vault()?.reading(move |vault| vault.secrets_of(&principal)).await?)
    }

    /// Admits a change that `principal` makes to a secret of its own.
    pub fn admit_own_change(&self, principal: &str) -> Result<OwnChange, SecretError> {
        self.own_changes.admit(principal).map_err(|retry_in| SecretError::TooOften { retry_in })
    }

    /// Sets the secret `name` of `principal`. The next call of the principal uses it.
    pub async fn set_secret_of(
        &self,
        principal: &str,
        name: &str,
        value: &SecretString,
    ) -> Result<(), SecretError> {
        if !upstream::config::is_sendable(value.expose_secret()) {
            return Err(SecretError::Unsendable);
        }
        let entry = Entry::secret_of(principal, name);
        self.vault()?.put(&entry, value.expose_secret().as_bytes()).await?;
        self.secrets_changed().await;
        Ok(())
    }

    /// Removes the secret `name` of `principal`. Returns whether it was there.
    pub async fn remove_secret_of(&self, principal: &str, name: &str) -> Result<bool, SecretError> {
        let entry = Entry::secret_of(principal, name);
        let was_there = self.vault()?.remove(&entry).await?;
        if was_there {
            self.secrets_changed().await;
        }
        Ok(was_there)
    }

    /// Returns the logins of `principal`, for [`Manager::forget_principal`]. They are looked up before its credential ends:
    /// afterwards they may be those of another holder.
    pub fn revocations_of(&self, principal: &Arc<str>) -> Revocations {
        let snapshot = self.snapshot();
        let logins = snapshot.servers().iter().filter_map(|server| server.upstream.logins());
        let own = logins.filter(|logins| logins.is_per_principal());
        let revocations = own.filter_map(|logins| logins.revocation(principal));
        Revocations(revocations.map(FutureExt::boxed).collect())
    }

    /// Ends all logins of `principal` and removes its secrets, because nobody has its credential any more. All of that is done
    /// before services are asked to revoke its logins.
    pub async fn forget_principal(
        &self,
        principal: &Arc<str>,
        Revocations(logins): Revocations,
    ) -> Result<(), SecretError> {
        self.end_logins_of(principal);
        // This includes logins to servers that do not run now.
        let removed = match self.vault() {
            Ok(vault) => vault.remove_all_of(principal).await.map_err(SecretError::from),
            Err(error) => Err(error),
        };
        if removed.as_ref().is_ok_and(|counts| *counts != EntryCounts::default()) {
            self.secrets_changed().await;
        }
        let late = || oauth::Error::Refused { reason: "the service did not answer in time".into() };
        let revoked =
            join_all(logins.into_iter().map(|revocation| timeout(REVOCATION_TIME, revocation))).await;
        for error in revoked.into_iter().filter_map(|revoked| revoked.unwrap_or_else(|_| Err(late())).err()) {
            tracing::warn!(%error, "a login of a principal that is gone was not revoked");
        }
        removed.map(|_| ())
    }

    /// Ends the connections with logins of `principal`, because its credential may have another holder.
    pub fn end_logins_of(&self, principal: &str) {
        let principal = Arc::from(principal);
        for server in self.snapshot().servers() {
            if let Some(logins) = server.upstream.logins().filter(|logins| logins.is_per_principal()) {
                logins.end_in_memory(&principal);
                server.upstream.login_changed(&principal);
            }
        }
    }

    fn vault(&self) -> Result<&Arc<Vault>, SecretError> {
        self.vault.as_ref().ok_or(SecretError::NoVault)
    }

    /// Ends the connections with values that changed.
    async fn secrets_changed(&self) {
        for server in self.snapshot().servers() {
            if let Err(error) = server.upstream.end_changed_secrets().await {
                tracing::warn!(server = %server.upstream.config().name, %error, "secrets of principals cannot be read");
            }
        }
        self.announce().await;
    }
}
