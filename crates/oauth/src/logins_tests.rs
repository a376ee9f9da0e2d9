//! Logins from the start to the logout, and renewals, against a fake authorization server.

use std::time::Duration;

use auth::vault::{Vault, VaultConfig};
use http::{HeaderMap, StatusCode};
use secrecy::ExposeSecret;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::ClientAuthentication;
use crate::fake_tests::{Fake, own, settings};
use crate::saved::SavedLogin;
use crate::token_response::Tokens;

pub(super) const GRANTED: &str = r#"{"access_token":"canary-new","token_type":"Bearer","expires_in":3600,"refresh_token":"canary-next","scope":"a"}"#;

pub(super) fn alice() -> Arc<str> {
    "key:alice".into()
}

/// A server whose authorization server is `fake`.
pub(super) fn logins_with(fake: &Fake, settings: Settings, vault: Option<Arc<Vault>>) -> Arc<Logins> {
    let server = format!("{}/mcp", fake.origin());
    let resource = json!({"resource": server, "authorization_servers": [fake.origin()]});
    fake.json("/.well-known/oauth-protected-resource/mcp", &resource);
    fake.json("/.well-known/oauth-authorization-server", &fake.metadata(""));
    fake.answer("/register", 201, "", r#"{"client_id":"registered"}"#);
    fake.answer("/token", 200, "", GRANTED);
    fake.answer("/revoke", 200, "", "");
    let network = net::http::Network::default();
    let place = Place { vault, network, issuers: KnownIssuers::default(), shutdown: Shutdown::new() };
    Logins::new(&"notes".into(), &fake.url("/mcp"), &Arc::new(settings), place)
}

pub(super) fn logins(fake: &Fake) -> Arc<Logins> {
    logins_with(fake, settings(), None)
}

/// A fake authorization server, the logins at it, and the account of all principals.
pub(super) fn started() -> (Fake, Arc<Logins>, Arc<Account>) {
    let fake = Fake::start();
    let logins = logins(&fake);
    let account = logins.account(None);
    (fake, logins, account)
}

/// Settings of a gateway that logs in as a machine.
pub(super) fn machine() -> Settings {
    Settings {
        grant: Grant::ClientCredentials,
        client_id: Some("machine".into()),
        client_secret: Some("canary-secret".into()),
        ..settings()
    }
}

pub(super) fn vault_in(folder: &TempDir) -> Arc<Vault> {
    Vault::new(VaultConfig { path: folder.path().join("vault.json"), keys: Vec::new() })
}

/// Lets `time` pass at once.
pub(super) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

pub(super) fn challenge(text: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::WWW_AUTHENTICATE, text.parse().expect("a header"))])
}

pub(super) async fn log_in(logins: &Logins, principal: &Arc<str>) -> Result<LoginStatus, Error> {
    let mut sealed = None;
    let seal = |pending: &Pending| {
        sealed = Some(*pending);
        pending.to_string()
    };
    logins.start(principal, &own(), seal).await?;
    let response = AuthorizationResponse { code: Some("c0de".into()), ..AuthorizationResponse::default() };
    logins.finish(principal, sealed.expect("sealed"), &response).await
}

/// A login of an hour ago whose token ends in `left`.
pub(super) fn saved(fake: &Fake, left: Duration) -> SavedLogin {
    let Discovered { resource, server, .. } = fake.discovered();
    let tokens = Tokens {
        access_token: "canary-old".into(),
        refresh_token: Some("canary-refresh".into()),
        expires_at: Some(SystemTime::now() + left),
        scopes: vec!["a".into()],
        account: None,
    };
    let registration = fake.registration(ClientAuthentication::Post);
    SavedLogin { resource, server, registration, tokens, origin: fake.origin() }
}

pub(super) fn requests(fake: &Fake, line: &str) -> usize {
    fake.lines().iter().filter(|seen| *seen == line).count()
}

pub(super) fn bearer(header: Option<http::HeaderValue>) -> String {
    header.expect("a header").to_str().expect("ASCII").to_owned()
}

#[tokio::test]
async fn a_login_leads_to_a_token_and_a_logout_to_none() {
    let (fake, logins, account) = started();
    assert_eq!(account.header().await, Ok(None), "the server may need no login");
    let refused = account.refused(None, StatusCode::UNAUTHORIZED, &challenge("Bearer scope=\"a\"")).await;
    assert!(matches!(refused, Err(Error::LoginRequired { .. })), "{refused:?}");
    assert!(matches!(account.header().await, Err(Error::LoginRequired { .. })));
    assert_eq!(logins.status(None).state, LoginState::LoginRequired);
    assert_eq!(fake.lines(), Vec::<String>::new(), "nobody was asked");

    let status = log_in(&logins, &alice()).await.expect("a login");
    assert_eq!((status.state, status.scopes), (LoginState::LoggedIn, vec!["a".to_owned()]));
    assert_eq!(bearer(account.header().await.expect("a token")), "Bearer canary-new");
    assert!(logins.secrets().iter().any(|secret| secret.expose_secret() == "canary-next"));
    assert!(!format!("{logins:?} {account:?}").contains("canary"));

    logins.log_out(None).await.expect("a logout");
    assert!(matches!(account.header().await, Err(Error::LoginRequired { .. })));
    assert_eq!(requests(&fake, "POST /revoke"), 2, "both tokens");
}

#[tokio::test]
async fn a_started_login_works_once_for_its_principal_and_for_ten_minutes() {
    let fake = Fake::start();
    let logins = logins(&fake);
    let response = AuthorizationResponse { code: Some("c0de".into()), ..AuthorizationResponse::default() };
    let start = async || {
        let mut sealed = None;
        let seal = |pending: &Pending| {
            sealed = Some(*pending);
            "sealed-state".into()
        };
        let consent = logins.start(&alice(), &own(), seal).await.expect("a login service");
        assert!(consent.authorization_url.query().expect("a query").contains("state=sealed-state"));
        sealed.expect("sealed")
    };
    let pending = start().await;
    let mallory: Arc<str> = "key:mallory".into();
    assert!(logins.finish(&mallory, pending, &response).await.is_err(), "somebody else's");
    assert!(logins.finish(&alice(), pending, &response).await.is_err(), "it was tried once");
    let pending = start().await;
    logins.finish(&alice(), pending, &response).await.expect("a login");
    assert!(logins.finish(&alice(), pending, &response).await.is_err(), "a replayed code");
    let pending = start().await;
    pass(LOGIN_TIME).await;
    assert!(logins.finish(&alice(), pending, &response).await.is_err(), "too old");
    assert_eq!(requests(&fake, "POST /token"), 1);
}

#[tokio::test]
async fn started_logins_are_bounded_and_the_oldest_of_the_same_principal_goes_first() {
    let fake = Fake::start();
    let logins = logins(&fake);
    let response = AuthorizationResponse { code: Some("c0de".into()), ..AuthorizationResponse::default() };
    let mut first = None;
    for _ in 0..=MAX_STARTED_BY_ONE {
        let seal = |pending: &Pending| {
            first.get_or_insert(*pending);
            String::new()
        };
        logins.start(&alice(), &own(), seal).await.expect("a login service");
    }
    assert_eq!(lock(&logins.started).len(), MAX_STARTED_BY_ONE);
    assert!(logins.finish(&alice(), first.expect("sealed"), &response).await.is_err());
}

#[tokio::test]
async fn an_expired_token_is_renewed_once_for_all_callers() {
    let (fake, _logins, account) = started();
    account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
    for header in futures_util::future::join_all((0..64).map(|_| account.header())).await {
        assert_eq!(bearer(header.expect("a token")), "Bearer canary-new");
    }
    assert_eq!(requests(&fake, "POST /token"), 1, "a rotated refresh token works once");
}

#[tokio::test]
async fn a_token_that_ends_soon_is_renewed_while_it_is_still_sent() {
    let (fake, _logins, account) = started();
    account.log_in(saved(&fake, Duration::from_secs(4))).await.expect("a login");
    pass(Duration::from_millis(1_900)).await;
    let sent = bearer(account.header().await.expect("a token"));
    let mut now = sent.clone();
    for _ in 0..200 {
        now = bearer(account.header().await.expect("a token"));
        if now != sent {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((sent.as_str(), now.as_str()), ("Bearer canary-old", "Bearer canary-new"));
    assert_eq!(requests(&fake, "POST /token"), 1);
}

#[tokio::test]
async fn a_renewal_goes_on_when_its_caller_leaves() {
    let (fake, _logins, account) = started();
    account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
    let mut leaving = Box::pin(account.header());
    assert!(futures_util::poll!(leaving.as_mut()).is_pending());
    drop(leaving);
    assert_eq!(bearer(account.header().await.expect("a token")), "Bearer canary-new");
    assert_eq!(requests(&fake, "POST /token"), 1);
}

#[tokio::test]
async fn a_busy_authorization_server_costs_no_token_and_is_left_alone_for_a_while() {
    let (fake, _logins, account) = started();
    for status in [429, 500, 503] {
        fake.answer("/token", status, "60", "");
        account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
        let before = requests(&fake, "POST /token");
        for _ in 0..10 {
            let failed = account.header().await;
            assert!(matches!(failed, Err(Error::Later { .. })), "{status}: {failed:?}");
        }
        assert_eq!(requests(&fake, "POST /token"), before + 1, "{status}");
        fake.answer("/token", 200, "", GRANTED);
        pass(Duration::from_mins(1)).await;
        assert_eq!(bearer(account.header().await.expect("a token")), "Bearer canary-new", "{status}");
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_and_a_new_one_is_not_renewed_again() {
    let fake = Fake::start();
    let logins = logins(&fake);
    let folder = tempfile::tempdir().expect("a folder");
    let vault = vault_in(&folder);
    let shelf = LoginStore { vault: Some(Arc::clone(&vault)), server: "notes".into(), url: fake.url("/mcp") };
    shelf.save_login(None, &saved(&fake, Duration::from_hours(1))).await;
    drop(logins);
    let logins = logins_with(&fake, settings(), Some(vault));
    let account = logins.account(None);
    let invalid = challenge("Bearer error=\"invalid_token\"");
    let old = account.header().await.expect("a token");
    assert_eq!(account.refused(old.as_ref(), StatusCode::UNAUTHORIZED, &invalid).await, Ok(true));
    let new = account.header().await.expect("a token");
    assert_eq!(bearer(new.clone()), "Bearer canary-new");
    assert_eq!(
        account.refused(old.as_ref(), StatusCode::UNAUTHORIZED, &invalid).await,
        Ok(true),
        "a late answer"
    );
    let refused = account.refused(new.as_ref(), StatusCode::UNAUTHORIZED, &invalid).await;
    assert!(matches!(refused, Err(Error::LoginRequired { .. })), "{refused:?}");
    let next = account.header().await;
    assert!(matches!(next, Err(Error::LoginRequired { .. })), "a refused token is not sent again: {next:?}");
    assert_eq!(requests(&fake, "POST /token"), 1);
}

#[tokio::test]
async fn the_count_of_changes_grows_with_each_change_of_the_secrets() {
    let fake = Fake::start();
    let logins = logins(&fake);
    let mut before = (logins.changes(), Vec::new());
    let mut is_counted = |what: &str| {
        let secrets: Vec<String> =
            logins.secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect();
        let now = (logins.changes(), secrets);
        assert!(now.0 > before.0 && now.1 != before.1, "{what}");
        before = now;
    };
    let account = logins.account(None);
    account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
    is_counted("a login");
    account.header().await.expect("a renewal");
    is_counted("a renewal");
    logins.log_out(None).await.expect("a logout");
    is_counted("a logout");
    account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
    is_counted("another login");
}

#[tokio::test]
async fn a_refused_token_is_not_taken_for_a_new_one() {
    let (fake, _logins, account) = started();
    account.log_in(saved(&fake, Duration::from_hours(1))).await.expect("a login");
    account.renewed().await;
    let header = account.header().await.expect("a token");
    let refused = account.refused(header.as_ref(), StatusCode::FORBIDDEN, &HeaderMap::new()).await;
    assert_eq!(refused, Ok(false));
    let soon = tokio::time::timeout(Duration::from_millis(50), account.renewed()).await;
    assert!(soon.is_err(), "a server that refuses it would be contacted without a pause");
    account.log_in(saved(&fake, Duration::from_hours(1))).await.expect("a login");
    account.renewed().await;
}

#[tokio::test]
async fn a_call_that_lacks_a_scope_asks_for_it_beside_the_others() {
    let (fake, logins, account) = started();
    account.log_in(saved(&fake, Duration::from_hours(1))).await.expect("a login");
    let header = account.header().await.expect("a token");
    let lacks = |scope: &str| challenge(&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\""));
    let granted = account.refused(header.as_ref(), StatusCode::FORBIDDEN, &lacks("a")).await;
    assert_eq!(granted, Ok(false), "another login would not give more");
    let other = account.refused(header.as_ref(), StatusCode::FORBIDDEN, &challenge("Bearer")).await;
    assert_eq!(other, Ok(false), "a 403 for another reason");
    let lacking = account.refused(header.as_ref(), StatusCode::FORBIDDEN, &lacks("write")).await;
    assert!(matches!(lacking, Err(Error::ScopeRequired { .. })), "{lacking:?}");
    assert_eq!(account.header().await, Ok(header), "other calls pass");
    let consent = logins.start(&alice(), &own(), |_| String::new()).await.expect("a login service");
    assert_eq!(consent.scopes, ["a", "write"]);
}

#[tokio::test]
async fn a_login_rests_sealed_in_the_vault_and_its_deletion_is_complete() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let open = || vault_in(&folder);
    log_in(&logins_with(&fake, settings(), Some(open())), &alice()).await.expect("a login");
    let bytes = std::fs::read(folder.path().join("vault.json")).expect("a file");
    assert!(!bytes.windows(6).any(|window| window == b"canary"), "tokens rest sealed");

    let again = logins_with(&fake, settings(), Some(open()));
    assert_eq!(bearer(again.account(None).header().await.expect("a token")), "Bearer canary-new");
    again.log_out(None).await.expect("a logout");
    let after = logins_with(&fake, settings(), Some(open()));
    assert_eq!(after.account(None).header().await, Ok(None));
    assert_eq!(requests(&fake, "POST /register"), 1);
    log_in(&after, &alice()).await.expect("a login");
    assert_eq!(requests(&fake, "POST /register"), 2, "the registration ended too");
}

/// The command `key revoke` removes the login in another process, a moment before this one hears of it.
#[tokio::test]
async fn renewal_does_not_bring_a_removed_login_back() {
    let fake = Fake::start();
    let folder = tempfile::tempdir().expect("a folder");
    let open = || vault_in(&folder);
    let own_logins = || Settings { per: Per::Principal, ..settings() };
    let logins = logins_with(&fake, own_logins(), Some(open()));
    let (alice, command) = (alice(), open());
    for is_removed in [false, true] {
        let account = logins.account(Some(&alice));
        account.log_in(saved(&fake, Duration::ZERO)).await.expect("a login");
        if is_removed {
            command.remove_all_of_blocking(&alice).expect("removed");
        }
        let renewed = account.header().await;
        assert_eq!(renewed.is_ok(), !is_removed, "{renewed:?}");
        assert_eq!(
            requests(&fake, "POST /revoke"),
            if is_removed { 2 } else { 0 },
            "nobody has the new tokens"
        );
        let later = logins_with(&fake, own_logins(), Some(open()));
        let state = later.account(Some(&alice)).held().map(|held| held.header.clone());
        assert_eq!(state.is_some(), !is_removed, "the vault has a login again");
    }
    let again = logins.account(Some(&alice)).header().await;
    assert!(matches!(again, Err(Error::LoginRequired { .. })), "{again:?}");
    log_in(&logins, &alice).await.expect("a new login is saved");
    assert!(logins_with(&fake, own_logins(), Some(open())).account(Some(&alice)).held().is_some());
}

#[tokio::test]
async fn a_machine_gets_its_token_without_a_person() {
    let fake = Fake::start();
    let logins = logins_with(&fake, machine(), None);
    let account = logins.account(None);
    assert_eq!(account.refused(None, StatusCode::UNAUTHORIZED, &challenge("Bearer")).await, Ok(true));
    assert_eq!(bearer(account.header().await.expect("a token")), "Bearer canary-new");
    let request = fake.seen().pop().expect("a request");
    assert_eq!(request.field("grant_type").as_deref(), Some("client_credentials"));
    assert!(logins.start(&alice(), &own(), |_| String::new()).await.is_err(), "nobody logs in");
}
