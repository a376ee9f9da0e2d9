//! Servers that are down from the start: errors for their names, and the speed of lists of other servers.
//!
//! It covers qualified names, tools of built-ins whose service does not answer, and `/mcp/{server}` of a server that
//! is down. It also covers lists while a server hangs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::r2r::{EMAIL, R2r};
use crate::support::scripted::{Refusing, Scripted, Server, Silent, Tool};
use crate::support::{Gateway, Registry, eventually};

/// Waits until `/servers` shows `server` in `state`.
async fn is_in_state(gateway: &Running, server: &str, state: &str) {
    eventually(&format!("{server} is {state}"), async || {
        let one = gateway.get(&format!("/servers/{server}")).await.json();
        one.to_string().contains(&format!(r#""state":"{state}""#)).then_some(())
    })
    .await;
}

fn list_of(server: &str, tool: &str) -> String {
    json!({"server": server, "tool": tool, "arguments": {}}).to_string()
}

/// A server that is down, and one that has a tool with a similar name.
async fn one_down(other: &Server) -> (Running, Refusing) {
    let refusing = Refusing::new();
    let registry = Registry::new().http("kb", &refusing.url()).http("other", &other.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["only_kb"]).await;
    is_in_state(&gateway, "kb", "failed").await;
    (gateway, refusing)
}

fn explains(error: &Value, code: i64) {
    assert_eq!(
        (error["code"].as_i64(), &error["data"]["code"]),
        (Some(code), &json!("connection_failed")),
        "{error}"
    );
    assert_eq!(
        (&error["data"]["server"], &error["data"]["retryable"]),
        (&json!("kb"), &json!(true)),
        "{error}"
    );
    assert!(error["data"]["retry_after_ms"].as_u64().is_some_and(|after| after <= 30_000), "{error}");
    assert!(error["data"]["retry_after_seconds"].as_f64().is_some_and(|after| after <= 30.0), "{error}");
    let text = error["message"].as_str().expect("a text");
    assert!(text.contains("refused") && !text.contains("did you mean"), "{error}");
}

// Issue 18, item 8: before, the answer was −32602 "did you mean \"only_kb\"?", which is a tool of another server.
#[tokio::test]
async fn the_qualified_name_of_a_server_that_is_down_gives_the_failure_of_that_server() {
    let other = Scripted::modern().tool(Tool::named("only_kb")).start();
    let (gateway, _refusing) = one_down(&other).await;
    let modern = gateway.mcp().call("kb__only_kb", json!({})).await;
    eprintln!("{} {}", modern.status, modern.error());
    explains(&modern.error(), -31_000);
    let legacy = gateway.mcp().legacy().await.call("kb__only_kb", json!({})).await;
    explains(&legacy.error(), -32_000);
    let prompt = gateway.mcp().modern("prompts/get", json!({"name": "kb__any"})).await;
    explains(&prompt.error(), -31_000);
    let uri = gateway.mcp().modern("resources/read", json!({"uri": "memo:kb/x"})).await;
    explains(&uri.error(), -31_000);
    let rest = gateway.post("/call", r#"{"tool": "kb__only_kb", "arguments": {}}"#).await;
    assert_eq!((rest.status, rest.json()["code"].as_str()), (502, Some("connection_failed")), "{rest:?}");
    assert!(rest.header("retry-after").is_some() && rest.json()["retryable"] == true, "{rest:?}");
    let own = gateway.post("/call", &list_of("kb", "only_kb")).await;
    assert_eq!((own.status, own.header("retry-after").is_some()), (502, true), "{own:?}");
    assert_eq!(other.runs("only_kb"), 0);
}

#[tokio::test]
async fn an_unknown_tool_names_the_servers_that_were_not_reached_and_only_those_that_its_caller_sees() {
    let other = Scripted::modern().tool(Tool::named("only_kb")).start();
    let (gateway, _refusing) = one_down(&other).await;
    for answer in [
        gateway.mcp().call("find_tickets", json!({})).await,
        gateway.mcp().legacy().await.call("find_tickets", json!({})).await,
    ] {
        let error = answer.error();
        assert_eq!(
            (&error["data"]["code"], &error["data"]["unreached"]),
            (&json!("tool_not_found"), &json!(["kb"]))
        );
        assert!(error["message"].as_str().is_some_and(|text| text.contains("kb")), "{error}");
        assert_eq!(error["data"]["retryable"], true, "{error}");
    }
    let rest = gateway.post("/call", r#"{"tool": "find_tickets", "arguments": {}}"#).await.json();
    assert_eq!((&rest["code"], &rest["unreached"]), (&json!("tool_not_found"), &json!(["kb"])), "{rest}");
    // At its own endpoint, the server answers for itself.
    let one = gateway.mcp_of("other");
    for name in ["find_tickets", "kb__only_kb"] {
        let error = one.call(name, json!({})).await.error();
        assert_eq!(error, json!({"code": -32602, "message": "unknown tool"}), "{name}");
    }
}

#[tokio::test]
async fn a_qualified_name_of_a_server_that_is_there_is_compared_with_its_own_tools_only() {
    let (kb, other) = (
        Scripted::modern().tool(Tool::named("search_documents")).start(),
        Scripted::modern().tool(Tool::named("only_kb")).start(),
    );
    let registry = Registry::new().http("kb", &kb.url()).http("other", &other.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["only_kb", "search_documents"]).await;
    let none = gateway.mcp().call("kb__only_kb", json!({})).await.error();
    assert!(none["data"].get("nearest").is_none(), "{none}");
    let near = gateway.mcp().call("kb__serch_documents", json!({})).await.error();
    assert_eq!(near["data"]["nearest"], json!(["search_documents"]), "{near}");
}

fn built_in(name: &str, url: &str, options: &str) -> [String; 4] {
    ["transport: builtin".to_owned(), format!("builtin: {name}"), format!("url: {url}"), options.to_owned()]
}

// Before, the list was empty and `r2r_search` was "there is no tool ... there are none", not retryable.
#[tokio::test]
async fn built_ins_list_their_tools_before_their_service_answers() {
    let (r2r, refusing) = (R2r::start(), Refusing::new());
    let nowhere = refusing.url().replace("/mcp", "");
    let login = |password: &str| format!("r2r: {{email: {EMAIL:?}, password: {password:?}, project: p}}");
    let registry = Registry::new()
        .server("r2r", &built_in("r2r", &r2r.url(), &login("wrong")))
        .server("rag", &built_in("rag", &nowhere, "timeout: 5"))
        .server("vectors", &built_in("chroma", &nowhere, "chroma: {embedding: {provider: openai, url: http://127.0.0.1:9/v1, model: m, dimensions: 8}}"))
        .server("book", &["transport: builtin", "builtin: handbook", "handbook: {path: absent}"].map(str::to_owned));
    let gateway = Gateway::of(&registry).start().await;
    for (server, tool, state, code) in [
        ("r2r", "r2r_search", "auth_failed", "auth_failed"),
        ("rag", "rag_basic", "failed", "connection_failed"),
        ("vectors", "list_collections", "failed", "connection_failed"),
        ("book", "search_handbook", "failed", "connection_failed"),
    ] {
        is_in_state(&gateway, server, state).await;
        let listed = gateway.mcp().modern("tools/list", json!({})).await.tool_names();
        assert!(listed.iter().any(|name| name == tool), "{tool}: {listed:?}");
        let alone = gateway.mcp_of(server).modern("tools/list", json!({})).await.tool_names();
        assert!(alone.iter().any(|name| name == tool), "{tool}: {alone:?}");
        for name in [tool.to_owned(), format!("{server}__{tool}")] {
            let error = gateway.mcp().call(&name, json!({"query": "x"})).await.error();
            eprintln!("{name}: {error}");
            let found = error["data"]["code"].as_str().expect("a code");
            assert!(
                found == code || found == "circuit_open" && code == "connection_failed",
                "{name}: {error}"
            );
            assert_eq!(
                (&error["data"]["server"], error["data"]["retryable"] == true),
                (&json!(server), code != "auth_failed")
            );
        }
    }
    let unknown = gateway.mcp().call("rag_of_our_own", json!({})).await.error();
    assert!(unknown["data"]["unreached"].to_string().contains("\"rag\""), "{unknown}");
}

#[tokio::test]
async fn the_endpoint_of_a_server_that_is_down_says_so() {
    let other = Scripted::modern().tool(Tool::named("only_kb")).start();
    let (gateway, _refusing) = one_down(&other).await;
    let session = gateway.mcp_of("kb").legacy().await;
    let told = session.server["instructions"].as_str().unwrap_or_default();
    assert!(told.contains("\"kb\"") && told.contains("refused"), "{:?}", session.server);
    let first = session.request("tools/list", json!({})).await;
    let lines = first.notifications();
    let line = lines.first().unwrap_or_else(|| panic!("no log line: {first:?}"));
    assert_eq!(
        (&line["method"], &line["params"]["level"]),
        (&json!("notifications/message"), &json!("warning"))
    );
    assert!(line["params"]["data"].to_string().contains("refused"), "{line}");
    assert!(session.request("tools/list", json!({})).await.notifications().is_empty(), "once a session");
    let modern = gateway.mcp_of("kb").modern("server/discover", json!({})).await.result();
    assert!(modern["instructions"].as_str().is_some_and(|text| text.contains("refused")), "{modern}");
    let fine = gateway.mcp_of("other").legacy().await;
    assert!(!fine.server.to_string().contains("refused"), "{:?}", fine.server);
    assert!(fine.request("tools/list", json!({})).await.notifications().is_empty());
}

// Issue 18, item 9: before, every list took 302 ms for as long as the handshake of the hanging server.
#[tokio::test]
async fn lists_wait_once_for_a_server_that_hangs() {
    let (silent, there) = (Silent::new(), Scripted::modern().tool(Tool::named("a")).start());
    let registry = Registry::new().http("hangs", &silent.url()).http("there", &there.url());
    let gateway = Gateway::of(&registry).start().await;
    is_in_state(&gateway, "there", "ready").await;
    let began = Instant::now();
    gateway.mcp().modern("tools/list", json!({})).await;
    let first = began.elapsed();
    tokio::time::sleep(Duration::from_millis(300).saturating_sub(first)).await;
    let mut all = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        assert_eq!(gateway.mcp().modern("tools/list", json!({})).await.tool_names(), ["a"]);
        all.push(began.elapsed());
    }
    all.sort();
    eprintln!("first list {first:?}, the others {:?} to {:?}", all[0], all[19]);
    assert!(first < Duration::from_millis(600) && all[10] < Duration::from_millis(100), "{first:?} {all:?}");
    is_in_state(&gateway, "hangs", "connecting").await;
    let session = gateway.mcp_of("hangs").legacy().await;
    let told = session.server["instructions"].as_str().unwrap_or_default();
    assert!(told.contains("has not answered yet"), "{:?}", session.server);
    assert_eq!(session.request("tools/list", json!({})).await.notifications().len(), 1);
}
