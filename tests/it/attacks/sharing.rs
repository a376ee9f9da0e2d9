//! Connections that clients share, and lists that are expensive to read: one client or server must not take it all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::line::Line;
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

const GREEDY: &str = "swy_greedy_0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "swy_other_fedcba9876543210fedcba9876543210fedcba9876543210";

fn keys() -> String {
    format!("server: {{{}}}", api_keys(&[GREEDY, OTHER].map(|key| (key, "role: caller"))))
}

/// The set of capabilities with this number, of 40: all that tell dialects apart.
fn capabilities(number: usize) -> Value {
    let mut all = json!({});
    if number & 1 == 1 {
        all["roots"] = json!({});
    }
    all["sampling"] =
        [json!(null), json!({}), json!({"tools": {}}), json!({"context": {}})][number / 2 % 4].clone();
    all["elicitation"] =
        [json!(null), json!({"form": {}}), json!({"url": {}}), json!({"form": {}, "url": {}})]
            [number / 8 % 4]
            .clone();
    all.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    all
}

/// A session of the holder of `key`; its id.
async fn session(gateway: &Running, key: &str, number: usize) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities(number),
        "clientInfo": {"name": "t", "version": "0"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let bearer = format!("Bearer {key}");
    let told = Line::to(&gateway.address).post("/mcp", &[("authorization", &bearer)], hello.as_bytes()).await;
    told.header("mcp-session-id").unwrap_or_else(|| panic!("{told:?}")).to_owned()
}

/// A call of `tool` in `session`.
async fn call(gateway: &Running, key: &str, session: &str, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}});
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string();
    let headers = [("authorization", &*format!("Bearer {key}")), ("mcp-session-id", session)];
    Line::to(&gateway.address).post("/mcp", &headers, body.as_bytes()).await.body
}

/// How many of 8 callers with sets of their own are served, while another caller has calls in 24 sets running.
async fn served_beside(sessions: usize) -> usize {
    let legacy = Scripted::legacy()
        .tool(Tool::named("hang").does(Act::Hang))
        .tool(Tool::named("a").does(Act::Result(r#"{"content":[{"type":"text","text":"served"}]}"#.into())))
        .start();
    let registry = Registry::new().setting(&keys()).http("one", &legacy.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("a", &format!("Bearer {GREEDY}")).await;
    let hanging = async {
        let calls = (0..sessions).map(async |number| {
            let session = session(&gateway, GREEDY, number).await;
            call(&gateway, GREEDY, &session, "hang").await
        });
        futures_util::future::join_all(calls).await
    };
    let others = async {
        eventually("the calls hang", async || (legacy.runs("hang") >= sessions / 2).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut served = 0;
        for number in 24..32 {
            let session = session(&gateway, OTHER, number).await;
            let answer = call(&gateway, OTHER, &session, "a").await;
            served += usize::from(answer.contains("served"));
        }
        served
    };
    tokio::select! {
        answers = hanging => panic!("they hang: {answers:?}"),
        served = others => served,
    }
}

#[tokio::test]
async fn one_caller_with_many_sets_of_capabilities_leaves_a_server_to_others() {
    let served = served_beside(24).await;
    eprintln!("{served} of 8 callers were served beside one with 24 sets of capabilities");
    assert_eq!(served, 8);
}

#[tokio::test]
async fn a_large_list_is_not_read_again_for_each_notice() {
    const MEGABYTE: usize = 1 << 20;
    let tool = |name: &str, size: usize| {
        let text = "x".repeat(size);
        let definition =
            format!(r#"{{"name":"{name}","description":"{text}","inputSchema":{{"type":"object"}}}}"#);
        Tool::defined(name, &definition)
    };
    let (large, small) =
        (Scripted::legacy().tool(tool("large", 4 * MEGABYTE)), Scripted::legacy().tool(tool("small", 9)));
    let (large, small) = (large.start(), small.start());
    let registry = Registry::new().http("large", &large.url()).http("small", &small.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["large", "small"]).await;
    let started = Instant::now();
    // No list is like one before, because notices without a change since the last reading are followed more and more
    // rarely.
    for round in 0.. {
        if started.elapsed() >= Duration::from_secs(5) {
            break;
        }
        large.change_tools(vec![tool("large", 4 * MEGABYTE - round)]);
        small.change_tools(vec![tool("small", 9 + round)]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reads = |server: &crate::support::scripted::Server| server.seen_calling("tools/list").len();
    let (of_large, of_small) = (reads(&large), reads(&small));
    eprintln!(
        "in 5 s of notices a list of 4 MiB was read {of_large} times, and one of 100 bytes {of_small} times"
    );
    assert!(of_large <= 3 && of_small >= 5, "{of_large} and {of_small}");
    let changed = Instant::now();
    small.change_tools(vec![tool("other", 9)]);
    gateway.offers(&["other"]).await;
    assert!(
        changed.elapsed() < Duration::from_millis(1500),
        "a small list is read at once: {:?}",
        changed.elapsed()
    );
}
