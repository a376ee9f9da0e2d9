//! Connections of one principal that fill `max_sockets`: whether clients of another principal are served beside them.
//!
//! The attacker has the API key `other`, with the role caller. It holds sockets with requests, streams and bytes that do
//! not end. Every client that is counted has the key `caller` and comes over a connection of its own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::sockets::{
    ATTACK, BUDGET, CLIENTS, MADE, SOCKETS, bearer, filled, over_many, renewing, served, started, status_of,
};
use crate::support::client::MODERN;
use crate::support::{Client, Running, eventually};

/// Connections that one principal can keep while there is no other one: seven eighths of them.
const SHARE: usize = SOCKETS / 8 * 7;

/// Stands for a status: nothing was received, and the connection is open.
const SILENT: u16 = 0;
/// Stands for a status: the connection was closed without an answer.
const CLOSED: u16 = 1;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const STREAM: &str = "accept: text/event-stream\r\n";
const BOTH: &str = "accept: application/json, text/event-stream\r\n";

fn attacker(gateway: &Running) -> Client {
    gateway.mcp().with_header("authorization", &bearer("other"))
}

/// A GET of the attacker.
fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {}\r\n{headers}\r\n", bearer("other"))
}

/// A POST of the attacker, with a head for `length` bytes.
fn post(path: &str, headers: &str, length: usize, body: &str) -> String {
    let bearer = bearer("other");
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\ncontent-type: application/json\r\n\
         {headers}content-length: {length}\r\n\r\n{body}"
    )
}

/// A modern request of the attacker. `name` is the header `mcp-name`.
fn modern(method: &str, name: &str, params: &Value) -> String {
    let body = Client::at("").modern_body(method, &params.to_string());
    let headers = format!("{BOTH}mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{name}");
    post("/mcp", &headers, body.len(), &body)
}

fn hanging() -> String {
    modern("tools/call", "mcp-name: hang\r\n", &json!({"name": "hang", "arguments": {}}))
}

/// Each way to hold a socket: its name, and the bytes that are sent on it.
fn ways() -> [(&'static str, String); 9] {
    let call = r#"{"tool":"hang","arguments":{}}"#;
    let heard = json!({"notifications": {"toolsListChanged": true}});
    let page = get("/docs/swagger-ui-bundle.js", "");
    [
        ("running calls", hanging()),
        ("running calls over REST", post("/api/v1/mcp/call", "", call.len(), call)),
        ("streams of calls over REST", post("/api/v1/mcp/call", STREAM, call.len(), call)),
        ("streams of events", get("/api/v1/mcp/events", STREAM)),
        ("sessions over HTTP+SSE", get("/sse", STREAM)),
        ("subscriptions", modern("subscriptions/listen", "", &heard)),
        ("bodies that do not end", post("/mcp", BOTH, 9, "1")),
        ("heads that do not end", get("/api/v1/mcp/health", "") + "GET / HTTP/1.1\r\nhost: loc"),
        ("unread answers", page.repeat(4)),
    ]
}

/// The sockets of an attacker that sends `bytes` on each of them, when the last one was answered.
async fn held(gateway: &Running, bytes: &str) -> Vec<TcpStream> {
    let held = filled(gateway, bytes).await;
    // The machine may be busy.
    tokio::time::sleep(Duration::from_secs(1)).await;
    held
}

/// The status that was received on each of `sockets`. [`SILENT`] and [`CLOSED`] stand for none.
fn statuses(sockets: &[TcpStream]) -> Vec<u16> {
    let first = |socket: &TcpStream| {
        let mut head = [0; 12];
        match socket.try_read(&mut head) {
            Ok(12) => std::str::from_utf8(&head[9..]).ok().and_then(|status| status.parse().ok()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Some(SILENT),
            _ => Some(CLOSED),
        }
    };
    sockets.iter().map(|socket| first(socket).expect("HTTP/1.1")).collect()
}

fn count(statuses: &[u16], expected: u16) -> usize {
    statuses.iter().filter(|status| **status == expected).count()
}

/// Counts the new clients that are served while the attacker holds `sockets`, and prints it.
async fn beside(gateway: &Running, way: &str, sockets: &[TcpStream]) -> usize {
    let served = served(gateway).await;
    let statuses = statuses(sockets);
    let (refused, closed) = (count(&statuses, 503), count(&statuses, CLOSED));
    eprintln!(
        "{MADE} sockets with {way}, {refused} refused and {closed} closed: {served} of {CLIENTS} new clients served"
    );
    served
}

#[tokio::test]
async fn one_principal_that_holds_sockets_shuts_out_no_other_one() {
    let mut worst = CLIENTS;
    for (way, bytes) in ways() {
        let (gateway, _server) = started().await;
        let held = held(&gateway, &bytes).await;
        worst = worst.min(beside(&gateway, way, &held).await);
    }
    assert_eq!(worst, CLIENTS);
}

#[tokio::test]
async fn one_principal_that_holds_streams_of_sessions_shuts_out_no_other_one() {
    let (gateway, _server) = started().await;
    let client = attacker(&gateway);
    let mut held = Vec::new();
    for _ in 0..MADE {
        let answer = client.post(INITIALIZE, &[]).await;
        // Beyond its share, it has none.
        let id = answer.header("mcp-session-id").unwrap_or_default();
        let mut socket = TcpStream::connect(&gateway.address).await.expect("the system connects");
        let request = get("/mcp", &format!("{STREAM}mcp-session-id: {id}\r\n"));
        let _ = socket.write_all(request.as_bytes()).await; // it may be refused
        held.push(socket);
    }
    assert_eq!(beside(&gateway, "streams of sessions", &held).await, CLIENTS);
}

#[tokio::test]
async fn one_principal_that_renews_its_connections_shuts_out_no_other_one() {
    let (gateway, _server) = started().await;
    let bytes = hanging().replacen("\r\n", "\r\nconnection: close\r\n", 1);
    let (_attackers, made) = renewing(&gateway, MADE, &bytes);
    let (came, served) = over_many(&gateway, ATTACK).await;
    let connects = made.load(Ordering::Relaxed).min(BUDGET);
    eprintln!(
        "{SOCKETS} sockets with calls, {connects} in {ATTACK:?}: {served} of {came} new clients served"
    );
    assert!(connects > 2 * SOCKETS, "{connects} is no attack");
    assert!(served * 100 >= came * 98, "{served} of {came} new clients");
}

#[tokio::test]
async fn a_principal_that_is_alone_has_seven_eighths_of_the_sockets_and_hears_when_it_has_them() {
    let (gateway, _server) = started().await;
    let held = held(&gateway, &hanging()).await;
    let statuses = statuses(&held);
    assert_eq!(count(&statuses, SILENT), SHARE, "calls run");
    assert_eq!(count(&statuses, 503) + count(&statuses, CLOSED), MADE - SHARE);
    let refused = attacker(&gateway).call("quick", json!({})).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
    let data = &refused.json()["error"]["data"];
    assert_eq!((&data["code"], &data["retryable"]), (&json!("too_many_connections"), &json!(true)));
    assert_eq!((&data["current_connections"], &data["max_connections"]), (&json!(SHARE), &json!(SHARE)));
    assert!(data["detail"].as_str().is_some_and(|text| text.contains("of this principal")), "{data}");

    // As behind a proxy, whose connections carry requests of many.
    let mut socket = TcpStream::connect(&gateway.address).await.expect("it listens");
    for _ in 0..10 {
        assert_eq!(status_of(&mut socket, "other").await, Some(503));
        assert_eq!(status_of(&mut socket, "caller").await, Some(200));
    }
    assert_eq!(attacker(&gateway).to(&gateway.url("/health/live")).bare(Method::GET, &[]).await.status, 200);
    drop(held);
    eventually("its calls have ended", async || {
        (attacker(&gateway).call("quick", json!({})).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn connections_that_wait_for_a_next_request_do_not_count_toward_the_share() {
    let (gateway, _server) = started().await;
    let mut open = Vec::new();
    // The gateway was asked before, over connections that may still be open.
    for _ in 0..SOCKETS - 8 {
        open.push(TcpStream::connect(&gateway.address).await.expect("it listens"));
    }
    for round in 0..2 {
        for socket in &mut open {
            assert_eq!(status_of(socket, "other").await, Some(200), "in round {round}");
        }
    }
}
