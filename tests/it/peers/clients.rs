//! Clients of other makers in front of the program.

use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use axum::routing::post;
use serde_json::{Value, json};
use testkit::served::Served;

use super::gateway;
use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, api_keys, peers};

const SAYER: &str = "swy_sayer_0123456789abcdef0123456789abcdef0123456789abcdef";
const BEEPER: &str = "swy_beeper_0123456789abcdef0123456789abcdef0123456789abcdef";

async fn started() -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("say")).start();
    let registry = Registry::new().http("one", &server.url()).child("two", &["--tools", "beep"]);
    let gateway = gateway(&registry).start().await;
    gateway.offers(&["say", "beep"]).await;
    (gateway, server)
}

/// Runs a client to its end, beside the test.
async fn output(mut command: Command) -> (String, String) {
    let ran = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    let output = tokio::time::timeout(std::time::Duration::from_secs(90), ran);
    let output = output.await.expect("it ends").expect("it is waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

async fn inspect(target: &[&str], arguments: &[&str]) -> Value {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = peers::command("mcp-inspector", home.path());
    command.arg("--cli").args(target).args(arguments).args(["--format", "json", "-q"]);
    let (stdout, stderr) = output(command).await;
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}"))
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_http_in_both_eras() {
    let (gateway, server) = started().await;
    let url = gateway.url("/mcp");
    for era in ["modern", "legacy"] {
        let list = inspect(&[&url], &["--protocol-era", era, "--method", "tools/list"]).await.to_string();
        assert!(list.contains("\"say\"") && list.contains("\"beep\""), "{era}: {list}");
        let call = [
            "--protocol-era",
            era,
            "--method",
            "tools/call",
            "--tool-name",
            "say",
            "--tool-arg",
            "words=hello",
        ];
        let answer = inspect(&[&url], &call).await.to_string();
        assert!(answer.contains("hello"), "{era}: {answer}");
    }
    assert_eq!(server.runs("say"), 2);
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_stdio_in_both_eras() {
    let registry = Registry::new().child("two", &["--tools", "beep"]);
    for era in ["modern", "legacy"] {
        let gateway = Gateway::of(&registry);
        let config = gateway.folder().join("mcp_servers.yaml");
        let config = format!("SWITCHYARD_CONFIG={}", config.display());
        let spawned = ["-e", &config, env!("CARGO_BIN_EXE_switchyard"), "stdio"];
        let call = [
            "--protocol-era",
            era,
            "--method",
            "tools/call",
            "--tool-name",
            "beep",
            "--tool-arg",
            "words=hello",
        ];
        let answer = inspect(&spawned, &call).await.to_string();
        assert!(answer.contains("hello"), "{era}: {answer}");
    }
}

#[tokio::test]
async fn the_python_client_negotiates_by_itself_over_http_and_stdio() {
    let (gateway, server) = started().await;
    let registry = Registry::new().child("two", &["--tools", "beep,say"]);
    let other = Gateway::of(&registry);
    let config = other.folder().join("mcp_servers.yaml");
    let program = r#"
import asyncio, sys
from mcp import StdioServerParameters
from mcp.client import Client
async def main():
    command, *arguments = sys.argv[1:]
    async with Client(StdioServerParameters(command=command, args=arguments) if arguments else command) as client:
        tools = await client.list_tools()
        print(sorted(tool.name for tool in tools.tools))
        answer = await client.call_tool("say", {"words": "hello"})
        print(answer.content[0].text)
asyncio.run(main())
"#;
    let config = config.to_str().expect("UTF-8");
    let spawned = [env!("CARGO_BIN_EXE_switchyard"), "stdio", "--config", config];
    for target in [&[gateway.url("/mcp").as_str()][..], &spawned] {
        let home = tempfile::tempdir().expect("a folder");
        let mut command = peers::command("peer-python", home.path());
        command.args(["-c", program]).args(target);
        let (stdout, stderr) = output(command).await;
        assert_eq!(stdout, "['beep', 'say']\n{\"words\":\"hello\"}\n", "{target:?}: {stderr}");
    }
    assert_eq!(server.runs("say"), 1);
}

#[tokio::test]
async fn claude_code_connects_over_http_and_stdio() {
    let (gateway, _server) = started().await;
    let home = tempfile::tempdir().expect("a folder");
    let claude = |arguments: &[&str]| {
        let mut command = peers::command("claude", home.path());
        command.args(["mcp"]).args(arguments);
        output(command)
    };
    claude(&["add", "--transport", "http", "over-http", &gateway.url("/mcp")]).await;
    let registry = Registry::new().child("two", &["--tools", "beep"]);
    let other = Gateway::of(&registry);
    let config = other.folder().join("mcp_servers.yaml");
    let program = env!("CARGO_BIN_EXE_switchyard");
    claude(&["add", "over-stdio", "--", program, "stdio", "--config", config.to_str().expect("UTF-8")]).await;
    // It exits with 0 whatever it found.
    let (stdout, stderr) = claude(&["list"]).await;
    for name in ["over-http", "over-stdio"] {
        let line = stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains("Connected") && !line.contains("Failed"), "{name}: {stdout}\n{stderr}");
    }
}

/// A model that says one word (the Messages API of Anthropic, as a stream), and keeps what it is offered.
struct Model {
    served: Served,
    /// The names of the tools of each request.
    offered: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Model {
    fn start() -> Self {
        let offered = Arc::<Mutex<Vec<Vec<String>>>>::default();
        let seen = Arc::clone(&offered);
        let answer = move |body: Bytes| {
            let request: Value = serde_json::from_slice(&body).expect("JSON");
            let tools = request["tools"].as_array().into_iter().flatten();
            let names = tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect();
            seen.lock().expect("whole").push(names);
            async { ([(CONTENT_TYPE, "text/event-stream")], Self::word()).into_response() }
        };
        Self { served: Served::start(Router::new().route("/v1/messages", post(answer))), offered }
    }

    fn word() -> String {
        let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}});
        let events = [
            json!({"type": "message_start", "message": message}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ];
        let event =
            |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
        events.iter().map(event).collect()
    }
}

#[tokio::test]
async fn claude_code_gives_its_model_exactly_the_tools_of_the_view_of_its_key() {
    let tools = ["say", "search", "wipe"].map(Tool::named);
    let server = tools.into_iter().fold(Scripted::modern(), Scripted::tool).start();
    let keys = [(SAYER, "role: caller, view: sayers"), (BEEPER, "role: caller, view: beepers")];
    let registry = Registry::new()
        .http("one", &server.url())
        .child("two", &["--tools", "beep"])
        .setting("views: {sayers: {allow: [\"one/s*\"], deny: [\"one/search\"]}, beepers: {allow: [\"two/*\", \"one/wipe\"]}}")
        .setting(&format!("server: {{{}}}", api_keys(&keys)));
    let gateway = gateway(&registry).start().await;
    for (key, tool) in [(SAYER, "say"), (BEEPER, "beep"), (BEEPER, "wipe")] {
        gateway.offers_to(tool, &format!("Bearer {key}")).await;
    }
    let model = Model::start();
    for (key, expected) in [(SAYER, vec!["say"]), (BEEPER, vec!["beep", "wipe"])] {
        let home = tempfile::tempdir().expect("a folder");
        let headers = json!({"Authorization": format!("Bearer {key}")});
        let config =
            json!({"mcpServers": {"gate": {"type": "http", "url": gateway.url("/mcp"), "headers": headers}}});
        let mut command = peers::command("claude", home.path());
        command
            .env("ANTHROPIC_BASE_URL", model.served.url())
            .env("ANTHROPIC_API_KEY", "none")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            // Each tool with its request, and not by a search.
            .env("ENABLE_TOOL_SEARCH", "false")
            .args(["--print", "hello", "--mcp-config", &config.to_string(), "--strict-mcp-config"])
            .stdin(std::process::Stdio::null());
        let (stdout, stderr) = output(command).await;
        assert_eq!(stdout.trim(), "done", "{stderr}");
        let offered = std::mem::take(&mut *model.offered.lock().expect("whole"));
        let mut names: Vec<&str> = offered
            .last()
            .expect("a request")
            .iter()
            .filter_map(|name| name.strip_prefix("mcp__gate__"))
            .collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{offered:?}");
    }
}
