//! The processes of a stdio server for clients of both eras, and the setting `era`.

use serde_json::{Value, json};

use crate::support::asker_user::User;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

const PEER: [&str; 4] = ["--tools", "echo,count,form", "--record", "record"];

fn peer(more: &[&str]) -> Registry {
    Registry::new().child("peer", &[&PEER[..], more].concat())
}

async fn before(registry: &Registry) -> Running {
    let gateway = Gateway::of(registry).start().await;
    gateway.offers(&["count"]).await;
    gateway
}

/// Counts the lines with `what` in the record of the processes.
fn recorded(gateway: &Running, what: &str) -> usize {
    let record = std::fs::read_to_string(gateway.folder().join("record")).expect("a record");
    record.lines().filter(|line| line.contains(what)).count()
}

async fn over_rest(gateway: &Running) -> Value {
    gateway.call("peer", "count", json!({})).await.json()["content"][0]["text"].clone()
}

/// The counts that a REST caller, a legacy client and a modern one get, one after the other.
async fn counted(gateway: &Running) -> Vec<String> {
    let mut counted = Vec::new();
    for _ in 0..2 {
        counted.push(over_rest(gateway).await.as_str().expect("a count").to_owned());
        counted.push(gateway.mcp().legacy().await.call("count", json!({})).await.text());
        counted.push(gateway.mcp().call("count", json!({})).await.text());
    }
    counted
}

#[tokio::test]
async fn clients_of_each_era_share_one_process() {
    let gateway = before(&peer(&[])).await;
    assert_eq!(counted(&gateway).await, ["1", "1", "2", "3", "2", "4"]);
    assert_eq!((recorded(&gateway, "started"), recorded(&gateway, "\"initialize\"")), (2, 1));
    let session = gateway.mcp().legacy().await;
    let listed = session.request("tools/list", json!({})).await;
    assert!(listed.tool_names().contains(&"count".to_owned()), "{listed:?}");
    assert_eq!(session.call("echo", json!({"x": 1})).await.text(), r#"{"x":1}"#);
}

#[tokio::test]
async fn a_legacy_client_is_asked_by_a_process_of_its_era() {
    let gateway = before(&peer(&[])).await;
    let mut user = User::of(&gateway).await;
    let called = user.call_tool("form", &json!({})).await;
    assert_eq!((called.text.as_str(), called.asked.as_slice()), ("which?", &["which?".to_owned()][..]));
    assert_eq!(recorded(&gateway, "started"), 2);
}

#[tokio::test]
async fn a_session_of_its_own_has_one_process() {
    let gateway = before(&peer(&[]).with("sharing: per_session")).await;
    let session = gateway.mcp().legacy().await;
    for count in 1..=3 {
        assert_eq!(session.call("count", json!({})).await.text(), count.to_string());
    }
    assert_eq!(gateway.mcp().call("count", json!({})).await.text(), "1");
    assert_eq!(gateway.mcp().call("count", json!({})).await.text(), "2");
    // It is spoken in the era of its client. The third is that of lists and REST.
    assert_eq!((recorded(&gateway, "started"), recorded(&gateway, "\"initialize\"")), (3, 1));
}

#[tokio::test]
async fn the_era_of_a_process_can_be_chosen() {
    for (era, discovers, initializes) in [("legacy", 0, 1), ("modern", 1, 0)] {
        let gateway = before(&peer(&[]).with(&format!("era: {era}"))).await;
        assert_eq!(counted(&gateway).await, ["1", "2", "3", "4", "5", "6"], "{era}");
        assert_eq!(recorded(&gateway, "started"), 1, "{era}");
        let found = (recorded(&gateway, "server/discover").min(1), recorded(&gateway, "\"initialize\""));
        assert_eq!(found, (discovers, initializes), "{era}");
    }
}

async fn last_error(gateway: &Running) -> String {
    eventually("it has failed", async || {
        let status = gateway.get("/servers").await.json()["servers"][0].clone();
        status["last_error"].as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn an_era_that_the_server_does_not_speak_is_named_as_the_reason() {
    for (era, speaks, expected) in [
        ("modern", "legacy", "the server does not speak 2026-07-28, but `era: modern` is set"),
        ("legacy", "modern", "`era: legacy` is set"),
    ] {
        let program = peer(&["--era", speaks]).with(&format!("era: {era}"));
        let server = if speaks == "legacy" { Scripted::legacy() } else { Scripted::modern() };
        let server = server.start();
        let url = Registry::new().http("one", &server.url()).with(&format!("era: {era}"));
        for registry in [program, url] {
            let gateway = Gateway::of(&registry).start().await;
            let reason = last_error(&gateway).await;
            assert!(reason.contains(expected), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_chosen_era_is_not_probed_over_http() {
    let server = Scripted::legacy().tool(Tool::named("echo").does(Act::Echo)).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).with("era: legacy")).start().await;
    gateway.offers(&["echo"]).await;
    for text in [
        gateway.mcp().legacy().await.call("echo", json!({"x": 1})).await.text(),
        gateway.mcp().call("echo", json!({"x": 1})).await.text(),
    ] {
        assert_eq!(text, r#"{"x":1}"#);
    }
    assert!(server.seen_calling("server/discover").is_empty());
}
