//! Keys that verify tokens: they come from the configuration only, and are checked when they are
//! read.
//!
//! A key that its algorithms cannot use stops the start, instead of refusing every token later.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::token_config::{Jwt, KeySource, MIN_SECRET_BYTES, PublicKey};
use super::{Error, Reason};
use crate::revocation::RevocationState;
use runtime::regular_file;

/// Limit of the size of a key file.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Limit of the keys of a set that a login service publishes.
const MAX_PUBLISHED: usize = 32;
/// The shortest RSA modulus, 2048 bits.
const MIN_MODULUS_BYTES: usize = 256;

/// Keys that verify signatures.
pub(super) enum VerificationKeys {
    /// One key for every token; the `kid` of a token is ignored.
    One(VerificationKey),
    /// A key set, by `kid`.
    Set(HashMap<String, VerificationKey>),
}

/// One key.
pub(super) struct VerificationKey {
    /// The only algorithm that the key may be used with, if the set names one.
    algorithm: Option<Algorithm>,
    /// The key material.
    pub(super) material: DecodingKey,
    /// Revocation state of the principals whose tokens this key verified.
    pub(super) revocation_state: RevocationState,
}

impl VerificationKey {
    fn of(algorithm: Option<Algorithm>, key: DecodingKey) -> Self {
        Self { algorithm, material: key, revocation_state: RevocationState::default() }
    }

    /// Whether it accepts the same tokens as `other`.
    fn is(&self, other: &Self) -> bool {
        let is_equal = match (self.material.kind(), other.material.kind()) {
            (DecodingKeyKind::SecretOrDer(ours), DecodingKeyKind::SecretOrDer(theirs)) => ours == theirs,
            (
                DecodingKeyKind::RsaModulusExponent { n, e },
                DecodingKeyKind::RsaModulusExponent { n: their_n, e: their_e },
            ) => n == their_n && e == their_e,
            _ => false,
        };
        is_equal && self.algorithm == other.algorithm && self.material.family() == other.material.family()
    }
}

impl VerificationKeys {
    pub(super) fn new(config: &Jwt) -> Result<Self, Error> {
        let algorithms = &config.algorithms;
        match &config.key {
            KeySource::Secret(secret) if secret.expose_secret().len() < MIN_SECRET_BYTES => {
                Err(Error::Key("the secret for tokens is shorter than 32 bytes"))
            }
            KeySource::Secret(secret) => {
                one(DecodingKey::from_secret(secret.expose_secret().as_bytes()), algorithms)
            }
            KeySource::PublicKey(PublicKey::Text(pem)) => {
                one(decoding_key(algorithms, pem.as_bytes())?, algorithms)
            }
            KeySource::PublicKey(PublicKey::File(path)) => {
                one(decoding_key(algorithms, &read_file(path)?)?, algorithms)
            }
            KeySource::JwksFile(path) => set(&read_file(path)?, algorithms),
            // They are fetched later, or a login service is asked about each token.
            KeySource::Published(_) | KeySource::Introspection(_) => Ok(Self::none()),
        }
    }

    /// A set without keys, so no token is accepted.
    pub(super) fn none() -> Self {
        Self::Set(HashMap::new())
    }

    /// Reads a set that a login service publishes. Such a set may also have keys for other uses, which are skipped.
    pub(super) fn published(json: &[u8], algorithms: &[Algorithm]) -> Result<Self, Error> {
        let set: Value =
            serde_json::from_slice(json).map_err(|_| Error::Key("the key set is not valid JSON"))?;
        let listed = set["keys"].as_array().ok_or(Error::Key("the key set has no list of `keys`"))?;
        if listed.len() > MAX_PUBLISHED {
            return Err(Error::Key("the key set has more than 32 keys"));
        }
        let readable = listed.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok());
        collect(readable.filter_map(|jwk| Some((key_of(&jwk, algorithms)?.ok()?, jwk))))
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Set(keys) if keys.is_empty())
    }

    /// Returns these keys with new revocation states, for tokens that are judged by other rules.
    pub(super) fn anew(&self) -> Self {
        let anew = |key: &VerificationKey| VerificationKey::of(key.algorithm, key.material.clone());
        match self {
            Self::One(key) => Self::One(anew(key)),
            Self::Set(keys) => Self::Set(keys.iter().map(|(kid, key)| (kid.clone(), anew(key))).collect()),
        }
    }

    /// Returns the key for a token. A token without `kid` matches a set of one key.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&VerificationKey, Reason> {
        let found = match (self, kid) {
            (Self::One(key), _) => return Ok(key),
            (Self::Set(keys), Some(kid)) => keys.get(kid),
            (Self::Set(keys), None) => keys.values().next().filter(|_| keys.len() == 1),
        };
        let found = found.ok_or(Reason::UnknownKid)?;
        let fits = found.algorithm.is_none_or(|only| only == algorithm);
        if fits { Ok(found) } else { Err(Reason::Header) }
    }

    /// Takes the revocation states of keys that are in both sets, so that principals with such
    /// tokens stay authenticated.
    pub(super) fn go_on(&mut self, before: &Self) {
        match (self, before) {
            (Self::One(key), Self::One(old)) if key.is(old) => {
                key.revocation_state = old.revocation_state.clone();
            }
            (Self::Set(keys), Self::Set(old)) => {
                for (kid, key) in keys {
                    if let Some(old) = old.get(kid).filter(|old| key.is(old)) {
                        key.revocation_state = old.revocation_state.clone();
                    }
                }
            }
            _ => {}
        }
    }

    /// The revocation states of all keys.
    pub(super) fn revocation_states(&self) -> Vec<RevocationState> {
        match self {
            Self::One(key) => vec![key.revocation_state.clone()],
            Self::Set(keys) => keys.values().map(|key| key.revocation_state.clone()).collect(),
        }
    }
}

fn one(key: DecodingKey, algorithms: &[Algorithm]) -> Result<VerificationKeys, Error> {
    check(&key, algorithms)?;
    Ok(VerificationKeys::One(VerificationKey::of(None, key)))
}

fn set(json: &[u8], algorithms: &[Algorithm]) -> Result<VerificationKeys, Error> {
    let set: JwkSet =
        serde_json::from_slice(json).map_err(|_| Error::Key("the key set is not a JSON Web Key Set"))?;
    let read = set.keys.into_iter().filter_map(|jwk| Some((key_of(&jwk, algorithms)?, jwk)));
    collect(read.map(|(key, jwk)| Ok((key?, jwk))).collect::<Result<Vec<_>, Error>>()?)
}

/// The key of `jwk`, unless it is for another use or of another family.
fn key_of(jwk: &Jwk, algorithms: &[Algorithm]) -> Option<Result<VerificationKey, Error>> {
    let family = algorithms.first().map(|algorithm| algorithm.family());
    if !is_for_signatures(jwk) || family_of(jwk) != family {
        return None;
    }
    let key = material(jwk).ok_or(Error::Key("a key of the key set cannot be read"));
    let algorithm = jwk.common.key_algorithm.and_then(|named| Algorithm::try_from(named).ok());
    Some(key.and_then(|key| check(&key, algorithms).map(|()| VerificationKey::of(algorithm, key))))
}

/// Reads the key material. Some services write the padding of Base64, or zero bytes before a large number, which
/// an RSA key must not have (RFC 7518, section 6.3.1.1).
fn material(jwk: &Jwk) -> Option<DecodingKey> {
    let mut jwk = jwk.clone();
    let unpadded = |text: &mut String| text.truncate(text.trim_end_matches('=').len());
    match &mut jwk.algorithm {
        AlgorithmParameters::RSA(key) => {
            let [modulus, exponent] = [number(&key.n)?, number(&key.e)?];
            return Some(DecodingKey::from_rsa_raw_components(&modulus, &exponent));
        }
        AlgorithmParameters::EllipticCurve(key) => [&mut key.x, &mut key.y].into_iter().for_each(unpadded),
        AlgorithmParameters::OctetKeyPair(key) => unpadded(&mut key.x),
        _ => {}
    }
    DecodingKey::from_jwk(&jwk).ok()
}

/// The bytes of a number in Base64, without zeros before it.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn collect(read: impl IntoIterator<Item = (VerificationKey, Jwk)>) -> Result<VerificationKeys, Error> {
    let mut keys = HashMap::new();
    for (key, jwk) in read {
        if keys.insert(jwk.common.key_id.unwrap_or_default(), key).is_some() {
            return Err(Error::Key("two keys of the key set have the same `kid`, or none"));
        }
    }
    if keys.is_empty() {
        return Err(Error::Key("the key set has no public key for the configured algorithms"));
    }
    Ok(VerificationKeys::Set(keys))
}

fn is_for_signatures(jwk: &Jwk) -> bool {
    let signs = |named| Algorithm::try_from(named).is_ok();
    matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature))
        && jwk.common.key_algorithm.is_none_or(signs)
}

/// Returns the family of a key. A shared secret in a key set is never used, because such files are
/// made to be published.
const fn family_of(jwk: &Jwk) -> Option<AlgorithmFamily> {
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Some(AlgorithmFamily::Rsa),
        AlgorithmParameters::EllipticCurve(_) => Some(AlgorithmFamily::Ec),
        AlgorithmParameters::OctetKeyPair(_) => Some(AlgorithmFamily::Ed),
        _ => None,
    }
}

fn decoding_key(algorithms: &[Algorithm], pem: &[u8]) -> Result<DecodingKey, Error> {
    if String::from_utf8_lossy(pem).contains("PRIVATE KEY") {
        return Err(Error::Key("the public key for tokens is a private key"));
    }
    let read = match algorithms.first().map(|algorithm| algorithm.family()) {
        Some(AlgorithmFamily::Rsa) => DecodingKey::from_rsa_pem(pem),
        Some(AlgorithmFamily::Ec) => DecodingKey::from_ec_pem(pem),
        Some(AlgorithmFamily::Ed) => DecodingKey::from_ed_pem(pem),
        Some(AlgorithmFamily::Hmac) | None => {
            return Err(Error::Key("the algorithm for tokens needs a secret"));
        }
    };
    read.map_err(|_| Error::Key("the public key for tokens is not a PEM of the kind the algorithms need"))
}

/// Reads a private key in PEM, for signing.
pub(super) fn encoding_key(algorithm: Algorithm, pem: &[u8]) -> Result<EncodingKey, Error> {
    let read = match algorithm.family() {
        AlgorithmFamily::Rsa => EncodingKey::from_rsa_pem(pem),
        AlgorithmFamily::Ec => EncodingKey::from_ec_pem(pem),
        AlgorithmFamily::Ed => EncodingKey::from_ed_pem(pem),
        AlgorithmFamily::Hmac => return Err(Error::Key("the algorithm for tokens needs a secret")),
    };
    read.map_err(|_| Error::Key("the private key is not a PEM of the kind the algorithms need"))
}

/// Checks that the algorithms can use the key: its family, the size of an RSA key, the curve.
fn check(key: &DecodingKey, algorithms: &[Algorithm]) -> Result<(), Error> {
    let family = algorithms.first().map(|algorithm| algorithm.family());
    if family != Some(key.family()) {
        return Err(Error::Key("the algorithms and the key for tokens do not fit together"));
    }
    if key.family() == AlgorithmFamily::Hmac {
        return Ok(());
    }
    let jwk =
        Jwk::from_decoding_key(key, None).map_err(|_| Error::Key("the public key for tokens is damaged"))?;
    match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if rsa.n.len() * 3 / 4 < MIN_MODULUS_BYTES => {
            Err(Error::Key("the RSA key for tokens is smaller than 2048 bits"))
        }
        AlgorithmParameters::EllipticCurve(ec) if !algorithms.contains(&algorithm_of(&ec.curve)) => {
            Err(Error::Key("the curve of the key for tokens is not that of the algorithm"))
        }
        _ => Ok(()),
    }
}

const fn algorithm_of(curve: &EllipticCurve) -> Algorithm {
    match curve {
        EllipticCurve::P384 => Algorithm::ES384,
        _ => Algorithm::ES256,
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { path: path.display().to_string(), source };
    regular_file::read(path, MAX_FILE_BYTES).map_err(failed)
}

#[cfg(test)]
#[path = "jwt_keys_tests.rs"]
pub(super) mod tests;
