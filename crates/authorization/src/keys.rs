//! The keys of the authorization server: one that seals its records, and those that sign tokens.
//!
//! Invariants: all of them are in one entry of the vault, which processes change one at a time. A key for signatures is
//! published for a day before it signs, and for an hour after its last signature. So a copy of the key set that is a
//! day old verifies every valid token. The first key signs at once.
//!
//! Source: RFC 7517; RFC 8037; RFC 9068, section 2.1.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use auth::vault::{self, Entry, EntryKind, Vault, VaultKey};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey};
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Seconds after which the next key is made.
const MAKE_NEXT: u64 = 90 * 24 * 3_600;
/// Seconds for which a key is published before it signs.
const PUBLISHED_BEFORE: u64 = 24 * 3_600;
/// Seconds for which a key is published after its last signature: longer than the life of a token.
const PUBLISHED_AFTER: u64 = 3_600;
/// Seconds after which the vault is read again, so that keys of other processes are known.
const READ_AGAIN: u64 = 600;
/// Seconds after a failure in which the vault is not read again: anybody can send a token with an unknown key.
const RETRY: u64 = 5;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The vault cannot be used.
    #[error("the keys of the authorization server: {0}")]
    Vault(#[from] vault::Error),
    /// The entry of the vault has another form than it should have.
    #[error(
        "the keys of the authorization server in the vault cannot be read; another version may have written them"
    )]
    Form,
    /// No key could be made.
    #[error("the system could not make a key for the authorization server")]
    Generation,
}

/// The entry of the vault.
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
    until: AtomicU64,
}

/// The keys, which change with time.
pub(crate) struct Keys {
    vault: Arc<Vault>,
    current: ArcSwapOption<KeyRing>,
}

impl Keys {
    /// Reads the keys, and makes them if there are none. Returns the key for records too.
    pub(crate) async fn open(vault: Arc<Vault>, now: u64) -> Result<(Self, VaultKey), KeyError> {
        let keys = Self { vault, current: ArcSwapOption::empty() };
        let entries = keys.read(now).await?;
        let record_key =
            STANDARD.decode(&entries.record_key).map(Zeroizing::new).map_err(|_| KeyError::Form)?;
        Ok((keys, VaultKey::of(&record_key)))
    }

    /// Returns the keys of the moment `now`. If the vault fails, the last ones stay in use.
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
            (Err(error), None) => Err(error),
            (Ok(_), _) => self.current.load_full().ok_or(KeyError::Form),
        }
    }

    /// Returns the key that verifies tokens with `kid`. It blocks on the vault if another process may have made it.
    pub(crate) fn verifying(&self, kid: &str, now: u64) -> Option<DecodingKey> {
        let current = self.current.load_full()?;
        if let Some(key) = current.verifying.get(kid) {
            return Some(key.clone());
        }
        if current.is_current(now) {
            return None;
        }
        let read = self.stored(&entry()).and_then(|entries| {
            let entries = entries.ok_or(KeyError::Form)?;
            KeyRing::of(&entries.signing, now)
        });
        let Ok(ring) = read else {
            current.until.store(now + RETRY, Ordering::Relaxed);
            return None;
        };
        let key = ring.verifying.get(kid).cloned();
        self.current.store(Some(Arc::new(ring)));
        key
    }

    async fn read(&self, now: u64) -> Result<Entries, KeyError> {
        let entry = entry();
        if self.stored(&entry)?.is_none_or(|entries| change(&entries.signing, now).is_some()) {
            self.vault.update(&entry, move |before| changed(before, now)).await?;
        }
        let entries = self.stored(&entry)?.ok_or(KeyError::Generation)?;
        self.current.store(Some(Arc::new(KeyRing::of(&entries.signing, now)?)));
        Ok(entries)
    }

    fn stored(&self, entry: &Entry) -> Result<Option<Entries>, KeyError> {
        let Some(value) = self.vault.get(entry)? else { return Ok(None) };
        serde_json::from_slice(&value).map(Some).map_err(|_| KeyError::Form)
    }
}

/// The name of the entry.
fn entry() -> Entry {
    Entry { kind: EntryKind::Authorization, name: "keys".to_owned(), principal: None }
}

impl KeyRing {
    fn of(keys: &[StoredKey], now: u64) -> Result<Self, KeyError> {
        let signer = signer(keys, now).ok_or(KeyError::Form)?;
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
            until: (now + READ_AGAIN).into(),
        })
    }

    fn is_current(&self, now: u64) -> bool {
        now < self.until.load(Ordering::Relaxed)
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

/// Returns the entry `before` with all changes that are due; none if it cannot be read or nothing is due.
fn changed(before: Option<&[u8]>, now: u64) -> Option<Zeroizing<Vec<u8>>> {
    let mut entries = match before {
        Some(before) => serde_json::from_slice(before).ok()?,
        None => Entries { record_key: random_key()?, signing: Vec::new() },
    };
    while let Some(change) = change(&entries.signing, now) {
        match change {
            Change::Make => entries.signing.push(StoredKey::new(now)?),
            Change::Remove => _ = entries.signing.remove(0),
        }
    }
    serde_json::to_vec(&entries).map(Zeroizing::new).ok()
}

fn random_key() -> Option<String> {
    let mut key = Zeroizing::new([0; 32]);
    SysRng.try_fill_bytes(&mut *key).ok()?;
    Some(STANDARD.encode(*key))
}

#[cfg(test)]
mod tests {
    use auth::vault::VaultConfig;
    use proptest::prelude::*;

    use super::*;

    fn vault(folder: &tempfile::TempDir) -> Arc<Vault> {
        Vault::new(VaultConfig { path: folder.path().join("vault.json"), keys: Vec::new() })
    }

    #[tokio::test]
    async fn keys_outlive_the_process_and_change_without_a_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keys, record_key) = Keys::open(vault(&folder), 0).await.expect("keys");
        let first = keys.at(0).await.expect("keys").kid.clone();
        let sealed = record_key.seal(b"place", b"text").expect("sealed");
        let (again, same) = Keys::open(vault(&folder), 5).await.expect("keys");
        assert_eq!(again.at(5).await.expect("keys").kid, first);
        assert_eq!(same.open(b"place", &sealed).expect("opened").as_slice(), b"text");

        let ring = keys.at(MAKE_NEXT).await.expect("keys");
        assert_eq!((ring.kid.as_str(), ring.verifying.len()), (&*first, 2), "published, but not used yet");
        let ring = keys.at(MAKE_NEXT + PUBLISHED_BEFORE).await.expect("keys");
        assert!(ring.kid != first && ring.verifying.contains_key(&first));
        let other = again.at(MAKE_NEXT + PUBLISHED_BEFORE).await.expect("keys");
        assert_eq!(other.kid, ring.kid, "another process uses the same key");
        let ring = keys.at(MAKE_NEXT + PUBLISHED_BEFORE + PUBLISHED_AFTER).await.expect("keys");
        assert!(!ring.verifying.contains_key(&first));
        let text = ring.published.to_string();
        assert!(text.contains(&ring.kid) && !text.contains("\"d\""), "{text}");
    }

    #[tokio::test]
    async fn vault_that_fails_is_not_read_for_each_unknown_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let (keys, _) = Keys::open(vault(&folder), 0).await.expect("keys");
        let file = folder.path().join("vault.json");
        let good = std::fs::read(&file).expect("a vault");
        std::fs::write(&file, "no vault").expect("a write");
        assert!(keys.verifying("unknown", READ_AGAIN).is_none());
        std::fs::write(&file, good).expect("a write");
        let until = || keys.current.load_full().expect("keys").until.load(Ordering::Relaxed);
        assert!(keys.verifying("unknown", READ_AGAIN + RETRY - 1).is_none());
        assert_eq!(until(), READ_AGAIN + RETRY);
        assert!(keys.verifying("unknown", READ_AGAIN + RETRY).is_none());
        assert_eq!(until(), READ_AGAIN + RETRY + READ_AGAIN, "it was read again");
    }

    #[tokio::test]
    async fn keys_of_another_form_are_neither_used_nor_replaced() {
        let (folder, vault) = {
            let folder = tempfile::tempdir().expect("a folder");
            let vault = vault(&folder);
            (folder, vault)
        };
        let entry = entry();
        vault.put(&entry, b"{\"version\": 2}").await.expect("a write");
        assert!(matches!(Keys::open(Arc::clone(&vault), 0).await.err(), Some(KeyError::Form)));
        assert_eq!(vault.get(&entry).expect("a read").expect("a value").as_slice(), b"{\"version\": 2}");
        drop(folder);
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
