//! Tests of notifications of resources, with servers in memory and under paused time.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::tests::{ask, gateway, lists, modern, next_notification, next_text, raw, server, session};
use super::*;
use auth::{Principal, Role};
use protocol::Version;
use protocol::error::code;
use upstream::Event;
use upstream::fake::{Answer, Fake};

fn updated(uri: &str) -> Event {
    let params = json!({"uri": uri, "_meta": {"io.modelcontextprotocol/subscriptionId": 3}});
    Event::Notice(Notification { method: method::RESOURCE_UPDATED.into(), params: Some(raw(&params)) })
}

fn one(server: &str) -> Scope {
    Scope::of_server(server)
}

async fn subscribe(gateway: &Gateway, caller: &Caller, uri: &str) -> Reply {
    ask(gateway, caller, method::RESOURCES_SUBSCRIBE, json!({ "uri": uri })).await
}

async fn unsubscribe(gateway: &Gateway, caller: &Caller, uri: &str) -> Reply {
    ask(gateway, caller, method::RESOURCES_UNSUBSCRIBE, json!({ "uri": uri })).await
}

/// The number of subscriptions at the server.
fn watched(gateway: &Gateway, server: &str) -> usize {
    gateway.manager().snapshot().server(server).expect("configured").upstream.watched()
}

async fn settle() {
    tokio::time::sleep(Duration::from_mins(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_of_the_resources_it_asked_for_and_of_no_other() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let (caller, other) = (session(&gateway, one("s")).await, session(&gateway, one("s")).await);
    assert_eq!(subscribe(&gateway, &caller, "a:1").await, Ok(Raw::empty_object()));
    assert_eq!(subscribe(&gateway, &caller, "a:1").await, Ok(Raw::empty_object()), "twice is once");
    assert_eq!(subscribe(&gateway, &other, "a:2").await, Ok(Raw::empty_object()));
    assert_eq!(server.subscribed(), ["a:1", "a:2"]);
    let mut feed = gateway.feed(&caller).expect("a legacy client");
    for uri in ["a:1", "a:2", "a:3", "a:1"] {
        server.say(updated(uri));
    }
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}"#;
    assert_eq!(next_notification(&mut feed).await.as_deref(), Some(notice), "twice in one breath is once");
    assert_eq!(next_notification(&mut feed).await, None);
    assert_eq!(unsubscribe(&gateway, &caller, "a:1").await, Ok(Raw::empty_object()));
    assert_eq!(unsubscribe(&gateway, &caller, "a:never").await, Ok(Raw::empty_object()));
    server.say(updated("a:1"));
    assert_eq!(next_notification(&mut feed).await, None);
    assert_eq!(server.subscribed(), ["a:2"]);
}

#[tokio::test(start_paused = true)]
async fn a_part_is_told_to_those_who_asked_for_the_whole_unless_somebody_asked_for_it() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let (whole, part) = (session(&gateway, one("s")).await, session(&gateway, one("s")).await);
    subscribe(&gateway, &whole, "file:///a").await.expect("subscribed");
    subscribe(&gateway, &part, "file:///a/b").await.expect("subscribed");
    let mut feeds = [&whole, &part].map(|caller| gateway.feed(caller).expect("a legacy client"));
    for (uri, heard) in
        [("file:///a/b", [false, true]), ("file:///a/c", [true, false]), ("file:///ab", [false, false])]
    {
        server.say(updated(uri));
        for (feed, heard) in feeds.iter_mut().zip(heard) {
            assert_eq!(next_notification(feed).await.is_some_and(|text| text.contains(uri)), heard, "{uri}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_refusal_passes_and_leaves_nothing_behind() {
    let server = server();
    server.answer(|call| {
        let refusal = || Answer::Reply(Err(ErrorObject::new(-32002, "there is none").with_data(&1.5)));
        (call.method == method::RESOURCES_SUBSCRIBE).then(refusal)
    });
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, one("s")).await;
    let refused = subscribe(&gateway, &caller, "a:1").await.expect_err("refused");
    assert_eq!((refused.code(), refused.message().as_ref()), (-32002, "there is none"));
    assert_eq!((gateway.router().count(), watched(&gateway, "s")), (0, 0));
    let refused = ask(&gateway, &caller, method::RESOURCES_SUBSCRIBE, json!({"uri": 5})).await;
    assert_eq!(refused.expect_err("no URI").code(), code::INVALID_PARAMS);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_nobody_has_is_refused_as_a_read_of_it() {
    let server = Fake::new(Version::V2025_11_25);
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, Scope::ALL).await;
    let refused = subscribe(&gateway, &caller, "a:1").await.expect_err("nobody has resources");
    let read = ask(&gateway, &caller, method::RESOURCES_READ, json!({"uri": "a:1"})).await;
    assert_eq!((refused.code(), Err(refused)), (code::RESOURCE_NOT_FOUND, read));
}

#[tokio::test(start_paused = true)]
async fn subscription_that_a_modern_server_leaves_out_is_refused_with_a_full_error() {
    let server = Fake::new(Version::V2026_07_28);
    server.capabilities(&json!({"resources": {"subscribe": true}}));
    server.honours_lists_only();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, Scope::ALL).await;
    let refused = subscribe(&gateway, &caller, "a:é").await.expect_err("it is not told");
    assert_eq!(refused.code(), code::INVALID_PARAMS);
    let text = "the server \"s\" does not tell of the resource \"a:é\": it has none of that URI, or does not announce its changes";
    let data: serde_json::Value = refused.data().expect("facts").read().expect("an object");
    let facts = json!({"code": "not_told", "type": "not_found", "detail": text, "hint": "read the resource again when you need it",
        "retryable": false,
        "server": "s", "uri": "a:é"});
    assert_eq!((refused.message().as_ref(), data), (text, facts));
    assert_eq!((gateway.router().count(), watched(&gateway, "s")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_has_a_bounded_number_of_subscriptions() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, one("s")).await;
    for number in 0..crate::notifications::MAX_SUBSCRIPTIONS {
        subscribe(&gateway, &caller, &format!("a:{number}")).await.expect("room");
    }
    assert!(subscribe(&gateway, &caller, "a:more").await.is_err());
    unsubscribe(&gateway, &caller, "a:0").await.expect("ended");
    assert!(subscribe(&gateway, &caller, "a:more").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_renews_subscriptions_and_each_is_told_once() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, one("s")).await;
    subscribe(&gateway, &caller, "a:1").await.expect("subscribed");
    subscribe(&gateway, &caller, "a:2").await.expect("subscribed");
    let mut feed = gateway.feed(&caller).expect("a legacy client");
    server.die("killed");
    assert!(server.subscribed().is_empty());
    settle().await;
    assert_eq!(server.subscribed(), ["a:1", "a:2"]);
    let mut texts = BTreeSet::new();
    while let Some(text) = next_notification(&mut feed).await {
        assert!(texts.insert(text), "told once each");
    }
    assert_eq!(texts.len(), 2, "what changed meanwhile, nobody knows: {texts:?}");
}

#[tokio::test(start_paused = true)]
async fn sixty_four_sessions_hear_exactly_what_they_asked_for_and_leave_nothing_behind() {
    const SESSIONS: usize = 64;
    let servers = [server(), Fake::new(Version::V2026_07_28)];
    servers[1].capabilities(&json!({"resources": {"subscribe": true}}));
    let gateway = gateway(&[("s", &servers[0]), ("t", &servers[1])]).await;
    let wants = |session: usize, uri: usize| (session * 7 + uri * 5).is_multiple_of(3);
    let uris: Vec<String> = (0..8).map(|uri| format!("a:{uri}")).collect();
    let mut callers = Vec::new();
    for number in 0..SESSIONS {
        callers.push(session(&gateway, one(["s", "t"][number % 2])).await);
    }
    let requested = callers.iter().enumerate().flat_map(|(number, caller)| {
        let mine = uris.iter().enumerate().filter(move |(uri, _)| wants(number, *uri));
        let gateway = &gateway;
        mine.map(move |(_, uri)| subscribe(gateway, caller, uri))
    });
    assert!(join_all(requested).await.iter().all(Result::is_ok));
    // Odd sessions subscribe at "t", a modern server with one stream for all.
    assert_eq!(servers[1].listening().len(), 1);
    for (at, server) in servers.iter().enumerate() {
        for uri in uris.iter().skip(at) {
            server.say(updated(uri));
        }
    }
    for (number, caller) in callers.iter().enumerate() {
        let mut feed = gateway.feed(caller).expect("a legacy client");
        let mut heard = BTreeSet::new();
        while let Some(text) = next_notification(&mut feed).await {
            heard.insert(text.split('"').rev().nth(1).expect("a URI").to_owned());
        }
        let expected: BTreeSet<String> =
            (number % 2..8).filter(|uri| wants(number, *uri)).map(|uri| uris[uri].clone()).collect();
        assert_eq!(heard, expected, "session {number}");
    }
    // Half of the sessions end properly, the others just disappear.
    for caller in callers.iter().step_by(2) {
        caller.mailbox.as_ref().expect("a legacy client").close();
    }
    drop(callers);
    settle().await;
    assert_eq!((gateway.router().count(), watched(&gateway, "s"), watched(&gateway, "t")), (0, 0, 0));
    assert!(servers[0].subscribed().is_empty() && servers[1].listening().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_hears_of_a_legacy_servers_resources_as_long_as_it_listens() {
    let server = server();
    server.answer(|call| {
        let is_other = call.params.as_ref().is_some_and(|params| params.as_str().contains("a:refused"));
        let refusal = || Answer::Reply(Err(ErrorObject::new(-32002, "no")));
        (call.method == method::RESOURCES_SUBSCRIBE && is_other).then(refusal)
    });
    let gateway = gateway(&[("s", &server)]).await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let uris = ["a:1", "a:refused", "a:1", "a:2"];
    let params = raw(&json!({"notifications": {"resourceSubscriptions": uris}}));
    let id = RequestId::from_raw(Raw::of("L")).expect("an id");
    let mut caller = modern();
    caller.scope = one("s");
    let listening = listen(&gateway, &caller, (&id, Some(&params)), &event_sender);
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        assert!(ack.contains(r#""notifications":{"resourceSubscriptions":["a:1","a:2"]}"#), "{ack}");
        server.say(updated("a:2"));
        let notice = next_text(&mut receiver).await.expect("a notice");
        let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"L"}"#;
        assert!(notice.ends_with(&format!(r#""params":{{"uri":"a:2",{tag}}}}}"#)), "{notice}");
    };
    tokio::select! {
        end = listening => panic!("{end:?}"),
        () = heard => {}
    }
    settle().await;
    assert_eq!((gateway.router().count(), watched(&gateway, "s")), (0, 0), "it ended with the request");
    assert!(server.subscribed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reader_hears_of_lists_and_no_server_hears_of_a_reader() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let reader = || Principal::new("r", Role::Reader);
    let mut caller = session(&gateway, one("s")).await;
    caller.principal = reader();
    let refused = subscribe(&gateway, &caller, "a:1").await.expect_err("it may not read it either");
    assert_eq!(refused.code(), code::INVALID_REQUEST);
    assert!(refused.raw().as_str().contains(r#""code":"forbidden""#), "{refused:?}");
    let (event_sender, mut receiver) = EventSender::new(8);
    let params =
        raw(&json!({"notifications": {"promptsListChanged": true, "resourceSubscriptions": ["a:1"]}}));
    let (id, mut caller) = (RequestId::from_u64(7), modern());
    caller.principal = reader();
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        assert!(ack.contains(r#""notifications":{"promptsListChanged":true}"#), "{ack}");
        server.say(updated("a:1"));
        assert_eq!(next_text(&mut receiver).await, None);
        lists(&server, [0, 0, 1]);
        server.say(Event::Changed(List::Prompts));
        assert!(next_text(&mut receiver).await.expect("a notice").contains("prompts/list_changed"));
    };
    tokio::select! {
        end = listen(&gateway, &caller, (&id, Some(&params)), &event_sender) => panic!("{end:?}"),
        () = heard => {}
    }
    assert_eq!(server.executed(method::RESOURCES_SUBSCRIBE), 0);
    assert_eq!((gateway.router().count(), watched(&gateway, "s")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_page_that_was_visited_is_told_to_those_who_were_sent_there() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let (caller, other) = (session(&gateway, Scope::ALL).await, session(&gateway, Scope::ALL).await);
    gateway.expect_elicitation(&caller, &"s".into(), "e-1");
    gateway.expect_elicitation(&modern(), &"s".into(), "e-1");
    let mut feeds = [&caller, &other].map(|caller| gateway.feed(caller).expect("a legacy client"));
    server.say(visited("e-1"));
    assert!(
        next_notification(&mut feeds[0])
            .await
            .expect("told")
            .ends_with(r#"{"elicitationId":"e-1","own":1}}"#)
    );
    assert_eq!(next_notification(&mut feeds[1]).await, None);
}

fn visited(id: &str) -> Event {
    let params = Some(raw(&json!({"elicitationId": id, "own": 1})));
    Event::Notice(Notification { method: method::ELICITATION_COMPLETE.into(), params })
}

#[tokio::test(start_paused = true)]
async fn an_elicitation_of_another_server_cannot_be_completed() {
    let (good, evil) = (server(), server());
    let gateway = gateway(&[("good", &good), ("evil", &evil)]).await;
    let caller = session(&gateway, Scope::ALL).await;
    gateway.expect_elicitation(&caller, &"good".into(), "e-1");
    let mut feed = gateway.feed(&caller).expect("a legacy client");
    evil.say(visited("e-1"));
    assert_eq!(next_notification(&mut feed).await, None);
    good.say(visited("e-1"));
    assert!(next_notification(&mut feed).await.expect("told").contains("e-1"));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_of_a_task_that_it_created_under_the_id_it_knows() {
    let server = Fake::new(Version::V2025_11_25);
    server.capabilities(&json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}));
    server.answer(|call| match call.method.as_str() {
        method::TOOLS_LIST => Some(Answer::Reply(Ok(raw(&json!({"tools": [
            {"name": "slow", "execution": {"taskSupport": "optional"}},
        ]}))))),
        _ => Some(Answer::Reply(Ok(raw(&json!({"task": {"taskId": "t-1", "status": "working"}}))))),
    });
    let gateway = gateway(&[("s", &server)]).await;
    let (caller, other) = (session(&gateway, Scope::ALL).await, session(&gateway, Scope::ALL).await);
    let params = json!({"name": "slow", "arguments": {}, "task": {}});
    let created = ask(&gateway, &caller, method::TOOLS_CALL, params).await.expect("a task");
    let shown: String = created.get("task").expect("a task").get_as("taskId").expect("its id");
    let mut feed = gateway.feed(&caller).expect("a legacy client");
    let mut other = gateway.feed(&other).expect("a legacy client");
    for id in ["t-1", "t-2"] {
        let params = Some(raw(&json!({"taskId": id, "status": "working"})));
        server.say(Event::Notice(Notification { method: method::TASK_STATUS.into(), params }));
    }
    let notice = next_notification(&mut feed).await.expect("told");
    assert!(notice.contains(&format!(r#"{{"status":"working","taskId":"{shown}"}}"#)), "{notice}");
    assert_eq!(next_notification(&mut feed).await, None);
    assert_eq!(next_notification(&mut other).await, None);
}
