//! Sealed tokens: values that Switchyard gives to a client and accepts back only unchanged and from that client.
//!
//! A token is encrypted and authenticated (AES-256-GCM-SIV), together with its purpose and its principal. Invariants: a
//! token opens only for that purpose and principal. A changed, shortened, foreign or invented token is refused without
//! a reason. Equal content gives equal tokens, as long as the first key is the same. Tokens of every configured key are
//! opened. A reader can see that two tokens have equal content, which is intended (a task has one id), but nothing
//! else.
//!
//! Keys are derived from one secret with HKDF-SHA256 (RFC 5869), with a label for each use, so that two uses of one secret share
//! no key. They are wiped from memory when they are dropped. In the settings (`seal_keys` and `vault_key`) a key is a reference
//! such as `${NAME}`, so that none is in the configuration file itself.
//!
//! Not here: the lifetime and the content of tokens. The length of a token is limited by its message, and opening takes
//! one pass.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;
use secrecy::zeroize::Zeroizing;

use super::Principal;
use super::token_config::read_secret;
use runtime::secret::{ExposeSecret, SecretString};
use settings::Setting;

/// Separates these keys from others that are derived from the same secret.
const LABEL: &[u8] = b"switchyard sealed tokens 1";

/// Included in authentication, so that tokens of a future kind are never opened as these.
const KIND: u8 = 0;

/// Seals tokens with its first key and opens them with any of its keys.
pub struct Sealer {
    first: SealingKey,
    /// Earlier keys, whose tokens are still opened.
    others: Vec<SealingKey>,
}

/// The keys derived from one secret.
struct SealingKey {
    key: LessSafeKey,
    /// Derives the nonce from the content, so that equal content gives equal tokens. GCM-SIV stays safe when a nonce
    /// repeats.
    nonces: hmac::Key,
}

impl Sealer {
    /// A sealer with a random key: its tokens end with the process.
    ///
    /// # Panics
    /// If the system gives no random bytes, because sealing is not safe without them.
    pub fn random() -> Self {
        let mut key = [0; 32];
        // The library's generator is not used: its first use measures the noise of the processor for tens of
        // milliseconds, which would delay the start.
        SysRng.try_fill_bytes(&mut key).expect("the system gives random bytes");
        Self { first: SealingKey::of(&key), others: Vec::new() }
    }

    /// A sealer that seals with the first of `secrets` and opens with all of them; without any, a random sealer. Its
    /// tokens outlive the process, and are opened by every instance with the same secrets. A secret must be hard to guess: at
    /// least 32 random bytes.
    pub fn from_secrets(secrets: &[SecretString]) -> Self {
        let Some((first, others)) = secrets.split_first() else { return Self::random() };
        Self {
            first: SealingKey::from_secret(first),
            others: others.iter().map(SealingKey::from_secret).collect(),
        }
    }

    /// Seals `payload` into a token that only `principal` can send back, and only for `purpose`. It has letters,
    /// digits, `-` and `_`.
    pub fn seal(&self, purpose: &str, principal: &Principal, payload: &[u8]) -> String {
        self.first.seal(&associated(purpose, principal), payload.to_vec())
    }

    /// Opens a token that was sealed for `purpose` and `principal`; none for anything else.
    pub fn open(&self, purpose: &str, principal: &Principal, token: &str) -> Option<Vec<u8>> {
        let (associated, sealed) = (associated(purpose, principal), URL_SAFE_NO_PAD.decode(token).ok()?);
        std::iter::once(&self.first).chain(&self.others).find_map(|key| key.open(&associated, sealed.clone()))
    }
}

impl SealingKey {
    fn from_secret(secret: &SecretString) -> Self {
        Self::of(secret.expose_secret().as_bytes())
    }

    fn of(secret: &[u8]) -> Self {
        let secret = Secret::new(LABEL, secret);
        let key = UnboundKey::new(&AES_256_GCM_SIV, &*secret.key(b"token")).expect("a key has 32 bytes");
        Self { key: LessSafeKey::new(key), nonces: hmac::Key::new(hmac::HMAC_SHA256, &*secret.key(b"nonce")) }
    }

    fn seal(&self, associated: &[u8], mut plain: Vec<u8>) -> String {
        let mut digest = hmac::Context::with_key(&self.nonces);
        digest.update(&(associated.len() as u64).to_be_bytes());
        digest.update(associated);
        digest.update(&plain);
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&digest.sign().as_ref()[..NONCE_LEN]);
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(sealing, Aad::from(associated), &mut plain)
            .expect("a payload is far below the 64 GiB of the algorithm");
        URL_SAFE_NO_PAD.encode([&nonce[..], &plain].concat())
    }

    fn open(&self, associated: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.key.open_in_place(nonce, Aad::from(associated), sealed).ok()?;
        Some(plain.to_vec())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// The authenticated data beside the payload. The length keeps the boundary of the two parts unambiguous.
fn associated(purpose: &str, principal: &Principal) -> Vec<u8> {
    let length = (purpose.len() as u64).to_be_bytes();
    [&[KIND], &length[..], purpose.as_bytes(), principal.id().as_bytes()].concat()
}

/// Reads `seal_keys`: references to secrets. The first one seals, and all of them open.
pub fn read_seal_keys(setting: &Setting<'_>) -> Option<Vec<SecretString>> {
    read(setting, &setting.list()?, "remove the setting for a new key at each start")
}

/// The extracted secret, from which keys are derived.
pub(crate) struct Secret(hkdf::Prk);

impl Secret {
    /// Extracts `secret` for the use that `label` names.
    pub(crate) fn new(label: &[u8], secret: &[u8]) -> Self {
        Self(hkdf::Salt::new(hkdf::HKDF_SHA256, label).extract(secret))
    }

    /// Derives the key for `purpose`.
    pub(crate) fn key(&self, purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        let purpose = [purpose];
        let output = self.0.expand(&purpose, hkdf::HKDF_SHA256);
        output.and_then(|output| output.fill(&mut *key)).expect("32 bytes can be derived");
        key
    }
}

/// Limit of keys that open one kind of sealed values, because each one may be tried.
const MAX_KEYS: usize = 8;

/// Reads `items`, the keys of `setting`. `hint` says what happens without the setting.
pub(super) fn read(setting: &Setting<'_>, items: &[Setting<'_>], hint: &str) -> Option<Vec<SecretString>> {
    if items.is_empty() || items.len() > MAX_KEYS {
        let message = format!("expected 1 to {MAX_KEYS} keys, found {}", items.len());
        setting.key_problem(message, Some(hint.into()));
        return None;
    }
    Some(items.iter().filter_map(read_one).collect())
}

fn read_one(setting: &Setting<'_>) -> Option<SecretString> {
    if setting.is_literal() {
        let hint = "set a variable of the environment to it, and write `${NAME}`".to_owned();
        setting.hidden_problem("a key stands in the file itself", Some(hint));
        return None;
    }
    read_secret(setting)
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
