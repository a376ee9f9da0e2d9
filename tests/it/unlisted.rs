//! Unlisted tools and prompts, and methods of vendors, at the endpoint of one server.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::{Gateway, Registry, Running};

const KEY: &str = "swy_op_0123456789abcdef0123456789abcdef0123456789abcdef";
const METHOD: &str = "com.example/describe";

fn described() -> Vec<String> {
    vec![r#"{"resultType":"complete","n": 1e400}"#.to_owned(); 4]
}

async fn gateway(server: &Server, settings: &[&str]) -> Running {
    let registry = Registry::new().http("one", &server.url());
    let registry = settings.iter().fold(registry, |registry, line| registry.with(line));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["listed"]).await;
    gateway
}

fn calls(server: &Server, tool: &str) -> usize {
    let seen = server.seen_calling("tools/call");
    seen.iter().filter(|seen| seen.params().contains(&format!("\"name\":\"{tool}\""))).count()
}

fn code(answer: &Value) -> &Value {
    &answer["error"]["code"]
}

#[tokio::test]
async fn a_method_of_a_vendor_and_an_unlisted_tool_reach_the_one_server_unchanged() {
    for (scripted, is_modern) in [(Scripted::modern(), true), (Scripted::legacy(), false)] {
        let prompt = r#"{"resultType":"complete","messages":[],"n": 1e400}"#;
        let server = scripted.tool(Tool::named("listed")).answers(METHOD, described());
        let server = server.answers("prompts/get", vec![prompt.to_owned(); 2]).start();
        let gateway = gateway(&server, &[]).await;
        let (client, session) = (gateway.mcp_of("one"), gateway.mcp_of("one").legacy().await);
        let params = json!({"of": ["x", 1]});
        for answer in
            [client.modern(METHOD, params.clone()).await, session.request(METHOD, params.clone()).await]
        {
            assert_eq!(answer.result_text(), described()[0], "byte for byte");
        }
        let seen = server.seen_calling(METHOD);
        assert_eq!(seen.len(), 2);
        for seen in &seen {
            let sent: Value = serde_json::from_str(&seen.params()).expect("JSON");
            assert_eq!(sent["of"], params["of"]);
            let header = seen.headers.get("mcp-method").map(|value| value.to_str().expect("text"));
            assert_eq!(header, is_modern.then_some(METHOD));
        }
        for answer in [client.call("hidden", json!({})).await, session.call("hidden", json!({})).await] {
            assert_eq!(answer.json()["error"]["message"], "unknown tool", "the server itself answers");
        }
        assert_eq!(calls(&server, "hidden"), 2, "and once each");
        let hidden = json!({"name": "hidden"});
        let prompts = [
            client.modern("prompts/get", hidden.clone()).await,
            session.request("prompts/get", hidden).await,
        ];
        for answer in prompts {
            assert_eq!(answer.result_text(), prompt);
        }
        let merged = gateway.mcp();
        assert_eq!(code(&merged.modern(METHOD, json!({})).await.json()), -32601, "not beside other servers");
        assert_eq!(code(&merged.call("hidden", json!({})).await.json()), -32602);
        assert_eq!((calls(&server, "hidden"), server.seen_calling(METHOD).len()), (2, 2));
    }
}

#[tokio::test]
async fn a_server_with_a_policy_is_passed_only_what_it_lists() {
    for policy in [
        "tools: {allow: [listed]}",
        "tools: {deny: [hidden]}",
        "tools: {deny: [other]}",
        "tools: {rename: {other: another}}",
        "tools: {on_change: block}",
    ] {
        let server = Scripted::modern().tool(Tool::named("listed")).answers(METHOD, described()).start();
        let gateway = gateway(&server, &[policy]).await;
        let (client, session) = (gateway.mcp_of("one"), gateway.mcp_of("one").legacy().await);
        for answer in [client.modern(METHOD, json!({})).await, session.request(METHOD, json!({})).await] {
            assert_eq!(code(&answer.json()), -32601, "{policy}");
        }
        for answer in [client.call("hidden", json!({})).await, session.call("hidden", json!({})).await] {
            assert_eq!(code(&answer.json()), -32602, "{policy}");
        }
        let prompt = client.modern("prompts/get", json!({"name": "hidden"})).await;
        assert_eq!((code(&prompt.json()), server.seen_calling("prompts/get").len()), (&json!(-32602), 0));
        assert_eq!((calls(&server, "hidden"), server.seen_calling(METHOD).len()), (0, 0), "{policy}");
        assert_eq!(client.call("listed", json!({})).await.text(), "{}", "{policy}");
    }
}

#[tokio::test]
async fn names_that_no_method_has_and_those_of_other_revisions_reach_no_server() {
    let server = Scripted::modern().tool(Tool::named("listed")).start();
    let gateway = gateway(&server, &[]).await;
    let (client, session) = (gateway.mcp_of("one"), gateway.mcp_of("one").legacy().await);
    let before = server.seen().len();
    let long = "x".repeat(129);
    for name in [&long, "roots/list", "sampling/createMessage"] {
        assert_eq!(code(&client.modern(name, json!({})).await.json()), -32601, "{name:?}");
    }
    for name in ["a b", "é", "", &long, "roots/list", "sampling/createMessage"] {
        assert_eq!(code(&session.request(name, json!({})).await.json()), -32601, "{name:?}");
    }
    for (answer, name) in [
        (client.modern("ping", json!({})).await, "ping"),
        (session.request("subscriptions/listen", json!({})).await, "subscriptions/listen"),
    ] {
        assert_eq!(code(&answer.json()), -32601, "{name}");
    }
    assert_eq!(server.seen().len(), before);
}

#[tokio::test]
async fn who_may_not_call_passes_nothing() {
    let server = Scripted::modern().tool(Tool::named("listed")).answers(METHOD, described()).start();
    let hash = hex::encode(Sha256::digest(KEY));
    let keys = format!(
        "server: {{auth_mode: api_key, api_keys: [{{id: op, hash: \"sha256:{hash}\", role: reader}}]}}"
    );
    let registry = Registry::new().http("one", &server.url()).setting(&keys);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers_to("listed", &format!("Bearer {KEY}")).await;
    let client = gateway.mcp_of("one").with_header("authorization", &format!("Bearer {KEY}"));
    assert_eq!(code(&client.modern(METHOD, json!({})).await.json()), -32601);
    assert!(client.call("hidden", json!({})).await.json()["error"].is_object());
    assert_eq!((calls(&server, "hidden"), server.seen_calling(METHOD).len()), (0, 0));
}
