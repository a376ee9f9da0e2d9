//! Tests of token requests: the form of each grant, and the consequence of each answer.

use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;
use crate::config::Grant;
use crate::fake_tests::{Fake, ReceivedRequest, settings};
use crate::token::revoke;

const GOOD: &str =
    r#"{"access_token":"canary-access","token_type":"bearer","expires_in":60,"refresh_token":"canary-next"}"#;

async fn with<T>(
    fake: &Fake,
    authentication: ClientAuthentication,
    settings: &Settings,
    run: impl AsyncFnOnce(&TokenClient<'_>) -> T,
) -> T {
    let (services, discovered) = (fake.services(), fake.discovered());
    let registration = fake.registration(authentication);
    let (services, discovered, registration) = (&services, &discovered, &registration);
    let client = TokenClient { services, discovered, registration, settings, binding: None };
    run(&client).await
}

fn former() -> Tokens {
    Tokens {
        access_token: "canary-old".into(),
        refresh_token: Some("canary-refresh".into()),
        expires_at: None,
        scopes: vec!["a".into()],
        account: Some("ada".into()),
    }
}

async fn refreshed(fake: &Fake) -> Result<Tokens, Error> {
    with(fake, ClientAuthentication::Basic, &settings(), async |client| refresh(client, &former()).await)
        .await
}

fn last(fake: &Fake) -> ReceivedRequest {
    fake.seen().pop().expect("a request")
}

#[tokio::test]
async fn each_way_of_authentication_sends_the_id_and_the_secret_in_one_place_only() {
    let fake = Fake::start();
    fake.answer("/token", 200, "", GOOD);
    for (authentication, header, id, secret) in [
        (ClientAuthentication::Basic, Some("the+id:canary%3Asecret%2B%2F"), Some("the id"), None),
        (ClientAuthentication::Post, None, Some("the id"), Some("canary:secret+/")),
        (ClientAuthentication::None, None, Some("the id"), None),
    ] {
        let run = async |client: &TokenClient<'_>| {
            exchange_code(client, &"c0de".into(), &"verifier".into(), &["a".into()]).await
        };
        let tokens = with(&fake, authentication, &settings(), run).await.expect("tokens");
        assert_eq!(tokens.scopes, ["a"]);
        let seen = last(&fake);
        let header = header.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
        assert_eq!(seen.authorization, header);
        assert_eq!(
            (seen.field("client_id").as_deref(), seen.field("client_secret").as_deref()),
            (id, secret)
        );
        for (name, value) in [
            ("grant_type", "authorization_code"),
            ("code", "c0de"),
            ("code_verifier", "verifier"),
            ("redirect_uri", "http://127.0.0.1:8000/oauth/callback"),
            ("resource", "https://mcp.example.com"),
        ] {
            assert_eq!(seen.field(name).as_deref(), Some(value), "{name}");
        }
    }
}

#[tokio::test]
async fn a_refresh_keeps_what_the_answer_does_not_replace() {
    let fake = Fake::start();
    fake.answer("/token", 200, "", GOOD);
    let next = refreshed(&fake).await.expect("tokens");
    assert_eq!(next.refresh_token.expect("a token").expose_secret(), "canary-next");
    let seen = last(&fake);
    assert_eq!(seen.field("refresh_token").as_deref(), Some("canary-refresh"));
    assert_eq!(seen.field("resource").as_deref(), Some("https://mcp.example.com"));
    fake.answer("/token", 200, "", r#"{"access_token":"x","token_type":"Bearer","scope":"a c"}"#);
    let next = refreshed(&fake).await.expect("tokens");
    assert_eq!(next.refresh_token.expect("the former one").expose_secret(), "canary-refresh");
    assert_eq!((next.scopes, next.account.as_deref()), (vec!["a".into(), "c".into()], Some("ada")));
    let without = Tokens { refresh_token: None, ..former() };
    let run = async |client: &TokenClient<'_>| refresh(client, &without).await;
    let ended = with(&fake, ClientAuthentication::Basic, &settings(), run).await;
    assert!(matches!(ended, Err(Error::LoginRequired { .. })));
}

#[tokio::test]
async fn a_life_is_a_number_or_a_text_or_unknown() {
    let fake = Fake::start();
    for (life, seconds) in [
        (json!(60), Some(60)),
        (json!("60"), Some(60)),
        (json!(60.5), Some(60)),
        (json!(1e300), Some(315_360_000)),
        (json!(null), None),
        (json!(0), None),
        (json!(-5), None),
        (json!("soon"), None),
        (json!("NaN"), None),
        (json!([1]), None),
    ] {
        fake.json("/token", &json!({"access_token": "x", "token_type": "Bearer", "expires_in": life}));
        let end = refreshed(&fake).await.expect("tokens").expires_at;
        let left = end.map(|end| end.duration_since(SystemTime::now()).expect("later"));
        assert_eq!(
            left.map(|left| left.as_secs_f64().round()),
            seconds.map(|seconds: u32| f64::from(seconds)),
            "{life}"
        );
    }
}

#[tokio::test]
async fn only_an_invalid_grant_ends_a_login() {
    let fake = Fake::start();
    let canary = r#"{"error":"invalid_grant","error_description":"no canary-refresh here"}"#;
    for (status, body, expected) in [
        (400, canary, "a login is required"),
        (401, r#"{"error":"invalid_client"}"#, "`client_secret`"),
        (400, r#"{"error":"invalid_scope"}"#, "`scopes`"),
        (400, r#"{"error":"invalid_target"}"#, "`resource`"),
        (400, r#"{"error":"unauthorized_client"}"#, "`grant`"),
        (400, r#"{"error":"temporarily_unavailable"}"#, "cannot be used now"),
        (429, canary, "cannot be used now"),
        (500, canary, "cannot be used now"),
        (503, "<html>canary", "cannot be used now"),
        (403, "<html>canary", "status 403"),
        (302, "", "status 302"),
        (200, "<html>canary", "without an access token"),
        (200, r#"{"access_token":"canary","token_type":"DPoP"}"#, "type `DPoP`"),
        (200, r#"{"access_token":"canary canary","token_type":"Bearer"}"#, "cannot be sent"),
        (200, r#"{"access_token":"","token_type":"Bearer"}"#, "without an access token"),
    ] {
        fake.answer("/token", status, "9", body);
        let error = refreshed(&fake).await.expect_err(body);
        assert!(error.to_string().contains(expected), "{status} {body}: {error}");
        assert!(!format!("{error:?} {error}").contains("canary"), "{error}");
        if status == 429 {
            let Error::Later { retry_after, .. } = error else { panic!("{error}") };
            assert_eq!(retry_after, Some(Duration::from_secs(9)));
        }
    }
    let server = fake.discovered();
    drop(fake);
    let services = Services::new(
        server.server.token_endpoint.as_ref().expect("a URL"),
        &[],
        &net::http::Network::default(),
        &runtime::shutdown::Shutdown::new(),
    );
    let registration = Registration {
        scopes: Vec::new(),
        issuer: server.server.issuer.clone(),
        client_id: "i".into(),
        client_secret: None,
        authentication: ClientAuthentication::None,
        redirect_uri: String::new(),
        expires_at: None,
    };
    let client = TokenClient {
        services: &services,
        discovered: &server,
        registration: &registration,
        settings: &settings(),
        binding: None,
    };
    assert!(matches!(refresh(&client, &former()).await, Err(Error::Later { .. })));
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_issuer() {
    let fake = Fake::start();
    let (services, discovered) = (fake.services(), fake.discovered());
    let mut registration = fake.registration(ClientAuthentication::Post);
    registration.issuer = "https://former.example".into();
    let client = TokenClient {
        services: &services,
        discovered: &discovered,
        registration: &registration,
        settings: &settings(),
        binding: None,
    };
    assert!(matches!(refresh(&client, &former()).await, Err(Error::Refused { .. })));
    assert!(fake.lines().is_empty());
}

#[tokio::test]
async fn the_account_is_read_from_the_id_token() {
    let fake = Fake::start();
    for (claims, name) in [
        (json!({"sub": "7", "email": "ada@example.org"}), Some("ada@example.org")),
        (json!({"sub": "7\n"}), Some("7\\n")),
        (json!([]), None),
    ] {
        let id_token = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let answer = json!({"access_token": "x", "token_type": "Bearer", "id_token": id_token});
        fake.json("/token", &answer);
        let run = async |client: &TokenClient<'_>| client_credentials(client).await;
        let tokens = with(&fake, ClientAuthentication::Basic, &settings(), run).await.expect("tokens");
        assert_eq!(tokens.account.as_deref(), name);
        assert_eq!(tokens.scopes, ["a", "b"]);
        assert_eq!(last(&fake).field("scope").as_deref(), Some("a b"));
    }
}

fn private_key() -> SecretString {
    let pair =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new()).expect("a key");
    // As in a variable of the environment: the ends of lines are written as `\n`.
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n",
        STANDARD.encode(pair.as_ref())
    );
    pem.into()
}

fn part(token: &str, at: usize) -> Value {
    let part = URL_SAFE_NO_PAD.decode(token.split('.').nth(at).expect("a part")).expect("base64");
    serde_json::from_slice(&part).expect("JSON")
}

#[tokio::test]
async fn a_private_key_signs_a_short_assertion_for_the_issuer() {
    let fake = Fake::start();
    fake.answer("/token", 200, "", GOOD);
    let with_key =
        Settings { private_key: Some(private_key()), private_key_id: Some("k1".into()), ..settings() };
    let run = async |client: &TokenClient<'_>| client_credentials(client).await;
    with(&fake, ClientAuthentication::PrivateKeyJwt, &with_key, run).await.expect("tokens");
    let seen = last(&fake);
    assert_eq!(seen.field("client_assertion_type").as_deref(), Some(CLIENT_ASSERTION));
    assert_eq!(
        (seen.field("client_id"), seen.field("client_secret"), seen.authorization.clone()),
        (Some("the id".to_owned()), None, None)
    );
    let assertion = seen.field("client_assertion").expect("an assertion");
    let (header, claims) = (part(&assertion, 0), part(&assertion, 1));
    assert_eq!((&header["alg"], &header["kid"]), (&json!("ES256"), &json!("k1")));
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("the id"), &json!("the id")));
    assert_eq!(claims["aud"], fake.origin());
    assert_eq!(claims["exp"].as_u64().expect("a time") - claims["iat"].as_u64().expect("a time"), 60);
    let run = async |client: &TokenClient<'_>| client_credentials(client).await;
    with(&fake, ClientAuthentication::PrivateKeyJwt, &with_key, run).await.expect("tokens");
    assert_ne!(part(&last(&fake).field("client_assertion").expect("another"), 1)["jti"], claims["jti"]);
    let bad = Settings { private_key: Some("canary".into()), ..settings() };
    let run = async |client: &TokenClient<'_>| client_credentials(client).await;
    let error =
        with(&fake, ClientAuthentication::PrivateKeyJwt, &bad, run).await.expect_err("no key").to_string();
    assert!(error.contains("`private_key`") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn an_assertion_is_given_or_signed_or_exchanged() {
    let fake = Fake::start();
    fake.answer("/token", 200, "", GOOD);
    let given = Settings { grant: Grant::JwtBearer, assertion: Some("given".into()), ..settings() };
    let run = async |client: &TokenClient<'_>| jwt_bearer(client).await;
    with(&fake, ClientAuthentication::None, &given, run).await.expect("tokens");
    assert_eq!(last(&fake).field("assertion").as_deref(), Some("given"));
    assert_eq!(last(&fake).field("grant_type").as_deref(), Some(JWT_BEARER));

    let signed = Settings {
        assertion: None,
        private_key: Some(private_key()),
        subject: Some("u".into()),
        ..given.clone()
    };
    let run = async |client: &TokenClient<'_>| jwt_bearer(client).await;
    with(&fake, ClientAuthentication::None, &signed, run).await.expect("tokens");
    assert_eq!(part(&last(&fake).field("assertion").expect("one"), 1)["sub"], "u");

    let provider = IdentityProvider {
        token_endpoint: fake.url("/idp"),
        client_id: "sw".into(),
        client_secret: None,
        id_token: "canary-id-token".into(),
    };
    let exchanged = Settings { assertion: None, identity_provider: Some(provider), ..given };
    fake.json("/idp", &json!({"access_token": "jag", "issued_token_type": ID_JAG, "token_type": "N_A"}));
    let run = async |client: &TokenClient<'_>| jwt_bearer(client).await;
    with(&fake, ClientAuthentication::Basic, &exchanged, run).await.expect("tokens");
    let seen = fake.seen();
    let idp = &seen[seen.len() - 2];
    for (name, value) in [
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("subject_token_type", ID_TOKEN),
        ("subject_token", "canary-id-token"),
        ("audience", fake.origin().as_str()),
        ("resource", "https://mcp.example.com"),
        ("client_id", "sw"),
    ] {
        assert_eq!(idp.field(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(last(&fake).field("assertion").as_deref(), Some("jag"));
    fake.json("/idp", &json!({"access_token": "canary", "issued_token_type": ID_TOKEN, "token_type": "N_A"}));
    let run = async |client: &TokenClient<'_>| jwt_bearer(client).await;
    let error = with(&fake, ClientAuthentication::Basic, &exchanged, run).await.expect_err("another token");
    assert!(matches!(error, Error::Refused { .. }) && !error.to_string().contains("canary"));
}

#[tokio::test]
async fn both_tokens_are_revoked_whatever_the_first_answer_is() {
    let fake = Fake::start();
    let run = async |client: &TokenClient<'_>| revoke(client, &former()).await;
    for (status, is_done) in [(200, true), (503, false), (400, false)] {
        fake.answer("/revoke", status, "", "");
        let before = fake.lines().len();
        let revoked = with(&fake, ClientAuthentication::Basic, &settings(), run).await;
        assert_eq!(revoked.is_ok(), is_done, "{status}");
        let tokens: Vec<_> = fake.seen()[before..].iter().filter_map(|seen| seen.field("token")).collect();
        assert_eq!(tokens, ["canary-refresh", "canary-old"]);
    }
    assert!(last(&fake).authorization.is_some());
}
