//! The way of a login through the pages, by browsers of all kinds of visitors.

use http::{Method, StatusCode};
use serde_json::json;

use super::fixture::{Browser, LOCAL, PUBLIC, Site, alice, back_from};
use crate::Config;
use crate::guard::Guard;
use auth::{Principal, Role};

#[tokio::test]
async fn a_caller_signs_in_agrees_and_is_logged_in() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let link = site.link("notes", &alice());
    let page = browser.sign_in(&link, &key).await;
    assert_eq!(page.heading(), (200, "Log in to notes"));
    for fact in ["key:alice", "https://login.example/", "read &lt;b&gt;write", "only you"] {
        assert!(page.text.contains(fact), "{fact}: {}", page.text);
    }
    let url = browser.agree(&page).await;
    assert!(url.as_str().starts_with("https://login.example/authorize?state="));
    assert!(url.as_str().ends_with("redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Foauth%2Fcallback"), "{url}");
    assert!(!url.as_str().contains("canary"), "the verifier is sealed");
    let done = browser.get(&back_from(&url, "code=abc&iss=https://login.example")).await;
    assert_eq!(done.heading(), (200, "Logged in to notes"));
    assert!(done.text.contains("&lt;i&gt;ann@example.org&lt;/i&gt;"), "{}", done.text);
    assert_eq!(site.finished(), [("notes".to_owned(), "key:alice".to_owned(), "abc".to_owned())]);
}

#[tokio::test]
async fn a_shared_login_needs_a_superuser() {
    let (site, [key, _]) = Site::with_keys(None);
    let page = Browser::local(&site).sign_in(&site.link("wiki", &alice()), &key).await;
    assert_eq!(page.heading(), (403, "You may not log in to this server"));
    assert_eq!(site.started(), 0, "no login service is asked");
    let open = Site::open();
    let link = open.link("wiki", &Principal::anonymous());
    let page = Browser::local(&open).get(&link).await;
    assert_eq!(page.heading(), (200, "Log in to wiki"));
    assert!(page.text.contains("everybody who may call this server here"));
}

#[tokio::test]
async fn without_authentication_only_a_browser_of_this_machine_needs_no_sign_in() {
    let site = Site::open();
    let link = site.link("notes", &Principal::anonymous());
    let mut browser = Browser::local(&site);
    let page = browser.get(&link).await;
    assert_eq!(page.heading(), (200, "Log in to notes"));
    let url = browser.agree(&page).await;
    assert_eq!(browser.get(&back_from(&url, "code=a")).await.heading(), (200, "Logged in to notes"));
    // DNS rebinding: a page of another site has its own name in `Host`.
    let mut rebound = Browser::at(&site, "evil.example:8080", "http://evil.example:8080");
    assert_eq!(rebound.get(&link).await.status, StatusCode::FORBIDDEN);

    let config = Config {
        allow_unauthenticated: true,
        listen: "0.0.0.0:8080".parse().expect("it"),
        ..Config::default()
    };
    let remote = Site::of(&config, Guard::new(&config).expect("no files"));
    let link = remote.link("notes", &Principal::anonymous());
    let page = Browser::local(&remote).get(&link).await;
    assert_eq!(page.heading(), (403, "Open this page on the machine of the gateway"));
    assert_eq!(remote.pages.sessions.count(), 0);
}

#[tokio::test]
async fn a_visitor_of_a_host_program_is_the_one_that_it_names() {
    let config = Config::default();
    let site = Site::of(&config, Guard::of_host(&config).expect("no files"));
    let bob = Principal::new("host:bob", Role::Caller);
    let link = site.link("notes", &bob);
    let mut browser = Browser::local(&site);
    assert_eq!(browser.get(&link).await.heading(), (403, "You are not signed in"));
    browser.principal = Some(alice());
    assert_eq!(browser.get(&link).await.heading(), (403, "The link is not yours"));
    browser.principal = Some(bob);
    let page = browser.get(&link).await;
    let url = browser.agree(&page).await;
    browser.principal = Some(alice());
    let stolen = browser.get(&back_from(&url, "code=a")).await;
    assert_eq!(stolen.heading(), (403, "This login does not belong to this browser"));
    assert_eq!(site.finished().len(), 0);
}

#[tokio::test]
async fn the_document_of_the_client_is_there_over_https_only() {
    let (site, _) = Site::with_keys(Some(PUBLIC));
    let mut browser = Browser::at(&site, "gw.example", PUBLIC);
    let page = browser.get("/oauth/client.json").await;
    let document: serde_json::Value = serde_json::from_str(&page.text).expect("JSON");
    assert_eq!(document["client_id"], "https://gw.example/oauth/client.json");
    assert_eq!(document["redirect_uris"], json!(["https://gw.example/oauth/callback"]));
    assert_eq!(document["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(document["token_endpoint_auth_method"], "none");
    for public_url in [None, Some("http://gw.example")] {
        let (site, _) = Site::with_keys(public_url);
        let page = Browser::local(&site).get("/oauth/client.json").await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{public_url:?}");
    }
}

#[tokio::test]
async fn signing_out_ends_the_session() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    browser.sign_in(&site.link("notes", &alice()), &key).await;
    let page = browser.get("/oauth/sign-in").await;
    assert_eq!(page.heading(), (200, "You are signed in"));
    let before = browser.jar.clone();
    let csrf = page.field("csrf");
    assert_eq!(
        browser.post("/oauth/sign-out", &[("csrf", &csrf)]).await.heading(),
        (200, "You are signed out")
    );
    assert!(browser.jar.is_empty() && site.pages.sessions.count() == 0);
    browser.jar = before;
    assert_eq!(
        browser.get("/oauth/sign-in").await.heading(),
        (200, "Sign in"),
        "the cookie is worth nothing"
    );
}

#[tokio::test]
async fn each_end_of_a_login_has_its_own_text() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let link = site.link("notes", &alice());
    browser.sign_in(&link, &key).await;
    for (answer, heading) in [
        ("error=access_denied&code=abc", (403, "The access was refused")),
        ("error=server_error", (503, "Try again later")),
        ("error=server_error&iss=https://login.example", (503, "Try again later")),
        ("error=server_error&iss=https://evil.example&error_description=call", (502, "The login failed")),
        ("error=invalid_scope", (502, "The login failed")),
        ("error=%3Cscript%3E&error_description=%3Cscript%3Ealert(1)%3C/script%3E", (502, "The login failed")),
        ("", (400, "The answer is not complete")),
        ("code=bad", (502, "The login failed")),
        ("code=a&code=b", (400, "The request is not valid")),
    ] {
        let page = browser.get(&link).await;
        let url = browser.agree(&page).await;
        let end = browser.get(&back_from(&url, answer)).await;
        assert_eq!(end.heading(), heading, "{answer}: {}", end.text);
        assert!(!end.text.contains("<bdi>call</bdi>"), "words of another issuer: {}", end.text);
        assert!(!end.text.contains("<script>") && !end.text.contains("<code>"), "{}", end.text);
    }
    let codes: Vec<_> = site.finished().into_iter().map(|(_, _, code)| code).collect();
    assert_eq!(codes, ["bad"], "an error is never exchanged");
}

#[tokio::test]
async fn a_login_service_that_is_no_web_page_is_not_opened() {
    let site = Site::open();
    let link = site.link("notes", &Principal::anonymous());
    let mut browser = Browser::local(&site);
    for (url, target) in [
        ("https://login.example/a", Some("form-action 'self' https:;")),
        ("http://127.0.0.1:9/a", Some("form-action 'self' http://127.0.0.1:9;")),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("file:///etc/passwd", None),
        ("http://a;script-src/", None),
    ] {
        *site.service.authorization_url.lock().expect("no panic") = url.parse().ok();
        let page = browser.get(&link).await;
        match target {
            Some(target) => {
                assert!(page.header("content-security-policy").contains(target), "{url}");
                browser.agree(&page).await;
            }
            None if url::Url::parse(url).is_ok() => {
                assert_eq!(page.heading(), (502, "The login service is not usable"), "{url}");
            }
            None => {}
        }
    }
}

#[tokio::test]
async fn the_pages_have_only_their_own_methods_and_limits() {
    let site = Site::open();
    let mut browser = Browser::local(&site);
    for (method, path) in [(Method::POST, "/oauth/callback"), (Method::GET, "/oauth/sign-out")] {
        let page = browser.send(method, path, &[], String::new()).await;
        assert_eq!(page.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    let large = "x".repeat(20_000);
    let page = browser.post("/oauth/sign-in", &[("credential", &large)]).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    let put = browser.send(Method::PUT, "/oauth/start", &[], String::new()).await;
    assert_ne!(put.status, StatusCode::OK);
    let (keys, _) = Site::with_keys(None);
    let mut named = Browser::at(&keys, "gw.example", "http://gw.example");
    assert_eq!(named.get("/oauth/sign-in").await.heading(), (400, "The address of the gateway is not known"));
    assert_eq!(
        Browser::at(&keys, LOCAL, "http://127.0.0.1:8080").get("/oauth/sign-in").await.heading(),
        (200, "Sign in")
    );
}
