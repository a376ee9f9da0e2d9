//! Replies of servers that would make a client open another page than a web page, or follow a task that it did not ask
//! for.

use serde_json::{Value, json};

use crate::support::client::MODERN;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running};

const PAGES: [&str; 6] = [
    "javascript:alert(1)",
    "JAVASCRIPT://a/%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "https://user:pass@login.example/",
    "https://login.example\\@evil.example/",
];

async fn gateway(server: &Server) -> Running {
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["tool"]).await;
    gateway
}

/// The answers to a call of `tool` over every route.
async fn answers(gateway: &Running) -> Vec<String> {
    let session = gateway.mcp().legacy().await;
    let abilities = json!({"elicitation": {"form": {}, "url": {}}});
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": abilities,
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}});
    let client = gateway.mcp();
    let params = json!({"name": "tool", "arguments": {}, "_meta": meta}).to_string();
    let body = client.envelope("tools/call", &params);
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "tool")];
    vec![
        gateway.mcp().call("tool", json!({})).await.body,
        client.post(&body, &headers).await.body,
        session.call("tool", json!({})).await.body,
        gateway.call("one", "tool", json!({})).await.body,
    ]
}

fn does(scripted: Scripted, act: Act) -> Server {
    scripted.tool(Tool::named("tool").does(act)).start()
}

#[tokio::test]
async fn page_of_another_scheme_reaches_no_client() {
    for page in PAGES {
        let params = json!({"mode": "url", "message": "m", "url": page, "elicitationId": "e"});
        let asks = json!({"resultType": "input_required", "requestState": "s",
            "inputRequests": {"a": {"method": "elicitation/create", "params": params}}});
        let error = json!({"code": -32042, "message": "m", "data": {"elicitations": [params]}});
        let request = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params});
        let legacy_request = Act::After(vec![request.to_string()], Box::new(Act::Echo));
        for server in [
            does(Scripted::modern(), Act::Result(asks.to_string())),
            does(Scripted::modern(), Act::Error(error.to_string())),
            does(Scripted::legacy(), Act::Error(error.to_string())),
            does(Scripted::legacy(), legacy_request),
        ] {
            let gateway = gateway(&server).await;
            let written = Value::from(page).to_string();
            for answer in answers(&gateway).await {
                assert!(!answer.contains(&written), "{page}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn web_page_still_reaches_the_client() {
    let asks = json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"a": {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "m", "url": "https://login.example/a?b"}}}});
    let server = does(Scripted::modern(), Act::Result(asks.to_string()));
    let gateway = gateway(&server).await;
    let answer = gateway.mcp().call("tool", json!({})).await;
    assert!(answer.body.contains("https://login.example/a?b"), "{answer:?}");
}

#[tokio::test]
async fn task_that_nobody_asked_for_is_not_passed_on() {
    let task =
        json!({"taskId": "raw-7", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": null});
    let content = json!([{"type": "text", "text": "done"}]);
    for (result, passes) in [
        (json!({"content": content, "task": task, "resultType": "complete"}), true),
        (json!({"task": task, "resultType": "complete"}), false),
    ] {
        for scripted in [Scripted::modern(), Scripted::legacy()] {
            let server = does(scripted, Act::Result(result.to_string()));
            let gateway = gateway(&server).await;
            for answer in answers(&gateway).await {
                assert!(!answer.contains("raw-7"), "{result}: {answer}");
                assert!(!passes || answer.contains("done"), "{result}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn task_in_the_answer_of_another_method_is_not_passed_on() {
    let task = json!({"taskId": "raw-7", "status": "working"});
    let prompt = json!({"messages": [], "task": task, "resultType": "complete"});
    let contents = json!({"contents": [{"uri": "memo:a", "text": "done"}], "task": task, "resultType": "complete",
        "ttlMs": 0, "cacheScope": "private"});
    for scripted in [Scripted::modern(), Scripted::legacy()] {
        let server = scripted
            .tool(Tool::named("tool"))
            .offers("prompts", r#"[{"name": "p"}]"#)
            .offers("resources", r#"[{"uri": "memo:a", "name": "a"}]"#)
            .answers("prompts/get", vec![prompt.to_string(); 2])
            .answers("resources/read", vec![contents.to_string(); 2])
            .start();
        let gateway = gateway(&server).await;
        let session = gateway.mcp().legacy().await;
        for (method, params) in
            [("prompts/get", json!({"name": "p"})), ("resources/read", json!({"uri": "memo:a"}))]
        {
            let modern = gateway.mcp().modern(method, params.clone()).await;
            let legacy = session.request(method, params).await;
            for answer in [modern, legacy] {
                assert!(answer.json()["error"].is_null(), "{method}: {answer:?}");
                assert!(!answer.body.contains("raw-7"), "{method}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn task_of_the_extension_is_not_passed_to_a_client_that_cannot_follow_it() {
    let task = json!({"resultType": "task", "taskId": "raw-7", "status": "working", "ttlMs": null});
    let server = does(Scripted::modern(), Act::Result(task.to_string()));
    let gateway = gateway(&server).await;
    let answer = gateway.mcp().call("tool", json!({})).await;
    assert_eq!(answer.json()["error"]["data"]["code"], "invalid_answer", "{answer:?}");
}
