//! The limit of clients: a refused client does not affect the others.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

/// Whether an error says that all `most` slots are taken.
fn is_full(data: &Value, most: u64) -> bool {
    data["max_connections"] == most && data["current_connections"] == most && data["retry_after_ms"] == 5000
}

#[tokio::test]
async fn sessions_and_requests_without_one_share_the_places() {
    let server = Scripted::modern()
        .tool(Tool::named("echo").does(Act::Echo))
        .tool(Tool::named("slow").does(Act::Slow(Duration::from_mins(1))))
        .start();
    let registry = Registry::new().http("one", &server.url()).setting("server: {max_connections: 2}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["echo", "slow"]).await;
    let call = json!({"tool": "echo", "arguments": {"x": 1}}).to_string();

    // Each has two sockets: one for calls, and one for messages outside of calls.
    let (one, two) = (gateway.mcp().legacy().await, gateway.mcp().legacy().await);
    let (_hears, _hears_too) = (one.client.listen().await, two.client.listen().await);
    let refused = gateway.mcp().post(INITIALIZE, &[]).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
    let error = &refused.json()["error"]["data"];
    assert!(error["type"] == "connection_limit_exceeded" && is_full(error, 2), "{error}");
    assert_eq!(error["retry_after_seconds"], 5, "the specification names it: {error}");
    let modern = gateway.mcp().call("echo", json!({"x": 1})).await;
    assert!(modern.status == 503 && is_full(&modern.json()["error"]["data"], 2), "{modern:?}");
    assert_eq!(modern.json()["error"]["data"]["retry_after_seconds"], 5, "{modern:?}");
    let rest = gateway.post("/call", &call).await;
    assert_eq!((rest.status, rest.header("retry-after")), (503, Some("5")), "{rest:?}");
    assert!(rest.json()["code"] == "too_many_connections" && is_full(&rest.json(), 2), "{rest:?}");

    for session in [&one, &two] {
        assert_eq!(session.call("echo", json!({"x": 1})).await.text(), r#"{"x":1}"#, "they notice nothing");
    }
    assert_eq!(gateway.get("/servers").await.status, 200, "operators see what is up");
    assert_eq!(gateway.mcp().modern("tools/list", json!({})).await.status, 200, "lists are answered at once");

    // A free slot is given to a request while it runs.
    assert_eq!(two.delete().await.status, 204);
    assert_eq!(gateway.post("/call", &call).await.status, 200);
    let (asking, params) = (gateway.mcp(), json!({"name": "slow"}));
    {
        let slow = asking.modern_stream("tools/call", &params);
        let meanwhile = async {
            eventually("it runs", async || (server.runs("slow") == 1).then_some(())).await;
            assert_eq!(gateway.post("/call", &call).await.status, 503, "one session, one request");
        };
        tokio::select! {
            _ = slow => panic!("it does not answer"),
            () = meanwhile => {}
        }
    }
    eventually("its place is free", async || {
        (gateway.post("/call", &call).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(gateway.mcp().call("echo", json!({"x": 1})).await.text(), r#"{"x":1}"#);
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
