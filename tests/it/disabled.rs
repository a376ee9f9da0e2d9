//! Servers that an operator disables and enables while the gateway runs.
//!
//! Not here: the commands (`operator`), child processes (`rules::processes`) and roles (`credentials`).

use serde_json::{Value, json};

use crate::support::scripted::{Scripted, Tool};
use crate::support::stateful_http::StatefulHttp;
use crate::support::{Gateway, Registry, Running, eventually};

async fn switched(gateway: &Running, action: &str, server: &str) -> Value {
    let answer = gateway.post(&format!("/servers/{server}/{action}"), "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["state"].clone()
}

#[tokio::test]
async fn clients_and_monitoring_see_that_a_server_is_disabled_and_enabled() {
    let (one, two) = (
        Scripted::modern().tool(Tool::named("a")).start(),
        Scripted::modern().tool(Tool::named("b")).start(),
    );
    let gateway = Gateway::of(&Registry::new().http("one", &one.url()).http("two", &two.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    let session = gateway.mcp().legacy().await;
    let mut stream = session.client.listen().await;
    let state = |metrics: &str, state: &str| {
        let line = format!("switchyard_server_state{{server=\"one\",state=\"{state}\"}} 1");
        metrics.lines().any(|found| found == line)
    };

    for (action, now, tools) in [("disable", "disabled", 1), ("enable", "ready", 2)] {
        assert_eq!(switched(&gateway, action, "one").await, now);
        let notice = stream.next().await.expect("a notice");
        assert_eq!(notice["method"], "notifications/tools/list_changed", "{notice}");
        let listed = session.request("tools/list", json!({})).await.json();
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(tools), "{listed}");
        let metrics = gateway.mcp().to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await.body;
        assert!(state(&metrics, now), "{metrics}");
        let health = gateway.get("/health").await.json();
        let enabled = health["servers"].as_array().expect("a list").iter().map(|server| &server["enabled"]);
        assert_eq!(health["status"], "healthy", "{health}");
        assert_eq!(enabled.collect::<Vec<_>>(), [&json!(now == "ready"), &json!(true)], "{health}");
    }
    assert_eq!(session.call("a", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn a_server_that_the_file_disables_is_enabled_until_the_next_reload() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url()).with("enabled: false");
    let gateway = Gateway::of(&registry).start().await;
    assert_eq!(switched(&gateway, "disable", "one").await, "disabled", "it is already");
    assert!(server.seen_calling("tools/list").is_empty(), "a disabled server is not contacted");
    assert_eq!(switched(&gateway, "enable", "one").await, "ready");
    assert_eq!(switched(&gateway, "enable", "one").await, "ready", "it is already");
    assert_eq!(gateway.call("one", "a", json!({})).await.status, 200);
    let reloaded = gateway.post("/reload", "").await.json();
    assert_eq!(reloaded["changed"], json!(["one"]));
    assert_eq!(gateway.get("/servers/one").await.json()["state"], "disabled");
}

#[tokio::test]
async fn names_of_a_disabled_server_are_not_taken_by_another_one() {
    let (one, two) = (
        Scripted::modern().tool(Tool::named("a")).start(),
        Scripted::modern().tool(Tool::named("b")).start(),
    );
    let gateway = Gateway::of(&Registry::new().http("one", &one.url()).http("two", &two.url())).start().await;
    gateway.offers(&["a", "b"]).await;
    switched(&gateway, "disable", "one").await;
    two.change_tools(vec![Tool::named("a"), Tool::named("b")]);
    let listed = eventually("the new tool is offered", async || {
        let listed = gateway.offers(&["b"]).await;
        (listed.len() == 2).then_some(listed)
    })
    .await;
    assert!(!listed.contains(&"a".to_owned()), "{listed:?}");
    switched(&gateway, "enable", "one").await;
    // Both servers have the tool now, so neither has its bare name.
    gateway.offers(&["one__a", "two__a", "b"]).await;
    assert_eq!(gateway.mcp().call("one__a", json!({})).await.status, 200);
    assert_eq!((one.seen_calling("tools/call").len(), two.seen_calling("tools/call").len()), (1, 0));
}

#[tokio::test]
async fn connections_of_single_sessions_end_and_begin_again() {
    let http = StatefulHttp::start();
    let over_http = Registry::new().http("one", &http.url());
    let over_stdio = Registry::new().child("one", &["--stateful"]);
    for registry in [over_http, over_stdio] {
        let gateway = Gateway::of(&registry.with("sharing: per_session")).start().await;
        gateway.offers(&["add"]).await;
        let session = gateway.mcp().legacy().await;
        assert_eq!(session.call("add", json!({"name": "mine"})).await.text(), "added");
        assert_eq!(switched(&gateway, "disable", "one").await, "disabled");
        let listed = session.request("tools/list", json!({})).await.json();
        assert_eq!(listed["result"]["tools"], json!([]), "{listed}");
        for tool in ["mine", "add"] {
            let refused = session.call(tool, json!({})).await;
            assert!(refused.body.contains("\"error\""), "{}", refused.body);
        }
        assert_eq!(switched(&gateway, "enable", "one").await, "ready");
        let listed = session.request("tools/list", json!({})).await.body;
        assert!(!listed.contains("\"mine\""), "its connection is a new one: {listed}");
        assert_eq!(session.call("add", json!({"name": "again"})).await.text(), "added");
    }
}
