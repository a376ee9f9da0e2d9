//! HTTP 5xx of a server: which statuses open its circuit breaker, and what operators see of the others; health
//! checks on request, and how many probes close a breaker.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::rag::{Bridge, Fault, INVOKE};
use crate::support::scripted::{Act, Scripted, Server, Silent, Tool};
use crate::support::{Gateway, Registry, Running, eventually};

/// A gateway with the server `one` that has the tool `a`, with more lines in its settings.
async fn with_tool(tool: Tool, lines: &[&str]) -> (Running, Server) {
    let server = Scripted::modern().tool(tool).start();
    let registry = Registry::new().http("one", &server.url());
    let registry = lines.iter().fold(registry, |registry, line| registry.with(line));
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    (gateway, server)
}

async fn health(gateway: &Running, query: &str) -> Value {
    gateway.get(&format!("/health{query}")).await.json()["servers"][0].clone()
}

async fn breaker(gateway: &Running) -> Value {
    gateway.get("/circuit-breakers").await.json()["circuit_breakers"][0].clone()
}

#[tokio::test]
async fn http_500_is_shown_at_once_and_does_not_open_the_breaker() {
    for status in [500, 501, 505] {
        let tool = (0..7).fold(Tool::named("a"), |tool, _| tool.does(Act::Status(status, None)));
        let (gateway, server) = with_tool(tool.does(Act::Echo), &[]).await;
        assert_eq!(gateway.call("one", "a", json!({})).await.status, 502);
        let ill = health(&gateway, "").await;
        eprintln!("after one HTTP {status}: {ill}");
        assert_eq!(ill["healthy"], false, "{ill}");
        assert!(ill["last_error"].as_str().is_some_and(|error| error.contains(&status.to_string())), "{ill}");
        for _ in 1..7 {
            gateway.call("one", "a", json!({})).await;
        }
        let counters = gateway.get("/servers/one").await.json()["counters"].clone();
        eprintln!("after seven: {counters}, {}", breaker(&gateway).await);
        assert_eq!((server.runs("a"), &counters["failures"]), (7, &json!(7)));
        assert_eq!(breaker(&gateway).await["state"], "closed");
        assert_eq!(gateway.call("one", "a", json!({})).await.status, 200);
        assert_eq!(
            health(&gateway, "").await["healthy"],
            true,
            "the next normal answer says that it is well"
        );
    }
}

#[tokio::test]
async fn errors_of_each_kind_are_counted_apart_and_the_last_one_is_gone_when_it_is_over() {
    let tool = Tool::named("a")
        .does(Act::Result(r#"{"content":[{"type":"text","text":"no such city"}],"isError":true}"#.into()))
        .does(Act::Error(r#"{"code":-32050,"message":"out of order"}"#.into()))
        .does(Act::Status(500, None))
        .does(Act::Echo);
    let (gateway, _server) = with_tool(tool, &[]).await;
    for _ in 0..3 {
        gateway.call("one", "a", json!({})).await;
    }
    let server = gateway.get("/servers/one").await.json();
    assert!(server["last_error"].as_str().is_some_and(|error| error.contains("500")), "{server}");
    assert!(server["last_error_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{server}");
    let counters = &server["counters"];
    let kinds = ["calls", "tool_errors", "rpc_errors", "failures", "refusals"].map(|kind| &counters[kind]);
    assert_eq!(kinds, [&json!(3), &json!(1), &json!(1), &json!(1), &json!(0)]);
    let metrics = gateway.mcp().to(&gateway.url("/metrics")).bare(http::Method::GET, &[]).await.body;
    for outcome in ["tool_error", "rpc_error", "failed"] {
        let line = format!(
            "switchyard_server_call_duration_seconds_count{{server=\"one\",outcome=\"{outcome}\"}} 1"
        );
        assert!(metrics.contains(&line), "{outcome}: {metrics}");
    }
    gateway.call("one", "a", json!({})).await;
    let server = gateway.get("/servers/one").await.json();
    assert_eq!((&server["last_error"], &server["last_error_at"]), (&Value::Null, &Value::Null), "{server}");
    let health = health(&gateway, "").await;
    assert_eq!((&health["last_error"], &health["last_error_at"]), (&Value::Null, &Value::Null), "{health}");
}

#[tokio::test]
async fn http_502_to_504_open_the_breaker() {
    for status in [502, 503, 504] {
        let lines = ["circuit_breaker_threshold: 3", "retry_attempts: 0"];
        let (gateway, server) = with_tool(Tool::named("a").does(Act::Status(status, None)), &lines).await;
        gateway.call("one", "a", json!({})).await;
        assert_eq!(health(&gateway, "").await["healthy"], false, "within one call");
        for _ in 1..5 {
            gateway.call("one", "a", json!({})).await;
        }
        let shown = breaker(&gateway).await;
        eprintln!("HTTP {status}: {shown}, the tool ran {} times", server.runs("a"));
        assert_eq!((&shown["state"], server.runs("a")), (&json!("open"), 3));
    }
}

#[tokio::test]
async fn the_service_behind_a_built_in_server_is_judged_alike() {
    let bridge = Bridge::start();
    let lines = [
        "transport: builtin",
        "builtin: rag",
        &format!("url: {}", bridge.url()),
        "circuit_breaker_threshold: 3",
        "retry_attempts: 0",
    ]
    .map(str::to_owned);
    let gateway = Gateway::of(&Registry::new().server("rag", &lines)).start().await;
    gateway.offers(&["rag_basic"]).await;
    let ask = async |status, times| {
        bridge.fail(INVOKE, Some(Fault::status(status, "{}")));
        for _ in 0..times {
            gateway.call("rag", "rag_basic", json!({"query": "q"})).await;
        }
        (breaker(&gateway).await["state"].clone(), health(&gateway, "").await["healthy"].clone())
    };
    let (of_500, of_503) = (ask(500, 7).await, ask(503, 3).await);
    eprintln!("built-in: after seven 500 {of_500:?}, after three 503 {of_503:?}");
    assert_eq!(of_500, (json!("open"), json!(false)));
    assert_eq!(of_503, (json!("open"), json!(false)));
}

#[tokio::test]
async fn several_probes_close_the_breaker_where_it_is_set_so() {
    for name in ["circuit_breaker_success_threshold", "success_threshold"] {
        let tool = Tool::named("a").does(Act::Drop).does(Act::Drop).does(Act::Echo);
        let threshold = format!("{name}: 3");
        let lines =
            ["circuit_breaker_threshold: 2", "circuit_breaker_timeout: 0.2", "retry_attempts: 0", &threshold];
        let (gateway, _server) = with_tool(tool, &lines).await;
        for _ in 0..2 {
            gateway.call("one", "a", json!({})).await;
        }
        assert_eq!(breaker(&gateway).await["state"], "open");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut states = Vec::new();
        for _ in 0..3 {
            assert_eq!(gateway.call("one", "a", json!({})).await.status, 200);
            states.push(breaker(&gateway).await["state"].clone());
        }
        eprintln!("{name}: {states:?}");
        assert_eq!(states, ["half_open", "half_open", "closed"]);
    }
}

#[tokio::test]
async fn health_asks_the_servers_now_and_at_most_once_in_five_seconds() {
    let server = Scripted::legacy().tool(Tool::named("a").does(Act::Status(500, None))).start();
    let registry = Registry::new().http("one", &server.url()).setting("health_check_interval: 3600");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    gateway.call("one", "a", json!({})).await;
    let pings = || server.seen_calling("ping").len();
    assert_eq!((health(&gateway, "").await["healthy"].clone(), pings()), (json!(false), 0));
    for _ in 0..20 {
        assert_eq!(health(&gateway, "?check=true").await["healthy"], true, "it answers the check");
    }
    eprintln!("20 requests with check=true: {} health checks of the server", pings());
    assert_eq!(pings(), 1);
    let refused = gateway.get("/health?check=maybe").await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_reported_by_the_check_itself() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let silent = Silent::new();
    let registry = Registry::new().http("one", &server.url()).with("retry_attempts: 0");
    let registry = registry.http("hangs", &silent.url()).with("timeout: 1");
    let gateway = Gateway::of(&registry.setting("health_check_interval: 3600")).start().await;
    gateway.offers(&["a"]).await;
    eventually("it is ready", async || (health(&gateway, "").await["healthy"] == true).then_some(())).await;
    drop(server);
    let began = Instant::now();
    let one = health(&gateway, "?check=true").await;
    let took = began.elapsed();
    eprintln!("reported after {took:?}: {one}");
    assert_eq!((&one["healthy"], &one["state"]), (&json!(false), &json!("failed")), "{one}");
    assert!(took < Duration::from_secs(11), "{took:?}");
}
