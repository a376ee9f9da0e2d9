//! Tests of the table of open requests.

use std::sync::Mutex as StdMutex;

use serde_json::json;

use super::*;
use net::lines::{Line, Lines};
use protocol::{ErrorObject, RequestId};

/// A call of a new owner.
fn call(progress: bool) -> Purpose {
    Purpose::Call { progress, owner: Owner::new(), affinity: None, capabilities: Raw::empty_object() }
}

/// Returns a table, and the ids that it cancelled.
fn table() -> (Arc<Pending>, Arc<StdMutex<Vec<u64>>>) {
    let cancelled = Arc::new(StdMutex::new(Vec::new()));
    let seen = Arc::clone(&cancelled);
    (Pending::new(0, move |id| seen.lock().expect("lock").push(id)), cancelled)
}

fn response(id: u64, text: &str) -> Response {
    Response { id: Some(RequestId::from_u64(id)), reply: Ok(Raw::of(text)) }
}

fn notification(method: &str, params: &serde_json::Value) -> Notification {
    Notification { method: method.into(), params: Some(Raw::of(params)) }
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let (pending, cancelled) = table();
    let mut one = pending.open(&EventSender::none(), call(true)).expect("open");
    let mut two = pending.open(&EventSender::none(), call(true)).expect("open");
    assert!(pending.answer(response(two.id(), "b")) && pending.answer(response(one.id(), "a")));
    assert!(!pending.answer(response(two.id(), "again")) && !pending.answer(response(99, "unknown")));
    assert_eq!(one.answer().await, Ok(Ok(Raw::of("a"))));
    assert_eq!(two.answer().await, Ok(Ok(Raw::of("b"))));
    drop((one, two));
    assert_eq!((pending.count(), cancelled.lock().expect("lock").len()), (0, 0));
}

#[test]
fn a_request_given_up_is_forgotten_and_cancelled_only_when_the_server_has_it() {
    let (pending, cancelled) = table();
    let unwritten = pending.open(&EventSender::none(), call(true)).expect("open");
    let written = pending.open(&EventSender::none(), call(true)).expect("open");
    let handshake = pending.open(&EventSender::none(), Purpose::Handshake).expect("open");
    let unwritten_id = unwritten.id();
    assert!(pending.begin_writing(written.id()) && pending.begin_writing(handshake.id()));
    let expected = written.id();
    drop((unwritten, written, handshake));
    assert_eq!(*cancelled.lock().expect("lock"), [expected]);
    assert!(!pending.begin_writing(unwritten_id), "nobody waits, so it must not be written");
    assert_eq!(pending.count(), 0);
}

#[tokio::test]
async fn the_end_of_the_channel_tells_each_request_what_is_true_of_it() {
    let (pending, cancelled) = table();
    let mut written = pending.open(&EventSender::none(), call(true)).expect("open");
    let mut waiting = pending.open(&EventSender::none(), call(true)).expect("open");
    pending.begin_writing(written.id());
    pending.end("it fell over");
    let reason = "it fell over".to_owned();
    assert_eq!(written.answer().await, Err(Error::Lost { reason: reason.clone() }));
    assert_eq!(waiting.answer().await, Err(Error::NotSent { reason: reason.clone() }));
    let late = pending.open(&EventSender::none(), call(true)).err();
    assert_eq!(late, Some(Error::NotSent { reason }));
    drop((written, waiting));
    assert!(cancelled.lock().expect("lock").is_empty(), "there is nobody left to tell");
}

#[tokio::test]
async fn an_answer_without_an_id_belongs_to_the_only_request() {
    let (pending, _) = table();
    let nameless = || Response { id: None, reply: Err(ErrorObject::new(-32700, "what?")) };
    let mut one = pending.open(&EventSender::none(), call(true)).expect("open");
    let two = pending.open(&EventSender::none(), call(true)).expect("open");
    assert!(!pending.answer(nameless()), "it could be either");
    drop(two);
    assert!(pending.answer(nameless()));
    assert_eq!(one.answer().await.expect("an answer").expect_err("an error").code(), -32700);
}

#[tokio::test]
async fn an_error_without_an_id_after_the_handshake_belongs_to_no_request_unless_another_response_came_first()
{
    let nameless = || Response { id: None, reply: Err(ErrorObject::new(-32600, "id is missing")) };
    let (pending, _) = table();
    let mut list = pending.open(&EventSender::none(), Purpose::Upkeep).expect("open");
    pending.expect_refusal();
    assert!(!pending.answer(nameless()), "it refuses the notification");
    assert!(pending.answer(response(list.id(), "a list")));
    assert_eq!(list.answer().await, Ok(Ok(Raw::of("a list"))));
    pending.expect_refusal();
    let (one, _two) = (
        pending.open(&EventSender::none(), call(true)).expect("open"),
        pending.open(&EventSender::none(), call(true)).expect("open"),
    );
    assert!(pending.answer(response(one.id(), "b")) && pending.answer(nameless()));
}

#[test]
fn progress_goes_to_the_call_with_the_token_and_log_lines_to_a_call_that_is_alone() {
    let (pending, _) = table();
    let (event_sender, mut reader) = EventSender::new(4);
    let listen = pending.open(&EventSender::none(), Purpose::Listen).expect("open");
    let list = Purpose::of(&Call::of_gateway(method::TOOLS_LIST, None));
    let _list = pending.open(&EventSender::none(), list).expect("open");
    let one = pending.open(&event_sender, call(true)).expect("open");
    let log = || notification(method::LOG_MESSAGE, &json!({"data": "x"}));
    let progress = |token| notification(method::PROGRESS, &json!({"progressToken": token, "progress": 1}));
    assert_eq!(pending.notify(log()), Relevance::Notice, "the server does not have the call yet");
    assert!(pending.begin_writing(one.id()));
    assert_eq!([pending.notify(log()), pending.notify(progress(one.id()))], [Relevance::Wanted; 2]);
    assert_eq!([pending.notify(progress(listen.id())), pending.notify(progress(99))], [Relevance::Junk; 2]);
    let mute = pending.open(&event_sender, call(false)).expect("open");
    assert!(pending.begin_writing(mute.id()));
    assert_eq!(pending.notify(progress(mute.id())), Relevance::Junk, "it asked for none");
    assert_eq!(pending.notify(log()), Relevance::Wanted, "it could be of either call");
    let seen: Vec<String> =
        std::iter::from_fn(|| reader.try_recv().ok()).map(|n| n.method().to_owned()).collect();
    assert_eq!(seen, [method::LOG_MESSAGE, method::PROGRESS]);
}

/// The ends of `text`, as the framing leaves them.
fn clip(text: &str) -> Clip {
    use tokio_util::codec::Decoder;
    let mut buffer = bytes::BytesMut::from(format!("{text}\n").as_str());
    match Lines::new(16).decode(&mut buffer).expect("no I/O") {
        Some(Line::TooLong(clip)) => clip,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_still_ends_its_request() {
    let long = "x".repeat(1000);
    for (text, expected) in [
        (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{long}"}}}}"#), Some(7)),
        (format!(r#"{{ "jsonrpc": "2.0", "id" : 7 , "result": "{long}"}}"#), Some(7)),
        (format!(r#"{{"result":{{"id":3,"t":"{long}"}},"jsonrpc":"2.0","id":7}}"#), Some(7)),
        (format!("{{\"result\":{{\"t\":\"{long}\"}},\"id\": 7 }} \r"), Some(7)),
        (format!(r#"{{"result":{{"t":"{long}","id":7}}}}"#), None),
        (format!(r#"{{"result":"{long}\"id\":7}}"}}"#), None),
        (format!(r#"{{"method":"id","params":{{"id":7,"t":"{long}"}}}}"#), None),
        (format!(r#"{{"jsonrpc":"2.0","id":"7","result":"{long}"}}"#), Some(7)),
        (format!(r#"{{"params":{{"t":"{long}"}},"method":"x","id":7}}"#), None),
        (long.clone(), None),
    ] {
        assert_eq!(id_in(&clip(&text)), expected, "{}", &text[..40]);
    }
    let (pending, _) = table();
    let mut ticket = pending.open(&EventSender::none(), call(true)).expect("open");
    assert!(pending.answer_too_long(&clip(&format!(r#"{{"id":1,"result":"{long}"}}"#)), 16));
    assert_eq!(ticket.answer().await, Err(Error::TooLarge { limit: 16 }));
}
