//! Servers that flood or hang: how much the calls to other servers slow down.
//!
//! The gateway has one worker here, so that the server that floods and the one that is called share it. Each figure is
//! a ratio within one run: the same calls with and without the flood, in turns, median of three rounds.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::flooding::Flooding;
use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// How long the server that does not flood takes for a call.
const SERVICE: Duration = Duration::from_millis(40);
const ONE_WORKER: &str = "server: {workers: 1}";
const MODERN: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];
/// An event that is passed on to the caller.
const LOG_LINE: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n";
/// An event that belongs to no call.
const STRAY: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"none\",\"progress\":1}}\n\n";
const COMMENT: &str = ": nothing to say\n";

fn call(tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// A call of `tool` whose client reads nothing and stays until it is dropped.
async fn unread(gateway: &Running, tool: &str) -> TcpStream {
    let (body, headers) =
        (call(tool), "content-type: application/json\r\naccept: application/json, text/event-stream");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{headers}\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(&gateway.address).await.expect("it listens");
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.expect("it reads");
    socket
}

/// Medians of the time that a call of `steady` and a probe take.
#[derive(Debug, Clone, Copy)]
struct Times {
    call: Duration,
    probe: Duration,
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}

async fn measure(gateway: &Running) -> Times {
    let mut line = Line::to(&gateway.address);
    let (mut calls, mut probes) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let asked = Instant::now();
        let headers = [&MODERN[..], &[("mcp-name", "steady")]].concat();
        let told = line.post("/mcp", &headers, call("steady").as_bytes()).await;
        assert_eq!(told.status, 200, "{told:?}");
        calls.push(asked.elapsed());
        for _ in 0..3 {
            let asked = Instant::now();
            assert_eq!(line.send("GET", "/health/live", &[], b"").await.status, 200);
            probes.push(asked.elapsed());
        }
    }
    Times { call: median(calls), probe: median(probes) }
}

/// Returns how many times longer calls and probes take beside `floods` calls of servers that send `event` endlessly.
async fn slowdown(event: &str, floods: usize) -> (f64, Times) {
    let steady = Scripted::modern().tool(Tool::named("steady").does(Act::Slow(SERVICE))).start();
    let names: Vec<String> = (0..floods).map(|number| format!("flood{number}")).collect();
    let servers: Vec<Flooding> = names.iter().map(|name| Flooding::start(name, event)).collect();
    let registry = Registry::new().setting(ONE_WORKER).http("steady", &steady.url());
    let registry =
        names.iter().zip(&servers).fold(registry, |all, (name, server)| all.http(name, &server.url()));
    let gateway = Gateway::of(&registry).start().await;
    let tools: Vec<&str> = names.iter().map(String::as_str).chain(["steady"]).collect();
    gateway.offers(&tools).await;
    measure(&gateway).await; // all is loaded and connected
    let (mut ratios, mut during) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let before = measure(&gateway).await;
        let mut sockets = Vec::new();
        for (name, server) in names.iter().zip(&servers) {
            let sent = server.sent();
            sockets.push(unread(&gateway, name).await);
            eventually("the flood has begun", async || (server.sent() > sent).then_some(())).await;
        }
        let beside = measure(&gateway).await;
        drop(sockets);
        ratios.push(beside.call.as_secs_f64() / before.call.as_secs_f64());
        during.push((beside.call, beside.probe));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let sent: u64 = servers.iter().map(Flooding::sent).sum();
    eprintln!(
        "{floods} floods of {event:?}, {} MB: calls at {ratios:.2?}, (call, probe) {during:?}",
        sent >> 20
    );
    let (call, probe) =
        (median(during.iter().map(|one| one.0).collect()), median(during.iter().map(|one| one.1).collect()));
    ratios.sort_by(f64::total_cmp);
    (ratios[1], Times { call, probe })
}

#[tokio::test]
async fn endless_event_streams_take_only_their_share_of_a_worker() {
    for (event, floods) in [(LOG_LINE, 1), (LOG_LINE, 4), (COMMENT, 4)] {
        let (ratio, times) = slowdown(event, floods).await;
        assert!(ratio <= 2.0, "{floods} floods of {event:?}: calls take {ratio} times as long");
        assert!(times.probe <= SERVICE / 2, "{floods} floods of {event:?}: probes take {:?}", times.probe);
    }
}

/// Starts a child that writes `line` endlessly from its first call on: to standard output or standard error.
async fn child_that_floods(flag: &str, line: &str) -> (Running, f64, Times) {
    let steady = Scripted::modern().tool(Tool::named("steady").does(Act::Slow(SERVICE))).start();
    let registry = Registry::new()
        .setting(ONE_WORKER)
        .http("steady", &steady.url())
        .child("noisy", &["--tools", "noisy", flag, line]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["steady", "noisy"]).await;
    measure(&gateway).await; // all is loaded and connected
    let before = measure(&gateway).await;
    gateway.call("noisy", "noisy", json!({})).await;
    let beside = measure(&gateway).await;
    let ratio = beside.call.as_secs_f64() / before.call.as_secs_f64();
    eprintln!("{flag} {line:?}: calls at {ratio:.2}, probes {:?}, before {before:?}", beside.probe);
    // The server `steady` ends here, before the gateway, which no longer calls it.
    (gateway, ratio, beside)
}

#[tokio::test]
async fn children_that_write_without_end_take_only_their_share_and_are_ended() {
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    for (flag, line) in
        [("--flood", "not a message"), ("--flood", notice), ("--flood-errors", "trouble"), ("--flood", " ")]
    {
        let (gateway, ratio, times) = child_that_floods(flag, line).await;
        assert!(ratio <= 2.0, "{flag} {line:?}: calls take {ratio} times as long");
        assert!(times.probe <= SERVICE / 2, "{flag} {line:?}: probes take {:?}", times.probe);
        if line == "not a message" {
            ended_for_flooding(&gateway, "noisy").await;
        }
    }
}

/// Waits until the list of servers and the log say why the connection of `server` was closed.
async fn ended_for_flooding(gateway: &Running, server: &str) {
    const REASON: &str = "too many messages that belong to no call";
    let started = Instant::now();
    eventually("the connection is ended", async || {
        let servers = gateway.get("/servers").await.body;
        servers.contains(REASON).then_some(())
    })
    .await;
    gateway.logs(&format!("why {server} was closed"), |line| line.to_string().contains(REASON)).await;
    eprintln!("{server} was closed {:.1} s later", started.elapsed().as_secs_f64());
}

#[tokio::test]
async fn an_event_stream_of_junk_is_ended_with_a_reason() {
    let server = Flooding::start("flood", STRAY);
    let gateway =
        Gateway::of(&Registry::new().setting(ONE_WORKER).http("flood", &server.url())).start().await;
    gateway.offers(&["flood"]).await;
    let _socket = unread(&gateway, "flood").await;
    ended_for_flooding(&gateway, "flood").await;
    eprintln!("it had sent {} kB", server.sent() >> 10);
}

#[tokio::test]
async fn floods_on_the_streams_of_older_connections_are_ended_and_take_only_their_share() {
    for kind in ["session", "HTTP+SSE"] {
        let steady = Scripted::modern().tool(Tool::named("steady").does(Act::Slow(SERVICE))).start();
        let registry = Registry::new().setting(ONE_WORKER).http("steady", &steady.url());
        let (server, registry) = if kind == "session" {
            let server = Flooding::session("flood", STRAY);
            let registry = registry.http("flood", &server.url());
            (server, registry)
        } else {
            let server = Flooding::sse("flood", STRAY);
            let registry = registry.sse("flood", &server.url());
            (server, registry)
        };
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["flood", "steady"]).await;
        measure(&gateway).await; // all is loaded and connected
        let before = measure(&gateway).await;
        let _socket = unread(&gateway, "flood").await;
        eventually("the flood has begun", async || (server.sent() > 0).then_some(())).await;
        let beside = measure(&gateway).await;
        let ratio = beside.call.as_secs_f64() / before.call.as_secs_f64();
        eprintln!("{kind}: calls at {ratio:.2}, probes {:?}, before {:?}", beside.probe, before.probe);
        assert!(ratio <= 2.0, "{kind}: calls take {ratio} times as long");
        assert!(beside.probe <= SERVICE / 2, "{kind}: probes take {:?}", beside.probe);
        ended_for_flooding(&gateway, "flood").await;
    }
}
