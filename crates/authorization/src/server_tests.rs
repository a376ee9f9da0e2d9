//! The endpoints, from a request to its answer: each refusal of the specifications, and attacks.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use auth::{Authenticator, Jwt, KeySource, RequiredClaims, Role, RoleWords};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use http::{HeaderMap, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use super::*;
use crate::FolderStore;
use crate::client::{ClientAuthentication, ClientMetadata, ClientSource};
use crate::fixture::{Gateway, ISSUER, Site, VERIFIER, form, parameter, query, raw, redirected};
use crate::redirect_uri::RedirectUri;

pub(super) const CALLBACK: &str = "https://claude.ai/api/mcp/auth_callback";

/// The form that redeems `code`, with `more` in the place of its own fields.
pub(super) fn code_form(client: &str, code: &str, more: &[(&str, &str)]) -> String {
    let own = [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code),
        ("code_verifier", VERIFIER),
        ("redirect_uri", CALLBACK),
        ("resource", "https://gw.example/mcp"),
    ];
    testkit::pkce::merged(&own, more)
}

pub(super) fn refresh_form(client: &str, token: &TokenResponse) -> String {
    let token = token.refresh_token.as_ref().expect("a refresh token").expose_secret();
    form(&[("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)])
}

pub(super) async fn token(site: &Site, form: &str) -> Result<TokenResponse, Error> {
    site.server.token(form.as_bytes(), RequestId::new(), site.now).await
}

/// A person with a client and its first tokens.
pub(super) async fn logged_in() -> (Site, Principal, String, TokenResponse) {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let code = site.log_in(&person, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    (site, person, client, tokens)
}

/// The check of requests in a gateway that trusts the key set of `site`.
async fn authenticator(site: &Site, audience: &str) -> (Authenticator, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, site.server.key_set(site.now).await.expect("keys").to_string()).expect("a file");
    let words =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let roles = [("mcp:read", Role::Reader), ("mcp:call", Role::Caller), ("mcp:admin", Role::Superuser)];
    let config = Jwt {
        issuer: Some(ISSUER.to_owned()),
        audience: Some(audience.to_owned()),
        required: RequiredClaims::default(),
        algorithms: vec![Algorithm::EdDSA],
        key: KeySource::JwksFile(file),
        leeway: Duration::ZERO,
        roles: RoleWords {
            claim: Some("scope".to_owned()),
            map: Some(
                roles.into_iter().map(|(word, role)| (word.to_owned(), role)).collect::<BTreeMap<_, _>>(),
            ),
            view_claim: Some("view".to_owned()),
            view_map: Some(words(&[("*", "*"), ("help", "help")])),
        },
        authorization_servers: Vec::new(),
        parties: Vec::new(),
        network: Network::default(),
    };
    (Authenticator::new(&auth::Config::Jwt(Box::new(config))).expect("keys"), folder)
}

pub(super) fn bearer(tokens: &TokenResponse) -> HeaderMap {
    let value = format!("Bearer {}", tokens.access_token.expose_secret());
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value.parse().expect("a header"))])
}

#[tokio::test]
async fn flow_of_each_known_client_ends_with_a_token_that_the_gateway_accepts() {
    let site = Site::new(Vec::new()).await;
    let person = site.person("key:ann", Role::Superuser);
    let (gateway, _folder) = authenticator(&site, "https://gw.example/mcp").await;
    for (registered, requested) in [
        (CALLBACK, CALLBACK),
        ("https://claude.com/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"),
        (
            "https://chatgpt.com/connector_platform_oauth_redirect",
            "https://chatgpt.com/connector_platform_oauth_redirect",
        ),
        ("http://localhost:3118/callback", "http://localhost:51999/callback"),
        ("http://127.0.0.1:33418/", "http://127.0.0.1:33418/"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback"),
    ] {
        let client = site.register(registered).await;
        let code = site.log_in(&person, &client, requested).await;
        let form = code_form(&client, &code, &[("redirect_uri", requested)]);
        let tokens = token(&site, &form).await.expect("tokens");
        assert_eq!((tokens.expires_in, tokens.scope.as_str()), (600, "mcp:read mcp:call"));
        let sender = gateway.authenticate(&bearer(&tokens)).expect("accepted");
        assert_eq!((sender.id().as_ref(), sender.role()), ("jwt:key:ann", Role::Caller));
        assert!(sender.view().is_none());
        let refreshed = token(&site, &refresh_form(&client, &tokens)).await.expect("tokens");
        assert!(gateway.authenticate(&bearer(&refreshed)).is_ok());
    }
}

#[tokio::test]
async fn answer_has_the_state_as_it_was_sent_and_names_the_issuer() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    for state in ["", "a b+c%20&d=e", "\u{e9}\"<script>", &"x".repeat(4_000)] {
        let query = query(&client, CALLBACK, &[("state", state)]);
        let consent = site.server.authorize(&person, &query, site.now).await.expect("a consent");
        let location = site.server.approve(&person, &consent.request, site.now).await.expect("a code");
        assert_eq!(parameter(&location, "state").unwrap_or_default(), state);
        assert_eq!(parameter(&location, "iss").as_deref(), Some(ISSUER));
        let (error, place, denied_state) = redirected(site.server.deny(&consent.request));
        assert_eq!((error.as_str(), place.as_str()), ("access_denied", CALLBACK));
        assert_eq!(denied_state.unwrap_or_default(), state);
    }
}

#[tokio::test]
async fn request_of_an_unknown_client_or_for_another_place_is_never_redirected() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let evil = "https://evil.example/cb";
    let twice = |name: &str| format!("{}&{}", query(&client, CALLBACK, &[]), form(&[(name, evil)]));
    for query in [
        String::new(),
        "a".repeat(20_000),
        query("swyclient-00000000000000000000000000000000", CALLBACK, &[]),
        query("unknown", CALLBACK, &[]),
        query("http://app.example/client.json", CALLBACK, &[]),
        query("https://app.example/../client.json", CALLBACK, &[]),
        query("https://127.0.0.1/client.json", CALLBACK, &[]),
        query("", CALLBACK, &[]),
        query(&client, "", &[]),
        query(&client, evil, &[]),
        query(&client, "https://claude.ai/api/mcp/auth_callback/", &[]),
        query(&client, "https://claude.ai/api/mcp/auth_callback?x=1", &[]),
        query(&client, "https://claude.ai/api/mcp/auth_callback#x", &[]),
        query(&client, "https://claude.ai@evil.example/api/mcp/auth_callback", &[]),
        twice("redirect_uri"),
        twice("client_id"),
    ] {
        let refused = site.server.authorize(&person, &query, site.now).await;
        assert!(matches!(refused, Err(AuthorizationError::Shown(_))), "{query} {refused:?}");
    }
}

#[tokio::test]
async fn request_that_breaks_a_rule_is_refused_with_the_code_of_the_rule() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    for (name, value, expected) in [
        ("response_type", "token", "unsupported_response_type"),
        ("response_type", "code id_token", "unsupported_response_type"),
        ("response_type", "", "invalid_request"),
        ("response_mode", "fragment", "invalid_request"),
        ("response_mode", "form_post", "invalid_request"),
        ("request", "eyJ", "request_not_supported"),
        ("request_uri", "https://evil.example/r", "request_not_supported"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge_method", "s256", "invalid_request"),
        ("code_challenge_method", "", "invalid_request"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("resource", "https://gw.example/mcp/none", "invalid_target"),
        ("prompt", "none", "interaction_required"),
        ("prompt", "none consent", "invalid_request"),
        ("scope", "view:none", "invalid_scope"),
        ("scope", "view:files", "invalid_scope"),
        ("scope", "view:help view:other", "invalid_scope"),
    ] {
        let query = query(&client, CALLBACK, &[(name, value)]);
        let refused = site.server.authorize(&person, &query, site.now).await.expect_err(value);
        let (error, place, state) = redirected(refused);
        assert_eq!((error.as_str(), place.as_str()), (expected, CALLBACK), "{name}={value}");
        assert_eq!(state.as_deref(), Some("a state+&"), "{name}={value}");
    }
    for name in ["resource", "scope", "code_challenge", "response_type"] {
        let query = format!("{}&{name}=again", query(&client, CALLBACK, &[]));
        let (error, ..) = redirected(site.server.authorize(&person, &query, site.now).await.expect_err(name));
        assert_eq!(error, "invalid_request", "{name}");
    }
}

#[tokio::test]
async fn owner_grants_no_more_than_there_is_and_a_view_binds_the_token() {
    let site = Site::new(Vec::new()).await;
    let client = site.register(CALLBACK).await;
    let (reader, all) = (site.person("key:reader", Role::Reader), site.person("key:all", Role::Superuser));
    let bound = all.bound_to(Some("help".into()));
    let (gateway, _folder) = authenticator(&site, "https://gw.example/mcp").await;
    for (person, scope, expected, role) in [
        (&reader, "mcp:admin", "mcp:read", Role::Reader),
        (&all, "mcp:admin", "mcp:read mcp:call mcp:admin", Role::Superuser),
        (&all, "mcp:call view:help", "mcp:read mcp:call view:help", Role::Caller),
        (&bound, "mcp:admin", "mcp:read mcp:call view:help", Role::Caller),
    ] {
        let query = query(&client, CALLBACK, &[("scope", scope)]);
        let consent = site.server.authorize(person, &query, site.now).await.expect("a consent");
        assert_eq!(consent.access.scope(), expected, "{scope}");
        let location = site.server.approve(person, &consent.request, site.now).await.expect("a code");
        let code = parameter(&location, "code").expect("a code");
        let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
        let sender = gateway.authenticate(&bearer(&tokens)).expect("accepted");
        let view = expected.contains("view:help").then_some("help");
        assert_eq!((sender.role(), sender.view().map(|view| &**view)), (role, view), "{scope}");
    }
    let query = query(&client, CALLBACK, &[("resource", "https://gw.example/mcp/help"), ("scope", "")]);
    let consent = site.server.authorize(&all, &query, site.now).await.expect("a consent");
    assert_eq!(consent.access.view.as_deref(), Some("help"), "the endpoint of a view");
}

#[tokio::test]
async fn token_of_another_endpoint_is_refused_by_the_check_of_the_gateway() {
    let (site, _, _, tokens) = logged_in().await;
    for (audience, is_accepted) in [
        ("https://gw.example/mcp", true),
        ("https://gw.example/mcp/files", false),
        ("https://other.example/mcp", false),
    ] {
        let (gateway, _folder) = authenticator(&site, audience).await;
        assert_eq!(gateway.authenticate(&bearer(&tokens)).is_ok(), is_accepted, "{audience}");
    }
}

#[tokio::test]
async fn token_request_that_breaks_a_rule_is_refused_and_the_code_stays_valid() {
    let site = Site::new(Vec::new()).await;
    let (person, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let other = site.register(CALLBACK).await;
    let code = site.log_in(&person, &client, CALLBACK).await;
    let invented = format!("{}{}", &code[..code.len() - 2], if code.ends_with("00") { "11" } else { "00" });
    for (name, value, expected) in [
        ("grant_type", "", Code::InvalidRequest),
        ("grant_type", "password", Code::UnsupportedGrantType),
        ("grant_type", "client_credentials", Code::UnsupportedGrantType),
        ("code", "", Code::InvalidRequest),
        ("code", "x", Code::InvalidGrant),
        ("code", &invented, Code::InvalidGrant),
        ("code_verifier", "", Code::InvalidRequest),
        ("code_verifier", "another-verifier-of-forty-three-characters-x", Code::InvalidGrant),
        ("client_id", "", Code::InvalidRequest),
        ("client_id", &other, Code::InvalidGrant),
        ("redirect_uri", "https://claude.ai/other", Code::InvalidGrant),
        ("resource", "https://gw.example/mcp/files", Code::InvalidTarget),
        ("resource", "https://other.example/mcp", Code::InvalidTarget),
        ("client_assertion", "eyJ", Code::InvalidClient),
    ] {
        let refused = token(&site, &code_form(&client, &code, &[(name, value)])).await.expect_err(value);
        assert_eq!(refused.code, expected, "{name}={value}: {refused}");
    }
    let twice = format!("{}&code_verifier=x", code_form(&client, &code, &[]));
    assert_eq!(token(&site, &twice).await.expect_err("twice").code, Code::InvalidRequest);
    assert!(
        token(&site, &code_form(&client, &code, &[("redirect_uri", "")])).await.is_ok(),
        "as OAuth 2.1 allows"
    );
}

#[tokio::test]
async fn replayed_code_revokes_the_tokens_that_it_gave() {
    let (mut site, person, client, _) = logged_in().await;
    let code = site.log_in(&person, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    site.wait(3_600);
    let guessed = [("code_verifier", "another-verifier-of-forty-three-characters-x")];
    let refused = token(&site, &code_form(&client, &code, &guessed)).await.expect_err("no verifier");
    assert_eq!(refused.code, Code::InvalidGrant);
    assert_eq!(site.server.grants(None, site.now).await.expect("grants").len(), 2, "nothing ended");
    assert_eq!(
        token(&site, &code_form(&client, &code, &[])).await.expect_err("replay").code,
        Code::InvalidGrant
    );
    let after = token(&site, &refresh_form(&client, &tokens)).await.expect_err("ended");
    assert_eq!(after.code, Code::InvalidGrant);
    assert_eq!(site.server.grants(None, site.now).await.expect("grants").len(), 1, "other logins stay");
}

#[tokio::test]
async fn one_of_a_thousand_refreshes_at_once_wins_and_all_get_its_answer() {
    let (mut site, _, client, tokens) = logged_in().await;
    site.wait(590);
    let form = refresh_form(&client, &tokens);
    let answers = join_all((0..1_000).map(|_| token(&site, &form))).await;
    let answers: HashSet<String> =
        answers.into_iter().map(|answer| answer.expect("tokens").json().to_string()).collect();
    assert_eq!(answers.len(), 1);
    site.wait(9);
    let late = token(&site, &form).await.expect("the same tokens");
    assert_eq!(late.expires_in, 591);
    assert!(answers.iter().all(|answer| answer.contains(late.access_token.expose_secret())));
    let next = token(&site, &refresh_form(&client, &late)).await.expect("tokens");
    assert_ne!(next.access_token.expose_secret(), late.access_token.expose_secret());
}

#[tokio::test]
async fn client_that_hammers_the_endpoint_is_told_when_to_come_back_and_others_are_served() {
    let (mut site, person, client, mut tokens) = logged_in().await;
    let code = site.log_in(&person, &client, CALLBACK).await;
    let other = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    for _ in 0..100 {
        if let Ok(next) = token(&site, &refresh_form(&client, &tokens)).await {
            tokens = next;
        }
    }
    let refused = token(&site, &refresh_form(&client, &tokens)).await.expect_err("the limit");
    assert_eq!((refused.status().as_u16(), refused.code), (429, Code::TemporarilyUnavailable));
    assert_eq!(refused.retry_after, Some(30));
    let unchanged = site.server.grants(None, site.now).await.expect("grants");
    assert!(token(&site, &refresh_form(&client, &tokens)).await.is_err());
    assert_eq!(site.server.grants(None, site.now).await.expect("grants"), unchanged, "nothing is written");
    assert!(token(&site, &refresh_form(&client, &other)).await.is_ok(), "another login of the same client");
    site.wait(30);
    assert!(token(&site, &refresh_form(&client, &tokens)).await.is_ok(), "the login has not ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_one_folder_give_one_answer_to_a_refresh() {
    let (folder, gateway) = (tempfile::tempdir().expect("a folder"), Arc::new(Gateway::default()));
    let person = Principal::new("key:ann", Role::Caller);
    gateway.people.lock().expect("people").insert("key:ann".to_owned(), Access::of(&person));
    let now = SystemTime::now();
    let open = async || {
        let store = Arc::new(FolderStore::new(&folder.path().join("authorization")));
        crate::fixture::open(folder.path(), store, gateway.clone(), now).await
    };
    let servers = [open().await, open().await];
    let request = raw(&format!(r#"{{"redirect_uris": ["{CALLBACK}"]}}"#));
    let client = servers[0].register(&request, now).await.expect("a client");
    let client = client["client_id"].as_str().expect("an id");
    let consent = servers[1].authorize(&person, &query(client, CALLBACK, &[]), now).await.expect("a consent");
    let location = servers[1].approve(&person, &consent.request, now).await.expect("a code");
    let code = code_form(client, &parameter(&location, "code").expect("a code"), &[]);
    let tokens = servers[0].token(code.as_bytes(), RequestId::new(), now).await.expect("tokens");
    let form = refresh_form(client, &tokens);
    let later = now + Duration::from_mins(9);
    let answers =
        join_all((0..200).map(|at| servers[at % 2].token(form.as_bytes(), RequestId::new(), later))).await;
    let answers: HashSet<String> =
        answers.into_iter().map(|answer| answer.expect("tokens").json().to_string()).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(servers[1].grants(None, later).await.expect("grants").len(), 1);
    let files = std::fs::read_dir(folder.path().join("authorization/grants")).expect("a folder");
    for file in files.map(|file| file.expect("a file").path()) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("a record")).into_owned();
        assert!(!text.contains("key:ann") && !text.contains("claude.ai"), "{text}");
    }
}

#[tokio::test]
async fn stolen_refresh_token_ends_the_login_when_both_holders_use_it() {
    let (mut site, _, client, stolen) = logged_in().await;
    let own = token(&site, &refresh_form(&client, &stolen)).await.expect("tokens");
    site.wait(11);
    assert_eq!(
        token(&site, &refresh_form(&client, &stolen)).await.expect_err("reuse").code,
        Code::InvalidGrant
    );
    assert_eq!(token(&site, &refresh_form(&client, &own)).await.expect_err("ended").code, Code::InvalidGrant);
    assert!(site.server.grants(None, site.now).await.expect("grants").is_empty());
}

#[tokio::test]
async fn refresh_gives_what_the_owner_may_do_now() {
    let (mut site, _, client, tokens) = logged_in().await;
    site.wait(600);
    let narrow = format!("{}&scope=mcp:read", refresh_form(&client, &tokens));
    let narrow = token(&site, &narrow).await.expect("tokens");
    assert_eq!(narrow.scope, "mcp:read");
    site.wait(600);
    site.person("key:ann", Role::Superuser);
    let wide = format!("{}&scope=mcp:admin", refresh_form(&client, &narrow));
    let again = token(&site, &wide).await.expect("tokens");
    assert_eq!(again.scope, "mcp:read mcp:call", "neither a narrow token nor a promotion changes the grant");
    site.person("key:ann", Role::Reader);
    let less = token(&site, &refresh_form(&client, &again)).await.expect("tokens");
    assert_eq!(less.scope, "mcp:read");
    site.gateway.people.lock().expect("people").clear();
    assert_eq!(token(&site, &refresh_form(&client, &less)).await.expect_err("gone").code, Code::InvalidGrant);
    assert!(site.server.grants(None, site.now).await.expect("grants").is_empty());
}

#[tokio::test]
async fn store_that_fails_asks_for_another_try_and_loses_nothing() {
    let (mut site, person, client, tokens) = logged_in().await;
    site.wait(600);
    site.store.set_fails(true);
    let failed = token(&site, &refresh_form(&client, &tokens)).await.expect_err("no store");
    assert_eq!(
        (failed.code, failed.status()),
        (Code::TemporarilyUnavailable, StatusCode::SERVICE_UNAVAILABLE)
    );
    assert!(failed.retry_after.is_some());
    let refused = site.server.authorize(&person, &query(&client, CALLBACK, &[]), site.now).await;
    assert!(matches!(refused, Err(AuthorizationError::Shown(error)) if error.retry_after.is_some()));
    site.store.set_fails(false);
    assert!(token(&site, &refresh_form(&client, &tokens)).await.is_ok());
}

#[tokio::test]
async fn revoked_token_ends_its_grant_and_an_unknown_one_is_no_error() {
    for is_refresh in [true, false] {
        let (site, _, client, tokens) = logged_in().await;
        let other = site.register(CALLBACK).await;
        let refresh = tokens.refresh_token.as_ref().expect("a token").expose_secret();
        let text = if is_refresh { refresh } else { tokens.access_token.expose_secret() };
        let revoke = async |token: &str, client: &str| {
            let form = form(&[("token", token), ("client_id", client)]);
            site.server.revoke(form.as_bytes(), RequestId::new(), site.now).await
        };
        assert_eq!(revoke(text, &other).await.expect_err("foreign").code, Code::InvalidGrant);
        assert_eq!(revoke("", &client).await.expect_err("missing").code, Code::InvalidRequest);
        for unknown in ["x", "swyr_0_0_0", &text[..text.len() - 2], &format!("{text}00")] {
            assert_eq!(revoke(unknown, &client).await, Ok(()), "{unknown}");
        }
        assert_eq!(site.server.grants(None, site.now).await.expect("grants").len(), 1);
        assert_eq!(revoke(text, &client).await, Ok(()));
        assert!(token(&site, &refresh_form(&client, &tokens)).await.is_err());
        assert_eq!(revoke(text, &client).await, Ok(()), "again");
    }
}

#[tokio::test]
async fn access_token_that_has_expired_ends_no_login() {
    let (mut site, _, client, tokens) = logged_in().await;
    let form = form(&[("token", tokens.access_token.expose_secret()), ("client_id", &client)]);
    site.wait(660);
    assert_eq!(
        site.server.revoke(form.as_bytes(), RequestId::new(), site.now).await,
        Ok(()),
        "as one that is not known"
    );
    assert_eq!(site.server.grants(None, site.now).await.expect("grants").len(), 1);
    site.now -= Duration::from_secs(1);
    assert_eq!(site.server.revoke(form.as_bytes(), RequestId::new(), site.now).await, Ok(()));
    assert!(site.server.grants(None, site.now).await.expect("grants").is_empty(), "clocks differ");
}

#[tokio::test]
async fn client_whose_registration_is_gone_is_told_to_register_again() {
    let site = Site::new(Vec::new()).await;
    let person = site.person("key:ann", Role::Caller);
    let request = raw(&format!(r#"{{"redirect_uris": ["{CALLBACK}"]}}"#));
    let answer = site.server.register(&request, site.now).await.expect("a client");
    let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
    let (client, secret) = (text("client_id"), SecretString::from(text("registration_access_token")));
    assert_eq!(text("registration_client_uri"), format!("{ISSUER}/oauth/register/{client}"));
    assert_eq!(site.server.registration(&client, &secret, site.now).await, Ok(answer.clone()));
    let code = site.log_in(&person, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    let other = SecretString::from("other");
    assert_eq!(
        site.server.unregister(&client, &other, site.now).await.expect_err("other").code,
        Code::InvalidToken
    );
    site.server.unregister(&client, &secret, site.now).await.expect("removed");
    let refused = token(&site, &refresh_form(&client, &tokens)).await.expect_err("removed");
    assert_eq!((refused.code, refused.status()), (Code::InvalidClient, StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn consent_is_remembered_for_a_web_site_and_never_for_a_program_on_the_machine() {
    let site = Site::new(Vec::new()).await;
    let (ann, bob) = (site.person("key:ann", Role::Superuser), site.person("key:bob", Role::Superuser));
    for (uri, is_remembered) in [(CALLBACK, true), ("http://localhost:1/cb", false), ("cursor://x/cb", false)]
    {
        let client = site.register(uri).await;
        let remembers = async |person: &Principal, more: &[(&str, &str)]| {
            let consent = site.server.authorize(person, &query(&client, uri, more), site.now).await;
            consent.expect("a consent").is_remembered
        };
        assert!(!remembers(&ann, &[]).await);
        let code = site.log_in(&ann, &client, uri).await;
        assert!(!remembers(&ann, &[]).await, "before the code was used");
        token(&site, &code_form(&client, &code, &[("redirect_uri", uri)])).await.expect("tokens");
        assert_eq!(remembers(&ann, &[]).await, is_remembered, "{uri}");
        assert_eq!(remembers(&ann, &[("scope", "mcp:read")]).await, is_remembered, "{uri}");
        for prompt in ["consent", "login", "select_account", "login consent", "other"] {
            assert!(
                !remembers(&ann, &[("prompt", prompt)]).await,
                "the client wants the whole page: {prompt}"
            );
        }
        assert!(!remembers(&ann, &[("scope", "mcp:admin")]).await, "more than before");
        assert!(!remembers(&ann, &[("resource", "https://gw.example/mcp/files")]).await);
        assert!(!remembers(&bob, &[]).await, "another person");
        for grant in site.server.grants(Some("key:ann"), site.now).await.expect("grants") {
            site.server.end_grant(&grant.id).await.expect("ended");
        }
        assert!(!remembers(&ann, &[]).await, "after it was revoked");
    }
}

#[tokio::test]
async fn configured_client_proves_who_it_is_with_its_key() {
    let pair = Ed25519KeyPair::generate().expect("a key");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": x }] });
    let key = EncodingKey::from_ed_der(pair.to_pkcs8v1().expect("a document").as_ref());
    let metadata = ClientMetadata {
        name: Some("Agent".to_owned()),
        redirect_uris: vec![RedirectUri::parse(CALLBACK).expect("a URI")],
        authentication: ClientAuthentication::Keys(serde_json::from_value(keys).expect("keys")),
        refreshes: true,
    };
    let agent = Client { id: "agent".to_owned(), source: ClientSource::Configured, metadata };
    let site = Site::new(vec![agent]).await;
    let person = site.person("key:ann", Role::Caller);
    let exp = seconds(site.now) + 60;
    let assertion = |client: &str| {
        let claims = json!({ "iss": client, "sub": client, "aud": ISSUER, "exp": exp, "jti": "1" });
        encode(&Header::new(Algorithm::EdDSA), &claims, &key).expect("signed")
    };
    let code = site.log_in(&person, "agent", CALLBACK).await;
    let kind = ("client_assertion_type", crate::client::ASSERTION_TYPE);
    for (more, expected) in [
        (vec![], Code::InvalidClient),
        (vec![kind, ("client_assertion", "x")], Code::InvalidClient),
        (vec![kind, ("client_assertion", &*assertion("other"))], Code::InvalidClient),
        (vec![("client_assertion", &*assertion("agent"))], Code::InvalidClient),
    ] {
        let refused = token(&site, &code_form("agent", &code, &more)).await.expect_err("refused");
        assert_eq!(refused.code, expected, "{more:?}");
    }
    let own = assertion("agent");
    let tokens =
        token(&site, &code_form("agent", &code, &[kind, ("client_assertion", &own), ("client_id", "")]))
            .await;
    let tokens = tokens.expect("tokens");
    assert_eq!(
        token(&site, &refresh_form("agent", &tokens)).await.expect_err("no proof").code,
        Code::InvalidClient
    );
    let signed = format!("{}&{}", refresh_form("agent", &tokens), form(&[kind, ("client_assertion", &own)]));
    assert!(token(&site, &signed).await.is_ok());
}

#[tokio::test]
async fn owner_has_a_limit_of_grants_and_the_one_unused_for_longest_makes_room() {
    let mut site = Site::new(Vec::new()).await;
    let (ann, bob) = (site.person("key:ann", Role::Caller), site.person("key:bob", Role::Caller));
    let client = site.register(CALLBACK).await;
    let log_in = async |site: &Site, person: &Principal| {
        let code = site.log_in(person, &client, CALLBACK).await;
        token(site, &code_form(&client, &code, &[])).await.expect("tokens")
    };
    let of_bob = log_in(&site, &bob).await;
    let (first, second) = (log_in(&site, &ann).await, log_in(&site, &ann).await);
    site.wait(60);
    let first = token(&site, &refresh_form(&client, &first)).await.expect("tokens");
    for _ in 0..31 {
        log_in(&site, &ann).await;
    }
    assert_eq!(site.server.grants(Some("key:ann"), site.now).await.expect("grants").len(), 32);
    site.wait(60);
    assert!(token(&site, &refresh_form(&client, &second)).await.is_err(), "it was used least recently");
    assert!(token(&site, &refresh_form(&client, &first)).await.is_ok());
    assert!(token(&site, &refresh_form(&client, &of_bob)).await.is_ok());
}

#[tokio::test]
async fn codes_that_nobody_redeems_displace_no_login() {
    let mut site = Site::new(Vec::new()).await;
    let (ann, client) = (site.person("key:ann", Role::Caller), site.register(CALLBACK).await);
    let code = site.log_in(&ann, &client, CALLBACK).await;
    let tokens = token(&site, &code_form(&client, &code, &[])).await.expect("tokens");
    site.wait(1);
    for _ in 0..100 {
        site.log_in(&ann, &client, CALLBACK).await;
    }
    assert_eq!(site.server.grants(Some("key:ann"), site.now).await.expect("grants").len(), 32);
    assert!(token(&site, &refresh_form(&client, &tokens)).await.is_ok());
}

#[tokio::test]
async fn answer_in_a_log_shows_no_token() {
    let (site, _, _, tokens) = logged_in().await;
    let text = format!("{tokens:?} {:?}", site.server.grants(None, site.now).await.expect("grants"));
    for secret in [&tokens.access_token, tokens.refresh_token.as_ref().expect("a token")] {
        assert!(!text.contains(secret.expose_secret()), "{text}");
    }
}
