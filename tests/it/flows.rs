//! Large results, which pass through while they arrive: whole and unchanged, or visibly broken.

use serde_json::json;

use crate::support::client::MODERN;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// A result of about `size` bytes that a typed gateway would change.
fn result(size: usize) -> String {
    let text = r#"line \"one\"\n\u00e9\\ "#.repeat(size / 22);
    format!(
        r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text}","n":1e400}}],"z":[ 1.0 ]}}"#
    )
}

fn sizes() -> [(&'static str, String); 3] {
    [("a", result(64 << 10)), ("b", result(1 << 20)), ("c", result(10 << 20))]
}

/// A modern call of `tool` whose answer is not read yet.
async fn open(gateway: &Running, tool: &str, params: &str) -> reqwest::Response {
    let request = reqwest::Client::new()
        .post(gateway.url("/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(gateway.mcp().modern_body("tools/call", params));
    request.send().await.expect("the head comes")
}

/// Reads the answer and compares it with `expected` in pieces, without storing it.
async fn reads(mut response: reqwest::Response, expected: &str) {
    let (mut head, mut rest) = (Vec::new(), expected.as_bytes());
    while let Some(chunk) = response.chunk().await.expect("it comes whole") {
        let mut chunk = &chunk[..];
        if !head.ends_with(b"\"result\":") {
            let end =
                chunk.windows(9).position(|window| window == b"\"result\":").map_or(chunk.len(), |at| at + 9);
            head.extend_from_slice(&chunk[..end]);
            chunk = &chunk[end..];
        }
        let known = chunk.len().min(rest.len());
        assert!(chunk[..known] == rest[..known], "{} bytes before its end it is another one", rest.len());
        rest = &rest[known..];
    }
    assert!(rest.is_empty(), "{} bytes are missing", rest.len());
}

#[tokio::test]
async fn large_results_pass_untouched_in_both_eras() {
    for server in [Scripted::modern(), Scripted::legacy()] {
        let tool = |(name, result): (&str, String)| Tool::named(name).does(Act::Result(result));
        let server = sizes().into_iter().map(tool).fold(server, Scripted::tool).start();
        let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
        gateway.offers(&["a", "b", "c"]).await;
        let session = gateway.mcp().legacy().await;
        for (name, result) in sizes() {
            let modern = gateway.mcp().call(name, json!({})).await;
            assert!(modern.result_text() == result, "{name} in the modern era");
            let legacy = session.call(name, json!({})).await;
            assert!(legacy.result_text() == result, "{name} in the legacy era");
        }
    }
}

#[tokio::test]
async fn the_id_is_the_clients_own_as_it_spelled_it() {
    let server = Scripted::legacy().tool(Tool::named("a").does(Act::Result(result(100_000)))).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let session = gateway.mcp().legacy().await;
    for id in [r#""call \u0061\/1""#, "-7", r#""""#] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"a"}}}}"#);
        let answer = session.client.post(&body, &[]).await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result(100_000));
        assert!(answer.body == expected, "{id}: {}", &answer.body[..answer.body.len().min(200)]);
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn a_result_that_breaks_off_reaches_its_client_broken_and_others_go_on() {
    let server = Scripted::modern().tool(Tool::named("a").does(Act::Cut).does(Act::Echo)).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let params = json!({"name": "a", "arguments": {"x": "y".repeat(200_000)}}).to_string();
    let response = open(&gateway, "a", &params).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    assert!(response.bytes().await.is_err(), "half an answer must not pass for a whole one");
    let line = eventually("the log says so", async || {
        gateway.log().into_iter().find(|line| line["request_id"] == id.as_str())
    })
    .await;
    let message = "an answer was cut while it was passed on";
    assert_eq!(json!([line["level"], line["message"], line["server"]]), json!(["WARN", message, "one"]));
    let whole = gateway.mcp().modern_text("tools/call", &params).await;
    assert!(whole.result_text().contains("yyyy"), "the next call is another one");
    assert_eq!(server.runs("a"), 2, "nothing was tried again");
}

// RULES R16
#[tokio::test]
async fn client_that_does_not_read_costs_little_memory_and_delays_no_other() {
    let big = result(48 << 20);
    let server = Scripted::modern().tool(Tool::named("big").does(Act::Result(big.clone())));
    let server = server.tool(Tool::named("small")).start();
    let limits = "limits: {message_bytes: 100000000}";
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).with(limits)).start().await;
    gateway.offers(&["big", "small"]).await;
    gateway.mcp().call("small", json!({})).await;
    let before = gateway.peak_memory();
    let stuck = open(&gateway, "big", r#"{"name":"big"}"#).await;
    for n in 0..50 {
        assert_eq!(gateway.mcp().call("small", json!({"n": n})).await.text(), format!(r#"{{"n":{n}}}"#));
    }
    reads(stuck, &big).await;
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(grown < 4 << 20, "a result of 48 MiB took {grown} bytes");
}

#[tokio::test]
async fn fifty_large_results_at_a_time_take_a_share_of_their_size() {
    let big = result(4 << 20);
    let server = Scripted::modern().tool(Tool::named("big").does(Act::Result(big.clone()))).start();
    let limits = "limits: {concurrent_calls: 50}";
    let gateway = Gateway::of(&Registry::new().http("one", &server.url()).with(limits)).start().await;
    gateway.offers(&["big"]).await;
    let before = gateway.peak_memory();
    let calls = (0..50).map(async |_| reads(open(&gateway, "big", r#"{"name":"big"}"#).await, &big).await);
    futures_util::future::join_all(calls).await;
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(grown < 50 << 20, "results of 200 MiB took {grown} bytes");
    assert_eq!(server.runs("big"), 50, "nothing was tried again");
}
