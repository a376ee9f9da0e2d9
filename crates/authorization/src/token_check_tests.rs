//! Tokens in requests: the check of `auth` with this server as the issuer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use auth::{Denied, Person, Principal, Reason, Role, TokenIssuer};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use jsonwebtoken::DecodingKey;
use secrecy::ExposeSecret;

use super::tests::{CALLBACK, bearer, code_form, logged_in, refresh_form, token};
use crate::access::Access;
use crate::error::Code;
use crate::fixture::{Gateway, MemoryStore, Site, parameter, query};
use crate::grants::GrantFilter;
use crate::server::AuthorizationServer;

#[tokio::test]
async fn token_is_checked_as_its_owner_until_its_grant_ends() {
    let (site, _, client, tokens) = logged_in().await;
    let requests = site.requests();
    let headers = bearer(&tokens);
    assert_eq!(requests.authenticate(&headers), Err(Denied::Unchecked), "its grant is looked up first");
    let sender = requests.check(&headers).await.expect("accepted");
    assert_eq!((&**sender.id(), sender.role()), ("key:ann", Role::Caller));
    assert_eq!(requests.authenticate(&headers), Ok(sender.clone()));
    let next = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
    assert!(requests.authenticate(&bearer(&next)).is_ok() && !sender.is_revoked(), "after a refresh too");
    for grant in site.server.grants(None, site.now).await.expect("grants") {
        site.server.end_grant(&grant.id).await.expect("ended");
    }
    assert!(sender.is_revoked());
    for headers in [headers, bearer(&next)] {
        assert!(requests.authenticate(&headers).is_err());
        assert_eq!(requests.check(&headers).await, Err(Denied::Credential(Reason::Revoked)));
    }
}

#[tokio::test(start_paused = true)]
async fn token_whose_grant_another_process_ended_is_refused_within_a_minute() {
    let (site, _, client, tokens) = logged_in().await;
    let other = site.other_process().await;
    let (requests, headers) = (site.requests(), bearer(&tokens));
    let sender = requests.check(&headers).await.expect("accepted");
    let next = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
    tokio::time::advance(Duration::from_secs(59)).await;
    assert!(requests.authenticate(&bearer(&next)).is_ok(), "the grant was looked up");
    assert_eq!(other.end_grants(&GrantFilter::default(), site.now).await.expect("ended"), 1);
    tokio::time::advance(Duration::from_secs(2)).await;
    for headers in [&headers, &bearer(&next)] {
        assert_eq!(requests.authenticate(headers), Err(Denied::Unchecked));
    }
    assert_eq!(requests.check(&headers).await, Err(Denied::Credential(Reason::Revoked)));
    assert!(sender.is_revoked());
}

#[tokio::test]
async fn principals_of_a_grant_that_another_process_ended_are_notified_at_the_next_look() {
    let (site, _, client, tokens) = logged_in().await;
    let other = site.other_process().await;
    let bob = site.person("key:bob", Role::Caller);
    let requests = site.requests();
    let mut seen = None;
    let sender = requests.check(&bearer(&tokens)).await.expect("accepted");
    let code = site.log_in(&bob, &client, CALLBACK).await;
    let bobs = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    let bob = requests.check(&bearer(&bobs)).await.expect("accepted");
    site.server.end_removed(&mut seen).await.expect("a store");
    assert!(!sender.is_revoked() && !bob.is_revoked());
    let anns = GrantFilter { owner: Some("key:ann".to_owned()), ..GrantFilter::default() };
    assert_eq!(other.end_grants(&anns, site.now).await.expect("ended"), 1);
    site.store.set_fails(true);
    site.server.end_removed(&mut seen).await.expect_err("it is away");
    assert!(!sender.is_revoked());
    site.store.set_fails(false);
    site.server.end_removed(&mut seen).await.expect("a store");
    assert!(sender.is_revoked() && !bob.is_revoked());
    site.store.lose_everything();
    site.server.end_removed(&mut seen).await.expect("a store");
    assert!(bob.is_revoked());
}

#[tokio::test]
async fn shared_store_that_lost_everything_before_any_removal_is_noticed() {
    let (folder, store) = (tempfile::tempdir().expect("a folder"), Arc::new(MemoryStore::shared()));
    let now = std::time::SystemTime::now();
    let open =
        async || crate::fixture::open(folder.path(), store.clone(), Arc::new(Gateway::default()), now).await;
    let (one, mut seen) = (open().await, None);
    one.end_removed(&mut seen).await.expect("a store");
    let before = one.key_set(now).await.expect("keys");
    one.end_removed(&mut seen).await.expect("a store");
    store.lose_everything();
    let after = open().await.key_set(now).await.expect("keys");
    assert_ne!(after, before);
    assert_eq!(one.key_set(now).await.expect("keys"), before, "it does not know yet");
    one.end_removed(&mut seen).await.expect("a store");
    assert_eq!(one.key_set(now).await.expect("keys"), after);
}

/// A site and its check of requests. The first headers have a token that the check has accepted, whose sender is returned. The
/// second ones have a token of a grant that it has not seen.
async fn one_seen() -> (Site, Arc<auth::Authenticator>, Principal, [HeaderMap; 2]) {
    let (site, _, client, tokens) = logged_in().await;
    let bob = site.person("key:bob", Role::Caller);
    let requests = site.requests();
    let code = site.log_in(&bob, &client, CALLBACK).await;
    let unseen = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    let seen = bearer(&tokens);
    let sender = requests.check(&seen).await.expect("accepted");
    (site, requests, sender, [seen, bearer(&unseen)])
}

#[tokio::test(start_paused = true)]
async fn token_whose_grant_was_seen_is_accepted_while_the_store_hangs() {
    let (site, requests, sender, [seen, unseen]) = one_seen().await;
    tokio::time::advance(Duration::from_secs(61)).await;
    site.store.hang();
    let started = tokio::time::Instant::now();
    assert_eq!(requests.check(&seen).await, Ok(sender));
    assert!(started.elapsed() < Duration::from_secs(5), "within the time of a check");
    let refused = requests.check(&unseen).await;
    assert!(matches!(refused, Err(Denied::KeysUnavailable { .. })), "{refused:?}");
}

/// An issuer whose first lookup is overtaken: another process ends the grant, and a look at the store follows.
struct Overtaken {
    server: Arc<AuthorizationServer>,
    other: AuthorizationServer,
    lookups: AtomicUsize,
}

impl TokenIssuer for Overtaken {
    fn issuer(&self) -> &str {
        self.server.issuer()
    }

    fn key(&self, kid: &str) -> Option<DecodingKey> {
        self.server.key(kid)
    }

    fn may_grant(&self, owner: &str, role: Role) -> bool {
        self.server.may_grant(owner, role)
    }

    fn has_grant<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Option<bool>> {
        async move {
            let found = self.server.has_grant(id).await;
            if self.lookups.fetch_add(1, Ordering::Relaxed) == 0 {
                self.other.end_grant(id).await.expect("ended");
                self.server.end_removed(&mut Some(0)).await.expect("a store");
            }
            found
        }
        .boxed()
    }
}

#[tokio::test]
async fn lookup_of_a_grant_that_a_look_at_the_store_overtook_is_repeated() {
    let (site, _, _, tokens) = logged_in().await;
    let other = site.other_process().await;
    let requests = Arc::new(auth::Authenticator::new(&site.keys()).expect("no files"));
    let issuer = Overtaken { server: site.server.clone(), other, lookups: AtomicUsize::new(0) };
    requests.accept_tokens_of(Arc::new(issuer));
    assert!(site.gateway.requests.set(Arc::clone(&requests)).is_ok());
    assert_eq!(requests.check(&bearer(&tokens)).await, Err(Denied::Credential(Reason::Revoked)));
}

#[tokio::test(start_paused = true)]
async fn token_whose_grant_was_seen_is_accepted_while_the_store_is_away_and_another_one_is_not() {
    let (site, requests, sender, [seen, unseen]) = one_seen().await;
    site.store.set_fails(true);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(requests.check(&seen).await, Ok(sender.clone()));
        assert!(requests.authenticate(&seen).is_ok(), "nobody waits for the store again");
        let refused = requests.check(&unseen).await;
        assert!(matches!(refused, Err(Denied::KeysUnavailable { .. })), "{refused:?}");
    }
    let grant = requests.used_grants().remove(0);
    requests.end_grant(&grant);
    let refused = requests.check(&seen).await;
    assert!(matches!(refused, Err(Denied::KeysUnavailable { .. })), "{refused:?}");
    site.store.set_fails(false);
    assert!(requests.check(&unseen).await.is_ok());
}

#[tokio::test]
async fn token_is_not_judged_before_the_keys_are_known() {
    let (site, _, _, tokens) = logged_in().await;
    let (store, gateway) = (Arc::new(MemoryStore::shared()), Arc::new(Gateway::default()));
    store.set_fails(true);
    let server = crate::fixture::open(site.folder.path(), store.clone(), gateway, site.now).await;
    let requests = auth::Authenticator::new(&site.keys()).expect("no files");
    requests.accept_tokens_of(Arc::new(server));
    let refused = requests.check(&bearer(&tokens)).await;
    assert!(matches!(refused, Err(Denied::KeysUnavailable { .. })), "{refused:?}");
    let foreign = tokens.access_token.expose_secret().replace('.', ".e30.");
    let value = format!("Bearer {foreign}").parse().expect("a header");
    let refused = requests.check(&HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])).await;
    assert!(matches!(refused, Err(Denied::Credential(_))), "{refused:?}");
}

#[tokio::test]
async fn token_for_one_server_reaches_its_endpoint_only() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Superuser), site.register(CALLBACK).await);
    let requests = site.requests();
    for (resource, reached, refused) in [
        (
            "https://gw.example/mcp/files",
            "/mcp/files",
            &["/mcp", "/mcp/other", "/", "/api/v1/mcp/tools", "/messages"][..],
        ),
        ("https://gw.example/sse/files", "/messages", &["/mcp", "/sse"]),
        ("https://gw.example/mcp", "/api/v1/mcp/tools", &[]),
        ("https://gw.example", "/mcp/files", &[]),
        ("https://gw.example/mcp/help", "/mcp", &[]),
        ("https://gw.example/mcp/files", "/mcp/files", &["/mcp", "/mcp/help", "/api/v1/mcp/tools"]),
    ] {
        // A view in the scope makes a server no wider.
        let is_in_view = resource.ends_with("/files") && refused.contains(&"/mcp/help");
        let scope = if is_in_view { "mcp:call view:help" } else { "mcp:call" };
        let query = query(&client, CALLBACK, &[("resource", resource), ("scope", scope)]);
        let consent = site.server.authorize(&person, &query, site.now).await.expect("a consent");
        let location = site.server.approve(&person, &consent.request, site.now).await.expect("a code");
        let code = parameter(&location, "code").expect("a code");
        let tokens =
            token(&site, &code_form(&client, &code, &[("resource", resource)])).await.expect("tokens");
        let sender = requests.check(&bearer(&tokens)).await.expect("accepted");
        assert!(sender.may_reach(reached), "{resource}");
        assert!(!refused.iter().any(|path| sender.may_reach(path)), "{resource}");
        let is_bound = resource.ends_with("/help") || is_in_view;
        assert_eq!(sender.view().map(|view| &**view), is_bound.then_some("help"));
    }
}

#[tokio::test]
async fn token_never_allows_more_than_the_key_of_its_owner_does_now() {
    let (site, _, client, tokens) = logged_in().await;
    let (requests, headers) = (site.requests(), bearer(&tokens));
    let renew = |role, view: Option<&str>| {
        let access = Access { role, view: view.map(str::to_owned) };
        site.gateway.people.lock().expect("a lock").insert("key:ann".to_owned(), access);
        requests.renew(auth::Keys::read(&site.keys()).expect("no files"));
    };
    let first = requests.check(&headers).await.expect("accepted");
    renew(Role::Caller, None);
    assert!(!first.is_revoked(), "nothing changed");
    renew(Role::Superuser, None);
    assert!(first.is_revoked(), "as the principal of the key itself");
    let second = requests.check(&headers).await.expect("accepted");
    assert_eq!(second.role(), Role::Caller, "no more than the token says");
    renew(Role::Reader, None);
    assert!(second.is_revoked());
    let third = requests.check(&headers).await.expect("accepted");
    assert_eq!((third.role(), third.view()), (Role::Reader, None));
    renew(Role::Caller, Some("help"));
    assert!(third.is_revoked());
    let fourth = requests.check(&headers).await.expect("accepted");
    assert_eq!((fourth.role(), fourth.view().map(|view| &**view)), (Role::Caller, Some("help")));
    let next = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
    assert_eq!(next.scope, "mcp:read mcp:call view:help");
    site.gateway.people.lock().expect("a lock").clear();
    requests.renew(auth::Keys::read(&site.keys()).expect("no files"));
    assert!(fourth.is_revoked());
    for headers in [headers, bearer(&next)] {
        assert_eq!(requests.check(&headers).await, Err(Denied::Credential(Reason::Revoked)));
    }
}

#[tokio::test]
async fn grant_belongs_to_the_key_with_which_its_owner_agreed() {
    let (site, _, client, tokens) = logged_in().await;
    let requests = site.requests();
    requests.check(&bearer(&tokens)).await.expect("accepted");
    assert_eq!(site.server.end_without_credential(None, site.now).await.expect("a store"), 0);
    // Another key of the same name: the tokens in memory end by a renewal of the keys, which this test leaves out.
    *site.gateway.credential.lock().expect("a lock") = Some("another".to_owned());
    let other = site.requests_of_another_process();
    assert_eq!(other.check(&bearer(&tokens)).await, Err(Denied::Credential(Reason::Revoked)));
    let refused = token(&site, &refresh_form(&client, &tokens)).await.expect_err("another key");
    assert_eq!(refused.code, Code::InvalidGrant);
    let (site, ..) = logged_in().await;
    *site.gateway.credential.lock().expect("a lock") = Some("another".to_owned());
    assert_eq!(site.server.end_without_credential(Some("key:bob"), site.now).await.expect("a store"), 0);
    assert_eq!(site.server.end_without_credential(Some("key:ann"), site.now).await.expect("a store"), 1);
    assert_eq!(site.server.grants(None, site.now).await.expect("a store"), []);
}

#[tokio::test]
async fn token_of_another_gateway_or_a_changed_one_is_refused() {
    let (site, _, _, tokens) = logged_in().await;
    let (_other, _, _, foreign) = logged_in().await;
    let requests = site.requests();
    let own = tokens.access_token.expose_secret();
    let parts: Vec<&str> = own.split('.').collect();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"at+jwt"}"#);
    for text in [
        foreign.access_token.expose_secret(),
        tokens.refresh_token.as_ref().expect("a token").expose_secret(),
        &format!("{none}.{}.", parts[1]),
        &format!("{}.{}.{}", parts[0], parts[1], parts[1]),
        &format!("{}.{}.{}", parts[0], &parts[1][..parts[1].len() - 2], parts[2]),
    ] {
        let value = format!("Bearer {text}").parse().expect("a header");
        let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, value)]);
        assert!(requests.check(&headers).await.is_err(), "{text}");
    }
    let mut both = bearer(&tokens);
    assert!(requests.check(&both).await.is_ok());
    both.insert("x-api-key", "swy_a_b".parse().expect("a header"));
    assert!(requests.check(&both).await.is_err() && requests.authenticate(&both).is_err(), "two credentials");
    let (site, _, _, tokens) = logged_in().await;
    let requests = site.requests();
    site.store.set_fails(true);
    let unavailable = requests.check(&bearer(&tokens)).await;
    assert!(matches!(unavailable, Err(Denied::KeysUnavailable { .. })), "no store, no access");
}

#[tokio::test]
async fn person_of_a_login_service_has_the_rights_of_the_sign_in_until_they_end_or_the_rules_change() {
    let mut site = Site::new(Vec::new()).await;
    let client = site.register(CALLBACK).await;
    let requests = site.requests();
    let rules = |now: Option<&str>| {
        let now = now.map(str::to_owned);
        *site.gateway.credential.lock().expect("no panic") = now;
    };
    let until = site.now + Duration::from_hours(1);
    let person = Person { name: "ann@example.org".into(), until };
    let ann = Principal::of_person("https://login.example", "1", Role::Superuser, person);
    let ann = ann.bound_to(Some("help".into()));
    rules(Some("one"));
    let code = site.log_in(&ann, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    let sender = requests.check(&bearer(&tokens)).await.expect("accepted");
    assert_eq!(&**sender.id(), "login:login.example#1");
    let may_grant = |role| requests.may_grant("login:login.example#1", role);
    assert!(may_grant(Role::Caller) && !may_grant(Role::Superuser), "as far as the view allows");
    assert!(!requests.may_grant("login:login.example#2", Role::Reader));
    assert_eq!((sender.role(), sender.view().map(|view| &**view)), (Role::Caller, Some("help")));
    let grants = site.server.grants(None, site.now).await.expect("grants");
    assert_eq!(grants[0].owner_name.as_deref(), Some("ann@example.org"));
    let next = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
    // Other settings of the login service, after a restart.
    for other in [Some("two"), None] {
        rules(other);
        assert_eq!(site.server.has_grant(&grants[0].id).await, Some(false), "{other:?}");
    }
    let refused = token(&site, &refresh_form(&client, &next)).await.expect_err("it is over");
    assert_eq!(refused.code, Code::InvalidGrant);
    rules(Some("one"));
    assert_eq!(site.server.has_grant(&grants[0].id).await, Some(false), "it has ended");
    // The time until which the person need not sign in again.
    let code = site.log_in(&ann, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    site.wait(3_599);
    let tokens = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
    assert_eq!(tokens.expires_in, 1, "the access token ends with the rights");
    site.wait(1);
    let refused = token(&site, &refresh_form(&client, &tokens)).await.expect_err("it is over");
    assert_eq!(refused.code, Code::InvalidGrant);
    assert!(site.server.grants(None, site.now).await.expect("grants").is_empty());
}
