//! The memory budget: bodies, answers, notifications and waiting calls together.
//!
//! Each attack held far more than 320 MiB before the budget existed. Figures are for the process, in MiB.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::bulk::{self, BUDGET, MIB, NO_HISTORY, UPDATES};
use super::bulk::{beside, gateway, gateway_with, median, modern, peak, settled, silent, unread};
use super::control::Sink;
use crate::support::client::Session;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running};

/// MiB that the process may hold above its warm state, 60 s after an attack.
const LEFT: u64 = 32;

/// A running attack: sockets that are not read, and sessions.
#[derive(Default)]
struct Attack {
    sockets: Vec<TcpStream>,
    sessions: Vec<Session>,
}

impl Attack {
    /// Adds modern clients; `tool` answers as JSON or as an event stream.
    async fn modern(&mut self, gateway: &Running, tool: &str, count: usize) {
        let (headers, body) = modern(&format!("bulk__{tool}"), 0);
        for _ in 0..count {
            self.sockets.push(unread(&gateway.address, "/mcp", &headers, &body).await);
        }
    }

    /// Adds legacy clients, whose answers are recorded.
    async fn legacy(&mut self, gateway: &Running, count: usize) {
        let session = gateway.mcp().legacy().await;
        let id = session.client.header("mcp-session-id").expect("a session").to_owned();
        let stream_first = "accept: text/event-stream, application/json\r\n";
        let headers =
            format!("{stream_first}mcp-session-id: {id}\r\nmcp-protocol-version: {}\r\n", session.version);
        for number in 0..count {
            let body = json!({"jsonrpc": "2.0", "id": 1000 + number, "method": "tools/call",
                "params": {"name": "bulk__events", "arguments": {}}});
            self.sockets.push(unread(&gateway.address, "/mcp", &headers, body.to_string().as_bytes()).await);
        }
        self.sessions.push(session);
    }

    async fn rest(&mut self, gateway: &Running, count: usize) {
        let body = br#"{"server":"bulk","tool":"json","arguments":{}}"#;
        for _ in 0..count {
            self.sockets.push(unread(&gateway.address, "/api/v1/mcp/call", "", body).await);
        }
    }

    /// Adds calls of 4 MiB that are never answered.
    async fn hung(&mut self, address: &str, count: usize) {
        let (headers, body) = modern("bulk__hang", 4 * MIB - 1024);
        for _ in 0..count {
            self.sockets.push(unread(address, "/mcp", &headers, &body).await);
        }
    }

    /// Adds bodies of 4 MiB whose last bytes never arrive.
    async fn slow(&mut self, address: &str, count: usize) {
        let length = 4 * MIB - 1024;
        let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        let bytes = [head.as_bytes(), &vec![b' '; 3 * MIB]].concat();
        for _ in 0..count {
            self.sockets.push(silent(address, &bytes).await);
        }
    }

    /// Adds complete heads of nearly 16 KiB whose bodies never arrive.
    async fn heads(&mut self, address: &str, count: usize) {
        let value = "v".repeat(170);
        let lines: Vec<String> = (0..90).map(|number| format!("x-{number}: {value}\r\n")).collect();
        let lines = lines.concat();
        let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n{lines}\r\n");
        for _ in 0..count {
            self.sockets.push(silent(address, head.as_bytes()).await);
        }
    }

    /// Requests the largest static file 20 times on each connection.
    async fn pages(&mut self, gateway: &Running, count: usize) {
        let requests = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
        for _ in 0..count {
            self.sockets.push(silent(&gateway.address, requests.as_bytes()).await);
        }
    }

    /// Adds a session that subscribes to frequently updated resources and does not read its stream.
    async fn idle_session(&mut self, gateway: &Running) {
        let session = gateway.mcp().legacy().await;
        let answer = session.request("resources/subscribe", json!({"uri": "a://all/"})).await;
        eprintln!("subscribed: {}", answer.status);
        self.sessions.push(session);
    }
}

/// Runs `attack` beside small calls, and checks its cost. `control` sends as many of the same bytes as possible to a
/// program that only stores them, while the gateway is not attacked.
async fn withstood(
    name: &str,
    gateway: &Running,
    control: impl AsyncFnOnce(&mut Attack, &str),
    attack: impl AsyncFnOnce(&mut Attack),
) {
    let warm = gateway.resident_memory() >> 20;
    // Pages that were freed within the last tenth of a second are resident too.
    let most = warm + BUDGET + BUDGET / 2;
    let (before, _) = median(gateway).await;
    let controlled = {
        let (sink, mut held) = (Sink::start(), Attack::default());
        beside(gateway, control(&mut held, &sink.address)).await.0
    };
    let mut held = Attack::default();
    let started = Instant::now();
    let (beside, failed) = beside(gateway, attack(&mut held)).await;
    let (took, peak) = (started.elapsed(), peak(gateway));
    for session in &held.sessions {
        session.delete().await;
    }
    drop(held);
    let (left, after) = settled(gateway, warm + LEFT).await;
    eprintln!(
        "{name}: {warm} MiB warm, {peak} MiB at most (limit {most}), {left} MiB left after {after:?}; \
         p99 {before:?} before, {controlled:?} beside the control and {beside:?} during {took:?}: x {:.1}, \
         control x {:.1}, {failed} failed",
        beside.as_secs_f64() / before.as_secs_f64(),
        controlled.as_secs_f64() / before.as_secs_f64()
    );
    assert!(peak <= most, "{peak} MiB");
    assert_eq!(failed, 0);
    // Enough for a debug build, and for a machine that is busy with other programs.
    let usual = before.max(controlled).max(Duration::from_millis(250));
    assert!(beside <= 3 * usual, "{beside:?} where {before:?} is usual");
    assert!(left <= warm + LEFT, "{left} MiB left, {warm} MiB warm");
}

#[tokio::test]
async fn unread_answers_stay_within_the_budget() {
    for form in ["all forms", "json", "events", "legacy", "rest"] {
        let servers = bulk::servers();
        let gateway = gateway(&servers).await;
        let attack = async |attack: &mut Attack| {
            let is_sent = |one: &str| form == "all forms" || form == one;
            for tool in ["json", "events"].into_iter().filter(|tool| is_sent(tool)) {
                attack.modern(&gateway, tool, 60).await;
            }
            if is_sent("legacy") {
                attack.legacy(&gateway, 60).await;
            }
            if is_sent("rest") {
                attack.rest(&gateway, 60).await;
            }
        };
        withstood(&format!("unread answers of {form}"), &gateway, async |_, _| (), attack).await;
    }
}

#[tokio::test]
async fn large_calls_at_a_hung_server_stay_within_the_budget() {
    let servers = bulk::servers();
    let gateway = gateway(&servers).await;
    let large_calls = async |attack: &mut Attack, address: &str| {
        attack.hung(address, 110).await;
        attack.slow(address, 60).await;
    };
    let attack = async |attack: &mut Attack| large_calls(attack, &gateway.address).await;
    withstood("hung calls", &gateway, large_calls, attack).await;
    let hanging = servers.hanging();
    eprintln!("{hanging} calls reached the server");
    assert!(hanging >= 10, "{hanging}");
}

#[tokio::test]
async fn an_answer_over_rest_is_charged_until_it_is_read_in_every_form() {
    let large = "x".repeat(6 * MIB);
    let result = json!({"content": [{"type": "text", "text": large}]}).to_string();
    let error = json!({"code": -32602, "message": "no", "data": large}).to_string();
    let server = Scripted::legacy()
        .tool(Tool::named("succeed").does(Act::Result(result)))
        .tool(Tool::named("refuse").does(Act::Error(error)))
        .start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["succeed", "refuse"]).await;
    for tool in ["succeed", "refuse"] {
        for accept in ["application/json", "text/event-stream"] {
            let body = json!({"server": "one", "tool": tool}).to_string();
            let accepts = format!("accept: {accept}\r\n");
            let socket = unread(&gateway.address, "/api/v1/mcp/call", &accepts, body.as_bytes()).await;
            // By then, the charge for making the answer is released.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let held = used(&gateway, |used| used >= 6 * MIB as u64).await;
            eprintln!("{tool} as {accept}: {} KiB charged", held >> 10);
            assert!(held >= 6 * MIB as u64, "{tool} as {accept}: {held}");
            drop(socket);
            let left = used(&gateway, |used| used < MIB as u64).await;
            assert!(left < MIB as u64, "{tool} as {accept}: {left}");
        }
    }
}

/// Returns the status line of an answer, and whether the gateway has a thread for large requests.
async fn answered(gateway: &Running, mut socket: TcpStream) -> (String, bool) {
    let mut line = [0; 12];
    socket.read_exact(&mut line).await.expect("an answer");
    let has_thread = gateway.threads().iter().any(|name| name.starts_with("bulk-"));
    (String::from_utf8_lossy(&line).into_owned(), has_thread)
}

#[tokio::test]
async fn large_requests_are_received_on_a_thread_of_their_own() {
    let servers = bulk::servers();
    let gateway = gateway(&servers).await;
    for (size, has_thread) in [(0, false), (128 * 1024, false), (512 * 1024, true)] {
        let (headers, body) = modern("bulk__small", size);
        let socket = unread(&gateway.address, "/mcp", &headers, &body).await;
        let expected = ("HTTP/1.1 200".to_owned(), has_thread);
        assert_eq!(answered(&gateway, socket).await, expected, "{size} bytes");
    }
}

#[tokio::test]
async fn large_requests_are_refused_on_a_thread_of_their_own() {
    let servers = bulk::servers();
    let gateway = gateway(&servers).await;
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{{", 8 * MIB);
    let socket = silent(&gateway.address, head.as_bytes()).await;
    assert_eq!(answered(&gateway, socket).await, ("HTTP/1.1 413".to_owned(), true));
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
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn trailers_that_do_not_end_are_charged_to_the_budget() {
    const SENDERS: u64 = 50;
    let servers = bulk::servers();
    let gateway = gateway_with(&servers, Registry::new().setting(NO_HISTORY)).await;
    let value = "v".repeat(15 * 1024);
    // The last host is refused, and the data after its head is read and dropped.
    for (host, data) in [("localhost", "2\r\n{}\r\n"), ("localhost", ""), ("another.example", "2\r\n{}\r\n")]
    {
        let head = format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
        let bytes = format!("{head}transfer-encoding: chunked\r\n\r\n{data}0\r\nx-trailer: {value}");
        let mut sockets = Vec::new();
        for _ in 0..SENDERS {
            sockets.push(silent(&gateway.address, bytes.as_bytes()).await);
        }
        let least = SENDERS * 16 * 1024;
        let charged = used(&gateway, |used| used >= least).await;
        eprintln!("{host}, {data:?}: {charged} bytes for {SENDERS} requests");
        assert!(charged >= least, "{charged}");
        drop(sockets);
        assert_eq!(used(&gateway, |used| used == 0).await, 0);
    }
}

#[tokio::test]
async fn notices_for_an_idle_session_keep_only_what_the_protocol_needs() {
    let servers = bulk::servers();
    let gateway = gateway(&servers).await;
    let warm = gateway.resident_memory() >> 20;
    let mut attack = Attack::default();
    attack.idle_session(&gateway).await;
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (left, peak) = (gateway.resident_memory() >> 20, peak(&gateway));
    eprintln!(
        "{UPDATES} notices of 1 MiB: {warm} MiB warm, {peak} MiB at most, {left} MiB after {:?}",
        started.elapsed()
    );
    assert!(left <= warm + LEFT, "{left} MiB");
    // The updates did arrive: the session is notified when it reads.
    let mut stream = attack.sessions[0].client.listen().await;
    let told = stream.next().await.expect("a notice");
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    assert!(told["params"].get("padding").is_none(), "only what the protocol needs");
}

#[tokio::test]
async fn all_of_it_at_once_stays_within_the_budget() {
    let servers = bulk::servers();
    let gateway = gateway(&servers).await;
    let control = async |attack: &mut Attack, address: &str| {
        attack.heads(address, 2_000).await;
        attack.hung(address, 40).await;
        attack.slow(address, 30).await;
    };
    withstood("mixture", &gateway, control, async |attack| {
        attack.idle_session(&gateway).await;
        attack.heads(&gateway.address, 2_000).await;
        attack.pages(&gateway, 400).await;
        attack.hung(&gateway.address, 40).await;
        attack.modern(&gateway, "events", 30).await;
        attack.slow(&gateway.address, 30).await;
        attack.legacy(&gateway, 30).await;
        attack.rest(&gateway, 30).await;
    })
    .await;
}
