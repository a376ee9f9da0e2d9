//! The dashboard from outside: its headers, its session, and attacks with the cookie of a visitor.
//!
//! `tests/ui` has the same in a real browser.

use http::Method;
use http::header::{CONTENT_TYPE, COOKIE, ETAG, IF_NONE_MATCH, ORIGIN};
use reqwest::Response;
use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, api_keys};

const CSRF: &str = "x-switchyard-csrf";
const CALL: &str = r#"{"server":"one","tool":"a","arguments":{}}"#;

/// The key of a role.
fn key(role: &str) -> String {
    format!("swy_{role}_{}", "0".repeat(64))
}

/// A gateway with a key for each role.
async fn gateway(server: &Server) -> Running {
    let keys = ["reader", "caller", "superuser"].map(|role| (key(role), format!("role: {role}")));
    let keys = keys.each_ref().map(|(key, role)| (&**key, &**role));
    let settings = format!("server: {{{}}}", api_keys(&keys));
    let registry = Registry::new().http("one", &server.url()).setting(&settings);
    let running = Gateway::of(&registry).start().await;
    running.offers_to("a", &format!("Bearer {}", key("superuser"))).await;
    running
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("a")).start()
}

/// The session of a visitor who has signed in.
struct Visitor<'g> {
    gateway: &'g Running,
    browser: Browser,
    csrf: String,
}

impl<'g> Visitor<'g> {
    async fn of(gateway: &'g Running, role: &str) -> Self {
        let browser = Browser::new();
        let form = browser.get(&gateway.url("/oauth/sign-in?to=ui")).await;
        let page = browser.submit(&form, &[("credential", &key(role))]).await;
        assert_eq!((page.status, page.url.path()), (200, "/ui/"), "{}", page.text);
        assert!(page.text.contains("main.js"), "{}", page.text);
        let session = browser.get(&gateway.url("/ui/session")).await;
        let session: Value = serde_json::from_str(&session.text).expect("JSON");
        assert_eq!(session["principal"], format!("key:{role}"));
        let csrf = session["csrf"].as_str().expect("a token").to_owned();
        Self { gateway, browser, csrf }
    }

    async fn send(&self, method: &Method, path: &str, headers: &[(&str, &str)]) -> Response {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut request = http.request(method.clone(), self.gateway.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header(COOKIE, self.browser.cookies()).header(CONTENT_TYPE, "application/json");
        request.body(CALL).send().await.expect("an answer")
    }

    async fn status(&self, method: &Method, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.send(method, path, headers).await.status().as_u16()
    }
}

/// Every route of the API that may change something, with names that exist.
async fn changing_routes(gateway: &Running) -> Vec<(Method, String)> {
    let document = reqwest::get(gateway.url("/openapi.json")).await.expect("an answer");
    let document: Value = document.json().await.expect("JSON");
    let paths = document["paths"].as_object().expect("paths").iter();
    let routes = paths.flat_map(|(path, methods)| {
        let path = path.replace("{name}", "one").replace("{call}", "1");
        let methods = methods.as_object().expect("methods").keys().map(|name| name.to_uppercase());
        methods.map(move |method| (method.parse::<Method>().expect("a method"), path.clone()))
    });
    let routes: Vec<_> = routes.filter(|(method, _)| *method != Method::GET).collect();
    assert!(routes.len() >= 7, "{routes:?}");
    routes
}

#[tokio::test]
async fn no_route_is_changed_by_a_cookie_alone_or_by_another_site() {
    let server = server();
    let gateway = gateway(&server).await;
    let visitor = Visitor::of(&gateway, "superuser").await;
    let (own, csrf) = (gateway.url(""), (CSRF, visitor.csrf.as_str()));
    let own = (ORIGIN.as_str(), own.trim_end_matches('/'));
    let foreign = (ORIGIN.as_str(), "https://evil.example");
    let neighbor = (ORIGIN.as_str(), "http://127.0.0.1:9");
    for (method, path) in changing_routes(&gateway).await {
        for headers in [
            &[][..],
            &[own],
            &[own, (CSRF, "guessed")],
            &[csrf],
            &[foreign, csrf],
            &[neighbor, csrf],
            &[(ORIGIN.as_str(), "null"), csrf],
            &[own, csrf, ("sec-fetch-site", "same-site")],
        ] {
            let status = visitor.status(&method, &path, headers).await;
            assert!([401, 403].contains(&status), "{method} {path} {headers:?}: {status}");
        }
    }
    assert_eq!(server.runs("a"), 0, "no call came through");
    assert_eq!(visitor.status(&Method::POST, "/api/v1/mcp/call", &[own, csrf]).await, 200);
    assert_eq!(server.runs("a"), 1);
    assert_eq!(visitor.status(&Method::POST, "/mcp", &[own, csrf]).await, 401, "MCP knows no cookies");
}

#[tokio::test]
async fn session_of_a_reader_may_do_no_action() {
    let gateway = gateway(&server()).await;
    let visitor = Visitor::of(&gateway, "reader").await;
    let own = gateway.url("");
    let headers = [(ORIGIN.as_str(), own.trim_end_matches('/')), (CSRF, visitor.csrf.as_str())];
    for (method, path) in changing_routes(&gateway).await {
        let status = visitor.status(&method, &path, &headers).await;
        // Everybody ends own grants, and this gateway has none. Prompts and questions of a call are for callers.
        let is_refused =
            if path.starts_with("/api/v1/mcp/grants") { matches!(status, 400 | 404) } else { status == 403 };
        assert!(is_refused, "{method} {path}: {status}");
    }
    assert_eq!(visitor.status(&Method::GET, "/api/v1/mcp/configuration", &[]).await, 403);
    assert_eq!(visitor.status(&Method::GET, "/api/v1/mcp/servers", &[]).await, 200);
    assert_eq!(visitor.status(&Method::GET, "/metrics", &[]).await, 200);
    let cross =
        visitor.status(&Method::GET, "/api/v1/mcp/servers", &[("sec-fetch-site", "cross-site")]).await;
    assert_eq!(cross, 403, "a page of another site reads nothing");
    let session = visitor.send(&Method::GET, "/ui/session", &[("sec-fetch-site", "same-site")]).await;
    let session: Value = session.json().await.expect("JSON");
    assert!(session["csrf"].is_null() && session["principal"].is_null(), "{session}");
}

#[tokio::test]
async fn signing_out_ends_the_session_at_once() {
    let gateway = gateway(&server()).await;
    let visitor = Visitor::of(&gateway, "caller").await;
    assert_eq!(visitor.status(&Method::GET, "/api/v1/mcp/servers", &[]).await, 200);
    let page = visitor.browser.get(&gateway.url("/oauth/sign-in")).await;
    visitor.browser.send(&page, &[]).await;
    assert_eq!(visitor.status(&Method::GET, "/api/v1/mcp/servers", &[]).await, 401);
}

#[tokio::test]
async fn files_of_the_dashboard_run_nothing_foreign_and_open_in_no_frame() {
    let gateway = gateway(&server()).await;
    for path in ["/ui/", "/ui/main.js", "/ui/layout.css", "/ui/icon.svg"] {
        let answer = reqwest::get(gateway.url(path)).await.expect("an answer");
        let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
        assert_eq!(
            header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; connect-src 'self'; \
             form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        assert_eq!(
            (header("x-content-type-options"), header("x-frame-options")),
            ("nosniff".into(), "DENY".into())
        );
        assert_eq!(header("cache-control"), "no-cache");
        let tag = header(ETAG.as_str());
        let again = reqwest::Client::new().get(gateway.url(path)).header(IF_NONE_MATCH, tag);
        assert_eq!(again.send().await.expect("an answer").status(), 304, "{path}");
    }
    for path in ["/ui/nothing.js", "/ui/../mcp_servers.yaml", "/ui/%2e%2e%2fCargo.toml"] {
        let status = reqwest::get(gateway.url(path)).await.expect("an answer").status().as_u16();
        assert!([401, 404].contains(&status), "{path}: {status}");
    }
}

#[tokio::test]
async fn without_authentication_a_visitor_is_signed_in_and_other_sites_change_nothing() {
    let server = server();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let session: Value =
        reqwest::get(gateway.url("/ui/session")).await.expect("an answer").json().await.expect("JSON");
    assert_eq!((&session["principal"], &session["role"]), (&"anonymous".into(), &"superuser".into()));
    assert!(session["csrf"].is_null() && session["can_sign_in"] == false, "{session}");
    for (method, path) in changing_routes(&gateway).await {
        let request = reqwest::Client::new().request(method.clone(), gateway.url(&path));
        let request = request.header(ORIGIN, "https://evil.example").header(CONTENT_TYPE, "application/json");
        let status = request.body(CALL).send().await.expect("an answer").status();
        assert_eq!(status, 403, "{method} {path}");
    }
    assert_eq!(server.runs("a"), 0);
}

#[tokio::test]
async fn configuration_is_shown_as_loaded_without_the_values_of_variables() {
    let server = server();
    let registry =
        Registry::new().http("one", &server.url()).with("headers: {X-Key: \"${DASHBOARD_KEY}\", X: canary}");
    let gateway = Gateway::of(&registry).env("DASHBOARD_KEY", "canary-of-the-environment").start().await;
    let shown = gateway.get("/configuration").await;
    assert!(!shown.body.contains("canary"), "{}", shown.body);
    let headers = shown.json()["configuration"]["mcp_servers"]["one"]["headers"].clone();
    assert_eq!(headers, serde_json::json!({"X-Key": "${DASHBOARD_KEY}", "X": "***"}));
    let longer = registry.with("description: new").yaml();
    gateway.rewrite(&longer);
    assert_eq!(gateway.post("/reload", "").await.status, 200);
    let after = gateway.get("/configuration").await.json();
    assert_eq!(after["configuration"]["mcp_servers"]["one"]["description"], "new", "{after}");
}
