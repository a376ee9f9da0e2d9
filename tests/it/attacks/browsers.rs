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
type SharedAnswer = State<Arc<(OnceLock<String>, OnceLock<String>)>>;

/// An MCP server and its login service, at one origin.
async fn answer(State(named): SharedAnswer, request: Request) -> Response {
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

/// Actions of operators, and what they need.
const ACTIONS: [(Method, &str); 9] = [
    (Method::POST, "/api/v1/mcp/reload"),
    (Method::POST, "/api/v1/mcp/circuit-breakers/one/reset"),
    (Method::POST, "/api/v1/mcp/servers/one/reconnect"),
    (Method::POST, "/api/v1/mcp/servers/one/disable"),
    (Method::POST, "/api/v1/mcp/servers/one/enable"),
    (Method::POST, "/api/v1/mcp/servers/one/tools/approve?current=true"),
    (Method::POST, "/api/v1/mcp/servers/one/login"),
    (Method::DELETE, "/api/v1/mcp/servers/one/login"),
    (Method::GET, "/api/v1/mcp/configuration"),
];

#[tokio::test]
async fn without_credentials_only_own_pages_and_programs_operate() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let own = gateway.url("");
    let own = own.trim_end_matches('/');
    let status = async |method: &Method, path: &str, headers: &[(&str, &str)]| {
        gateway.mcp().to(&gateway.url(path)).bare(method.clone(), headers).await.status
    };
    for (method, path) in &ACTIONS {
        for foreign in [
            &[("origin", "http://127.0.0.1:1")][..],
            &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")],
            &[("origin", "http://[::1]:3000"), ("content-type", "text/plain")],
            &[("origin", "null")],
            &[("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("sec-fetch-dest", "document")],
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document")],
            &[("origin", own), ("sec-fetch-site", "cross-site")],
            &[("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
        ] {
            assert_eq!(status(method, path, foreign).await, 403, "{method} {path} {foreign:?}");
        }
        for good in [&[][..], &[("origin", own)], &[("origin", own), ("sec-fetch-site", "same-origin")]] {
            assert_ne!(status(method, path, good).await, 403, "{method} {path} {good:?}");
        }
    }
    assert!(is_enabled(&gateway, "one").await);
    let page = [("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")];
    assert_eq!(status(&Method::GET, "/api/v1/mcp/tools", &page).await, 200, "reading stays possible");
    let call = r#"{"server": "one", "tool": "a", "arguments": {}}"#;
    let called = gateway.mcp().to(&gateway.url("/api/v1/mcp/call")).post(call, &page).await;
    assert_eq!(called.status, 200, "calling stays possible: {called:?}");
}

#[tokio::test]
async fn request_that_another_network_passed_on_is_served() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let call = r#"{"server": "one", "tool": "a", "arguments": {}}"#;
    let route = gateway.mcp().to(&gateway.url("/api/v1/mcp/call"));
    for (passed_on, status) in [
        (&[("cdn-loop", "cloudflare; subreqs=1")][..], 200),
        (&[("cdn-loop", "Fastly, Fastly"), ("cdn-loop", "cdn.example; by=\"a, switchyard\"")], 200),
        (&[("cdn-loop", "cloudflare, Switchyard; a=b")], 403),
        (&[("cdn-loop", "cloudflare"), ("cdn-loop", "switchyard")], 403),
    ] {
        assert_eq!(route.post(call, passed_on).await.status, status, "{passed_on:?}");
    }
}
