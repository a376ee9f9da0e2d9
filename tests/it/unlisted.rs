//! Unlisted tools and prompts, and methods and notifications of vendors, at the endpoint of one server.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::client::Session;
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, Running, eventually};

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

/// Sends a notification of a vendor. Returns after it was accepted.
async fn tells(session: &Session, method: &str) {
    let notification = json!({"jsonrpc": "2.0", "method": method, "params": {"of": ["x", 1]}});
    assert_eq!(session.client.post(&notification.to_string(), &[]).await.status, 202);
}

#[tokio::test]
async fn a_notification_of_a_vendor_reaches_the_connection_that_calls_use() {
    let http = StatefulHttp::start();
    for registry in [Registry::new().http("one", &http.url()), Registry::new().child("one", &["--stateful"])]
    {
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["client"]).await;
        let (session, merged) = (gateway.mcp_of("one").legacy().await, gateway.mcp().legacy().await);
        let known =
            ["notifications/initialized", "notifications/roots/list_changed", "notifications/progress"];
        for method in ["com.example/mode", "a b", &"x".repeat(129)].into_iter().chain(known) {
            tells(&session, method).await;
        }
        tells(&merged, "com.example/other").await;
        let heard: Value =
            serde_json::from_str(&session.call("client", json!({})).await.text()).expect("JSON");
        let mode = json!({"method": "com.example/mode", "params": {"of": ["x", 1]}});
        assert_eq!(heard["heard"], json!([mode]), "before its call, and nothing else");
    }
}

#[tokio::test]
async fn a_notification_of_a_vendor_is_passed_under_the_conditions_of_methods() {
    let hash = hex::encode(Sha256::digest(KEY));
    for (role, policy, passes) in [
        ("caller", "tools: {}", true),
        ("reader", "tools: {}", false),
        ("caller", "tools: {allow: [listed]}", false),
        ("caller", "tools: {deny: [other]}", false),
        ("caller", "tools: {rename: {other: another}}", false),
        ("caller", "tools: {on_change: block}", false),
        ("caller", "limits: {requests_per_minute: 2}", true),
    ] {
        let server = Scripted::legacy().tool(Tool::named("listed")).start();
        let keys = format!(
            "server: {{auth_mode: api_key, api_keys: [{{id: op, hash: \"sha256:{hash}\", role: {role}}}]}}"
        );
        let registry = Registry::new().http("one", &server.url()).with(policy).setting(&keys);
        let gateway = Gateway::of(&registry).start().await;
        let credential = format!("Bearer {KEY}");
        gateway.offers_to("listed", &credential).await;
        let session = gateway.mcp_of("one").with_header("authorization", &credential).legacy().await;
        for _ in 0..4 {
            tells(&session, METHOD).await;
        }
        let most = if policy.starts_with("limits") { 2 } else { 4 };
        if passes {
            eventually("it is there", async || (!server.seen_calling(METHOD).is_empty()).then_some(())).await;
        }
        let seen = server.seen_calling(METHOD).len();
        assert!(seen <= most && (seen > 0) == passes, "{role}, {policy}: {seen}");
    }
}
