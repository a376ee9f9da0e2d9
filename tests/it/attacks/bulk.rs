//! The parts of the attacks on memory: a server with large answers, and clients that do not read them.
//!
//! Not here: what is asserted.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::support::line::Line;
use crate::support::{Gateway, Registry, Running};
use testkit::served::Served;

pub const MIB: usize = 1 << 20;
/// The budget that the gateway is given.
pub const BUDGET: u64 = 256;
/// MiB that the process may hold with it.
pub const MOST: u64 = 320;
/// The size of a large answer.
pub const LARGE: usize = 8 * MIB;

/// The server that the attack uses, and the one of the other clients.
pub struct Servers {
    bulk: Served,
    good: Served,
    hanging: Arc<AtomicUsize>,
}

impl Servers {
    /// Number of large calls that have reached the server whole. They stay unanswered.
    pub fn hanging(&self) -> usize {
        self.hanging.load(Ordering::Relaxed)
    }
}

/// For tests that ask for every byte of the memory budget: the history of calls takes blocks of it.
pub const NO_HISTORY: &str = "history: {calls: 0}";

/// A gateway with a budget of 256 MiB before a server with large answers, and before another one.
pub async fn gateway(servers: &Servers) -> Running {
    gateway_with(servers, Registry::new()).await
}

/// A gateway as [`gateway`] makes it, with the settings of `registry` as well.
pub async fn gateway_with(servers: &Servers, registry: Registry) -> Running {
    let url = |server: &Served| format!("{}/mcp", server.url());
    let mut registry = registry.http("bulk", &url(&servers.bulk)).http("good", &url(&servers.good));
    // For a figure of a version without the setting.
    if std::env::var_os("WITHOUT_BUDGET").is_none() {
        registry = registry.setting(&format!("server: {{memory_budget: {BUDGET} MiB}}"));
    }
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["bulk__json", "good__small"]).await;
    for _ in 0..3 {
        small(&gateway.address).await.expect("it answers");
    }
    gateway
}

/// Starts both: `json` and `events` answer with 8 MiB, `small` with little, `hang` never.
pub fn servers() -> Servers {
    // Only one of them has the resource, or there would be a clash.
    let quiet = async |body: Bytes| {
        let lists = body.windows(15).any(|text| text == b"\"resources/list");
        let id = serde_json::from_slice::<Value>(&body).map(|request| request["id"].clone());
        match id {
            Ok(id) if lists => result(&id, json!({"resources": []})),
            _ => answer(body).await,
        }
    };
    let hanging = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&hanging);
    let bulk = Served::start(Router::new().route("/mcp", post(move |request| received(request, counter))));
    Servers { bulk, good: Served::start(Router::new().route("/mcp", post(quiet))), hanging }
}

/// Answers small requests. A large one is for `hang`: it is read, counted and never answered.
async fn received(request: Request, hanging: Arc<AtomicUsize>) -> Response {
    let (mut size, mut small) = (0, Vec::new());
    let mut pieces = request.into_body().into_data_stream();
    while let Some(Ok(piece)) = pieces.next().await {
        size += piece.len();
        if size <= MIB {
            small.extend_from_slice(&piece);
        }
    }
    if size > MIB {
        hanging.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }
    answer(small.into()).await
}

async fn answer(body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).expect("a message");
    let id = &request["id"];
    match request["method"].as_str().unwrap_or_default() {
        "server/discover" => result(
            id,
            json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}, "resources": {"subscribe": true, "listChanged": true}}}),
        ),
        "tools/list" => {
            let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
            let tools = ["small", "json", "events", "fields", "hang"].map(tool);
            result(id, json!({ "tools": tools }))
        }
        "resources/list" => result(id, json!({"resources": [{"uri": "a://all/", "name": "all"}]})),
        "resources/templates/list" => result(id, json!({"resourceTemplates": []})),
        "subscriptions/listen" => updates(id, &request["params"]["notifications"]),
        "tools/call" => match request["params"]["name"].as_str().unwrap_or_default() {
            "json" => large(id, ""),
            "events" => large(id, "data: "),
            "fields" => fields(),
            "hang" => std::future::pending().await,
            _ => result(id, json!({"content": [{"type": "text", "text": "done"}]})),
        },
        _ => result(id, json!({})),
    }
}

fn result(id: &Value, mut result: Value) -> Response {
    for (name, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("public"))]
    {
        result[name] = value;
    }
    let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    typed("application/json", Body::from(text))
}

fn typed(kind: &str, body: Body) -> Response {
    Response::builder().header("content-type", kind).body(body).expect("an answer")
}

/// An answer of 8 MiB, as an event where a line begins with `field`.
fn large(id: &Value, field: &str) -> Response {
    let head = format!(
        r#"{field}{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","content":[{{"type":"text","text":""#
    );
    let piece = Bytes::from(vec![b'x'; 256 * 1024]);
    let pieces = std::iter::repeat_n(piece, LARGE / (256 * 1024));
    let all = [Bytes::from(head)].into_iter().chain(pieces).chain([Bytes::from_static(b"\"}]}}\n\n")]);
    let body = Body::from_stream(stream::iter(all.map(Ok::<_, std::io::Error>)));
    typed(if field.is_empty() { "application/json" } else { "text/event-stream" }, body)
}

/// The beginning of a stream that stays open: an event whose name and id are 8 MiB each, and the first line of another.
fn fields() -> Response {
    let piece = Bytes::from(vec![b'x'; 256 * 1024]);
    let field = |name: &'static [u8]| {
        let value = std::iter::repeat_n(piece.clone(), LARGE / (256 * 1024));
        [Bytes::from_static(name)].into_iter().chain(value).chain([Bytes::from_static(b"\n")])
    };
    let started =
        field(b"id: ").chain([Bytes::from_static(b"\n")]).chain(field(b"event: ")).chain(field(b"id: "));
    let all = stream::iter(started.collect::<Vec<_>>()).chain(stream::pending());
    typed("text/event-stream", Body::from_stream(all.map(Ok::<_, std::io::Error>)))
}

/// Number of notices that a listener gets, each of 1 MiB and about another part of one resource.
pub const UPDATES: usize = 300;

fn updates(id: &Value, honoured: &Value) -> Response {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    let is_asked = honoured["resourceSubscriptions"].is_array();
    let event = |message: Value| Bytes::from(format!("data: {message}\n\n"));
    let first = event(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": meta, "notifications": honoured}}));
    let padding = "x".repeat(MIB);
    let update = move |number: usize| {
        event(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"_meta": meta,
            "uri": format!("a://all/{number}"), "padding": padding}}))
    };
    let count = if is_asked { UPDATES } else { 0 };
    let rest = stream::once(tokio::time::sleep(Duration::from_millis(500)))
        .flat_map(move |()| stream::iter((0..count).collect::<Vec<_>>()).map(update.clone()));
    let all = stream::iter([first]).chain(rest).chain(stream::pending());
    typed("text/event-stream", Body::from_stream(all.map(Ok::<_, std::io::Error>)))
}

/// Takes both forms of an answer.
pub const BOTH: &str = "accept: application/json, text/event-stream\r\n";

/// A connection to `address` that sends `bytes` and reads nothing.
pub async fn silent(address: &str, bytes: &[u8]) -> TcpStream {
    let address: SocketAddr = address.parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    // The kernel is not to hold what the gateway should.
    socket.set_recv_buffer_size(4 * 1024).expect("a size");
    let mut stream = socket.connect(address).await.expect("it listens");
    let _ = stream.write_all(bytes).await; // it may be refused
    stream
}

/// Sends a request and never reads its answer.
pub async fn unread(address: &str, path: &str, headers: &str, body: &[u8]) -> TcpStream {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n"
    );
    let mut stream = silent(address, head.as_bytes()).await;
    let _ = stream.write_all(body).await;
    stream
}

/// A modern call of `tool` as body, and the headers that go with it.
pub fn modern(tool: &str, padding: usize) -> (String, Vec<u8>) {
    let headers =
        format!("{BOTH}mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"x":"{}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"a","version":"1"}}}}}}}}"#,
        "x".repeat(padding)
    );
    (headers, body.into_bytes())
}

/// A small call to the program at `address`; how long it took.
pub async fn small(address: &str) -> Result<Duration, String> {
    let started = Instant::now();
    let body = br#"{"server":"good","tool":"small","arguments":{}}"#;
    let told = Line::to(address).post("/api/v1/mcp/call", &[], body).await;
    if told.status == 200 { Ok(started.elapsed()) } else { Err(format!("{told:?}")) }
}

/// The 99th percentile of 100 small calls, and how many failed.
async fn calls(address: &str) -> (Duration, usize) {
    let (mut times, mut failed) = (Vec::new(), 0);
    for _ in 0..100 {
        match small(address).await {
            Ok(time) => times.push(time),
            Err(told) => {
                eprintln!("failed: {told}");
                failed += 1;
            }
        }
    }
    times.sort();
    (times.get(times.len() * 98 / 100).copied().unwrap_or_default(), failed)
}

/// The median percentile of three rounds of small calls, and how many calls failed in all.
pub async fn median(gateway: &Running) -> (Duration, usize) {
    beside(gateway, std::future::ready(())).await
}

/// Measures like [`median`] while `attack` runs, however many rounds that takes, and for at least three rounds. The
/// calls are made on a thread of their own, so that they do not wait for what the attack writes.
pub async fn beside(gateway: &Running, attack: impl Future<Output = ()>) -> (Duration, usize) {
    let (address, is_over) = (gateway.address.clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let measuring = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut rounds = Vec::new();
        while rounds.len() < 3 || !over.load(Ordering::Relaxed) {
            rounds.push(runtime.block_on(calls(&address)));
        }
        rounds
    });
    attack.await;
    is_over.store(true, Ordering::Relaxed);
    let mut rounds = measuring.join().expect("the calls are made");
    rounds.sort();
    (rounds[rounds.len() / 2].0, rounds.iter().map(|(_, failed)| failed).sum())
}

/// MiB that the process holds at most so far.
pub fn peak(gateway: &Running) -> u64 {
    gateway.peak_memory() >> 20
}

/// MiB that the process holds once that is no more than `most`, or after 60 s.
pub async fn settled(gateway: &Running, most: u64) -> (u64, Duration) {
    let started = Instant::now();
    loop {
        let now = gateway.resident_memory() >> 20;
        if now <= most || started.elapsed() > Duration::from_mins(1) {
            return (now, started.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
