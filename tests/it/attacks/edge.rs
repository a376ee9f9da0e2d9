//! Request heads and static pages: what one connection and many connections may hold.
//!
//! The attacker is a number of bare sockets in the test. It sends what the attack needs and reads nothing unless a test
//! says so. Memory is that of the gateway process.

use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Client, Gateway, Registry, Running, eventually};

/// The largest file below `/docs/`: 1.5 MB.
const LARGEST: &str = "/docs/swagger-ui-bundle.js";

async fn started(settings: &str) -> Running {
    Gateway::with_config(&format!("mcp_servers: {{}}\n{settings}")).start().await
}

/// Opens `count` connections and writes `bytes` to each. A refusal while writing is one of the outcomes.
async fn sockets(gateway: &Running, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Small, so that what is not read stays with the gateway.
        socket.set_recv_buffer_size(4_096).expect("a size");
        let address = gateway.address.parse().expect("an address");
        let mut socket = socket.connect(address).await.expect("it is accepted");
        let _ = socket.write_all(bytes).await;
        open.push(socket);
    }
    open
}

/// Waits until the memory of the gateway stays the same, and returns it in MiB.
async fn settled(gateway: &Running) -> f64 {
    let mut last = 0.0;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let kib = u32::try_from(gateway.resident_memory() >> 10).expect("less than a TiB");
        let now = f64::from(kib) / 1_024.0;
        if (now - last).abs() < 0.25 {
            return now;
        }
        last = now;
    }
    last
}

/// All that comes until the gateway closes, or until nothing came for `patience`.
async fn rest(socket: &mut TcpStream, patience: Duration) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(patience, socket.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A head of about `bytes` in `headers` headers, without the empty line at its end.
fn head(line: &str, headers: usize, bytes: usize) -> String {
    let value = "v".repeat(bytes / headers - 10);
    let lines: Vec<String> = (0..headers).map(|at| format!("x-{at:03}: {value}\r\n")).collect();
    format!("{line} HTTP/1.1\r\nhost: localhost\r\n{}", lines.concat())
}

async fn limit_hits(gateway: &Running, limit: &str) -> u64 {
    let metrics = gateway.mcp().to(&gateway.url("/metrics")).bare(Method::GET, &[]).await.body;
    let line = format!("switchyard_limit_hits_total{{limit=\"{limit}\"}} ");
    let found = metrics.lines().find_map(|found| found.strip_prefix(&line));
    found.expect("it is counted").parse().expect("a number")
}

#[tokio::test]
async fn unread_static_pages_share_one_copy() {
    let gateway = started("").await;
    let request = format!("GET {LARGEST} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(20);
    drop(sockets(&gateway, 1, request.as_bytes()).await);
    let before = settled(&gateway).await;
    let open = sockets(&gateway, 400, request.as_bytes()).await;
    let grown = settled(&gateway).await - before;
    eprintln!("{} connections with 20 unread requests for 1.5 MB each: {grown:.1} MiB", open.len());
    assert!(grown < 40.0, "{grown:.1} MiB");
    let alive = Client::at(&gateway.url("/health/live")).bare(Method::GET, &[]).await;
    assert_eq!(alive.status, 200);
}

/// Bytes that the kernel holds of answers of the gateway, and the number of its connections that hold any.
fn in_kernel(gateway: &Running) -> (u64, usize) {
    let port = gateway.address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    let local = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let unsent = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let queue = fields.get(4)?.split(':').next()?;
        fields[1].ends_with(&local).then(|| u64::from_str_radix(queue, 16).ok())?
    });
    unsent.filter(|bytes| *bytes > 0).fold((0, 0), |(sum, count), bytes| (sum + bytes, count + 1))
}

#[tokio::test]
async fn the_kernel_keeps_little_of_unread_answers_and_drops_it_at_the_end() {
    let gateway = started("server: {write_timeout: 4}").await;
    let request = format!("GET {LARGEST} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(20);
    drop(sockets(&gateway, 1, request.as_bytes()).await);
    let open = sockets(&gateway, 200, request.as_bytes()).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let started_at = Instant::now();
        assert_eq!(Client::at(&gateway.url("/health/live")).bare(Method::GET, &[]).await.status, 200);
        slowest = slowest.max(started_at.elapsed());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (bytes, count) = in_kernel(&gateway);
    let each = bytes / 200 / 1_024;
    eprintln!(
        "{count} connections: {each} KiB each (400 took 1.5 GiB before); the slowest probe took {slowest:?}"
    );
    assert!((150..=201).contains(&count) && each < 200, "{count} connections, {each} KiB each");
    eventually("they are closed and nothing is left", async || (in_kernel(&gateway).0 == 0).then_some(()))
        .await;
    drop(open);
}

#[tokio::test]
async fn a_static_page_that_the_client_has_is_not_sent_again() {
    let gateway = started("").await;
    for path in [LARGEST, "/docs/", "/docs/swagger-initializer.js", "/openapi.json"] {
        let client = Client::at(&gateway.url(path));
        let page = client.bare(Method::GET, &[]).await;
        let tag = page.header("etag").expect("a tag").to_owned();
        assert!(page.status == 200 && page.header("cache-control").is_some(), "{path}");
        for (known, status) in
            [(tag.clone(), 304), (format!("\"x\", W/{tag}"), 304), ("*".into(), 304), ("\"x\"".into(), 200)]
        {
            let again = client.bare(Method::GET, &[("if-none-match", &known)]).await;
            let is_sent = !again.body.is_empty();
            assert_eq!((again.status, is_sent), (status, status == 200), "{path} {known}");
            assert_eq!(again.header("etag"), Some(&tag[..]), "{path}");
        }
    }
}

#[tokio::test]
async fn heads_have_a_size_and_a_count() {
    let gateway = started("").await;
    for (headers, bytes, status) in
        [(90, 12_000, "200"), (3, 15_900, "200"), (3, 17_000, "431"), (99, 5_000, "200"), (100, 5_000, "431")]
    {
        let request = head("GET /health/live", headers, bytes) + "\r\n";
        let mut socket = sockets(&gateway, 1, request.as_bytes()).await.remove(0);
        let said = rest(&mut socket, Duration::from_secs(1)).await;
        assert_eq!(said.get(9..12), Some(status), "{headers} headers of {bytes} bytes: {said}");
    }
}

#[tokio::test]
async fn heads_in_sum_have_a_budget_and_small_ones_are_never_refused() {
    let gateway = started("server: {header_timeout: 20}").await;
    let unfinished = head("GET /health/live", 90, 16_000);
    drop(sockets(&gateway, 10, (unfinished.clone() + "\r\n").as_bytes()).await);
    let before = settled(&gateway).await;
    let some = sockets(&gateway, 400, unfinished.as_bytes()).await;
    let first = settled(&gateway).await - before;
    let mut more = sockets(&gateway, 3_000, unfinished.as_bytes()).await;
    let all = settled(&gateway).await - before;
    let refused = limit_hits(&gateway, "head_bytes_in_sum").await;
    eprintln!(
        "unfinished heads of 16 kB: 400 take {first:.1} MiB, 3400 take {all:.1} MiB, {refused} refused"
    );
    let said = rest(more.last_mut().expect("a socket"), Duration::from_secs(1)).await;
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("too_many_heads"), "{said:?}");
    assert!(refused > 1_000 && all < 100.0, "{refused} refused, {all:.1} MiB");
    let small = Client::at(&gateway.url("/health/live")).bare(Method::GET, &[]).await;
    assert_eq!(small.status, 200, "a small head needs no room");
    drop((some, more));
    eventually("large heads have room again", async || {
        let whole = unfinished.clone() + "\r\n";
        let mut socket = sockets(&gateway, 1, whole.as_bytes()).await.remove(0);
        rest(&mut socket, Duration::from_millis(300)).await.starts_with("HTTP/1.1 200 ").then_some(())
    })
    .await;
}

#[tokio::test]
async fn complete_heads_with_slow_bodies_are_in_the_same_budget() {
    let gateway = started("").await;
    let request = head("POST /mcp", 90, 16_000) + "content-length: 100\r\n\r\n";
    let before = settled(&gateway).await;
    let mut open = sockets(&gateway, 2_000, request.as_bytes()).await;
    let grown = settled(&gateway).await - before;
    let refused = limit_hits(&gateway, "head_bytes_in_sum").await;
    eprintln!("2000 complete heads of 16 kB with slow bodies take {grown:.1} MiB, {refused} refused");
    assert!(refused > 500 && grown < 100.0, "{refused} refused, {grown:.1} MiB");
    let said = rest(open.last_mut().expect("a socket"), Duration::from_secs(1)).await;
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("too_many_heads"), "{said:?}");
}

#[tokio::test]
async fn idle_connections_give_their_buffers_back() {
    /// KiB of an idle connection that only had a small request, as measured on a quiet machine.
    const SMALL: f64 = 15.0;
    let plain = head("GET /health/live", 3, 100) + "\r\n";
    let large_head = head("GET /health/live", 90, 16_000) + "\r\n";
    let body = "x".repeat(1 << 20);
    let large_body =
        head("POST /api/v1/mcp/call", 3, 100) + &format!("content-length: {}\r\n\r\n{body}", body.len());
    let mut figures = Vec::new();
    for request in [&plain, &large_head, &large_body] {
        let gateway = started("").await;
        drop(sockets(&gateway, 1, request.as_bytes()).await);
        let before = settled(&gateway).await;
        let mut open = Vec::new();
        for _ in 0..300 {
            let mut socket = sockets(&gateway, 1, request.as_bytes()).await.remove(0);
            assert_ne!(socket.read(&mut [0; 4_096]).await.expect("an answer"), 0);
            open.push(socket);
        }
        // A busy machine gives memory back late.
        let (mut kib, mut waits) = (f64::INFINITY, 0);
        while waits < 10 && kib > 1.8 * SMALL {
            kib = (settled(&gateway).await - before) * 1_024.0 / 300.0;
            waits += 1;
        }
        figures.push(kib);
        let again = open.last_mut().expect("a socket");
        again.write_all(plain.as_bytes()).await.expect("it is open");
        assert_ne!(again.read(&mut [0; 4_096]).await.expect("an answer"), 0);
    }
    eprintln!("KiB of an idle connection after a small head, 16 kB of head, 1 MiB of body: {figures:.1?}");
    assert!(figures.iter().all(|kib| *kib < 1.8 * SMALL), "{figures:.1?}");
}

/// Requests that were sent ahead are not lost when the connection gives its buffers back.
#[tokio::test]
async fn requests_sent_ahead_are_answered_in_order() {
    let gateway = started("").await;
    let large = "x".repeat(200_000);
    let post =
        head("POST /api/v1/mcp/call", 3, 100) + &format!("content-length: {}\r\n\r\n{large}", large.len());
    let get = head("GET /health/live", 90, 12_000) + "\r\n";
    let last = "GET /health/ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let all = [&post[..], &get, &post, &get, &get, last].concat();
    for split in [all.len(), 200_300, 210_000, 412_700] {
        let mut socket = TcpStream::connect(&gateway.address).await.expect("it is accepted");
        socket.write_all(&all.as_bytes()[..split]).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(100)).await;
        socket.write_all(&all.as_bytes()[split..]).await.expect("sent");
        let said = rest(&mut socket, Duration::from_secs(5)).await;
        let statuses: Vec<&str> =
            said.match_indices("HTTP/1.1 ").map(|(at, _)| &said[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["415", "200", "415", "200", "200", "200"], "{split}: {said}");
    }
}

#[tokio::test]
async fn any_transfer_coding_but_chunked_is_refused() {
    let gateway = started("").await;
    for (codings, status) in [
        (&["chunked"][..], "200"),
        (&["CHUNKED"], "200"),
        (&[" chunked\t"], "200"),
        (&["gzip, chunked"], "501"),
        (&["gzip,chunked"], "501"),
        (&["gzip ,\tChunked"], "501"),
        (&["identity, chunked"], "501"),
        (&["chunked, chunked"], "501"),
        (&[",chunked"], "501"),
        (&["x;q=\"1\", chunked"], "501"),
        (&["gzip", "chunked"], "501"),
        (&["chunked", "chunked"], "501"),
        (&["chunked, gzip"], "400"),
        (&["chunked", "gzip"], "400"),
        (&["gzip"], "400"),
        (&["chunked;x=1"], "400"),
        (&["\u{b}chunked"], "400"),
    ] {
        let lines: Vec<String> =
            codings.iter().map(|coding| format!("Transfer-Encoding:{coding}\r\n")).collect();
        let lines = lines.concat();
        let request =
            format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n1\r\nx\r\n0\r\n\r\n");
        let mut socket = sockets(&gateway, 1, request.as_bytes()).await.remove(0);
        let said = rest(&mut socket, Duration::from_millis(300)).await;
        assert_eq!(said.get(9..12), Some(status), "{codings:?}: {said}");
        assert!(status != "501" || said.contains("transfer_coding_not_supported"), "{said}");
    }
}

#[tokio::test]
async fn unread_answers_hold_little_and_end() {
    let server = Scripted::modern().tool(Tool::named("small").does(Act::Result("{}".into()))).start();
    let registry = Registry::new().http("one", &server.url());
    let gateway = Gateway::of(&registry.setting("server: {write_timeout: 5}")).start().await;
    gateway.offers(&["small"]).await;
    let list = gateway.mcp().modern_body("tools/list", "{}");
    let usual = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    let modern = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n";
    let length = list.len();
    let post = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n{usual}{modern}content-length: {length}\r\n\r\n{list}"
    );
    let get = format!("GET {LARGEST} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    drop(sockets(&gateway, 1, (post.clone() + &get).as_bytes()).await);
    let (before, start) = (settled(&gateway).await, Instant::now());
    // One connection with 2,000 requests ahead, and 100 with 20 each.
    let flood = post.repeat(2_000) + &get.repeat(20);
    let mut one = sockets(&gateway, 1, b"").await.remove(0);
    let flooding = async {
        let _ = one.write_all(flood.as_bytes()).await;
        std::future::pending::<()>().await;
    };
    let measuring = async {
        let alone = settled(&gateway).await - before;
        let _open = sockets(&gateway, 100, (post.repeat(10) + &get.repeat(10)).as_bytes()).await;
        let all = settled(&gateway).await - before;
        eprintln!("unread answers: one connection holds {alone:.2} MiB, with 100 more {all:.1} MiB");
        assert!(alone < 1.0 && all < 20.0, "{alone:.2} MiB, {all:.1} MiB");
        // A socket buffer that grows meanwhile counts as reading and moves the deadline of its connection.
        let closed = eventually("they are closed", async || {
            let closed = limit_hits(&gateway, "unread_answers").await;
            (closed >= 80).then_some(closed)
        });
        let (closed, seconds) = (closed.await, start.elapsed().as_secs_f64());
        eprintln!("{closed} connections were closed {seconds:.1} s after the first one");
    };
    tokio::select! { () = flooding => {}, () = measuring => {} }
}
