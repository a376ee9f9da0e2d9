//! Requests that somebody makes for an attacker: a browser for a page of another site, and the OAuth client of the
//! gateway for a server that names its endpoints.

use std::sync::{Arc, OnceLock};

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::header::WWW_AUTHENTICATE;
use http::{Method, StatusCode};
use serde_json::json;
use testkit::served::Served;

use crate::support::browser::Browser;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, Running};

/// The origin of the server, and the endpoint at which its clients have to register.
type Named = State<Arc<(OnceLock<String>, OnceLock<String>)>>;

/// An MCP server and its login service, at one origin.
async fn answer(State(named): Named, request: Request) -> Response {
    let origin = named.0.get().expect("it is set");
    match request.uri().path() {
        "/mcp" => (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]).into_response(),
        "/.well-known/oauth-protected-resource/mcp" => {
            Json(json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]})).into_response()
        }
        "/.well-known/oauth-authorization-server" => Json(json!({"issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"), "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": named.1.get(), "code_challenge_methods_supported": ["S256"]}))
        .into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn is_enabled(gateway: &Running, server: &str) -> bool {
    gateway.get(&format!("/servers/{server}")).await.json()["enabled"] == true
}

#[tokio::test]
async fn metadata_of_a_server_leads_to_no_action_of_an_operator() {
    let named = Arc::new((OnceLock::new(), OnceLock::new()));
    let evil = Served::start(Router::new().fallback(answer).with_state(Arc::clone(&named)));
    named.0.set(evil.url()).expect("set once");
    let good = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("evil", &format!("{}/mcp", evil.url())).with("auth: oauth");
    let gateway = Gateway::of(&registry.http("good", &good.url())).start().await;
    gateway.offers(&["a"]).await;
    named.1.set(gateway.url("/api/v1/mcp/servers/good/disable")).expect("set once");

    let link =
        gateway.post("/servers/evil/login", "").await.json()["url"].as_str().expect("a link").to_owned();
    let page = Browser::new().get(&link).await;
    assert_eq!(page.status, 502, "{page:?}");
    assert!(page.text.contains("status 403"), "{page:?}");
    assert!(is_enabled(&gateway, "good").await, "the server was disabled");
    assert!(gateway.log().iter().all(|line| line["action"] != "disable"));
}

#[tokio::test]
async fn a_page_of_another_site_embeds_no_answer_and_opens_no_stream() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let status = async |path: &str, site: &str, used_as: &str| {
        let headers = [("sec-fetch-site", site), ("sec-fetch-dest", used_as)];
        gateway.mcp().to(&gateway.url(path)).bare(Method::GET, &headers).await.status
    };
    for path in [
        "/api/v1/mcp/events?follow=false",
        "/api/v1/mcp/tools",
        "/api/v1/mcp/health?check=true",
        "/metrics",
        "/ui/",
    ] {
        for used_as in ["image", "iframe", "script", "empty"] {
            assert_eq!(status(path, "cross-site", used_as).await, 403, "{path} as {used_as}");
        }
        for (site, used_as) in [
            ("same-origin", "empty"),
            ("same-site", "empty"),
            ("none", "document"),
            ("cross-site", "document"),
        ] {
            assert_eq!(status(path, site, used_as).await, 200, "{path} from {site} as {used_as}");
        }
    }
}
