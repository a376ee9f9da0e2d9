//! Endless answers: Switchyard reads only up to its limits, and the memory use stays bounded.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::support::line::Line;
use crate::support::{Gateway, Registry, Running};
use testkit::served::Served;

/// The limit of a message. The rules allow further memory for reading one.
const CAP: usize = 1 << 20;

/// Returns how much `call` raises the peak memory of the program, in MiB. A call as large as the limit must run before:
/// memory that it brings into use stays.
async fn growth(gateway: &Running, call: impl AsyncFnOnce()) -> u64 {
    let before = gateway.peak_memory();
    call().await;
    gateway.peak_memory().saturating_sub(before) >> 20
}

/// A server whose tool answers with an event of the requested size in MiB.
fn events() -> Router {
    let answer = async |body: String| -> Response {
        let request: Value = serde_json::from_str(&body).expect("a message");
        let json = |result: Value| {
            let text = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            Response::builder()
                .header("content-type", "application/json")
                .body(Body::from(text))
                .expect("an answer")
        };
        match request["method"].as_str() {
            Some("server/discover") => {
                json(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}))
            }
            Some("tools/list") => json(json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}],
                "resultType": "complete", "ttlMs": 0, "cacheScope": "public"})),
            _ => {
                let count = request["params"]["arguments"]["mib"].as_u64().expect("how many");
                let piece = Bytes::from(vec![b'x'; 1 << 20]);
                let pieces = stream::iter((0..count).map(move |_| Ok::<_, std::io::Error>(piece.clone())));
                let begin = stream::iter([Ok(Bytes::from_static(b"data: "))]);
                let end = stream::iter([Ok(Bytes::from_static(b"\n\n"))]);
                let body = Body::from_stream(begin.chain(pieces).chain(end));
                Response::builder().header("content-type", "text/event-stream").body(body).expect("an answer")
            }
        }
    };
    Router::new().route("/mcp", post(answer))
}

/// RULES R17: an event of 256 MiB costs no more memory than the cap and 4 MiB.
#[tokio::test]
async fn an_event_of_256_mib_costs_what_the_cap_costs() {
    let served = Served::start(events());
    let registry = Registry::new()
        .http("one", &format!("{}/mcp", served.url()))
        .with(&format!("limits: {{message_bytes: {CAP}}}"));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let call = async |mib: u64| {
        let answer = gateway.call("one", "a", json!({"mib": mib})).await;
        assert!(answer.status != 200 && answer.status < 600, "{answer:?}");
    };
    call(2).await;
    let grown = growth(&gateway, async || call(256).await).await;
    assert!(grown <= (CAP >> 20) as u64 + 4, "{grown} MiB");
}

/// RULES R18: a line of 1 GiB from a child, which is never completely in memory, costs at most 20 MiB, and the child's
/// next line is read.
#[tokio::test]
async fn a_line_of_1_gib_costs_little_and_ends_nothing() {
    let script = r#"
        say() { printf '%s\n' "$1"; }
        while read -r line; do
            id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
            case $line in
                *server/discover*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"public\"}}" ;;
                *tools/list*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"a\",\"inputSchema\":{\"type\":\"object\"}}],\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"public\"}}" ;;
                *huge*) head -c 1073741824 /dev/zero; echo; say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"resultType\":\"complete\"}}" ;;
                *tools/call*) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[],\"resultType\":\"complete\"}}" ;;
            esac
        done"#;
    let registry =
        Registry::new().command("one", "sh", &["-c", &script.replace('$', "$$")]).with("timeout: 120");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let call = async |what: &str| {
        let body = json!({"server": "one", "tool": "a", "arguments": {"what": what}}).to_string();
        let told = Line::to(&gateway.address).post("/api/v1/mcp/call", &[], body.as_bytes()).await;
        assert!(told.status == 200 && told.body.contains("content"), "{told:?}");
    };
    call("small").await;
    let grown = growth(&gateway, async || call("huge").await).await;
    assert!(grown <= 20, "{grown} MiB");
    tokio::time::timeout(Duration::from_secs(20), call("small")).await.expect("it goes on");
}
