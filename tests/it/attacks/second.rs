//! Findings of a second attack at the edge and in answers: descriptions, ids, lists and blocks whose number or size a
//! stranger decides.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running};

const MIB: u64 = 1 << 20;

async fn initialize(gateway: &Running, capabilities: &Value, info: &Value) -> (u16, String) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let told = Line::to(&gateway.address).post("/mcp", &[], body.as_bytes()).await;
    (told.status, told.body)
}

#[tokio::test]
async fn a_session_keeps_little_of_what_its_client_says_of_itself() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let usual = json!({"name": "t", "version": "0"});
    assert_eq!(initialize(&gateway, &json!({}), &usual).await.0, 200);
    let before = gateway.resident_memory();
    let large = "x".repeat(3_000_000);
    for _ in 0..30 {
        let (status, text) = initialize(&gateway, &json!({}), &json!({"name": "t", "version": large})).await;
        assert_eq!((status, text.contains("description_too_large")), (400, true), "{text:.300}");
    }
    let (status, text) = initialize(&gateway, &json!({"experimental": {"x": large}}), &usual).await;
    assert!(status == 400 && text.contains("capabilities"), "{text:.300}");
    let grown = gateway.resident_memory().saturating_sub(before) / MIB;
    eprintln!("30 sessions with descriptions of 3 MB: {grown} MiB (90 MiB before)");
    assert!(grown < 40, "{grown} MiB");
}

#[tokio::test]
async fn long_ids_of_a_server_are_not_remembered() {
    let pages = json!({"elicitations": [
        {"mode": "url", "elicitationId": "e".repeat(2_000_000), "url": "http://localhost/", "message": "m"}]});
    let error = json!({"code": -32042, "message": "url", "data": pages}).to_string();
    let server = Scripted::modern().tool(Tool::named("a").does(Act::Error(error))).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let session = gateway.mcp().legacy().await;
    session.call("a", json!({})).await;
    let before = gateway.resident_memory();
    for _ in 0..30 {
        session.call("a", json!({})).await;
    }
    let grown = gateway.resident_memory().saturating_sub(before) / MIB;
    eprintln!("30 elicitations with ids of 2 MB: {grown} MiB (120 MiB before)");
    assert!(grown < 40, "{grown} MiB");
}

#[tokio::test]
async fn a_million_blocks_of_content_cost_no_list_of_them() {
    let blocks = format!(r#"{{"content":[{}{{}}],"resultType":"complete"}}"#, "{},".repeat(1_000_000));
    let has = || r#"[{"uri":"x://a","name":"a"}]"#;
    let server = Scripted::modern()
        .offers("resources", has())
        .tool(Tool::named("large").does(Act::Result(blocks)))
        .tool(Tool::named("small"))
        .start();
    let other = Scripted::modern().offers("resources", has()).start();
    let gateway =
        Gateway::of(&Registry::new().http("one", &server.url()).http("two", &other.url())).start().await;
    gateway.offers(&["large", "small"]).await;
    let large = async || assert_eq!(gateway.mcp().call("large", json!({})).await.status, 200);
    let before = gateway.peak_memory();
    large().await;
    let grown = gateway.peak_memory().saturating_sub(before) / MIB;
    eprintln!("a million blocks in 3 MiB: {grown} MiB at most (80 MiB and more before)");
    assert!(grown < 40, "{grown} MiB");
}

#[tokio::test]
async fn a_filter_of_many_names_costs_what_its_bytes_cost() {
    let server = Scripted::modern().offers("resources", r#"[{"uri":"x://a","name":"a"}]"#).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&[]).await;
    let names: Vec<String> = (0..300_000).map(|number| format!("\"{number}\"")).collect();
    let names = format!("[{}]", names.join(","));
    let client = gateway.mcp();
    let probe = async || {
        let start = Instant::now();
        let live = client.to(&gateway.url("/health/live")).bare(Method::GET, &[]).await;
        assert_eq!(live.status, 200);
        start.elapsed()
    };
    let filter: Value =
        serde_json::from_str(&format!(r#"{{"notifications":{{"resourceSubscriptions":{names}}}}}"#))
            .expect("JSON");
    let mut slowest = Duration::ZERO;
    let listening = client.modern_stream("subscriptions/listen", &filter);
    let probing = async {
        for _ in 0..20 {
            slowest = slowest.max(probe().await);
        }
    };
    let (mut stream, ()) = tokio::join!(listening, probing);
    let first = stream.next().await.expect("it is acknowledged");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    eprintln!("300,000 names in one filter: the slowest probe took {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}
