//! Tests of tasks in memory, under paused time: each era alone, and across eras.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::fixture::{Scene, legacy, modern, raw, text};
use super::*;
use auth::{Principal, Role};
use protocol::{Notification, Version};
use upstream::CallEvent;
use upstream::fake::{Answer, Fake};

const HAS_TASKS: &str = r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
const FOLLOWS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{}}"#;
const TASK: &str =
    r#"{"taskId":"7","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":null,"pollInterval":500}"#;

fn refuse(code: i64) -> Reply {
    Err(ErrorObject::new(code, "no"))
}

const NEEDS_TASK: &str = r#"{"name":"echo","execution":{"taskSupport":"required"}}"#;

/// A server of 2025-11-25 whose tool runs only as a task and sends one request to the client.
async fn old() -> Scene {
    listing(HAS_TASKS, NEEDS_TASK, || Answer::work(old_server)).await
}

/// A server of 2025-11-25 with one tool; `answer` answers everything except lists.
async fn listing(
    capabilities: &str,
    definition: &'static str,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> Scene {
    let server = Fake::new(Version::V2025_11_25);
    server.capabilities(&serde_json::from_str(capabilities).expect("JSON"));
    server.answer(move |call| match call.method.as_str() {
        method::TOOLS_LIST => {
            Some(Answer::Reply(Ok(Raw::empty_object().with("tools", &raw(&format!("[{definition}]"))))))
        }
        _ => Some(answer()),
    });
    Scene::over(server).await
}

async fn old_server(call: upstream::Call, event_sender: EventSender) -> Reply {
    let params = call.params.unwrap_or_else(Raw::empty_object);
    let id: String = params.get_as("taskId").unwrap_or_default();
    match call.method.as_str() {
        method::TOOLS_CALL if params.get("task").is_none() => refuse(code::METHOD_NOT_FOUND),
        method::TOOLS_CALL => Ok(Raw::empty_object().with("task", &raw(TASK))),
        method::TASKS_LIST => Ok(raw(r#"{"tasks":[{"taskId":"7"},{"taskId":"8"}]}"#)),
        _ if id != "7" => refuse(code::INVALID_PARAMS),
        method::TASKS_GET => Ok(raw(TASK).with("status", &Raw::of("failed"))),
        method::TASKS_CANCEL => refuse(code::INVALID_PARAMS),
        method::TASKS_RESULT => {
            let mark = task::with_related(&raw(r#"{"message":"m"}"#), &Raw::of("7"));
            event_sender
                .offer(Notification { method: "notifications/message".into(), params: Some(mark.clone()) });
            let answer = event_sender.ask("elicitation/create".into(), Some(mark)).await;
            let Some(Ok(answer)) = answer else { return refuse(code::INTERNAL_ERROR) };
            let result = raw(r#"{"content":[],"isError":true}"#).with("answer", &answer);
            Ok(task::with_related(&result, &Raw::of("7")))
        }
        _ => refuse(code::METHOD_NOT_FOUND),
    }
}

fn id_of(object: Option<Raw>) -> String {
    object.and_then(|object| object.get("taskId")).expect("an id").as_str().to_owned()
}

#[tokio::test(start_paused = true)]
async fn only_the_ids_change_within_one_era() {
    let scene = old().await;
    let client = legacy(r#"{"elicitation":{}}"#);
    let made = scene.call(&client, &[("task", r#"{"ttl":1.0}"#)]).await.expect("made");
    let id = id_of(made.get("task"));
    assert!(!id.contains('7') || id.len() > 20, "sealed: {id}");
    assert_eq!(made.as_str().replace(&id, r#""7""#), format!(r#"{{"task":{TASK}}}"#));

    let params = format!(r#"{{"taskId":{id}}}"#);
    let got = scene.request(&client, "tasks/get", &params).await.expect("there");
    assert_eq!(id_of(Some(got)), id);
    let (result, mut heard) = scene.request_heard(&client, "tasks/result", raw(&params));
    let answering = async {
        let mut questions_seen = 0;
        while let Some(event) = heard.recv().await {
            match event {
                CallEvent::Pause(_) => {}
                CallEvent::Notice(notice) => assert!(notice.params.expect("params").as_str().contains(&id)),
                CallEvent::Question(question) => {
                    let params = question.params.clone().expect("params");
                    assert!(params.as_str().contains(&id), "{}", params.as_str());
                    let answer = raw(r#"{"action":"accept"}"#);
                    question.answer(Ok(task::with_related(&answer, &raw(&id))));
                    questions_seen += 1;
                }
            }
        }
        questions_seen
    };
    let (result, questions_seen) = tokio::join!(result, answering);
    assert_eq!(questions_seen, 1);
    let back =
        r#""answer":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#;
    assert!(text(&result).contains(back), "the server hears its own id: {}", text(&result));
    let marked = format!(r#""_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":{id}}}}}}}"#);
    assert!(text(&result).ends_with(&marked), "{}", text(&result));

    let listed = scene.request(&client, "tasks/list", "{}").await.expect("a list");
    let tasks: Vec<Raw> = listed.get("tasks").expect("tasks").elements().collect();
    assert_eq!((tasks.len(), id_of(Some(tasks[0].clone()))), (2, id));
    assert!(text(&scene.request(&client, "tasks/list", r#"{"cursor":"x"}"#).await).contains("-32602"));
}

#[tokio::test(start_paused = true)]
async fn a_task_of_somebody_else_is_unknown() {
    let scene = old().await;
    let client = legacy("{}");
    let made = scene.call(&client, &[("task", "{}")]).await.expect("made");
    let params = format!(r#"{{"taskId":{}}}"#, id_of(made.get("task")));
    let mut stranger = client.clone();
    stranger.principal = Principal::new("x", Role::Superuser);
    let mut refusals = std::collections::HashSet::new();
    for name in [method::TASKS_GET, method::TASKS_RESULT, method::TASKS_CANCEL] {
        refusals.insert(text(&scene.request(&stranger, name, &params).await).to_owned());
        for other in [r#"{"taskId":"7"}"#, r#"{"taskId":7}"#, "{}"] {
            refusals.insert(text(&scene.request(&client, name, other).await).to_owned());
        }
    }
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals.iter().all(|refusal| refusal.contains("-32602")));
    assert_eq!(scene.server.executed("tasks/get"), 0);
    assert!(text(&scene.request(&stranger, "tasks/list", "{}").await).contains("tasks_not_listed"));
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_follows_an_old_task() {
    let scene = old().await;
    let client = modern("c", FOLLOWS);
    let made = scene.call(&client, &[]).await.expect("made");
    let id = id_of(Some(made.clone()));
    let flat = r#"{"taskId":"7","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null,"pollIntervalMs":500,"resultType":"task"}"#;
    assert_eq!(made.as_str().replace(&id, r#""7""#), flat);
    assert_eq!(scene.server.executed("tools/call"), 1, "a task from the beginning");

    let params = format!(r#"{{"taskId":{id}}}"#);
    // The task has ended, but its result needs an answer that no client gives here.
    let got = scene.request(&client, "tasks/get", &params).await.expect("there");
    assert!(
        got.as_str().contains(r#""status":"failed""#) && got.as_str().contains(r#""error":{"#),
        "{}",
        got.as_str()
    );
    assert_eq!(id_of(Some(got)), id);
    let cancelled = scene.request(&client, "tasks/cancel", &params).await;
    assert_eq!(text(&cancelled), r#"{"resultType":"complete"}"#, "it has ended anyway");
    let update = scene.request(&client, "tasks/update", &params).await;
    assert!(text(&update).contains("task_needs_a_stream"), "{}", text(&update));
    for gone in [method::TASKS_RESULT, method::TASKS_LIST] {
        assert!(text(&scene.request(&client, gone, &params).await).contains("-32601"));
    }
    let unable = scene.request(&modern("c", "{}"), "tasks/get", &params).await;
    assert!(
        text(&unable)
            .contains(r#""requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#)
    );
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_without_tasks_waits_for_an_old_one_and_is_asked() {
    let scene = old().await;
    let client = modern("c", r#"{"elicitation":{}}"#);
    let questions_seen = scene.call(&client, &[]).await.expect("a question");
    let state = questions_seen.get("requestState").expect("a state");
    let answers = r#"{"question-1":{"action":"accept"}}"#;
    let done = scene.call(&client, &[("requestState", state.as_str()), ("inputResponses", answers)]).await;
    assert_eq!(
        text(&done),
        r#"{"content":[],"isError":true,"answer":{"action":"accept"},"resultType":"complete"}"#
    );
    assert_eq!(scene.server.executed("tools/call"), 1);
    assert_eq!(scene.running(), 0);

    // If a client disconnects, its task is cancelled.
    let cancels = scene.server.executed("tasks/cancel");
    let (waiting, _heard) = scene.call_heard(&client, &[]);
    let _ = tokio::time::timeout(Duration::from_millis(5), waiting).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.server.executed("tasks/cancel"), cancels + 1);
}

#[tokio::test(start_paused = true)]
async fn refused_task_request_is_not_sent_again() {
    let plain = r#"{"name":"echo"}"#;
    let optional = r#"{"name":"echo","execution":{"taskSupport":"optional"}}"#;
    let forbidden = r#"{"name":"echo","execution":{"taskSupport":"forbidden"}}"#;
    for (capabilities, definition, is_task) in [
        (HAS_TASKS, plain, false),
        (HAS_TASKS, optional, false),
        (HAS_TASKS, forbidden, false),
        (HAS_TASKS, NEEDS_TASK, true),
        // If the server does not make tasks of calls, the definition has no effect.
        (r#"{"tools":{},"tasks":{"list":{}}}"#, NEEDS_TASK, false),
    ] {
        for refused in [code::INVALID_REQUEST, code::METHOD_NOT_FOUND] {
            let tasks = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&tasks);
            let refusing = move |call: upstream::Call, _| {
                let is_task = call.params.is_some_and(|params| params.get("task").is_some());
                seen.fetch_add(usize::from(is_task), Ordering::SeqCst);
                std::future::ready(refuse(refused))
            };
            let scene = listing(capabilities, definition, move || Answer::work(refusing.clone())).await;
            for client in [modern("c", "{}"), modern("c", FOLLOWS)] {
                let before = scene.server.executed("tools/call");
                let answer = scene.call(&client, &[]).await;
                let sent = scene.server.executed("tools/call") - before;
                assert_eq!((sent, answer), (1, refuse(refused)), "{definition}");
            }
            let expected = if is_task { 2 } else { 0 };
            assert_eq!(tasks.load(Ordering::SeqCst), expected, "{capabilities} {definition}");
        }
    }
}

/// A modern server that makes a task of each call, for clients that follow tasks. It sends one
/// request to the client.
async fn new() -> Scene {
    let scene = Scene::with(Version::V2026_07_28).await;
    let looks = Arc::new(AtomicUsize::new(0));
    scene.server.answer(move |call| {
        let looks = Arc::clone(&looks);
        let work = move |call: upstream::Call, _| std::future::ready(new_server(&call, &looks));
        (call.method != method::TOOLS_LIST).then(|| Answer::work(work))
    });
    scene
}

fn new_server(call: &upstream::Call, looks: &AtomicUsize) -> Reply {
    let task = r#"{"taskId":"n","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":60000,"pollIntervalMs":100}"#;
    let params = call.params.clone().unwrap_or_else(Raw::empty_object);
    let follows = has_extension(&call.sender.capabilities);
    let asking = r#"{"k":{"method":"elicitation/create","params":{"message":"m"}}}"#;
    let status =
        |name: &str| raw(task).with("resultType", &Raw::of("complete")).with("status", &Raw::of(name));
    match call.method.as_str() {
        _ if !follows => Err(ErrorObject::from_raw(raw(
            r#"{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}"#,
        ))
        .expect("an error")),
        method::TOOLS_CALL => Ok(raw(task).with("resultType", &Raw::of("task"))),
        method::TASKS_GET => Ok(match looks.fetch_add(1, Ordering::SeqCst) {
            0 => status("working"),
            1 => status("input_required").with("inputRequests", &raw(asking)),
            _ => status("completed").with("result", &raw(r#"{"content":[],"n":1e400}"#)),
        }),
        method::TASKS_UPDATE => {
            assert_eq!(params.get("inputResponses").expect("answers").as_str(), r#"{"k":{"action":"accept"}}"#);
            Ok(raw(r#"{"resultType":"complete"}"#))
        }
        method::TASKS_CANCEL => Ok(raw(r#"{"resultType":"complete"}"#)),
        _ => refuse(code::METHOD_NOT_FOUND),
    }
}

async fn accepting(mut heard: upstream::EventReceiver) -> usize {
    let mut count = 0;
    while let Some(event) = heard.recv().await {
        if let CallEvent::Question(question) = event {
            question.answer(Ok(raw(r#"{"action":"accept"}"#)));
            count += 1;
        }
    }
    count
}

#[tokio::test(start_paused = true)]
async fn an_old_client_waits_for_a_new_task_and_is_asked() {
    let scene = new().await;
    let (call, heard) = scene.call_heard(&legacy(r#"{"elicitation":{}}"#), &[]);
    let (done, questions_seen) = tokio::join!(call, accepting(heard));
    assert_eq!((text(&done), questions_seen), (r#"{"content":[],"n":1e400}"#, 1));
    assert_eq!(scene.server.executed("tasks/cancel"), 0);

    let scene = new().await;
    let (call, _heard) = scene.call_heard(&legacy("{}"), &[]);
    let _ = tokio::time::timeout(Duration::from_millis(50), call).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.server.executed("tasks/cancel"), 1, "who leaves has it cancelled");
}

#[tokio::test(start_paused = true)]
async fn an_old_client_that_asked_follows_a_new_task() {
    let scene = new().await;
    let client = legacy(r#"{"elicitation":{}}"#);
    let made = scene.call(&client, &[("task", "{}")]).await.expect("made");
    let id = id_of(made.get("task"));
    assert_eq!(
        made.as_str().replace(&id, r#""n""#),
        r#"{"task":{"taskId":"n","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":60000,"pollInterval":100}}"#
    );
    let params = format!(r#"{{"taskId":{id}}}"#);
    let got = scene.request(&client, "tasks/get", &params).await.expect("there");
    assert!(got.get("ttl").is_some() && got.get("resultType").is_none(), "{}", got.as_str());
    let (result, heard) = scene.request_heard(&client, "tasks/result", raw(&params));
    let (result, questions_seen) = tokio::join!(result, accepting(heard));
    assert_eq!(questions_seen, 1);
    let marked = format!(
        r#"{{"content":[],"n":1e400,"_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":{id}}}}}}}"#
    );
    assert_eq!(text(&result), marked);
    let cancelled = scene.request(&client, "tasks/cancel", &params).await.expect("cancelled");
    assert_eq!(id_of(Some(cancelled)), id, "it is told how the task is");
}

#[tokio::test(start_paused = true)]
async fn between_modern_ones_only_the_id_changes() {
    let scene = new().await;
    let client = modern("c", FOLLOWS);
    let made = scene.call(&client, &[]).await.expect("made");
    let id = id_of(Some(made.clone()));
    assert!(made.as_str().replace(&id, r#""n""#).ends_with(r#""pollIntervalMs":100,"resultType":"task"}"#));
    let params = format!(r#"{{"taskId":{id}}}"#);
    let got = scene.request(&client, "tasks/get", &params).await.expect("there");
    assert_eq!(id_of(Some(got)), id);
    assert_eq!(text(&scene.request(&client, "tasks/cancel", &params).await), r#"{"resultType":"complete"}"#);
}
