//! Clients that write less than the specification demands, and whose intent is clear. They write `null` in optional
//! members, any form of `Accept`, an empty cursor or a byte order mark, or `ping` without a session. Strictness that
//! protects stays.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::line::{Line, LineAnswer};
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry};

const SECOND: Duration = Duration::from_secs(1);
const LEGACY: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}"#;
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug","progressToken":1}"#;
const PROGRESS: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$TOKEN","progress":1}}"#;
const LOG: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"half done"}}"#;
const ELICITATION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}}"#;

fn offered() -> Scripted {
    let chatty = Act::After(vec![PROGRESS.to_owned(), LOG.to_owned()], Box::new(Act::Echo));
    Scripted::legacy()
        .tool(Tool::named("echo"))
        .tool(Tool::named("chatty").does(chatty))
        .tool(Tool::named("asks").does(Act::Paced(
            SECOND,
            vec![ELICITATION.to_owned(); 9],
            Box::new(Act::Echo),
        )))
        .tool(Tool::named("slow").does(Act::Slow(SECOND + SECOND / 2)))
        .offers("prompts", r#"[{"name":"p"}]"#)
        .offers("resources", r#"[{"uri":"memo:r","name":"r"}]"#)
        .answers("prompts/get", vec![r#"{"messages":[]}"#.to_owned()])
        .answers("resources/read", vec![r#"{"contents":[]}"#.to_owned()])
        .answers("completion/complete", vec![r#"{"completion":{"values":[]}}"#.to_owned(); 2])
}

async fn started() -> (Running, Server) {
    let server = offered().start();
    let gateway = Gateway::of(&Registry::new().http("a", &server.url())).start().await;
    gateway.offers(&["echo", "chatty", "asks", "slow"]).await;
    (gateway, server)
}

/// A client that sends exactly these headers beside `Content-Type`.
struct Bare {
    address: String,
    headers: Vec<(&'static str, String)>,
}

impl Bare {
    fn at(gateway: &Running, accept: &[&str]) -> Self {
        let address = gateway.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
        let accept = accept.iter().map(|value| ("accept", (*value).to_owned()));
        Self { address, headers: accept.collect() }
    }

    async fn post(&self, path: &str, body: &str) -> LineAnswer {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(self.headers.iter().map(|(name, value)| (*name, value.as_str())));
        Line::to(&self.address).whole("POST", path, &headers, body.as_bytes()).await
    }

    async fn initialize(&mut self) -> LineAnswer {
        let answer = self.post("/mcp", &request("initialize", LEGACY)).await;
        if let Some(id) = answer.header("mcp-session-id") {
            self.headers.push(("mcp-session-id", id.to_owned()));
            let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            assert_eq!(self.post("/mcp", notice).await.status, 202);
        }
        answer
    }

    async fn modern(&self, method: &str, params: &str) -> LineAnswer {
        let mut named: Vec<(&'static str, String)> = self.headers.clone();
        named.push(("mcp-protocol-version", "2026-07-28".to_owned()));
        named.push(("mcp-method", method.to_owned()));
        let sent: Value = serde_json::from_str(&format!("{{{params}{META}}}")).expect("JSON");
        if let Some(name) = sent["name"].as_str() {
            named.push(("mcp-name", name.to_owned()));
        }
        let bare = Self { address: self.address.clone(), headers: named };
        bare.post("/mcp", &request(method, &format!("{{{params}{META}}}"))).await
    }
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#)
}

fn call(tool: &str) -> String {
    request("tools/call", &format!(r#"{{"name":"{tool}","arguments":{{}},"_meta":{{"progressToken":1}}}}"#))
}

fn form(answer: &LineAnswer) -> &str {
    answer.header("content-type").unwrap_or_default()
}

#[tokio::test]
async fn every_accept_header_that_allows_an_answer_gets_one_in_a_form_that_it_allows() {
    let (gateway, _server) = started().await;
    for (accept, forms) in [
        (&[][..], "json"),
        (&[""], "json"),
        (&["*/*"], "json"),
        (&["*/*;q=0.1"], "json"),
        (&["application/json"], "json"),
        (&["application/json; charset=utf-8"], "json"),
        (&["APPLICATION/JSON"], "json"),
        (&["application/*"], "json"),
        (&["text/event-stream;q=0, */*"], "json"),
        (&["application/json;q=0.9, text/event-stream;q=0.8"], "json"),
        (&["application/json, text/plain, */*"], "json"),
        (&["application/json", "text/event-stream"], "json"),
        (&["text/html", "application/json"], "json"),
        (&["text/event-stream"], "event-stream"),
        (&["text/*"], "event-stream"),
        (&["text/*;q=0.5", "application/json;q=0"], "event-stream"),
    ] {
        let mut legacy = Bare::at(&gateway, accept);
        let modern = Bare::at(&gateway, accept);
        let initialized = legacy.initialize().await;
        let echo = r#""name":"echo","arguments":{},"#;
        for answer in [
            initialized,
            legacy.post("/mcp", &request("tools/list", "{}")).await,
            legacy.post("/mcp", &call("echo")).await,
            modern.modern("tools/list", "").await,
            modern.modern("server/discover", "").await,
            modern.modern("tools/call", echo).await,
        ] {
            assert_eq!(answer.status, 200, "{accept:?}: {answer:?}");
            assert!(form(&answer).contains(forms), "{accept:?}: {answer:?}");
            assert!(answer.body.contains(r#""result":"#), "{accept:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_accept_header_that_allows_no_form_of_answer_is_refused() {
    let (gateway, _server) = started().await;
    for accept in ["text/html", "image/*, text/plain", "*/*;q=0", "application/json;q=0", "json"] {
        let bare = Bare::at(&gateway, &[accept]);
        for answer in
            [bare.post("/mcp", &request("initialize", LEGACY)).await, bare.modern("tools/list", "").await]
        {
            assert_eq!(answer.status, 406, "{accept}: {answer:?}");
            assert!(answer.body.contains("application/json or text/event-stream"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_client_of_json_alone_gets_every_result_and_is_told_where_events_are_needed() {
    let (gateway, server) = started().await;
    let mut legacy = Bare::at(&gateway, &["application/json"]);
    let modern = Bare::at(&gateway, &["application/json"]);
    legacy.initialize().await;
    for tool in ["chatty", "slow"] {
        for answer in [
            legacy.post("/mcp", &call(tool)).await,
            modern.modern("tools/call", &format!(r#""name":"{tool}","arguments":{{}},"#)).await,
        ] {
            assert_eq!((answer.status, form(&answer)), (200, "application/json"), "{tool}: {answer:?}");
            assert!(answer.body.contains(r#""result":"#) && !answer.body.contains("half done"), "{answer:?}");
        }
    }
    let refused = legacy.post("/mcp", &call("asks")).await;
    let listening =
        modern.modern("subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#).await;
    for answer in [refused, listening] {
        assert_eq!((answer.status, form(&answer)), (406, "application/json"), "{answer:?}");
        assert!(answer.body.contains("text/event-stream") && answer.body.contains(r#""id":7"#), "{answer:?}");
    }
    let cancelled = || async { (!server.seen_calling("notifications/cancelled").is_empty()).then_some(()) };
    crate::support::eventually("the refused call is cancelled", cancelled).await;
    let headers: Vec<(&str, &str)> =
        legacy.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let stream = Line::to(&legacy.address).send("GET", "/mcp", &headers, b"").await;
    assert_eq!(stream.status, 406, "{stream:?}");
}

#[tokio::test]
async fn null_in_an_optional_member_means_that_it_is_absent() {
    let (gateway, server) = started().await;
    let session = gateway.mcp().legacy().await;
    for (method, params) in [
        ("tools/list", "null"),
        ("prompts/list", "null"),
        ("resources/list", "null"),
        ("resources/templates/list", "null"),
        ("ping", "null"),
        ("tools/list", r#"{"cursor":null,"_meta":null}"#),
        ("tools/call", r#"{"name":"echo","arguments":null}"#),
        ("tools/call", r#"{"name":"echo","arguments":null,"_meta":null,"task":null}"#),
        ("tools/call", r#"{"name":"echo","arguments":{},"_meta":{"progressToken":null}}"#),
        ("prompts/get", r#"{"name":"p","arguments":null}"#),
        ("resources/read", r#"{"uri":"memo:r","_meta":null}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":null}"#,
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{},"context":{"arguments":null}}"#,
        ),
    ] {
        let answer = session.request_text(method, params).await;
        assert!(answer.body.contains(r#""result":"#), "{method} {params}: {answer:?}");
    }
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#;
    assert_eq!(session.client.post(notice, &[]).await.status, 202);
    let modern = gateway.mcp();
    for params in [
        r#"{"name":"echo","arguments":null}"#.to_owned(),
        format!(
            r#"{{"name":"echo","requestState":null,"inputResponses":null,{}}}"#,
            META.replace("\"debug\"", "null")
        ),
    ] {
        let answer = modern.modern_text("tools/call", &params).await;
        assert!(answer.body.contains(r#""result":"#), "{params}: {answer:?}");
    }
    for seen in server.seen() {
        assert!(!seen.body.contains("null"), "a server was sent {}", seen.body);
    }
}

#[tokio::test]
async fn null_means_absent_over_every_other_entrance() {
    let (gateway, server) = started().await;
    let called =
        gateway.post("/call", r#"{"tool":"echo","arguments":null,"server":null,"timeout":null}"#).await;
    assert_eq!(called.status, 200, "{called:?}");
    let registry = Registry::new().http("a", &server.url());
    let mut stdio = Gateway::of(&registry).start_stdio();
    stdio.initialize();
    for params in [Value::Null, json!({"name": "echo", "arguments": null})] {
        let method = if params.is_null() { "tools/list" } else { "tools/call" };
        let answer = stdio.request(method, &params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
    }
    for seen in server.seen() {
        assert!(!seen.body.contains("null"), "a server was sent {}", seen.body);
    }
}

#[tokio::test]
async fn members_that_are_required_or_stand_twice_are_refused_although_they_are_null() {
    let (gateway, server) = started().await;
    let session = gateway.mcp().legacy().await;
    for params in [
        r#"{"name":null}"#,
        r#"{"name":"echo","arguments":null,"arguments":{}}"#,
        r#"{"name":"echo","arguments":[]}"#,
        "[]",
        "0",
    ] {
        let answer = session.request_text("tools/call", params).await;
        assert!(answer.body.contains(r#""error":"#), "{params}: {answer:?}");
    }
    assert_eq!(server.runs("echo"), 0);
}

#[tokio::test]
async fn ping_is_answered_without_a_session() {
    let (gateway, _server) = started().await;
    let bare = Bare::at(&gateway, &["application/json"]);
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    for (path, body) in [
        ("/mcp", ping),
        ("/mcp/a", ping),
        ("/mcp", &*request("ping", "{}")),
        ("/mcp", &*request("ping", "null")),
    ] {
        let answer = bare.post(path, body).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#));
        assert_eq!(answer.header("mcp-session-id"), None);
    }
    assert_eq!(bare.post("/mcp/b", ping).await.status, 404);
    assert_eq!(bare.post("/mcp", &request("tools/list", "{}")).await.status, 400);
    let ended = Bare { headers: vec![("mcp-session-id", "ended".to_owned())], ..bare };
    assert_eq!(ended.post("/mcp", ping).await.status, 404);
}

#[tokio::test]
async fn an_empty_cursor_is_the_beginning_of_every_list() {
    let (gateway, _server) = started().await;
    let (session, modern) = (gateway.mcp().legacy().await, Bare::at(&gateway, &[]));
    for (method, member) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("tasks/list", "tasks"),
    ] {
        let whole = session.request_text(method, "{}").await;
        let answer = session.request_text(method, r#"{"cursor":""}"#).await;
        assert_eq!(answer.json_or_event()["result"], whole.json_or_event()["result"], "{method}");
        assert!(
            answer.json_or_event()["result"][member].is_array() || whole.json_or_event()["error"].is_object(),
            "{answer:?}"
        );
        let refused = session.request_text(method, r#"{"cursor":" "}"#).await;
        assert!(refused.body.contains(r#""error":"#), "{method}: {refused:?}");
    }
    let answer = modern.modern("tools/list", r#""cursor":"","#).await;
    assert!(answer.body.contains(r#""tools":[{"#), "{answer:?}");
}

#[tokio::test]
async fn a_byte_order_mark_before_a_body_is_ignored_at_every_entrance() {
    let (gateway, _server) = started().await;
    let mut bare = Bare::at(&gateway, &[]);
    bare.initialize().await;
    for (path, body) in [
        ("/mcp", call("echo")),
        ("/mcp", request("tools/list", "{}")),
        ("/api/v1/mcp/call", r#"{"tool":"echo"}"#.to_owned()),
        ("/api/v1/mcp/resources/read", r#"{"uri":"memo:r"}"#.to_owned()),
        ("/api/v1/mcp/prompts/p", "{}".to_owned()),
    ] {
        let answer = bare.post(path, &format!("\u{feff}{body}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let twice = bare.post(path, &format!("\u{feff}\u{feff}{body}")).await;
        assert_eq!(twice.status, 400, "{path}: {twice:?}");
    }
    let notice = "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    assert_eq!(bare.post("/mcp", notice).await.status, 202);
}

#[tokio::test]
async fn null_as_the_id_of_a_notification_means_that_it_has_none() {
    let (gateway, server) = started().await;
    let mut bare = Bare::at(&gateway, &[]);
    bare.initialize().await;
    let notice = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":null,"method":"{method}"}}"#);
    for method in ["notifications/initialized", "notifications/roots/list_changed"] {
        let answer = bare.post("/mcp", &notice(method)).await;
        assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{method}: {answer:?}");
    }
    assert_eq!(bare.post("/mcp", &notice("ping")).await.status, 400);
    let mut stdio = Gateway::of(&Registry::new().http("a", &server.url())).start_stdio();
    stdio.initialize();
    stdio.send(&notice("notifications/initialized"));
    assert!(stdio.request("tools/list", &json!({})).get("result").is_some());
}

#[tokio::test]
async fn a_content_coding_is_refused_by_name_and_identity_is_none() {
    let (gateway, server) = started().await;
    let mut bare = Bare::at(&gateway, &[]);
    bare.initialize().await;
    let mut stream = gateway.mcp().to(&gateway.url("/sse")).listen().await;
    let messages = stream.event().await.expect("the endpoint").data;
    for path in ["/mcp", "/mcp/a", "/api/v1/mcp/call", messages.as_str()] {
        let body =
            if path.contains("call") { r#"{"tool":"echo"}"#.to_owned() } else { request("ping", "{}") };
        for (coding, is_coded) in
            [("gzip", true), ("BR", true), ("identity, deflate", true), ("identity", false), ("", false)]
        {
            let mut coded = Bare { address: bare.address.clone(), headers: bare.headers.clone() };
            coded.headers.push(("content-encoding", coding.to_owned()));
            if path == "/mcp/a" {
                coded.headers.retain(|(name, _)| *name != "mcp-session-id");
            }
            let answer = coded.post(path, &body).await;
            let is_refused = answer.status == 415 && answer.body.contains("without Content-Encoding");
            assert_eq!(is_refused, is_coded, "{path} {coding}: {answer:?}");
            assert!(is_coded || answer.status < 300, "{path} {coding}: {answer:?}");
        }
    }
    assert_eq!(server.runs("echo"), 2);
}

#[tokio::test]
async fn a_client_at_the_wrong_place_is_told_the_right_one() {
    let (gateway, _server) = started().await;
    let address = gateway.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let initialize = request("initialize", LEGACY);
    for (method, path, status, place) in [
        ("POST", "/", 405, "`/mcp`"),
        ("POST", "/MCP", 404, "`/mcp`"),
        ("POST", "/mcp/a/b", 404, "`/mcp`"),
        ("POST", "/sse", 405, "`/mcp`"),
        ("POST", "/sse/a", 405, "`/mcp`"),
        ("GET", "/mcp", 400, "`/sse`"),
        ("GET", "/mcp/a", 400, "`/sse`"),
    ] {
        let body = if method == "POST" { initialize.as_bytes() } else { b"" };
        let headers =
            [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let answer = Line::to(&address).whole(method, path, &headers, body).await;
        assert!(answer.status == status && answer.body.contains(place), "{method} {path}: {answer:?}");
    }
}
