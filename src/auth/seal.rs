//! Sealed tokens: what we hand out and want back as it was, from the one we gave it to.
//!
//! A token is encrypted and authenticated (AES-256-GCM-SIV), together with what it is for and whose
//! it is. Invariants: a token opens only for the purpose and the principal it was sealed for; a
//! changed, shortened, foreign or invented one is refused like any other, and nobody learns why; the
//! same content gives the same token, as long as the key is the same. That two tokens with equal
//! content look equal is wanted (a task has one id), and the only thing they tell.
//!
//! Not here: how long a token is good, and what stands in it. How long a token may be is
//! bounded by the message it comes in; opening one costs one pass over it.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::TryRng;
use rand::rngs::SysRng;

use super::Principal;
use crate::secret::{ExposeSecret, SecretString};

/// Sets the keys made here apart from all others that may be made from the same secret.
const LABEL: &[u8] = b"switchyard sealed tokens 1";

/// Part of what is authenticated, so that tokens of another kind, should there be one, are never opened as these.
const KIND: u8 = 0;

/// Seals tokens and opens them again.
pub struct Sealer {
    key: LessSafeKey,
    /// Makes the nonce from the content, so that equal content gives equal tokens. GCM-SIV stays
    /// safe when a nonce repeats.
    nonces: hmac::Key,
}

impl Sealer {
    /// A sealer with a key nobody else has: its tokens end with the program.
    ///
    /// # Panics
    /// When the system gives no random bytes; without them nothing here is safe.
    pub fn random() -> Self {
        let mut key = [0; 32];
        // The system's, and not those of the library, which spends tens of milliseconds on measuring
        // the processor's noise when it is asked for the first time: the start would wait for it.
        SysRng.try_fill_bytes(&mut key).expect("the system gives random bytes");
        Self::of(&key)
    }

    /// A sealer whose tokens outlive the program and are opened by every instance that has the same
    /// secret. The secret must be hard to guess: at least 32 random bytes.
    pub fn from_secret(secret: &SecretString) -> Self {
        Self::of(secret.expose_secret().as_bytes())
    }

    fn of(secret: &[u8]) -> Self {
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, LABEL).extract(secret);
        let derive = |what: &[u8]| {
            let mut key = [0; 32];
            let label = [what];
            let output = secret.expand(&label, hkdf::HKDF_SHA256);
            output.and_then(|output| output.fill(&mut key)).expect("32 bytes can be derived");
            key
        };
        let key = UnboundKey::new(&AES_256_GCM_SIV, &derive(b"token")).expect("a key has 32 bytes");
        Self { key: LessSafeKey::new(key), nonces: hmac::Key::new(hmac::HMAC_SHA256, &derive(b"nonce")) }
    }

    /// `payload` as a token that only `principal` can give back, and only for `purpose`: letters,
    /// digits, `-` and `_`.
    pub fn seal(&self, purpose: &str, principal: &Principal, payload: &[u8]) -> String {
        self.seal_with(&associated(purpose, principal), payload.to_vec())
    }

    /// What was sealed for `purpose` and `principal`; none for anything else.
    pub fn open(&self, purpose: &str, principal: &Principal, token: &str) -> Option<Vec<u8>> {
        self.open_with(&associated(purpose, principal), token)
    }

    fn seal_with(&self, associated: &[u8], mut plain: Vec<u8>) -> String {
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

    fn open_with(&self, associated: &[u8], token: &str) -> Option<Vec<u8>> {
        let mut sealed = URL_SAFE_NO_PAD.decode(token).ok()?;
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

/// What is authenticated beside the payload. The length keeps two parts from being read as one.
fn associated(purpose: &str, principal: &Principal) -> Vec<u8> {
    let length = (purpose.len() as u64).to_be_bytes();
    [&[KIND], &length[..], purpose.as_bytes(), principal.id().as_bytes()].concat()
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;
