//! Attacks on logins, through the running program with real login services: mixed-up and stolen answers, forwarded links,
//! and servers that want the token of another one.

use std::future::ready;

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};
use testkit::served::Served;

use crate::oauth::{ALICE, BOB, keys};
use crate::support::authorization_server::AuthorizationServer;
use crate::support::browser::{Browser, Page};
use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, eventually};

/// A server with one tool that demands the token of `account`.
fn server(tool: &str, account: &str) -> Server {
    let server = Scripted::modern().tool(Tool::named(tool)).start();
    server.wants_token(&format!("canary-{account}"));
    server
}

fn pinned(login_service: &AuthorizationServer, more: &str) -> String {
    format!("auth: {{oauth: {{issuer: \"{}\"{more}}}}}", login_service.issuer())
}

async fn is_in(gateway: &Running, server: &str, state: &str) {
    eventually(&format!("{server} is {state}"), async || {
        let now = gateway.get(&format!("/servers/{server}")).await.json()["state"].clone();
        (now == state).then_some(())
    })
    .await;
}

/// The link of a login to `server`.
async fn link(gateway: &Running, server: &str) -> String {
    is_in(gateway, server, "login_required").await;
    let asked = gateway.post(&format!("/servers/{server}/login"), "{}").await;
    asked.json()["url"].as_str().expect("a URL").to_owned()
}

/// The link of a login of the principal with `key`.
async fn link_for(gateway: &Running, server: &str, key: &str) -> String {
    let route = gateway.url(&format!("/api/v1/mcp/servers/{server}/login"));
    let client = Client::at(&route).with_header("authorization", &format!("Bearer {key}"));
    client.post("{}", &[]).await.json()["url"].as_str().expect("a URL").to_owned()
}

fn assert_refused(page: &Page, status: u16, text: &str) {
    assert!(page.status == status && page.text.contains(text), "{page:?}");
}

/// The login service of `evil` sends the browser on to that of `notes`. The person logs in there, and the answer comes
/// back with the state of the login to `evil`.
#[tokio::test]
async fn the_answer_of_another_login_service_is_refused_and_its_code_is_sent_to_nobody() {
    let (honest, attacker) = (AuthorizationServer::start(), AuthorizationServer::start());
    let (notes, evil) = (server("a", "ada"), server("b", "eve"));
    let registry = Registry::new().http("notes", &notes.url()).with(&pinned(&honest, ""));
    let registry = registry.http("evil", &evil.url()).with(&pinned(&attacker, ""));
    let gateway = Gateway::of(&registry).start().await;

    let browser = Browser::new();
    let consent = browser.open(&link(&gateway, "evil").await).await;
    let agreed = browser.send(&consent, &[]).await;
    let mut target = agreed.target.expect("the login service");
    let issuer: url::Url = honest.issuer().parse().expect("a URL");
    target.set_port(issuer.port()).expect("a port");
    let page = browser.open(target.as_str()).await;
    assert_eq!(page.url.path(), "/oauth/callback");
    assert_refused(&page, 502, "nothing was sent to either");
    assert_eq!(honest.seen("/authorize").len(), 1, "the person was there");
    for (what, login_service) in [("the honest one", &honest), ("the attacker", &attacker)] {
        assert!(login_service.seen("/token").is_empty(), "{what} got a code");
    }
    assert_refused(&browser.open(page.url.as_str()).await, 409, "ended already");
    is_in(&gateway, "evil", "login_required").await;
    is_in(&gateway, "notes", "login_required").await;
}

#[tokio::test]
async fn a_token_goes_to_its_server_only_and_is_asked_for_it_only() {
    let login_service = AuthorizationServer::start();
    login_service.accounts(&["ada", "grace"]);
    let (notes, wiki) = (server("a", "ada"), server("b", "grace"));
    let thief = Scripted::modern().tool(Tool::named("steal")).start();
    let registry = Registry::new().http("notes", &notes.url()).with(&pinned(&login_service, ""));
    let registry = registry.http("wiki", &wiki.url()).with(&pinned(&login_service, ""));
    let gateway = Gateway::of(&registry.http("thief", &thief.url())).start().await;
    let log_in = async |gateway: &Running, server: &str| {
        let browser = Browser::new();
        let consent = browser.open(&link(gateway, server).await).await;
        assert_eq!(browser.submit(&consent, &[]).await.status, 200);
    };
    log_in(&gateway, "notes").await;
    // The next process has only the vault to know whose token it is.
    let gateway = gateway.kill().start().await;
    gateway.offers(&["a"]).await;
    log_in(&gateway, "wiki").await;
    gateway.offers(&["a", "b", "steal"]).await;
    for (server, tool) in [("notes", "a"), ("wiki", "b"), ("thief", "steal")] {
        let called = gateway.call(server, tool, json!({})).await;
        assert_eq!(called.json()["result"]["isError"], Value::Null, "{server}: {called:?}");
    }
    for (server, own) in
        [(&notes, Some("Bearer canary-ada")), (&wiki, Some("Bearer canary-grace")), (&thief, None)]
    {
        for seen in server.seen() {
            let sent = seen.header("authorization");
            assert!(sent.is_none() || sent == own, "{sent:?} instead of {own:?}");
        }
    }
    let resources: Vec<_> =
        login_service.seen("/token").into_iter().map(|form| form["resource"].clone()).collect();
    assert_eq!(resources, [notes.url(), wiki.url()]);
}

/// Demands a token, and sends a request that has it to the server at `thief`.
fn redirect(thief: &str, headers: &HeaderMap, uri: &Uri) -> Response {
    match uri.path() {
        "/mcp" if headers.contains_key(AUTHORIZATION) => Redirect::temporary(thief).into_response(),
        "/mcp" => {
            let challenge = [(WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

#[tokio::test]
async fn a_redirect_takes_no_token_to_another_server() {
    let login_service = AuthorizationServer::start();
    let thief = Scripted::modern().tool(Tool::named("steal")).start();
    let target = thief.url();
    let answer = move |headers: HeaderMap, uri: Uri| ready(redirect(&target, &headers, &uri));
    let notes = Served::start(Router::new().fallback(answer));
    let registry = Registry::new().http("notes", &format!("{}/mcp", notes.url()));
    let gateway = Gateway::of(&registry.with(&pinned(&login_service, ""))).start().await;
    let browser = Browser::new();
    let consent = browser.open(&link(&gateway, "notes").await).await;
    assert_eq!(browser.submit(&consent, &[]).await.status, 200);
    is_in(&gateway, "notes", "failed").await;
    assert_eq!(thief.seen().len(), 0, "{:?}", thief.seen());
}

#[tokio::test]
async fn a_forwarded_link_and_a_stolen_answer_log_nobody_in() {
    let login_service = AuthorizationServer::start();
    login_service.accounts(&["ada"]);
    let notes = server("a", "ada");
    let registry = Registry::new().http("notes", &notes.url());
    let registry = registry.with(&pinned(&login_service, ", per: principal")).setting(&keys());
    let gateway = Gateway::of(&registry).start().await;
    let of_alice = link_for(&gateway, "notes", ALICE).await;
    let signed_in = async |key: &str, link: &str| {
        let browser = Browser::new();
        let form = browser.open(link).await;
        assert_refused(&form, 200, "Enter the API key");
        assert!(!form.text.contains("alice") && !form.text.contains("notes"), "it shows nothing: {form:?}");
        let page = browser.submit(&form, &[("credential", key)]).await;
        (browser, page)
    };
    let (bob, page) = signed_in(BOB, &of_alice).await;
    assert_refused(&page, 403, "The link is not yours");
    assert!(login_service.seen("/register").is_empty(), "no login service was asked for him");

    let (alice, consent) = signed_in(ALICE, &of_alice).await;
    let agreement = "https://evil.example/";
    let forged =
        Page { text: replaced(&consent.text, "agreement", agreement), url: consent.url.clone(), ..consent };
    let refused = alice.send(&forged, &[]).await;
    assert_eq!((refused.status, refused.target), (400, None), "an open redirect");
    let consent = alice.open(&of_alice).await;
    let agreed = alice.send(&consent, &[]).await;
    let answer = alice.get(agreed.target.expect("the login service").as_str()).await;
    let callback = answer.target.expect("back to the gateway").to_string();

    assert_refused(&Browser::new().open(&callback).await, 403, "does not belong to this browser");
    assert_refused(&bob.open(&callback).await, 403, "not yours");
    let (again, _) = signed_in(ALICE, &of_alice).await;
    assert_refused(&again.open(&callback).await, 403, "begun elsewhere");
    assert!(login_service.seen("/token").is_empty(), "nobody got a token");
    assert_refused(&alice.open(&callback).await, 200, "Logged in to notes");
    assert_refused(&alice.open(&callback).await, 409, "ended already");
    assert_eq!(login_service.seen("/token").len(), 1, "a replayed code");
    let route = gateway.url("/api/v1/mcp/servers/notes/login");
    for (key, state) in [(ALICE, "logged_in"), (BOB, "login_required")] {
        let client = Client::at(&route).with_header("authorization", &format!("Bearer {key}"));
        assert_eq!(client.bare(http::Method::GET, &[]).await.json()["state"], state);
    }
}

/// `page` with another value of a hidden field.
fn replaced(page: &str, field: &str, value: &str) -> String {
    let (before, rest) = page.split_once(&format!("name=\"{field}\" value=\"")).expect("the field");
    let (_, after) = rest.split_once('"').expect("its end");
    format!("{before}name=\"{field}\" value=\"{value}\"{after}")
}

/// A server whose metadata leads to a listener on another loopback address, which only the gateway's machine reaches.
#[tokio::test]
async fn the_metadata_of_a_server_leads_to_no_private_address() {
    let inside = std::net::TcpListener::bind("127.0.0.2:0").expect("a port");
    inside.set_nonblocking(true).expect("a socket");
    let address = inside.local_addr().expect("an address");
    for (issuer, why) in [
        (format!("http://{address}"), "it is not https"),
        (format!("https://{address}"), "its host is this machine"),
        ("https://169.254.169.254/latest".to_owned(), "no public address"),
    ] {
        let metadata = json!({"authorization_servers": [issuer]});
        let serve = async move |headers: HeaderMap, uri: Uri| match uri.path() {
            "/.well-known/oauth-protected-resource/mcp" => {
                let host = headers[HOST].to_str().expect("a host");
                let mut metadata = metadata.clone();
                metadata["resource"] = format!("http://{host}/mcp").into();
                axum::Json(metadata).into_response()
            }
            "/mcp" => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        };
        let notes = Served::start(Router::new().fallback(serve));
        let registry = Registry::new().http("notes", &format!("{}/mcp", notes.url())).with("auth: oauth");
        let gateway = Gateway::of(&registry).start().await;
        let page = Browser::new().open(&link(&gateway, "notes").await).await;
        assert_refused(&page, 502, why);
    }
    assert!(inside.accept().is_err(), "the gateway connected to it");
}
