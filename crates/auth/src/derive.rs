//! Keys for sealing, derived from one secret with HKDF-SHA256 (RFC 5869).
//!
//! Invariants: a label separates the keys of each use, so that two uses of one secret share no key. Derived keys are
//! wiped from memory when they are dropped.

use aws_lc_rs::hkdf;
use secrecy::zeroize::Zeroizing;

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
