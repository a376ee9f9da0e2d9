//! Tests of discovery against a small server: every place of metadata, and metadata that is not to be believed.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::config::ResourceParameter;
use crate::fake_tests::{Fake, settings};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

fn resource(fake: &Fake, issuer: &str) -> serde_json::Value {
    json!({
        "resource": format!("{}/mcp", fake.origin()),
        "authorization_servers": [format!("{}{issuer}", fake.origin())],
        "scopes_supported": ["read", "write"],
    })
}

async fn found(fake: &Fake, challenge: Option<&Challenge>, settings: &Settings) -> Result<Discovered, Error> {
    discover(&fake.services(), &fake.url("/mcp"), challenge, settings).await
}

#[tokio::test]
async fn every_place_of_metadata_is_asked_in_order_and_no_other() {
    let root = [format!("{RESOURCE}/mcp"), RESOURCE.to_owned()];
    let tenant = [format!("{SERVER}/t"), format!("{OPENID}/t"), format!("/t{OPENID}")];
    let origin = [SERVER.to_owned(), OPENID.to_owned()];
    for (issuer, places) in [("/t", &tenant[..]), ("", &origin[..])] {
        for at in 0..places.len() {
            for resource_at in 0..root.len() {
                let fake = Fake::start();
                fake.json(&root[resource_at], &resource(&fake, issuer));
                fake.json(&places[at], &fake.metadata(issuer));
                let discovered = found(&fake, None, &settings()).await.expect("found");
                assert_eq!(discovered.server.issuer, format!("{}{issuer}", fake.origin()));
                assert_eq!(discovered.resource, format!("{}/mcp", fake.origin()));
                assert_eq!(discovered.scopes, ["read", "write"]);
                let expected = root[..=resource_at].iter().chain(&places[..=at]);
                let expected: Vec<String> = expected.map(|place| format!("GET {place}")).collect();
                assert_eq!(fake.lines(), expected);
            }
        }
    }
}

#[tokio::test]
async fn the_place_of_the_challenge_comes_first_and_its_scope_is_asked_for_too() {
    let fake = Fake::start();
    fake.json("/custom", &json!({"resource": fake.origin(), "authorization_servers": [fake.origin()]}));
    let mut metadata = fake.metadata("");
    metadata["scopes_supported"] = json!(["offline_access", "x"]);
    fake.json(SERVER, &metadata);
    let mut challenge = Challenge { resource_metadata: Some(fake.url("/custom")), ..Challenge::default() };
    challenge.scope = Some("one  two".into());
    let with_scopes = Settings { scopes: vec!["mine".into()], ..settings() };
    let discovered = found(&fake, Some(&challenge), &with_scopes).await.expect("found");
    assert_eq!(fake.lines(), ["GET /custom", &format!("GET {SERVER}")]);
    // As it was published: without the slash of a parsed URL.
    assert_eq!(discovered.resource, fake.origin());
    assert_eq!(discovered.scopes, ["mine", "one", "two", "offline_access"]);
    challenge.scope = None;
    let discovered = found(&fake, Some(&challenge), &with_scopes).await.expect("found");
    assert_eq!(discovered.scopes, ["mine", "offline_access"]);
    challenge.scope = Some("more".into());
    challenge.error = Some("insufficient_scope".into());
    let discovered = found(&fake, Some(&challenge), &with_scopes).await.expect("found");
    assert_eq!(discovered.scopes, ["mine", "more", "offline_access"]);
    let machine = Settings {
        grant: Grant::ClientCredentials,
        resource: ResourceParameter::Value("urn:x".into()),
        ..settings()
    };
    let discovered = found(&fake, None, &machine).await.expect("found");
    assert_eq!((discovered.scopes.len(), discovered.resource.as_str()), (0, "urn:x"));
}

#[tokio::test]
async fn a_server_without_metadata_has_the_default_endpoints_of_its_origin() {
    let fake = Fake::start();
    let discovered = found(&fake, None, &settings()).await.expect("found").server;
    assert_eq!(discovered.issuer, fake.origin());
    let endpoint = |path: &str| Some(fake.url(path));
    assert_eq!(discovered.authorization_endpoint, endpoint("/authorize"));
    assert_eq!(
        (discovered.token_endpoint, discovered.registration_endpoint),
        (endpoint("/token"), endpoint("/register"))
    );
    fake.json(SERVER, &fake.metadata(""));
    let discovered = found(&fake, None, &settings()).await.expect("found");
    assert!(discovered.server.revocation_endpoint.is_some());
}

#[tokio::test]
async fn metadata_of_others_is_refused_and_nothing_more_is_asked() {
    let fake = Fake::start();
    let place = format!("{RESOURCE}/mcp");
    fake.json(
        &place,
        &json!({"resource": "https://evil.example.com/mcp", "authorization_servers": [fake.origin()]}),
    );
    fake.json(SERVER, &fake.metadata(""));
    let error = found(&fake, None, &settings()).await.expect_err("another resource").to_string();
    assert!(error.contains("another resource, `https://evil.example.com/mcp`"), "{error}");
    assert_eq!(fake.lines().len(), 1);

    fake.json(&place, &resource(&fake, ""));
    let mut metadata = fake.metadata("");
    metadata["issuer"] = "https://attacker.example.com".into();
    fake.json(SERVER, &metadata);
    fake.json(OPENID, &fake.metadata(""));
    let error = found(&fake, None, &settings()).await.expect_err("another issuer").to_string();
    assert!(error.contains("another issuer, `https://attacker.example.com`"), "{error}");
    assert!(!fake.lines().contains(&format!("GET {OPENID}")));

    let pinned = Settings { issuer: Some("https://login.example.org".into()), ..settings() };
    let error = found(&fake, None, &pinned).await.expect_err("another than the pinned one").to_string();
    assert!(error.contains("`issuer` allows only"), "{error}");
}

#[tokio::test]
async fn metadata_cannot_lead_to_addresses_that_the_server_may_not_name() {
    let fake = Fake::start();
    for issuer in ["http://127.0.0.2:1", "https://169.254.169.254", "https://localhost", "file:///etc"] {
        let metadata = json!({"resource": fake.origin(), "authorization_servers": [issuer]});
        fake.json(RESOURCE, &metadata);
        let error = found(&fake, None, &settings()).await.expect_err(issuer);
        assert!(matches!(error, Error::Refused { .. }), "{issuer}: {error}");
    }
    let named = Url::parse("http://169.254.169.254/latest/meta-data").ok();
    let challenge = Challenge { resource_metadata: named, ..Challenge::default() };
    let error = found(&fake, Some(&challenge), &settings()).await.expect_err("a link-local address");
    assert!(error.to_string().contains("is not contacted"), "{error}");
}

#[tokio::test]
async fn a_server_without_pkce_is_refused_for_persons_only() {
    let fake = Fake::start();
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let mut metadata = fake.metadata("");
        metadata["code_challenge_methods_supported"] = methods;
        fake.json(SERVER, &metadata);
        let error = found(&fake, None, &settings()).await.expect_err("no PKCE").to_string();
        assert!(error.contains("S256"), "{error}");
        let machine = Settings { grant: Grant::ClientCredentials, ..settings() };
        assert!(found(&fake, None, &machine).await.is_ok());
    }
}

#[tokio::test]
async fn documents_that_cannot_be_used_are_told_apart() {
    let fake = Fake::start();
    let place = format!("{RESOURCE}/mcp");
    fake.json(&place, &resource(&fake, ""));
    // A redirect is not followed.
    fake.json("/elsewhere", &fake.metadata(""));
    fake.answer(SERVER, 302, &format!("{}/elsewhere", fake.origin()), "");
    assert!(matches!(found(&fake, None, &settings()).await, Err(Error::Refused { .. })));
    assert!(!fake.lines().contains(&"GET /elsewhere".to_owned()));
    // A page instead of JSON is skipped.
    fake.answer(SERVER, 200, "", "<html>canary");
    let error = found(&fake, None, &settings()).await.expect_err("no metadata").to_string();
    assert!(error.contains("no readable metadata") && !error.contains("canary"), "{error}");
    fake.json(OPENID, &fake.metadata(""));
    assert!(found(&fake, None, &settings()).await.is_ok());
    // A busy server is not one without metadata.
    fake.answer(SERVER, 429, "7", "");
    fake.answer(OPENID, 404, "", "");
    let later = Error::Later {
        reason: "it answered with status 429".into(),
        retry_after: Some(Duration::from_secs(7)),
    };
    assert_eq!(found(&fake, None, &settings()).await, Err(later));
    fake.answer(SERVER, 200, "", &format!("{{\"issuer\": \"{}\"}}", "x".repeat(300_000)));
    let error = found(&fake, None, &settings()).await.expect_err("too large").to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn an_issuer_is_compared_as_a_string_but_for_the_slash_of_an_empty_path() {
    assert!(is_same_issuer("https://h", "https://h/") && is_same_issuer("https://h/t", "https://h/t"));
    for other in ["https://h/t", "https://H", "https://h:443", "http://h", "https://h//", "https://h/?"] {
        assert!(!is_same_issuer("https://h", other), "{other}");
    }
    assert!(!is_same_issuer("https://h/t", "https://h/t/"));
}
