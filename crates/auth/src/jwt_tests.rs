//! Tokens that must open, and many more that must not.

use serde_json::{Value, json};

use jsonwebtoken::{EncodingKey, Header};

use super::*;
use crate::Grant;
use crate::role_words::MAX_SUBJECT_BYTES;

pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef-test";
const ISSUER: &str = "https://login.example.org/";

pub(crate) fn now() -> u64 {
    jsonwebtoken::get_current_timestamp()
}

pub(crate) fn config(algorithms: &[Algorithm], key: KeySource) -> Jwt {
    Jwt {
        issuer: Some(ISSUER.into()),
        required: RequiredClaims::default(),
        audience: Some("switchyard".into()),
        algorithms: algorithms.to_vec(),
        key,
        leeway: Duration::from_secs(30),
        roles: RoleWords::default(),
        parties: Vec::new(),
        network: net::http::Network::default(),
        authorization_servers: Vec::new(),
    }
}

pub(crate) fn hmac() -> Jwt {
    config(&[Algorithm::HS256], KeySource::Secret(SECRET.into()))
}

pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "switchyard", "sub": "alice", "exp": now() + 600, "role": "reader"})
}

/// `claims()` with other members; `null` removes one.
#[allow(clippy::needless_pass_by_value)] // reads better at fifty places
pub(crate) fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => drop(claims.as_object_mut().expect("an object").remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

pub(crate) fn grant(role: Role) -> Grant<'static> {
    Grant { subject: "bob", role, lifetime: Duration::from_mins(1) }
}

pub(crate) fn b64(text: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// Signs exactly these texts.
pub(crate) fn sign(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", b64(header), b64(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).expect("signs");
    format!("{message}.{signature}")
}

pub(crate) fn hs256(header: &str, claims: &str) -> String {
    sign(header, claims, &EncodingKey::from_secret(SECRET.as_bytes()), Algorithm::HS256)
}

pub(crate) const PLAIN: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

// RULES S2
#[test]
fn good_tokens_open() {
    let plain = |changes| hs256(PLAIN, &with(changes).to_string());
    let header = |header: &str| hs256(header, &claims().to_string());
    let reader = Principal::of_token("alice", Role::Reader);
    let caller = Principal::of_token("alice", Role::Caller);
    let superuser = Principal::of_token("alice", Role::Superuser);
    let (soon, just) = (now() + 20, now() - 20);
    let long = "s".repeat(MAX_SUBJECT_BYTES);
    let good = [
        (plain(json!({})), &reader),
        (plain(json!({"role": "superuser"})), &superuser),
        (plain(json!({"role": null, "roles": ["other", "reader"]})), &reader),
        (plain(json!({"role": null, "roles": ["reader", "superuser"]})), &superuser),
        (plain(json!({"role": null, "scope": "openid superuser email"})), &superuser),
        (plain(json!({"role": "caller"})), &caller),
        (plain(json!({"role": null, "roles": ["caller", "reader"]})), &caller),
        (plain(json!({"role": null, "scope": "superuser caller"})), &superuser),
        (plain(json!({"role": null, "roles": "reader"})), &reader),
        (plain(json!({"role": "reader", "scope": "superuser"})), &reader),
        (plain(json!({"aud": ["other", "switchyard"]})), &reader),
        (plain(json!({"exp": just})), &reader),
        (plain(json!({"nbf": soon})), &reader),
        (plain(json!({"nbf": now() - 600, "iat": now() - 600, "jti": "x"})), &reader),
        (plain(json!({"exp": 9_999_999_999.5})), &reader),
        (plain(json!({"nested": {"role": "superuser"}, "list": [1, {"a": null}]})), &reader),
        (header(r#"{"alg":"HS256"}"#), &reader),
        (header(r#"{"typ":"jwt","alg":"HS256"}"#), &reader),
        (header(r#"{"typ":"at+JWT","alg":"HS256"}"#), &reader),
        (header(r#"{"typ":"application/at+jwt","alg":"HS256"}"#), &reader),
        (header(r#"{"alg":"HS256","kid":"../../etc/passwd"}"#), &reader),
        (
            header(r#"{"alg":"HS256","jku":"https://evil.example/keys","x5u":"https://evil.example/"}"#),
            &reader,
        ),
        (header(&format!(r#"{{"alg":"HS256","jwk":{{"kty":"oct","k":"{}"}}}}"#, b64("evil"))), &reader),
        (header(r#"{"alg":"HS256","x5c":["AAAA"],"vendor":{"a":1}}"#), &reader),
        (header(r#"{ "alg" : "HS256" }"#), &reader),
    ];
    let verifier = Verifier::new(&hmac()).expect("a good configuration");
    let accepted = good.iter().filter(|(token, who)| verifier.check(token).as_ref() == Ok(*who)).count();
    assert_eq!((accepted, good.len()), (25, 25));
    assert!(verifier.check(&plain(json!({"sub": long}))).is_ok());
}

// RULES S2
#[test]
fn bad_tokens_do_not() {
    let verifier = Verifier::new(&hmac()).expect("a good configuration");
    let good = hs256(PLAIN, &claims().to_string());
    assert!(verifier.check(&good).is_ok());
    let bad: Vec<String> = [bad_shapes(&good), bad_headers(), bad_signatures(&good), bad_claims()].concat();
    let accepted: Vec<_> = bad.iter().filter(|token| verifier.check(token).is_ok()).collect();
    assert_eq!(accepted, [""; 0]);
    assert!(bad.len() >= 90, "{}", bad.len());
}

#[test]
fn a_token_that_is_known_opens_for_nobody_who_changes_it_nor_with_other_keys() {
    let verifier = Verifier::new(&hmac()).expect("a good configuration");
    let good = hs256(PLAIN, &claims().to_string());
    for _ in 0..2 {
        assert_eq!(verifier.check(&good), Ok(Principal::of_token("alice", Role::Reader)));
    }
    let changed = |at: usize| {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("ASCII")
    };
    let accepted: Vec<_> =
        (0..good.len()).map(changed).filter(|token| verifier.check(token).is_ok()).collect();
    assert_eq!(accepted, [""; 0]);
    let others = config(&[Algorithm::HS256], KeySource::Secret("x".repeat(32).into()));
    let others = Verifier::new(&others).expect("a good configuration");
    assert_eq!(others.check(&good), Err(Denied::Credential(Reason::Signature)));
}

fn bad_shapes(good: &str) -> Vec<String> {
    let [header, claims, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let big = with(json!({"pad": "x".repeat(MAX_TOKEN_BYTES)})).to_string();
    vec![
        String::new(),
        ".".into(),
        "..".into(),
        "a.b.c".into(),
        header.into(),
        format!("{header}.{claims}"),
        format!("{header}.{claims}."),
        format!("{header}..{signature}"),
        format!(".{claims}.{signature}"),
        format!("{good}.{signature}"),
        format!("{good}."),
        format!(" {good}"),
        format!("{good} "),
        format!("{good}="),
        format!("{good}\u{0}"),
        good.replacen('.', "..", 1),
        good.to_uppercase(),
        format!("Bearer {good}"),
        format!("\u{feff}{good}"),
        hs256(PLAIN, &big),
        hs256(PLAIN, "[1,2,3]"),
        hs256(PLAIN, "\"text\""),
        hs256(PLAIN, "not json"),
        hs256(PLAIN, ""),
        // A sequence with the members in the order the library declares them.
        hs256(PLAIN, &json!([now() + 600, 0, "alice", ISSUER, "switchyard"]).to_string()),
    ]
}

fn bad_headers() -> Vec<String> {
    let claims = claims().to_string();
    [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"NONE"}"#,
        r#"{"alg":"nOnE"}"#,
        r#"{"alg":""}"#,
        r#"{"alg":null}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":256}"#,
        r#"{"typ":"JWT"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS256 "}"#,
        r#"{"alg":"HS384"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":"ES256"}"#,
        r#"{"alg":"EdDSA"}"#,
        r#"{"alg":"HS256","alg":"none"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"none"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{"alg":"HS256","crit":[]}"#,
        r#"{"alg":"HS256","b64":false,"crit":["b64"]}"#,
        r#"{"alg":"HS256","b64":false}"#,
        r#"{"alg":"HS256","zip":"DEF"}"#,
        r#"{"alg":"HS256","enc":"A256GCM"}"#,
        r#"{"alg":"HS256","typ":"logout+jwt"}"#,
        r#"{"alg":"HS256","typ":"dpop+jwt"}"#,
        r#"{"alg":"HS256","typ":7}"#,
        r#"{"alg":"HS256","typ":""}"#,
        r#"{"alg":"HS256","kid":7}"#,
        r#"{"alg":"HS256","kid":{"a":1}}"#,
        r#"["HS256"]"#,
        r"{}",
        r"",
        r"null",
    ]
    .map(|header| hs256(header, &claims))
    .to_vec()
}

fn bad_signatures(good: &str) -> Vec<String> {
    let claims = claims().to_string();
    let [header, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!("three parts") };
    let signed_with =
        |secret: &str| sign(PLAIN, &claims, &EncodingKey::from_secret(secret.as_bytes()), Algorithm::HS256);
    let richer = b64(with(json!({"role": "superuser"})).to_string());
    let unsigned = |header: &str| format!("{}.{}.", b64(header), b64(&claims));
    let first = if signature.starts_with('A') { "B" } else { "A" };
    let hs512 = EncodingKey::from_secret(SECRET.as_bytes());
    vec![
        signed_with(""),
        signed_with("secret"),
        signed_with(&SECRET.to_uppercase()),
        signed_with(&format!("{SECRET}\n")),
        signed_with(&SECRET[..32]),
        format!("{header}.{richer}.{signature}"),
        format!("{}.{body}.{signature}", b64(r#"{"alg":"HS256"}"#)),
        format!("{header}.{body}.{first}{}", &signature[1..]),
        format!("{header}.{body}.{}", &signature[..signature.len() - 4]),
        format!("{header}.{body}.{signature}AAAA"),
        format!("{header}.{body}.{}", b64([0; 32])),
        format!("{header}.{body}.{}", b64("")),
        unsigned(PLAIN),
        unsigned(r#"{"alg":"none"}"#),
        sign(r#"{"alg":"HS512"}"#, &claims, &hs512, Algorithm::HS512),
        sign(PLAIN, &claims, &hs512, Algorithm::HS512),
    ]
}

fn bad_claims() -> Vec<String> {
    let mut bad: Vec<String> = [
        json!({"exp": null}),
        json!({"exp": now() - 31}),
        json!({"exp": now() - 86_400}),
        json!({"exp": 0}),
        json!({"exp": -1}),
        json!({"exp": "9999999999"}),
        json!({"exp": true}),
        json!({"exp": [now() + 600]}),
        json!({"nbf": now() + 120}),
        json!({"nbf": "0"}),
        json!({"nbf": -5}),
        json!({"iss": null}),
        json!({"iss": "https://evil.example/"}),
        json!({"iss": ISSUER.trim_end_matches('/')}),
        json!({"iss": ISSUER.to_uppercase()}),
        json!({"iss": [ISSUER]}),
        json!({"iss": [ISSUER, "https://evil.example/"]}),
        json!({"iss": ""}),
        json!({"iss": 1}),
        json!({"aud": null}),
        json!({"aud": "other"}),
        json!({"aud": ["other"]}),
        json!({"aud": []}),
        json!({"aud": ""}),
        json!({"aud": "switchyard "}),
        json!({"aud": {"switchyard": true}}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": 7}),
        json!({"sub": ["alice"]}),
        json!({"sub": "a\nb"}),
        json!({"sub": "s".repeat(MAX_SUBJECT_BYTES + 1)}),
        json!({"role": null}),
        json!({"role": "admin"}),
        json!({"role": "Superuser"}),
        json!({"role": true}),
        json!({"role": {"superuser": true}}),
        json!({"role": []}),
        json!({"role": "superuser,reader"}),
        json!({"role": "nobody", "roles": ["superuser"]}),
    ]
    .map(|changes| hs256(PLAIN, &with(changes).to_string()))
    .to_vec();
    let text = claims().to_string();
    for twice in [
        "\"role\":\"superuser\"",
        "\"\\u0072ole\":\"superuser\"",
        "\"exp\":9999999999",
        "\"aud\":\"switchyard\"",
    ] {
        bad.push(hs256(PLAIN, &format!("{},{twice}}}", text.strip_suffix('}').expect("an object"))));
    }
    bad.push(hs256(PLAIN, &text.replace("\"exp\":", "\"exp\":1e999,\"x\":")));
    bad
}

#[test]
fn only_listed_clients_may_have_a_token() {
    let listed = Jwt { parties: vec!["desk".into(), "cli".into()], ..hmac() };
    let verifier = Verifier::new(&listed).expect("a good configuration");
    for (changes, is_accepted) in [
        (json!({"azp": "desk"}), true),
        (json!({"azp": "cli", "client_id": "other"}), true),
        (json!({"client_id": "cli"}), true),
        (json!({}), false),
        (json!({"azp": "other"}), false),
        (json!({"azp": "other", "client_id": "cli"}), false),
        (json!({"azp": ["desk"]}), false),
        (json!({"azp": ""}), false),
    ] {
        let token = hs256(PLAIN, &with(changes.clone()).to_string());
        let expected = if is_accepted { Ok(()) } else { Err(Denied::Credential(Reason::Party)) };
        assert_eq!(verifier.check(&token).map(drop), expected, "{changes}");
    }
    let open = Verifier::new(&hmac()).expect("a good configuration");
    assert!(open.check(&hs256(PLAIN, &with(json!({"azp": "other"})).to_string())).is_ok());
    let sessions_of = open.revocation_states();
    let narrowed = Verifier::new(&listed).expect("good").after(&open);
    assert!(
        !narrowed.revocation_states().contains(&sessions_of[0]),
        "a reload with other clients ends sessions"
    );
}

#[test]
fn reasons_are_told_apart_for_the_log() {
    let verifier = Verifier::new(&hmac()).expect("a good configuration");
    let token = |changes| hs256(PLAIN, &with(changes).to_string());
    for (token, reason) in [
        (token(json!({"exp": now() - 60})), Reason::Expired),
        (token(json!({"nbf": now() + 60})), Reason::NotYet),
        (token(json!({"iss": "x"})), Reason::Issuer),
        (token(json!({"aud": "x"})), Reason::Audience),
        (token(json!({"sub": null})), Reason::Claims),
        (hs256(r#"{"alg":"none"}"#, &claims().to_string()), Reason::Header),
        ("not.a.token".into(), Reason::Malformed),
        ("x".repeat(MAX_TOKEN_BYTES + 1), Reason::Oversized),
    ] {
        assert_eq!(verifier.check(&token), Err(Denied::Credential(reason)));
    }
    assert_eq!(verifier.check(&token(json!({"role": "admin"}))), Err(Denied::NoRole));
}

#[test]
fn claims_that_are_not_required_may_be_missing_and_configured_ones_still_count() {
    let required = |issuer, audience| RequiredClaims { issuer, audience };
    let is_accepted = |config: &Jwt, changes: Value| {
        let token = jsonwebtoken::encode(
            &Header::new(Algorithm::HS256),
            &with(changes),
            &EncodingKey::from_secret(SECRET.as_bytes()),
        );
        Verifier::new(config).expect("a key").check(&token.expect("signed")).is_ok()
    };
    let (none, foreign) = (json!({"iss": null, "aud": null}), json!({"iss": "x", "aud": "y"}));
    let open = Jwt { issuer: None, audience: None, required: required(false, false), ..hmac() };
    let named = Jwt { required: required(false, false), ..hmac() };
    for (config, changes, accepted) in [
        (&hmac(), none.clone(), false),
        (&open, none.clone(), true),
        (&open, foreign.clone(), true),
        (&open, json!({}), true),
        (&named, none, true),
        (&named, json!({}), true),
        (&named, json!({"iss": "x", "aud": null}), false),
        (&named, json!({"iss": null, "aud": "y"}), false),
        (&Jwt { required: required(true, false), ..hmac() }, json!({"iss": null}), false),
        (&Jwt { required: required(true, false), ..hmac() }, json!({"aud": null}), true),
        (&Jwt { required: required(false, true), ..hmac() }, json!({"iss": null}), true),
        (&Jwt { required: required(false, true), ..hmac() }, json!({"aud": null}), false),
        // The subject and the end of a token are always required.
        (&open, json!({"exp": null}), false),
        (&open, json!({"sub": null}), false),
        (&open, json!({"exp": 1}), false),
        (&open, json!({"nbf": now() + 600}), false),
    ] {
        assert_eq!(is_accepted(config, changes.clone()), accepted, "{changes} {:?}", config.required);
    }
}
