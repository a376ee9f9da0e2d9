//! Signed assertions by which a client proves who it is.
//!
//! Invariants: an assertion is about its sender, for this server alone, and ends within five minutes. Its algorithm is one
//! for public keys, and fits the key. Assertions come with a code or a refresh token, which work once, so there is no
//! table of assertions that were used.
//!
//! Source: RFC 7523, sections 2.2 and 3; RFC 7519, section 4.1.3.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

/// The value of `client_assertion_type`.
pub(crate) const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// The algorithms that are accepted, for metadata.
pub(crate) const ALGORITHMS: [&str; 5] = ["ES256", "ES384", "EdDSA", "RS256", "PS256"];

/// Limit of the length of an assertion in bytes.
const MAX_BYTES: usize = 8 << 10;
/// Seconds until an assertion has to end.
const LONGEST: u64 = 300;
/// Seconds by which the clocks may differ.
const LEEWAY: u64 = 30;
/// The shortest RSA modulus, 2048 bits, in Base64.
const MIN_MODULUS: usize = 2_048 / 6;

#[derive(Deserialize)]
struct AssertionClaims {
    sub: String,
    exp: u64,
    jti: String,
    aud: Audience,
}

/// An audience that is a list could have other servers in it, which could use the assertion here.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    List([String; 1]),
}

/// Verifies `assertion` of `client` for one of `audiences`. The error is for the developer of the client.
pub(crate) fn verify(
    assertion: &str,
    client: &str,
    keys: &JwkSet,
    audiences: [&str; 2],
    now: u64,
) -> Result<(), &'static str> {
    if assertion.len() > MAX_BYTES {
        return Err("the assertion is longer than 8 KiB");
    }
    let header = decode_header(assertion).map_err(|_| "the assertion is not a signed JWT")?;
    let is_candidate = |jwk: &&Jwk| header.kid.is_none() || jwk.common.key_id == header.kid;
    let validation = validation(client, header.alg);
    let is_signed_by = |jwk: &Jwk| {
        let key = key_of(jwk, header.alg)?;
        decode::<AssertionClaims>(assertion, &key, &validation).ok()
    };
    let verified = keys.keys.iter().filter(is_candidate).find_map(is_signed_by);
    let claims = verified
        .ok_or("the assertion is not signed by a key of the client, or its `iss` is another client")?
        .claims;
    let (Audience::One(audience) | Audience::List([audience])) = &claims.aud;
    if !audiences.contains(&audience.as_str()) {
        return Err("the `aud` of the assertion is not the issuer");
    }
    if claims.sub != client {
        return Err("the `sub` of the assertion is not the client");
    }
    if claims.exp.saturating_add(LEEWAY) <= now || claims.exp > now + LONGEST + LEEWAY {
        return Err("the assertion has expired, or is valid for more than five minutes");
    }
    if claims.jti.is_empty() { Err("the assertion has no `jti`") } else { Ok(()) }
}

/// The clock is compared elsewhere, with the one of the caller.
fn validation(client: &str, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
    validation.set_issuer(&[client]);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}

/// Returns the key of `jwk` if an assertion may be signed with it by `algorithm`.
fn key_of(jwk: &Jwk, algorithm: Algorithm) -> Option<DecodingKey> {
    let family = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if rsa.n.len() >= MIN_MODULUS => AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(_) => AlgorithmFamily::Ec,
        AlgorithmParameters::OctetKeyPair(_) => AlgorithmFamily::Ed,
        _ => return None,
    };
    let is_accepted = ALGORITHMS.iter().any(|name| name.parse() == Ok(algorithm));
    let only = jwk.common.key_algorithm.and_then(|named| Algorithm::try_from(named).ok());
    let fits = is_accepted && algorithm.family() == family && only.is_none_or(|only| only == algorithm);
    fits.then(|| DecodingKey::from_jwk(jwk).ok())?
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    use super::*;

    const CLIENT: &str = "https://app.example/client.json";
    const AUDIENCES: [&str; 2] = ["https://gw.example", "https://gw.example/oauth/token"];

    fn pair() -> (EncodingKey, JwkSet) {
        let pair = Ed25519KeyPair::generate().expect("a key");
        let x = URL_SAFE_NO_PAD.encode(pair.public_key());
        let set = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] });
        let private = pair.to_pkcs8v1().expect("a document");
        (EncodingKey::from_ed_der(private.as_ref()), serde_json::from_value(set).expect("a set"))
    }

    fn claims() -> Value {
        json!({ "iss": CLIENT, "sub": CLIENT, "aud": AUDIENCES[0], "exp": 1_060, "jti": "1" })
    }

    #[test]
    fn assertion_is_of_its_client_for_this_server_and_short() {
        let (key, set) = pair();
        let header = Header { kid: Some("k".into()), ..Header::new(Algorithm::EdDSA) };
        let judge = |claims: &Value| {
            let assertion = encode(&header, claims, &key).expect("signed");
            verify(&assertion, CLIENT, &set, AUDIENCES, 1_000)
        };
        assert_eq!(judge(&claims()), Ok(()));
        for (name, value, expected) in [
            ("aud", json!(AUDIENCES[1]), true),
            ("aud", json!([AUDIENCES[0]]), true),
            ("aud", json!([AUDIENCES[0], "https://other.example"]), false),
            ("aud", json!("https://other.example"), false),
            ("aud", Value::Null, false),
            ("iss", json!("https://other.example/client.json"), false),
            ("sub", json!("https://other.example/client.json"), false),
            ("exp", json!(970), false),
            ("exp", json!(971), true),
            ("exp", json!(1_331), false),
            ("exp", json!(1_330), true),
            ("exp", json!(u64::MAX), false),
            ("exp", Value::Null, false),
            ("jti", json!(""), false),
            ("jti", Value::Null, false),
        ] {
            let mut changed = claims();
            changed[name] = value.clone();
            assert_eq!(judge(&changed).is_ok(), expected, "{name} {value}");
        }
    }

    #[test]
    fn assertion_of_another_key_or_algorithm_is_refused() {
        let ((key, set), (foreign, _)) = (pair(), pair());
        let sign = |header: &Header, key: &EncodingKey| encode(header, &claims(), key).expect("signed");
        let judge = |assertion: &str, set: &JwkSet| verify(assertion, CLIENT, set, AUDIENCES, 1_000).is_ok();
        let plain = Header::new(Algorithm::EdDSA);
        assert!(judge(&sign(&plain, &key), &set), "without a `kid`, every key is tried");
        assert!(!judge(&sign(&plain, &foreign), &set));
        let other_kid = Header { kid: Some("other".into()), ..plain.clone() };
        assert!(!judge(&sign(&other_kid, &key), &set));
        // The public key as a shared secret.
        let AlgorithmParameters::OctetKeyPair(public) = &set.keys[0].algorithm else { panic!("another key") };
        let shared = EncodingKey::from_secret(public.x.as_bytes());
        assert!(!judge(&sign(&Header::new(Algorithm::HS256), &shared), &set));
        let signed = sign(&plain, &key);
        let none = format!("eyJhbGciOiJub25lIn0.{}.", signed.split('.').nth(1).expect("claims"));
        assert!(!judge(&none, &set));
        assert!(!judge("", &set) && !judge(&"a".repeat(MAX_BYTES + 1), &set));
        let mut with_other_algorithm = set.clone();
        with_other_algorithm.keys[0].common.key_algorithm = Some(jsonwebtoken::jwk::KeyAlgorithm::ES256);
        assert!(!judge(&signed, &with_other_algorithm));
    }
}
