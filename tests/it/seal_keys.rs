//! `server.seal_keys`: replicas with the same keys understand each other's task ids.

use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running};

const OLD: &str = "the old key of the tests: 32 bytes or more";
const NEW: &str = "the new key of the tests: 32 bytes or more";
const TASK: &str = r#"{"resultType":"task","taskId":"7","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null,"pollIntervalMs":500}"#;

fn server() -> Server {
    let discovered = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"public","supportedVersions":["2026-07-28"],
        "capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
    let discovered = discovered.replace('\n', "");
    let got = TASK.replace(r#""resultType":"task""#, r#""resultType":"complete""#);
    Scripted::modern()
        .tool(Tool::named("a").does(Act::Result(TASK.to_owned())))
        .answers("server/discover", vec![discovered; 50])
        .answers("tasks/get", vec![got; 50])
        .start()
}

async fn replica(server: &Server, keys: &str) -> Running {
    let registry = Registry::new().http("one", &server.url()).setting(keys);
    let gateway = Gateway::of(&registry).env("OLD", OLD).env("NEW", NEW).start().await;
    gateway.offers(&["a"]).await;
    gateway
}

async fn ask(gateway: &Running, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let client = match params["taskId"].as_str() {
        Some(id) => gateway.mcp().with_header("mcp-name", id),
        None => gateway.mcp(),
    };
    client.modern(method, params).await.json()
}

// Issue 18, item 15: before, `seal_keys` was an unknown key, and no id was known to another replica.
#[tokio::test]
async fn a_task_id_of_one_replica_is_known_to_those_that_have_its_key() {
    let server = server();
    let first = replica(&server, "server: {seal_keys: [\"${OLD}\"]}").await;
    let made = ask(&first, "tools/call", json!({"name": "a", "arguments": {}})).await;
    let id = made["result"]["taskId"].as_str().unwrap_or_else(|| panic!("no task: {made}")).to_owned();
    assert_ne!(id, "7", "sealed");
    for (keys, is_known) in [
        ("server: {seal_keys: [\"${OLD}\"]}", true),
        ("server: {seal_keys: [\"${NEW}\", \"${OLD}\"]}", true),
        ("server: {seal_keys: [\"${NEW}\"]}", false),
        ("", false),
    ] {
        let other = replica(&server, keys).await;
        let answer = ask(&other, "tasks/get", json!({"taskId": id})).await;
        eprintln!("{keys:?}: {answer}");
        assert_eq!(answer["result"]["taskId"] == json!(id), is_known, "{keys}: {answer}");
        assert_eq!(answer["error"].is_object(), !is_known, "{keys}: {answer}");
    }
}

#[test]
fn a_key_is_a_reference_to_a_long_secret() {
    for (keys, reason) in [
        (format!("[\"{OLD}\"]"), "a key stands in the file itself"),
        ("[\"${SHORT}\"]".to_owned(), "shorter than 32 bytes"),
        ("[]".to_owned(), "expected 1 to 8 keys, found 0"),
        ("7".to_owned(), "expected a list"),
    ] {
        let gateway = Gateway::with_config(&format!("server: {{seal_keys: {keys}}}")).env("SHORT", "x");
        let output = gateway.output(&["check", "mcp_servers.yaml"]);
        let told = String::from_utf8_lossy(&output.stderr);
        eprintln!("{told}");
        assert_eq!(output.status.code(), Some(2), "{keys}");
        assert!(told.contains(reason) && !told.contains(OLD), "{reason:?} is missing: {told}");
    }
}
