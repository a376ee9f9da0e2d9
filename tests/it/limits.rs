//! Metrics of the listener: refused requests and current clients are counted.

use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    const SOCKETS: usize = 4;
    let server = Scripted::modern().tool(Tool::named("hang").does(Act::Hang)).start();
    let limit = format!("server: {{max_sockets: {SOCKETS}}}");
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).setting(&limit)).start().await;
    gateway.offers(&["hang"]).await;
    let client = gateway.mcp();
    // Connections that wait for their client would give their sockets to the one that is refused here.
    let calls = join_all((0..SOCKETS).map(|_| client.call("hang", json!({}))));
    let meanwhile = async {
        eventually("all run", async || (server.runs("hang") == SOCKETS).then_some(())).await;
        let mut refused = TcpStream::connect(&gateway.address).await.expect("the system connects");
        refused.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("it is read");
        let mut told = String::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), refused.read_to_string(&mut told)).await;
        assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    };
    tokio::select! {
        answers = calls => panic!("they do not answer: {answers:?}"),
        () = meanwhile => {}
    }
    // The first requests for the metrics may be refused too, until the sockets of the calls are closed.
    eventually("the refused socket is counted", async || {
        let asked = client.to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
        let is_counted = asked.lines().any(|line| {
            let count = line.strip_prefix(r#"switchyard_limit_hits_total{limit="max_sockets"} "#);
            count.is_some_and(|count| count != "0")
        });
        (is_counted && asked.lines().any(|line| line == "switchyard_client_sockets 1")).then_some(())
    })
    .await;
}
