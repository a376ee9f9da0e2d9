//! Metrics of the listener: refused requests and current clients are counted.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Client, Gateway, Registry, Running, eventually};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;

/// Returns the metrics as `client` sees them.
async fn metrics(client: &Client, gateway: &Running) -> String {
    client.to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body
}

/// Waits until the metrics contain each of `lines`.
async fn counted(client: &Client, gateway: &Running, lines: &[&str]) {
    eventually(&format!("{lines:?} in the metrics"), async || {
        let text = metrics(client, gateway).await;
        lines.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_sessions_and_bodies_beyond_their_limits_are_counted() {
    let server = Scripted::modern().tool(Tool::named("slow").does(Act::Hang)).start();
    let limits = "server: {max_sessions: 1, max_connections: 2, max_body_bytes: 1024}";
    let registry = Registry::new().http("one", &server.url()).setting(limits);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["slow"]).await;
    let client = gateway.mcp();
    let none = ["switchyard_clients 0", "switchyard_sessions 0", "switchyard_panics_total 0"];
    counted(&client, &gateway, &none).await;

    let session = client.legacy().await;
    let stream = session.client.listen().await;
    assert_eq!(client.post(INITIALIZE, &[]).await.status, 503, "one session and no more");
    let lines = [
        "switchyard_clients 1",
        "switchyard_sessions 1",
        r#"switchyard_limit_hits_total{limit="max_sessions"} 1"#,
        r#"switchyard_limit_hits_total{limit="max_connections"} 0"#,
    ];
    counted(&client, &gateway, &lines).await;

    {
        let params = json!({"name": "slow"});
        let meanwhile = async {
            eventually("it runs", async || (server.runs("slow") == 1).then_some(())).await;
            assert_eq!(client.call("slow", json!({})).await.status, 503, "two clients and no more");
            let line = r#"switchyard_limit_hits_total{limit="max_connections"} 1"#;
            counted(&client, &gateway, &["switchyard_clients 2", line]).await;
        };
        tokio::select! {
            _ = client.modern_stream("tools/call", &params) => panic!("it does not answer"),
            () = meanwhile => {}
        }
    }
    let long = "x".repeat(2000);
    assert_eq!(client.post(&long, &[]).await.status, 413);
    drop(stream);
    assert_eq!(session.delete().await.status, 204);
    let lines = [
        "switchyard_clients 0",
        "switchyard_sessions 0",
        r#"switchyard_limit_hits_total{limit="max_body_bytes"} 1"#,
    ];
    counted(&client, &gateway, &lines).await;
}

#[tokio::test]
async fn sockets_beyond_their_limit_are_counted() {
    let gateway = Gateway::of(&Registry::new().setting("server: {max_sockets: 4}")).start().await;
    let client = gateway.mcp();
    // It keeps its socket, and three more are accepted.
    counted(&client, &gateway, &["switchyard_client_sockets 1"]).await;
    let address = gateway.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let open = async || TcpStream::connect(&address).await.expect("the system connects");
    let held = [open().await, open().await, open().await];
    counted(&client, &gateway, &["switchyard_client_sockets 4"]).await;

    let mut refused = open().await;
    tokio::io::AsyncWriteExt::write_all(&mut refused, b"GET / HTTP/1.1\r\n\r\n").await.expect("it is read");
    let mut told = String::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), refused.read_to_string(&mut told)).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    let line = r#"switchyard_limit_hits_total{limit="max_sockets"} 1"#;
    counted(&client, &gateway, &["switchyard_client_sockets 4", line]).await;
    drop(held);
    counted(&client, &gateway, &["switchyard_client_sockets 1", line]).await;
}
