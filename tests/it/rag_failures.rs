//! Failures of a RAG bridge: code, field, time to wait and advice reach the caller. They may come with 200 and
//! `success: false` or with an HTTP error. A refused key is an authentication failure.

use serde_json::{Value, json};

use crate::support::gateway::Running;
use crate::support::rag::{Bridge, Fault, HEALTH, INVOKE, LIST};
use crate::support::{Gateway, Registry, eventually};

const KEY: &str = "key-that-nobody-sees";

fn registry(bridge: &Bridge) -> Registry {
    let lines = [
        "transport: builtin".to_owned(),
        "builtin: rag".to_owned(),
        format!("url: {}", bridge.url()),
        "timeout: 5".to_owned(),
        "retry_delay: 0.1".to_owned(),
        "circuit_breaker_threshold: 50".to_owned(),
        format!("rag: {{api_key: {KEY:?}, refresh: 3600}}"),
    ];
    Registry::new().server("rag", &lines).setting("health_check_interval: 3600")
}

async fn serving(bridge: &Bridge) -> Running {
    let gateway = Gateway::of(&registry(bridge)).start().await;
    gateway.offers(&["rag_basic", "rag_health"]).await;
    gateway
}

fn question() -> Value {
    json!({"query": "when do tokens expire"})
}

/// The failure that `rag_crag` answers with.
async fn failure_of_crag(gateway: &Running) -> Value {
    let answer = gateway.mcp().call("rag_crag", question()).await;
    assert_eq!(answer.result()["isError"], true, "{answer:?}");
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn unsuccessful(error: &Value) -> Fault {
    Fault::body(&json!({"success": false, "error": error}))
}

#[tokio::test]
async fn an_error_object_of_the_bridge_passes_with_all_its_facts() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    let facts = json!({
        "field": "params.temperature", "rejected_value": 7.5, "valid_range": [0, 2],
        "guidance": format!("Lower it, {KEY} or not."), "limit": {"of": "model", "most": 2},
    });
    let error = json!({"code": -32602, "message": "temperature is too high", "data": facts});
    let wrapped = json!({"success": false, "error": error});
    for fault in [
        Fault::body(&wrapped),
        Fault::status(422, &wrapped),
        Fault::status(400, &error),
        Fault::status(422, &json!({"detail": error})),
    ] {
        bridge.fail(INVOKE, Some(fault));
        let told = failure_of_crag(&gateway).await;
        assert_eq!(
            (&told["type"], &told["field"], &told["rejected_value"], &told["valid_range"]),
            (&json!("invalid_params"), &json!("params.temperature"), &json!(7.5), &json!([0, 2])),
            "{told}"
        );
        assert_eq!((&told["code"], &told["guidance"]), (&json!(-32602), &json!("Lower it, … or not.")));
        assert_eq!(told["data"], json!({"limit": {"of": "model", "most": 2}}));
        assert!(
            told["message"].as_str().is_some_and(|text| text.ends_with("temperature is too high")),
            "{told}"
        );
    }
    let rest = gateway.call("rag", "rag_crag", question()).await.json();
    assert_eq!((&rest["success"], &rest["data"]["field"]), (&json!(false), &json!("params.temperature")));
}

#[tokio::test]
async fn a_time_to_wait_and_advice_pass_in_an_answer_and_in_an_error_of_http() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    let data = json!({"retry_after_seconds": 40, "guidance": "The index is being built.", "index": "wiki"});
    let error = json!({"code": "INDEX_BUILDING", "message": "no index yet", "data": data});
    bridge.fail(INVOKE, Some(unsuccessful(&error)));
    let told = failure_of_crag(&gateway).await;
    assert_eq!(
        (&told["type"], &told["code"], &told["retry_after_seconds"], &told["retryable"], &told["guidance"]),
        (
            &json!("service_unavailable"),
            &json!("INDEX_BUILDING"),
            &json!(40),
            &json!(true),
            &json!("The index is being built.")
        ),
        "{told}"
    );
    for body in [error.clone(), json!({"error": error}), json!({"success": false, "error": error})] {
        bridge.fail(INVOKE, Some(Fault::status(503, &body)));
        let failed = gateway.mcp().call("rag_crag", question()).await.error();
        let data = &failed["data"];
        assert_eq!(
            (&data["type"], &data["retry_after_seconds"], &data["guidance"]),
            (&json!("service_unavailable"), &json!(40), &json!("The index is being built.")),
            "{failed}"
        );
        assert_eq!(
            (&data["retry_after_ms"], &data["hint"], &data["retryable"]),
            (&json!(40_000), &json!("The index is being built."), &json!(true)),
            "{failed}"
        );
        assert_eq!(data["backend"]["code"], "INDEX_BUILDING", "{failed}");
        assert_eq!(data["backend"]["data"], json!({"index": "wiki"}));
        let rest = gateway.call("rag", "rag_crag", question()).await;
        let problem = rest.json();
        assert_eq!((rest.status, rest.header("retry-after")), (502, Some("40")), "{problem}");
        assert_eq!(
            (&problem["hint"], &problem["backend"]["code"]),
            (&json!("The index is being built."), &json!("INDEX_BUILDING"))
        );
    }
}

#[tokio::test]
async fn a_rate_limit_of_the_bridge_is_one_of_the_gateway_with_a_time_to_wait() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    for (retry_after, seconds) in [(None, 30), (Some(70), 70)] {
        bridge
            .fail(INVOKE, Some(Fault::Answer(429, retry_after, json!({"detail": "slow down"}).to_string())));
        let failed = gateway.mcp().call("rag_crag", question()).await.error();
        let data = &failed["data"];
        assert_eq!(
            (&failed["code"], &data["code"], &data["type"], &data["retry_after"], &data["retryable"]),
            (&json!(-31004), &json!("rate_limited"), &json!("rate_limited"), &json!(seconds), &json!(true)),
            "{failed}"
        );
        let rest = gateway.call("rag", "rag_crag", question()).await;
        assert_eq!(
            (rest.status, rest.header("retry-after"), &rest.json()["code"]),
            (429, Some(&*seconds.to_string()), &json!("rate_limited")),
            "{rest:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_described_as_one_of_the_bridge() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    for (body, fault) in [
        (r#"{"success":true,"result":{"answer":"a","scores":[NaN]}}"#, "NaN at byte 49 is no JSON value"),
        (r#"{"success":true,"result":{"#, "it ends at byte 26"),
        ("<html>Sign in</html>", "it is not JSON"),
        (r#"{"success":1,"result":{"answer":"a"}}"#, "`success` is neither true nor false"),
    ] {
        bridge.fail(INVOKE, Some(Fault::body(body)));
        let failed = gateway.mcp().call("rag_crag", question()).await.error();
        let text = failed["message"].as_str().expect("a message");
        assert!(text.contains("the answer is not valid: ") && text.contains(fault), "{failed}");
        assert!(!text.contains("MCP") && failed["data"]["code"] == "invalid_answer", "{failed}");
    }
    // As the runtimes of Windows write it.
    bridge.fail(INVOKE, Some(Fault::body("\u{feff}{\"success\":true,\"result\":{\"answer\":\"a\"}}")));
    assert_eq!(gateway.call("rag", "rag_crag", question()).await.json()["data"]["answer"], "a");
}

#[tokio::test]
async fn an_address_without_a_bridge_is_reported_as_a_wrong_url() {
    let bridge = Bridge::start();
    for route in [LIST, HEALTH] {
        bridge.fail(route, Some(Fault::status(404, &json!({"detail": "Not Found"}))));
    }
    let gateway = Gateway::of(&registry(&bridge)).start().await;
    let told = eventually("the reason is shown", async || {
        let shown = gateway.get("/servers").await.json().to_string();
        shown.contains("Not Found").then_some(shown)
    })
    .await;
    assert!(told.contains("check `url`, which does not contain /mcp"), "{told}");
}

#[tokio::test]
async fn a_bug_of_the_bridge_stays_one_with_its_id_and_an_outage_has_a_time() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    let error = json!({"message": "no", "data": {"type": "internal_error", "error_id": "e-77"}});
    bridge.fail(INVOKE, Some(unsuccessful(&error)));
    let told_error = failure_of_crag(&gateway).await;
    assert_eq!(
        (&told_error["type"], &told_error["error_id"], &told_error["retryable"]),
        (&json!("internal_error"), &json!("e-77"), &json!(false)),
        "{told_error}"
    );
    bridge.fail(INVOKE, Some(Fault::status(500, &json!({"detail": error}))));
    let data = gateway.mcp().call("rag_crag", question()).await.error()["data"].clone();
    assert_eq!(
        (&data["type"], &data["backend"]["error_id"], &data["status_code"], &data["retryable"]),
        (&json!("internal_error"), &json!("e-77"), &json!(500), &json!(false)),
        "{data}"
    );
    bridge.fail(INVOKE, Some(unsuccessful(&json!("the database is away"))));
    let failed = failure_of_crag(&gateway).await;
    assert_eq!(
        (&failed["type"], failed["retry_after_seconds"].as_f64()),
        (&json!("service_unavailable"), Some(30.0)),
        "{failed}"
    );
    bridge.fail(INVOKE, Some(Fault::status(503, &json!({"detail": "away"}))));
    let data = gateway.mcp().call("rag_crag", question()).await.error()["data"].clone();
    assert_eq!(
        (&data["status_code"], data["retry_after_seconds"].as_f64()),
        (&json!(503), Some(30.0)),
        "{data}"
    );
    // A page of a proxy in front of the bridge.
    bridge.fail(INVOKE, Some(Fault::body("<html>not a bridge</html>")));
    let rest = gateway.call("rag", "rag_crag", question()).await;
    assert_eq!((rest.status, &rest.json()["code"]), (502, &json!("invalid_answer")), "{rest:?}");
    let modern = gateway.mcp().call("rag_crag", question()).await;
    assert_eq!(modern.error()["data"]["type"], "service_unavailable", "{modern:?}");
    assert!(!rest.body.contains("html") && !modern.response_text().contains("html"), "{rest:?} {modern:?}");
}

#[tokio::test]
async fn a_refused_key_is_an_authentication_failure_however_the_bridge_says_it() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    for error in [
        json!("Invalid API key"),
        json!("Unauthorized"),
        json!({"code": 401, "message": "no"}),
        json!({"code": "AUTHENTICATION_FAILED", "message": "no"}),
        json!({"message": "no", "data": {"type": "authentication_error"}}),
    ] {
        let read = bridge.count(LIST);
        bridge.fail(INVOKE, Some(unsuccessful(&error)));
        let told = failure_of_crag(&gateway).await;
        assert_eq!(
            (&told["error"], &told["type"], &told["retryable"]),
            (&json!("authentication_failed"), &json!("authentication_error"), &json!(false)),
            "{told}"
        );
        let guidance = told["guidance"].as_str().expect("guidance").to_owned();
        assert!(guidance.contains("rag.api_key") && !guidance.contains("another technique"), "{guidance}");
        eventually("the list is read again", async || (bridge.count(LIST) > read).then_some(())).await;
    }
    bridge.fail(INVOKE, Some(unsuccessful(&json!("no passage names an author"))));
    assert_eq!(failure_of_crag(&gateway).await["type"], "service_unavailable");
    bridge.fail(LIST, Some(unsuccessful(&json!("Invalid API key"))));
    bridge.fail(INVOKE, Some(unsuccessful(&json!("Invalid API key"))));
    failure_of_crag(&gateway).await;
    eventually("the list says so too, and the server waits for an operator", async || {
        let servers = gateway.get("/servers").await.json().to_string();
        (servers.contains(r#""state":"auth_failed""#) && servers.contains("rag.api_key")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_refused_argument_has_a_type_and_a_numeric_range() {
    let bridge = Bridge::start();
    let gateway = serving(&bridge).await;
    for top_k in [json!(0), json!(51), json!(1.5), json!("many")] {
        let arguments = json!({"query": "q", "top_k": top_k});
        let answer = gateway.call("rag", "rag_crag", arguments).await.json();
        let refused = &answer["data"];
        assert_eq!(
            (&refused["type"], &refused["field"], &refused["rejected_value"], &refused["valid_range"]),
            (&json!("invalid_params"), &json!("top_k"), &top_k, &json!([1, 50])),
            "{answer}"
        );
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("from 1 to 50")), "{refused}");
    }
    assert_eq!(bridge.count(INVOKE), 0);
}
