//! A cancelled call hurts no other client of the same connection, where the server does not say which call its
//! requests belong to: stdio and HTTP+SSE.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::asker_user::User;
use crate::support::asking::Asking;
use crate::support::child;
use crate::support::{Gateway, Registry, Running, eventually};

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

/// Waits until no call runs at the only server: the gateway answers a cancellation before the call has ended.
async fn has_no_calls(gateway: &Running) {
    let running = async || gateway.get("/servers").await.json()["servers"][0]["running_calls"].clone();
    eventually("the calls have ended", async || (running().await == 0).then_some(())).await;
}

async fn another_client_is_asked(gateway: &Running) {
    let (mut one, mut two) = (User::of(gateway).await, User::of(gateway).await);
    for round in 0..3 {
        let (id, _stream) = one.hangs(&format!("one{round}"), &json!([])).await;
        one.cancel(id).await;
        has_no_calls(gateway).await;
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
    has_no_calls(&gateway).await;
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
    has_no_calls(&gateway).await;
    let begun = Instant::now();
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    assert_eq!(starts(&gateway), 1, "its state is kept");
}
