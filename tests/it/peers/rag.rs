//! A RAG bridge written with `FastAPI` behind the program, seen from outside: what it answers, how it
//! fails, what it takes away, how slow it is, and how it dies.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{fixtures, gateway};
use crate::support::gateway::Running;
use crate::support::process::Process;
use crate::support::rag::SIX;
use crate::support::{Registry, eventually, peers};

const KEY: &str = "key-of-the-bridge";

/// The program in `fixtures/rag-bridge.py`.
struct Bridge {
    process: Option<Process>,
    home: tempfile::TempDir,
    address: SocketAddr,
}

impl Bridge {
    async fn start() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let (process, port) = Self::run(&home, None).await;
        Self { process: Some(process), home, address: (Ipv4Addr::LOCALHOST, port).into() }
    }

    async fn run(home: &tempfile::TempDir, port: Option<u16>) -> (Process, u16) {
        let mut command = peers::command("peer-python", home.path());
        command.arg(fixtures::path("rag-bridge.py")).args(port.map(|port| port.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Process::start(command);
        let output = tokio::process::ChildStdout::from_std(process.take_stdout()).expect("a pipe");
        let line = BufReader::new(output).lines().next_line().await.expect("text");
        let line = line.unwrap_or_else(|| panic!("it ended: {:?}", process.errors()));
        let port = line.strip_prefix("listening ").and_then(|port| port.parse().ok()).expect("a port");
        (process, port)
    }

    fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    async fn restart(&mut self) {
        let (process, _) = Self::run(&self.home, Some(self.address.port())).await;
        self.process = Some(process);
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn set(&self, change: Value) {
        let sent =
            reqwest::Client::new().post(self.url("/test/set")).json(&change).send().await.expect("sent");
        assert_eq!(sent.status().as_u16(), 200);
    }

    async fn fail(&self, route: &str, kind: &str) {
        self.set(json!({"fault": {"route": route, "kind": kind, "seconds": 30}})).await;
    }

    async fn is_well(&self) {
        self.set(json!({"fault": null})).await;
    }

    async fn seen(&self, path: &str) -> Vec<Value> {
        let seen = reqwest::get(self.url("/test/seen")).await.expect("sent");
        let seen: Vec<Value> = seen.json().await.expect("JSON");
        seen.into_iter().filter(|one| one["path"] == path).collect()
    }
}

async fn serving(bridge: &Bridge, options: &str) -> Running {
    let lines = [
        "transport: builtin".to_owned(),
        "builtin: rag".to_owned(),
        format!("url: {}", bridge.url("")),
        "timeout: 5".to_owned(),
        "retry_delay: 0.1".to_owned(),
        "circuit_breaker_threshold: 50".to_owned(),
        "circuit_breaker_timeout: 1".to_owned(),
        format!("rag: {{{options}}}"),
    ];
    let registry = Registry::new().server("rag", &lines).setting("health_check_interval: 1");
    let gateway = gateway(&registry).start().await;
    gateway.offers(&["rag_basic", "rag_health"]).await;
    gateway
}

fn question() -> Value {
    json!({"query": "when do access tokens expire", "top_k": 1})
}

#[tokio::test]
async fn all_six_techniques_answer_over_rest_and_mcp() {
    let bridge = Bridge::start().await;
    bridge.set(json!({"key": KEY})).await;
    let gateway = serving(&bridge, &format!("api_key: {KEY:?}")).await;
    let session = gateway.mcp().legacy().await;
    for name in SIX {
        let (tool, arguments) = (format!("rag_{name}"), question());
        let rest = gateway.call("rag", &tool, arguments.clone()).await;
        let modern = gateway.mcp().call(&tool, arguments.clone()).await.result();
        let legacy = session.call(&tool, arguments).await.result();
        for answer in [&rest.json()["data"], &modern["structuredContent"], &legacy["structuredContent"]] {
            assert_eq!(
                answer["answer"],
                format!("{name}: Access tokens expire after one hour. They are renewed five minutes before.")
            );
            assert_eq!(answer["sources"], json!(["tokens.md"]));
            assert_eq!(answer["metadata"]["params"], json!({"top_k": 1}));
            assert_eq!(
                (&answer["performance"]["tokens_used"], &answer["confidence"]),
                (&json!(5), &json!(0.75))
            );
        }
    }
    let told = gateway.call("rag", "rag_health", json!({})).await.json();
    assert_eq!(
        (&told["data"]["status"], &told["data"]["service"]["database"]["documents"]),
        (&json!("healthy"), &json!(3))
    );
    for route in ["list_techniques", "health_check", "invoke_technique"] {
        let seen = bridge.seen(&format!("/mcp/{route}")).await;
        assert!(!seen.is_empty() && seen.iter().all(|one| one["key"] == KEY), "{route}: {seen:?}");
    }
    assert!(!gateway.log().iter().any(|line| line.to_string().contains(KEY)));
}

#[tokio::test]
async fn every_failure_has_its_word_and_none_shows_a_trace() {
    let bridge = Bridge::start().await;
    let gateway = serving(&bridge, "").await;
    for (kind, status, code, word) in [
        ("trace", 502, "backend_error", "service_unavailable"),
        ("unavailable", 502, "backend_error", "service_unavailable"),
        ("garbage", 502, "invalid_answer", "service_unavailable"),
    ] {
        bridge.fail("invoke", kind).await;
        let rest = gateway.call("rag", "rag_crag", question()).await;
        let problem = rest.json();
        assert_eq!(
            (rest.status, &problem["code"], &problem["type"]),
            (status, &json!(code), &json!(format!("/docs/errors#{code}"))),
            "{rest:?}"
        );
        let modern = gateway.mcp().call("rag_crag", question()).await;
        assert_eq!(modern.error()["data"]["type"], word, "{modern:?}");
        for text in [rest.body, modern.response_text()] {
            assert!(
                !text.contains("canary") && !text.contains("html") && !text.contains("Traceback"),
                "{text}"
            );
        }
    }
    bridge.fail("invoke", "unsuccessful").await;
    let failed = gateway.mcp().call("rag_crag", question()).await;
    assert_eq!(failed.result()["isError"], true);
    let told: Value = serde_json::from_str(&failed.text()).expect("JSON");
    assert_eq!(told["message"], "the technique crag gave no answer: the retriever has no index");
    assert_eq!((&told["type"], &told["technique"]), (&json!("service_unavailable"), &json!("crag")));
    bridge.is_well().await;
    let invalid = gateway.call("rag", "rag_crag", json!({"query": "q", "top_k": "many"})).await.json();
    assert_eq!(invalid["data"]["field"], "top_k");
    assert_eq!(gateway.call("rag", "rag_crag", question()).await.status, 200);
}

#[tokio::test]
async fn another_list_is_told_and_offered() {
    let bridge = Bridge::start().await;
    let gateway = serving(&bridge, "").await;
    let session = gateway.mcp().legacy().await;
    let mut stream = session.client.listen().await;
    bridge.set(json!({"techniques": ["crag", "hyde", "drop table", 7, "x".repeat(500)]})).await;
    let notice = stream.next().await.expect("a notice");
    assert_eq!(notice["method"], "notifications/tools/list_changed", "{notice}");
    let names = session.request("tools/list", json!({})).await.tool_names();
    assert_eq!(names, ["rag_crag", "rag_hyde", "rag_health"]);
    assert_eq!(gateway.call("rag", "rag_hyde", question()).await.status, 200);
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 404);
    let told = gateway.call("rag", "rag_health", json!({})).await.json();
    assert_eq!(told["data"]["left_out"].as_array().map(Vec::len), Some(2), "{told}");
    assert_eq!(told["data"]["more_left_out"], 1);
    bridge.fail("list", "garbage").await;
    let read = bridge.seen("/mcp/list_techniques").await.len();
    eventually("it is read again", async || {
        (bridge.seen("/mcp/list_techniques").await.len() > read + 2).then_some(())
    })
    .await;
    assert_eq!(gateway.offers(&["rag_crag", "rag_hyde"]).await.len(), 3, "the last known list stays");
}

#[tokio::test]
async fn a_slow_answer_ends_at_its_deadline_and_hurts_nobody() {
    let bridge = Bridge::start().await;
    let gateway = serving(&bridge, "").await;
    bridge.fail("invoke", "slow").await;
    let slow = async {
        let body = json!({"server": "rag", "tool": "rag_basic", "arguments": question(), "timeout": 1.5});
        let answer = gateway.post("/call", &body.to_string()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (504, &json!("timed_out")), "{answer:?}");
    };
    let others = async {
        eventually("it is asked", async || {
            (!bridge.seen("/mcp/invoke_technique").await.is_empty()).then_some(())
        })
        .await;
        bridge.is_well().await;
        let answers = join_all((0..8).map(|_| gateway.call("rag", "rag_crag", question()))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    };
    tokio::join!(slow, others);
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 200);
}

#[tokio::test]
async fn a_bridge_that_is_killed_recovers_and_one_that_wants_another_key_is_not_asked_again() {
    let mut bridge = Bridge::start().await;
    let gateway = serving(&bridge, &format!("api_key: {KEY:?}")).await;
    bridge.kill();
    let failed = gateway.call("rag", "rag_basic", question()).await;
    assert!(matches!(failed.status, 502 | 503), "{failed:?}");
    bridge.restart().await;
    eventually("it answers again", async || {
        (gateway.call("rag", "rag_basic", question()).await.status == 200).then_some(())
    })
    .await;
    bridge.set(json!({"key": "another"})).await;
    let servers = eventually("it waits for an operator", async || {
        let servers = gateway.get("/servers").await.json().to_string();
        servers.contains(r#""state":"auth_failed""#).then_some(servers)
    })
    .await;
    assert!(servers.contains("rag.api_key") && !servers.contains(KEY), "{servers}");
    bridge.set(json!({"key": KEY})).await;
    assert_eq!(gateway.post("/servers/rag/reconnect", "").await.status, 200);
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 200);
}
