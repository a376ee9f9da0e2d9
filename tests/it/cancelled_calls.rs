//! A cancelled call hurts no other client of the same connection, where the server does not say which call its
//! requests belong to: stdio and HTTP+SSE.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::asker_user::User;
use crate::support::asking::Asking;
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

#[tokio::test]
async fn after_a_refused_request_a_client_has_a_process_of_its_own() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([])).await;
    one.cancel(id).await;
    has_no_calls(&gateway).await;
    let begun = Instant::now();
    let refused = two.call(&json!({"nonce": "two", "asks": true})).await;
    assert_eq!(
        (refused.text.as_str(), refused.asked.len()),
        ("two|error -32000", 0),
        "it may be for the other"
    );
    let mut clients = [two, User::of(&gateway).await];
    for (client, processes) in [(0, 2), (1, 3), (0, 3)] {
        let called = clients[client].call(&json!({"nonce": "n", "asks": true})).await;
        assert_eq!((called.text.as_str(), called.asked.as_slice()), ("n|n", &["n".to_owned()][..]));
        assert_eq!(starts(&gateway), processes);
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "nobody waited: {:?}", begun.elapsed());
}

/// Has ten clients ask for something that nobody answers, and two others call meanwhile.
async fn ten_abandoned_requests_hold_up_nobody(gateway: &Running) {
    let mut abandoned = Vec::new();
    for number in 0..10 {
        let mut user = User::of(gateway).await;
        let stream = user.asks_and_leaves(&number.to_string()).await;
        abandoned.push((user, stream));
    }
    for asks in [false, true] {
        let called = User::of(gateway).await.call(&json!({"nonce": "n", "asks": asks})).await;
        assert_eq!(called.text, if asks { "n|n" } else { "n" });
    }
}

#[tokio::test]
async fn ten_abandoned_requests_of_a_stream_hold_up_nobody() {
    let server = Asking::start();
    let gateway = Gateway::of(&Registry::new().sse("asker", &server.url("/sse"))).start().await;
    gateway.offers(&["ask"]).await;
    ten_abandoned_requests_hold_up_nobody(&gateway).await;
}

#[tokio::test]
async fn ten_abandoned_requests_of_a_program_hold_up_nobody() {
    let registry = Registry::new().child("asker", &["--asks", "--record", "starts"]);
    let gateway = Gateway::of(&registry.setting("connection_pool_size: 20")).start().await;
    gateway.offers(&["ask"]).await;
    ten_abandoned_requests_hold_up_nobody(&gateway).await;
}

#[tokio::test]
async fn after_a_cancelled_call_another_client_of_the_stream_is_asked() {
    let server = Asking::start();
    let gateway = Gateway::of(&Registry::new().sse("asker", &server.url("/sse"))).start().await;
    gateway.offers(&["ask"]).await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([])).await;
    one.cancel(id).await;
    has_no_calls(&gateway).await;
    let called = two.call(&json!({"nonce": "two", "asks": true})).await;
    assert_eq!((called.text.as_str(), called.asked.as_slice()), ("two|two", &["two".to_owned()][..]));
}

#[tokio::test]
async fn server_request_of_a_cancelled_call_reaches_nobody_else() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let cancelled = json!([["ask", "one"], ["log", "two"], ["answer", "two"]]);
    let (id, _stream) = one.hangs("one", &cancelled).await;
    let (_, mut stream) = two.hangs("two", &json!([])).await;
    one.cancel(id).await;
    let called = two.finish(&mut stream).await;
    assert_eq!((called.text.as_str(), called.asked.len()), ("two", 0), "{:?}", called.asked);
    assert_eq!(called.logged, ["two"], "log lines are delivered");
}

#[tokio::test]
async fn after_a_late_answer_the_other_client_is_asked() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([["answer", "one"], ["ask", "two"]])).await;
    let (_, mut stream) = two.hangs("two", &json!([])).await;
    one.cancel(id).await;
    let called = two.finish(&mut stream).await;
    assert_eq!((called.text.as_str(), called.asked.as_slice()), ("two|two", &["two".to_owned()][..]));
    assert_eq!(starts(&gateway), 1, "the process is as good as before");
}

#[tokio::test]
async fn after_a_cancelled_call_a_program_that_does_not_ask_keeps_its_process() {
    let gateway = before_a_program().await;
    let (mut one, mut two) = (User::of(&gateway).await, User::of(&gateway).await);
    let (id, _stream) = one.hangs("one", &json!([])).await;
    one.cancel(id).await;
    has_no_calls(&gateway).await;
    assert_eq!(two.call(&json!({"nonce": "two"})).await.text, "two");
    assert_eq!(User::of(&gateway).await.call(&json!({"nonce": "n"})).await.text, "n");
    assert_eq!(starts(&gateway), 1, "its state is kept");
}
