//! The lines of the log that say who did what: operators, those whose role does not allow it, and callers.

use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

const READER_KEY: &str = "swy_reader_0123456789abcdef0123456789abcdef0123456789abcdef";
const OPERATOR_KEY: &str = "swy_ops_fedcba9876543210fedcba9876543210fedcba9876543210";
const TARGET: &str = "switchyard::audit";

async fn started(filter: Option<&str>) -> (Running, Server) {
    let refusal = r#"{"code":-32050,"message":"a secret of the server"}"#;
    let bad = r#"{"code":-32602,"message":"a secret of the server"}"#;
    let server = Scripted::modern()
        .tool(Tool::named("a"))
        .tool(Tool::named("bad").does(Act::Error(bad.to_owned())))
        .tool(Tool::named("no").does(Act::Error(refusal.to_owned())))
        .start();
    let keys = api_keys(&[(READER_KEY, "role: reader"), (OPERATOR_KEY, "role: superuser")]);
    let registry = Registry::new().http("one", &server.url()).setting(&format!("server: {{{keys}}}"));
    let gateway = Gateway::of(&registry);
    let gateway = filter.into_iter().fold(gateway, |gateway, filter| gateway.env("SWITCHYARD_LOG", filter));
    let gateway = gateway.start().await;
    gateway.offers_to("a", &format!("Bearer {OPERATOR_KEY}")).await;
    (gateway, server)
}

/// The next `count` lines of the audit, less what is different each time; every one names a request.
async fn lines(gateway: &Running, count: usize) -> Vec<Value> {
    eventually(&format!("{count} lines of the audit"), async || {
        let mut lines = gateway.log();
        lines.retain(|line| line["target"] == TARGET);
        (lines.len() >= count).then_some(lines)
    })
    .await
}

/// A line without what is different each time.
fn bare(line: &Value) -> Value {
    let mut line = line.clone();
    assert_eq!(line["duration_ms"].is_f64(), line["message"] != "refused", "{line}");
    let members = line.as_object_mut().expect("an object");
    members.retain(|name, _| {
        !["timestamp", "target", "request_id", "span", "duration_ms"].contains(&name.as_str())
    });
    line
}

fn line(who: (&str, &str), message: &str, more: &Value) -> Value {
    let level = if message == "called" { "DEBUG" } else { "INFO" };
    let mut line = json!({"level": level, "message": message, "principal": who.0, "role": who.1});
    let members = line.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    line
}

const READER: (&str, &str) = ("key:reader", "reader");
const OPERATOR: (&str, &str) = ("key:ops", "superuser");

#[tokio::test]
async fn operations_and_denials_are_audited_with_their_principal() {
    let (gateway, server) = started(None).await;
    let rest = |path: &str| gateway.mcp().to(&gateway.url(&format!("/api/v1/mcp{path}")));
    let (ops, reader) = (format!("Bearer {OPERATOR_KEY}"), format!("Bearer {READER_KEY}"));
    let mut ids = Vec::new();
    for (credential, path, body) in [
        (&ops, "/servers/one/reconnect", ""),
        (&ops, "/circuit-breakers/none/reset", ""),
        (&ops, "/reload", ""),
        (&reader, "/servers/one/reconnect", ""),
        (&reader, "/call", r#"{"tool":"a"}"#),
        (&ops, "/call", r#"{"tool":"a"}"#),
    ] {
        let answer = rest(path).with_header("authorization", credential).post(body, &[]).await;
        ids.push(answer.header("x-request-id").expect("an id").to_owned());
    }
    ids.pop();
    let mcp = gateway.mcp().with_header("authorization", &reader);
    let refused = mcp.call("a", json!({})).await;
    ids.push(refused.header("x-request-id").expect("an id").to_owned());
    gateway.hang_up();
    let told = lines(&gateway, 7).await;
    let bare: Vec<Value> = told.iter().map(bare).collect();
    assert_eq!(
        bare,
        [
            line(OPERATOR, "operated", &json!({"action": "reconnect", "server": "one", "outcome": "done"})),
            line(
                OPERATOR,
                "operated",
                &json!({"action": "reset_breaker", "server": "none", "outcome": "server_not_found"})
            ),
            line(OPERATOR, "operated", &json!({"action": "reload", "outcome": "done"})),
            line(READER, "refused", &json!({"action": "reconnect", "outcome": "forbidden"})),
            line(READER, "refused", &json!({"action": "call", "outcome": "forbidden"})),
            line(READER, "refused", &json!({"action": "tools/call", "outcome": "forbidden"})),
            line(("signal", "superuser"), "operated", &json!({"action": "reload", "outcome": "done"})),
        ]
    );
    for (line, id) in told.iter().zip(&ids) {
        assert_eq!(line["request_id"], *id, "{line}");
    }
    assert_eq!(server.runs("a"), 1, "the operator's");
}

#[tokio::test]
async fn calls_are_told_where_that_is_asked_for_and_never_what_was_said() {
    let (gateway, _server) = started(Some("warn,switchyard=info,switchyard::audit=debug")).await;
    let ops = format!("Bearer {OPERATOR_KEY}");
    let mcp = gateway.mcp().with_header("authorization", &ops);
    let rest = mcp.to(&gateway.url("/api/v1/mcp/call"));
    let session = mcp.legacy().await;
    let answers = [
        mcp.call("a", json!({"secret": "canary"})).await,
        session.call("a", json!({"secret": "canary"})).await,
        rest.post(r#"{"server":"one","tool":"a","arguments":{"secret":"canary"}}"#, &[]).await,
        mcp.call("no", json!({})).await,
        rest.post(r#"{"tool":"bad"}"#, &[]).await,
        rest.post(r#"{"tool":"bad"}"#, &[("accept", "text/event-stream")]).await,
        rest.post(r#"{"tool":"missing"}"#, &[]).await,
    ];
    let told = lines(&gateway, answers.len()).await;
    let called = |tool: &str, outcome: &str| {
        line(
            OPERATOR,
            "called",
            &json!({"action": "call", "server": "one", "tool": tool, "outcome": outcome}),
        )
    };
    let bare: Vec<Value> = told.iter().map(bare).collect();
    let missing =
        line(OPERATOR, "called", &json!({"action": "call", "tool": "missing", "outcome": "tool_not_found"}));
    let [done, refused, invalid] = [("a", "done"), ("no", "-32050"), ("bad", "-32602")];
    let answered = [done, done, done, refused, invalid, invalid].map(|(tool, outcome)| called(tool, outcome));
    assert_eq!(bare, answered.into_iter().chain([missing]).collect::<Vec<_>>());
    for (line, answer) in told.iter().zip(&answers) {
        assert_eq!(line["request_id"].as_str(), answer.header("x-request-id"), "{line}");
    }
    let log: Vec<String> = gateway.log().iter().map(ToString::to_string).collect();
    assert!(!log.iter().any(|line| line.contains("canary") || line.contains("a secret")), "{log:#?}");
}
