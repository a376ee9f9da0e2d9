//! Floods: bodies that are expensive to parse, and more sessions and streams than the limits allow.

use std::fmt::Write as _;

use http::Method;
use serde_json::json;

use crate::support::line::Line;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Client, Gateway, Registry, Running, eventually};

/// Reads a number from the metrics.
async fn metric(gateway: &Running, name: &str) -> u64 {
    let text = gateway.mcp().to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
}

/// Bodies of a megabyte that a careless parser expands to far more memory.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    const SIZE: usize = 1 << 20;
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{arguments}}}}}"#
        )
    };
    let members = (0..SIZE / 12).fold(String::new(), |mut text, number| {
        write!(text, "\"{number}\":0,").expect("a string");
        text
    });
    vec![
        ("open arrays", "[".repeat(SIZE).into_bytes()),
        ("open objects", r#"{"a":"#.repeat(SIZE / 5).into_bytes()),
        ("nested arguments", call(&format!("{}{}", "[".repeat(SIZE / 2), "]".repeat(SIZE / 2))).into_bytes()),
        (
            "nested objects",
            call(&format!("{}1{}", r#"{"a":"#.repeat(SIZE / 6), "}".repeat(SIZE / 6))).into_bytes(),
        ),
        ("empty arrays", format!("[{}[]]", "[],".repeat(SIZE / 3)).into_bytes()),
        (
            "a batch",
            format!("[{}1]", r#"{"jsonrpc":"2.0","id":1,"method":"ping"},"#.repeat(SIZE / 41)).into_bytes(),
        ),
        ("a string without an end", format!("{{\"a\":\"{}", "x".repeat(SIZE)).into_bytes()),
        ("escapes without an end", format!("{{\"a\":\"{}", "\\u0061".repeat(SIZE / 6)).into_bytes()),
        ("one member many times", format!("{{{}\"id\":1}}", "\"id\":1,".repeat(SIZE / 7)).into_bytes()),
        ("members of the envelope", format!("{{{members}\"id\":1}}").into_bytes()),
        ("a long number", format!("{{\"id\":{}}}", "9".repeat(SIZE)).into_bytes()),
        (
            "a long method",
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "m".repeat(SIZE)).into_bytes(),
        ),
        ("no text", vec![0xff; SIZE]),
        ("zeros", vec![0; SIZE]),
    ]
}

/// RULES S12: such bodies at every endpoint, at once: they are refused as the client's error, with little memory and no
/// panic.
#[tokio::test]
async fn bombs_are_refused_and_cost_little() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let before = gateway.peak_memory();
    let modern = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "a")];
    let packed = [("content-encoding", "gzip")];
    let ways: [(&str, &[(&str, &str)]); 4] =
        [("/mcp", &[]), ("/mcp/one", &modern), ("/api/v1/mcp/call", &[]), ("/mcp", &packed)];
    for (what, bomb) in bombs() {
        let throw = async |(path, headers)| Line::to(&gateway.address).post(path, headers, &bomb).await;
        for told in futures_util::future::join_all(ways.map(throw)).await {
            assert!((400..500).contains(&told.status), "{what}: {told:?}");
        }
    }
    let grown = gateway.peak_memory().saturating_sub(before) >> 20;
    assert!(grown <= 256, "{grown} MiB");
    assert_eq!(metric(&gateway, "switchyard_panics_total").await, 0);
    assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
    assert_eq!(server.runs("a"), 1, "and no bomb got there");
}

/// RULES S13: 10,000 sessions with a limit of 500, and their streams: the rest is refused, and afterwards everything is
/// released.
#[tokio::test]
async fn sessions_and_streams_stop_at_their_limit_and_leave_nothing_behind() {
    const ROOM: usize = 500;
    const STREAMS: usize = 100;
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let limits = format!("server: {{max_sessions: {ROOM}, max_connections: 20000}}");
    let registry = Registry::new().http("one", &server.url()).setting(&limits);
    let gateway = Gateway::of(&registry).dumpable().start().await;
    gateway.offers(&["a"]).await;
    let before = gateway.descriptors();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let (mut line, mut sessions) = (Line::to(&gateway.address), Vec::new());
    for _ in 0..10_000 {
        let told = line.post("/mcp", &[], hello.as_bytes()).await;
        match told.header("mcp-session-id") {
            Some(id) => sessions.push(id.to_owned()),
            None => assert_eq!(told.status, 503, "{told:?}"),
        }
    }
    assert_eq!(sessions.len(), 10_000, "each unused session gives up its slot");
    let sessions = sessions.split_off(sessions.len() - ROOM);
    assert_eq!(metric(&gateway, "switchyard_sessions").await, ROOM as u64);
    // A separate client, so that dropping it closes these connections.
    let (client, mut streams) = (Client::at(&gateway.url("/mcp")), Vec::new());
    for id in &sessions[..STREAMS] {
        streams.push(client.clone().with_header("mcp-session-id", id).listen().await);
    }
    assert!(gateway.descriptors() > before + STREAMS / 2, "{} and before {before}", gateway.descriptors());
    for id in &sessions {
        let told = line.send("DELETE", "/mcp", &[("mcp-session-id", id)], b"").await;
        assert_eq!(told.status, 204, "{told:?}");
    }
    for mut stream in streams {
        while stream.next().await.is_some() {}
    }
    drop((line, client));
    eventually("nothing is left of them", async || {
        let sessions = metric(&gateway, "switchyard_sessions").await;
        (sessions == 0 && gateway.descriptors() <= before + 4).then_some(())
    })
    .await;
    assert!(gateway.mcp().legacy().await.call("a", json!({})).await.status == 200);
}
