//! Limits of logins: registrations that are kept, long values of a login service, and scopes that a server demands.

use http::StatusCode;
use serde_json::json;

use super::tests::{
    GRANTED, alice, challenge, log_in, logins, logins_with, machine, pass, requests, started, vault_in,
};
use super::*;
use crate::fake_tests::{Fake, own, settings};

#[tokio::test]
async fn a_registration_is_saved_when_a_login_with_it_succeeds_and_begun_logins_share_it() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let vault = || vault_in(&folder);
    for has_vault in [false, true] {
        let logins = logins_with(&fake, settings(), Some(vault()).filter(|_| has_vault));
        let before = requests(&fake, "POST /register");
        for principal in ["key:alice", "key:bob", "key:carol"] {
            logins.start(&principal.into(), &own(), |_| String::new()).await.expect("a login service");
        }
        assert_eq!(requests(&fake, "POST /register"), before + 1);
        assert!(!folder.path().join("vault.json").exists(), "nobody has logged in");
        if has_vault {
            log_in(&logins, &alice()).await.expect("a login");
            assert_eq!(vault().list().expect("readable").0.len(), 2, "a login and a registration");
        }
    }
}

#[tokio::test]
async fn logins_that_start_together_share_one_registration() {
    let fake = Fake::start();
    let logins = logins(&fake);
    let alice = alice();
    let starts = (0..8).map(async |_| logins.start(&alice, &own(), |_| String::new()).await);
    for started in futures_util::future::join_all(starts).await {
        started.expect("a login service");
    }
    assert_eq!(requests(&fake, "POST /register"), 1);
}

#[tokio::test]
async fn login_after_a_logout_registers_again_in_case_the_service_forgot_the_client() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    for vault in [None, Some(vault_in(&folder))] {
        let logins = logins_with(&fake, settings(), vault);
        let before = requests(&fake, "POST /register");
        log_in(&logins, &alice()).await.expect("a login");
        log_in(&logins, &alice()).await.expect("a second login");
        assert_eq!(requests(&fake, "POST /register"), before + 1);
        logins.log_out(Some(&alice())).await.expect("a logout");
        logins.log_out(Some(&alice())).await.expect("a logout without a login");
        log_in(&logins, &alice()).await.expect("a login");
        assert_eq!(requests(&fake, "POST /register"), before + 2);
    }
}

#[tokio::test]
async fn logout_after_the_service_ended_the_login_leads_to_another_registration() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    for vault in [None, Some(vault_in(&folder))] {
        let logins = logins_with(&fake, settings(), vault);
        let before = requests(&fake, "POST /register");
        log_in(&logins, &alice()).await.expect("a login");
        fake.answer("/token", 400, "", r#"{"error":"invalid_grant"}"#);
        pass(Duration::from_hours(2)).await;
        let account = logins.account(Some(&alice()));
        let ended = account.header().await;
        assert!(matches!(ended, Err(Error::LoginRequired { .. })) && account.held().is_none(), "{ended:?}");
        fake.answer("/token", 200, "", GRANTED);
        logins.log_out(Some(&alice())).await.expect("a logout");
        log_in(&logins, &alice()).await.expect("a login");
        assert_eq!(requests(&fake, "POST /register"), before + 2);
    }
}

#[tokio::test]
async fn registration_that_another_login_has_survives_a_logout() {
    let fake = Fake::start();
    let per_principal = Settings { per: Per::Principal, ..settings() };
    let (logins, bob) = (logins_with(&fake, per_principal, None), Arc::from("key:bob"));
    for person in [&alice(), &bob] {
        log_in(&logins, person).await.expect("a login");
    }
    logins.log_out(Some(&alice())).await.expect("a logout");
    log_in(&logins, &alice()).await.expect("a login");
    assert_eq!(requests(&fake, "POST /register"), 1);
}

#[tokio::test]
async fn newer_registration_stays_when_an_older_one_is_forgotten() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let store = LoginStore { vault: Some(vault_in(&folder)), server: "notes".into(), url: fake.url("/mcp") };
    let older = fake.registration(crate::ClientAuthentication::None);
    let newer = Registration { client_id: "newer".into(), ..older.clone() };
    store.save_registration(&newer).await;
    store.remove_registrations(Some(&older)).await;
    assert_eq!(store.registrations().len(), 1);
    store.remove_registrations(Some(&newer)).await;
    assert!(store.registrations().is_empty());
}

#[tokio::test]
async fn a_few_registrations_of_a_server_are_kept_and_the_oldest_goes() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let vault = vault_in(&folder);
    let logins = logins_with(&fake, settings(), Some(Arc::clone(&vault)));
    let own_at = |port: u16| {
        let redirect_uri = Url::parse(&format!("http://127.0.0.1:{port}/oauth/callback")).expect("a URL");
        OwnClient { redirect_uri, client_metadata_url: None }
    };
    for port in 1..=10 {
        let mut sealed = None;
        let seal = |pending: &Pending| {
            sealed = Some(*pending);
            String::new()
        };
        logins.start(&alice(), &own_at(port), seal).await.expect("a login service");
        let response = AuthorizationResponse { code: Some("c".into()), ..AuthorizationResponse::default() };
        logins.finish(&alice(), sealed.expect("sealed"), &response).await.expect("a login");
    }
    assert_eq!(vault.list().expect("readable").0.len(), 2);
    let stored =
        LoginStore { vault: Some(vault), server: "notes".into(), url: fake.url("/mcp") }.registrations();
    let uris: Vec<_> = stored.iter().map(|known| known.redirect_uri.as_str()).collect();
    assert_eq!(uris, [7, 8, 9, 10].map(|port| own_at(port).redirect_uri.to_string()));
    let before = requests(&fake, "POST /register");
    logins.start(&alice(), &own_at(10), |_| String::new()).await.expect("a login service");
    assert_eq!(requests(&fake, "POST /register"), before);
}

#[tokio::test]
async fn long_values_of_a_login_service_are_refused_by_name_and_nothing_is_saved() {
    let long = |length: usize| "x".repeat(length);
    let token = |name: &str, length: usize| {
        let mut granted = json!({"access_token": "a", "token_type": "Bearer"});
        granted[name] = long(length).into();
        ("/token", granted)
    };
    let metadata = |fake: &Fake, name: &str| {
        let mut metadata = fake.metadata("");
        metadata[name] = format!("{}/{}", fake.origin(), long(2_048)).into();
        ("/.well-known/oauth-authorization-server", metadata)
    };
    let fake = Fake::start();
    let resource = |name: &str, value: serde_json::Value| {
        let mut resource =
            json!({"resource": fake.url("/mcp").as_str(), "authorization_servers": [fake.origin()]});
        resource[name] = value;
        ("/.well-known/oauth-protected-resource/mcp", resource)
    };
    for ((path, answer), named) in [
        (token("access_token", 16_385), "an access token of 16385 bytes"),
        (token("refresh_token", 8_193), "a refresh token of 8193 bytes"),
        (
            ("/register", json!({"client_id": "a", "client_secret": long(4_097)})),
            "a client secret of 4097 bytes",
        ),
        (metadata(&fake, "token_endpoint"), "a `token_endpoint` of"),
        (metadata(&fake, "authorization_endpoint"), "a `authorization_endpoint` of"),
        (metadata(&fake, "registration_endpoint"), "a `registration_endpoint` of"),
        (metadata(&fake, "revocation_endpoint"), "a `revocation_endpoint` of"),
        (resource("resource", format!("{}/{}", fake.origin(), long(2_048)).into()), "a `resource` of"),
        (
            resource("authorization_servers", json!([fake.origin(), long(2_049)])),
            "a `authorization_servers` of",
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let vault = vault_in(&folder);
        let logins = logins_with(&fake, settings(), Some(vault));
        fake.json(path, &answer);
        let refused = log_in(&logins, &alice()).await.expect_err(named).to_string();
        assert!(refused.contains(named) && refused.len() < 300, "{refused}");
        assert!(!folder.path().join("vault.json").exists(), "{named}");
    }
    // Values that are only long in sum, and those that are for display.
    let logins = logins(&fake);
    let scopes = vec![long(200); 500].join(" ");
    fake.json(
        "/token",
        &json!({"access_token": "a", "token_type": "Bearer", "scope": scopes, "id_token": long(99_999)}),
    );
    let status = log_in(&logins, &alice()).await.expect("a login");
    assert!(status.scopes.concat().len() <= 4_096 && status.account.is_none());
    assert!(
        serde_json::to_vec(&logins.account(None).held().expect("a login").login).expect("JSON").len() < 8_192
    );
}

#[tokio::test]
async fn a_machine_asks_for_the_scopes_of_the_file_whatever_the_server_demands() {
    let lacks = challenge("Bearer error=\"insufficient_scope\", scope=\"root\"");
    for (scopes, takes_server_scopes, sent, is_repeated) in [
        (vec![], false, vec![None], false),
        (vec!["read".to_owned()], false, vec![Some("read")], false),
        (vec![], true, vec![Some("admin"), Some("admin a root")], true),
    ] {
        let fake = Fake::start();
        let logins = logins_with(&fake, Settings { scopes, takes_server_scopes, ..machine() }, None);
        let account = logins.account(None);
        let demanding = challenge("Bearer scope=\"admin\"");
        assert_eq!(account.refused(None, StatusCode::UNAUTHORIZED, &demanding).await, Ok(true));
        let header = account.header().await.expect("a token");
        let repeated = account.refused(header.as_ref(), StatusCode::FORBIDDEN, &lacks).await;
        assert_eq!(repeated, Ok(is_repeated));
        let requests = fake.seen().into_iter().filter(|seen| seen.line == "POST /token");
        assert_eq!(
            requests.map(|seen| seen.field("scope")).collect::<Vec<_>>(),
            sent.iter().map(|scope| scope.map(str::to_owned)).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn an_ended_token_whose_renewal_is_refused_is_not_waited_for_in_a_loop() {
    let fake = Fake::start();
    let logins = logins_with(&fake, machine(), None);
    let account = logins.account(None);
    fake.json("/token", &json!({"access_token": "a", "token_type": "Bearer", "expires_in": 1}));
    assert_eq!(account.refused(None, StatusCode::UNAUTHORIZED, &challenge("Bearer")).await, Ok(true));
    fake.answer("/token", 401, "", r#"{"error":"invalid_client"}"#);
    assert!(account.header().await.is_err());
    let soon = tokio::time::timeout(std::time::Duration::from_millis(50), account.renewed()).await;
    assert!(soon.is_err(), "the server would be contacted without a pause");
}

#[tokio::test]
async fn begun_logins_hold_little_of_long_metadata_and_scopes_that_a_server_varies_do_not_add_up() {
    let (fake, logins, account) = started();
    let mut metadata = fake.metadata("");
    metadata["scopes_supported"] = vec!["x".repeat(200); 1_000].into();
    metadata["grant_types_supported"] = vec!["authorization_code"; 1_000].into();
    fake.json("/.well-known/oauth-authorization-server", &metadata);
    for at in 0..40 {
        let scopes: Vec<String> = (0..20).map(|of| format!("{at}-{of}-{}", "y".repeat(20))).collect();
        let demanding = challenge(&format!("Bearer scope=\"{}\"", scopes.join(" ")));
        assert!(account.refused(None, StatusCode::UNAUTHORIZED, &demanding).await.is_err());
        logins.start(&alice(), &own(), |_| String::new()).await.expect("a login service");
    }
    for started in lock(&logins.started).values() {
        let held = serde_json::to_vec(&started.discovered).expect("JSON").len()
            + serde_json::to_vec(&started.registration).expect("JSON").len();
        assert!(held < 16 << 10, "{held} bytes");
    }
}
