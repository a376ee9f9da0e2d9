//! The RAG techniques through the whole program, with a fake bridge: the requests of one question, notifications
//! of changed lists, and a bridge that crashes or refuses the key.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::rag::{Bridge, Fault, HEALTH, INVOKE, LIST, SIX};
use crate::support::{Gateway, Registry, eventually};

const KEY: &str = "key-that-nobody-sees";

fn registry(bridge: &Bridge, options: &str) -> Registry {
    let lines = [
        "transport: builtin".to_owned(),
        "builtin: rag".to_owned(),
        format!("url: {}", bridge.url()),
        "timeout: 5".to_owned(),
        "retry_delay: 0.1".to_owned(),
        "circuit_breaker_threshold: 3".to_owned(),
        "circuit_breaker_timeout: 1".to_owned(),
        format!("rag: {{{options}}}"),
    ];
    Registry::new().server("rag", &lines).setting("health_check_interval: 1")
}

async fn serving(bridge: &Bridge, options: &str) -> Running {
    let gateway = Gateway::of(&registry(bridge, options)).start().await;
    gateway.offers(&["rag_basic", "rag_health"]).await;
    gateway
}

fn question() -> Value {
    json!({"query": "when do tokens expire"})
}

#[tokio::test]
async fn every_technique_answers_programs_and_clients_of_both_eras() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge, "").await;
    let session = gateway.mcp().legacy().await;
    for name in SIX {
        let tool = format!("rag_{name}");
        let rest = gateway.call("rag", &tool, question()).await.json();
        assert!(rest["data"]["answer"].as_str().is_some_and(|text| text.starts_with(name)), "{rest}");
        for answer in [gateway.mcp().call(&tool, question()).await, session.call(&tool, question()).await] {
            assert_eq!(answer.result()["structuredContent"], rest["data"]);
        }
    }
    let refused = gateway.call("rag", "rag_crag", json!({"query": "q", "top_k": 51})).await.json();
    assert_eq!((&refused["success"], &refused["data"]["field"]), (&json!(false), &json!("top_k")));
    bridge.fail(INVOKE, Some(Fault::body(&json!({"success": false, "error": "no index"}))));
    let failed = gateway.call("rag", "rag_crag", question()).await.json();
    assert_eq!(
        (&failed["success"], &failed["data"]["type"], &failed["data"]["technique"]),
        (&json!(false), &json!("service_unavailable"), &json!("crag")),
        "{failed}"
    );
}

#[tokio::test]
async fn a_question_that_was_sent_is_never_put_again_by_itself() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge, "").await;
    // A request that the bridge did not accept may be repeated. This case comes first: the third failure opens the
    // breaker, and then a health check could be the probe instead of the repeated question.
    bridge.fail(INVOKE, Some(Fault::Answer(503, Some(1), "{}".into())));
    let asked = gateway.call("rag", "rag_basic", question());
    let mended = async {
        eventually("it is asked", async || (bridge.count(INVOKE) == 1).then_some(())).await;
        bridge.fail(INVOKE, None);
    };
    let (answer, ()) = tokio::join!(asked, mended);
    assert_eq!((answer.status, bridge.count(INVOKE)), (200, 2), "{answer:?}");
    for (number, fault) in [Fault::status(500, "{}"), Fault::status(502, "{}")].into_iter().enumerate() {
        bridge.fail(INVOKE, Some(fault));
        let answer = gateway.call("rag", "rag_basic", question()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (502, &json!("backend_error")), "{answer:?}");
        assert_eq!(bridge.count(INVOKE), number + 3);
    }
}

#[tokio::test]
async fn an_answer_that_was_paid_for_can_be_kept() {
    let bridge = Bridge::start();
    let registry = registry(&bridge, "").with("tools: {cache: {ttl: 60}}");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["rag_basic"]).await;
    let first = gateway.call("rag", "rag_basic", question()).await;
    let again = gateway.call("rag", "rag_basic", question()).await;
    assert_eq!((first.status, &first.json()["data"]), (200, &again.json()["data"]));
    assert_eq!(bridge.count(INVOKE), 1);
    let health = async || gateway.call("rag", "rag_health", json!({})).await.json()["data"]["status"].clone();
    assert_eq!(health().await, "healthy");
    bridge.fail(HEALTH, Some(Fault::status(500, "{}")));
    assert_eq!(health().await, "failing", "how it is, is asked each time");
}

#[tokio::test]
async fn a_change_of_the_list_reaches_everybody_who_is_connected() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge, "refresh: 1").await;
    let session = gateway.mcp().legacy().await;
    let mut legacy = session.client.listen().await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut modern = gateway.mcp().modern_stream("subscriptions/listen", &filter).await;
    assert_eq!(
        modern.next().await.expect("it listens")["method"],
        "notifications/subscriptions/acknowledged"
    );
    bridge.has(&["basic", "hyde", "no name"]);
    for stream in [&mut legacy, &mut modern] {
        let notice = stream.next().await.expect("a notice");
        assert_eq!(notice["method"], "notifications/tools/list_changed", "{notice}");
    }
    let names = session.request("tools/list", json!({})).await.tool_names();
    assert_eq!(names, ["rag_basic", "rag_hyde", "rag_health"]);
    let tools = gateway.get("/servers/rag/tools").await.json();
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(3), "{tools}");
    assert_eq!(gateway.call("rag", "rag_hyde", question()).await.status, 200);
    let gone = gateway.call("rag", "rag_crag", question()).await;
    assert_eq!((gone.status, &gone.json()["code"]), (404, &json!("tool_not_found")));
    let told = gateway.call("rag", "rag_health", json!({})).await.json();
    assert_eq!(told["data"]["left_out"][0]["name"], "no name", "{told}");
    let lines = gateway.logs("the entry", |line| line.to_string().contains("no name")).await;
    assert_eq!(lines.len(), 1, "once, however often the list is read");
}

#[tokio::test]
async fn a_list_that_fails_is_kept_and_a_bridge_that_died_comes_back() {
    let mut bridge = Bridge::start();
    let gateway = serving(&bridge, "refresh: 1").await;
    let read = bridge.count(LIST);
    bridge.fail(LIST, Some(Fault::body("<html>")));
    eventually("it is read again", async || (bridge.count(LIST) > read + 2).then_some(())).await;
    assert_eq!(gateway.offers(&[]).await.len(), 7);
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 200);
    bridge.fail(LIST, None);
    bridge.kill();
    let failed = gateway.call("rag", "rag_basic", question()).await;
    assert!(failed.status >= 502, "{failed:?}");
    assert_eq!(gateway.offers(&[]).await.len(), 7, "a server that is away keeps its tools");
    eventually("it is known to be away", async || {
        let servers = gateway.get("/servers").await.json();
        (!servers.to_string().contains(r#""state":"ready""#)).then_some(())
    })
    .await;
    bridge.has(&["basic"]);
    bridge.restart();
    eventually("it answers again", async || {
        (gateway.call("rag", "rag_basic", question()).await.status == 200).then_some(())
    })
    .await;
    eventually("its new list is offered", async || (gateway.offers(&[]).await.len() == 2).then_some(()))
        .await;
}

#[tokio::test]
async fn a_key_that_is_not_taken_parks_the_server_and_is_shown_nowhere() {
    let bridge = Bridge::start();
    bridge.wants("another");
    let gateway = Gateway::of(&registry(&bridge, &format!("api_key: {KEY:?}"))).start().await;
    let refused = async || {
        let servers = gateway.get("/servers").await.json();
        servers.to_string().contains(r#""state":"auth_failed""#).then_some(servers)
    };
    let servers = eventually("it waits for an operator", refused).await.to_string();
    assert!(servers.contains("rag.api_key") && !servers.contains(KEY), "{servers}");
    assert_eq!((bridge.count(LIST), bridge.count(HEALTH)), (1, 0), "it is not asked again by itself");
    bridge.wants(KEY);
    assert_eq!(gateway.post("/servers/rag/reconnect", "").await.status, 200);
    gateway.offers(&["rag_basic"]).await;
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 200);
    bridge.wants("withdrawn");
    eventually("it waits for an operator again", refused).await;
    assert!(!gateway.log().iter().any(|line| line.to_string().contains(KEY)));
}

#[tokio::test]
async fn a_slow_answer_ends_at_its_deadline_and_hurts_nobody() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge, "").await;
    bridge.fail(INVOKE, Some(Fault::Hang));
    let slow = async {
        let body = json!({"server": "rag", "tool": "rag_basic", "arguments": question(), "timeout": 1});
        let answer = gateway.post("/call", &body.to_string()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (504, &json!("timed_out")), "{answer:?}");
    };
    let others = async {
        eventually("it is asked", async || (bridge.count(INVOKE) == 1).then_some(())).await;
        bridge.fail(INVOKE, None);
        let answers = join_all((0..8).map(|_| gateway.call("rag", "rag_crag", question()))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    };
    tokio::join!(slow, others);
    assert_eq!(gateway.call("rag", "rag_basic", question()).await.status, 200);
}
