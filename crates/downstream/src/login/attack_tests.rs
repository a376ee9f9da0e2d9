//! Attacks on a login: forwarded links, stolen and replayed answers, foreign forms, and texts that want to be markup.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use secrecy::ExposeSecret;

use super::fixture::{Browser, ODD, PUBLIC, Site, alice, back_from, two_keys};
use super::sealed::{self, State};
use auth::{Keys, Principal};
use gateway::login_links::LIFETIME;

#[tokio::test]
async fn a_forwarded_link_logs_nobody_in_to_somebody_else() {
    let (site, [_, mallory]) = Site::with_keys(None);
    let link = site.link("notes", &alice());
    let mut stranger = Browser::local(&site);
    let page = stranger.get(&link).await;
    assert_eq!(page.heading(), (200, "Sign in to log in to a server"), "without a session it shows nothing");
    assert!(!page.text.contains("alice") && !page.text.contains("notes"), "{}", page.text);
    let page = stranger.sign_in(&link, &mallory).await;
    assert_eq!(page.heading(), (403, "The link is not yours"));
    assert!(!page.text.contains("alice") && site.started() == 0);
}

/// The attacker begins a login, and has the victim's browser open the callback with the code of the attacker.
#[tokio::test]
async fn a_callback_of_another_browser_changes_nothing() {
    let (site, [key, mallory]) = Site::with_keys(None);
    let mut attacker = Browser::local(&site);
    let link = site.link("notes", &Principal::new("key:mallory", auth::Role::Caller));
    let page = attacker.sign_in(&link, &mallory).await;
    let url = attacker.agree(&page).await;
    let callback = back_from(&url, "code=of-the-attacker");

    let mut stranger = Browser::local(&site);
    assert_eq!(stranger.get(&callback).await.heading(), (403, "This login does not belong to this browser"));
    let mut victim = Browser::local(&site);
    victim.sign_in(&site.link("notes", &alice()), &key).await;
    assert_eq!(victim.get(&callback).await.heading(), (403, "This login is not yours"));
    let mut second = Browser::local(&site);
    second.sign_in(&link, &mallory).await;
    assert_eq!(
        second.get(&callback).await.heading(),
        (403, "This login was begun elsewhere"),
        "a stolen state"
    );
    assert!(site.finished().is_empty());
    assert_eq!(attacker.get(&callback).await.status, StatusCode::OK, "it was valid where it began");
    assert_eq!(attacker.get(&callback).await.heading(), (409, "This login has ended already"), "a replay");
    assert_eq!(site.finished().len(), 1);
}

#[tokio::test]
async fn login_older_than_ten_minutes_is_refused() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let before = SystemTime::now() - LIFETIME;
    let old = site.link_at("notes", &alice(), before);
    assert_eq!(browser.get(&old).await.heading(), (410, "The link has expired"));
    let nearly = site.link_at("notes", &alice(), before + Duration::from_secs(5));
    browser.sign_in(&nearly, &key).await;
    let (name, cookie) = browser.jar.iter().next().expect("a cookie");
    assert_eq!(name, "switchyard-session-8080");
    let session = site.pages.sessions.find(cookie, None).await.expect("a session");
    let mark = site.pages.sessions.mark(&session).expect("a session");
    let state = State { mark, server: "notes".into(), pending: "canary-of-the-verifier".into() };
    let seal = |now| sealed::seal(&site.pages.logins.links, &session, &state, now);
    let callback = format!("/oauth/callback?code=a&state={}", seal(before));
    assert_eq!(browser.get(&callback).await.heading(), (410, "The login took too long"));
    let callback = format!("/oauth/callback?code=a&state={}", seal(SystemTime::now()));
    assert_eq!(browser.get(&callback).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_form_without_the_token_of_the_session_or_from_another_site_is_refused() {
    let (site, [key, mallory]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let page = browser.sign_in(&site.link("notes", &alice()), &key).await;
    let agreement = page.field("agreement");
    let csrf = page.field("csrf");
    let mut other = Browser::local(&site);
    let link = site.link("notes", &Principal::new("key:mallory", auth::Role::Caller));
    let theirs = other.sign_in(&link, &mallory).await;
    let (foreign, foreign_agreement) = (theirs.field("csrf"), theirs.field("agreement"));
    for wrong in ["", "x", &foreign, &csrf[..42]] {
        let answer = browser.post("/oauth/start", &[("csrf", wrong), ("agreement", &agreement)]).await;
        assert_eq!(answer.heading(), (403, "The form was refused"), "{wrong}");
        assert_eq!(browser.post("/oauth/sign-out", &[("csrf", wrong)]).await.status, StatusCode::FORBIDDEN);
    }
    let fields = [("csrf", csrf.as_str()), ("agreement", &foreign_agreement)];
    assert_eq!(
        browser.post("/oauth/start", &fields).await.status,
        StatusCode::BAD_REQUEST,
        "of somebody else"
    );
    let fields = [("csrf", csrf.as_str()), ("agreement", "https://evil.example/")];
    assert_eq!(
        browser.post("/oauth/start", &fields).await.status,
        StatusCode::BAD_REQUEST,
        "an open redirect"
    );
    let fields = [("csrf", csrf.as_str()), ("agreement", &agreement)];
    for from in [
        &[("origin", "http://127.0.0.1:9999"), ("sec-fetch-site", "same-site")][..],
        &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[],
    ] {
        for path in ["/oauth/start", "/oauth/sign-in", "/oauth/sign-out"] {
            let answer = browser.post_from(path, &fields, from).await;
            assert_eq!(answer.heading(), (403, "The form was refused"), "{path} {from:?}");
        }
    }
    assert_eq!(browser.post("/oauth/start", &fields).await.status, StatusCode::SEE_OTHER, "the real one");
}

/// A visitor who is signed in as the attacker would give the attacker an account.
#[tokio::test]
async fn another_site_cannot_sign_a_user_in() {
    let (site, [_, mallory]) = Site::with_keys(None);
    let mut attacker = Browser::local(&site);
    let csrf = attacker.get("/oauth/sign-in").await.field("csrf");
    let mut victim = Browser::local(&site);
    victim.get("/oauth/sign-in").await;
    let fields = [("csrf", csrf.as_str()), ("credential", mallory.expose_secret())];
    assert_eq!(victim.post("/oauth/sign-in", &fields).await.heading(), (403, "The form was refused"));
    victim.jar.clear();
    assert_eq!(victim.post("/oauth/sign-in", &fields).await.heading(), (403, "The form was refused"));
    let empty = [("csrf", ""), ("credential", mallory.expose_secret())];
    assert_eq!(victim.post("/oauth/sign-in", &empty).await.heading(), (403, "The form was refused"));
    assert_eq!(site.pages.sessions.count(), 0);
}

#[tokio::test]
async fn nothing_leads_the_browser_to_an_address_that_a_request_names() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    for login in
        ["https://evil.example/", "//evil.example", "x%0d%0aset-cookie:%20a=b", "../../evil", "a\"><script>"]
    {
        let encoded: String = url::form_urlencoded::byte_serialize(login.as_bytes()).collect();
        let page = browser.get(&format!("/oauth/sign-in?login={encoded}&next=https://evil.example")).await;
        assert!(!page.text.contains("evil") && !page.text.contains("<script>"), "{}", page.text);
        let csrf = page.field("csrf");
        let fields = [("csrf", csrf.as_str()), ("login", login), ("credential", key.expose_secret())];
        let answer = browser.post("/oauth/sign-in", &fields).await;
        assert_eq!(answer.location(), "sign-in", "{login}");
        browser.jar.clear();
    }
}

#[tokio::test]
async fn names_and_answers_cannot_become_markup() {
    let site = Site::open();
    let mut browser = Browser::local(&site);
    let page = browser.get(&site.link(ODD, &Principal::anonymous())).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    for markup in ["<script", "<img", "<b>write"] {
        assert!(!page.text.contains(markup), "{markup}: {}", page.text);
    }
    for path in [
        "/oauth/start?login=%3Cscript%3E",
        "/oauth/callback?state=%3Cscript%3E&code=%3Cscript%3E&iss=%3Cscript%3E",
        "/oauth/callback?error=%3Cscript%3E&error_description=%3Cscript%3E",
        "/oauth/sign-in?login=%3Cscript%3E",
    ] {
        let page = browser.get(path).await;
        assert!(!page.text.contains("script"), "{path}: {}", page.text);
        assert_eq!(page.header("x-frame-options"), "DENY", "{path}");
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(
            (page.header("cache-control"), page.header("x-content-type-options")),
            ("no-store", "nosniff")
        );
    }
}

#[tokio::test]
async fn cookies_are_for_this_site_and_not_for_scripts() {
    let (site, [key, _]) = Site::with_keys(Some(PUBLIC));
    let mut browser = Browser::at(&site, "gw.example", PUBLIC);
    let form = browser.get("/oauth/sign-in").await;
    let csrf = form.field("csrf");
    let set = form.header("set-cookie");
    assert!(
        set.starts_with("__Host-switchyard-sign-in=")
            && set.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure")
    );
    let fields = [("csrf", csrf.as_str()), ("credential", key.expose_secret())];
    let answer = browser.post("/oauth/sign-in", &fields).await;
    let set = answer.header("set-cookie");
    assert!(set.starts_with("__Host-switchyard-session="), "{set}");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure"), "{set}");
    assert!(!set.contains(&csrf) && !browser.jar.is_empty());
}

#[tokio::test]
async fn a_revoked_key_ends_its_session_in_the_middle_of_a_login() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let page = browser.sign_in(&site.link("notes", &alice()), &key).await;
    let url = browser.agree(&page).await;
    let keys = Keys::read(&auth::Config::ApiKey(two_keys().0.into())).expect("no files");
    site.authenticator.renew(keys);
    let end = browser.get(&back_from(&url, "code=a")).await;
    assert_eq!(end.heading(), (403, "This login does not belong to this browser"));
    assert!(site.finished().is_empty() && site.pages.sessions.count() == 0);
}

#[tokio::test]
async fn ten_thousand_attempts_to_sign_in_leave_nothing_behind() {
    let (site, [key, _]) = Site::with_keys(None);
    let mut browser = Browser::local(&site);
    let csrf = browser.get("/oauth/sign-in").await.field("csrf");
    for attempt in 0..10_000 {
        let wrong = format!("swy_alice_{attempt:048x}");
        let fields = [("csrf", csrf.as_str()), ("credential", wrong.as_str())];
        let answer = browser.post("/oauth/sign-in", &fields).await;
        assert_eq!(answer.heading(), (403, "The sign-in was refused"));
        assert!(!answer.text.contains(&wrong));
    }
    assert_eq!(site.pages.sessions.count(), 0);
    let fields = [("csrf", csrf.as_str()), ("credential", key.expose_secret())];
    assert_eq!(
        browser.post("/oauth/sign-in", &fields).await.status,
        StatusCode::SEE_OTHER,
        "others still can"
    );
}
