//! Logins of several processes with one vault: a rotated refresh token is sent once, and never one that was used.

use std::time::Duration;

use http::StatusCode;
use secrecy::ExposeSecret;

use super::tests::{bearer, challenge, logins_with, pass, requests, saved, vault_in};
use crate::Error;
use crate::account::Account;
use crate::fake_tests::{Fake, settings};
use crate::saved::LoginStore;

#[tokio::test]
async fn processes_that_share_the_vault_renew_a_token_once() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let vault = || vault_in(&folder);
    let store = LoginStore { vault: Some(vault()), server: "notes".into(), url: fake.url("/mcp") };
    store.save_login(None, &saved(&fake, Duration::ZERO)).await;
    let processes: Vec<_> = (0..4).map(|_| logins_with(&fake, settings(), Some(vault()))).collect();
    let accounts: Vec<_> = processes.iter().map(|logins| logins.account(None)).collect();
    for header in futures_util::future::join_all(accounts.iter().map(Account::header)).await {
        assert_eq!(bearer(header.expect("a token")), "Bearer canary-new");
    }
    assert_eq!(requests(&fake, "POST /token"), 1, "a rotated refresh token works once");

    // One of them has renewed it, long ago, and the others still have the refresh token of before.
    let mut renewed = saved(&fake, Duration::ZERO);
    renewed.tokens.refresh_token = Some("canary-rotated".into());
    store.save_login(None, &renewed).await;
    let old = accounts[0].header().await.expect("a token");
    let invalid = challenge("Bearer error=\"invalid_token\"");
    pass(Duration::from_secs(3)).await; // a token this young is not renewed
    let repeated = accounts[0].refused(old.as_ref(), StatusCode::UNAUTHORIZED, &invalid).await;
    assert_eq!(repeated, Ok(true));
    let request = fake.seen().pop().expect("a request");
    assert_eq!(request.field("refresh_token").as_deref(), Some("canary-rotated"));
}

#[tokio::test]
async fn a_token_that_could_not_be_saved_is_renewed_from_memory() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let logins = logins_with(&fake, settings(), Some(vault_in(&folder)));
    let account = logins.account(None);
    account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
    std::fs::create_dir(folder.path().join("vault.json.new")).expect("now the vault cannot be written");
    let token = account.header().await.expect("a token");
    pass(Duration::from_secs(3)).await; // a token this young is not renewed
    let invalid = challenge("Bearer error=\"invalid_token\"");
    assert_eq!(account.refused(token.as_ref(), StatusCode::UNAUTHORIZED, &invalid).await, Ok(true));
    let requests = fake.seen().into_iter().filter(|seen| seen.line == "POST /token");
    let sent: Vec<_> = requests.filter_map(|seen| seen.field("refresh_token")).collect();
    assert_eq!(sent, ["canary-refresh", "canary-next"], "the vault has the first one only");
}

#[tokio::test]
async fn a_login_that_another_process_makes_is_found_and_a_refused_one_is_not_tried_again() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let vault = || vault_in(&folder);
    let [here, there] = [(); 2].map(|()| logins_with(&fake, settings(), Some(vault())).account(None));
    let unauthorized = challenge("Bearer");
    assert!(
        here.refused(None, StatusCode::UNAUTHORIZED, &unauthorized).await.is_err(),
        "a login is required"
    );
    tokio::time::pause();
    let waits = async || tokio::time::timeout(Duration::from_mins(1), here.renewed()).await.is_err();
    assert!(waits().await);
    there.log_in(saved(&fake, Duration::from_hours(1))).await.expect("a login");
    assert!(!waits().await);
    let header = here.header().await.expect("a token");
    assert_eq!(bearer(header.clone()), "Bearer canary-old");

    fake.answer("/token", 400, "", r#"{"error":"invalid_grant"}"#);
    tokio::time::resume();
    let refused = here.refused(header.as_ref(), StatusCode::UNAUTHORIZED, &unauthorized).await;
    assert!(matches!(refused, Err(Error::LoginRequired { .. })), "{refused:?}");
    there.log_in(saved(&fake, Duration::from_hours(1))).await.expect("the same token");
    tokio::time::pause();
    assert!(waits().await, "it was refused");
    assert_eq!(requests(&fake, "POST /token"), 1);
}

#[tokio::test]
async fn renewal_takes_the_place_of_no_other_login() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let store = LoginStore { vault: Some(vault_in(&folder)), server: "notes".into(), url: fake.url("/mcp") };
    let (old, mut other) = (saved(&fake, Duration::ZERO), saved(&fake, Duration::from_hours(1)));
    other.tokens.refresh_token = Some("canary-of-bob".into());
    let renewal = saved(&fake, Duration::from_hours(1));
    for (there, expected) in [(None, None), (Some(&other), None), (Some(&old), Some(true))] {
        match there {
            Some(login) => assert!(store.save_login(None, login).await),
            None => store.remove_login(None).await.expect("removed"),
        }
        assert_eq!(store.replace_login(None, &renewal, &old).await, expected);
        let is_other = store.login(None).is_some_and(|login| {
            login.tokens.refresh_token.is_some_and(|token| token.expose_secret() == "canary-of-bob")
        });
        assert_eq!(is_other, there.is_some() && expected.is_none());
    }
}
