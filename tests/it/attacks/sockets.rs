//! Connections that fill `max_sockets`: whether new clients are served beside them, and what clients lose that work.
//!
//! The attacker has no credential. It takes all sockets and lets each wait in another state, with and without renewing
//! those that are closed. Every legitimate request has a credential and comes over a connection of its own, unless a test
//! says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

/// `max_sockets` of the gateway: more than it looks at to find one that yields.
pub(super) const SOCKETS: usize = 256;
/// Connections that an attacker makes: more than there are.
pub(super) const MADE: usize = SOCKETS + 40;
/// New clients that are counted in each state of the attack.
pub(super) const CLIENTS: usize = 50;
/// How long a client waits for its answer.
const WAIT: Duration = Duration::from_secs(5);

/// The most connections that an attacker makes who renews them.
pub(super) const BUDGET: usize = 5_000;
/// How long that attack is measured.
pub(super) const ATTACK: Duration = Duration::from_secs(3);
/// The pause of a client that works, between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// The bytes that the attacker sends on each connection, which then waits.
const STATES: [(&str, &str); 7] = [
    ("silent from the start", ""),
    ("idle after a request", "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("in the middle of a head", "GET / HTTP/1.1\r\nhost: loc"),
    (
        "in the middle of a second head",
        "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\nGET / HTTP/1.1\r\nhost: loc",
    ),
    (
        "in the middle of a refused body",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n1",
    ),
    (
        "in the middle of a form",
        "POST /oauth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 9\r\n\r\n1",
    ),
    (
        "with unread answers",
        "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\nGET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\nGET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\nGET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ),
];

/// A gateway with the API keys `caller` and `other`, before one server.
pub(super) async fn started() -> (Running, Server) {
    let server = Scripted::modern()
        .tool(Tool::named("quick"))
        .tool(Tool::named("slow").does(Act::Slow(ATTACK)))
        .tool(Tool::named("hang").does(Act::Hang))
        .start();
    let keys = api_keys(&[(&key("caller"), "role: caller"), (&key("other"), "role: caller")]);
    let settings = format!("server: {{max_sockets: {SOCKETS}, {keys}}}");
    let registry = Registry::new().setting(&settings).http("one", &server.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("quick", &bearer("caller")).await;
    (gateway, server)
}

fn key(id: &str) -> String {
    format!("swy_{id}_0123456789abcdef0123456789abcdef0123456789abcdef")
}

/// The value of `Authorization` with the key `id`.
pub(super) fn bearer(id: &str) -> String {
    format!("Bearer {}", key(id))
}

fn client(gateway: &Running) -> Client {
    gateway.mcp().with_header("authorization", &bearer("caller"))
}

/// Sends a request with the key `caller` over `socket` and returns the status of the answer, if one comes.
async fn status_over(socket: &mut TcpStream) -> Option<u16> {
    status_of(socket, "caller").await
}

/// Sends a request with the key `id` over `socket` and returns the status of the answer, if one comes.
pub(super) async fn status_of(socket: &mut TcpStream, id: &str) -> Option<u16> {
    let bearer = bearer(id);
    let request =
        format!("GET /api/v1/mcp/health HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\r\n");
    let exchange = async {
        socket.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        loop {
            if socket.read_buf(&mut answer).await.ok()? == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
            if body.len() >= length.parse().ok()? {
                return head.split(' ').nth(1)?.parse().ok();
            }
        }
    };
    tokio::time::timeout(WAIT, exchange).await.ok()?
}

/// Whether a new client is served.
async fn is_served(gateway: &Running) -> bool {
    let socket = TcpStream::connect(&gateway.address).await;
    match socket {
        Ok(mut socket) => status_over(&mut socket).await == Some(200),
        Err(_) => false,
    }
}

/// How many of [`CLIENTS`] new clients with the key `caller` are served, one after another.
pub(super) async fn served(gateway: &Running) -> usize {
    let mut count = 0;
    for _ in 0..CLIENTS {
        count += usize::from(is_served(gateway).await);
    }
    count
}

pub(super) async fn filled(gateway: &Running, bytes: &str) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..MADE {
        let mut socket = TcpStream::connect(&gateway.address).await.expect("the system connects");
        let _ = socket.write_all(bytes.as_bytes()).await; // it may be refused
        open.push(socket);
    }
    // All of them are in their state then, and none is over its time limit.
    tokio::time::sleep(Duration::from_millis(300)).await;
    open
}

#[tokio::test]
async fn connections_without_a_credential_that_wait_shut_out_nobody() {
    let mut worst = CLIENTS;
    for (state, bytes) in STATES {
        let (gateway, _server) = started().await;
        let held = filled(&gateway, bytes).await;
        let count = served(&gateway).await;
        eprintln!("{SOCKETS} sockets {state}: {count} of {CLIENTS} new clients served");
        worst = worst.min(count);
        drop(held);
    }
    assert_eq!(worst, CLIENTS);
}

#[tokio::test]
async fn heads_that_grow_by_a_byte_now_and_then_shut_out_nobody() {
    let (gateway, _server) = started().await;
    let mut held = filled(&gateway, "GET / HTTP/1.1\r\nx: ").await;
    let drip = async {
        loop {
            for socket in &mut held {
                let _ = socket.try_write(b"x");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let count = tokio::select! { () = drip => 0, count = served(&gateway) => count };
    eprintln!("{SOCKETS} heads that grow: {count} of {CLIENTS} new clients served");
    assert_eq!(count, CLIENTS);
}

/// `count` connections that are renewed as soon as they are closed, until [`BUDGET`] were made. They end with the set.
pub(super) fn renewing(gateway: &Running, count: usize, bytes: &str) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let mut attackers = JoinSet::new();
    for _ in 0..count {
        let (address, made, bytes) = (gateway.address.clone(), Arc::clone(&made), bytes.to_owned());
        attackers.spawn(async move {
            while made.fetch_add(1, Ordering::Relaxed) < BUDGET {
                if let Ok(mut socket) = TcpStream::connect(&address).await {
                    let _ = socket.write_all(bytes.as_bytes()).await;
                    let mut rest = Vec::new();
                    let _ = socket.read_to_end(&mut rest).await;
                }
                // So that the attack lasts as long as what is measured beside it.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
    (attackers, made)
}

/// A connection of a client with a credential that waits for its next request.
async fn used(gateway: &Running) -> TcpStream {
    let mut socket = TcpStream::connect(&gateway.address).await.expect("it listens");
    assert_eq!(status_over(&mut socket).await, Some(200));
    socket
}

/// Requests one after another over `kept`, until one is not answered or `time` is over. Returns how many were answered.
async fn over_one(kept: &mut TcpStream, time: Duration) -> usize {
    let (started, mut answered) = (Instant::now(), 0);
    while started.elapsed() < time && status_over(kept).await == Some(200) {
        answered += 1;
        tokio::time::sleep(PAUSE).await;
    }
    answered
}

/// New clients one after another until `time` is over. Returns how many came, and how many were served.
pub(super) async fn over_many(gateway: &Running, time: Duration) -> (usize, usize) {
    let (started, mut came, mut count) = (Instant::now(), 0, 0);
    while started.elapsed() < time {
        came += 1;
        count += usize::from(is_served(gateway).await);
        tokio::time::sleep(PAUSE).await;
    }
    (came, count)
}

#[tokio::test]
async fn an_attacker_who_renews_connections_ends_none_that_works_and_shuts_out_nobody() {
    for (state, bytes) in [STATES[0], STATES[1], STATES[2]] {
        let (gateway, server) = started().await;
        let session = client(&gateway).legacy().await;
        let mut stream = session.client.listen().await;
        let [mut kept, mut quiet] = [used(&gateway).await, used(&gateway).await];
        let running = client(&gateway);
        let call = async { running.call("slow", json!({})).await.status };
        let beside = async {
            eventually("the call runs", async || (server.runs("slow") == 1).then_some(())).await;
            let (_attackers, made) = renewing(&gateway, 2 * SOCKETS, bytes);
            let others = tokio::join!(over_one(&mut kept, ATTACK), over_many(&gateway, ATTACK));
            (others, made.load(Ordering::Relaxed).min(BUDGET))
        };
        let (called, ((requests, (came, count)), connects)) = tokio::join!(call, beside);
        eprintln!(
            "{SOCKETS} sockets {state}, {connects} of them in {ATTACK:?}: {count} of {came} new clients served, \
             {requests} requests over one connection"
        );
        assert_eq!(called, 200, "a running call keeps its connection");
        assert_eq!(status_over(&mut kept).await, Some(200), "after {requests} requests");
        assert_eq!(status_over(&mut quiet).await, Some(200), "idle since before the attack");
        let ended = tokio::time::timeout(Duration::from_millis(100), stream.next()).await;
        assert!(ended.is_err(), "the stream has ended: {ended:?}");
        assert!(connects > 5 * SOCKETS, "{connects} is no attack");
        assert!(count * 100 >= came * 98, "{count} of {came} new clients");
        yielded(&gateway, connects / 4).await;
    }
}

/// Checks that at least `least` sockets were closed for new ones, as the metrics have it.
async fn yielded(gateway: &Running, least: usize) {
    let metrics = client(gateway).to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("switchyard_client_sockets_yielded_total "));
    let count: usize = line.expect("it is counted").parse().expect("a number");
    assert!(count >= least, "{count}");
}
