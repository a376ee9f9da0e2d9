//! Servers of other makers connected to the program, over every transport they have.

use serde_json::{Value, json};

use super::gateway;
use crate::support::gateway::Running;
use crate::support::{Client, Registry, peers};

/// Starts the everything server of the Python SDK on the transports that its command lacks.
const PYTHON_STDIO: &str = "from mcp_everything_server.server import mcp; mcp.run('stdio')";

fn python_sse(port: u16) -> Vec<String> {
    let program = format!("from mcp_everything_server.server import mcp; mcp.run('sse', port={port})");
    vec!["-c".to_owned(), program]
}

/// Calls `tool` over REST and as a client of both eras, and checks that every answer contains
/// `expected`.
async fn is_answered_everywhere(
    gateway: &Running,
    server: &str,
    tool: &str,
    arguments: &Value,
    expected: &str,
) {
    let rest = gateway.call(server, tool, arguments.clone()).await;
    assert_eq!((rest.status, &rest.json()["success"]), (200, &json!(true)), "{rest:?}");
    let modern = gateway.mcp().call(tool, arguments.clone()).await;
    let legacy = gateway.mcp().legacy().await.call(tool, arguments.clone()).await;
    for answer in [&rest.json()["content"].to_string(), &modern.result_text(), &legacy.result_text()] {
        assert!(answer.contains(expected), "{server}: {answer}");
    }
}

async fn everything_answers(registry: Registry) {
    let gateway = gateway(&registry).start().await;
    let names = gateway.offers(&["echo", "get-sum"]).await;
    assert!(names.len() >= 8, "{names:?}");
    is_answered_everywhere(&gateway, "everything", "echo", &json!({"message": "héllo"}), "Echo: héllo").await;
    is_answered_everywhere(&gateway, "everything", "get-sum", &json!({"a": 2, "b": 40}), "42").await;
    let bad = gateway.mcp().call("echo", json!({"message": 7})).await;
    assert!(bad.response_text().contains("message"), "its own words: {bad:?}");
}

#[tokio::test]
async fn typescript_everything_over_stdio() {
    let program = peers::program("mcp-server-everything");
    everything_answers(Registry::new().command("everything", &program, &["stdio"])).await;
}

#[tokio::test]
async fn typescript_everything_over_sse() {
    let server = peers::listening("mcp-server-everything", |_| vec!["sse".to_owned()]).await;
    everything_answers(Registry::new().sse("everything", &server.url("/sse"))).await;
}

#[tokio::test]
async fn typescript_everything_over_streamable_http() {
    let server = peers::listening("mcp-server-everything", |_| vec!["streamableHttp".to_owned()]).await;
    everything_answers(Registry::new().http("everything", &server.url("/mcp"))).await;
}

#[tokio::test]
async fn an_old_sse_server_is_found_without_being_told() {
    let server = peers::listening("mcp-server-everything", |_| vec!["sse".to_owned()]).await;
    everything_answers(Registry::new().http("everything", &server.url("/sse"))).await;
}

async fn python_answers(registry: Registry) {
    let gateway = gateway(&registry).start().await;
    gateway.offers(&["test_simple_text", "test_tool_with_progress", "json_schema_2020_12_tool"]).await;
    let text = "This is a simple text response for testing.";
    is_answered_everywhere(&gateway, "python", "test_simple_text", &json!({}), text).await;
    is_answered_everywhere(&gateway, "python", "test_image_content", &json!({}), "image/png").await;
    let failed = gateway.call("python", "test_error_handling", json!({})).await;
    assert_eq!((failed.status, &failed.json()["success"]), (200, &json!(false)), "{failed:?}");

    let session = gateway.mcp().legacy().await;
    let params =
        json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let answer = session.request("tools/call", params).await;
    let progress: Vec<Value> = answer
        .notifications()
        .into_iter()
        .filter(|notice| notice["method"] == "notifications/progress")
        .map(|notice| json!([notice["params"]["progressToken"], notice["params"]["progress"]]))
        .collect();
    assert_eq!(progress, [json!(["mine", 0]), json!(["mine", 50]), json!(["mine", 100])], "{answer:?}");
    let list = session.request("tools/list", json!({})).await.result_text();
    for kept in ["$schema", "$defs", "additionalProperties", "$anchor"] {
        assert!(list.contains(kept), "{kept}");
    }
}

#[tokio::test]
async fn python_everything_over_streamable_http() {
    let server =
        peers::listening("mcp-everything-server", |port| vec!["--port".to_owned(), port.to_string()]).await;
    python_answers(Registry::new().http("python", &server.url("/mcp"))).await;
}

#[tokio::test]
async fn python_everything_over_sse() {
    let server = peers::listening("peer-python", python_sse).await;
    python_answers(Registry::new().sse("python", &server.url("/sse"))).await;
}

#[tokio::test]
async fn python_everything_over_stdio() {
    let program = peers::program("peer-python");
    python_answers(Registry::new().command("python", &program, &["-c", PYTHON_STDIO])).await;
}

/// A client gets the same bytes through the gateway as without it.
#[tokio::test]
async fn modern_answers_are_those_of_the_server_itself() {
    let server =
        peers::listening("mcp-everything-server", |port| vec!["--port".to_owned(), port.to_string()]).await;
    let gateway = gateway(&Registry::new().http("python", &server.url("/mcp"))).start().await;
    gateway.offers(&["test_simple_text"]).await;
    let (direct, through) = (Client::at(&server.url("/mcp")), gateway.mcp());
    for tool in
        ["test_simple_text", "test_multiple_content_types", "test_embedded_resource", "test_error_handling"]
    {
        let (there, here) = (direct.call(tool, json!({})).await, through.call(tool, json!({})).await);
        assert_eq!(here.result_text(), there.result_text(), "{tool}");
    }
    let definitions = |list: &str| {
        let list: Value = serde_json::from_str(list).expect("JSON");
        let mut tools = list["tools"].as_array().expect("tools").clone();
        tools.sort_by_key(|tool| tool["name"].to_string());
        tools
    };
    let there = direct.modern("tools/list", json!({})).await.result_text();
    let here = through.modern("tools/list", json!({})).await.result_text();
    assert_eq!(definitions(&here), definitions(&there));
}

#[tokio::test]
async fn five_real_servers_at_once() {
    let everything = peers::listening("mcp-server-everything", |_| vec!["streamableHttp".to_owned()]).await;
    let files = tempfile::tempdir().expect("a folder");
    std::fs::write(files.path().join("note.txt"), "found it").expect("it can be written");
    let folder = files.path().canonicalize().expect("it is there");
    let folder = folder.to_str().expect("UTF-8");
    let registry = Registry::new()
        .command("everything", &peers::program("mcp-server-everything"), &["stdio"])
        .command("files", &peers::program("mcp-server-filesystem"), &[folder])
        .command("memory", &peers::program("mcp-server-memory"), &[])
        .with(&format!("env: {{MEMORY_FILE_PATH: {folder}/memory.json}}"))
        .command("time", &peers::program("mcp-server-time"), &["--local-timezone", "UTC"])
        .http("remote", &everything.url("/mcp"));
    let gateway = gateway(&registry).start().await;
    gateway
        .offers(&[
            "read_text_file",
            "create_entities",
            "get_current_time",
            "remote__echo",
            "everything__echo",
        ])
        .await;
    let path = format!("{folder}/note.txt");
    is_answered_everywhere(&gateway, "files", "read_text_file", &json!({"path": path}), "found it").await;
    let entity = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["first"]}]});
    is_answered_everywhere(&gateway, "memory", "create_entities", &entity, "").await;
    is_answered_everywhere(&gateway, "memory", "read_graph", &json!({}), "Ada").await;
    let zone = json!({"timezone": "UTC"});
    is_answered_everywhere(&gateway, "time", "get_current_time", &zone, "UTC").await;
    for server in ["everything", "remote"] {
        let answer = gateway.mcp().call(&format!("{server}__echo"), json!({"message": server})).await;
        assert_eq!(answer.text(), format!("Echo: {server}"));
    }
    let refused = gateway.mcp().call("echo", json!({"message": "x"})).await;
    let words = refused.error().to_string();
    assert!(words.contains("everything__echo") && words.contains("remote__echo"), "{words}");
}
