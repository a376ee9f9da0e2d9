//! The secrets of principals in the headers to one server (`${principal:NAME}`).
//!
//! Invariants: a value is read from the vault when a connection of its principal opens, and is sent on connections of that
//! principal only. Nothing is sent for a principal that lacks one. Before each call the file of the vault is looked at, within
//! the deadline of the call and on a thread that may block. If a value changed, also by another process, the connections of
//! its principal end first, and those that are being opened.
//!
//! Not here: the vault (`auth::vault`), and requests (`transport::http`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use secrecy::SecretString;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout_at};

use super::Upstream;
use super::error::Error;
use super::forwarded_headers::PrincipalHeader;
use auth::Principal;
use auth::vault::{Entry, Vault};
use runtime::regular_file::FileStamp;

/// Limit of principals whose values are known without a connection that uses them.
const MAX_KNOWN: usize = 1_024;
/// Values of one principal that are still redacted after they changed, besides those of its connections: a connect that
/// failed has no connection, and its error is not shown yet.
const KEPT: usize = 2;

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
    /// Whether all values were compared with that file.
    is_compared: bool,
    of: HashMap<Arc<str>, Arc<OwnSecrets>>,
    /// Values that changed, oldest first, and that running requests may carry.
    replaced: Vec<(Arc<str>, Arc<OwnSecrets>)>,
    /// The principals whose connections may have a value that was replaced, and have not ended yet.
    to_end: HashSet<Arc<str>>,
}

impl Known {
    /// Keeps `own`, which is not sent on new connections any more, for redaction.
    fn replace(&mut self, principal: &Arc<str>, own: Arc<OwnSecrets>) {
        let is_in_use = |own: &Arc<OwnSecrets>| Arc::strong_count(own) > 1;
        let mut later = self.replaced.iter().filter(|(other, _)| other == principal).count();
        self.replaced.retain(|(other, before)| {
            later -= usize::from(other == principal);
            other != principal || later + 1 < KEPT || is_in_use(before)
        });
        if self.replaced.len() >= MAX_KNOWN {
            self.replaced.retain(|(_, before)| is_in_use(before));
        }
        self.replaced.push((Arc::clone(principal), own));
    }
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
        let names = PrincipalHeader::all_secrets(headers).into_iter().map(str::to_owned).collect();
        let headers = headers.to_vec();
        let (known, turn, changes) = (Mutex::default(), AsyncMutex::default(), AtomicU64::new(0));
        (!headers.is_empty()).then(|| Arc::new(Self { vault, headers, names, known, turn, changes }))
    }

    /// Returns the secrets of `principal` as the vault has them now.
    pub(crate) async fn of(self: &Arc<Self>, principal: Option<&Arc<str>>) -> Result<Arc<OwnSecrets>, Error> {
        let (principal, vault) = (self.named(principal)?, self.vault()?);
        let own = self.reading(vault, principal, Self::read).await?;
        Ok(self.used(principal, Arc::new(own)))
    }

    /// Records that a new connection of `principal` has `own`. Returns the same secrets as they are known.
    fn used(&self, principal: &Arc<str>, own: Arc<OwnSecrets>) -> Arc<OwnSecrets> {
        let mut known = self.lock();
        if let Some(same) = known.of.get(principal).filter(|known| known.version == own.version) {
            return Arc::clone(same);
        }
        if known.of.len() >= MAX_KNOWN {
            // Those in use stay with their connections.
            known.of.retain(|_, own| Arc::strong_count(own) > 1);
        }
        if let Some(before) = known.of.insert(Arc::clone(principal), Arc::clone(&own)) {
            known.replace(principal, before);
            known.to_end.insert(Arc::clone(principal));
        }
        // It may have been read before a change that was already found, so it is compared once more.
        known.is_compared = false;
        self.changes.fetch_add(1, Ordering::Relaxed);
        own
    }

    /// Fails if `principal` lacks a secret, or if the vault was not read at `deadline`. Calls `ended` for each principal whose
    /// secrets changed since they were used.
    pub(crate) async fn check(
        self: &Arc<Self>,
        principal: Option<&Arc<str>>,
        deadline: Instant,
        ended: impl Fn(&Arc<str>),
    ) -> Result<(), Error> {
        let (principal, vault) = (self.named(principal)?, self.vault()?);
        let checked = async {
            self.find_changes(vault, ended).await?;
            if self.lock().of.contains_key(principal) {
                return Ok(());
            }
            self.reading(vault, principal, Self::version).await.map(drop)
        };
        let late = "the vault could not be read in time";
        timeout_at(deadline, checked)
            .await
            .unwrap_or_else(|_| Err(Error::Connect { reason: late.to_owned() }))
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
        // The file may be on a slow disk, which must not hold up the other calls of this worker.
        let is_same = async || {
            let stamp = tokio::fs::metadata(vault.path()).await.ok().map(FileStamp::from);
            let known = self.lock();
            known.is_compared && known.stamp == stamp
        };
        if is_same().await {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        if is_same().await {
            return Ok(());
        }
        let this = Arc::clone(self);
        let compared = vault.reading(move |vault| {
            let (changes, stamp) = (this.changes(), vault.stamp()?);
            let known: Vec<_> =
                this.lock().of.iter().map(|(id, own)| (Arc::clone(id), Arc::clone(own))).collect();
            let is_other = |(id, own): &(Arc<str>, Arc<OwnSecrets>)| {
                this.version(vault, id).map_or(true, |version| version != own.version)
            };
            Ok((changes, stamp, known.into_iter().filter(is_other).collect::<Vec<_>>()))
        });
        let (changes, stamp, outdated) = compared.await.map_err(|error| unreadable(&error))?;
        self.changed(&outdated).iter().for_each(ended);
        let mut known = self.lock();
        // A value that was added meanwhile was not compared.
        let of_this = u64::from(!outdated.is_empty());
        (known.stamp, known.is_compared) = (stamp, self.changes() == changes + of_this);
        Ok(())
    }

    /// Records that the secrets of `changed` are others now. Returns the principals whose connections have to end.
    fn changed(&self, changed: &[(Arc<str>, Arc<OwnSecrets>)]) -> HashSet<Arc<str>> {
        let mut known = self.lock();
        for (principal, own) in changed {
            known.to_end.insert(Arc::clone(principal));
            // Another value was read meanwhile.
            if known.of.get(principal).is_some_and(|now| Arc::ptr_eq(now, own)) {
                known.of.remove(principal);
                known.replace(principal, Arc::clone(own));
            }
        }
        self.changes.fetch_add(u64::from(!changed.is_empty()), Ordering::Relaxed);
        std::mem::take(&mut known.to_end)
    }

    /// A text that differs after each change of a secret of `principal`; `None` if it lacks one.
    pub(crate) async fn version_of(self: &Arc<Self>, principal: &Arc<str>) -> Option<String> {
        self.reading(self.vault.as_ref()?, principal, Self::version).await.ok()
    }

    /// All values in use, which are redacted from texts of the server.
    pub(crate) fn values(&self) -> Vec<SecretString> {
        let known = self.lock();
        let replaced = known.replaced.iter().map(|(_, own)| own);
        known.of.values().chain(replaced).flat_map(|own| own.values.clone()).collect()
    }

    /// A number that changes whenever the values do. Read it before them.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Runs `read`, which may block on the file of the vault.
    async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        vault: &Arc<Vault>,
        principal: &Arc<str>,
        read: fn(&Self, &Vault, &Arc<str>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (this, principal) = (Arc::clone(self), Arc::clone(principal));
        let done = vault.reading(move |vault| Ok(read(&this, vault, &principal))).await;
        done.map_err(|error| unreadable(&error))?
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

/// Logs `error`, which names files of the gateway. Callers get none of that.
fn unreadable(error: &auth::vault::Error) -> Error {
    tracing::warn!(%error, "the secrets of callers cannot be read");
    Error::Connect { reason: "the vault cannot be used; an operator finds the reason in the log".to_owned() }
}

impl Upstream {
    /// Fails if the server needs a secret that `principal` lacks. Ends the connections with secrets that changed.
    pub(super) async fn check_principal_secrets(
        &self,
        secrets: &Arc<PrincipalSecrets>,
        principal: Option<&Arc<str>>,
        deadline: Instant,
    ) -> Result<(), Error> {
        secrets.check(principal, deadline, |principal| self.login_changed(principal)).await
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

#[cfg(test)]
#[path = "principal_secrets_tests.rs"]
mod tests;
