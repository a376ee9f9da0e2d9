//! A cancelled call hurts no other client of the same connection, where the server does not say which call its
//! requests belong to: stdio and HTTP+SSE.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::asking::Asking;
use crate::support::child;
use crate::support::client::{Client, Stream};
use crate::support::{Gateway, Registry, Running, eventually};

/// A legacy session whose client can be asked.
struct User {
    client: Client,
    next: u64,
}

/// The result of a call: its text, and what its client was sent meanwhile.
struct Called {
    text: String,
    asked: Vec<String>,
    logged: Vec<String>,
}

impl User {
    async fn of(gateway: &Running) -> Self {
        let client = gateway.mcp();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "t", "version": "0"}});
        let hello = client.post(&client.envelope("initialize", &params.to_string()), &[]).await;
        let id = hello.header("mcp-session-id").expect("a session").to_owned();
        let client = client.with_header("mcp-session-id", &id);
        client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, &[]).await;
        Self { client, next: 100 }
    }

    /// Calls `ask`, and reads until the first message; the id and the stream.
    async fn begin(&mut self, arguments: &Value) -> (u64, Stream) {
        self.next += 1;
        let params = json!({"name": "ask", "arguments": arguments, "_meta": {"progressToken": self.next}});
        let body = json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params});
        (self.next, self.client.post_stream(&body.to_string(), &[]).await)
    }

    /// A call that the server has and does not answer.
    async fn hangs(&mut self, nonce: &str, cancelled: &Value) -> (u64, Stream) {
        let arguments = json!({"nonce": nonce, "hangs": true, "cancelled": cancelled});
        let (id, mut stream) = self.begin(&arguments).await;
        assert_eq!(stream.next().await.expect("progress")["method"], "notifications/progress");
        (id, stream)
    }

    async fn cancel(&self, id: u64) {
        let told =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(self.client.post(&told.to_string(), &[]).await.status, 202);
    }

    /// Reads to the end of a call and accepts whatever is asked.
    async fn finish(&self, stream: &mut Stream) -> Called {
        let mut called = Called { text: String::new(), asked: Vec::new(), logged: Vec::new() };
        while let Some(message) = stream.next().await {
            match message["method"].as_str() {
                Some("elicitation/create") => {
                    let nonce = message["params"]["message"].as_str().expect("a nonce").to_owned();
                    let result = json!({"action": "accept", "content": {"nonce": nonce}});
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                    assert_eq!(self.client.post(&answer.to_string(), &[]).await.status, 202);
                    called.asked.push(nonce);
                }
                Some("notifications/message") => {
                    called.logged.push(message["params"]["data"].as_str().expect("a nonce").to_owned());
                }
                Some(_) => {}
                None => {
                    called.text =
                        message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
                }
            }
        }
        called
    }

    async fn call(&mut self, arguments: &Value) -> Called {
        let (_, mut stream) = self.begin(arguments).await;
        self.finish(&mut stream).await
    }
}

/// A gateway before one asking program, whose starts are recorded.
async fn before_a_program() -> Running {
    let registry = Registry::new().child("asker", &["--asks", "--record", "starts"]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["ask"]).await;
    gateway
}

fn starts(gateway: &Running) -> usize {
    let record = std::fs::read_to_string(gateway.folder().join("starts")).expect("a record");
    record.lines().filter(|line| line.starts_with("started")).count()
}

async fn another_client_is_asked(gateway: &Running) {
    let (mut one, mut two) = (User::of(gateway).await, User::of(gateway).await);
    for round in 0..3 {
        let (id, _stream) = one.hangs(&format!("one{round}"), &json!([])).await;
        one.cancel(id).await;
        let begun = Instant::now();
        let called = two.call(&json!({"nonce": "two", "asks": true})).await;
        assert_eq!((called.text.as_str(), called.asked.as_slice()), ("two|two", &["two".to_owned()][..]));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn after_a_cancelled_call_another_client_of_the_process_is_asked() {
    let gateway = before_a_program().await;
    another_client_is_asked(&gateway).await;
    assert_eq!(starts(&gateway), 4, "one for each cancelled call");
}

#[tokio::test]
async fn after_a_cancelled_call_another_client_of_the_stream_is_asked() {
    let server = Asking::start();
    let gateway = Gateway::of(&Registry::new().sse("asker", &server.url("/sse"))).start().await;
    gateway.offers(&["ask"]).await;
    another_client_is_asked(&gateway).await;
}

#[tokio::test]
async fn what_a_cancelled_call_asks_reaches_nobody_else() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([["ask", "one"], ["log", "two"]])).await;
    let (_, mut stream) = two.hangs("two", &json!([])).await;
    one.cancel(id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(two.call(&json!({"nonce": "three", "then": [["answer", "two"]]})).await.text, "three");
    let called = two.finish(&mut stream).await;
    assert_eq!((called.text.as_str(), called.asked.len()), ("two", 0), "{:?}", called.asked);
    assert_eq!(called.logged, ["two"], "log lines are delivered");
}

#[tokio::test]
async fn a_late_answer_lets_a_request_through_that_waited_for_it() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([["ask", "two"], ["answer", "one"]])).await;
    let (_, mut stream) = two.hangs("two", &json!([])).await;
    one.cancel(id).await;
    let called = two.finish(&mut stream).await;
    assert_eq!((called.text.as_str(), called.asked.as_slice()), ("two|two", &["two".to_owned()][..]));
    assert_eq!(starts(&gateway), 1, "the connection is as good as before");
}

#[tokio::test]
async fn a_connection_that_cannot_be_replaced_keeps_serving() {
    let script = format!("test -e up && exit 7; touch up; exec {} --asks", child::program());
    let registry = Registry::new().command("asker", "/bin/sh", &["-c", &script]);
    let gateway = Gateway::of(&registry).start().await;
    gateway.offers(&["ask"]).await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([])).await;
    one.cancel(id).await;
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    let refused = two.call(&json!({"nonce": "two", "asks": true})).await;
    assert_eq!((refused.text.as_str(), refused.asked.len()), ("two|error -32000", 0));
    let log = eventually("the log says so", async || {
        gateway
            .log()
            .into_iter()
            .find(|line| line["message"].as_str().unwrap_or_default().contains("replace"))
    });
    let line = log.await;
    assert!(
        line["server"] == "asker" && line["reason"].as_str().expect("text").contains("status 7"),
        "{line}"
    );
    let status = gateway.get("/servers").await.json()["servers"][0].clone();
    assert!(status["last_error"].as_str().expect("text").contains("status 7"), "{status}");
}

#[tokio::test]
async fn a_program_that_answers_without_asking_keeps_its_process() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    for number in 0..40 {
        two.call(&json!({"nonce": number.to_string()})).await;
    }
    let (id, _stream) = one.hangs("one", &json!([])).await;
    one.cancel(id).await;
    let begun = Instant::now();
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    assert_eq!(starts(&gateway), 1, "its state is kept");
}
