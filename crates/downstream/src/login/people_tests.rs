//! People who sign in at a login service, by the pages of the gateway: the way, its failures, and attacks on it.

use std::net::IpAddr;
use std::time::Duration;

use http::StatusCode;
use http::header::SET_COOKIE;
use net::http::Network;
use runtime::shutdown::Shutdown;
use secrecy::ExposeSecret;
use serde_json::json;
use testkit::login_service::{CLIENT, LoginService, SECRET};
use url::Url;

use super::fixture::{Browser, Shown, Site};
use oauth::{Allow, LoginIssuer, Provider, ProviderSettings};

const WEEK: Duration = Duration::from_hours(168);

fn provider(service: &LoginService, max_age: Duration) -> Provider {
    let url = Url::parse(&service.issuer()).expect("a URL");
    let settings = ProviderSettings {
        issuer: LoginIssuer { text: service.issuer(), url },
        client_id: CLIENT.to_owned(),
        client_secret: SECRET.into(),
        scopes: Vec::new(),
        allow: Allow { emails: vec!["ann@example.org".to_owned()], ..Allow::default() },
        roles_claim: None,
        role_map: None,
        view_claim: None,
        view_map: None,
        max_age,
        github_api_url: None,
    };
    Provider::new(settings, &Network::default(), &Shutdown::new())
}

fn site(service: &LoginService) -> Site {
    Site::with_provider(provider(service, WEEK)).0
}

/// Sends the form that leads to the login service.
async fn begin(browser: &mut Browser, page: &str) -> Shown {
    let shown = browser.get(page).await;
    assert!(shown.text.contains("Sign in with 127.0.0.1"), "{}", shown.text);
    let csrf = shown.field("csrf");
    let to = if page.ends_with("to=ui") { "ui" } else { "" };
    browser.post("/oauth/login", &[("csrf", &csrf), ("to", to)]).await
}

/// The path to which `service` sends a browser back that `began`.
fn answered(service: &LoginService, began: &Shown) -> String {
    assert_eq!(began.status, StatusCode::SEE_OTHER, "{}", began.text);
    let back = service.agree(&Url::parse(began.location()).expect("a URL"));
    assert_eq!(back.path(), "/oauth/login-callback");
    format!("{}?{}", back.path(), back.query().expect("a query"))
}

/// The heading of a page that signs nobody in and has no secret.
fn refused(page: &Shown) -> (u16, &str) {
    assert!(!page.text.contains("canary"), "{}", page.text);
    let mut cookies = page.headers.get_all(SET_COOKIE).iter().map(|cookie| cookie.to_str().expect("text"));
    assert!(cookies.all(|cookie| !cookie.starts_with("switchyard-session")), "{:?}", page.headers);
    page.heading()
}

#[tokio::test]
async fn person_signs_in_and_comes_to_the_page_of_the_beginning() {
    let service = LoginService::start();
    let site = site(&service);
    for (page, location) in [("/oauth/sign-in?to=ui", "../ui/"), ("/oauth/sign-in", "sign-in")] {
        let mut browser = Browser::local(&site);
        let began = begin(&mut browser, page).await;
        let query = Url::parse(began.location()).expect("a URL");
        let callback =
            query.query_pairs().find(|(name, _)| name == "redirect_uri").expect("one").1.into_owned();
        assert_eq!(callback, "http://127.0.0.1:8080/oauth/login-callback");
        let done = browser.get(&answered(&service, &began)).await;
        assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, location), "{}", done.text);
        let shown = browser.get("/oauth/sign-in").await;
        assert_eq!(shown.heading(), (200, "You are signed in"));
        assert!(shown.text.contains("ann@example.org") && shown.text.contains("caller"), "{}", shown.text);
        let visitor = browser.get("/ui/session").await;
        assert!(visitor.text.contains("#subject-1"), "{}", visitor.text);
    }
}

#[tokio::test]
async fn answer_signs_in_only_the_browser_that_began_and_once() {
    let service = LoginService::start();
    let site = site(&service);
    let (mut mine, mut other, mut fresh) =
        (Browser::local(&site), Browser::local(&site), Browser::local(&site));
    let began = begin(&mut mine, "/oauth/sign-in").await;
    begin(&mut other, "/oauth/sign-in").await;
    let path = answered(&service, &began);
    // The attacker forwards the own answer, so that somebody else is signed in as the attacker (login CSRF).
    for browser in [&mut other, &mut fresh] {
        let page = browser.get(&path).await;
        assert_eq!(refused(&page), (403, "This sign-in does not belong to this browser"));
    }
    assert_eq!(service.forms().len(), 0, "no code was redeemed");
    assert_eq!(mine.get(&path).await.status, StatusCode::SEE_OTHER);
    let again = mine.get(&path).await;
    assert_eq!(refused(&again), (409, "This sign-in has ended already"));
    assert_eq!((service.forms().len(), site.pages.sessions.count()), (1, 1));
    // The code and the state of two logins do not fit together.
    let (one, two) = (begin(&mut other, "/oauth/sign-in").await, begin(&mut fresh, "/oauth/sign-in").await);
    let (one, two) = (answered(&service, &one), answered(&service, &two));
    let of = |path: &str, name: &str| {
        let url = Url::parse(&format!("http://h{path}")).expect("a URL");
        url.query_pairs().find(|(other, _)| other == name).expect("one").1.into_owned()
    };
    let stolen = format!(
        "/oauth/login-callback?code={}&iss={}&state={}",
        of(&one, "code"),
        of(&two, "iss"),
        of(&two, "state")
    );
    assert_eq!(refused(&fresh.get(&stolen).await), (403, "The sign-in was not completed"), "PKCE");
    for query in ["", "?state=x&code=y", "?code=y", "?state=x&state=y"] {
        let page = other.get(&format!("/oauth/login-callback{query}")).await;
        assert!(refused(&page).0 == 400, "{query}: {}", page.text);
    }
}

#[tokio::test]
async fn stranger_behind_the_same_proxy_does_not_shut_people_out_at_the_callback() {
    let service = LoginService::start();
    let site = site(&service);
    let (mut ann, mut stranger) = (Browser::local(&site), Browser::local(&site));
    let proxy = Some(IpAddr::from([192, 0, 2, 1]));
    (ann.address, stranger.address) = (proxy, proxy);
    let began = begin(&mut ann, "/oauth/sign-in").await;
    stranger.jar.clone_from(&ann.jar);
    for value in stranger.jar.values_mut() {
        *value = "A".repeat(43);
    }
    let path = answered(&service, &began);
    for at in 0..500 {
        let path = if at % 2 == 0 { &path } else { "/oauth/login-callback?state=x&code=y" };
        assert!([400, 403].contains(&stranger.get(path).await.status.as_u16()), "{path}");
    }
    assert_eq!(ann.get(&path).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn login_service_is_not_reached_by_a_link_or_a_form_of_another_site() {
    let service = LoginService::start();
    let site = site(&service);
    let mut browser = Browser::local(&site);
    let csrf = browser.get("/oauth/sign-in").await.field("csrf");
    for (csrf, from) in [
        (csrf.as_str(), [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")]),
        ("", [("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]),
        ("another", [("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")]),
    ] {
        let page = browser.post_from("/oauth/login", &[("csrf", csrf)], &from).await;
        assert_eq!(refused(&page), (403, "The form was refused"));
    }
    assert_eq!(browser.get("/oauth/login").await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(service.seen().is_empty(), "{:?}", service.seen());
    for _ in 0..50 {
        assert_eq!(begin(&mut browser, "/oauth/sign-in").await.status, StatusCode::SEE_OTHER);
    }
    assert_eq!(service.seen().len(), 1, "the metadata is read once");
    assert_eq!(site.pages.sessions.count(), 0);
    let without = Site::with_keys(None).0;
    let mut browser = Browser::local(&without);
    let page = browser.get("/oauth/sign-in").await;
    assert!(!page.text.contains("Sign in with"), "{}", page.text);
    let page = browser.post("/oauth/login", &[("csrf", &page.field("csrf"))]).await;
    assert_eq!(refused(&page), (404, "There is no login service"));
}

#[tokio::test]
async fn each_failure_has_a_page_that_says_what_to_do_and_leads_back() {
    let mut service = LoginService::start();
    let down = site(&service);
    service.kill();
    let page = begin(&mut Browser::local(&down), "/oauth/sign-in").await;
    assert_eq!(refused(&page), (503, "The login service cannot be reached"));
    assert!(!page.header("retry-after").is_empty() && page.text.contains("Sign in with"), "{}", page.text);
    service.restart();
    let site = site(&service);
    let mut browser = Browser::local(&site);
    let person = json!({"email": "ann@example.org", "email_verified": true});
    let unverified = json!({"email": "ann@example.org", "email_verified": false});
    let foreign = json!({"email": "ann@example.org", "email_verified": true, "nonce": "x"});
    for (claims, error, status, expected) in [
        (&person, None, Some(500), (503, "The login service cannot be reached")),
        (&person, Some("access_denied"), None, (403, "The sign-in was not completed")),
        (&person, Some("invalid_target"), None, (502, "The sign-in failed")),
        (&unverified, None, None, (403, "You may not sign in here")),
        (&foreign, None, None, (502, "The sign-in failed")),
    ] {
        let began = begin(&mut browser, "/oauth/sign-in?to=ui").await;
        service.script(|script| {
            (script.claims, script.error, script.status) = (claims.clone(), error.map(str::to_owned), status);
        });
        let page = browser.get(&answered(&service, &began)).await;
        assert_eq!(refused(&page), expected);
        assert_eq!(page.field("to"), "ui", "the form leads to the same place");
        assert!(page.header("content-security-policy").contains("form-action 'self' http://127.0.0.1:"));
    }
    service.script(|script| (script.claims, script.error, script.status) = (person.clone(), None, None));
    let began = begin(&mut browser, "/oauth/sign-in").await;
    assert_eq!(browser.get(&answered(&service, &began)).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn session_ends_when_the_person_has_to_sign_in_again_and_a_key_signs_in_beside_it() {
    let service = LoginService::start();
    let (site, [key, _]) = Site::with_provider(provider(&service, Duration::from_millis(400)));
    let mut browser = Browser::local(&site);
    let began = begin(&mut browser, "/oauth/sign-in").await;
    assert_eq!(browser.get(&answered(&service, &began)).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/oauth/sign-in").await.heading().1, "You are signed in");
    tokio::time::sleep(Duration::from_millis(450)).await;
    let page = browser.get("/oauth/sign-in").await;
    assert_eq!(page.heading().1, "Sign in");
    let fields = [("csrf", page.field("csrf")), ("credential", key.expose_secret().to_owned())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(browser.post("/oauth/sign-in", &fields).await.status, StatusCode::SEE_OTHER);
    assert!(browser.get("/oauth/sign-in").await.text.contains("key:alice"));
}
