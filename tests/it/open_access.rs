//! The two exceptions from "every request has a credential", and the role words of other systems.
//!
//! `allow_unauthenticated` and `anonymous_role` are words in the file; each start names them.

use http::Method;
use serde_json::{Value, json};

use crate::credentials::{claims, signed};
use crate::support::line::Line;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Answer, Gateway, Registry, Running};

const KEYS: &str = "  auth_mode: api_key\n  api_keys:\n    - {id: a, role: caller, hash: \"sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9\"}\n";
const SECRET: &str = "a secret that is used by this test and by nobody else";

fn gateway(server: &Server, settings: &str) -> Gateway {
    let registry = Registry::new().http("one", &server.url()).setting(&format!("server:\n{settings}"));
    Gateway::of(&registry).env("TEST_JWT_SECRET", SECRET)
}

fn server() -> Server {
    Scripted::modern().tool(Tool::named("a")).start()
}

fn warnings(gateway: &Running) -> String {
    let log = gateway.log();
    let warnings = log.iter().filter(|line| line["level"] == "WARN");
    warnings.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

// Issue 18, item 14: before, `allow_unauthenticated` was an unknown key.
#[tokio::test]
async fn an_open_gateway_on_another_address_is_an_explicit_word_that_each_start_names() {
    let server = server();
    let refused = gateway(&server, "  listen: 0.0.0.0:0\n").output(&["serve"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("`allow_unauthenticated: true`"), "{told}");

    let open = "  listen: 0.0.0.0:0\n  allow_unauthenticated: true\n";
    for _ in 0..2 {
        let running = gateway(&server, open).listening_on("0.0.0.0:0").start().await;
        let port = running.address.rsplit(':').next().expect("a port");
        let mut line = Line::to(&format!("127.0.0.1:{port}"));
        assert_eq!(line.send("GET", "/api/v1/mcp/servers", &[], b"").await.status, 200);
        let warnings = warnings(&running);
        assert!(warnings.contains("allow_unauthenticated") && warnings.contains("0.0.0.0"), "{warnings}");
        // Names of other hosts are still refused.
        let mut other = Line::to(&format!("127.0.0.1:{port}"));
        let told = other.send("GET", "http://gateway.example/api/v1/mcp/servers", &[], b"").await;
        assert_eq!(told.status, 403, "{told:?}");
    }
}

#[test]
fn allow_unauthenticated_beside_credentials_is_refused() {
    let told = gateway(&server(), &format!("{KEYS}  allow_unauthenticated: true\n"))
        .output(&["check", "mcp_servers.yaml"]);
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(2), "{text}");
    assert!(text.contains("server.allow_unauthenticated") && text.contains("auth_mode: none"), "{text}");
}

async fn ask(gateway: &Running, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let client = gateway.mcp().to(&gateway.url(path));
    match method {
        Method::POST => client.post(r#"{"tool":"a","arguments":{}}"#, headers).await,
        method => client.bare(method, headers).await,
    }
}

// Issue 18, item 14: before, `anonymous_role` was an unknown key.
#[tokio::test]
async fn anonymous_readers_get_what_readers_get_and_nothing_else() {
    let server = server();
    let running = gateway(&server, &format!("{KEYS}  anonymous_role: reader\n")).start().await;
    let warnings = warnings(&running);
    assert!(warnings.contains("anonymous_role"), "{warnings}");
    for path in [
        "/servers",
        "/servers/one",
        "/servers/one/tools",
        "/tools",
        "/health",
        "/health?check=true",
        "/circuit-breakers",
    ] {
        let answer = ask(&running, Method::GET, &format!("/api/v1/mcp{path}"), &[]).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    assert_eq!(ask(&running, Method::GET, "/metrics", &[]).await.status, 200);
    for (method, path) in [
        (Method::POST, "/api/v1/mcp/call"),
        (Method::POST, "/api/v1/mcp/reload"),
        (Method::POST, "/api/v1/mcp/servers/one/reconnect"),
        (Method::DELETE, "/api/v1/mcp/servers"),
        (Method::POST, "/mcp"),
        (Method::GET, "/mcp"),
        (Method::GET, "/mcp/one"),
        (Method::GET, "/sse"),
    ] {
        let answer = ask(&running, method.clone(), path, &[]).await;
        assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
    }
    // A credential that is not good is no credential less.
    for headers in [[("x-api-key", "swy_a_0")], [("authorization", "Basic eDp5")], [("x-api-key", "")]] {
        let answer = ask(&running, Method::GET, "/api/v1/mcp/servers", &headers).await;
        assert_eq!(answer.status, 401, "{headers:?}: {answer:?}");
    }
    assert!(server.seen_calling("tools/call").is_empty(), "no call reached the server");
}

#[test]
fn an_anonymous_role_needs_credentials_and_is_reader_or_nothing() {
    for (settings, expected) in [
        ("  anonymous_role: reader\n", "auth_mode"),
        (&*format!("{KEYS}  anonymous_role: caller\n"), "`reader`"),
        (&*format!("{KEYS}  anonymous_role: superuser\n"), "`reader`"),
    ] {
        let told = gateway(&server(), settings).output(&["check", "mcp_servers.yaml"]);
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.code() == Some(2) && text.contains(expected), "{settings}: {text}");
    }
}

fn jwt(more: &str) -> String {
    format!(
        "  auth_mode: jwt\n  jwt:\n    issuer: https://issuer.example\n    audience: switchyard\n    \
         algorithm: HS256\n    secret: ${{TEST_JWT_SECRET}}\n{more}"
    )
}

/// The answers to a read, a call and a reset with a token that has `role` in place of the usual claim.
async fn statuses(gateway: &Running, role: Value) -> [u16; 3] {
    let claims = claims(|claims| {
        claims.as_object_mut().expect("an object").remove("role");
        for (name, value) in role.as_object().expect("an object") {
            claims[name] = value.clone();
        }
    });
    let token = format!("Bearer {}", signed(&claims, SECRET));
    let headers = [("authorization", &*token)];
    [
        ask(gateway, Method::GET, "/api/v1/mcp/servers", &headers).await.status,
        ask(gateway, Method::POST, "/api/v1/mcp/call", &headers).await.status,
        ask(gateway, Method::POST, "/api/v1/mcp/circuit-breakers/one/reset", &headers).await.status,
    ]
}

// Issue 18, item 14: before, `roles_claim` and `role_map` were unknown keys.
#[tokio::test]
async fn role_words_of_other_systems_are_mapped() {
    let server = server();
    let map = "    roles_claim: is_superuser\n    role_map: {true: superuser, false: reader}\n";
    let running = gateway(&server, &jwt(map)).start().await;
    running
        .offers_to("a", &format!("Bearer {}", signed(&claims(|c| c["is_superuser"] = true.into()), SECRET)))
        .await;
    for (role, expected) in [
        (json!({"is_superuser": true}), [200, 200, 200]),
        (json!({"is_superuser": false}), [200, 403, 403]),
        (json!({"is_superuser": "superuser"}), [403, 403, 403]),
        (json!({"is_superuser": [1]}), [403, 403, 403]),
        (json!({"is_superuser": {"true": true}}), [403, 403, 403]),
        (json!({"is_superuser": null}), [403, 403, 403]),
        (json!({"role": "superuser"}), [403, 403, 403]),
    ] {
        assert_eq!(statuses(&running, role.clone()).await, expected, "{role}");
    }

    let map = "    roles_claim: realm_access.roles\n    role_map: {mcp-admin: superuser, staff: caller, \"7\": reader}\n";
    let running = gateway(&server, &jwt(map)).start().await;
    let admin = claims(|claims| claims["realm_access"] = json!({"roles": ["mcp-admin"]}));
    running.offers_to("a", &format!("Bearer {}", signed(&admin, SECRET))).await;
    for (role, expected) in [
        (json!({"realm_access": {"roles": ["x", "staff"]}}), [200, 200, 403]),
        (json!({"realm_access": {"roles": ["staff", "mcp-admin"]}}), [200, 200, 200]),
        (json!({"realm_access": {"roles": [7]}}), [200, 403, 403]),
        (json!({"realm_access": {"roles": ["superuser"]}}), [403, 403, 403]),
    ] {
        assert_eq!(statuses(&running, role.clone()).await, expected, "{role}");
    }
}

#[test]
fn tokens_that_switchyard_makes_carry_a_mapped_word() {
    let gateway = gateway(
        &server(),
        &jwt("    roles_claim: groups\n    role_map: {admins: superuser, staff: caller}\n"),
    );
    for (role, code) in [("superuser", Some(0)), ("caller", Some(0)), ("reader", Some(1))] {
        let made = gateway.output(&["token", "--sub", "ada", "--role", role]);
        assert_eq!(made.status.code(), code, "{role}: {}", String::from_utf8_lossy(&made.stderr));
    }
}

#[test]
fn two_names_for_the_claim_and_unknown_roles_are_refused() {
    for (more, expected) in [
        ("    role_claim: a\n    roles_claim: b\n", "`roles_claim`"),
        ("    role_map: {admin: root}\n", "`superuser`"),
        ("    role_map: {}\n", "role_map"),
    ] {
        let told = gateway(&server(), &jwt(more)).output(&["check", "mcp_servers.yaml"]);
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.code() == Some(2) && text.contains(expected), "{more}: {text}");
    }
}
