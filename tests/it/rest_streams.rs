//! Calls over REST as streams of events: progress, log messages, questions and the result.
//!
//! Not here: plain calls (`rest`, `calls`), lists (`rest_lists`).

use serde_json::{Value, json};

use crate::support::asking::Asking;
use crate::support::client::Stream;
use crate::support::gateway::{Gateway, Running};
use crate::support::scripted::{Act, Scripted, Tool};
use crate::support::{Client, api_keys, eventually};

const STREAM: [(&str, &str); 1] = [("accept", "text/event-stream")];

/// A client of the route `POST /call`.
fn calls(gateway: &Running) -> Client {
    gateway.mcp().to(&gateway.url("/api/v1/mcp/call"))
}

async fn stream(gateway: &Running, body: &Value) -> Stream {
    calls(gateway).post_stream(&body.to_string(), &STREAM).await
}

/// The next event: its name and its data.
async fn next(stream: &mut Stream) -> (String, Value) {
    let event = stream.event().await.expect("an event");
    (event.name, serde_json::from_str(&event.data).expect("JSON"))
}

/// A gateway before a legacy server that asks.
async fn before_an_asker() -> (Running, Asking) {
    let server = Asking::start();
    let yaml = format!("mcp_servers:\n  asker:\n    url: {}\n", server.url("/mcp"));
    let gateway = Gateway::with_config(&yaml).start().await;
    gateway.offers(&["ask"]).await;
    (gateway, server)
}

#[tokio::test]
async fn a_question_is_answered_while_its_call_runs() {
    let (gateway, _server) = before_an_asker().await;
    let arguments = json!({"nonce": "n1", "asks": true});
    let mut stream = stream(&gateway, &json!({"tool": "ask", "arguments": arguments})).await;
    let (name, data) = next(&mut stream).await;
    let call = data["call"].as_str().expect("an id").to_owned();
    assert_eq!(name, "call");
    let (name, data) = next(&mut stream).await;
    assert_eq!((name.as_str(), &data), ("progress", &json!({"progress": 1, "message": "n1"})));
    let (name, question) = next(&mut stream).await;
    assert_eq!((name.as_str(), &question["kind"]), ("question", &json!("elicitation")));
    assert_eq!(question["request"]["message"], "n1");
    let route = format!("/call/{call}/answer");
    let wrong = gateway.post(&route, r#"{"id":77,"result":{}}"#).await;
    assert_eq!((wrong.status, &wrong.json()["code"]), (404, &json!("not_found")));
    let foreign =
        gateway.post("/call/550e8400-e29b-41d4-a716-446655440000/answer", r#"{"id":1,"result":{}}"#);
    assert_eq!(foreign.await.status, 404);
    let result = json!({"action": "accept", "content": {"nonce": "n1"}});
    let answer = json!({"id": question["id"], "result": result}).to_string();
    assert_eq!(gateway.post(&route, &answer).await.status, 204);
    let (name, result) = next(&mut stream).await;
    assert_eq!((name.as_str(), &result["success"]), ("result", &json!(true)), "{result}");
    assert_eq!((&result["server"], &result["tool"]), (&json!("asker"), &json!("ask")));
    assert_eq!(result["data"], "n1|n1", "{result}");
    assert!(stream.event().await.is_none(), "the result is the last event");
    assert_eq!(gateway.post(&route, &answer).await.status, 404, "a question is answered once");
}

#[tokio::test]
async fn a_question_is_answered_by_the_principal_of_its_call_only() {
    let server = Asking::start();
    let key = |id: &str| format!("swy_{id}_0123456789abcdef0123456789abcdef0123456789abcdef");
    let keys = api_keys(&[(&key("ann"), "role: superuser"), (&key("bob"), "role: superuser")]);
    let yaml = format!("server: {{{keys}}}\nmcp_servers:\n  asker:\n    url: {}\n", server.url("/mcp"));
    let gateway = Gateway::with_config(&yaml).start().await;
    let [ann, bob] = ["ann", "bob"].map(|id| format!("Bearer {}", key(id)));
    gateway.offers_to("ask", &ann).await;
    let body = json!({"tool": "ask", "arguments": {"nonce": "n1", "asks": true}}).to_string();
    let as_ann = [STREAM[0], ("authorization", &*ann)];
    let mut stream = calls(&gateway).post_stream(&body, &as_ann).await;
    let (_, data) = next(&mut stream).await;
    let question = loop {
        let (name, data) = next(&mut stream).await;
        if name == "question" {
            break data;
        }
    };
    let route = format!("/api/v1/mcp/call/{}/answer", data["call"].as_str().expect("an id"));
    let answers = gateway.mcp().to(&gateway.url(&route));
    let answer = json!({"id": question["id"], "result": {"action": "accept", "content": {"nonce": "n1"}}});
    // A superuser, too, gets nothing of the call of another principal.
    for (credential, status) in [(&bob, 404), (&ann, 204)] {
        let answered = answers.post(&answer.to_string(), &[("authorization", &**credential)]).await;
        assert_eq!(answered.status, status);
    }
    assert_eq!(next(&mut stream).await.1["data"], "n1|n1");
}

#[tokio::test]
async fn a_call_streams_what_a_plain_call_answers() {
    let said = vec![
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$TOKEN","progress":1,"total":2}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":"slow"}}"#,
    ];
    let result = json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"n": 1}});
    let act =
        Act::After(said.into_iter().map(str::to_owned).collect(), Box::new(Act::Result(result.to_string())));
    let server = Scripted::modern().tool(Tool::named("a").does(act)).start();
    let gateway = Gateway::with_config(&format!("mcp_servers:\n  one:\n    url: {}\n", server.url()));
    let gateway = gateway.start().await;
    gateway.offers(&["a"]).await;
    let mut plain = gateway.post("/call", r#"{"tool":"a"}"#).await.json();
    assert_eq!(plain["structured_content"], json!({"n": 1}));
    assert_eq!((&plain["server"], &plain["tool"]), (&json!("one"), &json!("a")));
    let mut stream = stream(&gateway, &json!({"tool": "a"})).await;
    assert_eq!(next(&mut stream).await.0, "call");
    let progress = next(&mut stream).await;
    assert_eq!(progress, ("progress".to_owned(), json!({"progress": 1, "total": 2})));
    let message = next(&mut stream).await;
    assert_eq!(message, ("message".to_owned(), json!({"level": "warning", "data": "slow"})));
    let (name, mut streamed) = next(&mut stream).await;
    for answer in [&mut plain, &mut streamed] {
        for changing in ["request_id", "execution_time_ms"] {
            answer.as_object_mut().expect("an object").remove(changing).expect("it is there");
        }
    }
    assert_eq!((name.as_str(), streamed), ("result", plain));
}

#[tokio::test]
async fn a_call_that_cannot_be_made_ends_with_a_problem() {
    let (gateway, _server) = before_an_asker().await;
    let mut stream = stream(&gateway, &json!({"tool": "askk"})).await;
    assert_eq!(next(&mut stream).await.0, "call");
    let (name, problem) = next(&mut stream).await;
    assert_eq!((name.as_str(), &problem["code"]), ("error", &json!("tool_not_found")));
    assert_eq!((&problem["status"], &problem["nearest"]), (&json!(404), &json!(["ask"])));
    assert!(stream.event().await.is_none());
    let refused = calls(&gateway).post(r#"{"tool":7}"#, &STREAM).await;
    assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("invalid_request")));
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call() {
    let (gateway, _server) = before_an_asker().await;
    let running = async || gateway.get("/servers").await.json()["servers"][0]["running_calls"].clone();
    let mut stream =
        stream(&gateway, &json!({"tool": "ask", "arguments": {"nonce": "n", "hangs": true}})).await;
    let (_, data) = next(&mut stream).await;
    eventually("the call runs", async || (running().await == 1).then_some(())).await;
    drop(stream);
    eventually("the call has ended", async || (running().await == 0).then_some(())).await;
    let route = format!("/call/{}/answer", data["call"].as_str().expect("an id"));
    assert_eq!(gateway.post(&route, r#"{"id":1,"result":{}}"#).await.status, 404);
}

#[tokio::test]
async fn a_timeout_ends_a_stream() {
    let (gateway, _server) = before_an_asker().await;
    let body = json!({"tool": "ask", "arguments": {"nonce": "n", "hangs": true}, "timeout": 0.3});
    let mut stream = stream(&gateway, &body).await;
    assert_eq!(next(&mut stream).await.0, "call");
    let (name, data) = loop {
        let (name, data) = next(&mut stream).await;
        if name != "progress" {
            break (name, data);
        }
    };
    assert_eq!((name.as_str(), &data["code"]), ("error", &json!("timed_out")));
}
