//! Login services that are away or broken: the next one that the server names is used.

use axum::Router;
use axum::response::{Html, IntoResponse, Response};
use http::header::HOST;
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use testkit::served::Served;

use crate::oauth::opened;
use crate::support::browser::Browser;
use crate::support::gateway::Running;
use crate::support::named_issuer::{DemandingServer, TokenService};
use crate::support::{Gateway, Registry};

/// A gateway whose server names `issuers`, in this order.
async fn gateway_of(issuers: &[&str]) -> (DemandingServer, Running) {
    let server = DemandingServer::naming("");
    server.publishes(json!({"authorization_servers": issuers}));
    let registry = Registry::new().http("notes", &server.url()).with("auth: oauth");
    let gateway = Gateway::of(&registry).start().await;
    (server, gateway)
}

async fn log_in(gateway: &Running) {
    let started = gateway.post("/servers/notes/login", "{}").await;
    assert_eq!(started.status, 200, "{started:?}");
    opened(started.json()["url"].as_str().expect("a URL")).await;
}

/// A service whose metadata of OAuth is broken in the way that `broken` says.
fn broken(broken: &'static str) -> Served {
    Served::start(Router::new().fallback(move || async move { failure(broken).await }))
}

async fn failure(broken: &str) -> Response {
    match broken {
        "status 500" => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        "a page" => Html("<html>Welcome</html>").into_response(),
        "another issuer" => axum::Json(json!({"issuer": "https://login.example.org"})).into_response(),
        _ => std::future::pending().await,
    }
}

#[tokio::test]
async fn login_service_that_cannot_be_used_is_passed_over_for_the_next_one_of_the_list() {
    let services = ["status 500", "a page", "another issuer"].map(broken);
    let mut closed = broken("nothing");
    closed.kill();
    let mut first: Vec<String> = services.iter().map(Served::url).collect();
    first.extend([closed.url(), "no URL".into(), "https://169.254.169.254".into(), "file:///etc".into()]);
    for first in first {
        let service = TokenService::start();
        let (_server, gateway) = gateway_of(&[&first, &service.issuer()]).await;
        log_in(&gateway).await;
        assert!(!service.seen("/token").is_empty(), "{first}");
    }
}

#[tokio::test]
async fn credentials_of_the_file_do_not_go_to_the_next_login_service_while_the_first_is_away() {
    let mut first = broken("nothing");
    first.kill();
    let next = TokenService::start();
    let server = DemandingServer::naming("");
    server.publishes(json!({"authorization_servers": [first.url(), next.issuer()]}));
    let registry = Registry::new().http("notes", &server.url());
    let gateway = Gateway::of(&registry.with("auth: {oauth: {client_id: at-the-first}}")).start().await;
    let started = gateway.post("/servers/notes/login", "{}").await.json();
    let page = Browser::new().open(started["url"].as_str().expect("a URL")).await;
    assert_eq!(page.status, 503, "{page:?}");
    assert!(!next.was_found(), "nobody knows whether the credentials are of the second one");
}

/// Serves `OpenID` metadata with the endpoints of `service`, and OAuth metadata that is broken.
fn with_openid_only(service: &TokenService, broken: &'static str) -> Served {
    let endpoints = service.issuer();
    let serve = move |headers: HeaderMap, uri: Uri| {
        let endpoints = endpoints.clone();
        async move {
            if uri.path() != "/.well-known/openid-configuration" {
                return failure(broken).await;
            }
            let host = headers[HOST].to_str().expect("a host");
            let metadata = json!({
                "issuer": format!("http://{host}"),
                "authorization_endpoint": format!("{endpoints}/authorize"),
                "token_endpoint": format!("{endpoints}/token"),
                "registration_endpoint": format!("{endpoints}/register"),
                "code_challenge_methods_supported": ["S256"],
            });
            axum::Json(metadata).into_response()
        }
    };
    Served::start(Router::new().fallback(serve))
}

#[tokio::test]
async fn metadata_is_found_at_its_next_place_when_the_first_one_fails_or_hangs() {
    let each = ["status 500", "a page", "a hang"].map(async |broken| {
        let endpoints = TokenService::start();
        let service = with_openid_only(&endpoints, broken);
        let (_server, gateway) = gateway_of(&[&service.url()]).await;
        log_in(&gateway).await;
        assert!(!endpoints.seen("/token").is_empty(), "{broken}");
    });
    futures_util::future::join_all(each).await;
}
