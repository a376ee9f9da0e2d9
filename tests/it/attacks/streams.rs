//! Output of servers that never becomes a message: what it keeps in memory, and what it costs to read.
//!
//! Each stream kept up to 15 MiB a call outside of the memory budget, or one processor busy without end.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::net::TcpStream;

use super::bulk::{self, modern, unread};
use crate::support::flooding::Flooding;
use crate::support::{Gateway, Registry, Running, eventually};

/// The reason in the list of servers, where a connection was closed for what it sent.
const REASON: &str = "too many messages that belong to no call";

#[tokio::test]
async fn ids_and_names_of_events_are_not_kept() {
    const CALLS: usize = 16;
    let servers = bulk::servers();
    let gateway = bulk::gateway(&servers).await;
    let (headers, body) = modern("bulk__fields", 0);
    drop(unread(&gateway.address, "/mcp", &headers, &body).await);
    let warm = gateway.resident_memory() >> 20;
    let mut sockets = Vec::new();
    for _ in 0..CALLS {
        sockets.push(unread(&gateway.address, "/mcp", &headers, &body).await);
    }
    let mut last = gateway.cpu_time();
    eventually("all is read", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = std::mem::replace(&mut last, gateway.cpu_time());
        (last.saturating_sub(before) < Duration::from_millis(100)).then_some(())
    })
    .await;
    let grown = (gateway.resident_memory() >> 20).saturating_sub(warm);
    let is_answered = |socket: &TcpStream| socket.try_read(&mut [0; 8]).is_ok();
    assert!(!sockets.iter().any(is_answered), "the calls are still open");
    eprintln!("{CALLS} streams with ids and names of 8 MiB: {grown} MiB (60 of 15 MiB took 934 MiB before)");
    assert!(grown < 40, "{grown} MiB");
}

/// Waits until the list of servers says that the connections of all servers were closed because they flood.
async fn all_ended(gateway: &Running) {
    let started = Instant::now();
    let mut open = usize::MAX;
    eventually("the connections are ended", async || {
        let listed = gateway.get("/servers").await.json();
        let servers = listed["servers"].as_array().expect("a list");
        let names = servers.iter().filter(|server| !server.to_string().contains(REASON));
        let names: Vec<&str> = names.filter_map(|server| server["name"].as_str()).collect();
        if names.len() < open {
            open = names.len();
            eprintln!("{:.1} s: {names:?} are not ended", started.elapsed().as_secs_f64());
        }
        names.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn streams_without_messages_are_ended_with_a_reason() {
    let long = format!("data: {}\n", "x".repeat(60_000));
    let in_answers = ["\n", "\r", "event: x\n", &long].map(|line| (false, line));
    let all = in_answers.into_iter().chain([(true, "id: 1\n"), (true, "retry: 1\r\n")]);
    let servers: Vec<(String, Flooding)> = all
        .enumerate()
        .map(|(number, (is_session, line))| {
            let name = format!("flood{number}");
            let start = if is_session { Flooding::session } else { Flooding::start };
            (name.clone(), start(&name, line))
        })
        .collect();
    let registry = Registry::new().child("noisy", &["--tools", "noisy", "--flood-one-line", "x"]);
    let registry = servers.iter().fold(registry, |all, (name, server)| all.http(name, &server.url()));
    let gateway = Gateway::of(&registry).start().await;
    let tools: Vec<&str> = servers.iter().map(|(name, _)| &name[..]).chain(["noisy"]).collect();
    gateway.offers(&tools).await;
    let mut sockets = Vec::new();
    for tool in tools {
        let body = json!({"server": tool, "tool": tool, "arguments": {}}).to_string();
        sockets.push(unread(&gateway.address, "/api/v1/mcp/call", "", body.as_bytes()).await);
    }
    all_ended(&gateway).await;
    let sent: Vec<u64> = servers.iter().map(|(_, server)| server.sent() >> 20).collect();
    eprintln!("{:?} of CPU time for {sent:?} MiB (a whole processor without end before)", gateway.cpu_time());
    assert!(gateway.cpu_time() < Duration::from_secs(8));
}

#[tokio::test]
async fn standard_error_without_line_ends_is_read_at_a_bounded_rate() {
    let mut shares = Vec::new();
    for flag in ["--flood-errors", "--flood-one-error"] {
        let registry = Registry::new().child("noisy", &["--tools", "noisy", flag, "trouble"]);
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["noisy"]).await;
        let body = br#"{"server":"noisy","tool":"noisy","arguments":{}}"#;
        let _call = unread(&gateway.address, "/api/v1/mcp/call", "", body).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, started) = (gateway.cpu_time(), Instant::now());
        tokio::time::sleep(Duration::from_secs(3)).await;
        shares
            .push(gateway.cpu_time().saturating_sub(before).as_secs_f64() / started.elapsed().as_secs_f64());
    }
    eprintln!("CPU for standard error with and without line ends: {shares:.2?} (a whole processor before)");
    assert!(shares.iter().all(|share| *share < 0.4), "{shares:?}");
}
