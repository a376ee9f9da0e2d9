//! Clients of other makers in front of the program.

use std::process::Command;

use serde_json::Value;

use super::gateway;
use crate::support::gateway::Running;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, peers};

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
async fn the_python_client_negotiates_by_itself() {
    let (gateway, server) = started().await;
    let program = r#"
import asyncio, sys
from mcp.client import Client
async def main():
    async with Client(sys.argv[1]) as client:
        tools = await client.list_tools()
        print(sorted(tool.name for tool in tools.tools))
        answer = await client.call_tool("say", {"words": "hello"})
        print(answer.content[0].text)
asyncio.run(main())
"#;
    let home = tempfile::tempdir().expect("a folder");
    let mut command = peers::command("peer-python", home.path());
    command.args(["-c", program, &gateway.url("/mcp")]);
    let (stdout, stderr) = output(command).await;
    assert_eq!(stdout, "['beep', 'say']\n{\"words\":\"hello\"}\n", "{stderr}");
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
