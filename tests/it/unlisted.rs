//! Unlisted tools and prompts, and methods and notifications of vendors, at the endpoint of one server.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{Session, Stream};
use crate::support::scripted::{Scripted, Server, Tool};
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, Running, api_keys, eventually};

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
async fn reader_passes_no_unlisted_method_or_tool() {
    let server = Scripted::modern().tool(Tool::named("listed")).answers(METHOD, described()).start();
    let keys = format!("server: {{{}}}", api_keys(&[(KEY, "role: reader")]));
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

/// Calls `signal` and returns how many notifications of the vendor reach `session`, with the response or on `stream`.
async fn signals(session: &Session, stream: &mut Stream) -> usize {
    let answer = session.call("signal", json!({})).await;
    let is_signal = |notice: &Value| notice["method"] == "com.example/signal";
    if answer.notifications().iter().any(is_signal) {
        return 1;
    }
    let later = tokio::time::timeout(Duration::from_millis(500), stream.next()).await;
    usize::from(later.ok().flatten().is_some_and(|notice| is_signal(&notice)))
}

#[tokio::test]
async fn a_notification_of_a_server_outside_of_calls_reaches_the_client_of_the_connection() {
    let http = StatefulHttp::start();
    for (registry, is_own) in [
        (Registry::new().http("one", &http.url()), true),
        (Registry::new().child("one", &["--stateful"]).with("sharing: per_session"), true),
        (Registry::new().child("one", &["--stateful"]), false),
    ] {
        let gateway = Gateway::of(&registry).start().await;
        gateway.offers(&["client"]).await;
        let (session, other) = (gateway.mcp_of("one").legacy().await, gateway.mcp_of("one").legacy().await);
        assert_eq!(other.call("client", json!({})).await.status, 200);
        let (mut stream, mut of_other) = (session.client.listen().await, other.client.listen().await);
        let mut heard = 0;
        for _ in 0..3 {
            heard += signals(&session, &mut stream).await;
        }
        assert_eq!(heard, if is_own { 3 } else { 0 });
        let none = tokio::time::timeout(Duration::from_millis(200), of_other.next()).await;
        assert!(none.is_err(), "{none:?}");
    }
}

#[tokio::test]
async fn notifications_of_a_vendor_on_an_event_stream_keep_their_order() {
    let http = StatefulHttp::start();
    let gateway = Gateway::of(&Registry::new().http("one", &http.url())).start().await;
    gateway.offers(&["client"]).await;
    let client = gateway.mcp();
    let mut stream = client.to(&gateway.url("/sse/one")).listen().await;
    let address = stream.event().await.expect("the first event").data;
    let messages = client.to(&gateway.url(&address));
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"}});
    let initialize = messages.envelope("initialize", &hello.to_string());
    assert_eq!(messages.post(&initialize, &[]).await.status, 202);
    assert!(stream.next().await.expect("an answer")["result"].is_object());
    let sent: Vec<u64> = (0..20).collect();
    for number in &sent {
        let notification =
            json!({"jsonrpc": "2.0", "method": "com.example/step", "params": {"number": number}});
        assert_eq!(messages.post(&notification.to_string(), &[]).await.status, 202);
    }
    let heard = eventually("the server has all", async || {
        let call = messages.envelope("tools/call", r#"{"name":"client"}"#);
        assert_eq!(messages.post(&call, &[]).await.status, 202);
        let answer = loop {
            let message = stream.next().await.expect("an answer");
            if message["result"].is_object() {
                break message;
            }
        };
        let text = answer["result"]["content"][0]["text"].as_str().expect("text");
        let client: Value = serde_json::from_str(text).expect("JSON");
        let heard = client["heard"].as_array().cloned().unwrap_or_default();
        (heard.len() == sent.len()).then_some(heard)
    })
    .await;
    let numbers: Vec<u64> = heard.iter().filter_map(|notice| notice["params"]["number"].as_u64()).collect();
    assert_eq!(numbers, sent);
}

#[tokio::test]
async fn a_notification_of_a_vendor_is_passed_under_the_conditions_of_methods() {
    for (role, policy, passes) in [
        ("role: caller", "tools: {}", true),
        ("role: reader", "tools: {}", false),
        ("role: caller", "tools: {allow: [listed]}", false),
        ("role: caller", "tools: {deny: [other]}", false),
        ("role: caller", "tools: {rename: {other: another}}", false),
        ("role: caller", "tools: {on_change: block}", false),
        ("role: caller", "limits: {requests_per_minute: 2}", true),
    ] {
        let server = Scripted::legacy().tool(Tool::named("listed")).start();
        let keys = format!("server: {{{}}}", api_keys(&[(KEY, role)]));
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
