//! Shutdown of the program: calls are answered, child processes and their children have ended, and
//! only messages were printed.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, eventually};

/// The ids of processes in a record of the stdio peer.
fn recorded(path: &Path, word: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect()
}

fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // A zombie has ended; it only waits for its parent, which is another process than this one.
    !status.is_empty() && !status.contains(") Z ")
}

#[tokio::test]
async fn sigterm_takes_children_and_grandchildren_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let arguments = ["--grandchild", "--record", record.to_str().expect("UTF-8")];
    let gateway = Gateway::of(&Registry::new().child("one", &arguments)).start().await;
    gateway.offers(&["echo"]).await;
    let (child, grandchild) = (recorded(&record, "started"), recorded(&record, "grandchild"));
    let spawned: Vec<u32> = child.into_iter().chain(grandchild).collect();
    assert!(spawned.len() >= 2 && spawned.iter().all(|id| is_alive(*id)), "{spawned:?}");
    let status = gateway.stop().await;
    assert!(status.success(), "{status}");
    eventually("all children are gone", async || spawned.iter().all(|id| !is_alive(*id)).then_some(())).await;
}

// RULES R3
#[tokio::test]
async fn a_call_that_runs_is_answered_before_the_end() {
    let held = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let tool = Tool::named("a").does(Act::After(vec![held.to_owned()], Box::new(Act::Echo)));
    let server = Scripted::modern()
        .tool(tool)
        .tool(Tool::named("b").does(Act::Slow(Duration::from_millis(700))))
        .start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let client = gateway.mcp();
    let (answer, status) = tokio::join!(client.call("b", json!({"x": 1})), async {
        eventually("the call runs", async || (server.runs("b") == 1).then_some(())).await;
        gateway.stop().await
    });
    assert_eq!(answer.text(), r#"{"x":1}"#);
    assert!(status.success(), "{status}");
}

// RULES R3
#[tokio::test]
async fn request_during_the_delay_is_served_and_a_second_signal_ends_it() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url()).setting("server: {shutdown_delay: 600}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let probe = async |path: &str| gateway.mcp().to(&gateway.url(path)).bare(http::Method::GET, &[]).await;
    assert_eq!(probe("/health/ready").await.status, 200);
    gateway.ask_to_end();
    let leaving = eventually("it says that it is not ready", async || {
        Some(probe("/health/ready").await).filter(|answer| answer.status == 503)
    })
    .await;
    assert_eq!(leaving.json(), json!({"status": "draining"}));
    assert_eq!(probe("/health/live").await.status, 200);
    let answer = gateway.mcp().call("a", json!({"x": 1})).await;
    assert_eq!(answer.text(), r#"{"x":1}"#);
    let session = gateway.mcp().legacy().await;
    assert_eq!(session.call("a", json!({"x": 2})).await.text(), r#"{"x":2}"#);
    let began = std::time::Instant::now();
    let status = gateway.stop().await;
    assert!(status.success() && began.elapsed() < Duration::from_secs(10), "{status} {:?}", began.elapsed());
}

#[tokio::test]
async fn a_call_that_does_not_end_is_cancelled_at_the_limit() {
    let server = Scripted::legacy().tool(Tool::named("a").does(Act::Hang)).start();
    let registry = Registry::new().http("one", &server.url()).setting("server: {drain_timeout: 1}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    let session = gateway.mcp().legacy().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    // The test client takes the cut connection for a failed test.
    let asking = AssertUnwindSafe(session.client.post(body, &[])).catch_unwind();
    let (_, elapsed) = tokio::join!(asking, async {
        eventually("the call runs", async || (server.runs("a") == 1).then_some(())).await;
        let began = std::time::Instant::now();
        assert!(gateway.stop().await.success());
        began.elapsed()
    });
    // One second for the call, at most two for cancelling it and two for the end of the session.
    assert!(elapsed < Duration::from_secs(6), "{elapsed:?}");
    let call = &server.seen_calling("tools/call")[0].body;
    let call: Value = serde_json::from_str(call).expect("JSON");
    let cancelled = server.seen_calling("notifications/cancelled").into_iter();
    let of_call = cancelled.filter(|seen| {
        let params: Value = serde_json::from_str(&seen.params()).expect("JSON");
        params["requestId"] == call["id"]
    });
    assert_eq!(of_call.count(), 1, "the server is informed");
}

// RULES R3
#[tokio::test]
async fn open_streams_do_not_hold_up_the_end() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["a"]).await;
    let session = gateway.mcp().legacy().await;
    let mut legacy = session.client.listen().await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut modern = gateway.mcp().modern_stream("subscriptions/listen", &filter).await;
    assert_eq!(modern.next().await.expect("first")["method"], "notifications/subscriptions/acknowledged");
    let began = std::time::Instant::now();
    let status = gateway.stop().await;
    assert!(status.success() && began.elapsed() < Duration::from_secs(3), "{status} {:?}", began.elapsed());
    let last = modern.next().await.expect("a graceful end");
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert!(modern.next().await.is_none() && legacy.next().await.is_none());
}

#[test]
fn stdio_answers_what_it_was_asked_and_ends_with_its_input() {
    let registry = Registry::new().child("one", &["--banner", "--noise", "50"]);
    let mut session = Gateway::of(&registry).start_stdio();
    let server = session.initialize();
    assert_eq!(server["serverInfo"]["name"], "switchyard");
    for id in 100..120 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"n": id}}});
        session.send(&call.to_string());
    }
    let (answers, status) = session.finish();
    assert!(status.success(), "{status}");
    let mut ids: Vec<u64> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (100..120).collect::<Vec<_>>());
    assert!(
        answers.iter().filter(|a| a["id"].is_u64()).all(|answer| answer["result"]["content"].is_array()),
        "{answers:?}"
    );
}

#[test]
fn stdio_speaks_both_eras() {
    let registry = Registry::new().child("one", &[]);
    let mut session = Gateway::of(&registry).start_stdio();
    let discovered = session.modern("server/discover", json!({}));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28", "{discovered}");
    let answer = session.modern("tools/call", json!({"name": "echo", "arguments": {"x": 1}}));
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"x":1}"#, "{answer}");
    let (rest, status) = session.finish();
    assert!(rest.is_empty() && status.success(), "{rest:?} {status}");
    let mut session = Gateway::of(&registry).start_stdio();
    session.initialize();
    let answer = session.request("tools/call", &json!({"name": "echo", "arguments": {}}));
    assert_eq!(answer["result"]["content"][0]["text"], "{}", "{answer}");
}

// RULES S15
#[tokio::test]
async fn every_line_of_the_log_is_one_json_object_and_stdout_stays_empty() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url()).child("two", &["--noise", "20"]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a", "echo"]).await;
    let hostile = "x\",\"level\":\"FATAL\"}\n{\"injected\":true}\u{1b}[31m\r\n";
    gateway.mcp().legacy().await.call(hostile, json!({})).await;
    gateway.call(hostile, hostile, json!({})).await;
    gateway.get("/servers/%0a%1b%22/tools").await;
    let log = gateway.log();
    assert!(log.iter().all(|line| line.is_object() && line.get("injected").is_none()));
    assert!(log.iter().all(|line| line["level"] != "FATAL"));
}
