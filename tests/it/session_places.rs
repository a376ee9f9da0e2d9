//! Slots for clients when all are taken: unused sessions give up theirs, sessions in use keep them.
//!
//! A killed client leaves a session without a running request and without an open stream.

use std::time::Duration;

use serde_json::json;

use crate::support::client::{Client, Session};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

const ANN: &str = "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef";
const BOB: &str = "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210";

fn server() -> Server {
    let (echo, slow) =
        (Tool::named("echo").does(Act::Echo), Tool::named("slow").does(Act::Slow(Duration::from_mins(1))));
    Scripted::legacy().tool(echo).tool(slow).start()
}

async fn gateway(server: &Server, more: &str) -> Running {
    let registry = Registry::new().http("one", &server.url()).setting(more);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["echo", "slow"]).await;
    gateway
}

async fn is_served(session: &Session) -> bool {
    let answer = session.call("echo", json!({"x": 1})).await;
    assert!([200, 404].contains(&answer.status), "{answer:?}");
    answer.status == 200
}

async fn rest(gateway: &Running) -> u16 {
    gateway.call("one", "echo", json!({"x": 1})).await.status
}

#[tokio::test]
async fn killed_clients_keep_no_slot_from_new_sessions_and_rest() {
    for setting in ["max_connections", "max_sessions"] {
        let server = server();
        let gateway = gateway(&server, &format!("server: {{{setting}: 5}}")).await;
        let mut killed = Vec::new();
        for _ in 0..5 {
            killed.push(gateway.mcp().legacy().await);
        }
        assert!(is_served(&killed[0]).await, "used last");
        assert_eq!(rest(&gateway).await, 200, "{setting}");
        let fresh = gateway.mcp().legacy().await;
        let modern = gateway.mcp().call("echo", json!({"x": 1})).await;
        assert_eq!(modern.status, 200, "{setting}: {modern:?}");
        assert!(is_served(&fresh).await && is_served(&killed[0]).await, "{setting}");
        assert!(!is_served(&killed[1]).await, "{setting}: unused for longest, so it is answered 404");
        assert!(is_served(&killed[4]).await, "{setting}: it is not ended without need");
    }
}

#[tokio::test]
async fn an_open_stream_and_a_running_call_keep_their_slots() {
    let server = server();
    let gateway = gateway(&server, "server: {max_connections: 3}").await;
    let (listens, calls) = (gateway.mcp().legacy().await, gateway.mcp().legacy().await);
    let unused = gateway.mcp().legacy().await;
    let _stream = listens.client.listen().await;
    let running = {
        let session = calls.clone();
        let body = session.client.envelope("tools/call", r#"{"name":"slow"}"#);
        async move { session.client.post(&body, &[]).await }
    };
    let others = async {
        eventually("it runs", async || (server.runs("slow") == 1).then_some(())).await;
        assert_eq!(rest(&gateway).await, 200);
        assert_eq!(unused.call("echo", json!({})).await.status, 404);
        let fresh = gateway.mcp().legacy().await;
        let _too = fresh.client.listen().await;
        assert_eq!(rest(&gateway).await, 503, "all are in use");
        assert!(is_served(&listens).await && is_served(&fresh).await && is_served(&calls).await);
    };
    tokio::select! {
        answer = running => panic!("it runs for a minute: {answer:?}"),
        () = others => {}
    }
}

fn keys() -> String {
    api_keys(&[ANN, BOB].map(|key| (key, "role: superuser")))
}

fn client(gateway: &Running, key: &str) -> Client {
    gateway.mcp().with_header("authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn a_principal_gives_up_its_own_session_before_that_of_another_one() {
    let server = server();
    let registry = Registry::new().http("one", &server.url());
    let registry = registry.setting(&format!("server: {{max_connections: 2, {}}}", keys()));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("echo", &format!("Bearer {ANN}")).await;
    let (ann, bob) = (client(&gateway, ANN).legacy().await, client(&gateway, BOB).legacy().await);
    let again = client(&gateway, BOB).legacy().await;
    assert!(is_served(&ann).await && is_served(&again).await && !is_served(&bob).await);
    let _stream = again.client.listen().await;
    let third = client(&gateway, BOB).legacy().await;
    assert!(is_served(&third).await && !is_served(&ann).await, "its own one is in use");
}

#[tokio::test]
async fn unused_sessions_give_up_their_processes() {
    let registry = Registry::new().child("one", &["--tools", "echo"]).with("sharing: per_session");
    let gateway = Gateway::of(&registry.setting("connection_pool_size: 2")).start().await;
    gateway.offers(&["echo"]).await;
    let (listens, killed) = (gateway.mcp().legacy().await, gateway.mcp().legacy().await);
    assert!(is_served(&listens).await && is_served(&killed).await);
    let mut stream = listens.client.listen().await;
    stream.event().await;
    let fresh = gateway.mcp().legacy().await;
    assert!(is_served(&fresh).await, "the killed client's process is free for it");
    assert!(is_served(&listens).await && !is_served(&killed).await, "its session ended with its process");
    let _too = fresh.client.listen().await;
    let one_more = gateway.mcp().legacy().await.call("echo", json!({})).await;
    let refused = one_more.error();
    assert_eq!(refused["data"]["retryable"], true, "never shared in silence: {refused}");
    assert_eq!(rest(&gateway).await, 200, "REST has no session");
}
