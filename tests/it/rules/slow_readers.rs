//! Clients that ask for much and read nothing, over each kind of stream of HTTP/1.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::client::LEGACY;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running};

/// Unread streams of one kind.
const STREAMS: usize = 16;
/// Size of each answer.
const SIZE: usize = 6 << 20;
/// Size of one message of an event stream. Large enough that the bounds in bytes are met before those in number.
const MESSAGE: usize = 16 << 10;
/// Room for the buffers of both sockets, the allocator and the tables of a debug build, in all. With a bound of 16 MiB
/// for what waits, 128 messages of 16 KiB come on top: about 2.9 MiB for each stream.
const SLACK: u64 = 8 << 20;

fn server() -> Server {
    let text = "x".repeat(SIZE);
    let big = format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text}"}}]}}"#);
    let text = "y".repeat(MESSAGE);
    let message = |number: usize| {
        let params = json!({"progressToken": "$TOKEN", "progress": number, "message": text});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
    };
    let messages = (1..=SIZE / MESSAGE).map(message).collect();
    let talks = Act::After(messages, Box::new(Act::Echo));
    Scripted::modern()
        .tool(Tool::named("big").does(Act::Result(big)))
        .tool(Tool::named("talks").does(talks))
        .start()
}

/// A request on a socket of its own that is never read.
async fn unread(
    gateway: &Running,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let address: SocketAddr = gateway.address.parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("set");
    let mut socket = socket.connect(address).await.expect("it listens");
    let lines =
        headers.iter().fold(String::new(), |lines, (name, value)| format!("{lines}{name}: {value}\r\n"));
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n{lines}\r\n");
    socket.write_all(head.as_bytes()).await.expect("it reads");
    socket.write_all(body.as_bytes()).await.expect("it reads");
    socket
}

const STREAM: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

fn params(tool: &str) -> String {
    json!({"name": tool, "_meta": {"progressToken": 7}}).to_string()
}

async fn modern(gateway: &Running, tool: &str) -> TcpStream {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "progressToken": 7,
    });
    let params = json!({"name": tool, "_meta": meta}).to_string();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    let body = gateway.mcp().envelope("tools/call", &params);
    unread(gateway, ("POST", "/mcp"), &[&headers[..], &[STREAM, JSON]].concat(), &body).await
}

/// The call of a session, or the GET stream that resumes it.
async fn legacy(gateway: &Running, tool: &str, resumes: bool) -> TcpStream {
    let session = gateway.mcp().legacy().await;
    let id = session.client.header("mcp-session-id").expect("a session").to_owned();
    let headers = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", LEGACY), STREAM, JSON];
    let body = gateway.mcp().envelope("tools/call", &params(tool));
    if !resumes {
        return unread(gateway, ("POST", "/mcp"), &headers, &body).await;
    }
    let mut stream = unread(gateway, ("POST", "/mcp"), &headers, &body).await;
    let event = first_event(&mut stream).await;
    drop(stream);
    let with_event = [&headers[..], &[("last-event-id", event.as_str())]].concat();
    unread(gateway, ("GET", "/mcp"), &with_event, "").await
}

/// The id of the first event, after which nothing more is read.
async fn first_event(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    while text.split_once("\nid: ").is_none_or(|(_, rest)| !rest.contains('\n')) {
        let mut bytes = [0; 512];
        let length = stream.read(&mut bytes).await.expect("it answers");
        assert!(length > 0, "no event: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    let (_, rest) = text.split_once("\nid: ").expect("just found");
    rest.lines().next().expect("a line").to_owned()
}

/// The stream of the old transport, on which answers come too.
async fn old(gateway: &Running, tool: &str) -> TcpStream {
    let mut events = gateway.mcp().to(&gateway.url("/sse")).listen().await;
    let messages = gateway.mcp().to(&gateway.url(&events.event().await.expect("the first event").data));
    let hello =
        r#"{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"0"}}"#;
    assert_eq!(messages.post(&messages.envelope("initialize", hello), &[]).await.status, 202);
    messages.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
    let body = messages.envelope("tools/call", &params(tool));
    assert_eq!(messages.post(&body, &[]).await.status, 202);
    // Nothing more is read of it while it is held.
    std::mem::forget(events);
    unread(gateway, ("GET", "/health/live"), &[], "").await
}

/// Its resident memory once it has stopped growing for two seconds.
async fn settled(gateway: &Running) -> u64 {
    let (mut peak, mut unchanged) = (gateway.peak_memory(), 0);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = gateway.peak_memory();
        unchanged = if now == peak { unchanged + 1 } else { 0 };
        if unchanged == 2 {
            break;
        }
        peak = now;
    }
    gateway.resident_memory()
}

/// RULES R16: a client that does not read costs at most 1 MiB per stream: JSON answers, event streams of both eras, GET
/// streams, and the old transport.
#[tokio::test]
async fn an_unread_stream_of_any_kind_costs_at_most_a_mebibyte() {
    let server = server();
    let limits = "limits: {message_bytes: 100000000, concurrent_calls: 64}";
    for (kind, tool) in [
        ("JSON answer", "big"),
        ("modern events", "talks"),
        ("session events", "talks"),
        ("session GET", "talks"),
        ("old SSE", "talks"),
    ] {
        let gateway = Gateway::of(&Registry::new().http("one", &server.url()).with(limits)).start().await;
        gateway.offers(&["big", "talks"]).await;
        drop(legacy(&gateway, "big", false).await); // everything is warm
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = gateway.resident_memory();
        let mut held = Vec::new();
        for _ in 0..STREAMS {
            held.push(match kind {
                "session events" => legacy(&gateway, tool, false).await,
                "session GET" => legacy(&gateway, tool, true).await,
                "old SSE" => old(&gateway, tool).await,
                _ => modern(&gateway, tool).await,
            });
        }
        let grown = settled(&gateway).await.saturating_sub(before);
        let each = grown / STREAMS as u64;
        eprintln!("{kind}: {STREAMS} unread streams of {} MiB, {} KiB each", SIZE >> 20, each >> 10);
        assert!(grown <= (STREAMS as u64) * (1 << 20) + SLACK, "{kind}: {grown} bytes");
    }
}
