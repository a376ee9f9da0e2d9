//! Certificates for tests of TLS.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A certificate authority.
pub struct CertificateAuthority {
    /// Signs certificates.
    pub issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, in PEM.
    pub pem: String,
}

impl CertificateAuthority {
    /// A new authority with a key of its own.
    ///
    /// # Panics
    ///
    /// If no key can be made.
    #[allow(clippy::new_without_default)] // each one is another
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Signs a certificate with a new key, and returns both in PEM.
    ///
    /// # Panics
    ///
    /// If `params` cannot be signed.
    pub fn signs(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem())
    }
}
