//! Servers that keep state for each client: the rule of `docs/sharing.md`.

use serde_json::{Value, json};

use crate::oauth::{ALICE, BOB, OPERATOR, keys};
use crate::support::client::{Client, Session};
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, Running, eventually};

async fn before(registry: Registry, more: &[&str]) -> Running {
    let registry = more.iter().fold(registry, |registry, line| registry.with(line));
    let gateway = Gateway::of(&registry.setting("connection_pool_size: 2")).start().await;
    gateway.offers(&["add", "folders"]).await;
    gateway
}

/// A gateway before a program that keeps state for each client.
async fn gateway(more: &[&str]) -> Running {
    before(Registry::new().child("one", &["--stateful"]), more).await
}

async fn entry(gateway: &Running) -> Value {
    gateway.get("/servers").await.json()["servers"][0].clone()
}

async fn processes(gateway: &Running) -> u64 {
    entry(gateway).await["connections"].as_u64().expect("a number")
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
async fn each_session_has_its_own_at_a_server_that_hands_out_sessions() {
    let server = StatefulHttp::start();
    let gateway = before(Registry::new().http("one", &server.url()), &[]).await;
    let sessions = [joins(&gateway).await, joins(&gateway).await, joins(&gateway).await];
    for session in &sessions {
        assert!(has(session, "add").await, "the lists of Switchyard's own session");
    }
    assert_eq!(server.opened(), 1, "a list opens none");
    let mut stream = sessions[0].client.listen().await;
    add(&sessions[0], "mine").await;
    let changed = stream.next().await.expect("a notification");
    assert_eq!(changed["method"], "notifications/tools/list_changed", "{changed}");
    assert!(has(&sessions[0], "mine").await);
    assert_eq!(sessions[0].call("mine", json!({})).await.text(), "mine");
    for other in &sessions[1..] {
        assert_eq!(other.call("folders", json!({})).await.text(), "none");
        assert!(!has(other, "mine").await);
        assert_eq!(other.call("mine", json!({})).await.error()["data"]["code"], "tool_not_found");
    }
    assert_eq!(gateway.call("one", "folders", json!({})).await.status, 200);
    assert_eq!(server.opened(), 4, "more than the pool may have of shared ones");
}

#[tokio::test]
async fn new_sessions_have_a_process_of_their_own_after_the_sign_and_no_running_one_is_moved() {
    let gateway = gateway(&[]).await;
    let (ann, bob) = (joins(&gateway).await, joins(&gateway).await);
    for running in [&ann, &bob] {
        assert_eq!(running.call("folders", json!({})).await.text(), "none");
    }
    assert_eq!((signs(&gateway).await, processes(&gateway).await), (Value::Null, 1), "shared");
    add(&ann, "first").await;
    is_separated(&gateway).await;
    let carol = joins(&gateway).await;
    add(&carol, "own").await;
    eventually("it is listed", async || has(&carol, "own").await.then_some(())).await;
    assert!(!has(&carol, "first").await, "a process of its own");
    for running in [&ann, &bob] {
        assert!(has(running, "first").await && !has(running, "own").await, "it stays where its state is");
        assert_eq!(running.call("first", json!({})).await.text(), "first");
    }
    assert_eq!(processes(&gateway).await, 2);
    let named = gateway.logs("the hint", |line| line.to_string().contains("sharing: per_session")).await;
    assert_eq!(named.len(), 1, "{named:?}");
    let hint = entry(&gateway).await["state_hint"].clone();
    assert!(hint.as_str().is_some_and(|hint| hint.contains("sharing: per_session")), "{hint}");
}

#[tokio::test]
async fn fifty_clients_of_a_program_without_state_share_one_process() {
    let gateway = gateway(&[]).await;
    for _ in 0..50 {
        assert_eq!(joins(&gateway).await.call("folders", json!({})).await.text(), "none");
    }
    assert_eq!(processes(&gateway).await, 1);
}

#[tokio::test]
async fn beyond_the_limit_of_processes_a_new_session_is_refused_and_not_shared() {
    let gateway = gateway(&[]).await;
    add(&gateway.mcp().legacy().await, "first").await;
    is_separated(&gateway).await;
    let sessions = [gateway.mcp().legacy().await, gateway.mcp().legacy().await];
    let _streams = [sessions[0].client.listen().await, sessions[1].client.listen().await];
    for session in &sessions {
        assert_eq!(session.call("folders", json!({})).await.text(), "none");
    }
    let refused = gateway.mcp().legacy().await.call("folders", json!({})).await.error();
    assert_eq!(
        (&refused["data"]["code"], &refused["data"]["retryable"]),
        (&json!("overloaded"), &json!(true))
    );
    assert!(refused.to_string().contains("2 processes"), "it says what is full: {refused}");
}

#[tokio::test]
async fn a_server_that_is_to_be_shared_is_named_and_shared() {
    let gateway = gateway(&["sharing: shared"]).await;
    add(&joins(&gateway).await, "first").await;
    is_separated(&gateway).await;
    let other = joins(&gateway).await;
    eventually("it is listed", async || has(&other, "first").await.then_some(())).await;
    assert_eq!(other.call("first", json!({})).await.text(), "first");
    assert_eq!(processes(&gateway).await, 1);
}

#[tokio::test]
async fn nothing_is_cached_of_a_server_that_showed_a_sign() {
    let gateway = gateway(&["tools: {cache: {ttl: 60}, on_change: allow}"]).await;
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
async fn check_names_a_program_that_asks_for_roots() {
    for sharing in ["auto", "shared", "per_session"] {
        let registry = Registry::new().child("one", &["--stateful"]).with(&format!("sharing: {sharing}"));
        let gateway = Gateway::of(&registry);
        let output = gateway.output(&["check", "--connect", "mcp_servers.yaml"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let is_named = told.contains("sharing: per_session") && told.contains("asks_for_roots");
        assert_eq!(is_named, sharing != "per_session", "{sharing}: {told}");
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

// 2026-07-28 `basic/versioning`: a client of both eras falls back to `initialize` when the method does not exist.
#[tokio::test]
async fn the_endpoint_of_a_legacy_server_has_no_discovery_so_clients_begin_a_session() {
    let server = StatefulHttp::start();
    let registry =
        Registry::new().http("one", &server.url()).child("two", &["--stateful"]).child("both", &[]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["one__add", "two__add", "echo"]).await;
    for name in ["one", "two"] {
        let client = gateway.mcp_of(name);
        let answer = client.modern("server/discover", json!({})).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!(-32601)), "{name}: {error}");
        assert_eq!(error["data"]["supported"], json!(["2025-11-25"]), "{name}: {error}");
        let bridged = client.modern("tools/call", json!({"name": "add", "arguments": {"name": "x"}})).await;
        assert_eq!(bridged.text(), "added", "{name}: all else is bridged");
    }
    for client in [gateway.mcp(), gateway.mcp_of("both")] {
        let discovered = client.modern("server/discover", json!({})).await.result();
        assert_eq!(discovered["supportedVersions"], json!(["2026-07-28"]));
    }
}

// A template that a server lists for one client only is known after the connection of that client was opened.
#[tokio::test]
async fn first_completion_of_a_session_knows_what_is_listed_for_it_alone() {
    let server = StatefulHttp::start();
    let one = Registry::new().http("one", &server.url());
    let gateway = before(one, &["tools: {deny: [exit]}"]).await;
    let session = opened(&gateway.mcp_of("one"), &json!({"experimental": {"template": {}}})).await;
    let own = json!({"type": "ref/resource", "uri": "own://{of}"});
    let params = json!({"ref": own, "argument": {"name": "of", "value": ""}});
    let completed = session.post(&session.envelope("completion/complete", &params.to_string()), &[]).await;
    assert_eq!(completed.result()["completion"]["values"], json!(["completed"]));
}

/// A session of a client that declares `capabilities`.
async fn opened(client: &Client, capabilities: &Value) -> Client {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "0"}});
    let hello = client.post(&client.envelope("initialize", &params.to_string()), &[]).await;
    let id = hello.header("mcp-session-id").unwrap_or_else(|| panic!("{hello:?}")).to_owned();
    client.clone().with_header("mcp-session-id", &id)
}

/// A session of the principal of `key`, whose client can be asked.
async fn asked_session(gateway: &Running, key: &str) -> Client {
    let client = gateway.mcp().with_header("authorization", &format!("Bearer {key}"));
    opened(&client, &json!({"elicitation": {}})).await
}

#[tokio::test]
async fn fifty_clients_of_a_program_that_asks_have_fair_shares_of_its_processes_and_the_rest_is_told() {
    let registry = Registry::new().child("one", &["--asks"]).setting(&keys());
    let gateway = Gateway::of(&registry.setting("connection_pool_size: 10")).start().await;
    gateway.offers_to("ask", &format!("Bearer {ALICE}")).await;
    // The sign: the shared process asks a client.
    let first = asked_session(&gateway, ALICE).await;
    let body = first.envelope("tools/call", r#"{"name":"ask","arguments":{"nonce":"sign","asks":true}}"#);
    let mut asked = first.post_stream(&body, &[]).await;
    while asked.next().await.expect("a question")["method"] != "elicitation/create" {}
    let (mut streams, mut sessions) = (Vec::new(), Vec::new());
    for key in [ALICE, BOB] {
        for number in 0..25 {
            let session = asked_session(&gateway, key).await;
            streams.push(session.listen().await); // so that it is in use
            let plain = format!(r#"{{"name":"ask","arguments":{{"nonce":"{number}"}}}}"#);
            let body = session.envelope("tools/call", &plain);
            let answer = session.post(&body, &[]).await;
            let text = answer.response_text();
            assert!(text.contains(&format!("\"{number}\"")) || text.contains("\"overloaded\""), "{text}");
            sessions.push((key, session, body));
        }
    }
    let mut served = [0, 0];
    for (key, session, body) in &sessions {
        let answer = session.post(body, &[]).await;
        if answer.status == 200 && answer.response_text().contains("\"content\"") {
            served[usize::from(*key == BOB)] += 1;
        }
    }
    assert_eq!(served, [5, 5], "the processes are shared fairly, whoever came first");
    let operator = gateway.mcp().with_header("authorization", &format!("Bearer {OPERATOR}"));
    let servers = operator.to(&gateway.url("/api/v1/mcp/servers")).bare(http::Method::GET, &[]).await.json();
    assert_eq!(servers["servers"][0]["connections"], 11, "ten, and the shared one: {servers}");
    drop((asked, streams));
}
