//! Tests of the metadata: its issuer and resource, and the URL in refusals.

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::Config;
use crate::guard::Guard;
use crate::http_service::HttpService;
use settings::{FromSetting, Node, Problems, Setting};

const PRM: &str = "/.well-known/oauth-protected-resource";

/// Creates a gateway with these settings; `jwt` is added to the required ones.
fn door(settings: &Value, jwt: Option<Value>) -> Router {
    let mut settings = settings.clone();
    if let Some(more) = jwt {
        let mut jwt = json!({"issuer": "https://login.example/", "audience": "switchyard", "algorithm": "HS256",
            "secret": "a secret that is used by this test and by nobody else"});
        jwt.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        (settings["auth_mode"], settings["jwt"]) = ("jwt".into(), jwt);
    }
    door_of(&settings, |_| {})
}

/// Creates a gateway with these settings, whose guard is changed by `with`.
fn door_of(settings: &Value, with: impl FnOnce(&Guard)) -> Router {
    let (node, problems) = (Node::from(settings.clone()), Problems::default());
    let config = Config::from_setting(&Setting::root(&node, &problems)).expect("a mapping");
    assert!(problems.is_empty(), "{:?}", problems.sorted());
    let guard = Guard::new(&config).expect("no key files");
    with(&guard);
    HttpService::new(guard, Router::new().route("/mcp", get(|| async {}))).into_router()
}

async fn ask(door: &Router, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    door.clone().oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible")
}

async fn document(door: &Router, path: &str, host: &str) -> Value {
    // Forwarding headers of a proxy or a client have no effect.
    let forwarded = [
        ("host", host),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "gopher"),
        ("forwarded", "host=evil.example;proto=gopher"),
    ];
    let response = ask(door, "GET", &format!("{PRM}{path}"), &forwarded).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

async fn challenge(door: &Router, path: &str, headers: &[(&str, &str)]) -> Option<String> {
    let response = ask(door, "GET", path, headers).await;
    response.headers().get("www-authenticate").map(|how| how.to_str().expect("text").to_owned())
}

const LOCAL: (&str, &str) = ("host", "localhost:8080");

#[tokio::test]
async fn the_document_names_the_issuer_for_each_endpoint() {
    let door = door(&json!({}), Some(json!({})));
    for path in ["", "/", "/mcp", "/mcp/", "/mcp/files", "/mcp/files/", "/sse", "/sse/two%20words"] {
        assert_eq!(
            document(&door, path, "LocalHost:8080").await,
            json!({"resource": format!("http://localhost:8080{path}"), "resource_name": "Switchyard",
                "authorization_servers": ["https://login.example/"], "bearer_methods_supported": ["header"]})
        );
    }
    let long = format!("/mcp/{}", "a".repeat(129));
    for path in ["//", "/mcp//", "/mcp/a/b", "/mcpx", "/api/v1/mcp", "/mcp/a%22;b", &long] {
        let response = ask(&door, "GET", &format!("{PRM}{path}"), &[LOCAL]).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn configured_public_url_overrides_the_host() {
    let hosts = json!({"allowed_hosts": ["gw.example", "localhost"]});
    let public = json!({"allowed_hosts": ["localhost"], "public_url": "https://example.org/tools/"});
    for (settings, jwt, host, resource, url) in [
        (&hosts, json!({}), "gw.example", "http://gw.example/mcp", "http://gw.example"),
        (&public, json!({}), "localhost", "https://example.org/tools/mcp", "https://example.org/tools"),
        (
            &hosts,
            json!({"audience": "https://gw.example/mcp"}),
            "gw.example",
            "https://gw.example/mcp",
            "https://gw.example",
        ),
        (
            &hosts,
            json!({"audience": "https://api.example"}),
            "gw.example",
            "https://api.example",
            "http://gw.example",
        ),
        (
            &public,
            json!({"audience": "https://api.example"}),
            "localhost",
            "https://api.example",
            "https://example.org/tools",
        ),
    ] {
        let door = door(settings, Some(jwt.clone()));
        let document = document(&door, "/mcp", host).await;
        assert_eq!(document["resource"], resource, "{settings} {jwt}");
        let challenge = challenge(&door, "/mcp", &[("host", host)]).await;
        assert_eq!(challenge.expect("one"), format!("Bearer resource_metadata=\"{url}{PRM}/mcp\""));
    }
}

#[tokio::test]
async fn scopes_are_named_where_they_give_the_role() {
    for (jwt, scopes) in [
        (json!({"role_claim": "scope"}), json!(["reader", "caller", "superuser"])),
        (json!({"role_claim": "role"}), Value::Null),
        (json!({}), Value::Null),
    ] {
        assert_eq!(document(&door(&json!({}), Some(jwt)), "", "localhost").await["scopes_supported"], scopes);
    }
}

#[tokio::test]
async fn a_refusal_leads_to_the_document_of_its_endpoint() {
    let door = door(&json!({}), Some(json!({})));
    for (path, of) in [
        ("/mcp", "/mcp"),
        ("/mcp/files", "/mcp/files"),
        ("/mcp/", "/mcp/"),
        ("/mcp//", "/mcp"),
        ("/mcp/files/", "/mcp/files/"),
        ("/mcp/%22,x=%22", "/mcp"),
        ("/mcp/\"x", "/mcp"),
        ("/sse/files", "/sse/files"),
        ("/messages?session_id=1", "/sse"),
        ("/api/v1/mcp/tools", ""),
        ("/nowhere", ""),
    ] {
        let url = format!("resource_metadata=\"http://localhost:8080{PRM}{of}\"");
        assert_eq!(challenge(&door, path, &[LOCAL]).await.expect("one"), format!("Bearer {url}"), "{path}");
        let bad = [LOCAL, ("authorization", "Bearer not.a.token")];
        let expected = format!("Bearer error=\"invalid_token\", {url}");
        assert_eq!(challenge(&door, path, &bad).await.expect("one"), expected, "{path}");
    }
}

#[tokio::test]
async fn it_is_public_and_the_door_is_still_a_door() {
    let door = door(&json!({}), Some(json!({})));
    let answer = ask(&door, "GET", PRM, &[LOCAL]).await;
    let header = |answer: &Response, name| {
        answer.headers().get(name).map(|text| text.to_str().expect("text").to_owned())
    };
    assert_eq!(header(&answer, "cache-control").as_deref(), Some("public, max-age=300"));
    assert_eq!(header(&answer, "content-type").as_deref(), Some("application/json"));
    assert_eq!(
        (header(&answer, "vary").as_deref(), header(&answer, "access-control-allow-origin")),
        (Some("origin"), None)
    );
    let length = header(&answer, "content-length");
    let whole = answer.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(length, Some(whole.len().to_string()));
    let head = ask(&door, "HEAD", PRM, &[LOCAL, ("authorization", "Bearer not.a.token")]).await;
    assert_eq!((head.status(), header(&head, "content-length")), (StatusCode::OK, length));
    assert!(head.into_body().collect().await.expect("a body").to_bytes().is_empty());
    let page = ask(&door, "GET", PRM, &[LOCAL, ("origin", "http://localhost:5173")]).await;
    assert_eq!(header(&page, "access-control-allow-origin").as_deref(), Some("http://localhost:5173"));
    for (method, headers, status) in [
        ("GET", &[("host", "evil.example")][..], StatusCode::FORBIDDEN),
        ("GET", &[LOCAL, ("origin", "https://evil.example")], StatusCode::FORBIDDEN),
        ("GET", &[LOCAL, ("content-length", "9999999999")], StatusCode::PAYLOAD_TOO_LARGE),
        ("POST", &[LOCAL], StatusCode::UNAUTHORIZED),
    ] {
        let refused = ask(&door, method, PRM, headers).await;
        assert_eq!(refused.status(), status, "{method} {headers:?}");
        let names_us = header(&refused, "www-authenticate").is_some();
        assert_eq!(names_us, status == StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn there_is_none_where_nobody_could_be_named() {
    let keys = json!([{"id": "ci", "hash": format!("sha256:{}", "0".repeat(64)), "role": "reader"}]);
    let keys = json!({"auth_mode": "api_key", "api_keys": keys, "public_url": "https://gw.example"});
    for (settings, jwt) in
        [(json!({}), None), (keys, None), (json!({}), Some(json!({"issuer": "switchyard"})))]
    {
        let is_open = settings.get("auth_mode").is_none() && jwt.is_none();
        let door = door(&settings, jwt);
        for path in [PRM.to_owned(), format!("{PRM}/mcp")] {
            let answer = ask(&door, "GET", &path, &[LOCAL]).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{settings}");
        }
        let plain = (!is_open).then_some("Bearer");
        assert_eq!(challenge(&door, "/mcp", &[LOCAL]).await.as_deref(), plain, "{settings}");
    }
}

/// The authorization server of the gateway, without any key.
struct OwnIssuer;

impl auth::TokenIssuer for OwnIssuer {
    fn issuer(&self) -> &'static str {
        "https://gw.example/tools"
    }

    fn key(&self, _: &str) -> Option<jsonwebtoken::DecodingKey> {
        None
    }

    fn may_grant(&self, _: &str, _: auth::Role) -> bool {
        false
    }

    fn has_grant<'a>(&'a self, _: &'a str) -> futures_util::future::BoxFuture<'a, Option<bool>> {
        Box::pin(async { Some(false) })
    }
}

#[tokio::test]
async fn own_authorization_server_is_named_first_and_gives_tokens_for_each_endpoint() {
    let keys = json!([{"id": "ci", "hash": format!("sha256:{}", "0".repeat(64)), "role": "reader"}]);
    let jwt = json!({"issuer": "https://login.example/", "audience": "https://gw.example/other", "algorithm": "HS256",
        "secret": "a secret that is used by this test and by nobody else", "roles_claim": "scope"});
    let public =
        json!({"public_url": "https://gw.example/tools/", "allowed_hosts": ["localhost"], "api_keys": keys});
    for (mode, servers, scopes) in [
        ("api_key", json!(["https://gw.example/tools"]), json!(["mcp:read", "mcp:call"])),
        (
            "any",
            json!(["https://gw.example/tools", "https://login.example/"]),
            json!(["mcp:read", "mcp:call", "reader", "caller", "superuser"]),
        ),
    ] {
        let mut settings = public.clone();
        settings["auth_mode"] = mode.into();
        if mode == "any" {
            settings["jwt"] = jwt.clone();
        }
        let door = door_of(&settings, |guard| guard.authenticator().accept_tokens_of(Arc::new(OwnIssuer)));
        for path in ["", "/mcp", "/mcp/files", "/sse", "/sse/two%20words"] {
            let document = document(&door, path, "localhost:8080").await;
            assert_eq!(document["resource"], format!("https://gw.example/tools{path}"));
            assert_eq!(
                (&document["authorization_servers"], &document["scopes_supported"]),
                (&servers, &scopes)
            );
        }
        let place =
            format!("scope=\"mcp:call\", resource_metadata=\"https://gw.example/tools{PRM}/mcp/files\"");
        let plain = challenge(&door, "/mcp/files", &[LOCAL]).await;
        assert_eq!(plain, Some(format!("Bearer {place}")));
        let bad = challenge(&door, "/mcp/files", &[LOCAL, ("authorization", "Bearer swy_ci_0")]).await;
        assert_eq!(bad, Some(format!("Bearer error=\"invalid_token\", {place}")));
    }
}

#[test]
fn a_public_url_is_one_that_a_client_can_use() {
    for (text, read) in [
        ("https://gw.example", Some("https://gw.example")),
        ("https://gw.example/", Some("https://gw.example")),
        ("http://[::1]:8080/a/b//", Some("http://[::1]:8080/a/b")),
        ("gw.example", None),
        ("ftp://gw.example", None),
        ("HTTPS://gw.example", None),
        ("https://", None),
        ("https://me@gw.example", None),
        ("https://gw.example?x", None),
        ("https://gw.example/?x", None),
        ("https://gw.example/#x", None),
        ("https://gw.example/\"", None),
        ("https://gw.example/a b", None),
    ] {
        assert_eq!(parse_public_url(text).as_deref(), read, "{text}");
    }
}

#[tokio::test]
async fn a_listener_with_tls_is_named_by_https() {
    let tls = json!({"tls": {"cert": "cert.pem", "key": "key.pem"}});
    let door = door(&tls, Some(json!({})));
    assert_eq!(document(&door, "/mcp", "localhost:8443").await["resource"], "https://localhost:8443/mcp");
}

#[tokio::test]
async fn a_token_without_a_role_is_told_the_scope_to_request() {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    for (jwt, expected) in [
        (json!({"roles_claim": "scope"}), Some("caller")),
        (
            json!({"roles_claim": "scope", "role_map": {"mcp:call": "caller", "x": "reader"}}),
            Some("mcp:call"),
        ),
        (json!({"roles_claim": "scope", "role_map": {"a\"b": "caller"}}), None),
        (json!({"roles_claim": "groups"}), None),
    ] {
        let door = door(&json!({}), Some(jwt));
        let claims = json!({"iss": "https://login.example/", "aud": "switchyard", "sub": "a", "exp": since + 600,
            "scope": "openid"});
        let token = signed(&claims);
        let headers = [("host", "localhost"), ("authorization", token.as_str())];
        let challenge = challenge(&door, "/mcp", &headers).await.expect("a challenge");
        let scope = expected.map(|scope| format!(" scope=\"{scope}\",")).unwrap_or_default();
        let rest = "resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(challenge, format!("Bearer error=\"insufficient_scope\",{scope} {rest}"));
    }
}

fn signed(claims: &Value) -> String {
    let key =
        jsonwebtoken::EncodingKey::from_secret(b"a secret that is used by this test and by nobody else");
    let token = jsonwebtoken::encode(&jsonwebtoken::Header::default(), claims, &key).expect("signs");
    format!("Bearer {token}")
}
