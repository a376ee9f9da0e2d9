//! One client, or a few that work together, take connections and servers behind a breaker from the others.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::client::MODERN;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, Running, api_keys, eventually};

/// Sockets of the gateway.
const SOCKETS: usize = 128;

fn key(id: &str) -> String {
    format!("swy_{id}_0123456789abcdef0123456789abcdef0123456789abcdef")
}

fn client(gateway: &Running, id: &str) -> Client {
    gateway.mcp().with_header("authorization", &format!("Bearer {}", key(id)))
}

fn server() -> Server {
    let unavailable = (0..40).fold(Tool::named("unavailable"), |tool, _| tool.does(Act::Status(503, None)));
    let hang = Tool::named("hang").does(Act::Hang);
    Scripted::modern().tool(Tool::named("quick")).tool(unavailable).tool(hang).start()
}

/// A gateway with these API keys, or without authentication if there are none.
async fn started(server: &Server, ids: &[&str]) -> Running {
    started_with(server, ids, "").await
}

/// A gateway as from [`started`], with more `settings` in `server`.
async fn started_with(server: &Server, ids: &[&str], settings: &str) -> Running {
    let keys: Vec<String> = ids.iter().map(|id| key(id)).collect();
    let keys: Vec<_> = keys.iter().map(|key| (&**key, "role: caller")).collect();
    let mode = if keys.is_empty() { String::new() } else { format!(", {}", api_keys(&keys)) };
    let settings = format!("server: {{max_sockets: {SOCKETS}{mode}{settings}}}");
    let gateway = Gateway::of(&Registry::new().setting(&settings).http("one", &server.url())).start().await;
    match ids.first() {
        Some(id) => gateway.offers_to("quick", &format!("Bearer {}", key(id))).await,
        None => drop(gateway.offers(&["quick"]).await),
    }
    gateway
}

/// Sends as many calls that do not end as there are sockets, with `header`.
async fn hold(gateway: &Running, header: &str) -> Vec<TcpStream> {
    let body = Client::at("").modern_body("tools/call", r#"{"name":"hang","arguments":{}}"#);
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{header}\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: {MODERN}\r\n\
         mcp-method: tools/call\r\nmcp-name: hang\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = TcpStream::connect(&gateway.address).await.expect("the system connects");
        let _ = socket.write_all(request.as_bytes()).await; // it may be refused
        sockets.push(socket);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    sockets
}

#[tokio::test]
async fn three_principals_that_hold_sockets_leave_some_to_a_fourth_one() {
    let server = server();
    let gateway = started(&server, &["caller", "a", "b", "c"]).await;
    let mut held = Vec::new();
    for id in ["a", "b", "c"] {
        held.extend(hold(&gateway, &format!("authorization: Bearer {}", key(id))).await);
    }
    let running = server.runs("hang");
    let mut answered = 0;
    for _ in 0..20 {
        // A call of a tool would wait for a slot of its server.
        let servers = client(&gateway, "caller").to(&gateway.url("/api/v1/mcp/servers"));
        answered += usize::from(servers.bare(Method::GET, &[]).await.status == 200);
    }
    eprintln!(
        "{running} of {SOCKETS} sockets run calls of three principals, {answered} of 20 requests of a fourth one answered"
    );
    assert_eq!(answered, 20);
    drop(held);
}

#[tokio::test]
async fn one_address_without_credentials_leaves_sockets_to_another_one() {
    let server = server();
    let gateway = started(&server, &[]).await;
    let held = hold(&gateway, "x-nothing: 1").await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.2:0".parse().expect("an address")).expect("an address of this machine");
    let mut socket = socket.connect(gateway.address.parse().expect("an address")).await.expect("it listens");
    let request = b"GET /api/v1/mcp/servers HTTP/1.1\r\nhost: localhost\r\n\r\n";
    socket.write_all(request).await.expect("it is read");
    let mut line = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(5), socket.read_exact(&mut line)).await;
    assert!(read.is_ok_and(|read| read.is_ok()), "no answer");
    assert_eq!(&line, b"HTTP/1.1 200");
    drop(held);
}

#[tokio::test]
async fn one_client_without_credentials_behind_a_proxy_leaves_sockets_to_another_one() {
    let server = server();
    let gateway = started_with(&server, &[], ", trusted_proxies: [127.0.0.1]").await;
    let held = hold(&gateway, "x-forwarded-for: 192.0.2.1").await;
    let servers = gateway.mcp().to(&gateway.url("/api/v1/mcp/servers"));
    for (client, expected) in [("192.0.2.1", 503), ("198.51.100.1, 192.0.2.2", 200)] {
        let answer = servers.bare(Method::GET, &[("x-forwarded-for", client)]).await;
        assert_eq!(answer.status, expected, "{client}");
    }
    drop(held);
}

#[tokio::test]
async fn one_principal_whose_calls_fail_does_not_open_a_breaker_for_others() {
    let server = server();
    let gateway = started(&server, &["good", "bad"]).await;
    let (good, bad) = (client(&gateway, "good"), client(&gateway, "bad"));
    let code = |answer: &crate::support::Answer| answer.json()["error"]["data"]["code"].clone();
    eventually("its breaker is open", async || {
        (code(&bad.call("unavailable", json!({})).await) == "circuit_open").then_some(())
    })
    .await;
    for _ in 0..3 {
        assert_eq!(code(&bad.call("quick", json!({})).await), "circuit_open", "for all of its calls");
        let answer = good.call("quick", json!({})).await;
        assert!(answer.json()["result"]["content"].is_array(), "{answer:?}");
    }
    // A server that is dead for others too is closed to them after one call.
    drop(server);
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(code(&good.call("unavailable", json!({})).await));
    }
    eprintln!("{codes:?}");
    assert!(codes.contains(&json!("circuit_open")), "{codes:?}");
}
