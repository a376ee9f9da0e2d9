//! S25: cached results of tools through the whole program: for which callers, on which routes, and counted
//! in `/metrics`.

use serde_json::json;

use crate::support::gateway::Running;
use crate::support::redis::Redis;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Client, Gateway, Registry, api_keys, eventually};

const KEYS: [&str; 2] = [
    "swy_ann_0123456789abcdef0123456789abcdef0123456789abcdef",
    "swy_bob_fedcba9876543210fedcba9876543210fedcba9876543210",
];

/// A server whose tools answer differently each time. `find` and `news` are read-only, and results of
/// `news` are public.
fn server() -> Server {
    let tool = |name: &str, hint: bool, more: &str| {
        let definition =
            json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": hint}});
        let tool = Tool::defined(name, &definition.to_string());
        (0..8).fold(tool, |tool, at| {
            let text = format!(
                r#"{{"content":[{{"type":"text","text":"{name} {at}"}}],"resultType":"complete"{more}}}"#
            );
            tool.does(Act::Result(text))
        })
    };
    let public = r#","ttlMs":60000,"cacheScope":"public""#;
    let tools = [tool("find", true, ""), tool("news", true, public), tool("save", false, public)];
    tools.into_iter().fold(Scripted::modern(), Scripted::tool).start()
}

async fn gateway(server: &Server, redis: &Redis) -> Running {
    let keys = api_keys(&KEYS.map(|key| (key, "role: superuser")));
    let registry = Registry::new()
        .http("one", &server.url())
        .with("tools: {cache: {ttl: 60}}")
        .setting(&format!("cache: {{type: redis, url: \"{}\", command_timeout: 1}}", redis.url()))
        .setting(&format!("server: {{{keys}}}"));
    let running = Gateway::of(&registry).start().await;
    running.offers_to("find", &format!("Bearer {}", KEYS[0])).await;
    eventually("redis is used", async || {
        metrics(&running).await.contains("switchyard_cache_available 1").then_some(())
    })
    .await;
    running
}

fn client(gateway: &Running, who: usize) -> Client {
    gateway.mcp().with_header("authorization", &format!("Bearer {}", KEYS[who]))
}

async fn metrics(gateway: &Running) -> String {
    let answer = client(gateway, 0).to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.header("content-type").is_some_and(|kind| kind.starts_with("application/openmetrics-text"))
    );
    answer.body
}

async fn rest(gateway: &Running, who: usize, tool: &str) -> String {
    let body = json!({"tool": tool, "arguments": {}}).to_string();
    let answer = client(gateway, who).to(&gateway.url("/api/v1/mcp/call")).post(&body, &[]).await;
    answer.json()["data"].as_str().expect("a text").to_owned()
}

// RULES S25
#[tokio::test]
async fn each_principal_has_its_own_answers_over_two_gateways_and_every_way_in() {
    let (server, redis) = (server(), Redis::start().await);
    let (one, other) = (gateway(&server, &redis).await, gateway(&server, &redis).await);
    for gateway in [&one, &other] {
        assert_eq!(client(gateway, 0).call("find", json!({})).await.text(), "find 0");
        assert_eq!(client(gateway, 1).call("find", json!({})).await.text(), "find 1");
    }
    assert_eq!(server.runs("find"), 2, "once for each principal");
    for (who, gateway) in [(0, &one), (1, &other)] {
        assert_eq!(client(gateway, who).call("news", json!({})).await.text(), "news 0");
    }
    assert_eq!(server.runs("news"), 1, "once for everybody");
    for at in 0..3 {
        assert_eq!(client(&one, 0).call("save", json!({})).await.text(), format!("save {at}"));
    }
    // REST clients declare no capabilities, so their calls have separate cache entries, which they share
    // among themselves.
    let said = rest(&one, 0, "find").await;
    assert_eq!(rest(&other, 0, "find").await, said);
    assert_ne!(rest(&other, 1, "find").await, said);

    let text = metrics(&other).await;
    let hits =
        text.lines().find_map(|line| line.strip_prefix("switchyard_cache_hits_total{area=\"tools\"} "));
    assert_eq!(hits, Some("4"), "{text}");
}

#[tokio::test]
async fn an_answer_that_is_there_at_once_takes_some_time_too() {
    let server = server();
    let registry = Registry::new().http("one", &server.url()).with("tools: {cache: {ttl: 60}}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["find"]).await;
    for text in ["find 0", "find 0"] {
        let answer = gateway.call("one", "find", json!({})).await.json();
        assert_eq!(answer["data"], text);
        assert!(answer["execution_time_ms"].as_f64() > Some(0.0), "{answer}");
    }
}
