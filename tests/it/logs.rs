//! Log lines of failed requests: each failure has one line with its request id, and a success has none.

use serde_json::{Value, json};

use crate::support::scripted::{Act, Refusing, Scripted, Server, Tool};
use crate::support::{Answer, Gateway, Registry, Running, eventually};

/// A server's error that imitates an error of Switchyard.
const PRETENDS: &str =
    r#"{"code":-31003,"message":"no","data":{"code":"circuit_open","server":"bank","tool":"pay"}}"#;

async fn started(filter: &str) -> (Running, Server) {
    let server = Scripted::modern()
        .tool(Tool::named("good"))
        .tool(Tool::named("drops").does(Act::Drop))
        .tool(Tool::named("fails").does(Act::Status(500, None)))
        .tool(Tool::named("busy").does(Act::Status(429, None)))
        .tool(Tool::named("hangs").does(Act::Hang))
        .tool(Tool::named("pretends").does(Act::Error(PRETENDS.to_owned())))
        .start();
    let refusing = Refusing::new();
    let registry =
        Registry::new().http("one", &server.url()).with("timeout: 2").http("gone", &refusing.url());
    let gateway = Gateway::of(&registry).env("SWITCHYARD_LOG", filter).start().await;
    gateway.offers(&["good"]).await;
    (gateway, server)
}

/// The log lines with the request id of `answer`.
async fn lines(gateway: &Running, answer: &Answer) -> Vec<Value> {
    let id = answer.header("x-request-id").expect("an id").to_owned();
    let found = || gateway.log().into_iter().filter(|line| line["request_id"] == id.as_str()).collect();
    eventually("a line of the request", async || Some(found()).filter(|lines: &Vec<Value>| !lines.is_empty()))
        .await
}

/// The members of a line that the test compares.
fn compared_members(line: &Value) -> Value {
    let member = |name: &str| line[name].clone();
    json!([member("level"), member("message"), member("server"), member("tool"), member("code")])
}

#[tokio::test]
async fn a_call_that_fails_leaves_one_line_over_either_protocol() {
    let (gateway, _server) = started("warn,switchyard=info").await;
    let (mcp, session) = (gateway.mcp(), gateway.mcp().legacy().await);
    for (tool, code) in [("drops", "outcome_unknown"), ("fails", "server_error"), ("hangs", "timed_out")] {
        let body = json!({"server": "one", "tool": tool}).to_string();
        for (way, answer) in [
            ("modern", mcp.call(tool, json!({})).await),
            ("legacy", session.call(tool, json!({})).await),
            ("rest", gateway.post("/call", &body).await),
        ] {
            let lines = lines(&gateway, &answer).await;
            let expected = json!(["WARN", "request failed", "one", tool, code]);
            assert_eq!(
                lines.iter().map(compared_members).collect::<Vec<_>>(),
                [expected],
                "{way} {tool}: {lines:#?}"
            );
            let has_method = lines[0]["method"] == "tools/call";
            assert_eq!(has_method, way != "rest", "{lines:#?}");
        }
    }
}

#[tokio::test]
async fn refusals_are_told_to_who_asks_for_them_and_answers_to_nobody() {
    for (filter, is_told) in [("warn,switchyard=info", false), ("warn,switchyard=debug", true)] {
        let (gateway, server) = started(filter).await;
        let (mcp, session) = (gateway.mcp(), gateway.mcp().legacy().await);
        let hostile = "a\n\u{202e}b".repeat(100);
        let quiet = [mcp.call("good", json!({})).await, mcp.call("pretends", json!({})).await];
        let refused = [
            (mcp.call("busy", json!({})).await, "rate_limited"),
            (session.call(&hostile, json!({})).await, "tool_not_found"),
        ];
        // After this call, no line of the others can be missing.
        lines(&gateway, &mcp.call("drops", json!({})).await).await;
        let of = |answer: &Answer| -> Vec<Value> {
            let id = answer.header("x-request-id").expect("an id").to_owned();
            let log = gateway.log().into_iter();
            log.filter(|line| line["request_id"] == id.as_str() && line["code"].is_string()).collect()
        };
        for answer in &quiet {
            assert!(of(answer).is_empty(), "{:#?}", of(answer));
        }
        for (answer, code) in &refused {
            let lines = of(answer);
            let expected: &[_] = if is_told { &[json!(["DEBUG", "request refused", code])] } else { &[] };
            let told = lines.iter().map(|line| json!([line["level"], line["message"], line["code"]]));
            assert_eq!(told.collect::<Vec<_>>(), expected, "{lines:#?}");
            for line in lines {
                let shown = line["tool"].as_str().unwrap_or_default();
                assert!(shown.len() < 1_100 && !shown.contains(['\n', '\u{202e}']), "{line}");
            }
        }
        assert_eq!(server.runs("pretends"), 1);
        let log: Vec<String> = gateway.log().iter().map(ToString::to_string).collect();
        assert!(!log.iter().any(|line| line.contains("bank")), "{log:#?}");
    }
}
