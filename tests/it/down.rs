//! Servers that are down, hang or crash: other servers are not delayed, and `/health` names them with
//! the reason.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::scripted::{Act, Refusing, Scripted, Silent, Tool};
use crate::support::{Answer, Gateway, Registry, Running, eventually};

async fn listed_once(gateway: &Running) -> (Answer, Duration) {
    let began = Instant::now();
    (gateway.mcp().modern("tools/list", json!({})).await, began.elapsed())
}

// RULES R26
#[tokio::test]
async fn nine_of_twelve_are_ready_at_once_and_the_other_three_are_named() {
    let (refusing, silent) = (Refusing::new(), Silent::new());
    let mut registry = Registry::new().http("refuses", &refusing.url()).http("hangs", &silent.url()).command(
        "exits",
        "false",
        &[],
    );
    let mut running = Vec::new();
    let mut expected = Vec::new();
    for number in 0..9 {
        let (name, tool) = (format!("good-{number}"), format!("tool_{number}"));
        expected.push(tool.clone());
        registry = match number % 4 {
            0 => registry.child(&name, &["--era", "legacy", "--tools", &tool]),
            kind => {
                let scripted = [Scripted::modern, Scripted::legacy, Scripted::sse][kind - 1]();
                let server = scripted.tool(Tool::named(&tool)).start();
                let url = server.url();
                running.push(server);
                if kind == 3 { registry.sse(&name, &url) } else { registry.http(&name, &url) }
            }
        };
    }
    let began = Instant::now();
    let gateway = Gateway::of(&registry).start().await;
    let listening = began.elapsed();
    eventually("nine servers are ready", async || {
        let health = gateway.get("/health").await.json();
        let servers = health["servers"].as_array().expect("servers").iter();
        (servers.filter(|server| server["healthy"] == true).count() == 9).then_some(())
    })
    .await;
    let ready = began.elapsed();
    assert!(ready < Duration::from_secs(1), "listening after {listening:?}, nine ready after {ready:?}");

    let (first, slowest) = listed_once(&gateway).await;
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let mut listed = first.tool_names();
    listed.sort();
    assert_eq!(listed, expected);
    // Lists wait for a hanging server only until 300 ms after the start, and never again.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut times = Vec::new();
    for _ in 0..50 {
        let (again, took) = listed_once(&gateway).await;
        assert_eq!(again.result_text(), first.result_text());
        times.push(took);
    }
    times.sort();
    eprintln!("nine ready after {ready:?}; first list {slowest:?}, then {:?} to {:?}", times[0], times[49]);
    assert!(times[25] < Duration::from_millis(20), "before, each took 300 ms: {times:?}");
    for number in 0..9 {
        let answer = gateway.mcp().call(&format!("tool_{number}"), json!({"n": number})).await;
        assert_eq!(answer.text(), format!(r#"{{"n":{number}}}"#));
    }
    // A handshake may take 30 seconds; until then the hanging server is only known to be connecting.
    let reasons =
        [("refuses", "refused"), ("exits", "exited with status 1"), ("hangs", r#""state":"connecting""#)];
    let health = eventually("it is known why three are not there", async || {
        let health = gateway.get("/health").await.json();
        let servers = health["servers"].as_array().expect("servers").clone();
        let says = |name: &str| servers.iter().find(|one| one["name"] == name).map(ToString::to_string);
        let known = reasons.iter().all(|(name, reason)| says(name).is_some_and(|says| says.contains(reason)));
        known.then_some(servers)
    })
    .await;
    assert_eq!(health.len(), 12);
    for server in health {
        let name = server["name"].as_str().expect("a name");
        assert_eq!(server["healthy"], name.starts_with("good"), "{server}");
    }
}

#[tokio::test]
async fn a_server_that_comes_up_later_brings_its_tools() {
    let refusing = Refusing::new();
    let registry = Registry::new().http("late", &refusing.url()).setting("health_check_interval: 1");
    let gateway = Gateway::of(&registry).start().await;
    let session = gateway.mcp().legacy().await;
    assert!(session.request("tools/list", json!({})).await.tool_names().is_empty());
    let address = refusing.url();
    drop(refusing);
    let server = Scripted::modern().tool(Tool::named("a")).start_at(&address);
    gateway.offers(&["a"]).await;
    assert_eq!(session.call("a", json!({})).await.text(), "{}");
    assert_eq!(server.runs("a"), 1);
}

#[tokio::test]
async fn a_call_whose_outcome_is_unknown_is_not_made_again() {
    let tool = || Tool::named("a").does(Act::Drop).does(Act::Cut).does(Act::Echo);
    for scripted in [Scripted::modern(), Scripted::legacy()] {
        let server = scripted.tool(tool()).start();
        let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
        gateway.offers(&["a"]).await;
        let answer = gateway.call("one", "a", json!({})).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (502, Some("outcome_unknown")),
            "{answer:?}"
        );
        assert_eq!(server.runs("a"), 1, "run once, and not again");
        let answer = gateway.mcp().call("a", json!({})).await;
        assert!(answer.error()["message"].is_string(), "{answer:?}");
        assert_eq!(server.runs("a"), 2);
        assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
    }
}

#[tokio::test]
async fn a_read_only_tool_is_tried_again() {
    let definition = r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
    let tool = Tool::defined("a", definition).does(Act::Drop).does(Act::Echo);
    let server = Scripted::modern().tool(tool).start();
    let registry = Registry::new().http("one", &server.url()).with("retry_delay: 0.1");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    assert_eq!(gateway.mcp().call("a", json!({"x": 1})).await.text(), r#"{"x":1}"#);
    assert_eq!(server.runs("a"), 2);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_answered_and_others_go_on() {
    let server = Scripted::modern().tool(Tool::named("slow").does(Act::Hang)).tool(Tool::named("a")).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["slow", "a"]).await;
    let began = Instant::now();
    let body = json!({"server": "one", "tool": "slow", "arguments": {}, "timeout": 0.5}).to_string();
    let answer = gateway.post("/call", &body).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (504, Some("timed_out")), "{answer:?}");
    let took = began.elapsed();
    assert!((Duration::from_millis(400)..Duration::from_millis(900)).contains(&took), "{took:?}");
    assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
}

#[tokio::test]
async fn the_breaker_opens_says_so_and_is_reset_by_hand() {
    let tool = (0..3).fold(Tool::named("a"), |tool, _| tool.does(Act::Drop)).does(Act::Echo);
    let server = Scripted::modern().tool(tool).start();
    let registry = Registry::new().http("one", &server.url()).with("circuit_breaker_threshold: 3");
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a"]).await;
    for _ in 0..3 {
        assert_eq!(gateway.call("one", "a", json!({})).await.status, 502);
    }
    let refused = gateway.call("one", "a", json!({})).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("circuit_open")), "{refused:?}");
    let wait: u64 = refused.header("retry-after").expect("a hint").parse().expect("seconds");
    assert!((1..=30).contains(&wait));
    assert_eq!(server.runs("a"), 3, "refused at once");
    let breakers = gateway.get("/circuit-breakers").await.json();
    assert!(breakers.to_string().contains(r#""state":"open""#), "{breakers}");
    assert_eq!(gateway.post("/circuit-breakers/one/reset", "").await.status, 200);
    assert_eq!(gateway.call("one", "a", json!({})).await.status, 200);
}
