//! `limits.requests_per_minute`: how many requests one server gets in a minute.

use serde_json::json;

use crate::support::scripted::{Scripted, Tool};
use crate::support::{Gateway, Registry};

// Issue 18, item 14: before, `requests_per_minute` was an unknown key.
#[tokio::test]
async fn more_requests_than_the_limit_are_refused_and_not_sent() {
    let [slow, fast] = ["slow", "fast"].map(|tool| Scripted::modern().tool(Tool::named(tool)).start());
    let registry = Registry::new()
        .http("slow", &slow.url())
        .with("limits: {requests_per_minute: 3}")
        .http("fast", &fast.url());
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["slow", "fast"]).await;
    for _ in 0..3 {
        assert_eq!(gateway.call("slow", "slow", json!({})).await.status, 200);
    }
    for _ in 0..5 {
        let refused = gateway.call("slow", "slow", json!({})).await;
        let problem = refused.json();
        assert_eq!((refused.status, problem["code"].as_str()), (429, Some("overloaded")), "{problem}");
        let wait: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
        assert!((30..=60).contains(&wait), "{wait} s");
        assert!(
            problem["detail"].as_str().is_some_and(|text| text.contains("requests_per_minute")),
            "{problem}"
        );
        assert_eq!(gateway.call("fast", "fast", json!({})).await.status, 200, "others do not notice");
    }
    let error = gateway.mcp().modern("tools/call", json!({"name": "slow", "arguments": {}})).await.error();
    assert_eq!(error["code"], -31004, "{error}");
    assert!(error["data"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 30_000), "{error}");
    assert_eq!(slow.runs("slow"), 3, "no refused request was sent");
    // It does not count as a failure of the server.
    let breakers = gateway.get("/circuit-breakers").await.json();
    assert_eq!(breakers["circuit_breakers"][0]["failure_count"], 0, "{breakers}");
    assert_eq!(gateway.get("/health?check=true").await.json()["servers"][0]["healthy"], true);
}

#[test]
fn other_words_for_it_are_refused_with_a_hint() {
    for line in [
        "requests_per_minute: 60",
        "rate_limit: 60",
        "limits: {rate_limit: 60}",
        "limits: {requests_per_minute: 0}",
    ] {
        let yaml = format!("mcp_servers:\n  a:\n    url: http://localhost:1\n    {line}\n");
        let told = Gateway::with_config(&yaml).output(&["check", "mcp_servers.yaml"]);
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.code() == Some(2) && text.contains("requests_per_minute"), "{line}: {text}");
    }
}
