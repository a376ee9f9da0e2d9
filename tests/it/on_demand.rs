//! Child processes that are started when they are needed, and stopped when they are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::scripted::{ReceivedRequest, Step, result};

use crate::support::odd;
use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

const PEER: [&str; 4] = ["--tools", "echo,count,hang", "--record", "record"];

fn peer(more: &[&str]) -> Registry {
    Registry::new().child("peer", &[&PEER[..], more].concat())
}

/// Counts the lines with `what` in the record of the processes.
fn recorded(gateway: &Running, what: &str) -> usize {
    let record = std::fs::read_to_string(gateway.folder().join("record")).unwrap_or_default();
    record.lines().filter(|line| line.contains(what)).count()
}

/// The process ids of all processes that were started, and that still run.
fn running(gateway: &Running) -> usize {
    let record = std::fs::read_to_string(gateway.folder().join("record")).unwrap_or_default();
    let ids = record.lines().filter_map(|line| line.strip_prefix("started "));
    ids.filter(|id| {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    })
    .count()
}

async fn server(gateway: &Running) -> Value {
    gateway.get("/servers").await.json()["servers"][0].clone()
}

async fn in_state(gateway: &Running, state: &str) -> Value {
    eventually(&format!("it is {state}"), async || {
        let server = server(gateway).await;
        (server["state"] == state).then_some(server)
    })
    .await
}

/// A gateway that starts with the offer of its child in memory.
async fn warmed(registry: &Registry) -> Running {
    let gateway = Gateway::of(registry);
    let output = gateway.output(&["warm"]);
    assert!(output.status.success(), "{output:?}");
    std::fs::remove_file(gateway.folder().join("record")).expect("it ran");
    gateway.start().await
}

#[tokio::test]
async fn lists_health_and_unknown_names_start_nothing_and_a_call_does() {
    let gateway = warmed(&peer(&[])).await;
    let names = gateway.mcp().modern("tools/list", json!({})).await.tool_names();
    assert_eq!(names, ["echo", "count", "hang"]);
    let session = gateway.mcp().legacy().await;
    assert_eq!(session.request("tools/list", json!({})).await.tool_names().len(), 3);
    let health = gateway.get("/health?check=true").await.json();
    assert_eq!(
        (&health["status"], &health["servers"][0]["state"]),
        (&json!("healthy"), &json!("idle")),
        "{health}"
    );
    gateway.mcp().modern("resources/read", json!({"uri": "file:///nowhere"})).await;
    gateway.call("peer", "nothing", json!({})).await;
    assert_eq!(recorded(&gateway, "started"), 0);

    let calls = (0..5).map(|_| gateway.call("peer", "echo", json!({"x": 1})));
    for called in futures_util::future::join_all(calls).await {
        assert_eq!(called.json()["content"][0]["text"], r#"{"x":1}"#, "{:?}", called.json());
    }
    assert_eq!(recorded(&gateway, "started"), 1, "callers share one start");
    in_state(&gateway, "ready").await;
}

#[tokio::test]
async fn eager_server_is_started_with_the_gateway() {
    for registry in [peer(&[]).with("start: eager"), peer(&[]).setting("default_start: eager")] {
        let gateway = warmed(&registry).await;
        in_state(&gateway, "ready").await;
        assert_eq!(recorded(&gateway, "started"), 1);
    }
}

#[tokio::test]
async fn unused_process_is_stopped_and_started_again_by_the_next_call() {
    let gateway = warmed(&peer(&[]).with("idle_timeout: 1")).await;
    for round in 1..=3 {
        assert_eq!(gateway.mcp().call("count", json!({})).await.text(), "1", "a new process");
        assert_eq!(recorded(&gateway, "started"), round);
        in_state(&gateway, "idle").await;
        eventually("it has ended", async || (running(&gateway) == 0).then_some(())).await;
        assert_eq!(gateway.mcp().modern("tools/list", json!({})).await.tool_names().len(), 3);
    }
}

#[tokio::test]
async fn open_call_keeps_a_process_and_a_cancelled_one_does_not() {
    let gateway = warmed(&peer(&[]).with("idle_timeout: 1").with("timeout: 60")).await;
    let mcp = gateway.mcp();
    tokio::select! {
        answer = mcp.call("hang", json!({})) => panic!("it never answers: {answer:?}"),
        () = async {
            eventually("it runs", async || (running(&gateway) == 1).then_some(())).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(running(&gateway), 1, "a call is open");
        } => {}
    }
    in_state(&gateway, "idle").await;
    eventually("it has ended", async || (running(&gateway) == 0).then_some(())).await;
}

#[tokio::test]
async fn failed_start_is_told_at_once_and_the_tools_stay_listed() {
    let gateway = Gateway::of(&peer(&[]));
    assert!(gateway.output(&["warm"]).status.success());
    let program = gateway.folder().join("broken");
    std::fs::write(&program, "#!/bin/sh\necho 'no license for this machine' >&2\nexit 3\n").expect("written");
    let gateway = {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("changed");
        // Its settings stay, and its program does not start any more.
        let path = gateway.folder().join("mcp_servers.yaml");
        let yaml = std::fs::read_to_string(&path).expect("a file");
        let command = yaml.lines().find(|line| line.contains("command:")).expect("a command").to_owned();
        let linked = yaml.replace(&command, "    command: ./program");
        std::fs::write(&path, linked).expect("written");
        let link = gateway.folder().join("program");
        std::os::unix::fs::symlink(command.trim().trim_start_matches("command: ").trim_matches('"'), &link)
            .expect("linked");
        assert!(gateway.output(&["warm"]).status.success(), "warm again, by the name of the link");
        std::fs::remove_file(&link).expect("removed");
        std::os::unix::fs::symlink(&program, &link).expect("linked");
        gateway.start().await
    };
    let started = Instant::now();
    let called = gateway.call("peer", "echo", json!({})).await.json();
    eprintln!("told after {:?}: {called}", started.elapsed());
    assert!(called.to_string().contains("no license for this machine"), "{called}");
    assert!(started.elapsed() < Duration::from_secs(5), "no retry");
    let failed = in_state(&gateway, "failed").await;
    assert_eq!(failed["tool_count"], 3);
    assert_eq!(gateway.mcp().modern("tools/list", json!({})).await.tool_names().len(), 3);
}

#[tokio::test]
async fn caller_hears_of_a_slow_start_by_progress_and_operators_in_the_status() {
    let slow = "if [ -e slow ]; then echo 'installing 3 packages' >&2; sleep 3; fi; exec \"$$0\" \"$$@\"";
    let program = crate::support::child::program();
    let arguments = ["-c", slow, &program, "--tools", "echo", "--record", "record"];
    let gateway = warmed(&Registry::new().command("peer", "sh", &arguments)).await;
    std::fs::write(gateway.folder().join("slow"), "").expect("written");
    let session = gateway.mcp().legacy().await;
    let params = json!({"name": "echo", "arguments": {}, "_meta": {"progressToken": "p"}});
    let shown = async {
        in_state(&gateway, "starting").await;
        eventually("its last line is known", async || {
            let server = self::server(&gateway).await;
            server["starting"]["last_line"].is_string().then_some(server)
        })
        .await
    };
    let (answer, server) = tokio::join!(session.request("tools/call", params), shown);
    assert_eq!(server["starting"]["last_line"], "installing 3 packages", "{server}");
    assert!(answer.body.contains("starting peer: installing 3 packages"), "{}", answer.body);
    assert!(answer.body.contains(r#""progressToken":"p""#), "{}", answer.body);
}

#[tokio::test]
async fn start_may_take_longer_while_it_writes_to_standard_error() {
    let slow = "for second in 1 2 3 4; do echo \"step $$second\" >&2; sleep 1; done; exec \"$$0\" \"$$@\"";
    let silent = "sleep 4; exec \"$$0\" \"$$@\"";
    let program = crate::support::child::program();
    let started = async |script: &str| {
        let arguments = ["-c", script, &program, "--tools", "echo"];
        let registry = Registry::new().command("peer", "sh", &arguments).with("start_timeout: 2");
        let gateway = Gateway::of(&registry).start().await;
        eventually("it ended its first start", async || {
            let state = server(&gateway).await["state"].clone();
            (state == "ready" || state == "failed").then_some(state)
        })
        .await
    };
    assert_eq!(started(slow).await, "ready");
    assert_eq!(started(silent).await, "failed");
}

#[tokio::test]
async fn first_list_waits_for_a_program_of_which_nothing_is_remembered() {
    let slow = "sleep 1; exec \"$$0\" \"$$@\"";
    let program = crate::support::child::program();
    let arguments = ["-c", slow, &program, "--tools", "echo"];
    let gateway = Gateway::of(&Registry::new().command("peer", "sh", &arguments)).start().await;
    assert_eq!(gateway.mcp().modern("tools/list", json!({})).await.tool_names(), ["echo"]);
}

#[tokio::test]
async fn unused_http_server_gets_no_request_and_a_listening_client_does_not_keep_it_awake() {
    let all = [Scripted::modern(), Scripted::legacy()];
    for server in all.map(|scripted| scripted.tool(Tool::named("a")).start()) {
        let registry = Registry::new().http("one", &server.url()).with("idle_timeout: 1");
        let gateway = Gateway::of(&registry.setting("health_check_interval: 0.2")).start().await;
        gateway.offers(&["a"]).await;
        let session = gateway.mcp().legacy().await;
        in_state(&gateway, "idle").await;
        // The end of its session may still be on its way.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let seen = server.seen().len();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(session.request("tools/list", json!({})).await.tool_names(), ["a"]);
        assert_eq!(gateway.get("/health?check=true").await.json()["status"], "healthy");
        assert_eq!(server.seen().len(), seen, "it can sleep");
        assert!(session.call("a", json!({})).await.json().get("error").is_none());
        in_state(&gateway, "ready").await;
    }
}

/// Answers clients with another definition of the first tool than Switchyard itself.
fn shows_two_faces(seen: &ReceivedRequest) -> Option<Vec<Step>> {
    let changed = r#"{"tools":[{"name":"odd","description":"changed","inputSchema":{"type":"object"}}]}"#;
    match seen.method().as_str() {
        "initialize" => {
            let session = if seen.has("switchyard-tests") { "client" } else { "own" };
            Some(vec![odd::opened(seen, session, odd::usual_result(seen)?)])
        }
        "tools/list" if seen.header("mcp-session-id") == Some("client") => Some(vec![result(seen, changed)]),
        _ => None,
    }
}

#[tokio::test]
async fn first_call_after_a_rest_is_compared_with_the_offer_to_its_own_client() {
    let server = odd::http(shows_two_faces).await;
    let registry = Registry::new().http("one", server.url.as_str()).with("idle_timeout: 1");
    let gateway = Gateway::of(&registry.with("tools: {on_change: block}")).start().await;
    gateway.offers(&["odd", "fine"]).await;
    in_state(&gateway, "idle").await;
    let refused = gateway.mcp().legacy().await.call("odd", json!({})).await.json();
    assert_eq!(refused["error"]["data"]["code"], "tool_changed", "{refused}");
    assert!(server.seen().iter().all(|seen| seen.method() != "tools/call"), "nothing was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn call_whose_headers_contradict_it_is_refused_before_its_server_is_contacted() {
    for sharing in ["auto", "per_session"] {
        refused_at_once(sharing).await;
    }
}

/// Calls a tool of a server that hangs, whose tools are remembered, with a header that differs from the body.
async fn refused_at_once(sharing: &str) {
    const TOOLS: &str = r#"{"tools":[{"name":"odd","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}"#;
    let hangs = Arc::new(AtomicBool::new(false));
    let is_hung = Arc::clone(&hangs);
    let server = odd::http(move |seen| {
        if is_hung.load(Ordering::Relaxed) {
            return Some(vec![Step::Hang]);
        }
        (seen.method() == "tools/list").then(|| vec![result(seen, TOOLS)])
    })
    .await;
    let registry = Registry::new().http("one", server.url.as_str()).with(&format!("sharing: {sharing}"));
    let gateway = Gateway::of(&registry);
    assert!(gateway.output(&["warm"]).status.success());
    hangs.store(true, Ordering::Relaxed);
    let gateway = gateway.start().await;
    let (client, seen) = (gateway.mcp(), server.seen().len());
    let body = client.modern_body("tools/call", r#"{"name":"odd","arguments":{"region":"us"}}"#);
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "odd"),
        ("mcp-param-region", "eu"),
    ];
    let started = Instant::now();
    let answer = client.post(&body, &headers).await;
    let elapsed = started.elapsed();
    assert!(answer.status == 400 && elapsed < Duration::from_secs(5), "{sharing}, {elapsed:?}: {answer:?}");
    assert_eq!((answer.error_code(), server.seen().len()), (-32020, seen), "{sharing}");
}
