//! Whether everything that leaves is charged to the memory budget: the bytes that live are those of the metric.
//!
//! A client reads nothing, so its answer lives in the gateway until it leaves. Answers are larger than what the kernel
//! takes. A server of either era makes them, an edit on the way, or the cache. They leave as JSON, as an event, or as a
//! record that can be read again.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::bulk::{BOTH, LARGE, MIB, MOST, NO_HISTORY, peak, silent, unread};
use crate::support::client::{MODERN, Session};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running};

/// The length of the text in one answer.
const TEXT: usize = 4 * MIB;
/// The length of the text in a result that is cached: the cache takes results of 1 MiB at most.
const CACHED: usize = 900_000;
/// The envelope, and messages that are too small to be charged.
const BESIDE: u64 = 16 * 1024;
/// The most of a result that is in memory while it is passed on as it arrives. It may arrive at once.
const PASSING: u64 = TEXT as u64 + BESIDE;
/// How often each method is called at a server.
const TIMES: usize = 4;
/// A server request is not among the methods, so each server is asked for these.
const METHODS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

fn text() -> String {
    "x".repeat(TEXT)
}

/// A server of one era. Its names end with `mark`. The first tool answers at once, the second one after a notification.
fn server(is_modern: bool, mark: &str) -> Server {
    let more = if is_modern { r#","resultType":"complete""# } else { "" };
    let cached = if is_modern { r#","ttlMs":0,"cacheScope":"private""# } else { "" };
    let text = text();
    // Legacy clients get the structured content as an object.
    let result =
        format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":[1]{more}}}"#);
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}"#;
    let later = Act::After(vec![progress.to_owned()], Box::new(Act::Result(result.clone())));
    let prompt =
        format!(r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"{text}"}}}}]{more}}}"#);
    let resource = format!(r#"{{"contents":[{{"uri":"memo:{mark}","text":"{text}"}}]{more}{cached}}}"#);
    let completion = format!(r#"{{"completion":{{"values":["{text}"]}}{more}}}"#);
    let server = if is_modern { Scripted::modern() } else { Scripted::legacy() };
    server
        .tool(Tool::named(&format!("once_{mark}")).does(Act::Result(result)))
        .tool(Tool::named(&format!("later_{mark}")).does(later))
        .offers("prompts", &format!(r#"[{{"name":"p_{mark}"}}]"#))
        .offers("resources", &format!(r#"[{{"uri":"memo:{mark}","name":"r"}}]"#))
        .answers("prompts/get", vec![prompt; TIMES])
        .answers("resources/read", vec![resource; TIMES])
        .answers("completion/complete", vec![completion; TIMES])
        .start()
}

/// The parameters of `method` at the server of `mark`, and the name that a modern client repeats in a header.
fn params(method: &str, tool: &str, mark: &str) -> (Value, String) {
    let token = json!({"progressToken": 7});
    match method {
        "tools/call" => {
            let name = format!("{tool}_{mark}");
            (json!({"name": name, "arguments": {}, "_meta": token}), name)
        }
        "prompts/get" => (json!({"name": format!("p_{mark}")}), format!("p_{mark}")),
        "resources/read" => (json!({"uri": format!("memo:{mark}")}), format!("memo:{mark}")),
        _ => {
            let reference = json!({"type": "ref/prompt", "name": format!("p_{mark}")});
            (json!({"ref": reference, "argument": {"name": "a", "value": ""}}), String::new())
        }
    }
}

/// Sends a request of a modern client.
async fn modern(gateway: &Running, method: &str, (mut params, name): (Value, String)) -> TcpStream {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "a", "version": "1"});
    let name = if name.is_empty() { name } else { format!("mcp-name: {name}\r\n") };
    let headers = format!("{BOTH}mcp-protocol-version: {MODERN}\r\nmcp-method: {method}\r\n{name}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    unread(&gateway.address, "/mcp", &headers, body.as_bytes()).await
}

/// Sends a request of a legacy client, which takes the answer in the form that `accept` prefers.
async fn legacy(
    gateway: &Running,
    session: &Session,
    accept: &str,
    method: &str,
    params: &Value,
) -> TcpStream {
    let id = session.client.header("mcp-session-id").expect("a session");
    let headers = format!("{accept}mcp-session-id: {id}\r\nmcp-protocol-version: {}\r\n", session.version);
    let number = std::time::UNIX_EPOCH.elapsed().expect("a time").as_micros();
    let number = u64::try_from(number % 1_000_000_000).expect("few digits");
    let body = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).to_string();
    unread(&gateway.address, "/mcp", &headers, body.as_bytes()).await
}

/// Waits until the used bytes of the memory budget match `expected`, for at most 5 s, and returns them.
async fn used(gateway: &Running, expected: impl Fn(u64) -> bool) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let metrics = gateway.mcp().to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("switchyard_memory_used_bytes "));
        let used: u64 = line.expect("a metric").parse().expect("a number");
        if expected(used) || Instant::now() > deadline {
            return used;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that the answers which wait on `sockets` are charged with `live` bytes, and with none afterwards.
async fn charged(gateway: &Running, way: &str, sockets: Vec<TcpStream>, live: u64) {
    let is_live = |used: u64| (live..=live + BESIDE).contains(&used);
    let held = used(gateway, is_live).await;
    eprintln!("{way}: {held} bytes charged of {live}");
    assert!(is_live(held), "{way}: {held} bytes charged of {live}");
    released(gateway, way, sockets).await;
}

/// Asserts that a result which is passed on while it arrives is charged with what is in memory.
async fn passed(gateway: &Running, way: &str, socket: TcpStream) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    let held = used(gateway, |used| (1..=PASSING).contains(&used)).await;
    eprintln!("{way}: {held} bytes charged while it is passed on");
    assert!((1..=PASSING).contains(&held), "{way}: {held}");
    released(gateway, way, vec![socket]).await;
}

async fn released(gateway: &Running, way: &str, sockets: Vec<TcpStream>) {
    drop(sockets);
    assert_eq!(used(gateway, |used| used == 0).await, 0, "{way}");
}

async fn started(servers: &[(&str, &Server)]) -> Running {
    let registry = Registry::new().setting(NO_HISTORY);
    let registry = servers.iter().fold(registry, |all, (name, server)| all.http(name, &server.url()));
    let gateway = Gateway::of(&registry).start().await;
    let tools: Vec<String> = servers.iter().map(|(mark, _)| format!("once_{mark}")).collect();
    gateway.offers(&tools.iter().map(String::as_str).collect::<Vec<_>>()).await;
    gateway
}

#[tokio::test]
async fn an_unread_answer_to_a_modern_client_is_charged_whatever_made_it() {
    let (old, new) = (server(false, "old"), server(true, "new"));
    let gateway = started(&[("old", &old), ("new", &new)]).await;
    for mark in ["old", "new"] {
        for method in METHODS {
            for tool in ["once", "later"] {
                if tool == "later" && method != "tools/call" {
                    continue;
                }
                let way = format!("{method} ({tool}) at a server of the {mark} era");
                let socket = modern(&gateway, method, params(method, tool, mark)).await;
                if (mark, tool, method) == ("new", "once", "tools/call") {
                    passed(&gateway, &way, socket).await;
                } else {
                    charged(&gateway, &way, vec![socket], TEXT as u64).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn an_unread_answer_to_a_legacy_client_is_charged_whatever_made_it() {
    let (old, new) = (server(false, "old"), server(true, "new"));
    let gateway = started(&[("old", &old), ("new", &new)]).await;
    let stream = "accept: text/event-stream, application/json\r\n";
    for (mark, method) in ["old", "new"].iter().flat_map(|mark| METHODS.map(|method| (*mark, method))) {
        for (form, accept) in [("JSON", BOTH), ("a stream", stream)] {
            // The record of the session stays after the connection, and ends with the session.
            let session = gateway.mcp().legacy().await;
            let way = format!("{method} at a server of the {mark} era as {form}");
            let (params, _) = params(method, "once", mark);
            let socket = legacy(&gateway, &session, accept, method, &params).await;
            if (mark, form, method) == ("old", "JSON", "tools/call") {
                passed(&gateway, &way, socket).await;
            } else {
                let is_live = |used: u64| (TEXT as u64..=TEXT as u64 + BESIDE).contains(&used);
                let held = used(&gateway, is_live).await;
                eprintln!("{way}: {held} bytes charged");
                assert!(is_live(held), "{way}: {held}");
                session.delete().await;
                released(&gateway, &way, vec![socket]).await;
            }
        }
    }
}

#[tokio::test]
async fn an_unread_answer_over_rest_or_http_with_sse_is_charged_whatever_made_it() {
    let (old, new) = (server(false, "old"), server(true, "new"));
    let gateway = started(&[("old", &old), ("new", &new)]).await;
    for mark in ["old", "new"] {
        for accept in ["application/json", "text/event-stream"] {
            let body = json!({"tool": format!("once_{mark}")}).to_string();
            let headers = format!("accept: {accept}\r\n");
            let socket = unread(&gateway.address, "/api/v1/mcp/call", &headers, body.as_bytes()).await;
            // The text of the tool is in the answer twice: as data and as content. It is charged more while it is made.
            let least = 2 * TEXT as u64;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let way = format!("REST at a server of the {mark} era as {accept}");
            let is_live = |used: u64| (TEXT as u64..=least + BESIDE).contains(&used);
            let held = used(&gateway, is_live).await;
            eprintln!("{way}: {held} bytes charged");
            assert!(is_live(held), "{way}: {held}");
            released(&gateway, &way, vec![socket]).await;
        }
        let head = "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
        let mut stream = silent(&gateway.address, head.as_bytes()).await;
        let session = session_of(&mut stream).await;
        let post = Client::at(&gateway.url(&format!("/messages?session_id={session}")));
        let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"}});
        let (params, _) = params("tools/call", "once", mark);
        for (method, params) in [("initialize", &hello), ("tools/call", &params)] {
            let body = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
            assert_eq!(post.post(&body.to_string(), &[]).await.status, 202);
        }
        charged(&gateway, &format!("HTTP+SSE at a server of the {mark} era"), vec![stream], TEXT as u64)
            .await;
    }
}

/// The session of a stream of HTTP+SSE, from its first event.
async fn session_of(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    loop {
        let mut piece = [0; 256];
        let count = stream.read(&mut piece).await.expect("an event");
        head.push_str(&String::from_utf8_lossy(&piece[..count]));
        if let Some((_, rest)) = head.split_once("session_id=")
            && let Some((session, _)) = rest.split_once(['\r', '\n'])
        {
            return session.to_owned();
        }
    }
}

/// A gateway with a cache of `max_bytes`, and its server with the tool `find`.
async fn caching(max_bytes: usize) -> (Running, Server) {
    let definition =
        json!({"name": "find", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let text = "x".repeat(CACHED);
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{text}"}}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}}"#
    );
    let tool = Tool::defined("find", &definition.to_string()).does(Act::Result(result));
    let server = Scripted::modern().tool(tool).start();
    let registry = Registry::new()
        .http("one", &server.url())
        .with("tools: {cache: {ttl: 60}}")
        .setting(NO_HISTORY)
        .setting(&format!("cache: {{type: memory, max_bytes: {max_bytes}}}"));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["find"]).await;
    (gateway, server)
}

/// The parameters that ask for one of several results.
fn find(number: usize) -> Value {
    json!({"name": "find", "arguments": {"number": number}})
}

#[tokio::test]
async fn answers_from_the_cache_are_charged_once_while_somebody_reads_them() {
    const RESULTS: usize = 3;
    let (gateway, server) = caching(64 * MIB).await;
    let mut sockets = Vec::new();
    for number in 0..RESULTS {
        for _ in 0..3 {
            sockets.push(modern(&gateway, "tools/call", (find(number), "find".to_owned())).await);
            let live = ((number + 1) * CACHED) as u64;
            used(&gateway, |used| used >= live).await;
        }
    }
    assert_eq!(server.runs("find"), RESULTS, "the others came from the cache");
    charged(&gateway, "cached results", sockets, (RESULTS * CACHED) as u64).await;

    let session = gateway.mcp().legacy().await;
    let socket = legacy(&gateway, &session, BOTH, "tools/call", &find(0)).await;
    charged(&gateway, "a cached result for a legacy client", vec![socket], CACHED as u64).await;
}

#[tokio::test]
async fn answers_stay_charged_after_the_cache_has_dropped_them() {
    const RESULTS: usize = 5;
    let (gateway, _server) = caching(2 * MIB).await;
    let mut sockets = Vec::new();
    for number in 0..RESULTS {
        sockets.push(modern(&gateway, "tools/call", (find(number), "find".to_owned())).await);
    }
    charged(&gateway, "results that were cached", sockets, (RESULTS * CACHED) as u64).await;
}

#[tokio::test]
async fn unread_answers_that_were_rewritten_stay_within_the_budget() {
    const CALLERS: usize = 160;
    let text = "x".repeat(LARGE);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let server = Scripted::legacy().tool(Tool::named("large").does(Act::Result(result))).start();
    let registry = Registry::new()
        .http("one", &server.url())
        .setting("server: {memory_budget: 256 MiB}")
        .setting(NO_HISTORY);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["large"]).await;
    let mut sockets = Vec::new();
    for _ in 0..CALLERS {
        let params = json!({"name": "large", "arguments": {}});
        sockets.push(modern(&gateway, "tools/call", (params, "large".to_owned())).await);
    }
    let room = (256 * MIB / 8 * 5) as u64;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let held = used(&gateway, |used| used >= room / 2).await;
    let most = peak(&gateway);
    eprintln!("{CALLERS} callers: {} MiB charged, {most} MiB at most", held >> 20);
    assert!(held >= room / 2 && held <= room, "{held}");
    assert!(most <= MOST, "{most} MiB");
    released(&gateway, "rewritten answers", sockets).await;
}
