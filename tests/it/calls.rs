//! Features of a call: ids, progress, cancellation, changing lists, ending sessions.

use serde_json::json;

use crate::support::gateway::Running;
use crate::support::scripted::{Act, Scripted, Server, Tool};
use crate::support::{Gateway, Registry, eventually};

async fn behind(server: &Server) -> Running {
    Gateway::of(&Registry::new().http("one", &server.url())).start().await
}

fn progressing() -> Tool {
    let notice = |done: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"$TOKEN","progress":{done},"total":2,"vendor":1.0}}}}"#
        )
    };
    Tool::named("a").does(Act::After(vec![notice(1), notice(2)], Box::new(Act::Echo)))
}

#[tokio::test]
async fn ids_come_back_as_they_were_spelled() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let gateway = behind(&server).await;
    gateway.offers(&["a"]).await;
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "a")];
    let good = gateway.mcp().modern_body("tools/call", r#"{"name":"a","arguments":{}}"#);
    for id in ["7", "\"7\"", "-1", "9007199254740993", "\"\\u0061/ü\"", "0"] {
        let (_, rest) = good.split_once(",\"method\"").expect("a method");
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method"{rest}"#);
        assert_eq!(gateway.mcp().post(&body, &headers).await.id_text(), id);
    }
}

#[tokio::test]
async fn progress_carries_the_clients_own_token() {
    for scripted in [Scripted::modern(), Scripted::legacy(), Scripted::sse()] {
        let server = scripted.tool(progressing()).start();
        let gateway = behind(&server).await;
        gateway.offers(&["a"]).await;
        let session = gateway.mcp().legacy().await;
        for token in [json!("mine"), json!(17)] {
            let params = json!({"name": "a", "arguments": {"x": 1}, "_meta": {"progressToken": token}});
            let answer = session.request("tools/call", params).await;
            let notices = answer.notifications();
            assert_eq!(notices.len(), 2, "{}: {answer:?}", server.url());
            assert!(notices.iter().all(|notice| notice["params"]["progressToken"] == token), "{notices:?}");
            assert_eq!(notices[1]["params"]["progress"], 2);
            assert!(answer.body.contains(r#""vendor":1.0"#), "byte for byte: {answer:?}");
            assert_eq!(answer.text(), r#"{"x":1}"#);
        }
        let answer = session.call("a", json!({})).await;
        assert!(answer.notifications().is_empty(), "nobody asked: {answer:?}");
    }
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_call() {
    let server = Scripted::legacy().tool(Tool::named("a").does(Act::Hang)).start();
    let gateway = behind(&server).await;
    gateway.offers(&["a"]).await;
    let client = gateway.mcp();
    let call = client.call("a", json!({}));
    tokio::select! {
        answer = call => panic!("it hangs: {answer:?}"),
        () = eventually("the call runs", async || (server.runs("a") == 1).then_some(())) => {}
    }
    eventually("the server is told", async || {
        let told = server.seen_calling("notifications/cancelled");
        (!told.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_legacy_client_cancels_by_saying_so() {
    let server = Scripted::legacy().tool(Tool::named("a").does(Act::Hang)).start();
    let gateway = behind(&server).await;
    gateway.offers(&["a"]).await;
    let session = gateway.mcp().legacy().await;
    let body = r#"{"jsonrpc":"2.0","id":"c1","method":"tools/call","params":{"name":"a","arguments":{}}}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c1","reason":"enough"}}"#;
    let cancelling = async {
        eventually("the call runs", async || (server.runs("a") == 1).then_some(())).await;
        assert_eq!(session.client.post(cancel, &[]).await.status, 202);
        eventually("the server is told", async || {
            (!server.seen_calling("notifications/cancelled").is_empty()).then_some(())
        })
        .await;
    };
    let (answer, ()) = tokio::join!(session.client.post(body, &[]), cancelling);
    assert!(!answer.body.contains("\"result\""), "a cancelled call has no result: {answer:?}");
}

#[tokio::test]
async fn a_changed_list_is_announced_in_both_eras() {
    for scripted in [Scripted::modern(), Scripted::legacy(), Scripted::sse()] {
        let server = scripted.tool(Tool::named("a")).start();
        let gateway = behind(&server).await;
        gateway.offers(&["a"]).await;
        let session = gateway.mcp().legacy().await;
        let mut legacy = session.client.listen().await;
        let filter = json!({"notifications": {"toolsListChanged": true}});
        let mut modern = gateway.mcp().modern_stream("subscriptions/listen", &filter).await;
        let first = modern.next().await.expect("an acknowledgement");
        assert_eq!(first["params"]["notifications"]["toolsListChanged"], true, "{first}");
        server.change_tools(vec![Tool::named("b")]);
        for notice in [legacy.next().await, modern.next().await] {
            let notice = notice.expect("a notice");
            assert_eq!(notice["method"], "notifications/tools/list_changed", "{}", server.url());
        }
        assert_eq!(session.request("tools/list", json!({})).await.tool_names(), ["b"]);
    }
}

#[tokio::test]
async fn a_server_that_forgot_its_sessions_is_asked_again() {
    let server = Scripted::legacy().tool(Tool::named("a")).start();
    let gateway = behind(&server).await;
    gateway.offers(&["a"]).await;
    assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}");
    server.forget_sessions();
    assert_eq!(gateway.mcp().call("a", json!({})).await.text(), "{}", "a lost session is opened anew");
    assert_eq!(server.runs("a"), 2);
}

#[tokio::test]
async fn a_child_that_exits_is_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let arguments = ["--tools", "echo,exit", "--record", record.to_str().expect("UTF-8")];
    let gateway = Gateway::of(&Registry::new().child("one", &arguments)).start().await;
    gateway.offers(&["exit"]).await;
    let answer = gateway.call("one", "exit", json!({})).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (502, Some("outcome_unknown")), "{answer:?}");
    let text = std::fs::read_to_string(&record).expect("a record");
    assert_eq!(text.matches(r#""name":"exit""#).count(), 1, "not made again");
    assert_eq!(gateway.call("one", "echo", json!({"x": 1})).await.status, 200);
}

#[tokio::test]
async fn many_callers_get_their_own_answers() {
    let server = Scripted::modern().tool(Tool::named("a")).start();
    let registry = Registry::new().http("one", &server.url()).child("two", &["--tools", "b"]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["a", "b"]).await;
    let session = gateway.mcp().legacy().await;
    let calls = (0..200).map(|number| {
        let (client, session) = (gateway.mcp(), session.clone());
        async move {
            let tool = if number % 2 == 0 { "a" } else { "b" };
            let arguments = json!({"nonce": number});
            let answer = if number % 3 == 0 {
                session.call(tool, arguments.clone()).await
            } else {
                client.call(tool, arguments.clone()).await
            };
            assert_eq!(answer.text(), arguments.to_string());
        }
    });
    futures_util::future::join_all(calls).await;
}

#[tokio::test]
async fn rest_and_mcp_answer_alike() {
    let server = Scripted::legacy().tool(Tool::named("a")).start();
    let gateway = behind(&server).await;
    gateway.offers(&["a"]).await;
    let answer = gateway.post("/call", r#"{"tool":"a","arguments":{"x":1.0}}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!(body["success"], true);
    assert_eq!((body["tool_name"].as_str(), body["server_name"].as_str()), (Some("a"), Some("one")));
    assert_eq!(body["data"]["x"], 1.0, "{body}");
    assert_eq!(body["content"][0]["text"], r#"{"x":1.0}"#);
    assert!(body["execution_time_ms"].as_f64().is_some_and(|time| time > 0.0));
    assert_eq!(body["request_id"].as_str().map(str::len), Some(36));
}
