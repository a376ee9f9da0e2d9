//! Every route with every kind of credential: only requests that the table of roles allows are
//! accepted, and no other request reaches a server.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Answer, Client, Gateway, Registry, api_keys};

const SECRET: &str = "a secret that is used by this test and by nobody else";
const READER_KEY: &str = "swy_reader_0123456789abcdef0123456789abcdef0123456789abcdef";
const CALLER_KEY: &str = "swy_caller_00ff11ee22dd33cc44bb55aa66998877ffeeddccbbaa9988";
const SUPERUSER_KEY: &str = "swy_super_fedcba9876543210fedcba9876543210fedcba9876543210";
const EXPIRED_KEY: &str = "swy_old_00112233445566778899aabbccddeeff0011223344556677";

/// A header to send, or a query to append.
#[derive(Debug, Clone)]
pub enum Credential {
    None,
    Header(&'static str, String),
    Two(String, String),
    Query(String),
}

pub fn bearer(token: &str) -> Credential {
    Credential::Header("authorization", format!("Bearer {token}"))
}

/// The role that a route needs, by the table of roles.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Needs {
    Reader,
    Caller,
    Superuser,
}

const REST: [(&str, &str, Needs); 13] = [
    ("GET", "/servers", Needs::Reader),
    ("GET", "/servers/one", Needs::Reader),
    ("GET", "/servers/one/tools", Needs::Reader),
    ("GET", "/tools", Needs::Reader),
    ("GET", "/health", Needs::Reader),
    ("GET", "/circuit-breakers", Needs::Reader),
    ("POST", "/call", Needs::Caller),
    ("POST", "/circuit-breakers/one/reset", Needs::Superuser),
    ("POST", "/servers/one/reconnect", Needs::Superuser),
    ("POST", "/servers/one/disable", Needs::Superuser),
    ("POST", "/servers/one/enable", Needs::Superuser),
    ("POST", "/servers/one/tools/approve?current=true", Needs::Superuser),
    ("POST", "/reload", Needs::Superuser),
];

async fn started(auth: &str) -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url()).setting(&format!("server:\n{auth}"));
    let gateway = Gateway::of(&registry).env("TEST_JWT_SECRET", SECRET).start().await;
    (gateway, server)
}

async fn with_keys() -> (Running, Server) {
    let keys = api_keys(&[
        (READER_KEY, "role: reader"),
        (CALLER_KEY, "role: caller"),
        (SUPERUSER_KEY, "role: superuser"),
        (EXPIRED_KEY, "role: superuser, expires: 2020-01-01"),
    ]);
    started(&format!("  {{{keys}}}")).await
}

async fn with_tokens() -> (Running, Server) {
    let jwt = "  auth_mode: jwt\n  jwt:\n    issuer: https://issuer.example\n    audience: switchyard\n    algorithm: HS256\n    secret: ${TEST_JWT_SECRET}\n";
    started(jwt).await
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

pub fn claims(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = json!({"iss": "https://issuer.example", "aud": "switchyard", "sub": "ada",
        "exp": now() + 600, "role": "superuser"});
    change(&mut claims);
    claims
}

pub fn signed(claims: &Value, secret: &str) -> String {
    let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&jsonwebtoken::Header::default(), claims, &key).expect("a token")
}

pub fn by_hand(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(header), part(claims))
}

/// Sends one request with `credential`.
async fn ask(
    gateway: &Running,
    credential: &Credential,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let url = match credential {
        Credential::Query(query) => gateway.url(&format!("{path}?{query}")),
        _ => gateway.url(path),
    };
    let client = match credential {
        Credential::Header(name, value) => gateway.mcp().to(&url).with_header(name, value),
        Credential::Two(token, key) => gateway
            .mcp()
            .to(&url)
            .with_header("authorization", &format!("Bearer {token}"))
            .with_header("x-api-key", key),
        Credential::None | Credential::Query(_) => gateway.mcp().to(&url),
    };
    match method {
        "POST" => client.post(body, headers).await,
        other => client.bare(other.parse().expect("a method"), headers).await,
    }
}

async fn rest(gateway: &Running, credential: &Credential, (method, route, _): (&str, &str, Needs)) -> Answer {
    let body = if route == "/call" { r#"{"tool":"a","arguments":{}}"# } else { "" };
    ask(gateway, credential, method, &format!("/api/v1/mcp{route}"), body, &[]).await
}

/// Sends requests to every MCP entry: lists, calls, handshakes, streams, the end of a session, and
/// one server alone.
async fn mcp(gateway: &Running, credential: &Credential) -> Vec<(String, Answer)> {
    let client = Client::at("http://unused");
    let mut answers = Vec::new();
    for path in ["/mcp", "/mcp/one"] {
        for (method, params) in [
            ("tools/list", "{}"),
            ("tools/call", r#"{"name":"a","arguments":{}}"#),
            ("server/discover", "{}"),
        ] {
            let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
            headers.extend((method == "tools/call").then_some(("mcp-name", "a")));
            let answer =
                ask(gateway, credential, "POST", path, &client.modern_body(method, params), &headers).await;
            answers.push((format!("{method} at {path}"), answer));
        }
        let hello = client.envelope(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
        );
        answers.push((
            format!("initialize at {path}"),
            ask(gateway, credential, "POST", path, &hello, &[]).await,
        ));
        for method in ["GET", "DELETE"] {
            let session = [
                ("mcp-session-id", "guess"),
                ("mcp-protocol-version", "2025-11-25"),
                ("accept", "text/event-stream"),
            ];
            let answer = ask(gateway, credential, method, path, "", &session).await;
            answers.push((format!("{method} at {path}"), answer));
        }
    }
    let said = client.envelope("tools/call", r#"{"name":"a"}"#);
    let answer = ask(gateway, credential, "POST", "/messages", &said, &[]).await;
    answers.push(("a message of the old transport".into(), answer));
    answers
}

/// Returns the answers of every protected route over REST and MCP.
pub async fn every_route(gateway: &Running, credential: &Credential) -> Vec<(String, Answer)> {
    let mut answers = mcp(gateway, credential).await;
    for route in REST {
        answers.push((format!("{route:?}"), rest(gateway, credential, route).await));
    }
    for path in ["/sse", "/sse/one"] {
        let answer = ask(gateway, credential, "GET", path, "", &[("accept", "text/event-stream")]).await;
        answers.push((path.to_owned(), answer));
    }
    answers
}

async fn nothing_gets_through(gateway: &Running, server: &Server, credential: &Credential) {
    let before = server.runs("a");
    for (what, answer) in every_route(gateway, credential).await {
        assert!(matches!(answer.status, 401 | 403), "{credential:?} {what}: {answer:?}");
        assert!(answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")), "{answer:?}");
    }
    assert_eq!(server.runs("a"), before, "{credential:?} reached the server");
}

async fn gets_what_the_table_allows(
    gateway: &Running,
    server: &Server,
    credential: &Credential,
    role: Needs,
) {
    for route in REST {
        let answer = rest(gateway, credential, route).await;
        let allowed = role >= route.2;
        assert_eq!(answer.status, if allowed { 200 } else { 403 }, "{route:?}: {answer:?}");
    }
    for (what, answer) in mcp(gateway, credential).await {
        let is_call = what.starts_with("tools/call");
        if is_call && role == Needs::Reader {
            assert!(!answer.body.contains("\"result\""), "{what}: {answer:?}");
            assert!(answer.body.contains("\"error\""), "{what}: {answer:?}");
        } else {
            assert!(!matches!(answer.status, 401 | 403), "{what}: {answer:?}");
        }
    }
    let expected = if role >= Needs::Caller { 3 } else { 0 };
    assert_eq!(server.runs("a"), expected, "REST once and MCP twice, or never");
}

// RULES S1
#[tokio::test]
async fn the_description_of_the_api_opens_in_a_browser_and_nothing_else_does() {
    let (gateway, _server) = with_keys().await;
    let nobody =
        async |method, path: &str| gateway.mcp().to(&gateway.url(path)).bare(method, &[]).await.status;
    for path in ["/docs", "/docs/", "/docs/swagger-ui-bundle.js", "/openapi.json"] {
        assert_eq!(nobody(http::Method::GET, path).await, 200, "{path}");
        assert_eq!(nobody(http::Method::POST, path).await, 401, "{path}");
    }
    for path in
        ["/docsx", "/docs.json", "/openapi", "/openapi.json/x", "/metrics", "/api/v1/mcp/servers", "/mcp"]
    {
        assert_eq!(nobody(http::Method::GET, path).await, 401, "{path}");
    }
    assert_eq!(nobody(http::Method::GET, "/docs/../api/v1/mcp/servers").await, 401, "the client resolves it");
    assert_eq!(nobody(http::Method::GET, "/docs/%2e%2e/api/v1/mcp/servers").await, 401, "and this");
}

#[tokio::test]
async fn api_keys_that_are_not_good_open_nothing() {
    let (gateway, server) = with_keys().await;
    let last = |key: &str| format!("{}{}", &key[..key.len() - 1], if key.ends_with('0') { '1' } else { '0' });
    for credential in [
        Credential::None,
        bearer(""),
        bearer("swy_nobody_0123456789abcdef0123456789abcdef0123456789abcdef"),
        bearer(&last(SUPERUSER_KEY)),
        bearer(&SUPERUSER_KEY[..SUPERUSER_KEY.len() - 1]),
        bearer(&SUPERUSER_KEY.to_uppercase()),
        bearer(&SUPERUSER_KEY.replace("super", "reader")),
        bearer(EXPIRED_KEY),
        bearer(&signed(&claims(|_| ()), SECRET)),
        Credential::Header("x-api-key", last(SUPERUSER_KEY)),
        Credential::Header("authorization", format!("Basic {SUPERUSER_KEY}")),
        Credential::Two(SUPERUSER_KEY.to_owned(), READER_KEY.to_owned()),
        Credential::Query(format!("access_token={SUPERUSER_KEY}")),
        Credential::Query(format!("api_key={SUPERUSER_KEY}")),
    ] {
        nothing_gets_through(&gateway, &server, &credential).await;
    }
}

// RULES S1
#[tokio::test]
async fn tokens_that_are_not_good_open_nothing() {
    let (gateway, server) = with_tokens().await;
    let good = claims(|_| ());
    let parts: Vec<String> = signed(&good, SECRET).split('.').map(str::to_owned).collect();
    let without =
        |claim: &str| claims(|claims| drop(claims.as_object_mut().expect("an object").remove(claim)));
    let none = json!({"alg": "none", "typ": "JWT"});
    for credential in [
        Credential::None,
        bearer("not.a.token"),
        bearer(&by_hand(&none, &good, "")),
        bearer(&by_hand(&none, &good, &parts[2])),
        bearer(&by_hand(&json!({"alg": "NONE"}), &good, "")),
        bearer(&by_hand(&json!({"alg": "HS512"}), &good, &parts[2])),
        bearer(&format!("{}.{}.", parts[0], parts[1])),
        bearer(&signed(&good, "another secret, as long as the good one is, and longer")),
        bearer(&signed(&good, "")),
        bearer(&signed(&claims(|claims| claims["exp"] = (now() - 600).into()), SECRET)),
        bearer(&signed(&claims(|claims| claims["nbf"] = (now() + 600).into()), SECRET)),
        bearer(&signed(&claims(|claims| claims["iss"] = "https://evil.example".into()), SECRET)),
        bearer(&signed(&claims(|claims| claims["aud"] = "another".into()), SECRET)),
        bearer(&signed(&claims(|claims| claims["role"] = "root".into()), SECRET)),
        bearer(&signed(&without("exp"), SECRET)),
        bearer(&signed(&without("iss"), SECRET)),
        bearer(&signed(&without("aud"), SECRET)),
        bearer(&signed(&without("sub"), SECRET)),
        bearer(&signed(&without("role"), SECRET)),
        bearer(SUPERUSER_KEY),
        Credential::Query(format!("access_token={}", signed(&good, SECRET))),
        Credential::Header("authorization", signed(&good, SECRET)),
    ] {
        nothing_gets_through(&gateway, &server, &credential).await;
    }
}

// RULES S1
#[tokio::test]
async fn good_credentials_open_what_their_role_allows() {
    let of = |role: &str| signed(&claims(|claims| claims["role"] = role.into()), SECRET);
    for (role, key, token) in [
        (Needs::Reader, READER_KEY, of("reader")),
        (Needs::Caller, CALLER_KEY, of("caller")),
        (Needs::Superuser, SUPERUSER_KEY, of("superuser")),
    ] {
        for as_key_header in [false, true] {
            let (gateway, server) = with_keys().await;
            let credential =
                if as_key_header { Credential::Header("x-api-key", key.to_owned()) } else { bearer(key) };
            gateway.offers_to("a", &format!("Bearer {key}")).await;
            gets_what_the_table_allows(&gateway, &server, &credential, role).await;
        }
        let (gateway, server) = with_tokens().await;
        gateway.offers_to("a", &format!("Bearer {token}")).await;
        gets_what_the_table_allows(&gateway, &server, &bearer(&token), role).await;
    }
}

/// A client that knows only the URL is refused, finds the metadata, and there the issuer of tokens.
#[tokio::test]
async fn a_client_without_a_token_finds_the_issuer_of_tokens() {
    let (gateway, server) = with_tokens().await;
    let expired = signed(&claims(|claims| claims["exp"] = (now() - 600).into()), SECRET);
    for (path, credential) in [
        ("/mcp", Credential::None),
        ("/mcp/one", Credential::None),
        ("/mcp", bearer(&expired)),
        ("/api/v1/mcp/call", Credential::None),
    ] {
        let refused = ask(&gateway, &credential, "POST", path, "{}", &[]).await;
        assert_eq!(refused.status, 401, "{refused:?}");
        let challenge = refused.header("www-authenticate").expect("a challenge").to_owned();
        let is_told_why = matches!(credential, Credential::Header(..));
        assert_eq!(challenge.contains("error=\"invalid_token\""), is_told_why, "{challenge}");
        let (_, url) = challenge.split_once("resource_metadata=\"").expect("where to look");
        let url = url.trim_end_matches('"');
        let found = Client::at(url).bare(http::Method::GET, &[]).await;
        assert_eq!(found.status, 200, "{url}: {found:?}");
        let (document, resource) = (found.json(), if path.starts_with("/mcp") { path } else { "" });
        assert_eq!(document["resource"], gateway.url(resource), "{url}");
        assert_eq!(document["authorization_servers"], json!(["https://issuer.example"]), "{url}");
        let as_head = Client::at(url).bare(http::Method::HEAD, &[]).await;
        assert_eq!((as_head.status, as_head.body.as_str()), (200, ""));
    }
    assert_eq!(server.runs("a"), 0);
    // API keys do not come from an authorization server.
    let (gateway, _server) = with_keys().await;
    let refused = ask(&gateway, &Credential::None, "POST", "/mcp", "{}", &[]).await;
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    let missing = gateway.mcp().to(&gateway.url("/.well-known/oauth-protected-resource/mcp"));
    assert_eq!(missing.bare(http::Method::GET, &[]).await.status, 404);
}

#[tokio::test]
async fn secrets_and_credentials_appear_nowhere() {
    let (gateway, _server) = with_tokens().await;
    let token = signed(&claims(|_| ()), SECRET);
    let credential = bearer(&token);
    let mut seen = String::new();
    for route in REST {
        seen.push_str(&rest(&gateway, &credential, route).await.body);
        seen.push_str(&rest(&gateway, &bearer(&format!("{token}x")), route).await.body);
    }
    seen.push_str(&gateway.log().iter().map(ToString::to_string).collect::<String>());
    assert!(!seen.contains(SECRET) && !seen.contains(&token), "a secret was shown");
}
