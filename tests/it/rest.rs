//! The REST API of the running program: every way a call can end, and the document that describes
//! them. Calls that go well, bad input and credentials have files of their own.

use serde_json::{Value, json};

use crate::support::answer::Answer;
use crate::support::gateway::{Gateway, Running};
use crate::support::scripted::{Act, Refusing, Scripted, Server, Tool};
use crate::support::{Client, api_keys, eventually};

/// A gateway before one server with one tool, `a`, that does `act`.
async fn doing(act: Act) -> (Running, Server) {
    let server = Scripted::modern().tool(Tool::named("a").does(act)).start();
    let gateway = Gateway::with_config(&format!("mcp_servers:\n  one:\n    url: {}\n", server.url()));
    let gateway = gateway.start().await;
    gateway.offers(&["a"]).await;
    (gateway, server)
}

fn result(json: &Value) -> Act {
    Act::Result(json.to_string())
}

/// The committed document, against which answers are held.
fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/switchyard.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("it is committed")).expect("JSON")
}

/// The status and code of a problem, both of which `POST /call` documents.
fn problem(answer: &Answer) -> (u16, String) {
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer:?}");
    let problem = answer.json();
    let document = document();
    let responses = &document["paths"]["/api/v1/mcp/call"]["post"]["responses"];
    let code = problem["code"].as_str().expect("a code").to_owned();
    let description = responses[answer.status.to_string()]["description"].as_str().expect("documented");
    assert!(description.contains(&format!("`{code}`")), "{code} is not documented: {description}");
    assert_eq!(problem["request_id"].as_str(), answer.header("x-request-id"));
    (answer.status, code)
}

#[tokio::test]
async fn a_call_that_fails_on_the_way_says_how_far_it_came() {
    for (act, status, code) in [
        (Act::Drop, 502, "outcome_unknown"),
        (Act::Cut, 502, "outcome_unknown"),
        (Act::Status(500, None), 502, "server_error"),
        (Act::Status(503, None), 502, "server_error"),
        (Act::Status(429, None), 429, "rate_limited"),
        // Longer than any caller in this test waits.
        (Act::Status(429, Some(90)), 429, "rate_limited"),
        (Act::Status(503, Some(90)), 502, "server_error"),
        (Act::Status(404, None), 502, "invalid_answer"),
        (Act::Status(401, None), 503, "auth_failed"),
        (Act::Status(403, None), 503, "auth_failed"),
        (Act::Result("7".to_owned()), 502, "invalid_answer"),
        (Act::Error(r#"{"code":-32602,"message":"q is missing"}"#.to_owned()), 400, "invalid_arguments"),
    ] {
        let (gateway, server) = doing(act.clone()).await;
        let answer = gateway.call("one", "a", json!({})).await;
        assert_eq!(problem(&answer), (status, code.to_owned()), "{act:?}: {answer:?}");
        assert_eq!(server.runs("a"), 1, "{act:?}: not made again");
        let told = answer.json();
        assert_eq!((&told["server"], &told["tool"]), (&json!("one"), &json!("a")));
        assert!(told["hint"].is_string() && told["retryable"].is_boolean(), "{told}");
        if let Act::Status(theirs, retry_after) = act {
            assert_eq!(told["server_status"], theirs);
            // Every rate limit has a time to wait.
            let seconds = retry_after.or((theirs == 429).then_some(30)).map(|seconds| seconds.to_string());
            assert_eq!(answer.header("retry-after"), seconds.as_deref(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn error_reported_by_a_tool_is_an_answer_with_status_200() {
    for (act, code, error) in [
        (
            result(
                &json!({"isError": true, "content": [{"type": "text", "text": "no such issue"}], "resultType": "complete"}),
            ),
            "tool_error",
            "no such issue",
        ),
        (Act::Error(r#"{"code":-32603,"message":"out of order"}"#.to_owned()), "rpc_error", "out of order"),
        (
            result(&json!({"resultType": "input_required", "inputRequests": {}, "requestState": "s"})),
            "input_required",
            "the tool asks for input, which a REST call cannot give: call it over MCP",
        ),
    ] {
        let (gateway, _server) = doing(act).await;
        let answer = gateway.call("one", "a", json!({})).await;
        let told = answer.json();
        assert_eq!((answer.status, &told["success"]), (200, &json!(false)), "{answer:?}");
        assert_eq!((&told["code"], &told["error"]), (&json!(code), &json!(error)));
        assert_eq!(gateway.get("/circuit-breakers").await.json()["circuit_breakers"][0]["failure_count"], 0);
    }
}

#[tokio::test]
async fn a_server_that_was_never_reached_is_the_answer_itself() {
    let refusing = Refusing::new();
    let yaml = format!(
        "mcp_servers:\n  away:\n    url: {}\n  off:\n    url: {}\n    enabled: false\n",
        refusing.url(),
        refusing.url()
    );
    let gateway = Gateway::with_config(&yaml).start().await;
    let answer = gateway.post("/call", r#"{"server":"away","tool":"a","timeout":5}"#).await;
    assert!(
        matches!(
            (answer.status, problem(&answer).1.as_str()),
            (502, "connection_failed") | (503, "circuit_open")
        ),
        "{answer:?}"
    );
    let answer = gateway.call("off", "a", json!({})).await;
    assert_eq!(problem(&answer), (503, "server_unavailable".to_owned()));
    let answer = gateway.post("/servers/away/reconnect", "").await;
    assert_eq!(problem(&answer), (502, "connection_failed".to_owned()));
}

#[tokio::test]
async fn a_server_that_refuses_our_credentials_is_not_told_as_one_that_is_away() {
    let key = "swy_ci_0123456789abcdef0123456789abcdef0123456789abcdef";
    let keys = api_keys(&[(key, "role: superuser")]);
    let behind = Gateway::with_config(&format!("mcp_servers: {{}}\nserver: {{{keys}}}\n"));
    let behind = behind.start().await;
    let config = format!("mcp_servers:\n  closed:\n    url: {}\n", behind.url("/mcp"));
    let gateway = Gateway::with_config(&config).env("TEST_KEY", key).start().await;
    let servers = eventually("it is left alone", async || {
        let servers = gateway.get("/servers").await.json();
        (servers["servers"][0]["state"] == "auth_failed").then_some(servers)
    });
    let error = servers.await["servers"][0]["last_error"].as_str().expect("a text").to_owned();
    assert!(
        error.starts_with("HTTP 401: a valid credential is required, WWW-Authenticate: Bearer; "),
        "{error}"
    );
    let called = gateway.call("closed", "a", json!({})).await;
    for answer in [called, gateway.post("/servers/closed/reconnect", "").await] {
        assert_eq!(problem(&answer), (503, "auth_failed".to_owned()), "{answer:?}");
        let told = answer.json();
        assert_eq!((&told["type"], &told["retryable"]), (&json!("/docs/errors#auth_failed"), &json!(false)));
    }
    let refused = gateway.mcp_of("closed").modern("tools/call", json!({"name": "a"})).await;
    assert_eq!(refused.error_code(), -31002, "{refused:?}");
    assert_eq!(refused.error()["data"]["type"], "authentication_error", "{refused:?}");

    gateway.rewrite(&format!("{config}    headers: {{x-api-key: \"${{TEST_KEY}}\"}}\n"));
    assert_eq!(gateway.post("/reload", "").await.status, 200);
    eventually("it is used with the key", async || {
        (gateway.get("/servers").await.json()["servers"][0]["state"] == "ready").then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_document_and_its_page_are_served_by_the_program_itself() {
    let gateway = Gateway::with_config("mcp_servers: {}\n").start().await;
    let get = async |path: &str| Client::at(&gateway.url(path)).bare(http::Method::GET, &[]).await;
    let served = get("/openapi.json").await;
    assert_eq!((served.status, served.json()), (200, document()));
    let page = get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html")), "after a redirect");
    assert!(page.body.contains("./swagger-ui-bundle.js") && !page.body.contains("://"), "{page:?}");
    assert_eq!(get("/docs/swagger-ui-bundle.js").await.status, 200);
    assert_eq!(get("/health/live").await.json(), json!({"status": "alive"}));
    let ready = get("/health/ready").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "ready"})));
}
