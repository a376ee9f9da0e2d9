//! Servers that repeat their credentials: neither the log nor an answer of Switchyard contains them.

use serde_json::{Value, json};

use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// Prefix of every secret of these tests.
const CANARY: &str = "canary-7f3a";

/// The secret of the server `name`.
fn key(name: &str) -> String {
    format!("{CANARY}-{name}")
}

/// A server that refuses `method` and repeats the key of `name`, a second time where texts are
/// truncated.
fn telling(scripted: Scripted, name: &str, method: &str) -> Server {
    let key = key(name);
    scripted
        .tool(Tool::named(name))
        .refuses(method, &format!("Incorrect API key provided: {key}. {:135}{key}", ' '))
        .start()
}

/// The configuration line with the key of a server.
fn given(name: &str) -> String {
    match name {
        "bearer" | "old" => format!("auth: {{bearer: \"${{{}}}\"}}", variable(name)),
        _ => format!("headers: {{X-Key: \"${{{}}}\"}}", variable(name)),
    }
}

fn variable(name: &str) -> String {
    format!("KEY_OF_{}", name.to_uppercase())
}

const NAMES: [&str; 6] = ["header", "bearer", "old", "stream", "child", "list"];

async fn start(servers: &[Server]) -> Running {
    let [header, bearer, old, stream] = servers else { panic!("four servers") };
    let of_child = |name: &str| format!("env: {{KEY: \"${{{}}}\"}}", variable(name));
    let registry = Registry::new()
        .http("header", &header.url())
        .with(&given("header"))
        .http("bearer", &bearer.url())
        .with(&given("bearer"))
        .sse("old", &old.url())
        .with(&given("old"))
        .sse("stream", &stream.url())
        .with(&given("stream"))
        .child("child", &["--era", "legacy", "--refuse", "initialize"])
        .with(&of_child("child"))
        .child("list", &["--refuse", "tools/list"])
        .with(&of_child("list"));
    let gateway = Gateway::of(&registry).env("SWITCHYARD_LOG", "warn,switchyard=debug");
    NAMES.into_iter().fold(gateway, |gateway, name| gateway.env(&variable(name), &key(name))).start().await
}

// RULES S16
#[tokio::test]
async fn a_key_that_a_server_says_back_stands_in_no_log_and_in_no_answer_of_ours() {
    let servers = [
        telling(Scripted::legacy(), "header", "initialize"),
        telling(Scripted::modern(), "bearer", "tools/list"),
        telling(Scripted::sse(), "old", "initialize"),
        telling(Scripted::sse(), "stream", "tools/list"),
    ];
    let gateway = start(&servers).await;
    let failed = |health: &Value, name: &str| {
        let servers = health["servers"].as_array().expect("servers");
        let said = servers.iter().find(|one| one["name"] == name).map(ToString::to_string);
        said.is_some_and(|said| said.contains("Incorrect API key provided: ***"))
    };
    let health = eventually("it is known why none of them is there", async || {
        let health = gateway.get("/health").await.json();
        NAMES.iter().all(|name| failed(&health, name)).then_some(health)
    })
    .await;
    let mut told = vec![
        health.to_string(),
        gateway.get("/servers").await.body,
        gateway.mcp().to(&gateway.url("/health")).bare(http::Method::GET, &[]).await.body,
    ];
    for name in NAMES {
        told.push(gateway.post(&format!("/servers/{name}/reconnect"), "").await.body);
        told.push(gateway.call(name, name, json!({})).await.body);
    }
    told.push(gateway.mcp().call("header", json!({})).await.body);
    told.extend(gateway.log().iter().map(ToString::to_string));
    let leaks: Vec<&String> = told.iter().filter(|text| text.contains(CANARY)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert!(told.iter().any(|text| text.contains("bad key ***")), "standard error is logged");
}

#[tokio::test]
async fn answer_of_a_server_reaches_its_caller_unchanged() {
    let error = format!(r#"{{"code":-32001,"message":"Incorrect API key provided: {CANARY}"}}"#);
    let server = Scripted::modern().tool(Tool::named("a").does(Act::Error(error.clone()))).start();
    let registry = Registry::new().http("one", &server.url()).with("headers: {X-Key: \"${KEY}\"}");
    let gateway = Gateway::of(&registry).env("KEY", CANARY).start().await;
    gateway.offers(&["a"]).await;
    let answer = gateway.mcp().call("a", json!({})).await;
    assert_eq!(answer.error()["message"], format!("Incorrect API key provided: {CANARY}"));
    let log: Vec<String> = gateway.log().iter().map(ToString::to_string).collect();
    assert!(!log.iter().any(|line| line.contains(CANARY)), "{log:#?}");
}
