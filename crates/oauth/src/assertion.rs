//! Assertions that a private key signs: who Switchyard is, or on whose behalf it asks for a token.
//!
//! Invariant: an assertion is for one issuer, lives for a minute, and has an id of its own.
//!
//! Source: RFC 7523, section 3.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use uuid::Uuid;

use crate::config::Settings;
use crate::error::Error;

/// The life of an assertion in seconds.
const LIFE_SECONDS: u64 = 60;

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
}

/// Signs an assertion of the client `client_id` about `subject`, for `issuer`.
pub(crate) fn sign(
    settings: &Settings,
    client_id: &str,
    subject: &str,
    issuer: &str,
) -> Result<SecretString, Error> {
    let missing =
        || Error::Unsupported { what: "an assertion has to be signed; fill in `private_key`".into() };
    let pem = settings.private_key.as_ref().ok_or_else(missing)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let jti = Uuid::new_v4().to_string();
    let claims = Claims { iss: client_id, sub: subject, aud: issuer, iat: now, exp: now + LIFE_SECONDS, jti };
    let kid = settings.private_key_id.as_ref();
    let signed = keys(pem).into_iter().find_map(|(algorithm, key)| {
        let header = Header { kid: kid.cloned(), ..Header::new(algorithm) };
        encode(&header, &claims, &key).ok()
    });
    let unusable = "`private_key` cannot sign; expected an RSA, EC (P-256, P-384) or Ed25519 key in PEM";
    signed.map(SecretString::from).ok_or_else(|| Error::refused(unusable))
}

/// Returns what the key may be. Only the right algorithm can sign with it.
fn keys(pem: &SecretString) -> Vec<(Algorithm, EncodingKey)> {
    // A variable of the environment often has `\n` for the ends of lines.
    let pem = Zeroizing::new(pem.expose_secret().replace("\\n", "\n"));
    let ec =
        [Algorithm::ES256, Algorithm::ES384].map(|kind| (kind, EncodingKey::from_ec_pem(pem.as_bytes())));
    let others = [
        (Algorithm::EdDSA, EncodingKey::from_ed_pem(pem.as_bytes())),
        (Algorithm::RS256, EncodingKey::from_rsa_pem(pem.as_bytes())),
    ];
    ec.into_iter().chain(others).filter_map(|(algorithm, key)| Some((algorithm, key.ok()?))).collect()
}
