//! The program in `examples/host.rs`, as a process: its authentication protects MCP and REST of Switchyard,
//! one endpoint reports the health of both, and it shuts down in order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::answer::Answer;
use crate::support::client::Client;
use crate::support::process::Process;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Registry, eventually};

const KEYS: &str = "alice=caller:alices-secret bob=reader:bobs-secret";
const ALICE: &str = "Bearer alices-secret";
const BOB: &str = "Bearer bobs-secret";

struct Host {
    process: Process,
    address: String,
    folder: tempfile::TempDir,
}

fn program() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_switchyard")).with_file_name("examples").join("host");
    assert!(beside.exists(), "it is not built: `cargo build --example host`");
    beside
}

impl Host {
    async fn start(registry: &Registry) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("switchyard.yaml"), registry.yaml()).expect("written");
        std::fs::write(folder.path().join("orders"), "one\ntwo\n").expect("written");
        let mut command = Command::new(program());
        command.args(["switchyard.yaml", "127.0.0.1:0", "orders"]).current_dir(folder.path());
        command.env_clear().env("HOME", folder.path()).env("HOST_KEYS", KEYS).stdin(Stdio::null());
        let mut process = Process::start(command);
        let address = eventually("the host listens", async || {
            assert!(!process.has_ended(), "it ended: {}", process.errors().join("\n"));
            process.errors().iter().find_map(|line| listening(line))
        })
        .await;
        Self { process, address, folder }
    }

    fn client(&self, credential: Option<&str>) -> Client {
        let client = Client::at(&format!("http://{}/mcp", self.address));
        match credential {
            Some(credential) => client.with_header("authorization", credential),
            None => client,
        }
    }

    /// `GET path`, or `POST` with a body.
    async fn ask(&self, credential: Option<&str>, path: &str, body: Option<Value>) -> Answer {
        let (http, url) = (reqwest::Client::new(), format!("http://{}{path}", self.address));
        let request = match body {
            Some(body) => http.post(url).json(&body),
            None => http.get(url),
        };
        let request = match credential {
            Some(credential) => request.header("authorization", credential),
            None => request,
        };
        Answer::read(request.send().await.expect("sent")).await
    }

    async fn health(&self, status: &str) -> Answer {
        eventually(status, async || {
            let answer = self.ask(None, "/health", None).await;
            (answer.json()["status"] == status).then_some(answer)
        })
        .await
    }
}

fn listening(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = &line["fields"];
    (fields["message"] == "the host listens").then(|| fields["address"].as_str().map(str::to_owned))?
}

fn server(act: Act) -> Server {
    Scripted::modern().tool(Tool::named("find").does(act)).start()
}

fn call() -> Value {
    json!({"server": "docs", "tool": "find", "arguments": {"a": 1}})
}

#[tokio::test]
async fn credentials_of_the_host_open_mcp_and_rest_and_nothing_else_does() {
    let docs = server(Act::Echo);
    let host = Host::start(&Registry::new().http("docs", &docs.url())).await;
    host.health("healthy").await;
    for credential in [None, Some("Bearer wrong"), Some("Basic YTpi"), Some("alices-secret")] {
        let client = host.client(credential);
        for answer in [
            client.modern("tools/list", json!({})).await,
            client.post("{}", &[("x-api-key", "alices-secret")]).await,
            host.ask(credential, "/sse", None).await,
            host.ask(credential, "/api/v1/mcp/servers", None).await,
            host.ask(credential, "/api/v1/mcp/call", Some(call())).await,
            host.ask(credential, "/metrics", None).await,
            host.ask(credential, "/orders", None).await,
        ] {
            assert_eq!(answer.status, 401, "{credential:?}: {answer:?}");
        }
    }
    assert_eq!(docs.runs("find"), 0);
    let alice = host.client(Some(ALICE));
    assert_eq!(alice.modern("tools/list", json!({})).await.tool_names(), ["find"]);
    assert_eq!(alice.call("find", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    let session = alice.legacy().await;
    assert_eq!(session.call("find", json!({"a": 1})).await.text(), r#"{"a":1}"#);
    assert_eq!(host.ask(Some(ALICE), "/api/v1/mcp/call", Some(call())).await.status, 200);
    assert_eq!(host.ask(Some(ALICE), "/orders", None).await.json()["for"], "host:alice");
    assert_eq!(docs.runs("find"), 3);
    let bob = host.client(Some(BOB));
    assert_eq!(bob.modern("tools/list", json!({})).await.tool_names(), ["find"]);
    assert_eq!(host.ask(Some(BOB), "/api/v1/mcp/call", Some(call())).await.status, 403);
    assert_eq!(bob.call("find", json!({})).await.error()["data"]["code"], "forbidden");
    let of_alice = session.client.header("mcp-session-id").expect("a session").to_owned();
    let foreign = bob.with_header("mcp-session-id", &of_alice);
    let answer = foreign.post(&foreign.envelope("tools/list", "{}"), &[]).await;
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(docs.runs("find"), 3);
    for seen in docs.seen() {
        assert!(!format!("{seen:?}").contains("secret"), "{seen:?}");
    }
}

#[tokio::test]
async fn one_health_endpoint_tells_of_the_host_and_of_the_servers() {
    let docs = server(Act::Echo);
    let registry = Registry::new().http("docs", &docs.url()).setting("health_check_interval: 1");
    let host = Host::start(&registry).await;
    let healthy = host.health("healthy").await;
    assert_eq!((healthy.status, &healthy.json()["servers"]), (200, &json!(true)), "no names for strangers");
    let named = host.ask(Some(BOB), "/health", None).await.json();
    assert_eq!(named["servers"], json!({"docs": "ready"}));
    drop(docs);
    assert_eq!(host.health("degraded").await.status, 200);
    std::fs::remove_file(host.folder.path().join("orders")).expect("removed");
    assert_eq!(host.health("unhealthy").await.status, 503);
}

#[tokio::test]
async fn a_call_ends_before_the_program_does_and_a_stream_does_not_hold_it_up() {
    let docs = server(Act::Slow(Duration::from_secs(2)));
    let mut host = Host::start(&Registry::new().http("docs", &docs.url())).await;
    host.health("healthy").await;
    let session = host.client(Some(ALICE)).legacy().await;
    let mut stream = session.client.listen().await;
    let calling = session.call("find", json!({"a": 1}));
    let ending = async {
        eventually("it runs", async || (docs.runs("find") == 1).then_some(())).await;
        host.process.ask_to_end();
        Instant::now()
    };
    let (answer, asked) = tokio::join!(calling, ending);
    assert_eq!(answer.text(), r#"{"a":1}"#);
    assert!(stream.next().await.is_none(), "the stream ends");
    let status = tokio::task::spawn_blocking(move || host.process.wait()).await.expect("no panic");
    assert!(status.success(), "{status}");
    assert!(
        asked.elapsed() < Duration::from_secs(8),
        "it does not wait for the stream: {:?}",
        asked.elapsed()
    );
}
