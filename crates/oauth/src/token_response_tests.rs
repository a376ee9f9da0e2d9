//! Tests of the spellings of token endpoints, and of those that refuse `resource`.

use secrecy::ExposeSecret;
use serde_json::json;

use crate::config::{ClientAuthentication, ResourceParameter, Settings};
use crate::fake_tests::{Fake, settings};
use crate::{Error, TokenClient, Tokens, exchange_code, refresh};

async fn with_client<T>(fake: &Fake, settings: &Settings, run: impl AsyncFnOnce(&TokenClient<'_>) -> T) -> T {
    let (services, discovered) = (fake.services(), fake.discovered());
    let registration = fake.registration(ClientAuthentication::Basic);
    let client = TokenClient {
        services: &services,
        discovered: &discovered,
        registration: &registration,
        settings,
        binding: None,
    };
    run(&client).await
}

fn former() -> Tokens {
    let tokens = json!({"access_token": "canary-old", "refresh_token": "canary-refresh", "scopes": ["a"]});
    serde_json::from_value(tokens).expect("tokens")
}

async fn refreshed(fake: &Fake) -> Result<Tokens, Error> {
    with_client(fake, &settings(), async |client| refresh(client, &former()).await).await
}

/// Exchanges a code `times` times for one server.
async fn exchanged(fake: &Fake, settings: &Settings, times: usize) -> Vec<Result<Tokens, Error>> {
    with_client(fake, settings, async |client| {
        let mut results = Vec::new();
        for _ in 0..times {
            results
                .push(exchange_code(client, &"c0de".into(), &"v".into(), &["a".into(), "x,y".into()]).await);
        }
        results
    })
    .await
}

#[tokio::test]
async fn every_spelling_of_a_token_is_read() {
    let fake = Fake::start();
    let long = r#""refresh_token":"next","expires_in":60"#;
    for (body, scopes) in [
        (r#"{"access_token":"t"}"#.to_owned(), vec!["a", "x,y"]),
        (
            r#"{"access_token":"t","token_type":null,"scope":null,"id_token":null}"#.to_owned(),
            vec!["a", "x,y"],
        ),
        (
            r#"{"access_token":"t","token_type":"","scope":"","refresh_token":""}"#.to_owned(),
            vec!["a", "x,y"],
        ),
        (
            r#"{"access_token":"t","id_token":5,"refresh_token":false,"scope":{}}"#.to_owned(),
            vec!["a", "x,y"],
        ),
        (
            format!(r#"{{"access_token":"t","token_type":"BEARER","scope":["b","c d"],{long}}}"#),
            vec!["b", "c", "d"],
        ),
        (format!(r#"{{"access_token":"t","scope":"repo,gist",{long}}}"#), vec!["repo", "gist"]),
        (format!(r#"{{"access_token":"t","scope":"b x,y",{long}}}"#), vec!["b", "x,y"]),
        (format!("\u{feff}{{\"access_token\":\"t\",\"scope\":\"b\",\"error\":null,{long}}}"), vec!["b"]),
        (
            "access_token=t&scope=repo%2Cgist&token_type=bearer&expires_in=60&refresh_token=next".to_owned(),
            vec!["repo", "gist"],
        ),
        ("access_token=t&token_type=&scope=b+c\n".to_owned(), vec!["b", "c"]),
        (r#"{"ok":true,"access_token":"t","token_type":"bot","scope":"b,c"}"#.to_owned(), vec!["b", "c"]),
        (
            format!(
                r#"{{"ok":true,"authed_user":{{"access_token":"t","token_type":"user","scope":"b,c",{long}}}}}"#
            ),
            vec!["b", "c"],
        ),
    ] {
        for status in [200, 201] {
            fake.answer("/token", status, "", &body);
            let tokens = exchanged(&fake, &settings(), 1).await.remove(0);
            let tokens = tokens.unwrap_or_else(|error| panic!("{body}: {error}"));
            assert_eq!(
                (tokens.access_token.expose_secret(), tokens.scopes),
                ("t", scopes.iter().map(|&s| s.to_owned()).collect()),
                "{body}"
            );
            let is_long = body.contains("next");
            assert_eq!(
                (tokens.expires_at.is_some(), tokens.refresh_token.is_some()),
                (is_long, is_long),
                "{body}"
            );
        }
    }
}

#[tokio::test]
async fn token_that_needs_a_proof_is_refused_by_its_type() {
    let fake = Fake::start();
    for kind in ["DPoP", "dpop", "mac", "PoP", "N_A"] {
        fake.json("/token", &json!({"access_token": "t", "token_type": kind}));
        let error = exchanged(&fake, &settings(), 1).await.remove(0).expect_err(kind).to_string();
        assert!(error.contains(&format!("`{kind}`")), "{error}");
    }
}

#[tokio::test]
async fn errors_are_read_in_every_spelling_and_status() {
    let fake = Fake::start();
    for (status, body, expected) in [
        (200, r#"{"error":"invalid_grant"}"#, "a login is required"),
        (200, r#"{"error":"bad_refresh_token","error_uri":"x"}"#, "a login is required"),
        (200, r#"{"ok":false,"error":"invalid_refresh_token"}"#, "a login is required"),
        (200, "error=bad_verification_code&error_description=expired", "a login is required"),
        (200, "error=incorrect_client_credentials", "`client_secret`"),
        (200, r#"{"error":{"code":"invalid_client","message":"who?"}}"#, "who?"),
        (400, "error=invalid_grant", "a login is required"),
        (400, r#"{"error":{"status":"PERMISSION_DENIED","message":"not here"}}"#, "not here"),
        (403, r#"{"error":"invalid_scope","error_description":null}"#, "`scopes`"),
        (200, r#"{"ok":true}"#, "without an access token"),
        (200, r#"["access_token"]"#, "without an access token"),
        (200, "", "without an access token"),
        (200, "access_token", "without an access token"),
        (200, "<p access_token=canary>", "without an access token"),
        (401, "Unauthorized", "status 401"),
    ] {
        fake.answer("/token", status, "", body);
        let error = refreshed(&fake).await.expect_err(body);
        assert!(error.to_string().contains(expected), "{status} {body}: {error}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn a_service_that_refuses_resource_is_asked_once_more_and_remembered() {
    for (status, body) in [
        (400, r#"{"error":"invalid_request","error_description":"unknown parameter: resource"}"#),
        (400, r#"{"error":"invalid_target"}"#),
        (400, "Bad Request"),
        (401, r#"{"error":"invalid_target"}"#),
        (200, r#"{"error":"invalid_request"}"#),
    ] {
        let fake = Fake::start();
        fake.answer("/token", 200, "", r#"{"access_token":"t"}"#);
        fake.refuses("resource", status, body);
        let results = exchanged(&fake, &settings(), 3).await;
        assert!(results.iter().all(Result::is_ok), "{status} {body}: {results:?}");
        let sent: Vec<bool> = fake.seen().iter().map(|seen| seen.field("resource").is_some()).collect();
        assert_eq!(sent, [true, false, false, false], "{status} {body}");
        assert!(fake.seen().iter().all(|seen| seen.field("code").as_deref() == Some("c0de")));
    }
}

#[tokio::test]
async fn other_refusals_and_a_configured_resource_cause_no_further_try() {
    let fake = Fake::start();
    fake.answer("/token", 200, "", r#"{"access_token":"t"}"#);
    for (status, body) in [
        (400, r#"{"error":"invalid_grant"}"#),
        (400, r#"{"error":"invalid_scope"}"#),
        (401, r#"{"error":"invalid_client"}"#),
        (404, "not here"),
        (500, r#"{"error":"invalid_target"}"#),
    ] {
        fake.refuses("resource", status, body);
        let before = fake.seen().len();
        assert!(exchanged(&fake, &settings(), 1).await[0].is_err(), "{status} {body}");
        assert_eq!(fake.seen().len(), before + 1, "{status} {body}");
    }
    fake.refuses("resource", 400, r#"{"error":"invalid_target"}"#);
    let configured =
        Settings { resource: ResourceParameter::Value("https://mcp.example.com".into()), ..settings() };
    let before = fake.seen().len();
    let refused = exchanged(&fake, &configured, 1).await.remove(0).expect_err("refused").to_string();
    assert!(refused.contains("`resource`") && fake.seen().len() == before + 1, "{refused}");
    let omitted = Settings { resource: ResourceParameter::Omitted, ..settings() };
    assert!(exchanged(&fake, &omitted, 1).await[0].is_ok());
    assert_eq!(fake.seen().len(), before + 2);
}

#[tokio::test]
async fn the_refusal_of_the_complete_request_is_reported_unless_the_grant_is_over() {
    let fake = Fake::start();
    fake.refuses("resource", 400, r#"{"error":"invalid_target","error_description":"first"}"#);
    fake.answer("/token", 400, "", r#"{"error":"invalid_request","error_description":"second"}"#);
    let error = refreshed(&fake).await.expect_err("refused").to_string();
    assert!(error.contains("first") && error.contains("`resource: none`"), "{error}");
    fake.answer("/token", 400, "", r#"{"error":"invalid_grant"}"#);
    assert!(matches!(refreshed(&fake).await, Err(Error::LoginRequired { .. })));
}
