//! A legacy client of a modern server that asks for more input, under paused time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::fixture::{Scene, legacy, raw, text};
use crate::manager::Config;
use protocol::error::code;
use protocol::{Reply, Version};
use upstream::fake::Answer;
use upstream::{CallEvent, EventReceiver};

const ABLE: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}}}"#;

/// A modern server that gives `answers` in turn and repeats the last one. Returns what it was sent.
async fn scene(answers: &'static [&'static str]) -> (Scene, Arc<Mutex<Vec<String>>>) {
    let scene = Scene::with(Version::V2026_07_28).await;
    let (sent, number) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
    let seen = sent.clone();
    scene.server.answer_calls(Answer::work(move |call, _| {
        let at = number.fetch_add(1, Ordering::SeqCst) as usize;
        let params = call.params.expect("params");
        seen.lock().expect("no panic").push(params.as_str().to_owned());
        std::future::ready(Ok(raw(answers[at.min(answers.len() - 1)])))
    }));
    (scene, sent)
}

/// A client that answers each question with what `answer` says.
async fn answering(mut receiver: EventReceiver, answer: impl Fn(&str, &str) -> Reply) -> u32 {
    let mut count = 0;
    while let Some(event) = receiver.recv().await {
        if let CallEvent::Question(question) = event {
            count += 1;
            let params = question.params.as_ref().map_or("", Raw::as_str);
            let reply = answer(&question.method, params);
            question.answer(reply);
        }
    }
    count
}

async fn talk(scene: &Scene, capabilities: &str, answer: impl Fn(&str, &str) -> Reply) -> (Reply, u32) {
    let (call, receiver) = scene.call_heard(&legacy(capabilities), &[("_meta", r#"{"own":1}"#)]);
    tokio::join!(call, answering(receiver, answer))
}

#[allow(clippy::unnecessary_wraps)] // an answer like any other
fn agree(method: &str, _: &str) -> Reply {
    Ok(raw(if method == "elicitation/create" {
        r#"{"action":"accept"}"#
    } else {
        r#"{"role":"user","n":1.0}"#
    }))
}

const ASK: &str = r#"{"resultType":"input_required","inputRequests":{"b":{"method":"sampling/createMessage","params":{"maxTokens":1e0}},"a":{"method":"elicitation/create","params":{"message":"m"}}},"requestState":"\u0073-\/"}"#;
const AGAIN: &str = r#"{"resultType":"input_required","requestState":"2"}"#;
const DONE: &str = r#"{"content":[],"resultType":"complete"}"#;

#[tokio::test(start_paused = true)]
async fn each_round_is_a_new_request_with_the_answers() {
    let (scene, sent) = scene(&[ASK, AGAIN, DONE]).await;
    let (reply, rounds) = talk(&scene, ABLE, agree).await;
    assert_eq!((text(&reply), rounds), (DONE, 2));
    let sent = sent.lock().expect("no panic");
    assert_eq!(
        *sent,
        [
            r#"{"name":"echo","arguments":{"a":1},"_meta":{"own":1}}"#,
            r#"{"name":"echo","arguments":{"a":1},"_meta":{"own":1},"inputResponses":{"b":{"role":"user","n":1.0},"a":{"action":"accept"}},"requestState":"\u0073-\/"}"#,
            r#"{"name":"echo","arguments":{"a":1},"_meta":{"own":1},"requestState":"2"}"#,
        ]
    );
    assert_eq!((scene.running(), scene.server.open_requests()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_has_enough_is_asked_no_more() {
    let (scene, sent) = scene(&[AGAIN]).await;
    let (reply, _) = talk(&scene, ABLE, agree).await;
    assert!(text(&reply).contains("too_many_rounds"), "{}", text(&reply));
    assert_eq!(sent.lock().expect("no panic").len(), 17, "the request and 16 rounds");
}

#[tokio::test(start_paused = true)]
async fn client_that_cannot_be_asked_or_refuses_ends_the_call_with_the_reason() {
    let (scene, sent) = scene(&[ASK, DONE]).await;
    let (reply, rounds) = talk(&scene, r#"{"elicitation":{}}"#, agree).await;
    assert!(text(&reply).contains("client_cannot_be_asked"), "{}", text(&reply));
    assert_eq!((rounds, sent.lock().expect("no panic").len()), (0, 1), "nobody is asked half of it");

    let (scene, sent) = self::scene(&[ASK, DONE]).await;
    let refuse = |_: &str, _: &str| Err(ErrorObject::new(-1, "the user rejected it"));
    let (reply, _) = talk(&scene, ABLE, refuse).await;
    assert!(text(&reply).contains("the user rejected it"), "{}", text(&reply));
    assert_eq!(sent.lock().expect("no panic").len(), 1);

    // Nobody listens to this one.
    let (scene, _) = self::scene(&[ASK, DONE]).await;
    let reply = scene.call(&legacy(ABLE), &[]).await;
    assert!(
        text(&reply).contains("nobody answered") || text(&reply).contains("input_refused"),
        "{}",
        text(&reply)
    );
}

#[tokio::test(start_paused = true)]
async fn a_form_that_fails_is_one_that_was_cancelled() {
    const FORM: &str = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}}}"#;
    let (scene, sent) = scene(&[FORM, DONE]).await;
    let refuse = |_: &str, params: &str| {
        assert!(params.contains(r#""elicitationId":""#), "this era needs one: {params}");
        Err(ErrorObject::new(code::INVALID_PARAMS, "no"))
    };
    let (reply, _) = talk(&scene, ABLE, refuse).await;
    assert_eq!(text(&reply), DONE);
    let last = sent.lock().expect("no panic")[1].clone();
    assert!(last.ends_with(r#""inputResponses":{"k":{"action":"cancel"}}}"#), "{last}");
}

#[tokio::test(start_paused = true)]
async fn thinking_is_not_the_servers_time() {
    let (scene, _) = scene(&[ASK, ASK, DONE]).await;
    let (call, mut receiver) = scene.call_heard(&legacy(ABLE), &[]);
    let slow = async {
        while let Some(event) = receiver.recv().await {
            sleep(Duration::from_mins(4)).await;
            if let CallEvent::Question(question) = event {
                let reply = agree(&question.method.clone(), "");
                question.answer(reply);
            }
        }
    };
    let (reply, ()) = tokio::join!(call, slow);
    assert_eq!(text(&reply), DONE);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_a_reload_denies_meanwhile_gets_no_further_round() {
    let (scene, sent) = scene(&[ASK, DONE]).await;
    let (call, mut receiver) = scene.call_heard(&legacy(ABLE), &[]);
    let denying = async {
        let tools = upstream::config::Tools { deny: vec!["echo".to_owned()], ..Default::default() };
        let stricter = upstream::Config { tools, ..upstream::fake::config("s") };
        let applied =
            scene.gateway.manager().apply_with(Config::of(vec![stricter]), |_| Ok(scene.server.connector()));
        applied.await.expect("applied");
        while let Some(event) = receiver.recv().await {
            if let CallEvent::Question(question) = event {
                let reply = agree(&question.method.clone(), "");
                question.answer(reply);
            }
        }
    };
    let rounds = async {
        while sent.lock().expect("no panic").is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
        denying.await;
    };
    let (reply, ()) = tokio::join!(call, rounds);
    assert!(text(&reply).contains("tool_not_found"), "{}", text(&reply));
    assert_eq!(sent.lock().expect("no panic").len(), 1, "the round before");
}

#[tokio::test(start_paused = true)]
async fn malformed_input_request_is_reported_as_such() {
    let (scene, _) = scene(&[r#"{"resultType":"input_required","requestState":null}"#]).await;
    let (reply, _) = talk(&scene, ABLE, agree).await;
    assert!(text(&reply).contains("invalid_answer"), "{}", text(&reply));
}
