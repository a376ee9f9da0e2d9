//! Credentials that the operator registered at one login service, and a server that names another one later.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::oauth::{ALICE, BOB, keys};
use crate::support::browser::{Browser, Page};
use crate::support::gateway::Running;
use crate::support::named_issuer::{DemandingServer, TokenService};
use crate::support::{Client, Gateway, Registry, at_once, eventually};

/// Long enough for several attempts to connect, which each need a token.
const SEVERAL_ATTEMPTS: Duration = Duration::from_secs(4);

/// Credentials of a machine, with the part of a token request that must not leave.
fn machine_credentials(provider: &TokenService) -> [(String, &'static str); 5] {
    let exchange = format!("{}/exchange", provider.issuer());
    [
        (
            "grant: client_credentials, client_id: id, client_secret: \"${CANARY}\", token_endpoint_auth: post"
                .into(),
            "canary-secret",
        ),
        (
            "grant: client_credentials, client_id: id, client_secret: \"${CANARY}\", token_endpoint_auth: basic"
                .into(),
            "Basic ",
        ),
        (
            "grant: client_credentials, client_id: id, private_key: \"${KEY}\", token_endpoint_auth: private_key_jwt"
                .into(),
            "client_assertion=",
        ),
        ("grant: jwt_bearer, client_id: id, assertion: \"${CANARY}\"".into(), "canary-secret"),
        (
            format!(
                "grant: jwt_bearer, client_id: id, identity_provider: {{token_endpoint: \"{exchange}\", \
                 client_id: sw, id_token: \"${{CANARY}}\"}}"
            ),
            "canary-jag",
        ),
    ]
}

fn gateway(registry: &Registry) -> Gateway {
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem().replace('\n', "\\n");
    Gateway::of(registry).env("CANARY", "canary-secret").env("KEY", &key)
}

fn registry(server: &DemandingServer, oauth: &str) -> Registry {
    Registry::new().http("notes", &server.url()).with(&format!("auth: {{oauth: {{{oauth}}}}}"))
}

async fn has_asked(service: &TokenService, part: &str) {
    eventually("the login service is asked for a token", async || {
        service.seen("/token").iter().any(|request| request.contains(part)).then_some(())
    })
    .await;
}

/// Waits for an attempt that found `stranger`, and checks that nothing but its metadata was asked for.
async fn sends_nothing_to(stranger: &TokenService, gateway: &Running) {
    eventually("the login service is found", async || stranger.was_found().then_some(())).await;
    tokio::time::sleep(SEVERAL_ATTEMPTS).await;
    assert_eq!(stranger.seen("/token"), Vec::<String>::new());
    is_refused(gateway, &stranger.issuer()).await;
}

/// Waits until the status names `origin` and the setting that would allow it.
async fn is_refused(gateway: &Running, origin: &str) {
    eventually(&format!("the status says that {origin} gets nothing"), async || {
        let status = gateway.get("/servers/notes").await.body;
        (status.contains("`issuer") && status.contains(origin)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn credentials_of_a_machine_go_to_no_login_service_that_the_server_names_later() {
    let provider = TokenService::start();
    at_once(machine_credentials(&provider), async |(oauth, part)| {
        let (honest, stranger) = (TokenService::start(), TokenService::start());
        let server = DemandingServer::naming(&honest.issuer());
        let running = gateway(&registry(&server, &oauth)).start().await;
        has_asked(&honest, part).await;
        server.publishes(json!({"authorization_servers": [stranger.issuer(), honest.issuer()]}));
        sends_nothing_to(&stranger, &running).await;

        // The next process knows it from the vault.
        let running = running.kill().start().await;
        sends_nothing_to(&stranger, &running).await;

        // The file decides.
        let pinned = format!("{oauth}, issuer: \"{}\"", stranger.issuer());
        running.rewrite(&registry(&server, &pinned).yaml());
        running.hang_up();
        has_asked(&stranger, part).await;
        drop(running);
    })
    .await;
}

#[tokio::test]
async fn the_first_login_service_stays_the_only_one_if_an_unrelated_setting_changes_or_metadata_is_missing() {
    let honest = TokenService::start();
    let server = DemandingServer::naming(&honest.issuer());
    let oauth = "grant: client_credentials, client_id: id, client_secret: \"${CANARY}\"";
    let running = gateway(&registry(&server, oauth)).start().await;
    has_asked(&honest, "Basic ").await;
    let stranger = TokenService::start();
    server.publishes(json!({"authorization_servers": [stranger.issuer()]}));
    running.rewrite(&registry(&server, oauth).with("max_timeout: 15m").yaml());
    running.hang_up();
    sends_nothing_to(&stranger, &running).await;
    // Without metadata, the server is its own login service.
    server.publishes(json!({}));
    let running = running.kill().start().await;
    is_refused(&running, server.url().trim_end_matches("/mcp")).await;
    assert!(
        server.credentials().iter().all(|sent| sent.starts_with("Bearer ")),
        "{:?}",
        server.credentials()
    );
}

#[tokio::test]
async fn a_token_endpoint_that_moves_to_another_origin_gets_no_credential() {
    let (honest, stranger) = (TokenService::start(), TokenService::start());
    let server = DemandingServer::naming(&honest.issuer());
    let oauth = "grant: client_credentials, client_id: id, client_secret: \"${CANARY}\"";
    let running = gateway(&registry(&server, oauth)).start().await;
    has_asked(&honest, "Basic ").await;
    honest.publishes(json!({"token_endpoint": format!("{}/token", stranger.issuer())}));
    is_refused(&running, &stranger.issuer()).await;
    assert_eq!(stranger.seen("/token"), Vec::<String>::new());
}

/// Opens the login page of the principal with `key`, or of everybody.
async fn opened(gateway: &Running, browser: &Browser, key: Option<&str>) -> Page {
    let mut client = Client::at(&gateway.url("/api/v1/mcp/servers/notes/login"));
    if let Some(key) = key {
        client = client.with_header("authorization", &format!("Bearer {key}"));
    }
    let link = client.post("{}", &[]).await;
    let page = browser.open(link.json()["url"].as_str().unwrap_or_else(|| panic!("{link:?}"))).await;
    match key {
        Some(key) if page.text.contains("name=\"credential\"") => {
            browser.submit(&page, &[("credential", key)]).await
        }
        _ => page,
    }
}

#[tokio::test]
async fn the_secret_of_a_login_by_people_outlives_the_logout_and_holds_for_all_principals() {
    for (per, setting, people) in
        [("shared", String::new(), [None, None]), ("principal", keys(), [Some(ALICE), Some(BOB)])]
    {
        let (honest, stranger) = (TokenService::start(), TokenService::start());
        let server = DemandingServer::naming(&honest.issuer());
        let oauth = format!("client_id: id, client_secret: \"${{CANARY}}\", per: {per}");
        let registry = registry(&server, &oauth).setting(&setting);
        let running = gateway(&registry).start().await;
        let [first, second] = people;
        let browser = Browser::new();
        let consent = opened(&running, &browser, first).await;
        let done = browser.submit(&consent, &[]).await;
        assert_eq!((done.status, done.url.path()), (200, "/oauth/callback"), "{done:?}");
        has_asked(&honest, "Basic ").await;
        let mut client = Client::at(&running.url("/api/v1/mcp/servers/notes/login"));
        if let Some(key) = first {
            client = client.with_header("authorization", &format!("Bearer {key}"));
        }
        assert!(client.bare(Method::DELETE, &[]).await.status < 300);

        server.publishes(json!({"authorization_servers": [stranger.issuer()]}));
        for key in [first, second] {
            let page = opened(&running, &Browser::new(), key).await;
            assert!(page.status == 502 && page.text.contains("`issuer`"), "{page:?}");
        }
        let running = running.kill().start().await;
        let page = opened(&running, &Browser::new(), second).await;
        assert!(page.status == 502 && page.text.contains(&stranger.issuer()), "{page:?}");
        assert_eq!(stranger.seen("/token"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_login_whose_file_names_another_login_service_is_over_and_its_refresh_token_stays_here() {
    let (honest, other) = (TokenService::start(), TokenService::start());
    let server = DemandingServer::naming(&honest.issuer());
    let running = gateway(&registry(&server, "scopes: [a]")).start().await;
    let browser = Browser::new();
    let consent = opened(&running, &browser, None).await;
    assert_eq!(browser.submit(&consent, &[]).await.status, 200);
    let pinned = registry(&server, &format!("issuer: \"{}\"", other.issuer()));
    let running = running.kill();
    // Until then it may renew the token.
    let before = honest.seen("/token").len();
    std::fs::write(running.folder().join("mcp_servers.yaml"), pinned.yaml()).expect("it can be written");
    let running = running.start().await;
    eventually("a login is required", async || {
        (running.get("/servers/notes").await.json()["state"] == "login_required").then_some(())
    })
    .await;
    assert_eq!((honest.seen("/token").len(), other.seen("/token").len()), (before, 0));
}

#[tokio::test]
async fn a_token_of_a_server_is_not_sent_to_another_url_under_its_name() {
    let honest = TokenService::start();
    honest.grants(json!({"expires_in": 3600}));
    let (server, other) =
        (DemandingServer::naming(&honest.issuer()), DemandingServer::naming(&honest.issuer()));
    let running = gateway(&registry(&server, "scopes: [a]")).start().await;
    let browser = Browser::new();
    let consent = opened(&running, &browser, None).await;
    assert_eq!(browser.submit(&consent, &[]).await.status, 200);
    let before = honest.seen("/token").len();
    running.rewrite(&registry(&other, "scopes: [a]").yaml());
    running.hang_up();
    eventually("a login is required", async || {
        (running.get("/servers/notes").await.json()["state"] == "login_required").then_some(())
    })
    .await;
    assert_eq!(other.credentials(), Vec::<String>::new());
    assert_eq!(honest.seen("/token").len(), before, "no refresh token either");
}

#[tokio::test]
async fn a_machine_asks_for_no_scope_that_the_file_does_not_name() {
    let cases =
        [("", None), (", scopes: [read]", Some("scope=read")), (", scopes: server", Some("scope=admin"))];
    at_once(cases, async |(scopes, sent)| {
        let honest = TokenService::start();
        let server = DemandingServer::naming(&honest.issuer());
        server.challenges_with("scope=\"admin\"");
        server.publishes(json!({"authorization_servers": [honest.issuer()], "scopes_supported": ["root"]}));
        let oauth =
            format!("grant: client_credentials, client_id: id, client_secret: \"${{CANARY}}\"{scopes}");
        let _running = gateway(&registry(&server, &oauth)).start().await;
        has_asked(&honest, "client_credentials").await;
        server.lacks_scope("root");
        tokio::time::sleep(SEVERAL_ATTEMPTS).await;
        for request in honest.seen("/token") {
            let scope = request.split('&').find(|field| field.starts_with("scope="));
            let is_wider = scopes.contains("server") && scope.is_some_and(|scope| scope.contains("admin"));
            assert!(scope == sent || is_wider, "{request}");
        }
    })
    .await;
}

#[test]
fn check_and_doctor_ask_for_the_issuer_beside_a_secret() {
    let secrets = [
        ("client_id: id, client_secret: \"${CANARY}\"", true),
        ("grant: client_credentials, client_id: id, private_key: \"${CANARY}\"", true),
        ("grant: jwt_bearer, assertion: \"${CANARY}\"", true),
        ("client_id: id, client_secret: \"${CANARY}\", issuer: \"https://login.example.org\"", false),
        ("client_id: id", false),
    ];
    for (oauth, is_asked) in secrets {
        let registry = Registry::new().http("notes", "https://mcp.example.com/mcp");
        let gateway = gateway(&registry.with(&format!("auth: {{oauth: {{{oauth}}}}}")));
        for command in [&["check"][..], &["doctor", "--offline"]] {
            let output = gateway.output(command);
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text.contains("add `issuer`"), is_asked, "{command:?} {oauth}: {text}");
        }
    }
}
