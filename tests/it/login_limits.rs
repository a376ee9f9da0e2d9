//! Limits of what callers and login services make the gateway keep: registrations, redirect URIs and long values.

use serde_json::json;

use crate::oauth::{ALICE, keys};
use crate::support::browser::Browser;
use crate::support::gateway::Running;
use crate::support::named_issuer::{DemandingServer, TokenService};
use crate::support::{Client, Gateway, Registry};

fn registry(service: &TokenService) -> (DemandingServer, Registry) {
    let server = DemandingServer::naming(&service.issuer());
    let registry = Registry::new().http("notes", &server.url());
    (server, registry.with("auth: {oauth: {per: principal}}").setting(&keys()))
}

fn vault(gateway: &Running) -> std::path::PathBuf {
    gateway.folder().join(".local/state/switchyard/vault.json")
}

/// Asks for a link under another name of the gateway.
async fn link(gateway: &Running, host: &str) -> Option<String> {
    let client = Client::at(&gateway.url("/api/v1/mcp/servers/notes/login"));
    let client = client.with_header("authorization", &format!("Bearer {ALICE}")).with_header("host", host);
    client.post("{}", &[]).await.json()["url"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_caller_chooses_no_redirect_uri_and_fills_no_vault_with_logins_that_it_begins() {
    let service = TokenService::start();
    let (_server, registry) = registry(&service);
    let gateway = Gateway::of(&registry).start().await;
    let port = gateway.address.rsplit_once(':').expect("a port").1.to_owned();
    for host in ["localhost", "127.0.0.1", "127.0.0.1:6666", "localhost:6666", "[::1]:6666", "127.9.9.9:80"] {
        assert_eq!(link(&gateway, host).await, None, "{host}");
    }
    assert_eq!(link(&gateway, &format!("127.9.9.9:{port}")).await, None);
    let browser = Browser::new();
    for _ in 0..20 {
        let url = link(&gateway, &format!("127.0.0.1:{port}")).await.expect("a link");
        let page = browser.open(&url).await;
        let page = if page.text.contains("name=\"credential\"") {
            browser.submit(&page, &[("credential", ALICE)]).await
        } else {
            page
        };
        assert!(page.status == 200 && page.text.contains("Continue to the login service"), "{page:?}");
    }
    assert_eq!(service.seen("/register").len(), 1, "{:?}", service.seen("/register"));
    assert!(!vault(&gateway).exists(), "nobody has logged in");
}

#[tokio::test]
async fn principal_without_a_login_causes_no_registrations_by_logging_out() {
    let service = TokenService::start();
    let (_server, registry) = registry(&service);
    let gateway = Gateway::of(&registry).start().await;
    let login = Client::at(&gateway.url("/api/v1/mcp/servers/notes/login"));
    let login = login.with_header("authorization", &format!("Bearer {ALICE}"));
    let browser = Browser::new();
    let start = async || {
        let url = link(&gateway, &gateway.address).await.expect("a link");
        let page = browser.open(&url).await;
        let is_sign_in = page.text.contains("name=\"credential\"");
        let page = if is_sign_in { browser.submit(&page, &[("credential", ALICE)]).await } else { page };
        assert!(page.text.contains("Continue to the login service"), "{page:?}");
    };
    for _ in 0..5 {
        start().await;
        let ended = login.bare(http::Method::DELETE, &[]).await;
        assert!(ended.status == 200 || ended.status == 204, "{ended:?}");
    }
    assert_eq!(service.seen("/register").len(), 1, "{:?}", service.seen("/register"));
}

#[tokio::test]
async fn a_login_service_with_long_values_is_told_so_and_leaves_nothing_in_the_vault() {
    for (name, length, limit) in [("access_token", 20_000, "16384"), ("refresh_token", 60_000, "8192")] {
        let service = TokenService::start();
        service.grants(json!({name: "x".repeat(length)}));
        let (_server, registry) = registry(&service);
        let gateway = Gateway::of(&registry).start().await;
        let browser = Browser::new();
        let url = link(&gateway, &gateway.address).await.expect("a link");
        let sign_in = browser.open(&url).await;
        let consent = browser.submit(&sign_in, &[("credential", ALICE)]).await;
        let page = browser.submit(&consent, &[]).await;
        let is_told = page.text.contains(limit) && page.text.contains(&length.to_string());
        assert!(page.status == 502 && is_told, "{page:?}");
        assert!(!vault(&gateway).exists());
    }
}
