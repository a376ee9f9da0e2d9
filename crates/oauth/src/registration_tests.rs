//! Tests of registration: the order of its ways, and what is sent.

use std::time::SystemTime;

use serde_json::json;

use super::*;
use crate::fake_tests::{Fake, own, settings};

async fn registered(
    fake: &Fake,
    discovered: &Discovered,
    settings: &Settings,
    known: Option<&Registration>,
) -> Result<Registration, Error> {
    register(&fake.services(), discovered, settings, &own(), known).await
}

fn supporting(fake: &Fake, methods: &[&str]) -> Discovered {
    let mut discovered = fake.discovered();
    let methods = methods.iter().map(|method| (*method).to_owned()).collect();
    discovered.server.token_endpoint_auth_methods_supported = Some(methods);
    discovered
}

#[tokio::test]
async fn a_client_is_registered_with_what_both_sides_support() {
    use ClientAuthentication::{Basic, None as Public, Post};
    let fake = Fake::start();
    for (supported, answered, agreed) in [
        (Some(&["client_secret_post"][..]), Some("client_secret_post"), Post),
        (Some(&["none"]), None, Public),
        (Some(&["none", "client_secret_basic"]), None, Basic),
        (None, Some("client_secret_post"), Post),
        (None, None, Basic),
    ] {
        let discovered = supported.map_or_else(|| fake.discovered(), |methods| supporting(&fake, methods));
        let mut answer =
            json!({"client_id": "new", "client_secret": "s3cret", "client_secret_expires_at": 0});
        answer["token_endpoint_auth_method"] = answered.into();
        fake.answer("/register", 201, "", &answer.to_string());
        let made = registered(&fake, &discovered, &settings(), None).await.expect("a registration");
        assert_eq!((made.client_id.as_str(), made.authentication, made.expires_at), ("new", agreed, None));
        assert_eq!(made.issuer, fake.origin());
    }
    let sent: Value = serde_json::from_str(&fake.seen()[0].body).expect("JSON");
    assert_eq!(
        sent,
        json!({
            "client_name": "Switchyard", "application_type": "native", "scope": "a b",
            "redirect_uris": ["http://127.0.0.1:8000/oauth/callback"], "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "client_secret_post",
        })
    );
    let web = OwnClient { redirect_uri: Url::parse("https://sw.example/cb").expect("a URL"), ..own() };
    assert_eq!(web.metadata(Public)["application_type"], "web");
    let unknown = supporting(&fake, &["tls_client_auth"]);
    assert!(matches!(registered(&fake, &unknown, &settings(), None).await, Err(Error::Unsupported { .. })));
}

#[tokio::test]
async fn every_spelling_of_a_registration_is_read() {
    let fake = Fake::start();
    let discovered = supporting(&fake, &["client_secret_basic", "none"]);
    for (body, id, has_secret, expires) in [
        (r#"{"client_id": 12345}"#, "12345", false, false),
        (r#"{"client_id": "c", "client_secret": null, "client_secret_expires_at": null}"#, "c", false, false),
        (
            r#"{"client_id": "c", "client_secret": "", "redirect_uris": null, "scope": null}"#,
            "c",
            false,
            false,
        ),
        (r#"{"client_id": "c", "client_secret": "s", "client_secret_expires_at": "0"}"#, "c", true, false),
        (r#"{"client_id": "c", "client_secret": "s", "client_secret_expires_at": 0.0}"#, "c", true, false),
        (r#"{"client_id": "c", "client_secret": "s", "client_secret_expires_at": -1}"#, "c", true, false),
        (r#"{"client_id": "c", "client_secret": "s", "client_secret_expires_at": "1e12"}"#, "c", true, true),
        (r#"{"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": ""}"#, "c", true, false),
        ("\u{feff}{\"client_id\": \"c\", \"error\": null}", "c", false, false),
    ] {
        for status in [200, 201] {
            fake.answer("/register", status, "", body);
            let made = registered(&fake, &discovered, &settings(), None).await;
            let made = made.unwrap_or_else(|error| panic!("{body}: {error}"));
            let read = (made.client_id.as_str(), made.client_secret.is_some(), made.expires_at.is_some());
            assert_eq!(read, (id, has_secret, expires), "{body}");
        }
    }
    for (body, expected) in [
        (r#"{"client_id": ""}"#, "without a `client_id`"),
        (r#"{"client_id": {}}"#, "without a `client_id`"),
        ("<html>", "without a `client_id`"),
        (r#"{"error": "invalid_redirect_uri", "error_description": "no loopback"}"#, "no loopback"),
    ] {
        fake.answer("/register", 200, "", body);
        let error = registered(&fake, &discovered, &settings(), None).await.expect_err(body);
        assert!(error.to_string().contains(expected), "{body}: {error}");
    }
}

#[tokio::test]
async fn a_client_id_too_long_for_urls_and_forms_is_refused_with_its_length() {
    let fake = Fake::start();
    for (length, is_taken) in [(MAX_CLIENT_ID, true), (MAX_CLIENT_ID + 1, false)] {
        fake.answer("/register", 201, "", &json!({"client_id": "x".repeat(length)}).to_string());
        match registered(&fake, &fake.discovered(), &settings(), None).await {
            Ok(made) => assert!(is_taken && made.client_id.len() == length),
            Err(Error::Refused { reason }) => {
                assert!(!is_taken && reason.contains("4097 bytes") && reason.len() < 300, "{reason}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_known_registration_is_used_for_its_issuer_only() {
    let fake = Fake::start();
    fake.answer("/register", 201, "", r#"{"client_id": "new"}"#);
    let known = fake.registration(ClientAuthentication::Post);
    let discovered = fake.discovered();
    let made = registered(&fake, &discovered, &settings(), Some(&known)).await.expect("the known one");
    assert_eq!((made.client_id.as_str(), fake.lines().len()), ("the id", 0));
    let stale = [
        Registration { issuer: "https://former.example".into(), ..known.clone() },
        Registration { redirect_uri: "http://127.0.0.1:9/oauth/callback".into(), ..known.clone() },
        Registration { expires_at: Some(SystemTime::now()), ..known },
    ];
    for (at, known) in stale.iter().enumerate() {
        let made = registered(&fake, &discovered, &settings(), Some(known)).await.expect("a new one");
        assert_eq!((made.client_id.as_str(), fake.lines().len()), ("new", at + 1));
        assert!(!fake.seen()[at].body.contains("canary"));
    }
}

#[tokio::test]
async fn credentials_of_the_settings_come_first() {
    let fake = Fake::start();
    let by_hand =
        Settings { client_id: Some("mine".into()), client_secret: Some("canary".into()), ..settings() };
    let discovered = supporting(&fake, &["client_secret_post"]);
    let made = registered(&fake, &discovered, &by_hand, None).await.expect("the client of the settings");
    assert_eq!((made.client_id.as_str(), made.authentication), ("mine", ClientAuthentication::Post));
    assert!(fake.lines().is_empty());
}

#[tokio::test]
async fn a_url_is_the_id_of_the_client_only_where_that_is_advertised() {
    let fake = Fake::start();
    fake.answer("/register", 201, "", r#"{"client_id": "new"}"#);
    let url = "https://sw.example/oauth/client.json";
    let with_url = OwnClient { client_metadata_url: Url::parse(url).ok(), ..own() };
    let mut discovered = supporting(&fake, &["none"]);
    for (is_advertised, id) in [(false, "new"), (true, url)] {
        discovered.server.client_id_metadata_document_supported = is_advertised;
        let services = fake.services();
        let made = register(&services, &discovered, &settings(), &with_url, None).await.expect("a client");
        assert_eq!((made.client_id.as_str(), made.authentication), (id, ClientAuthentication::None));
    }
    let document = with_url.document(&Url::parse(url).expect("a URL"));
    assert_eq!(
        (&document["client_id"], &document["token_endpoint_auth_method"]),
        (&json!(url), &json!("none"))
    );
    let plain = OwnClient { client_metadata_url: Url::parse("http://sw.example/c.json").ok(), ..own() };
    let made = register(&fake.services(), &discovered, &settings(), &plain, None).await.expect("a client");
    assert_eq!(made.client_id, "new");
}

#[tokio::test]
async fn without_a_way_the_settings_to_fill_in_are_named() {
    let fake = Fake::start();
    let mut discovered = fake.discovered();
    fake.answer(
        "/register",
        400,
        "",
        r#"{"error":"invalid_redirect_uri","error_description":"no loopback"}"#,
    );
    let error = registered(&fake, &discovered, &settings(), None).await.expect_err("refused");
    assert!(error.to_string().contains("invalid_redirect_uri no loopback"), "{error}");
    fake.answer("/register", 429, "3", "");
    assert!(matches!(registered(&fake, &discovered, &settings(), None).await, Err(Error::Later { .. })));
    discovered.server.registration_endpoint = None;
    let Err(Error::Unsupported { what }) = registered(&fake, &discovered, &settings(), None).await else {
        panic!("registered")
    };
    assert!(
        ["`client_id`", "`client_secret`", "`client_metadata_url`"].iter().all(|name| what.contains(name))
    );
}
