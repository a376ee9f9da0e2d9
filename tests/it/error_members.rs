//! Errors have one set of members wherever a client meets them, and their `type` leads to an explanation.

use http::Method;
use serde_json::{Value, json};

use crate::support::answer::Answer;
use crate::support::gateway::Running;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry};

/// Names that problem documents had for what other members say.
const DOUBLES: [&str; 7] =
    ["error_code", "error_type", "error_id", "guidance", "suggestion", "retry_after", "retry_after_seconds"];

async fn started() -> (Running, Server) {
    let busy = Tool::named("busy").does(Act::Status(429, Some(90)));
    let server = Scripted::modern().tool(busy).tool(Tool::named("failing").does(Act::Status(500, None)));
    let server = server.start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    gateway.offers(&["busy", "failing"]).await;
    (gateway, server)
}

/// The members that `error`, which came in `answer`, has in common with all others.
fn members(error: &Value, answer: &Answer) -> Value {
    for text in ["code", "detail", "hint"] {
        assert!(error[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {error}");
    }
    assert_eq!(error["request_id"].as_str(), answer.header("x-request-id"), "{answer:?}");
    let shared = ["code", "hint", "retryable", "retry_after_ms", "server", "tool"];
    assert!(error["retryable"].is_boolean(), "{error}");
    shared.iter().map(|name| ((*name).to_owned(), error[*name].clone())).collect()
}

/// The members of a problem document, whose `type` is looked up.
async fn of_problem(gateway: &Running, answer: &Answer) -> Value {
    let problem = answer.json();
    for double in DOUBLES {
        assert!(problem.get(double).is_none(), "{double}: {problem}");
    }
    let reference = problem["type"].as_str().expect("a reference");
    let (path, anchor) = reference.split_once('#').expect("a part of a page");
    assert_eq!(anchor, problem["code"], "{problem}");
    let page = gateway.mcp().to(&gateway.url(path)).bare(Method::GET, &[]).await;
    assert!(page.status == 200 && page.body.contains(&format!("id=\"{anchor}\"")), "{page:?}");
    members(&problem, answer)
}

/// The members of a JSON-RPC error.
fn of_rpc(answer: &Answer) -> Value {
    let data = &answer.error()["data"];
    assert!(data["type"].is_string(), "the specification names it: {data}");
    members(data, answer)
}

#[tokio::test]
async fn rest_and_both_eras_of_mcp_tell_a_failure_with_the_same_members() {
    let (gateway, _server) = started().await;
    let session = gateway.mcp().legacy().await;
    for (tool, code, ms) in [
        ("busy", "rate_limited", json!(90_000)),
        ("failing", "server_error", json!(null)),
        ("bsy", "tool_not_found", json!(null)),
    ] {
        let rest = gateway.post("/call", &json!({"tool": tool}).to_string()).await;
        let told = of_problem(&gateway, &rest).await;
        assert_eq!((&told["code"], &told["retry_after_ms"]), (&json!(code), &ms), "{told}");
        assert_eq!(of_rpc(&gateway.mcp().call(tool, json!({})).await), told);
        assert_eq!(of_rpc(&session.call(tool, json!({})).await), told);
    }
}

#[tokio::test]
async fn refusals_before_a_method_is_called_have_them_too() {
    let (gateway, _server) = started().await;
    let (mcp, foreign) = (gateway.mcp(), [("host", "elsewhere.example")]);
    let rest = gateway.mcp().to(&gateway.url("/api/v1/mcp/tools")).bare(Method::GET, &foreign).await;
    let told = of_problem(&gateway, &rest).await;
    assert_eq!(told["code"], "host_not_allowed");
    assert_eq!(of_rpc(&mcp.bare(Method::GET, &foreign).await), told);
    for (answer, code) in [
        (mcp.post("{", &[]).await, "invalid_message"),
        (mcp.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, &[]).await, "no_session"),
        (mcp.bare(Method::PUT, &[]).await, "method_not_allowed"),
        (mcp.modern("nonsense", json!({})).await, "method_not_found"),
        (mcp.modern("tools/list", json!({"cursor": 7})).await, "invalid_params"),
    ] {
        assert_eq!(of_rpc(&answer)["code"], code, "{answer:?}");
    }
    let nothing = gateway.get("/nothing").await;
    assert_eq!(of_problem(&gateway, &nothing).await["code"], "not_found");
}

#[tokio::test]
async fn a_tool_that_failed_is_told_with_a_code_of_the_table() {
    let failing =
        Tool::named("failing").does(Act::Error(r#"{"code":7,"message":"out of order"}"#.to_owned()));
    let server = Scripted::modern().tool(failing).start();
    let gateway = Gateway::of(&Registry::new().http("one", &server.url())).start().await;
    let answer = gateway.call("one", "failing", json!({})).await;
    let told = answer.json();
    assert_eq!((&told["code"], &told["retryable"]), (&json!("rpc_error"), &json!(false)), "{told}");
    assert!(told["hint"].is_string() && told.get("error_code").is_none(), "{told}");
    assert_eq!(told["request_id"].as_str(), answer.header("x-request-id"));
}
