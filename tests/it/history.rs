//! The last calls, which are kept without anybody watching: over REST, on the command line, and after a restart.
//!
//! Not here: filters and cursors (`admin::history`), shares and bounds of memory and files (`gateway::manager::history`).

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

/// A server with a tool that works, and one for each kind of failure.
fn server() -> Server {
    let text = r#"{"content":[{"type":"text","text":"no city with s3cret-of-the-server"}],"isError":true}"#;
    let error = r#"{"code":-32050,"message":"not with s3cret-of-the-server"}"#;
    Scripted::modern()
        .tool(Tool::named("add"))
        .tool(Tool::named("tool").does(Act::Result(text.into())))
        .tool(Tool::named("rpc").does(Act::Error(error.into())))
        .tool(Tool::named("http").does(Act::Status(500, None)))
        .start()
}

fn registry(server: &Server) -> Registry {
    Registry::new().http("one", &server.url()).with(r#"headers: {"X-Key": "s3cret-of-the-server"}"#)
}

/// The calls that `query` finds, the newest first.
async fn past(gateway: &Running, query: &str) -> Vec<Value> {
    let answer = gateway.get(&format!("/history{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["calls"].as_array().expect("a list").clone()
}

fn tools(calls: &[Value]) -> Vec<&str> {
    calls.iter().map(|call| call["tool"].as_str().expect("a name")).collect()
}

/// Waits until the files of the gateway in `folder` have so many calls, and returns the files.
async fn written(folder: &Path, calls: usize) -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    eventually("the calls are written", async || {
        let all = inside(folder.join(".local/state/switchyard/history")).flat_map(inside);
        let files: Vec<_> = all.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
        let lines = |path: &PathBuf| std::fs::read_to_string(path).expect("readable").lines().count();
        (files.iter().map(lines).sum::<usize>() >= calls).then_some(files)
    })
    .await
}

#[tokio::test]
async fn calls_of_both_faces_are_found_although_nobody_watched_and_failures_say_why() {
    let server = server();
    let gateway = Gateway::of(&registry(&server)).start().await;
    gateway.offers(&["add", "tool", "rpc", "http"]).await;
    gateway.mcp().modern("tools/call", json!({"name": "add", "arguments": {"a": 1}})).await;
    gateway.mcp().legacy().await.call("add", json!({"a": 2})).await;
    for tool in ["add", "tool", "rpc", "http"] {
        gateway.call("one", tool, json!({"a": 1})).await;
    }
    let calls = past(&gateway, "").await;
    assert_eq!(tools(&calls), ["http", "rpc", "tool", "add", "add", "add"]);
    for (call, outcome, code, text) in [
        (&calls[0], "failed", json!("server_error"), "HTTP 500"),
        (&calls[1], "rpc_error", Value::Null, "-32050: not with ***"),
        (&calls[2], "tool_error", Value::Null, "no city with ***"),
    ] {
        assert_eq!((&call["outcome"], &call["code"]), (&json!(outcome), &code), "{call}");
        assert!(call["error"].as_str().is_some_and(|error| error.contains(text)), "{call}");
    }
    let clients: Vec<&Value> = calls[3..].iter().map(|call| &call["client"]).collect();
    assert_eq!(clients[0], "REST");
    assert!(clients[1..].iter().all(|client| client.as_str() == Some("switchyard-tests/1")), "{clients:?}");
    for call in &calls {
        assert_eq!(call["request_id"].as_str().map(str::len), Some(36), "{call}");
        assert!(call["duration_ms"].is_number() && call["attempts"].is_array(), "{call}");
        assert_eq!(call.get("arguments"), None, "they are off by default");
    }
    assert_eq!(tools(&past(&gateway, "?failed=true&server=one&since=1h").await), ["http", "rpc", "tool"]);

    let (url, run) = (gateway.url(""), gateway.gateway());
    let logs = |more: &[&str]| {
        let ran = run.output(&[&["logs", "--url", &url], more].concat());
        (ran.status.code(), String::from_utf8(ran.stdout).expect("UTF-8"), ran.stderr)
    };
    let (code, lines, _) = logs(&["--since", "1h", "--failed", "-o", "json"]);
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    assert!(code == Some(0) && lines.iter().all(|line| line["event"] == "call_ended"), "{lines:?}");
    let shown: Vec<Value> = lines.iter().map(|line| line["data"].clone()).collect();
    assert_eq!(tools(&shown), ["tool", "rpc", "http"], "the newest is the last");
    let (code, text, _) = logs(&["--since", "1h", "--tool", "http"]);
    assert!(code == Some(0) && text.contains("failed") && text.contains("HTTP 500"), "{text}");
    let (code, text, note) = logs(&["--since", "1h", "--limit", "2"]);
    assert!(code == Some(0) && text.lines().count() == 2 && text.contains("HTTP 500"), "{text}");
    assert!(String::from_utf8_lossy(&note).contains("--limit"));
    let (code, _, error) = logs(&["--since", "yesterday"]);
    assert!(code == Some(1) && String::from_utf8_lossy(&error).contains("`since`"), "{error:?}");
    let away = run.output(&["logs", "--since", "1h", "--url", "http://127.0.0.1:1"]);
    assert_eq!(away.status.code(), Some(3));
}

#[tokio::test]
async fn a_cancelled_call_is_kept_and_settings_turn_arguments_on_and_the_history_off() {
    let server =
        Scripted::modern().tool(Tool::named("add")).tool(Tool::named("hangs").does(Act::Hang)).start();
    let file = |settings: &str| registry(&server).setting(settings);
    let gateway = Gateway::of(&file("history: {arguments: true}\nerrors_in_events: false")).start().await;
    gateway.offers(&["add", "hangs"]).await;
    tokio::select! {
        answer = gateway.call("one", "hangs", json!({})) => panic!("{answer:?}"),
        () = tokio::time::sleep(std::time::Duration::from_millis(500)) => {}
    }
    let cancelled = eventually("the call is cancelled", async || past(&gateway, "").await.into_iter().next());
    assert_eq!(cancelled.await["outcome"], "cancelled");
    gateway.call("one", "add", json!({"note": "has s3cret-of-the-server"})).await;
    let calls = past(&gateway, "?tool=add").await;
    assert_eq!(calls[0]["arguments"], json!({"note": "has ***"}));

    gateway.rewrite(&file("history: {calls: 0}").yaml());
    assert_eq!(gateway.post("/reload", "").await.status, 200);
    let off = gateway.get("/history").await;
    assert_eq!(off.status, 404);
    assert!(off.json()["hint"].as_str().is_some_and(|hint| hint.contains("history")), "{:?}", off.json());
    gateway.rewrite(&file("history: {calls: 10}").yaml());
    assert_eq!(gateway.post("/reload", "").await.status, 200);
    assert!(past(&gateway, "").await.is_empty(), "nothing of before is left");
}

#[tokio::test]
async fn a_principal_finds_its_own_calls_alone() {
    let server = server();
    let keys = ["ann", "bob", "ops"].map(|name| format!("swy_{name}_{}", "0123456789abcdef".repeat(3)));
    let [ann, bob, ops] = keys.each_ref().map(String::as_str);
    let entries = api_keys(&[(ann, "role: caller"), (bob, "role: caller"), (ops, "role: superuser")]);
    let registry = registry(&server).setting(&format!("server: {{{entries}}}"));
    let gateway = Gateway::of(&registry).start().await;
    let bearer = |at: usize| format!("Bearer {}", keys[at]);
    gateway.offers_to("add", &bearer(2)).await;
    let client = |at: usize| -> Client { gateway.mcp().with_header("authorization", &bearer(at)) };
    for (at, tool) in [(0, "add"), (1, "tool"), (0, "rpc")] {
        client(at).modern("tools/call", json!({"name": tool, "arguments": {}})).await;
    }
    let http = reqwest::Client::new();
    let find = async |at: usize, query: &str| {
        let url = gateway.url(&format!("/api/v1/mcp/history{query}"));
        let answer = http.get(url).header("authorization", bearer(at)).send().await.expect("an answer");
        let page: Value = answer.json().await.expect("JSON");
        tools(page["calls"].as_array().unwrap_or_else(|| panic!("{page}"))).join(" ")
    };
    for (at, query, found) in [
        (0, "", "rpc add"),
        (1, "", "tool"),
        (2, "", "rpc tool add"),
        (0, "?principal=key:bob", ""),
        (2, "?principal=key:bob", "tool"),
        (1, "?principal=key:bob", "tool"),
    ] {
        assert_eq!(find(at, query).await, found, "{at} {query}");
    }
    written(gateway.folder(), 3).await;
    let gateway = gateway.end().await.start().await;
    for (at, found) in [(0, "rpc add"), (1, "tool"), (2, "rpc tool add")] {
        let url = gateway.url("/api/v1/mcp/history");
        let answer = http.get(url).header("authorization", bearer(at)).send().await.expect("an answer");
        let page: Value = answer.json().await.expect("JSON");
        assert_eq!(tools(page["calls"].as_array().expect("a list")).join(" "), found, "after a restart");
    }
}

#[tokio::test]
async fn calls_are_found_after_a_restart_also_behind_a_line_that_was_cut() {
    let server = server();
    let gateway = Gateway::of(&registry(&server)).start().await;
    gateway.offers(&["add", "tool"]).await;
    gateway.call("one", "tool", json!({})).await;
    gateway.call("one", "add", json!({})).await;
    let before = past(&gateway, "").await;
    // A call that ended just before the end is written too.
    let gateway = gateway.end().await;
    let files = written(gateway.folder(), 2).await;
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::metadata(&files[0]).expect("there").permissions().mode() & 0o777, 0o600);
    let mut text = std::fs::read(&files[0]).expect("readable");
    text.extend_from_slice(br#"{"id":99,"at":"2026"#);
    std::fs::write(&files[0], text).expect("writable");

    let gateway = gateway.start().await;
    gateway.offers(&["add", "tool"]).await;
    assert_eq!(past(&gateway, "").await, before, "they are as they were");
    gateway.call("one", "rpc", json!({})).await;
    written(gateway.folder(), 4).await;
    let gateway = gateway.end().await.start().await;
    assert_eq!(tools(&past(&gateway, "").await), ["rpc", "add", "tool"]);
    assert_eq!(tools(&past(&gateway, "?failed=true&since=1d").await), ["rpc", "tool"]);
}

#[tokio::test]
async fn a_state_folder_that_cannot_be_written_costs_no_call_and_is_said_once() {
    let server = server();
    let gateway = Gateway::of(&registry(&server).setting("server: {state_dir: state}"));
    std::fs::create_dir(gateway.folder().join("state")).expect("made");
    // A folder cannot be made where a file is, not even by root.
    std::fs::write(gateway.folder().join("state/history"), "").expect("written");
    let gateway = gateway.start().await;
    gateway.offers(&["add"]).await;
    for round in 1..4 {
        assert_eq!(gateway.call("one", "add", json!({})).await.status, 200);
        assert_eq!(past(&gateway, "").await.len(), round, "calls in memory are found");
        eventually("the loss is counted", async || {
            let metrics = reqwest::get(gateway.url("/metrics")).await.expect("an answer").text().await;
            let metrics = metrics.expect("a text");
            let counted = |line: &&str| line.contains("limit_hits_total") && line.contains("history_lines");
            let line = metrics.lines().find(counted)?.to_owned();
            (line.rsplit_once(' ')?.1.parse::<f64>().ok()? >= f64::from(u32::try_from(round).ok()?))
                .then_some(())
        })
        .await;
    }
    let is_loss =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains("missing in the history"));
    let told = async || (gateway.log().iter().filter(|line| is_loss(line)).count() == 1).then_some(());
    eventually("it is told once", told).await;
}

#[tokio::test]
async fn files_have_no_more_calls_than_the_setting_says() {
    let server = server();
    let gateway = Gateway::of(&registry(&server).setting("history: {calls: 16}")).start().await;
    gateway.offers(&["add"]).await;
    for _ in 0..100 {
        assert_eq!(gateway.call("one", "add", json!({})).await.status, 200);
    }
    let gateway = gateway.end().await;
    let files = written(gateway.folder(), 1).await;
    let lines = |path: &PathBuf| std::fs::read_to_string(path).expect("readable").lines().count();
    let sum: usize = files.iter().map(lines).sum();
    assert!((10..=16).contains(&sum), "{sum} calls");
    let gateway = gateway.start().await;
    assert_eq!(past(&gateway, "?limit=1000").await.len(), sum);
}
