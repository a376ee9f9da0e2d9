//! Sessions of other principals: every verb and every endpoint treats them as unknown.

use crate::support::gateway::Running;
use crate::support::line::{Line, LineAnswer};
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Client, Gateway, Registry, api_keys};

const KEYS: [&str; 2] = [
    "swy_ada_0123456789abcdef0123456789abcdef0123456789abcdef",
    "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210",
];
/// Sessions of each kind; each is tried with every request.
const SESSIONS: usize = 32;

/// Requests to a session: method, body.
const REQUESTS: [(&str, &str); 8] = [
    ("POST", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
    ("POST", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#),
    ("POST", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
    ("POST", r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#),
    ("POST", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
    ("POST", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#),
    ("GET", ""),
    ("DELETE", ""),
];

async fn started() -> Running {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let server_settings = format!("server: {{{}}}", api_keys(&KEYS.map(|key| (key, "role: superuser"))));
    let registry = Registry::new().http("one", &server.url()).setting(&server_settings);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("a", &format!("Bearer {}", KEYS[0])).await;
    gateway
}

fn holder(gateway: &Running, path: &str, key: &str) -> Client {
    gateway.mcp().to(&gateway.url(path)).with_header("x-api-key", key)
}

/// Sends `request` to the session `id`, and returns the answer without its variable parts.
async fn ask(line: &mut Line, path: &str, request: (&str, &str), id: &str) -> LineAnswer {
    let headers = [("x-api-key", KEYS[1]), ("mcp-session-id", id), ("mcp-protocol-version", "2025-11-25")];
    let mut told = match request {
        ("POST", body) => line.post(path, &headers, body.as_bytes()).await,
        (method, _) => {
            let headers = [&headers[..], &[("accept", "text/event-stream")]].concat();
            line.send(method, path, &headers, b"").await
        }
    };
    let id = told.head.iter().find_map(|line| line.strip_prefix("x-request-id: "));
    told.body = told.body.replace(id.expect("every response has an id"), "ID");
    told.head.retain(|line| !line.starts_with("date: ") && !line.starts_with("x-request-id: "));
    told
}

/// RULES S5: over 1,000 requests to sessions of another principal, or of the same one at another endpoint, while they
/// are in use. Each is answered like a request to an unknown session, and none of the sessions is affected.
#[tokio::test]
async fn a_session_of_somebody_else_is_one_that_never_was() {
    let gateway = started().await;
    let (mut line, mut tries) = (Line::to(&gateway.address), 0);
    for (own, other) in [("/mcp", "/mcp/one"), ("/mcp/one", "/mcp")] {
        // Ada's sessions at the right endpoint; Bob's own sessions at the wrong one.
        for (key, path) in [(KEYS[0], own), (KEYS[1], other)] {
            for _ in 0..SESSIONS {
                let session = holder(&gateway, own, key).legacy().await;
                let id = session.client.header("mcp-session-id").expect("it is named").to_owned();
                let unknown: String = id.chars().rev().collect();
                for request in REQUESTS {
                    let told = ask(&mut line, path, request, &id).await;
                    assert_eq!(told.status, 404, "{request:?} at {path}: {told:?}");
                    let never = ask(&mut line, path, request, &unknown).await;
                    assert_eq!(told, never, "{request:?} at {path} tells that there is such a session");
                    tries += 1;
                }
                let is_there = session.request("tools/list", serde_json::json!({})).await;
                assert_eq!(is_there.status, 200, "{is_there:?}");
            }
        }
    }
    assert!(tries >= 1_000, "{tries}");
}
