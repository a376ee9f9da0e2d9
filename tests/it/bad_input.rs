//! Input that is wrong in every layer gets the documented error, reaches no server, and disturbs
//! nothing else.

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry};

const MODERN: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "search_notes")];

async fn started() -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("search_notes")).start();
    let registry = Registry::new().http("notes", &server.url()).setting("server:\n  max_body_bytes: 65536");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["search_notes"]).await;
    (gateway, server)
}

/// Checks that a good call still succeeds, and that it is the only one that reached the server.
async fn is_undisturbed(gateway: &Running, server: &Server) {
    assert_eq!(server.runs("search_notes"), 0, "bad input reached the server");
    let answer = gateway.mcp().call("search_notes", json!({"q": 1})).await;
    assert_eq!(answer.text(), r#"{"q":1}"#);
    assert_eq!(server.runs("search_notes"), 1);
    let breakers = gateway.get("/circuit-breakers").await.json().to_string();
    assert!(breakers.contains("closed") && !breakers.contains("open"), "{breakers}");
}

#[tokio::test]
async fn messages_that_are_none() {
    let (gateway, server) = started().await;
    let client = gateway.mcp();
    let good = client.modern_body("tools/call", r#"{"name":"search_notes","arguments":{}}"#);
    let (_, rest) = good.split_once(",\"method\"").expect("a method");
    let good = format!(r#"{{"jsonrpc":"2.0","id":1,"method"{rest}"#);
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    for (body, code) in [
        (String::new(), -32700),
        ("{".to_owned(), -32700),
        (good[..good.len() - 2].to_owned(), -32700),
        ("7".to_owned(), -32600),
        (format!("[{good}]"), -32600),
        ("{}".to_owned(), -32600),
        (good.replace("\"2.0\"", "\"1.0\""), -32600),
        (good.replace("\"id\":1,", "\"id\":null,"), -32600),
        (good.replace("\"id\":1,", "\"id\":1.5,"), -32600),
        (good.replace("\"method\":\"tools/call\"", "\"method\":7"), -32600),
        (good.replace("\"method\"", "\"method\":\"tools/list\",\"method\""), -32600),
        (good.replace("\"name\":\"search_notes\"", "\"name\":\"x\",\"name\":\"search_notes\""), -32600),
        (good.replace("\"arguments\":{}", &format!("\"arguments\":{{\"a\":{deep}}}")), -32600),
        (client.envelope("tools/call", "[1]"), -32600),
    ] {
        let answer = client.post(&body, &MODERN).await;
        assert_eq!((answer.status, answer.error_code()), (400, code), "{body}: {answer:?}");
    }
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn calls_that_fit_no_tool() {
    let (gateway, server) = started().await;
    let client = gateway.mcp();
    let session = client.legacy().await;
    for answer in [client.call("serch_notes", json!({})).await, session.call("serch_notes", json!({})).await]
    {
        assert_eq!((answer.status, answer.error_code()), (200, -32602), "{answer:?}");
        assert!(answer.error().to_string().contains("search_notes"), "the nearest name: {answer:?}");
    }
    for params in [
        json!({}),
        json!({"name": 7, "arguments": {}}),
        json!({"name": "search_notes", "arguments": "q"}),
        json!({"name": "search_notes", "arguments": [1]}),
    ] {
        let answer = session.request("tools/call", params.clone()).await;
        assert_eq!(answer.error_code(), -32602, "{params}: {answer:?}");
    }
    let answer = session.request("tools/list", json!({"cursor": "no-such-cursor"})).await;
    assert_eq!(answer.error_code(), -32602, "{answer:?}");
    assert_eq!(session.request("no/such/method", json!({})).await.error_code(), -32601);
    let answer = client.modern("no/such/method", json!({})).await;
    assert_eq!((answer.status, answer.error_code()), (404, -32601), "{answer:?}");
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn endless_name_is_shortened_in_the_error() {
    let (gateway, server) = started().await;
    let (client, long) = (gateway.mcp(), "x".repeat(20_000));
    let session = client.legacy().await;
    let key = format!(r#"{{"{long}":1,"{long}":2}}"#);
    let reference =
        json!({"ref": {"type": "ref/prompt", "name": long}, "argument": {"name": "a", "value": ""}});
    let mut answers = Vec::new();
    for (method, params) in [
        ("tools/call", json!({"name": long})),
        ("prompts/get", json!({"name": long})),
        ("resources/read", json!({"uri": format!("x://{long}")})),
        ("completion/complete", reference),
        (long.as_str(), json!({})),
    ] {
        answers.push(client.modern(method, params.clone()).await);
        answers.push(session.request(method, params).await);
    }
    answers.push(session.request("resources/subscribe", json!({"uri": format!("x://{long}")})).await);
    answers.push(session.request("logging/setLevel", json!({"level": long})).await);
    answers.push(session.request("tasks/get", json!({"taskId": long})).await);
    answers.push(session.request_text("tools/list", &key).await);
    answers.push(client.to(&gateway.url(&format!("/mcp/{long}"))).call("a", json!({})).await);
    let claims = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": long,
        "io.modelcontextprotocol/clientCapabilities": {}}});
    let other = client.envelope("tools/list", &claims.to_string());
    let of_version = [("mcp-protocol-version", long.as_str()), ("mcp-method", "tools/list")];
    answers.push(client.post(&other, &of_version).await);
    answers.push(session.client.post(&client.envelope("ping", "{}"), &of_version).await);
    for body in [json!({"tool": long}), json!({"tool": "a", "server": long}), json!({(long.as_str()): 1})] {
        answers.push(gateway.post("/call", &body.to_string()).await);
    }
    answers.push(gateway.post("/call", &key).await);
    answers.push(gateway.get(&format!("/servers/{long}/tools")).await);
    answers.push(gateway.get(&format!("/{long}")).await);
    for answer in answers {
        assert!(answer.status >= 400 || answer.body.contains("\"error\""), "it is refused: {answer:?}");
        assert!(answer.body.len() < 4_096, "{} bytes: {:.3000}", answer.body.len(), answer.body);
    }
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn modern_requests_that_contradict_themselves() {
    let (gateway, server) = started().await;
    let client = gateway.mcp();
    let good = client.modern_body("tools/call", r#"{"name":"search_notes","arguments":{}}"#);
    for wrong in [("mcp-method", "tools/list"), ("mcp-name", "other"), ("mcp-protocol-version", "2025-11-25")]
    {
        let headers = MODERN.map(|header| if header.0 == wrong.0 { wrong } else { header });
        let answer = client.post(&good, &headers).await;
        assert_eq!((answer.status, answer.error_code()), (400, -32020), "{wrong:?}: {answer:?}");
    }
    let unknown = good.replace("2026-07-28", "2031-01-01");
    let headers = MODERN.map(|(name, value)| (name, value.replace("2026-07-28", "2031-01-01")));
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let answer = client.post(&unknown, &headers).await;
    assert_eq!((answer.status, answer.error_code()), (400, -32022), "{answer:?}");
    let supported = &answer.error()["data"]["supported"];
    assert!(supported.as_array().is_some_and(|all| all.contains(&json!("2026-07-28"))), "{answer:?}");
    let bare = client.envelope("tools/call", r#"{"name":"search_notes","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#);
    let answer = client.post(&bare, &MODERN).await;
    assert_eq!((answer.status, answer.error_code()), (400, -32602), "no capabilities: {answer:?}");
    for method in [http::Method::GET, http::Method::DELETE] {
        let answer = client.bare(method.clone(), &[("mcp-protocol-version", "2026-07-28")]).await;
        assert_eq!(answer.status, 405, "{method}");
    }
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn sessions_that_do_not_exist() {
    let (gateway, server) = started().await;
    let list = gateway.mcp().envelope("tools/list", "{}");
    let unknown = [("mcp-session-id", "no-such-session"), ("mcp-protocol-version", "2025-11-25")];
    assert_eq!(gateway.mcp().post(&list, &unknown).await.status, 404);
    assert_eq!(gateway.mcp().bare(http::Method::DELETE, &unknown).await.status, 404);
    let stream = [unknown[0], unknown[1], ("accept", "text/event-stream")];
    assert_eq!(gateway.mcp().bare(http::Method::GET, &stream).await.status, 404);
    assert_eq!(gateway.mcp().post(&list, &[("mcp-protocol-version", "2025-11-25")]).await.status, 400);
    let session = gateway.mcp().legacy().await;
    assert!(session.delete().await.status < 300);
    assert_eq!(session.request("tools/list", json!({})).await.status, 404, "ended");
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn bodies_and_types_that_are_refused_before_they_are_read() {
    let (gateway, server) = started().await;
    let client = gateway.mcp();
    let large = client.modern_body(
        "tools/call",
        &json!({"name": "search_notes", "arguments": {"q": "x".repeat(70_000)}}).to_string(),
    );
    assert_eq!(client.post(&large, &MODERN).await.status, 413);
    let large = json!({"server": "notes", "tool": "search_notes", "arguments": {"q": "x".repeat(70_000)}});
    let answer = gateway.post("/call", &large.to_string()).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (413, Some("body_too_large")));
    let list = client.modern_body("tools/list", "{}");
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let with = |extra: (&'static str, &'static str)| [headers[0], headers[1], extra];
    assert_eq!(client.post(&list, &with(("content-type", "text/plain"))).await.status, 415);
    assert_eq!(client.post(&list, &with(("accept", "text/html"))).await.status, 406);
    assert_eq!(client.post(&list, &with(("origin", "https://evil.example"))).await.status, 403);
    assert_eq!(client.post(&list, &with(("origin", "http://localhost:6274"))).await.status, 200);
    assert_eq!(client.post(&list, &with(("host", "evil.example"))).await.status, 403);
    assert_eq!(client.bare(http::Method::PUT, &[]).await.status, 405);
    is_undisturbed(&gateway, &server).await;
}

#[tokio::test]
async fn rest_calls_that_cannot_be_made() {
    let (gateway, server) = started().await;
    let call = |value: Value| value.to_string();
    for (body, status, code, part) in [
        ("{".to_owned(), 400, "invalid_request", "JSON"),
        ("[]".to_owned(), 400, "invalid_request", "object"),
        (call(json!({"server": "notes"})), 400, "invalid_request", "tool"),
        (call(json!({"tool": 7})), 400, "invalid_request", "tool"),
        (call(json!({"tool": "search_notes", "arguments": "q"})), 400, "invalid_request", "arguments"),
        (call(json!({"tool": "search_notes", "timeout": -1})), 400, "invalid_request", "timeout"),
        (call(json!({"tool": "search_notes", "timeout": 601})), 400, "invalid_request", "timeout"),
        (call(json!({"tool": "search_notes", "argumens": {}})), 400, "invalid_request", "arguments"),
        (r#"{"tool":"search_notes","tool":"x"}"#.to_owned(), 400, "invalid_request", "tool"),
        (call(json!({"tool": "serch_notes"})), 404, "tool_not_found", "search_notes"),
        (call(json!({"server": "note", "tool": "search_notes"})), 404, "server_not_found", "notes"),
        (call(json!({"server": "notes", "tool": "serch_notes"})), 404, "tool_not_found", "search_notes"),
    ] {
        let answer = gateway.post("/call", &body).await;
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{body}: {answer:?}");
        let problem = answer.json();
        assert_eq!((answer.status, problem["code"].as_str()), (status, Some(code)), "{body}: {problem}");
        assert!(problem.to_string().contains(part), "{body}: {problem}");
        assert!(problem["request_id"].as_str().is_some_and(|id| id.len() == 36), "{problem}");
    }
    for (route, status) in [("/nothing", 404), ("/servers/none/tools", 404)] {
        assert_eq!(gateway.get(route).await.status, status, "{route}");
    }
    assert_eq!(gateway.post("/servers/none/reconnect", "").await.status, 404);
    assert_eq!(gateway.post("/circuit-breakers/none/reset", "").await.status, 404);
    assert_eq!(gateway.get("/call").await.status, 405);
    is_undisturbed(&gateway, &server).await;
}
