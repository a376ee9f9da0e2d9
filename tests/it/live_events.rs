//! Live events, read by `switchyard logs`.
//!
//! Not here: the route and its filters (`admin::events`).

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::sse;
use crate::support::{Gateway, Registry, Running, eventually};

/// `switchyard logs --follow`, and the lines that it writes.
struct Follower {
    lines: Receiver<String>,
    _process: Process,
}

impl Follower {
    /// Starts it. Events are recorded from some time after that.
    fn of(gateway: &Running) -> Self {
        let url = gateway.url("");
        let mut command = gateway.gateway().command("logs");
        command.args(["--follow", "-o", "json", "--url", &url]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let (sender, lines) = std::sync::mpsc::channel();
        let out = BufReader::new(process.take_stdout());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { lines, _process: process }
    }

    /// Repeats `act` until an event `is`, and returns its data.
    async fn sees(&self, what: &str, act: impl AsyncFn(), is: impl Fn(&str, &Value) -> bool) -> Value {
        eventually(what, async || {
            act().await;
            let shown =
                |line: String| serde_json::from_str::<Value>(&line).expect("one JSON object on a line");
            let is = |line: &Value| is(line["event"].as_str().expect("a name"), &line["data"]);
            self.lines.try_iter().map(shown).find(is).map(|line| line["data"].clone())
        })
        .await
    }
}

/// Changes nothing.
async fn wait() {}

#[tokio::test]
async fn followed_calls_are_shown_as_they_happen_and_recorded_for_others() {
    let server = Scripted::modern().tool(Tool::named("add")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["add"]).await;
    let url = gateway.url("");
    let follower = Follower::of(&gateway);
    let call = async || drop(gateway.call("one", "add", json!({"a": 1})).await);
    let data = follower.sees("a call is shown", call, |event, _| event == "call_ended").await;
    assert_eq!(
        (&data["server"], &data["tool"], &data["outcome"]),
        (&json!("one"), &json!("add"), &json!("ok"))
    );

    let recorded = gateway.gateway().output(&["logs", "--outcome", "ok", "--url", &url]);
    assert_eq!(recorded.status.code(), Some(0));
    let recorded = String::from_utf8(recorded.stdout).expect("UTF-8");
    assert!(
        recorded.lines().all(|line| line.contains("  ok  ") && line.ends_with("  one  add  anonymous  REST")),
        "{recorded}"
    );
    assert!(!recorded.is_empty());
    assert!(gateway.gateway().output(&["logs", "--outcome", "failed", "--url", &url]).stdout.is_empty());

    let away = gateway.gateway().output(&["logs", "--follow", "--url", "http://127.0.0.1:1"]);
    assert_eq!(away.status.code(), Some(3));
}

/// The recorded events that `query` chooses, each with its name.
async fn recorded(gateway: &Running, query: &str) -> Vec<(String, Value)> {
    let answer = gateway.get(&format!("/events?follow=false{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let read = |event: sse::Event| (event.name, serde_json::from_str(&event.data).expect("JSON"));
    sse::events(&answer.body).into_iter().map(read).collect()
}

/// The time of day of an event, in seconds.
fn time_of_day(data: &Value) -> f64 {
    let (_, time) =
        data["at"].as_str().and_then(|at| at.trim_end_matches('Z').split_once('T')).expect("a time");
    time.split(':').fold(0.0, |seconds, part| 60.0 * seconds + part.parse::<f64>().expect("a number"))
}

#[tokio::test]
async fn a_call_that_is_over_is_told_by_its_end_and_one_that_runs_by_its_beginning() {
    let (hangs, slow) = (Act::Hang, Act::Slow(Duration::from_millis(400)));
    let tools = [Tool::named("hangs").does(hangs), Tool::named("slow").does(slow), Tool::named("add")];
    let server = tools.into_iter().fold(Scripted::modern(), Scripted::tool).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["add", "hangs", "slow"]).await;
    let follower = Follower::of(&gateway);
    let add = async || drop(gateway.call("one", "add", json!({})).await);
    follower.sees("a call is shown", add, |event, _| event == "call_ended").await;

    let told = async {
        let is_begun = |event: &str, data: &Value| event == "call_started" && data["tool"] == "hangs";
        follower.sees("the call that runs", wait, is_begun).await;
        for _ in 0..3 {
            add().await;
        }
        gateway.call("one", "slow", json!({})).await;
        let kinds = ["", "&kind=call_started", "&kind=call_ended", "&outcome=ok"];
        let kinds = kinds.map(async |kind| recorded(&gateway, &format!("&server=one{kind}")).await);
        futures_util::future::join_all(kinds).await
    };
    let all = tokio::select! {
        all = told => all,
        answer = gateway.call("one", "hangs", json!({})) => panic!("{answer:?}"),
    };
    let [both, started, ended, fine] = all.as_slice() else { panic!("{all:?}") };
    let of = |events: &[(String, Value)], name: &str| -> Vec<u64> {
        let of_name = events.iter().filter(|event| event.0 == name);
        of_name.map(|(_, data)| data["call"].as_u64().expect("a number")).collect()
    };
    let (running, over) = (of(both, "call_started"), of(both, "call_ended"));
    assert_eq!(running.len(), 1, "only a call that runs is told by its beginning: {both:?}");
    assert!(over.len() > 4 && !over.contains(&running[0]), "{both:?}");
    assert_eq!((of(ended, "call_ended"), of(fine, "call_ended")), (over.clone(), over.clone()));
    assert!(of(fine, "call_started").is_empty(), "{fine:?}");
    let mut every: Vec<u64> = over.iter().chain(&running).copied().collect();
    every.sort_unstable();
    assert_eq!(of(started, "call_started"), every, "whoever asks for beginnings alone gets all of them");

    let is_slow = |events: &[(String, Value)]| events.iter().find(|event| event.1["tool"] == "slow").cloned();
    let (Some((_, started)), Some((_, ended))) = (is_slow(started), is_slow(ended)) else {
        panic!("{all:?}")
    };
    let duration = ended["duration_ms"].as_f64().expect("a number") / 1000.0;
    let apart = (time_of_day(&ended) - duration - time_of_day(&started)).rem_euclid(86_400.0);
    assert!(duration >= 0.4 && !(0.2..86_399.8).contains(&apart), "{apart} s: {started} {ended}");
    let is_hanging = |event: &str, data: &Value| event == "call_ended" && data["tool"] == "hangs";
    let cancelled = follower.sees("the call is cancelled with its connection", wait, is_hanging).await;
    assert_eq!((&cancelled["outcome"], &cancelled["call"]), (&json!("cancelled"), &json!(running[0])));
}

#[tokio::test]
async fn no_form_of_the_events_has_characters_that_act_on_a_terminal() {
    let name = "evil\u{9b}31m\u{202e}";
    let definition = json!({"name": name, "inputSchema": {"type": "object"}}).to_string();
    let server = Scripted::modern().tool(Tool::defined(name, &definition)).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    let follower = Follower::of(&gateway);
    let call = async || drop(gateway.call("one", name, json!({})).await);
    follower.sees("a call", call, |event, data| event == "call_ended" && data["tool"] == name).await;
    for format in ["table", "json", "yaml"] {
        let shown = gateway.gateway().output(&["logs", "-o", format, "--url", &gateway.url("")]).stdout;
        let shown = String::from_utf8(shown).expect("UTF-8");
        assert!(shown.contains("evil"), "{format}: {shown}");
        let acting = |c: char| c != '\n' && !protocol::visible::is_visible(c);
        assert!(!shown.contains(acting), "{format}: {shown:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_call_names_its_client_its_request_and_each_attempt() {
    let read =
        r#"{"name": "fails", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}"#;
    let fails = Tool::defined("fails", read).does(Act::Status(502, None));
    let server = Scripted::modern().tool(fails).tool(Tool::named("add")).start();
    let registry = Registry::new().http("one", &server.url());
    let registry = registry.with("retry_attempts: 1").with("retry_delay: 0.1");
    let gateway = Gateway::of(&registry.with("circuit_breaker_threshold: 100")).start().await;
    gateway.offers(&["fails", "add"]).await;
    let follower = Follower::of(&gateway);

    let call = async || {
        drop(gateway.mcp().modern("tools/call", json!({"name": "add", "arguments": {"a": 1}})).await);
    };
    let ended = follower.sees("a call over MCP", call, |event, _| event == "call_ended").await;
    assert_eq!(ended["client"], "switchyard-tests/1", "{ended}");
    assert_eq!(ended["request_id"].as_str().map(str::len), Some(36), "{ended}");
    assert_eq!(ended["attempts"].as_array().map(Vec::len), Some(1), "{ended}");
    assert_eq!(
        (&ended["attempts"][0]["outcome"], &ended["attempts"][0]["error"]),
        (&json!("answered"), &Value::Null)
    );

    let failed = gateway.call("one", "fails", json!({"a": 1})).await.json();
    let ended = follower
        .sees("a call over REST", wait, |event, data| event == "call_ended" && data["tool"] == "fails")
        .await;
    assert_eq!((&ended["client"], &ended["request_id"]), (&json!("REST"), &failed["request_id"]));
    let attempts = ended["attempts"].as_array().expect("a list");
    assert_eq!(attempts.len(), 2, "{ended}");
    for (index, attempt) in attempts.iter().enumerate() {
        assert_eq!((&attempt["attempt"], &attempt["outcome"]), (&json!(index + 1), &json!("failed")));
        assert!(attempt["error"].as_str().is_some_and(|error| error.contains("502")), "{attempt}");
        assert!(attempt["duration_ms"].as_f64().is_some_and(|duration| duration > 0.0), "{attempt}");
    }
    assert_eq!(ended.get("arguments"), None, "they are off by default");
}

#[tokio::test]
async fn failed_calls_have_the_code_and_the_text_of_the_error_unless_the_file_turns_texts_off() {
    for is_on in [true, false] {
        let act = |text: &str| {
            Act::Result(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":true}}"#))
        };
        let error = r#"{"code":-32050,"message":"not with s3cret-of-the-server"}"#;
        let server = Scripted::modern()
            .tool(Tool::named("tool").does(act("no city with s3cret-of-the-server")))
            .tool(Tool::named("rpc").does(Act::Error(error.into())))
            .tool(Tool::named("http").does(Act::Status(500, None)))
            .start();
        let registry = Registry::new().http("one", &server.url());
        let registry = registry.with(r#"headers: {"X-Key": "s3cret-of-the-server"}"#);
        let registry = if is_on { registry } else { registry.setting("errors_in_events: false") };
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["tool", "rpc", "http"]).await;
        let follower = Follower::of(&gateway);
        for (tool, outcome, code, text) in [
            ("tool", "tool_error", Value::Null, "no city with ***"),
            ("rpc", "rpc_error", Value::Null, "-32050: not with ***"),
            ("http", "failed", json!("server_error"), "HTTP 500"),
        ] {
            let call = async || drop(gateway.call("one", tool, json!({})).await);
            let ended = |name: &str, data: &Value| name == "call_ended" && data["tool"] == tool;
            let ended = follower.sees(tool, call, ended).await;
            assert_eq!((&ended["outcome"], &ended["code"]), (&json!(outcome), &code), "{ended}");
            if is_on {
                assert!(ended["error"].as_str().is_some_and(|error| error.contains(text)), "{ended}");
            } else {
                assert_eq!(ended.get("error"), None);
            }
        }
    }
}

#[tokio::test]
async fn arguments_are_shown_only_where_the_file_says_so_without_secrets_and_at_most_4_kib() {
    let slow = Tool::named("slow").does(Act::Slow(Duration::from_millis(200)));
    let server = Scripted::modern().tool(Tool::named("add")).tool(slow).start();
    let registry = Registry::new().http("one", &server.url());
    let registry = registry.with(r#"headers: {"X-Key": "s3cret-of-the-server"}"#);
    let gateway = Gateway::of(&registry.setting("arguments_in_events: true")).start().await;
    gateway.offers(&["add", "slow"]).await;
    let follower = Follower::of(&gateway);
    // It runs long enough for its beginning to be sent.
    let call = async || drop(gateway.call("one", "slow", json!({"note": "has s3cret-of-the-server"})).await);
    for event in ["call_started", "call_ended"] {
        let shown = follower.sees(event, call, |name, _| name == event).await;
        assert_eq!(shown["arguments"], json!({"note": "has ***"}), "{shown}");
    }
    let long = async || {
        // The secret lies across the end of what is shown.
        let note = format!("{}s3cret-of-the-server{}", "x".repeat(4_077), "y".repeat(100_000));
        drop(gateway.call("one", "add", json!({"note": note})).await);
    };
    let shown = follower.sees("long arguments", long, |_, data| data["arguments"].is_string()).await;
    let text = shown["arguments"].as_str().expect("a text");
    assert!(text.len() <= 4_100 && text.contains("xxx") && !text.contains("s3c"), "{text}");

    let escaped = async || {
        let arguments = r#"{"a": "\u0073\u0033cret-of-the-server", "\u0073\u0033cret-of-the-server": 1}"#;
        let body = format!(r#"{{"server": "one", "tool": "add", "arguments": {arguments}}}"#);
        assert_eq!(gateway.post("/call", &body).await.status, 200);
    };
    let has_a = |_: &str, data: &Value| data["arguments"].get("a").is_some();
    let shown = follower.sees("escaped arguments", escaped, has_a).await;
    assert_eq!(shown["arguments"], json!({"a": "***", "***": 1}), "{shown}");
    let repeated = async || {
        // So many secrets become so short that the one where the search ends would be shown.
        let note = "s3cret-of-the-server".repeat(2_000);
        drop(gateway.call("one", "add", json!({"note": note, "at": 7})).await);
    };
    let is_text = |_: &str, data: &Value| data["arguments"].as_str().is_some_and(|text| text.contains("***"));
    let shown = follower.sees("repeated secrets", repeated, is_text).await;
    assert!(!shown["arguments"].as_str().expect("a text").contains("s3cret"), "{shown}");

    gateway.rewrite(&registry_without_arguments(&server.url()));
    assert_eq!(gateway.post("/reload", "").await.status, 200);
    let call = async || drop(gateway.call("one", "add", json!({"note": 1})).await);
    let shown = follower.sees("a call after the reload", call, |name, data| {
        name == "call_ended" && data.get("arguments").is_none()
    });
    assert_eq!(shown.await["outcome"], "ok");
}

/// The file of a gateway that records no arguments.
fn registry_without_arguments(url: &str) -> String {
    Registry::new().http("one", url).with(r#"headers: {"X-Key": "s3cret-of-the-server"}"#).yaml()
}

#[tokio::test]
async fn changes_of_breakers_and_tools_and_actions_of_operators_are_shown() {
    let server = Scripted::modern().tool(Tool::named("fails").does(Act::Status(502, None))).start();
    let registry = Registry::new().http("one", &server.url()).with("retry_attempts: 0");
    let gateway = Gateway::of(&registry.with("circuit_breaker_threshold: 2")).start().await;
    gateway.offers(&["fails"]).await;
    let follower = Follower::of(&gateway);
    // Events are recorded from the first of these on.
    let reset = async || drop(gateway.post("/servers/one/reconnect", "").await);
    let action = follower.sees("an action", reset, |event, _| event == "action").await;
    assert_eq!((&action["action"], &action["server"]), (&json!("reconnect"), &json!("one")));
    assert_eq!((&action["principal"], &action["outcome"]), (&json!("anonymous"), &json!("done")));
    assert_eq!(action["request_id"].as_str().map(str::len), Some(36), "{action}");

    for _ in 0..2 {
        gateway.call("one", "fails", json!({})).await;
    }
    let is_breaker = |event: &str, _: &Value| event == "breaker_changed";
    let opened = follower.sees("the breaker opened", wait, is_breaker).await;
    assert_eq!(
        (&opened["server"], &opened["from"], &opened["to"]),
        (&json!("one"), &json!("closed"), &json!("open"))
    );
    assert_eq!(opened["consecutive_failures"], 2);
    assert!(opened["reason"].as_str().is_some_and(|reason| reason.contains("502")), "{opened}");
    assert_eq!(gateway.post("/circuit-breakers/one/reset", "").await.status, 200);
    let closed = follower.sees("the breaker closed", wait, is_breaker).await;
    assert_eq!((&closed["to"], &closed["reason"]), (&json!("closed"), &Value::Null));

    let other = r#"{"name": "fails", "description": "Other.", "inputSchema": {"type": "object"}}"#;
    server.change_tools(vec![Tool::defined("fails", other), Tool::named("new")]);
    let changed = follower
        .sees("the tools changed", wait, |event, data| {
            event == "tools_changed" && data["added"]["count"] == 1
        })
        .await;
    assert_eq!((&changed["tools"], &changed["added"]["first"]), (&json!(2), &json!(["new"])));
    assert_eq!(changed["changed"], json!({"count": 1, "first": ["fails"]}));
    assert_eq!(changed["removed"], json!({"count": 0, "first": []}));

    assert_eq!(gateway.post("/servers/one/disable", "").await.status, 200);
    let is_change = |event: &str, data: &Value| event == "server_changed" && data["state"] == "disabled";
    assert_eq!(follower.sees("the server is disabled", wait, is_change).await["server"], "one");
}
