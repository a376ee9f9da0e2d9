//! The secrets of principals in the headers to one server (`${principal:NAME}`).
//!
//! Invariants: a value is read from the vault when a connection of its principal opens, and is sent on connections of that
//! principal only. Nothing is sent for a principal that lacks one. Before each call the file of the vault is looked at. If a
//! value changed, also by another process, the connections of its principal end first.
//!
//! Not here: the vault (`auth::vault`), and requests (`transport::http`).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::HeaderMap;
use secrecy::SecretString;
use tokio::sync::Mutex as AsyncMutex;

use super::Upstream;
use super::error::Error;
use super::principal_header::PrincipalHeader;
use auth::Principal;
use auth::vault::{Entry, Vault};
use runtime::file_stamp::FileStamp;

/// Limit of principals whose values are known without a connection that uses them.
const MAX_KNOWN: usize = 1_024;

/// The secrets of principals for one server.
pub struct PrincipalSecrets {
    vault: Option<Arc<Vault>>,
    headers: Vec<PrincipalHeader>,
    names: Vec<String>,
    known: Mutex<Known>,
    /// Taken to look for changes.
    turn: AsyncMutex<()>,
    changes: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// The file of the vault when it was looked at last.
    stamp: Option<FileStamp>,
    of: HashMap<Arc<str>, Arc<OwnSecrets>>,
    /// Values that changed, and that running requests may carry.
    replaced: Vec<Weak<OwnSecrets>>,
}

/// The secrets of one principal, and the headers that have them.
pub(crate) struct OwnSecrets {
    pub(crate) headers: HeaderMap,
    values: Vec<SecretString>,
    version: String,
}

impl PrincipalSecrets {
    /// Those in `headers`; `None` if there are no such headers.
    pub(crate) fn in_headers(headers: &[PrincipalHeader], vault: Option<Arc<Vault>>) -> Option<Arc<Self>> {
        let headers = headers.to_vec();
        let mut names: Vec<_> =
            headers.iter().flat_map(PrincipalHeader::secrets).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        let (known, turn, changes) = (Mutex::default(), AsyncMutex::default(), AtomicU64::new(0));
        (!headers.is_empty()).then(|| Arc::new(Self { vault, headers, names, known, turn, changes }))
    }

    /// Returns the secrets of `principal` as the vault has them now.
    pub(crate) async fn of(&self, principal: Option<&Arc<str>>) -> Result<Arc<OwnSecrets>, Error> {
        let (principal, vault) = (self.named(principal)?, self.vault()?);
        if !vault.is_current() {
            on_a_thread(vault, |vault| vault.stamp().map(drop)).await?;
        }
        let own = Arc::new(self.read(vault, principal)?);
        let mut known = self.lock();
        if known.of.len() >= MAX_KNOWN {
            // Those in use stay with their connections.
            known.of.retain(|_, own| Arc::strong_count(own) > 1);
        }
        match known.of.get(principal) {
            // Its connections end when the change is found.
            Some(before) if before.version != own.version => known.replaced.push(Arc::downgrade(&own)),
            _ => _ = known.of.insert(Arc::clone(principal), Arc::clone(&own)),
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok(own)
    }

    /// Fails if `principal` lacks a secret. Calls `ended` for each principal whose secrets changed since they were used.
    pub(crate) async fn check(
        self: &Arc<Self>,
        principal: Option<&Arc<str>>,
        ended: impl Fn(&Arc<str>),
    ) -> Result<(), Error> {
        let (principal, vault) = (self.named(principal)?, self.vault()?);
        self.find_changes(vault, ended).await?;
        if self.lock().of.contains_key(principal) { Ok(()) } else { self.version(vault, principal).map(drop) }
    }

    /// Calls `ended` for each principal whose secrets changed since they were used.
    pub(crate) async fn end_changed(self: &Arc<Self>, ended: impl Fn(&Arc<str>)) -> Result<(), Error> {
        self.find_changes(self.vault()?, ended).await
    }

    async fn find_changes(
        self: &Arc<Self>,
        vault: &Arc<Vault>,
        ended: impl Fn(&Arc<str>),
    ) -> Result<(), Error> {
        let is_same = || FileStamp::of(vault.path()) == self.lock().stamp;
        if is_same() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if is_same() {
            return Ok(());
        }
        let this = Arc::clone(self);
        let (stamp, changed) = on_a_thread(vault, move |vault| {
            let stamp = vault.stamp()?;
            let known: Vec<_> =
                this.lock().of.iter().map(|(id, own)| (Arc::clone(id), Arc::clone(own))).collect();
            let is_other = |(id, own): &(Arc<str>, Arc<OwnSecrets>)| {
                this.version(vault, id).map_or(true, |version| version != own.version)
            };
            Ok((stamp, known.into_iter().filter(is_other).map(|(id, _)| id).collect::<Vec<_>>()))
        })
        .await?;
        let mut known = self.lock();
        known.replaced.retain(|own| own.strong_count() > 0);
        for principal in &changed {
            let before = known.of.remove(principal);
            known.replaced.extend(before.as_ref().map(Arc::downgrade));
            ended(principal);
        }
        known.stamp = stamp;
        self.changes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A text that differs after each change of a secret of `principal`; `None` if it lacks one.
    pub(crate) fn version_of(&self, principal: &Arc<str>) -> Option<String> {
        self.version(self.vault.as_ref()?, principal).ok()
    }

    /// All values in use, which are redacted from texts of the server.
    pub(crate) fn values(&self) -> Vec<SecretString> {
        let known = self.lock();
        let replaced = known.replaced.iter().filter_map(Weak::upgrade);
        known.of.values().cloned().chain(replaced).flat_map(|own| own.values.clone()).collect()
    }

    /// A number that changes whenever the values do. Read it before them.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn named<'p>(&self, principal: Option<&'p Arc<str>>) -> Result<&'p Arc<str>, Error> {
        let named = principal.filter(|principal| !Principal::is_anonymous_id(principal));
        named.ok_or_else(|| Self::missing(self.names.first().map_or("", String::as_str), None))
    }

    fn vault(&self) -> Result<&Arc<Vault>, Error> {
        let reason = || "there is no vault: set `state_dir` under `server:`".to_owned();
        self.vault.as_ref().ok_or_else(|| Error::Connect { reason: reason() })
    }

    fn missing(secret: &str, principal: Option<&Arc<str>>) -> Error {
        let secret = secret.into();
        Error::SecretRequired { secret, principal: principal.cloned() }
    }

    fn version(&self, vault: &Vault, principal: &Arc<str>) -> Result<String, Error> {
        let versions = self.names.iter().map(|name| {
            let version =
                vault.version(&Entry::secret_of(principal, name)).map_err(|error| unreadable(&error))?;
            version.ok_or_else(|| Self::missing(name, Some(principal)))
        });
        Ok(versions.collect::<Result<Vec<_>, Error>>()?.join(" "))
    }

    fn read(&self, vault: &Vault, principal: &Arc<str>) -> Result<OwnSecrets, Error> {
        let version = self.version(vault, principal)?;
        let mut values = HashMap::new();
        for name in &self.names {
            let value = vault.get(&Entry::secret_of(principal, name)).map_err(|error| unreadable(&error))?;
            let value = value.ok_or_else(|| Self::missing(name, Some(principal)))?;
            values.extend(
                std::str::from_utf8(&value).ok().map(|text| (name.as_str(), SecretString::from(text))),
            );
        }
        let mut headers = HeaderMap::new();
        for header in &self.headers {
            let value = header.value(|name| values.get(name)).ok_or_else(|| {
                let reason = format!("a secret of the caller cannot be sent in the header {}", header.name);
                Error::Connect { reason }
            })?;
            headers.insert(&header.name, value);
        }
        Ok(OwnSecrets { headers, values: values.into_values().collect(), version })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Every entry is written as a whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreadable(error: &auth::vault::Error) -> Error {
    Error::Connect { reason: error.to_string() }
}

/// Does `work` with the vault, which blocks on its file.
async fn on_a_thread<T: Send + 'static>(
    vault: &Arc<Vault>,
    work: impl FnOnce(&Vault) -> Result<T, auth::vault::Error> + Send + 'static,
) -> Result<T, Error> {
    let vault = Arc::clone(vault);
    let done = tokio::task::spawn_blocking(move || work(&vault)).await;
    done.unwrap_or(Err(auth::vault::Error::Ending)).map_err(|error| unreadable(&error))
}

impl Upstream {
    /// Fails if the server needs a secret that `principal` lacks. Ends the connections with secrets that changed.
    pub(super) async fn check_principal_secrets(
        &self,
        secrets: &Arc<PrincipalSecrets>,
        principal: Option<&Arc<str>>,
    ) -> Result<(), Error> {
        secrets.check(principal, |principal| self.login_changed(principal)).await
    }

    /// Ends the connections with secrets of principals that changed.
    pub async fn end_changed_secrets(&self) -> Result<(), Error> {
        let Some(secrets) = &self.principal_secrets else { return Ok(()) };
        secrets.end_changed(|principal| self.login_changed(principal)).await
    }
}

impl fmt::Debug for PrincipalSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrincipalSecrets").field("names", &self.names).finish_non_exhaustive()
    }
}
