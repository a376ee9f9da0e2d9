//! Tests of notifications of tasks, with a modern server in memory and under paused time.

use std::time::Duration;

use serde_json::json;

use super::tests::{ask, gateway, next_text, raw};
use super::*;
use crate::fixture;
use auth::{Principal, Role};
use protocol::Version;
use protocol::error::code;
use upstream::Event;
use upstream::fake::{Answer, Fake};

const FOLLOWS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// A server that makes the task `t-1` of every call. The task is completed whenever it is read.
fn server() -> Fake {
    let server = Fake::new(Version::V2026_07_28);
    server.capabilities(&json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    server.answer(|call| {
        let task =
            |status: &str| json!({"resultType": "task", "taskId": "t-1", "status": status, "ttlMs": null});
        let ended = || {
            raw(&task("completed")).edit(&[
                ("resultType", Some(&Raw::of("complete"))),
                ("result", Some(&raw(&json!({"content": []})))),
            ])
        };
        match call.method.as_str() {
            method::TOOLS_CALL => Some(Answer::result(&task("working"))),
            method::TASKS_GET => Some(Answer::Reply(Ok(ended()))),
            _ => None,
        }
    });
    server
}

async fn begin(gateway: &Gateway, caller: &Caller) -> String {
    let made = ask(gateway, caller, method::TOOLS_CALL, json!({"name": "echo"})).await.expect("a task");
    made.get_as("taskId").expect("an id")
}

/// Returns the acknowledgment for `caller`, which subscribes to the task `id` and to changes of
/// tools.
async fn honoured_of(gateway: &Gateway, caller: &Caller, id: &str) -> String {
    let (event_sender, mut receiver) = EventSender::new(8);
    let params = raw(&json!({"notifications": {"toolsListChanged": true, "taskIds": [id]}}));
    let request = RequestId::from_u64(7);
    tokio::select! {
        end = listen(gateway, caller, (&request, Some(&params)), &event_sender) => panic!("{end:?}"),
        ack = next_text(&mut receiver) => ack.expect("an acknowledgement"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_of_its_task_and_of_how_it_is_after_a_gap() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = fixture::modern("c", FOLLOWS);
    let id = begin(&gateway, &caller).await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let params = raw(&json!({"notifications": {"taskIds": [&id, "invented", &id]}}));
    let request = RequestId::from_u64(7);
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        assert!(ack.contains(&format!(r#""notifications":{{"taskIds":["{id}"]}}"#)), "{ack}");
        assert_eq!(server.listening(), [r#"{"taskIds":["t-1"]}"#]);
        let notified = json!({"taskId": "t-1", "status": "working", "n": 1,
            "_meta": {"io.modelcontextprotocol/subscriptionId": 3}});
        server
            .say(Event::Notice(Notification { method: method::TASKS.into(), params: Some(raw(&notified)) }));
        let notice = next_text(&mut receiver).await.expect("a notice");
        assert!(notice.starts_with(r#"{"jsonrpc":"2.0","method":"notifications/tasks""#), "{notice}");
        assert!(notice.contains(&format!(r#""taskId":"{id}","#)) && notice.contains(r#""n":1"#), "{notice}");
        assert!(notice.contains(r#""io.modelcontextprotocol/subscriptionId":7"#), "{notice}");
        server.end_streams();
        tokio::time::sleep(Duration::from_mins(1)).await;
        let notice = next_text(&mut receiver).await.expect("what happened meanwhile");
        assert!(notice.contains(r#""status":"completed""#) && notice.contains(r#""result":"#), "{notice}");
        assert!(notice.contains(&id) && !notice.contains("resultType"), "{notice}");
        assert_eq!(next_text(&mut receiver).await, None);
    };
    tokio::select! {
        end = listen(&gateway, &caller, (&request, Some(&params)), &event_sender) => panic!("{end:?}"),
        () = heard => {}
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((gateway.router().count(), server.listening().len()), (0, 0), "it ended with the request");
}

#[tokio::test(start_paused = true)]
async fn task_notifications_need_the_owner_a_calling_role_and_the_extension() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = fixture::modern("c", FOLLOWS);
    let id = begin(&gateway, &caller).await;
    assert!(honoured_of(&gateway, &caller, &id).await.contains(&id));
    let none = r#""notifications":{"toolsListChanged":true}"#;
    let mut reader = fixture::modern("c", FOLLOWS);
    reader.principal = Principal::new("c", Role::Reader);
    for other in [fixture::modern("d", FOLLOWS), reader] {
        let ack = honoured_of(&gateway, &other, &id).await;
        assert!(ack.contains(none), "{ack}");
    }
    let unable = fixture::modern("c", "{}");
    let refused =
        ask(&gateway, &unable, method::SUBSCRIPTIONS_LISTEN, json!({"notifications": {"taskIds": [id]}}))
            .await;
    assert_eq!(refused.expect_err("it cannot follow tasks").code(), code::MISSING_CLIENT_CAPABILITY);
}
