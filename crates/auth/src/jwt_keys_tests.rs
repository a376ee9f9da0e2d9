//! Keys: of every family, in PEM and in sets, and the ones that are refused.

use std::time::SystemTime;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::Denied;
use super::super::jwt::tests::{PLAIN, SECRET, b64, claims, config, grant, hmac, hs256, sign, with};
use super::super::jwt::{Signer, Verifier};
use super::super::principal::{Principal, Role};
use super::*;

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// Public and private half of a new key, in PEM.
pub(crate) struct Pair {
    public: String,
    pub(crate) private: String,
}

impl Pair {
    fn rsa() -> Self {
        let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).expect("generates");
        let private: Pkcs8V1Der<'_> = pair.as_der().expect("DER");
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
        Self::of(private.as_ref(), public.as_ref())
    }

    fn ec() -> Self {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let private =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("generates");
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, private.as_ref()).expect("reads");
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
        Self::of(private.as_ref(), public.as_ref())
    }

    pub(crate) fn ed() -> Self {
        let pair = Ed25519KeyPair::generate().expect("generates");
        let private: Pkcs8V1Der<'_> = pair.as_der().expect("DER");
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().expect("DER");
        Self::of(private.as_ref(), public.as_ref())
    }

    fn of(private: &[u8], public: &[u8]) -> Self {
        Self { public: pem("PUBLIC KEY", public), private: pem("PRIVATE KEY", private) }
    }

    fn source(&self) -> KeySource {
        KeySource::PublicKey(PublicKey::Text(self.public.clone()))
    }
}

#[test]
fn every_family_signs_and_checks_and_takes_no_other() {
    let (rsa, ec, ed) = (Pair::rsa(), Pair::ec(), Pair::ed());
    let grant = grant(Role::Superuser);
    let families = [
        (Algorithm::RS256, &rsa),
        (Algorithm::PS512, &rsa),
        (Algorithm::ES256, &ec),
        (Algorithm::EdDSA, &ed),
    ];
    let mut tokens = Vec::new();
    for (algorithm, pair) in families {
        let signer = Signer::new(&config(&[algorithm], pair.source()), Some(pair.private.as_bytes()), None);
        let token = signer.expect("fits").sign(&grant, SystemTime::now()).expect("signs");
        tokens.push((algorithm, token.expose_secret().to_owned()));
    }
    let symmetric = Signer::new(&hmac(), None, None).expect("fits").sign(&grant, SystemTime::now());
    tokens.push((Algorithm::HS256, symmetric.expect("signs").expose_secret().to_owned()));
    for (algorithm, pair) in families {
        let verifier = Verifier::new(&config(&[algorithm], pair.source())).expect("fits");
        for (of, token) in &tokens {
            let expected = *of == algorithm;
            assert_eq!(verifier.check(token).is_ok(), expected, "{of:?} at {algorithm:?}");
        }
        // The public key as an HMAC secret: the oldest confusion of all.
        for secret in [pair.public.as_str(), pair.public.trim()] {
            let forged = sign(
                PLAIN,
                &claims().to_string(),
                &EncodingKey::from_secret(secret.as_bytes()),
                Algorithm::HS256,
            );
            assert!(verifier.check(&forged).is_err());
        }
    }
}

#[test]
fn a_private_key_of_somebody_else_signs_nothing() {
    let (one, other) = (Pair::ed(), Pair::ed());
    let config = config(&[Algorithm::EdDSA], one.source());
    let signer = Signer::new(&config, Some(other.private.as_bytes()), None).expect("the kind fits");
    let grant = grant(Role::Reader);
    assert!(matches!(signer.sign(&grant, SystemTime::now()), Err(Error::Key(_))));
    assert!(matches!(Signer::new(&config, None, None), Err(Error::Key(_))));
    assert!(matches!(Signer::new(&hmac(), Some(b"x"), None), Err(Error::Key(_))));
}

#[test]
fn a_role_may_have_a_claim_of_its_own() {
    let mut config = hmac();
    config.roles.claim = Some("realm_access.roles".into());
    let verifier = Verifier::new(&config).expect("a good configuration");
    let token = |changes| hs256(PLAIN, &with(changes).to_string());
    let nested = token(json!({"role": null, "realm_access": {"roles": ["superuser"]}}));
    assert_eq!(verifier.check(&nested), Ok(Principal::of_token("alice", Role::Superuser)));
    assert_eq!(verifier.check(&token(json!({"role": "superuser"}))), Err(Denied::NoRole));
    let grant = grant(Role::Reader);
    assert!(Signer::new(&config, None, None).expect("fits").sign(&grant, SystemTime::now()).is_ok());
}

fn jwks(keys: &Value) -> KeySource {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let path = folder.join("keys.json");
    std::fs::write(&path, json!({"keys": keys}).to_string()).expect("written");
    KeySource::JwksFile(path)
}

pub(crate) fn jwk(pair: &Pair, kid: &str) -> Value {
    let key = jsonwebtoken::DecodingKey::from_ed_pem(pair.public.as_bytes()).expect("reads");
    let mut jwk = serde_json::to_value(
        jsonwebtoken::jwk::Jwk::from_decoding_key(&key, Some(Algorithm::EdDSA)).expect("a key"),
    )
    .expect("JSON");
    jwk["kid"] = kid.into();
    jwk
}

#[test]
fn kid_only_chooses_among_the_configured_keys() {
    let (one, two, foreign) = (Pair::ed(), Pair::ed(), Pair::ed());
    let both = config(&[Algorithm::EdDSA], jwks(&json!([jwk(&one, "one"), jwk(&two, "two")])));
    let verifier = Verifier::new(&both).expect("a good set");
    let token = |pair: &Pair, header: &str| {
        let key = EncodingKey::from_ed_pem(pair.private.as_bytes()).expect("reads");
        sign(header, &claims().to_string(), &key, Algorithm::EdDSA)
    };
    for (pair, header, expected) in [
        (&one, r#"{"alg":"EdDSA","kid":"one"}"#, Ok(())),
        (&two, r#"{"alg":"EdDSA","kid":"two"}"#, Ok(())),
        (&two, r#"{"alg":"EdDSA","kid":"one"}"#, Err(Reason::Signature)),
        (&one, r#"{"alg":"EdDSA","kid":"three"}"#, Err(Reason::UnknownKid)),
        (&one, r#"{"alg":"EdDSA","kid":""}"#, Err(Reason::UnknownKid)),
        (&one, r#"{"alg":"EdDSA"}"#, Err(Reason::UnknownKid)),
        (&foreign, r#"{"alg":"EdDSA","kid":"one"}"#, Err(Reason::Signature)),
    ] {
        let checked = verifier.check(&token(pair, header)).map(drop);
        assert_eq!(checked, expected.map_err(Denied::Credential), "{header}");
    }
    let single = Verifier::new(&config(&[Algorithm::EdDSA], jwks(&json!([jwk(&one, "one")])))).expect("good");
    assert!(single.check(&token(&one, r#"{"alg":"EdDSA"}"#)).is_ok(), "one key needs no `kid`");
}

#[test]
fn a_set_that_turns_over_ends_what_came_in_with_the_key_that_is_gone() {
    let (one, two, three) = (Pair::ed(), Pair::ed(), Pair::ed());
    let verifier = |keys: &[(&Pair, &str)]| {
        let keys: Vec<Value> = keys.iter().map(|(pair, kid)| jwk(pair, kid)).collect();
        Verifier::new(&config(&[Algorithm::EdDSA], jwks(&json!(keys)))).expect("a good set")
    };
    let token = |pair: &Pair, kid: &str| {
        let key = EncodingKey::from_ed_pem(pair.private.as_bytes()).expect("reads");
        let header = json!({"alg": "EdDSA", "kid": kid}).to_string();
        sign(&header, &claims().to_string(), &key, Algorithm::EdDSA)
    };
    let before = verifier(&[(&one, "one"), (&two, "two")]);
    let revocation_state =
        |pair, kid| before.check(&token(pair, kid)).expect("good").revocation_state().clone();
    let (of_one, of_two) = (revocation_state(&one, "one"), revocation_state(&two, "two"));
    let lasts = |next: Verifier| {
        let next = next.after(&before);
        [&of_one, &of_two].map(|revocation_state| next.revocation_states().contains(revocation_state))
    };
    assert_eq!(lasts(verifier(&[(&two, "two"), (&one, "one"), (&three, "three")])), [true, true]);
    assert_eq!(lasts(verifier(&[(&two, "two"), (&three, "three")])), [false, true]);
    assert_eq!(lasts(verifier(&[(&one, "one"), (&three, "two")])), [true, false], "a name for another key");
}

#[test]
fn a_published_set_may_have_keys_for_other_uses() {
    let (one, two) = (Pair::ed(), Pair::ed());
    let read = |keys: &Value| {
        VerificationKeys::published(json!({"keys": keys}).to_string().as_bytes(), &[Algorithm::EdDSA])
    };
    let mut encrypts = jwk(&two, "enc");
    encrypts["use"] = "enc".into();
    let unreadable = json!({"kty": "future", "kid": "x"});
    let keys =
        read(&json!([jwk(&one, "one"), encrypts, unreadable, "text", {"kty": "oct", "k": b64(SECRET)}]));
    let Ok(VerificationKeys::Set(keys)) = keys else { panic!("it has a usable key") };
    assert_eq!(keys.keys().collect::<Vec<_>>(), ["one"]);
    let many: Vec<Value> = (0..33).map(|at| jwk(&one, &at.to_string())).collect();
    for bad in [json!([]), json!("x"), json!([jwk(&one, "a"), jwk(&two, "a")]), json!(many)] {
        assert!(read(&bad).is_err(), "{bad:.80}");
    }
    assert!(VerificationKeys::published(b"<html>", &[Algorithm::EdDSA]).is_err());
}

#[test]
fn rsa_key_of_a_set_may_have_padding_and_zero_bytes_before_its_numbers() {
    let rsa = Pair::rsa();
    let key = DecodingKey::from_rsa_pem(rsa.public.as_bytes()).expect("reads");
    let jwk = Jwk::from_decoding_key(&key, Some(Algorithm::RS256)).expect("a key");
    let mut jwk = serde_json::to_value(jwk).expect("JSON");
    let modulus = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().expect("a modulus")).expect("Base64");
    jwk["n"] = format!("{}=", b64([&[0], modulus.as_slice()].concat())).into();
    let exponent = URL_SAFE_NO_PAD.decode(jwk["e"].as_str().expect("an exponent")).expect("Base64");
    jwk["e"] = format!("{}=", b64([&[0], exponent.as_slice()].concat())).into();
    let verifier = Verifier::new(&config(&[Algorithm::RS256], jwks(&json!([jwk])))).expect("a good set");
    let key = EncodingKey::from_rsa_pem(rsa.private.as_bytes()).expect("reads");
    let token = sign(r#"{"alg":"RS256"}"#, &claims().to_string(), &key, Algorithm::RS256);
    assert_eq!(verifier.check(&token).map(drop), Ok(()));
}

#[test]
fn keys_of_curves_in_a_set_may_have_padding() {
    let (ec, ed) = (Pair::ec(), Pair::ed());
    let ec = DecodingKey::from_ec_pem(ec.public.as_bytes()).expect("reads");
    let ed = DecodingKey::from_ed_pem(ed.public.as_bytes()).expect("reads");
    for (key, algorithm) in [(ec, Algorithm::ES256), (ed, Algorithm::EdDSA)] {
        let mut jwk = serde_json::to_value(Jwk::from_decoding_key(&key, Some(algorithm)).expect("a key"))
            .expect("JSON");
        for name in ["x", "y"] {
            if let Some(text) = jwk[name].as_str().map(|text| format!("{text}=")) {
                jwk[name] = text.into();
            }
        }
        let read = Verifier::new(&config(&[algorithm], jwks(&json!([jwk]))));
        assert!(read.is_ok(), "{algorithm:?}");
    }
}

#[test]
fn keys_that_can_not_work_stop_the_start() {
    let ed = Pair::ed();
    let ec = Pair::ec();
    let text = |text: &str| KeySource::PublicKey(PublicKey::Text(text.into()));
    let oct = json!({"kty": "oct", "k": b64(SECRET), "kid": "a"});
    let bad = [
        config(&[Algorithm::HS256], KeySource::Secret("0123456789abcdef0123456789abcde".into())),
        config(&[Algorithm::HS256], KeySource::Secret("".into())),
        config(&[Algorithm::HS256], ed.source()),
        config(&[Algorithm::EdDSA], KeySource::Secret(SECRET.into())),
        config(&[Algorithm::RS256], ed.source()),
        config(&[Algorithm::ES384], ec.source()),
        config(&[Algorithm::EdDSA], text(&ed.private)),
        config(&[Algorithm::EdDSA], text("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")),
        config(&[Algorithm::EdDSA, Algorithm::HS256], ed.source()),
        config(&[], ed.source()),
        config(&[Algorithm::EdDSA], KeySource::JwksFile("/does/not/exist".into())),
        config(&[Algorithm::EdDSA], jwks(&json!([]))),
        config(&[Algorithm::EdDSA], jwks(&json!([oct]))),
        config(&[Algorithm::HS256], jwks(&json!([oct]))),
        config(&[Algorithm::EdDSA], jwks(&json!([jwk(&ed, "a"), jwk(&ed, "a")]))),
        config(&[Algorithm::EdDSA], jwks(&json!("x"))),
    ];
    for (at, config) in bad.iter().enumerate() {
        let error = Verifier::new(config).map(drop).expect_err(&format!("number {at}"));
        assert!(!error.to_string().contains("0123"), "{error}");
    }
}
