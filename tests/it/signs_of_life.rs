//! Messages of a server keep its call alive: `timeout` is the time without one, `max_timeout` the end.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::client::{MODERN, client_info};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Answer, Gateway, Registry, Running};

const EVERY: Duration = Duration::from_millis(300);

/// A tool that sends `count` messages, 300 ms apart, and then echoes.
fn paced(name: &str, count: usize, message: &Value) -> Tool {
    Tool::named(name).does(Act::Paced(EVERY, vec![message.to_string(); count], Box::new(Act::Echo)))
}

fn progress() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress",
           "params": {"progressToken": "$TOKEN", "progress": 1}})
}

fn log_line() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "at it"}})
}

fn calling(tool: &str) -> Value {
    json!({"name": tool, "arguments": {"x": 1}, "_meta": {"progressToken": "mine"}})
}

/// Parameters of a call with a progress token, as 2026-07-28 requires them.
fn calling_modern(tool: &str) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": client_info(),
        "progressToken": "mine",
    });
    json!({"name": tool, "arguments": {"x": 1}, "_meta": meta})
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let started = Instant::now();
    let output = work.await;
    (output, started.elapsed().as_secs_f64())
}

async fn behind(server: &Server, lines: &[&str]) -> Running {
    let registry = Registry::new().http("one", &server.url()).with("timeout: 1").with("retry_attempts: 0");
    let registry = lines.iter().fold(registry, |registry, line| registry.with(line));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    gateway
}

async fn failures(gateway: &Running) -> Value {
    gateway.get("/circuit-breakers").await.json()["circuit_breakers"][0]["failure_count"].clone()
}

#[tokio::test]
async fn progress_keeps_a_call_alive_over_every_transport_and_between_eras() {
    let server = |scripted: Scripted, name| scripted.tool(paced(name, 8, &progress())).start();
    let modern = server(Scripted::modern(), "modern");
    let (legacy, sse) = (server(Scripted::legacy(), "legacy"), server(Scripted::sse(), "sse"));
    let registry = Registry::new().http("m", &modern.url()).http("l", &legacy.url()).sse("s", &sse.url());
    let registry = registry.child("p", &["--tools", "paced"]);
    let gateway = Gateway::of(&registry.setting("default_timeout: 1")).start().await;
    let tools = ["modern", "legacy", "sse", "paced"];
    gateway.offers(&tools).await;
    let (session, client) = (gateway.mcp().legacy().await, gateway.mcp());
    let from_legacy = tools[..3].iter().map(|tool| timed(session.request("tools/call", calling(tool))));
    let from_modern = tools.iter().map(|tool| timed(client.modern("tools/call", calling_modern(tool))));
    let (from_legacy, from_modern) = tokio::join!(join_all(from_legacy), join_all(from_modern));
    for (answer, took) in from_legacy.into_iter().chain(from_modern) {
        eprintln!("with `timeout: 1` a call of 2.7 s with progress took {took:.1} s");
        assert_eq!(answer.text(), r#"{"x":1}"#, "{answer:?}");
        assert_eq!(answer.notifications().len(), 8);
        assert!(took > 2.0);
    }
}

#[tokio::test]
async fn a_call_without_a_token_is_cut_and_told_of_the_setting() {
    let server = Scripted::modern().tool(paced("a", 8, &progress())).start();
    let gateway = behind(&server, &[]).await;
    let (answer, took) = timed(gateway.mcp().call("a", json!({}))).await;
    eprintln!("cut after {took:.1} s: {}", answer.body);
    assert!((0.9..1.6).contains(&took), "{took}");
    assert!(answer.body.contains("`timeout`") && answer.body.contains("progress"), "{answer:?}");
    let call = server.seen_calling("tools/call").pop().expect("a call");
    assert!(!call.body.contains("progressToken"), "none is made up: {}", call.body);
}

#[tokio::test]
async fn max_timeout_ends_a_call_and_its_server_is_not_blamed() {
    let server = Scripted::modern().tool(paced("a", 20, &progress())).start();
    let gateway = behind(&server, &["max_timeout: 2", "circuit_breaker_threshold: 2"]).await;
    let client = gateway.mcp();
    let calls = (0..3).map(|_| timed(client.modern("tools/call", calling_modern("a"))));
    for (answer, took) in join_all(calls).await {
        eprintln!("with `max_timeout: 2` cut after {took:.1} s");
        assert!((1.9..2.8).contains(&took), "{took}");
        assert!(answer.body.contains("`max_timeout`"), "{answer:?}");
    }
    assert_eq!(failures(&gateway).await, 0);
    assert_eq!(gateway.get("/health").await.json()["servers"][0]["healthy"], true);
}

#[tokio::test]
async fn log_lines_keep_a_rest_call_alive_unless_it_names_its_own_timeout() {
    let server = Scripted::legacy().tool(paced("a", 8, &log_line())).start();
    let gateway = behind(&server, &[]).await;
    let (kept, took) = timed(gateway.call("one", "a", json!({}))).await;
    eprintln!("REST without `timeout`: {} after {took:.1} s", kept.status);
    assert_eq!((kept.status, took > 2.0), (200, true), "{kept:?}");
    let body = json!({"server": "one", "tool": "a", "arguments": {}, "timeout": 1.5}).to_string();
    let (cut, took): (Answer, f64) = timed(gateway.post("/call", &body)).await;
    eprintln!("REST with `timeout: 1.5`: {} after {took:.1} s", cut.status);
    assert_eq!((cut.status, (1.4..2.1).contains(&took)), (504, true), "{took} {cut:?}");
}

#[tokio::test]
async fn a_silent_server_is_still_blamed() {
    let server = Scripted::modern().tool(Tool::named("a").does(Act::Hang)).start();
    let gateway = behind(&server, &[]).await;
    let (answer, took) = timed(gateway.mcp().modern("tools/call", calling_modern("a"))).await;
    eprintln!("silent: cut after {took:.1} s, {} failure", failures(&gateway).await);
    assert!((0.9..1.6).contains(&took), "{answer:?}");
    assert_eq!(failures(&gateway).await, 1);
}
