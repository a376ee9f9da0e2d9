//! ID tokens: keys of each kind in one set, and the confusions of kinds that must not work.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use super::*;

const ISSUER: &str = "https://login.example.org";

fn tokens(set: &Value) -> Result<IdTokens, Error> {
    let issuer = Url::parse(ISSUER).expect("a URL");
    IdTokens::new(&issuer, ISSUER, "gateway", set.to_string().as_bytes())
}

fn claims() -> Value {
    let exp = jsonwebtoken::get_current_timestamp() + 60;
    json!({"iss": ISSUER, "aud": "gateway", "sub": "ann", "exp": exp, "nonce": "n"})
}

fn signed(algorithm: Algorithm, kid: &str, key: &EncodingKey) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    encode(&header, &claims(), key).expect("signed")
}

/// Keys of two kinds, as a set and for signing.
fn keys() -> (Value, [EncodingKey; 2]) {
    let ed = Ed25519KeyPair::generate().expect("a key");
    let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let point = ec.public_key().as_ref();
    let set = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": text(ed.public_key().as_ref())},
        {"kty": "EC", "crv": "P-256", "kid": "ec", "x": text(&point[1..33]), "y": text(&point[33..])},
        {"kty": "oct", "kid": "shared", "k": text(b"0123456789abcdef0123456789abcdef")},
    ]});
    let first = EncodingKey::from_ed_der(ed.to_pkcs8v1().expect("a document").as_ref());
    let second = EncodingKey::from_ec_der(ec.to_pkcs8v1().expect("a document").as_ref());
    (set, [first, second])
}

#[test]
fn token_is_verified_by_the_key_of_its_kind_only() {
    let (set, [ed, ec]) = keys();
    let tokens = tokens(&set).expect("keys");
    let verify = |token: &str| tokens.verify(token, "n").map(|_| ());
    assert_eq!(verify(&signed(Algorithm::EdDSA, "ed", &ed)), Ok(()));
    assert_eq!(verify(&signed(Algorithm::ES256, "ec", &ec)), Ok(()));
    assert_eq!(verify(&signed(Algorithm::EdDSA, "ec", &ed)), Err(Reason::UnknownKid));
    assert_eq!(verify(&signed(Algorithm::ES256, "other", &ec)), Err(Reason::UnknownKid));
    let shared = EncodingKey::from_secret(b"0123456789abcdef0123456789abcdef");
    for kid in ["shared", "ed"] {
        assert_eq!(verify(&signed(Algorithm::HS256, kid, &shared)), Err(Reason::Header));
    }
    let plain = |header: &str| {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.", part(header), part(&claims().to_string()))
    };
    assert_eq!(verify(&plain(r#"{"alg":"none"}"#)), Err(Reason::Header));
    assert_eq!(verify(&plain(r#"{"alg":"EdDSA","kid":"ed","crit":["x"]}"#)), Err(Reason::Header));
    assert_eq!(verify("x"), Err(Reason::Malformed));
    assert_eq!(tokens.verify(&signed(Algorithm::EdDSA, "ed", &ed), "m").map(|_| ()), Err(Reason::Nonce));
}

#[test]
fn key_set_without_a_usable_key_is_an_error() {
    for set in [
        json!({}),
        json!({"keys": []}),
        json!({"keys": [{"kty": "oct", "kid": "shared", "k": "MDEyMzQ1Njc4OWFiY2RlZg"}]}),
        json!({"keys": "x"}),
        json!("<html>"),
    ] {
        assert!(tokens(&set).is_err(), "{set}");
    }
}
