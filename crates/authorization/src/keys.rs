//! The keys of the authorization server: one that seals its records, and those that sign tokens.
//!
//! Invariants: all of them are in one entry, in the vault or in the store that several machines share, and it changes by one
//! process at a time. In the store it is sealed by the key of the vault, which the gateways share, and for its issuer. An entry
//! that does not open, or cannot be read, is never replaced. A key for signatures is published for a day before it signs, and
//! for an hour after its last signature. So a copy of the key set that is a day old verifies every valid token. The first key
//! signs at once.
//!
//! Source: RFC 7517; RFC 8037; RFC 9068, section 2.1.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use std::{fmt, io};

use arc_swap::ArcSwapOption;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::seconds;
use crate::store::{Store, StoreError, Table};
use auth::vault;
use auth::vault::{Entry, EntryKind, Vault, VaultKey};

/// Seconds after which the next key is made.
const MAKE_NEXT: u64 = 90 * 24 * 3_600;
/// Seconds for which a key is published before it signs.
const PUBLISHED_BEFORE: u64 = 24 * 3_600;
/// Seconds for which a key is published after its last signature: longer than the life of a token.
const PUBLISHED_AFTER: u64 = 3_600;
/// Seconds after which the entry is read again, so that keys of other processes are known.
const READ_AGAIN: u64 = 600;
/// Seconds after a failure in which the entry is not read again.
const RETRY: u64 = 5;

/// The content of the entry.
#[derive(Serialize, Deserialize)]
struct Entries {
    /// Seals records, in Base64.
    record_key: String,
    /// The keys for signatures, the oldest first.
    signing: Vec<StoredKey>,
}

#[derive(Clone, Serialize, Deserialize)]
struct StoredKey {
    kid: String,
    /// The private key, PKCS #8 in Base64.
    private: String,
    made: u64,
}

/// The keys as they are used until `until`.
pub(crate) struct KeyRing {
    pub(crate) kid: String,
    pub(crate) signing: EncodingKey,
    pub(crate) verifying: HashMap<String, DecodingKey>,
    /// The public keys, as a key set.
    pub(crate) published: Value,
    /// Seals records.
    records: Arc<VaultKey>,
    until: AtomicU64,
}

/// The keys, which change with time.
pub(crate) struct Keys {
    entries: KeyEntries,
    current: ArcSwapOption<KeyRing>,
}

impl Keys {
    /// Reads the keys, and makes them if there are none. If their store cannot be reached, they are read when they are needed.
    pub(crate) async fn open(entries: KeyEntries, now: u64) -> Result<Self, KeyError> {
        let keys = Self { entries, current: ArcSwapOption::empty() };
        match keys.read(now).await {
            Ok(_) => {}
            Err(error @ KeyError::Store(_)) => {
                tracing::warn!(%error, "until they can be read, clients get no tokens");
            }
            Err(error) => return Err(error),
        }
        Ok(keys)
    }

    /// Returns the keys of the moment `now`. If they cannot be read, the last ones stay in use.
    pub(crate) async fn at(&self, now: u64) -> Result<Arc<KeyRing>, KeyError> {
        let current = self.current.load_full();
        if let Some(current) = current.as_ref().filter(|ring| ring.is_current(now)) {
            return Ok(Arc::clone(current));
        }
        match (self.read(now).await, current) {
            (Err(error), Some(last)) => {
                tracing::error!(%error, "the last known keys stay in use");
                last.until.store(now + RETRY, Ordering::Relaxed);
                Ok(last)
            }
            (read, _) => read,
        }
    }

    /// Returns the key that verifies tokens with `kid`, if it was known when the keys were read last.
    pub(crate) fn verifying(&self, kid: &str) -> Option<DecodingKey> {
        self.current.load().as_ref()?.verifying.get(kid).cloned()
    }

    /// Whether several machines have them, so that another one may make new ones at any time.
    pub(crate) const fn are_shared(&self) -> bool {
        self.entries.is_shared()
    }

    /// Whether the keys have been read.
    pub(crate) fn are_known(&self) -> bool {
        self.current.load().is_some()
    }

    /// Reads the keys again when they are needed next.
    pub(crate) fn read_again(&self) {
        if let Some(current) = &*self.current.load() {
            current.until.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the key that seals records.
    pub(crate) async fn of_records(&self) -> Result<Arc<VaultKey>, KeyError> {
        if let Some(current) = &*self.current.load() {
            return Ok(Arc::clone(&current.records));
        }
        Ok(Arc::clone(&self.at(seconds(SystemTime::now())).await?.records))
    }

    async fn read(&self, now: u64) -> Result<Arc<KeyRing>, KeyError> {
        let entries = self.entries.changed(move |before| changed(before, now)).await?;
        let entries = serde_json::from_slice(&entries).map_err(|_| KeyError::Form)?;
        let ring = Arc::new(KeyRing::of(&entries, now)?);
        let before = self.current.swap(Some(Arc::clone(&ring)));
        if before.is_some_and(|before| !before.verifying.keys().any(|kid| ring.verifying.contains_key(kid))) {
            tracing::error!(
                "the store of the authorization server has lost its records; people have to log in again"
            );
        }
        Ok(ring)
    }

    /// Keys that are in memory only: one for signatures, and one that seals records, of `secret`.
    #[cfg(test)]
    pub(crate) fn of_secret(secret: &[u8]) -> Arc<Self> {
        use crate::fixture::{ISSUER, MemoryStore};
        let vault =
            auth::vault::Vault::new(auth::vault::VaultConfig { path: "none".into(), keys: Vec::new() });
        let store: Arc<dyn crate::store::Store> = Arc::new(MemoryStore::default());
        let signing = vec![StoredKey::new(0).expect("a key")];
        let entries = Entries { record_key: STANDARD.encode(secret), signing };
        let ring = KeyRing::of(&entries, 0).expect("keys");
        let entries = KeyEntries::new(vault, &store, ISSUER);
        Arc::new(Self { entries, current: ArcSwapOption::from_pointee(ring) })
    }
}

impl KeyRing {
    fn of(entries: &Entries, now: u64) -> Result<Self, KeyError> {
        let keys = &entries.signing;
        let signer = signer(keys, now).ok_or(KeyError::Form)?;
        let records = STANDARD.decode(&entries.record_key).map(Zeroizing::new);
        let (mut verifying, mut published) = (HashMap::new(), Vec::new());
        for key in keys {
            let pair = key.pair()?;
            let x = URL_SAFE_NO_PAD.encode(pair.public_key());
            let decoding = DecodingKey::from_ed_components(&x).map_err(|_| KeyError::Form)?;
            verifying.insert(key.kid.clone(), decoding);
            published.push(json!({
                "kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": key.kid, "x": x,
            }));
        }
        Ok(Self {
            kid: signer.kid.clone(),
            signing: EncodingKey::from_ed_der(&signer.private()?),
            verifying,
            published: json!({ "keys": published }),
            records: Arc::new(VaultKey::of(&records.map_err(|_| KeyError::Form)?)),
            until: (now + READ_AGAIN).into(),
        })
    }

    fn is_current(&self, now: u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        // A later time is that of a clock that was set back since.
        now < until && until <= now + READ_AGAIN
    }
}

impl StoredKey {
    fn new(now: u64) -> Option<Self> {
        let private = Ed25519KeyPair::generate().ok()?.to_pkcs8v1().ok()?;
        let mut kid = [0; 8];
        SysRng.try_fill_bytes(&mut kid).ok()?;
        Some(Self { kid: hex::encode(kid), private: STANDARD.encode(private.as_ref()), made: now })
    }

    fn private(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        STANDARD.decode(&self.private).map(Zeroizing::new).map_err(|_| KeyError::Form)
    }

    fn pair(&self) -> Result<Ed25519KeyPair, KeyError> {
        Ed25519KeyPair::from_pkcs8(&self.private()?).map_err(|_| KeyError::Form)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// A change of the keys that is due.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// The next key has to be made.
    Make,
    /// The oldest key is not needed any more.
    Remove,
}

/// Returns the key that signs at `now`: the newest one that was published for long enough, else the oldest.
fn signer(keys: &[StoredKey], now: u64) -> Option<&StoredKey> {
    let is_known = |key: &&StoredKey| key.made + PUBLISHED_BEFORE <= now;
    keys.iter().rev().find(is_known).or(keys.first())
}

/// Returns the change that is due at `now`.
fn change(keys: &[StoredKey], now: u64) -> Option<Change> {
    let newest = keys.last().map(|key| key.made);
    if newest.is_none_or(|made| made + MAKE_NEXT <= now) {
        return Some(Change::Make);
    }
    let second = keys.get(1).map(|key| key.made + PUBLISHED_BEFORE + PUBLISHED_AFTER);
    second.filter(|time| *time <= now).map(|_| Change::Remove)
}

/// Returns the entry `before` with all changes that are due; none if nothing is.
fn changed(before: Option<&[u8]>, now: u64) -> Edited {
    let mut entries = match before {
        Some(before) => serde_json::from_slice(before).map_err(|_| KeyError::Form)?,
        None => Entries { record_key: random_key().ok_or(KeyError::Generation)?, signing: Vec::new() },
    };
    let mut is_changed = false;
    while let Some(change) = change(&entries.signing, now) {
        match change {
            Change::Make => entries.signing.push(StoredKey::new(now).ok_or(KeyError::Generation)?),
            Change::Remove => _ = entries.signing.remove(0),
        }
        is_changed = true;
    }
    let text = || serde_json::to_vec(&entries).map(Zeroizing::new).map_err(|_| KeyError::Form);
    is_changed.then(text).transpose()
}

fn random_key() -> Option<String> {
    let mut key = Zeroizing::new([0; 32]);
    SysRng.try_fill_bytes(&mut *key).ok()?;
    Some(STANDARD.encode(*key))
}

/// The id of the entry in the store.
const ID: &str = "keys";
/// How often a change is repeated because other processes changed the keys meanwhile.
const MAX_TURNS: usize = 8;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The vault cannot be used.
    #[error("the keys of the authorization server: {0}")]
    Vault(#[from] vault::Error),
    /// The store cannot be used.
    #[error("the keys of the authorization server: {0}")]
    Store(#[from] StoreError),
    /// The gateways do not share a key.
    #[error("the authorization server needs `vault_key`, which all gateways share that use its store")]
    NotShared,
    /// Another gateway has another key.
    #[error(
        "the keys of the authorization server in Redis were sealed with another `vault_key`: give all gateways that \
         use this Redis for one `public_url` the same one"
    )]
    Foreign,
    /// The entry has another form than it should have.
    #[error("the keys of the authorization server cannot be read; another version may have written them")]
    Form,
    /// No key could be made.
    #[error("the system could not make a key for the authorization server")]
    Generation,
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error,
            error => Self { action: "opened", source: io::Error::other(error) },
        }
    }
}

/// The entry after an edit, or none if nothing has to change.
pub(crate) type Edited = Result<Option<Zeroizing<Vec<u8>>>, KeyError>;

/// Where the keys are.
pub(crate) struct KeyEntries {
    vault: Arc<Vault>,
    /// The store, if they are in it, and what the keys are sealed for.
    shared: Option<(Arc<dyn Store>, Vec<u8>)>,
}

impl KeyEntries {
    /// The keys of `issuer`.
    pub(crate) fn new(vault: Arc<Vault>, store: &Arc<dyn Store>, issuer: &str) -> Self {
        let shared = || (Arc::clone(store), format!("keys of {issuer}").into_bytes());
        Self { vault, shared: store.is_shared().then(shared) }
    }

    /// Whether they are in the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns the entry, changed as `edit` says.
    pub(crate) async fn changed(
        &self,
        edit: impl Fn(Option<&[u8]>) -> Edited + Send + 'static,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        if let Some((store, context)) = &self.shared {
            return self.changed_in_store(&**store, context, edit).await;
        }
        let entry = Entry { kind: EntryKind::Authorization, name: ID.to_owned(), principal: None };
        let stored = self.vault.get(&entry)?;
        if edit(stored.as_ref().map(|value| value.as_slice()))?.is_some() {
            self.vault.update(&entry, move |before| edit(before).ok().flatten()).await?;
            return self.vault.get(&entry)?.ok_or(KeyError::Generation);
        }
        stored.ok_or(KeyError::Generation)
    }

    async fn changed_in_store(
        &self,
        store: &dyn Store,
        context: &[u8],
        edit: impl Fn(Option<&[u8]>) -> Edited,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let keys = self.vault.configured_keys();
        let first = keys.first().ok_or(KeyError::NotShared)?;
        for _ in 0..MAX_TURNS {
            let sealed = store.get(Table::Keys, ID).await?;
            let text =
                sealed.as_deref().map(|sealed| std::str::from_utf8(sealed).map_err(|_| KeyError::Foreign));
            let text = text.transpose()?;
            let opened = text.map(|text| {
                let mut opened =
                    keys.iter().enumerate().filter_map(|(at, key)| Some((at, key.open(context, text)?)));
                opened.next().ok_or(KeyError::Foreign)
            });
            let opened = opened.transpose()?;
            let edited = edit(opened.as_ref().map(|(_, plain)| plain.as_slice()))?;
            let next = match (edited, opened) {
                (Some(next), _) => next,
                (None, Some((0, plain))) => return Ok(plain),
                // Sealed again, so that the key of the vault that opened it can go.
                (None, Some((_, plain))) => plain,
                (None, None) => return Err(KeyError::Generation),
            };
            let failed = |source| StoreError { action: "sealed", source };
            let resealed = first.seal(context, &next).map_err(failed)?;
            if store.swap(Table::Keys, ID, sealed.as_deref(), Some(resealed.as_bytes())).await? {
                return Ok(next);
            }
        }
        Err(KeyError::Generation)
    }
}

#[cfg(test)]
mod tests {
    use auth::vault::{Entry, EntryKind, Vault, VaultConfig};
    use proptest::prelude::*;
    use secrecy::SecretString;

    use super::*;
    use crate::fixture::{ISSUER, MemoryStore};
    use crate::store::{Store, Table};

    fn vault(folder: &tempfile::TempDir, keys: &[&str]) -> Arc<Vault> {
        let keys = keys.iter().map(|key| SecretString::from(key.repeat(32))).collect();
        Vault::new(VaultConfig { path: folder.path().join("vault.json"), keys })
    }

    /// The keys in the vault in `folder`, or in `store`.
    async fn open(
        folder: &tempfile::TempDir,
        vault_keys: &[&str],
        store: &Arc<MemoryStore>,
        now: u64,
    ) -> Result<Keys, KeyError> {
        let store: Arc<dyn Store> = store.clone();
        Keys::open(KeyEntries::new(vault(folder, vault_keys), &store, ISSUER), now).await
    }

    #[tokio::test]
    async fn keys_outlive_the_process_and_change_without_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let other_folder = tempfile::tempdir().expect("a folder");
        for (store, other_folder) in
            [(MemoryStore::default(), &folder), (MemoryStore::shared(), &other_folder)]
        {
            let store = Arc::new(store);
            let keys = open(&folder, &["a"], &store, 0).await.expect("keys");
            let first = keys.at(0).await.expect("keys").kid.clone();
            let record_key = keys.of_records().await.expect("keys");
            let sealed = record_key.seal(b"place", b"text").expect("sealed");
            let again = open(other_folder, &["a"], &store, 5).await.expect("keys");
            assert_eq!(again.at(5).await.expect("keys").kid, first);
            let same = again.of_records().await.expect("keys");
            assert_eq!(same.open(b"place", &sealed).expect("opened").as_slice(), b"text");

            let ring = keys.at(MAKE_NEXT).await.expect("keys");
            assert_eq!(
                (ring.kid.as_str(), ring.verifying.len()),
                (&*first, 2),
                "published, but not used yet"
            );
            let ring = keys.at(MAKE_NEXT + PUBLISHED_BEFORE).await.expect("keys");
            assert!(ring.kid != first && ring.verifying.contains_key(&first));
            let other = again.at(MAKE_NEXT + PUBLISHED_BEFORE).await.expect("keys");
            assert_eq!(other.kid, ring.kid, "another process uses the same key");
            let ring = keys.at(MAKE_NEXT + PUBLISHED_BEFORE + PUBLISHED_AFTER).await.expect("keys");
            assert!(!ring.verifying.contains_key(&first));
            let text = ring.published.to_string();
            assert!(text.contains(&ring.kid) && !text.contains("\"d\""), "{text}");
        }
    }

    #[tokio::test]
    async fn store_that_fails_is_not_read_for_each_request() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(MemoryStore::shared()));
        store.set_fails(true);
        let keys = open(&folder, &["a"], &store, 0).await.expect("it starts");
        assert!(!keys.are_known());
        assert!(matches!(keys.at(0).await, Err(KeyError::Store(_))));
        store.set_fails(false);
        let first = keys.at(0).await.expect("keys").kid.clone();
        store.set_fails(true);
        let ring = keys.at(READ_AGAIN).await.expect("the last ones");
        let until = || ring.until.load(Ordering::Relaxed);
        assert_eq!((&ring.kid, until()), (&first, READ_AGAIN + RETRY));
        store.set_fails(false);
        keys.at(READ_AGAIN + RETRY - 1).await.expect("the last ones");
        assert_eq!(until(), READ_AGAIN + RETRY);
        let ring = keys.at(READ_AGAIN + RETRY).await.expect("keys");
        assert_eq!(ring.until.load(Ordering::Relaxed), READ_AGAIN + RETRY + READ_AGAIN, "it was read again");
    }

    #[tokio::test]
    async fn shared_keys_open_under_the_key_of_the_vault_alone_and_move_to_its_first_one() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(MemoryStore::shared()));
        let record = async || store.get(Table::Keys, "keys").await.expect("a read").expect("a record");
        assert!(matches!(open(&folder, &[], &store, 0).await.err(), Some(KeyError::NotShared)));
        let kid =
            open(&folder, &["a"], &store, 0).await.expect("keys").at(0).await.expect("keys").kid.clone();
        let sealed = record().await;
        assert!(!String::from_utf8_lossy(&sealed).contains(&kid));
        assert!(matches!(open(&folder, &["b"], &store, 0).await.err(), Some(KeyError::Foreign)));
        assert_eq!(record().await, sealed, "it is not replaced");
        let both = open(&folder, &["b", "a"], &store, 0).await.expect("keys");
        assert_eq!(both.at(0).await.expect("keys").kid, kid);
        assert_ne!(record().await, sealed);
        let moved = open(&folder, &["b"], &store, 0).await.expect("keys");
        assert_eq!(moved.at(0).await.expect("keys").kid, kid);
        let other: Arc<dyn Store> = store.clone();
        let other = KeyEntries::new(vault(&folder, &["b"]), &other, "https://other.example");
        assert!(matches!(Keys::open(other, 0).await.err(), Some(KeyError::Foreign)), "of another issuer");
    }

    #[tokio::test]
    async fn store_that_lost_the_keys_gets_new_ones_that_every_process_uses() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(MemoryStore::shared()));
        let one = open(&folder, &["a"], &store, 0).await.expect("keys");
        let before = one.at(0).await.expect("keys").kid.clone();
        store.lose_everything();
        let other = open(&folder, &["a"], &store, 1).await.expect("keys");
        let after = other.at(1).await.expect("keys").kid.clone();
        assert_ne!(after, before);
        assert_eq!(one.at(1).await.expect("keys").kid, before, "it does not know yet");
        one.read_again();
        assert_eq!(one.at(1).await.expect("keys").kid, after);
    }

    #[tokio::test]
    async fn keys_of_another_form_are_neither_used_nor_replaced() {
        let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(MemoryStore::default()));
        let vault = vault(&folder, &["a"]);
        let entry = Entry { kind: EntryKind::Authorization, name: "keys".to_owned(), principal: None };
        vault.put(&entry, b"{\"version\": 2}").await.expect("a write");
        assert!(matches!(open(&folder, &["a"], &store, 0).await.err(), Some(KeyError::Form)));
        assert_eq!(vault.get(&entry).expect("a read").expect("a value").as_slice(), b"{\"version\": 2}");
    }

    proptest! {
        /// The key that signs was published at the time before, at whichever times the process runs.
        #[test]
        fn key_that_signs_was_published_before(steps in prop::collection::vec(1_u64..40 * 24 * 3_600, 1..40)) {
            let stored = |made: u64| StoredKey { kid: made.to_string(), private: String::new(), made };
            let (mut keys, mut now): (Vec<StoredKey>, u64) = (vec![stored(0)], 0);
            for step in steps {
                let earlier: Vec<String> = keys.iter().map(|key| key.kid.clone()).collect();
                now += step;
                while let Some(change) = change(&keys, now) {
                    match change {
                        Change::Make => keys.push(stored(now)),
                        Change::Remove => { keys.remove(0); }
                    }
                }
                let signer = signer(&keys, now).expect("a key");
                prop_assert!(keys.len() <= 3);
                prop_assert!(earlier.contains(&signer.kid));
            }
        }
    }
}
