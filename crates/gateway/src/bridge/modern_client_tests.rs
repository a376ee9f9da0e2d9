//! Tests of a modern client and a legacy server that sends requests, under paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::fixture::{Scene, modern, raw, text};
use auth::{Authenticator, Keys};
use protocol::{Notification, Version};
use upstream::fake::Answer;

const ABLE: &str = r#"{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{}}"#;
const YES: &str = r#"{"question-1":{"action":"accept","content":{"n":1e400}}}"#;

/// Sends all `questions` to the client at once, and answers the call with the client's answers.
async fn asks(event_sender: EventSender, questions: Vec<(&'static str, &'static str)>) -> Reply {
    event_sender
        .offer(Notification { method: "notifications/message".into(), params: Some(raw(r#"{"data":1}"#)) });
    let answers =
        questions.into_iter().map(|(method, params)| event_sender.ask(method.into(), Some(raw(params))));
    let mut seen = Vec::new();
    for answer in futures_util::future::join_all(answers).await {
        seen.push(match answer {
            Some(Ok(result)) => result,
            Some(Err(error)) => error.raw().clone(),
            None => raw("null"),
        });
    }
    event_sender
        .offer(Notification { method: "notifications/message".into(), params: Some(raw(r#"{"data":2}"#)) });
    Ok(Raw::empty_object().with("told", &Raw::of(&seen)))
}

async fn scene(questions: &'static [(&'static str, &'static str)]) -> Scene {
    let scene = Scene::with(Version::V2025_11_25).await;
    scene.server.answer_calls(Answer::work(move |_, event_sender| asks(event_sender, questions.to_vec())));
    scene
}

const FORM: (&str, &str) = ("elicitation/create", r#"{"message":"m","requestedSchema":{"x":1.0}}"#);

fn state_of(reply: &Reply) -> String {
    let result = reply.as_ref().expect("a result");
    assert_eq!(result.get_as::<String>("resultType").as_deref(), Some("input_required"), "{}", text(reply));
    result.get("requestState").expect("a state").as_str().to_owned()
}

fn at_rest(scene: &Scene) -> bool {
    scene.gateway.suspended.count() == 0 && scene.running() == 0 && scene.server.open_requests() == 0
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_the_retry() {
    let scene = scene(&[FORM]).await;
    let client = modern("c", ABLE);
    let (first, mut heard) = scene.call_heard(&client, &[]);
    let first_response = first.await;
    let state = state_of(&first_response);
    let expected = r#"{"question-1":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"x":1.0}}}}"#;
    assert_eq!(first_response.expect("a result").get("inputRequests").expect("requests").as_str(), expected);
    assert!(matches!(heard.try_recv(), Ok(CallEvent::Notice(_))), "what it said before");
    assert_eq!((scene.gateway.suspended.count(), scene.running()), (1, 1));

    let (second, mut heard) = scene.call_heard(&client, &[("requestState", &state), ("inputResponses", YES)]);
    let done = second.await;
    assert_eq!(
        text(&done),
        r#"{"told":[{"action":"accept","content":{"n":1e400}}],"resultType":"complete"}"#
    );
    assert!(matches!(heard.try_recv(), Ok(CallEvent::Notice(_))), "what it said after");
    assert!(heard.try_recv().is_err(), "and nothing else");
    assert_eq!(scene.server.executed("tools/call"), 1, "it is the same call");
    assert!(at_rest(&scene));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_ends_with_the_credential_of_its_client() {
    let scene = scene(&[FORM]).await;
    let door = Authenticator::new(&auth::Config::None).expect("no files");
    let everybody = door.authenticate(&http::HeaderMap::new()).expect("everybody may");
    let mut client = modern("c", ABLE);
    client.principal = everybody;
    state_of(&scene.call(&client, &[]).await);
    assert_eq!((scene.gateway.suspended.count(), scene.running()), (1, 1));
    door.renew(Keys::read(&auth::Config::ApiKey(Vec::new().into())).expect("no files"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(at_rest(&scene), "nobody could take it back");
}

#[tokio::test(start_paused = true)]
async fn missing_answer_is_requested_again_and_an_unknown_one_is_ignored() {
    let scene = scene(&[FORM, ("sampling/createMessage", r#"{"maxTokens":1}"#), ("roots/list", "{}")]).await;
    let client = modern("c", ABLE);
    let first_response = scene.call(&client, &[]).await;
    let state = state_of(&first_response);
    let requests = first_response.expect("a result").get("inputRequests").expect("requests");
    assert_eq!(requests.members().count(), 3, "they were asked together");

    let some = r#"{"question-3":{"roots":[]},"else":{"x":1},"question-1":null}"#;
    let again = scene.call(&client, &[("requestState", &state), ("inputResponses", some)]).await;
    let next = state_of(&again);
    let requests = again.expect("a result").get("inputRequests").expect("requests");
    let keys: Vec<_> = requests.members().map(|(key, _)| key.into_owned()).collect();
    assert_eq!(keys, ["question-1", "question-2"]);
    assert_ne!(state, next);

    let rest = r#"{"question-2":{"role":"assistant"},"question-1":{"action":"decline"}}"#;
    let done = scene.call(&client, &[("inputResponses", rest), ("requestState", &next)]).await;
    assert!(text(&done).starts_with(r#"{"told":[{"action":"decline"},{"role":"assistant"},{"roots":[]}]"#));
    assert!(at_rest(&scene) && scene.server.executed("tools/call") == 1);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_state_is_of_no_use_and_says_nothing() {
    let scene = scene(&[FORM]).await;
    let (client, stranger) = (modern("c", ABLE), modern("d", ABLE));
    let state = state_of(&scene.call(&client, &[]).await);
    let mut refusals = std::collections::HashSet::new();
    let mut tampered = vec!["\"\"".to_owned(), "\"no\"".to_owned(), state.replacen('"', "\"A", 1)];
    for at in 1..state.len() - 1 {
        let other = if state.as_bytes()[at] == b'A' { "B" } else { "A" };
        tampered.push(format!("{}{other}{}", &state[..at], &state[at + 1..]));
    }
    let mut tried = 0;
    for wrong in &tampered {
        let reply = scene.call(&client, &[("requestState", wrong), ("inputResponses", YES)]).await;
        refusals.insert(text(&reply).to_owned());
        tried += 1;
    }
    let retry = [("requestState", state.as_str()), ("inputResponses", YES)];
    refusals.insert(text(&scene.call(&stranger, &retry).await).to_owned());
    let elsewhere = [retry[0], retry[1], ("arguments", r#"{"a":2}"#)];
    refusals.insert(text(&scene.call(&client, &elsewhere).await).to_owned());

    let done = scene.call(&client, &retry).await;
    assert!(done.is_ok_and(|result| result.get("told").is_some()), "all that did not hurt it");
    refusals.insert(text(&scene.call(&client, &retry).await).to_owned());
    assert_eq!(refusals.len(), 1, "alike whatever is wrong, after {tried} tries: {refusals:?}");
    assert!(refusals.iter().all(|refusal| refusal.starts_with(r#"{"code":-32602"#)), "{refusals:?}");
    assert!(at_rest(&scene) && scene.server.executed("tools/call") == 1);
}

#[tokio::test(start_paused = true)]
async fn parameters_of_the_wrong_kind_do_not_use_up_the_state() {
    let scene = scene(&[FORM]).await;
    let client = modern("c", ABLE);
    let state = state_of(&scene.call(&client, &[]).await);
    for wrong in [
        [("requestState", "7"), ("inputResponses", YES)],
        [("requestState", &state), ("inputResponses", "[]")],
    ] {
        assert!(text(&scene.call(&client, &wrong).await).starts_with(r#"{"code":-32602"#));
    }
    assert!(scene.call(&client, &[("requestState", &state), ("inputResponses", YES)]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn request_that_a_client_cannot_answer_is_refused_to_the_server() {
    let scene = scene(&[FORM]).await;
    let unable = modern("c", r#"{"sampling":{}}"#);
    let done = scene.call(&unable, &[]).await;
    assert!(text(&done).contains("-32601"), "the server goes on without: {}", text(&done));

    scene.server.answer_calls(Answer::work(|_, event_sender| async move {
        match event_sender.ask(FORM.0.into(), Some(raw(FORM.1))).await {
            Some(Ok(result)) => Ok(result),
            _ => Err(ErrorObject::new(-32603, "I need a form")),
        }
    }));
    let refused = scene.call(&unable, &[]).await;
    assert_eq!(
        text(&refused),
        r#"{"code":-32021,"message":"the server needs capabilities that the client did not declare: I need a form","data":{"code":"capability_missing","detail":"the server needs capabilities that the client did not declare: I need a form","hint":"declare the capabilities in `requiredCapabilities`, or use a client that has them","retryable":false,"type":"invalid_params","requiredCapabilities":{"elicitation":{"form":{}}}}}"#
    );
    assert!(at_rest(&scene));
}

#[tokio::test(start_paused = true)]
async fn a_page_to_visit_first_is_asked_for_and_the_call_made_again() {
    let scene = Scene::with(Version::V2025_11_25).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    scene.server.answer_calls(Answer::work(move |_, _| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if number % 2 == 1 {
                return Ok(raw(r#"{"content":[]}"#));
            }
            let page = r#"{"code":-32042,"message":"go there","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"m"}]}}"#;
            Err(ErrorObject::from_raw(raw(page)).expect("an error"))
        }
    }));
    let client = modern("c", ABLE);
    let first_response = scene.call(&client, &[]).await;
    let state = state_of(&first_response);
    assert!(text(&first_response).contains(r#"{"page-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m"}}}"#));
    let yes = [("requestState", state.as_str()), ("inputResponses", r#"{"page-1":{"action":"accept"}}"#)];
    assert_eq!(text(&scene.call(&client, &yes).await), r#"{"content":[],"resultType":"complete"}"#);
    assert!(text(&scene.call(&client, &yes).await).starts_with(r#"{"code":-32602"#), "it is good once");

    let state = state_of(&scene.call(&client, &[]).await);
    let no = [("requestState", state.as_str()), ("inputResponses", r#"{"page-1":{"action":"decline"}}"#)];
    assert!(text(&scene.call(&client, &no).await).starts_with(r#"{"code":-32042"#), "its own words");
    assert_eq!(calls.load(Ordering::SeqCst), 3);

    calls.store(0, Ordering::SeqCst);
    let unable = scene.call(&modern("c", r#"{"elicitation":{}}"#), &[]).await;
    assert!(text(&unable).contains("-32021") && text(&unable).contains(r#"{"elicitation":{"url":{}}}"#));
    assert!(at_rest(&scene));
}

#[tokio::test(start_paused = true)]
async fn client_that_leaves_or_never_comes_back_leaves_nothing_behind() {
    let scene = scene(&[FORM]).await;
    let client = modern("c", ABLE);
    for round in 0..1000_u64 {
        let state = state_of(&scene.call(&client, &[]).await);
        assert_eq!(scene.gateway.suspended.count(), 1);
        match round % 4 {
            0 => tokio::time::sleep(Duration::from_mins(11)).await,
            1 => {
                let (retry, _heard) = scene.call_heard(&client, &[("requestState", &state)]);
                // Dropped while it waits for the call, or for the next request of the server.
                let _ = tokio::time::timeout(Duration::from_millis(round % 3), retry).await;
            }
            2 => drop(scene.call(&client, &[("requestState", &state), ("inputResponses", YES)]).await),
            _ => drop(
                scene
                    .call(&client, &[("requestState", &state), ("inputResponses", r#"{"question-1":{}}"#)])
                    .await,
            ),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(at_rest(&scene), "round {round}");
    }
    let _ = state_of(&scene.call(&client, &[]).await);
    scene.shutdown.begin();
    assert!(scene.shutdown.wait(Duration::from_secs(1)).await);
    assert_eq!((scene.gateway.suspended.count(), scene.server.open_requests()), (0, 0), "the end ends all");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_call_of_a_principal_makes_room_for_a_further_one() {
    let scene = scene(&[FORM]).await;
    let client = modern("c", ABLE);
    let other = modern("d", ABLE);
    let others = state_of(&scene.call(&other, &[]).await);
    let mut states = Vec::new();
    for _ in 0..17 {
        states.push(state_of(&scene.call(&client, &[]).await));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((scene.gateway.suspended.count(), scene.server.open_requests()), (17, 17), "one is cancelled");
    let answers = |state| [("requestState", state), ("inputResponses", YES)];
    assert!(scene.call(&client, &answers(&states[0])).await.is_err(), "nobody came for it");
    for (who, state) in [(&client, &states[1]), (&client, &states[16]), (&other, &others)] {
        assert!(scene.call(who, &answers(state)).await.is_ok());
    }
    assert_eq!(scene.gateway.suspended.count(), 14);
}

#[tokio::test(start_paused = true)]
async fn thinking_does_not_count_against_the_deadline() {
    let scene = scene(&[FORM]).await;
    let client = modern("c", ABLE);
    let state = state_of(&scene.call(&client, &[]).await);
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert!(scene.call(&client, &[("requestState", &state), ("inputResponses", YES)]).await.is_ok());
}
