//! Servers that keep state for each client, with `sharing: auto`: the signs are named, and new sessions separated.

use serde_json::{Value, json};

use crate::support::client::Session;
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, Running, eventually};

async fn gateway(server: &StatefulHttp, more: &[&str]) -> Running {
    let registry = Registry::new().http("one", &server.url());
    let registry = more.iter().fold(registry, |registry, line| registry.with(line));
    let gateway = Gateway::of(&registry.setting("connection_pool_size: 2")).start().await;
    gateway.offers(&["add", "folders"]).await;
    gateway
}

async fn entry(gateway: &Running) -> Value {
    gateway.get("/servers").await.json()["servers"][0].clone()
}

async fn signs(gateway: &Running) -> Value {
    entry(gateway).await["state_signs"].clone()
}

/// A session whose client can be asked all that Switchyard declares for itself, so it shares that connection.
async fn joins(gateway: &Running) -> Session {
    let client = gateway.mcp();
    let capabilities =
        json!({"sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "0"}});
    let hello = client.post(&client.envelope("initialize", &params.to_string()), &[]).await;
    let id = hello.header("mcp-session-id").unwrap_or_else(|| panic!("{hello:?}"));
    let client = client.with_header("mcp-session-id", id);
    Session { client, version: "2025-11-25".into(), server: hello.result() }
}

async fn has(session: &Session, tool: &str) -> bool {
    session.request("tools/list", json!({})).await.tool_names().iter().any(|name| name == tool)
}

async fn add(session: &Session, name: &str) {
    assert_eq!(session.call("add", json!({"name": name})).await.text(), "added");
}

/// Waits until the sign of [`add`] was seen.
async fn is_separated(gateway: &Running) {
    eventually("the sign", async || (signs(gateway).await == json!(["list_changed_by_call"])).then_some(()))
        .await;
}

#[tokio::test]
async fn new_sessions_are_separated_after_the_first_sign_and_no_running_one_is_moved() {
    let server = StatefulHttp::start();
    let gateway = gateway(&server, &[]).await;
    let (ann, bob) = (joins(&gateway).await, joins(&gateway).await);
    assert!(has(&ann, "add").await && has(&bob, "add").await);
    assert_eq!((signs(&gateway).await, server.opened()), (Value::Null, 1), "shared until there is a sign");
    add(&ann, "first").await;
    is_separated(&gateway).await;
    let carol = joins(&gateway).await;
    assert!(!has(&carol, "first").await, "a connection of its own");
    add(&carol, "own").await;
    eventually("it is listed", async || has(&carol, "own").await.then_some(())).await;
    for running in [&ann, &bob] {
        assert!(has(running, "first").await && !has(running, "own").await, "it stays where its state is");
        assert_eq!(running.call("first", json!({})).await.text(), "first");
    }
    let named = gateway.logs("the hint", |line| line.to_string().contains("sharing: per_session")).await;
    assert_eq!(named.len(), 1, "{named:?}");
    let hint = entry(&gateway).await["state_hint"].clone();
    assert!(hint.as_str().is_some_and(|hint| hint.contains("sharing: per_session")), "{hint}");
}

#[tokio::test]
async fn beyond_the_cap_a_new_session_is_refused_and_not_shared() {
    let server = StatefulHttp::start();
    let gateway = gateway(&server, &[]).await;
    add(&gateway.mcp().legacy().await, "first").await;
    is_separated(&gateway).await;
    let sessions = [gateway.mcp().legacy().await, gateway.mcp().legacy().await];
    let _streams = [sessions[0].client.listen().await, sessions[1].client.listen().await];
    for session in &sessions {
        assert_eq!(session.call("folders", json!({})).await.text(), "none");
    }
    let refused = gateway.mcp().legacy().await.call("folders", json!({})).await.error();
    assert_eq!(refused["data"]["retryable"], true, "{refused}");
}

#[tokio::test]
async fn a_server_that_is_to_be_shared_is_named_and_shared() {
    let server = StatefulHttp::start();
    let gateway = gateway(&server, &["sharing: shared"]).await;
    add(&joins(&gateway).await, "first").await;
    is_separated(&gateway).await;
    let other = joins(&gateway).await;
    eventually("it is listed", async || has(&other, "first").await.then_some(())).await;
    assert_eq!(server.opened(), 1);
}

#[tokio::test]
async fn nothing_is_cached_of_a_server_that_showed_a_sign() {
    let server = StatefulHttp::start();
    let gateway = gateway(&server, &["tools: {cache: {ttl: 60}, on_change: allow}"]).await;
    add(&gateway.mcp().legacy().await, "first").await;
    is_separated(&gateway).await;
    let before = gateway.get("/servers").await.json()["servers"][0]["counters"]["calls"].clone();
    for _ in 0..2 {
        assert_eq!(gateway.call("one", "folders", json!({})).await.status, 200);
    }
    let after = gateway.get("/servers").await.json()["servers"][0]["counters"]["calls"].clone();
    assert_eq!(after.as_u64(), before.as_u64().map(|calls| calls + 2));
}

#[tokio::test]
async fn check_names_a_server_that_lists_more_for_clients_with_roots() {
    for sharing in ["auto", "shared", "per_session"] {
        let server = StatefulHttp::start();
        let registry = Registry::new().http("one", &server.url()).with(&format!("sharing: {sharing}"));
        let gateway = Gateway::of(&registry);
        let output = gateway.output(&["check", "--connect", "mcp_servers.yaml"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let is_named = told.contains("one") && told.contains("sharing: per_session");
        assert_eq!(is_named, sharing != "per_session", "{sharing}: {told}");
        if is_named {
            assert!(told.contains("lists_differ_by_session") && told.contains("asks_for_roots"), "{told}");
        }
    }
}

/// A built-in server is one for all clients, so a list that changes just after a call is no state of that client.
#[tokio::test]
async fn a_builtin_server_whose_list_changes_beside_a_call_shows_no_sign() {
    let folder = tempfile::tempdir().expect("a folder");
    // So many that calls end while they are read.
    for number in 0..300 {
        let page = folder.path().join(format!("{number}.md"));
        std::fs::write(page, "# A page\n\nIts words.\n").expect("written");
    }
    let docs = format!("handbook: {{path: {}}}", folder.path().display());
    let lines = ["transport: builtin".to_owned(), "builtin: handbook".to_owned(), docs];
    let gateway = Gateway::of(&Registry::new().server("book", &lines)).start().await;
    gateway.offers(&["search_handbook"]).await;
    let session = gateway.mcp().legacy().await;
    eventually("the pages are listed while calls end", async || {
        assert_eq!(gateway.call("book", "search_handbook", json!({"query": "words"})).await.status, 200);
        let listed = session.request("resources/list", json!({})).await.body;
        listed.contains("299.md").then_some(())
    })
    .await;
    assert_eq!(signs(&gateway).await, Value::Null);
}
