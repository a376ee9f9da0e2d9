//! The scripted servers and the bare client must be right themselves: they are held against the
//! Rust SDK, so that a test of the program that fails accuses the program.

use serde_json::json;

use crate::support::rmcp_peer::{self, Era};
use crate::support::scripted::{Act, Refusing, Scripted, Silent, Tool};
use crate::support::{Client, child, sse};

#[tokio::test]
async fn the_sdk_accepts_a_scripted_modern_server() {
    let server = Scripted::modern().tool(Tool::named("a")).tool(Tool::named("b")).pages_of(1).start();
    let client = rmcp_peer::http_client(&server.url(), Era::Modern).await;
    let tools = client.list_all_tools().await.expect("a list");
    assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(rmcp_peer::call(&client, "a", &json!({"x": 1})).await, r#"{"x":1}"#);
    assert_eq!((server.runs("a"), server.runs("b")), (1, 0));
    assert!(server.seen_calling("initialize").is_empty());
}

#[tokio::test]
async fn the_sdk_accepts_a_scripted_legacy_server() {
    let server = Scripted::legacy().tool(Tool::named("a")).start();
    let client = rmcp_peer::http_client(&server.url(), Era::Legacy).await;
    assert_eq!(rmcp_peer::call(&client, "a", &json!({})).await, "{}");
    assert_eq!(server.sessions(), 1);
    client.cancel().await.expect("it ends");
    assert_eq!(server.seen().last().expect("a request").http_method, "DELETE");
    assert_eq!(server.sessions(), 0);
}

#[tokio::test]
async fn the_client_is_accepted_by_the_sdk_in_both_eras() {
    let modern = rmcp_peer::http_server(Era::Modern);
    let client = Client::at(&modern.url);
    assert_eq!(client.modern("tools/list", json!({})).await.tool_names(), ["echo", "era"]);
    assert_eq!(client.call("echo", json!({"x": [1, null]})).await.text(), r#"{"x":[1,null]}"#);

    let legacy = rmcp_peer::http_server(Era::Legacy);
    let session = Client::at(&legacy.url).legacy().await;
    assert_eq!(session.version, "2025-11-25");
    assert_eq!(session.call("era", json!({})).await.text(), "Legacy");
    assert_eq!(session.request("nonsense", json!({})).await.error_code(), -32601);
    assert!(session.delete().await.status < 300);
}

#[tokio::test]
async fn a_scripted_modern_server_is_strict() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let client = Client::at(&server.url());
    let body = client.modern_body("tools/call", r#"{"name":"a","arguments":{}}"#);
    let usual = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "a")];
    assert_eq!(client.post(&body, &usual).await.status, 200);
    for wrong in [("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list"), ("mcp-name", "b")] {
        let headers = usual.map(|header| if header.0 == wrong.0 { wrong } else { header });
        let answer = client.post(&body, &headers).await;
        assert_eq!((answer.status, answer.error_code()), (400, -32020), "{wrong:?}");
    }
    assert_eq!(server.runs("a"), 1);
    let bare = client.post(&client.envelope("tools/list", "{}"), &usual).await;
    assert_eq!((bare.status, bare.error_code()), (400, -32602));
}

#[tokio::test]
async fn a_scripted_server_misbehaves_on_command() {
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$TOKEN","progress":1}}"#;
    let tool = Tool::named("a")
        .does(Act::Result(r#"{"content":[],"big":1e400,"resultType":"complete"}"#.to_owned()))
        .does(Act::After(vec![notice.to_owned()], Box::new(Act::Echo)))
        .does(Act::Status(503, Some(2)))
        .does(Act::Error(r#"{"code":-5,"message":"no","data":null}"#.to_owned()))
        .does(Act::Drop)
        .does(Act::Cut);
    let server = Scripted::modern().tool(tool).start();
    let client = Client::at(&server.url());
    assert!(client.call("a", json!({})).await.result_text().contains("1e400"));
    let params = json!({"name": "a", "_meta": {"progressToken": "t7",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}});
    let streamed = client.modern("tools/call", params).await;
    assert!(streamed.is_stream());
    assert_eq!(streamed.notifications()[0]["params"]["progressToken"], "t7");
    assert_eq!(streamed.text(), "(none)");
    let refused = client.call("a", json!({})).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("2")));
    assert_eq!(client.call("a", json!({})).await.error_code(), -5);

    let body = client.modern_body("tools/call", r#"{"name":"a"}"#);
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let send = async || {
        let request = http.post(server.url()).body(body.clone()).header("mcp-name", "a");
        let request = request.header("mcp-method", "tools/call").header("mcp-protocol-version", "2026-07-28");
        request.send().await
    };
    assert!(send().await.is_err(), "dropped before the first byte");
    assert!(send().await.expect("it begins").text().await.is_err(), "cut in the middle");
    assert_eq!(server.runs("a"), 6);
}

#[tokio::test]
async fn change_notices_reach_both_eras() {
    let modern = Scripted::modern().tool(Tool::named("a")).start();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = Client::at(&modern.url()).modern_stream("subscriptions/listen", &filter).await;
    let first = stream.next().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    modern.change_tools(vec![Tool::named("b")]);
    let notice = stream.next().await.expect("a notice");
    assert_eq!(notice["method"], "notifications/tools/list_changed");
    assert_eq!(
        notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
    );

    let legacy = Scripted::legacy().tool(Tool::named("a")).start();
    let session = Client::at(&legacy.url()).legacy().await;
    let mut stream = session.client.listen().await;
    legacy.change_tools(vec![Tool::named("b")]);
    assert_eq!(stream.next().await.expect("a notice")["method"], "notifications/tools/list_changed");
    assert_eq!(session.request("tools/list", json!({})).await.tool_names(), ["b"]);
    legacy.forget_sessions();
    assert_eq!(session.request("tools/list", json!({})).await.status, 404);
}

#[tokio::test]
async fn an_old_sse_server_answers_on_its_stream() {
    let server = Scripted::sse().tool(Tool::named("a")).start();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut stream = http.get(server.url()).send().await.expect("a stream");
    let first = stream.chunk().await.expect("a chunk").expect("an event");
    let endpoint = sse::events(std::str::from_utf8(&first).expect("UTF-8")).remove(0);
    assert_eq!(endpoint.name, "endpoint");
    let url = server.url().replace("/sse", &endpoint.data);
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0}}}"#;
    assert_eq!(http.post(url).body(body).send().await.expect("an answer").status(), 202);
    let second = stream.chunk().await.expect("a chunk").expect("an event");
    assert!(String::from_utf8_lossy(&second).contains(r#"{\"n\":1.0}"#));
}

#[tokio::test]
async fn closed_and_silent_ports_are_distinguished() {
    let refusing = Refusing::new();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    assert!(http.post(refusing.url()).send().await.expect_err("refused").is_connect());
    let silent = Silent::new();
    let patience = std::time::Duration::from_millis(50);
    assert!(http.post(silent.url()).timeout(patience).send().await.expect_err("silence").is_timeout());
}

#[tokio::test]
async fn the_sdk_accepts_the_stdio_peer_in_both_eras() {
    for (era, argument) in [(Era::Modern, "modern"), (Era::Legacy, "legacy"), (Era::Modern, "dual")] {
        let mut command = std::process::Command::new(child::program());
        command.args(["--era", argument, "--tools", "a,b"]);
        let client = rmcp_peer::stdio_client(command, era).await;
        assert_eq!(client.list_all_tools().await.expect("a list").len(), 2);
        assert_eq!(rmcp_peer::call(&client, "a", &json!({"x": 2})).await, r#"{"x":2}"#);
    }
}
