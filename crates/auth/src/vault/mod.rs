//! The vault: tokens and static secrets at rest, sealed, in one file.
//!
//! Invariants: a change is durable when it is reported as done. The file is replaced as a whole and by one process at a
//! time. A change by another process is seen by the next read. A vault that cannot be read is never written, and nothing
//! is made on disk before the first value is set. No value is in an error or in a `Debug` text.
//!
//! Not here: the content of values and their lifetime. Values in Redis: the store of `runtime` is a cache, which may
//! forget a value, and a forgotten refresh token would be lost.

mod container;
mod error;
mod keys;
mod lock;
mod shares;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use runtime::private_file;
use runtime::regular_file::FileStamp;
use runtime::secret::{ExposeSecret, SecretString};
use secrecy::zeroize::Zeroizing;

pub use container::{Entry, EntryKind, SECRET_NAME, is_secret_name};
pub use error::Error;
pub use keys::{Settings, VaultKey};
pub use lock::Lease;
pub use shares::Share;

use container::{Container, Lookup};

/// Limit of entries.
pub const MAX_ENTRIES: usize = 4_096;
/// Limit of the bytes of one value.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// Limit of the bytes of one secret of a principal, which is sent in a header.
pub const MAX_OWN_SECRET_BYTES: usize = 4 << 10;
/// The longest id of a principal that can have secrets, in bytes.
pub const MAX_OWNER_BYTES: usize = 512;
/// Limit of the bytes of the name and the principal of one entry.
const MAX_NAME_BYTES: usize = 1_024;
/// Limit of the size of the file, which each write replaces and each reader holds in memory.
const MAX_FILE_BYTES: usize = 16 << 20;

/// The name of the file in the state folder.
const FILE_NAME: &str = "vault.json";
/// The name of the key file, which is in the folder of the vault.
const KEY_FILE_NAME: &str = "vault.key";

/// Time to wait for another process that writes the vault.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The file and the keys of a vault.
#[derive(Debug, Clone)]
pub struct VaultConfig {
    /// The file.
    pub path: PathBuf,
    /// The secrets of at least 32 random bytes that seal (the first) and open (all). If there are none, the vault uses
    /// a key file in the folder of the vault, which is made when the first value is set.
    pub keys: Vec<SecretString>,
}

/// Sealed values in one file.
pub struct Vault {
    path: PathBuf,
    key_file: PathBuf,
    /// The configured keys, the first of which seals.
    configured: Vec<Arc<VaultKey>>,
    /// The file as it was read last.
    read: Mutex<Option<Arc<Content>>>,
    /// Held by the task that writes.
    turn: Arc<tokio::sync::Mutex<()>>,
    patience: Duration,
}

/// The file of a vault as it was at one time, and its keys.
struct Content {
    /// Each write makes a new file.
    version: FileStamp,
    /// Open, so that no later file has the same number.
    _file: File,
    container: Container,
    keys: Vec<Arc<VaultKey>>,
}

/// One change of the vault.
enum Change<'a> {
    Put(&'a Entry, &'a [u8]),
    Remove(&'a Entry),
    /// Removes all entries of a principal.
    RemoveAllOf(&'a str),
}

/// How many entries of a principal there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Its logins to servers.
    pub logins: usize,
    /// Its secrets.
    pub secrets: usize,
}

impl fmt::Display for EntryCounts {
    /// Such as `1 login and no secret`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, name: &str| match count {
            0 => format!("no {name}"),
            1 => format!("1 {name}"),
            more => format!("{more} {name}s"),
        };
        write!(f, "{} and {}", counted(self.logins, "login"), counted(self.secrets, "secret"))
    }
}

impl Vault {
    /// A vault whose file is not read yet. Nothing fails before a value is needed.
    pub fn new(config: VaultConfig) -> Arc<Self> {
        let VaultConfig { path, keys } = config;
        let configured =
            keys.iter().map(|key| Arc::new(VaultKey::of(key.expose_secret().as_bytes()))).collect();
        Arc::new(Self {
            key_file: path.with_file_name(KEY_FILE_NAME),
            path,
            configured,
            read: Mutex::default(),
            turn: Arc::default(),
            patience: LOCK_WAIT,
        })
    }

    /// A vault whose file can be read now, or does not exist yet. Blocks on files.
    pub fn open(config: VaultConfig) -> Result<Arc<Self>, Error> {
        let vault = Self::new(config);
        vault.content()?;
        Ok(vault)
    }

    /// The configured keys, the first of which seals; none if there is a key file.
    pub fn configured_keys(&self) -> &[Arc<VaultKey>] {
        &self.configured
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the value of `entry`. Blocks on the file if it changed since the last call.
    pub fn get(&self, entry: &Entry) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let Some(content) = self.content()? else { return Ok(None) };
        match content.container.find(&content.keys, entry) {
            Lookup::Missing => Ok(None),
            Lookup::Value(value) => Ok(Some(value)),
            Lookup::Damaged => {
                Err(Error::DamagedEntry { path: self.path.clone(), entry: Box::new(entry.clone()) })
            }
        }
    }

    /// Returns all entries with the times at which they were set, and the number of damaged entries.
    pub fn list(&self) -> Result<(Vec<(Entry, SystemTime)>, usize), Error> {
        let content = self.content()?;
        Ok(content.map(|content| content.container.list(&content.keys)).unwrap_or_default())
    }

    /// Returns the file as it was read last, after a look at it; `None` if there is none. Blocks on the file if it changed
    /// since the last call.
    pub fn stamp(&self) -> Result<Option<FileStamp>, Error> {
        Ok(self.content()?.map(|content| content.version))
    }

    /// Returns a text that differs after each change of `entry`; `None` without such an entry. Blocks as `get` does.
    pub fn version(&self, entry: &Entry) -> Result<Option<String>, Error> {
        let content = self.content()?;
        Ok(content.and_then(|content| content.container.version(&content.keys, entry)))
    }

    /// Returns the names of the secrets of `principal`, with the times at which they were set.
    pub fn secrets_of(&self, principal: &str) -> Result<Vec<(String, SystemTime)>, Error> {
        let is_its =
            |entry: &Entry| entry.is_secret_of_principal() && entry.principal.as_deref() == Some(principal);
        let (entries, _) = self.list()?;
        let mut own: Vec<_> = entries
            .into_iter()
            .filter(|(entry, _)| is_its(entry))
            .map(|(entry, at)| (entry.name, at))
            .collect();
        own.sort();
        Ok(own)
    }

    /// Returns how many entries each principal has.
    pub fn counts(&self) -> Result<BTreeMap<String, EntryCounts>, Error> {
        let mut all: BTreeMap<String, EntryCounts> = BTreeMap::new();
        for (entry, _) in self.list()?.0 {
            let is_secret = entry.is_secret_of_principal();
            let Some(principal) = entry.principal else { continue };
            let counts = all.entry(principal).or_default();
            *(if is_secret { &mut counts.secrets } else { &mut counts.logins }) += 1;
        }
        Ok(all)
    }

    /// Removes all logins and secrets of `principal`, and blocks until that is durable. Returns what there was.
    pub fn remove_all_of_blocking(&self, principal: &str) -> Result<EntryCounts, Error> {
        let counts = self.counts()?.remove(principal);
        if counts.is_some() {
            self.change(&Change::RemoveAllOf(principal))?;
        }
        Ok(counts.unwrap_or_default())
    }

    /// Sets the value of `entry`. It is durable when this returns. A write that has begun continues if the future is
    /// dropped.
    pub async fn put(self: &Arc<Self>, entry: &Entry, value: &[u8]) -> Result<(), Error> {
        let (entry, value) = (entry.clone(), Zeroizing::new(value.to_vec()));
        self.on_a_thread(move |vault| vault.put_blocking(&entry, &value)).await
    }

    /// Sets the value of `entry` to what `edit` makes of the one that is there, or keeps that if `edit` returns none.
    /// Returns whether it made a value. No other process writes in between.
    pub async fn update(
        self: &Arc<Self>,
        entry: &Entry,
        edit: impl FnOnce(Option<&[u8]>) -> Option<Zeroizing<Vec<u8>>> + Send + 'static,
    ) -> Result<bool, Error> {
        let entry = entry.clone();
        self.on_a_thread(move |vault| {
            let _lock = lock::take(&vault.path, vault.patience)?;
            let before = vault.get(&entry)?;
            let Some(value) = edit(before.as_ref().map(|value| value.as_slice())) else { return Ok(false) };
            check_lengths(&entry, &value)?;
            vault.change_locked(&Change::Put(&entry, &value)).map(|_| true)
        })
        .await
    }

    /// Removes `entry`, and returns whether it was there. The removal is durable when this returns. A write that has begun
    /// continues if the future is dropped.
    pub async fn remove(self: &Arc<Self>, entry: &Entry) -> Result<bool, Error> {
        let entry = entry.clone();
        self.on_a_thread(move |vault| vault.remove_blocking(&entry)).await
    }

    /// Removes all logins and secrets of `principal`, as [`Vault::remove`] does. Returns what there was.
    pub async fn remove_all_of(self: &Arc<Self>, principal: &str) -> Result<EntryCounts, Error> {
        let principal = principal.to_owned();
        self.on_a_thread(move |vault| vault.remove_all_of_blocking(&principal)).await
    }

    /// Runs `work`, which reads, where it may block. It does not wait for writes.
    pub async fn reading<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let vault = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&vault)).await.map_err(|_| Error::Ending)?
    }

    /// Sets the value of `entry` and blocks until it is durable.
    pub fn put_blocking(&self, entry: &Entry, value: &[u8]) -> Result<(), Error> {
        check_lengths(entry, value)?;
        self.change(&Change::Put(entry, value)).map(|_| ())
    }

    /// Removes `entry`, and blocks until the removal is durable. Returns whether the entry was there.
    pub fn remove_blocking(&self, entry: &Entry) -> Result<bool, Error> {
        if self.content()?.is_none() {
            return Ok(false);
        }
        self.change(&Change::Remove(entry))
    }

    /// Runs `work` where it may block. Writes wait here for one another, so that they occupy one thread.
    async fn on_a_thread<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let vault = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&vault)
        });
        done.await.map_err(|_| Error::Ending)?
    }

    /// Reads, changes and writes the file under its lock. Returns whether something changed.
    fn change(&self, change: &Change<'_>) -> Result<bool, Error> {
        let _lock = lock::take(&self.path, self.patience)?;
        self.change_locked(change)
    }

    fn change_locked(&self, change: &Change<'_>) -> Result<bool, Error> {
        let (mut container, keys) = match self.content()? {
            Some(content) => (content.container.clone(), content.keys.clone()),
            None => (Container::new(), self.keys_of_a_new_vault()?),
        };
        let failed = |source| self.failed("sealed", source);
        let first = &keys[0];
        container.reseal(first, &keys).map_err(failed)?;
        match change {
            Change::Put(entry, value) => {
                let is_new = !container.remove(&keys, entry);
                container.set(first, entry, value).map_err(failed)?;
                if let Some(share) = shares::exceeded(&container.sizes(&keys), entry, is_new) {
                    let (path, name) = (self.path.clone(), entry.name.clone());
                    return Err(Error::Share { path, name, share });
                }
            }
            Change::Remove(entry) if !container.remove(&keys, entry) => return Ok(false),
            Change::Remove(_) => {}
            Change::RemoveAllOf(principal) => {
                let (entries, _) = container.list(&keys);
                for (entry, _) in
                    entries.iter().filter(|(entry, _)| entry.principal.as_deref() == Some(*principal))
                {
                    container.remove(&keys, entry);
                }
            }
        }
        let text = container.text().map_err(failed)?;
        let is_full = container.len() > MAX_ENTRIES || text.len() > MAX_FILE_BYTES;
        // A removal is always possible.
        if is_full && matches!(change, Change::Put(..)) {
            return Err(Error::Full { path: self.path.clone() });
        }
        self.write(&text)?;
        Ok(true)
    }

    fn write(&self, text: &[u8]) -> Result<(), Error> {
        private_file::replace(&self.path, text).map_err(|source| self.failed("written", source))
    }

    /// Returns the file as it is now; `None` if it does not exist.
    fn content(&self) -> Result<Option<Arc<Content>>, Error> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let before = read.take();
        let current = match fs::metadata(&self.path) {
            Ok(metadata) => FileStamp::from(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed("read", error)),
        };
        let content = match before.filter(|content| content.version == current) {
            Some(content) => content,
            None => Arc::new(self.read_file()?),
        };
        Ok(Some(Arc::clone(read.insert(content))))
    }

    fn read_file(&self) -> Result<Content, Error> {
        let failed = |error| self.failed("read", error);
        let damaged = |reason| Error::Damaged { path: self.path.clone(), reason };
        let file = private_file::open(&self.path).map_err(failed)?;
        let version = FileStamp::from(file.metadata().map_err(failed)?);
        let mut bytes = Vec::new();
        (&file).take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(damaged(format!("it is larger than {MAX_FILE_BYTES} bytes")));
        }
        let container = Container::parse(&bytes).map_err(damaged)?;
        let keys = self.keys_of(&container)?;
        Ok(Content { version, _file: file, container, keys })
    }

    /// Returns the keys for an existing vault, one of which has sealed it. The first of them seals. The key file still
    /// opens a vault for which keys were configured later.
    fn keys_of(&self, container: &Container) -> Result<Vec<Arc<VaultKey>>, Error> {
        let mut keys = self.configured.clone();
        if !keys.iter().any(|key| container.is_sealed_by(key)) {
            keys.extend(keys::read_file(&self.key_file)?.map(Arc::new));
        }
        if keys.is_empty() {
            let key_file = self.key_file.clone();
            return Err(Error::KeyMissing { path: self.path.clone(), key_file });
        }
        if keys.iter().any(|key| container.is_sealed_by(key)) {
            Ok(keys)
        } else {
            Err(Error::WrongKey { path: self.path.clone() })
        }
    }

    /// Returns the keys for a vault without a file. Makes the key file if no key is configured.
    fn keys_of_a_new_vault(&self) -> Result<Vec<Arc<VaultKey>>, Error> {
        if !self.configured.is_empty() {
            return Ok(self.configured.clone());
        }
        let key = match keys::read_file(&self.key_file)? {
            Some(key) => key,
            None => keys::write_file(&self.key_file)?,
        };
        Ok(vec![Arc::new(key)])
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), action, source }
    }
}

fn check_lengths(entry: &Entry, value: &[u8]) -> Result<(), Error> {
    if entry.length() > MAX_NAME_BYTES {
        return Err(Error::LongName);
    }
    let most = if entry.is_secret_of_principal() { MAX_OWN_SECRET_BYTES } else { MAX_VALUE_BYTES };
    if value.len() > most {
        return Err(Error::LongValue { most });
    }
    Ok(())
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "vault_tests.rs"]
mod tests;
