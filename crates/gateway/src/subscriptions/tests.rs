//! Tests of the notifications to subscribers, with servers in memory and paused time.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::manager::config::Config;
use auth::Principal;
use protocol::feature::Kind;
use protocol::{Message, Request, Version};
use runtime::shutdown::Shutdown;
use upstream::fake::{self, Answer, Dial, Fake};
use upstream::{CallEvent, Event, EventReceiver};

pub(super) fn raw(json: &serde_json::Value) -> Raw {
    Raw::of(json)
}

pub(super) async fn gateway(servers: &[(&str, &Fake)]) -> Gateway {
    let configs = servers.iter().map(|(name, _)| fake::config(name)).collect();
    of_servers(configs, &servers.iter().map(|(_, fake)| *fake).collect::<Vec<_>>()).await
}

async fn of_servers(servers: Vec<upstream::Config>, fakes: &[&Fake]) -> Gateway {
    let config = Config::of(servers);
    let connectors = fakes.iter().map(|fake| fake.connector()).collect();
    let shutdown = Shutdown::new();
    let manager = crate::manager::Manager::with_connectors(config, connectors, shutdown.clone());
    manager.settled(&Scope::ALL, Duration::from_secs(1)).await;
    Gateway::new(manager, shutdown)
}

pub(super) fn server() -> Fake {
    let fake = Fake::new(Version::V2025_11_25);
    fake.capabilities(&json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}}));
    fake
}

/// Lets `server` have lists of these versions, in the order of [`List::ALL`]. Version 0 is what it has without this.
pub(super) fn lists(server: &Fake, versions: [usize; 3]) {
    server.answer(move |call| {
        let kind = [Kind::Tools, Kind::Resources, Kind::Prompts]
            .into_iter()
            .find(|kind| kind.method() == call.method)?;
        let version = versions[kind.list() as usize];
        let key = format!("x:{version}");
        let item = json!({"name": key, kind.key(): key, "inputSchema": {"type": "object"}});
        (version > 0).then(|| Answer::result(&json!({kind.member(): [item]})))
    });
}

pub(super) async fn ask(
    gateway: &Gateway,
    caller: &Caller,
    method: &str,
    params: serde_json::Value,
) -> Reply {
    let id = RequestId::from_u64(1);
    let request = Request { id, method: method.into(), params: Some(raw(&params)) };
    crate::collect(gateway.handle(caller, &request, &EventSender::none()).await, caller.version.era()).await
}

/// Makes a legacy session that has sent `initialize`.
pub(super) async fn session(gateway: &Gateway, scope: Scope) -> Caller {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let caller = Caller::legacy(Principal::anonymous(), scope, Some(&raw(&params)));
    ask(gateway, &caller, method::INITIALIZE, params).await.expect("a session");
    caller
}

pub(super) fn modern() -> Caller {
    Caller::modern(Principal::anonymous(), Scope::ALL, None)
}

/// Returns the next notification within ten seconds, as text.
pub(super) async fn next_notification(feed: &mut Feed) -> Option<String> {
    let notice = tokio::time::timeout(Duration::from_secs(10), feed.next()).await.ok()?;
    Some(text(&notice))
}

fn text(notice: &Notification) -> String {
    let message = Message::Notification(notice.clone()).encode();
    String::from_utf8(message.to_vec()).expect("UTF-8")
}

pub(super) async fn next_text(receiver: &mut EventReceiver) -> Option<String> {
    match tokio::time::timeout(Duration::from_secs(10), receiver.recv()).await.ok()?? {
        CallEvent::Notice(notice) => Some(text(&notice)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_once_however_many_streams_a_session_opens() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, Scope::ALL).await;
    let mut first = gateway.feed(&caller).expect("a legacy client");
    assert_eq!(next_notification(&mut first).await, None, "nothing happened yet");
    drop(first);

    lists(&server, [0, 0, 1]);
    server.say(Event::Changed(List::Prompts));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let changed = Some(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#.to_owned());
    let mut second = gateway.feed(&caller).expect("a legacy client");
    assert_eq!(next_notification(&mut second).await, changed, "between two streams");
    assert_eq!(next_notification(&mut second).await, None);
    assert_eq!(next_notification(&mut gateway.feed(&caller).expect("a legacy client")).await, None);

    server.say(Event::Changed(List::Prompts));
    assert_eq!(next_notification(&mut second).await, None, "nothing changed");
    lists(&server, [0, 0, 2]);
    server.say(Event::Changed(List::Prompts));
    assert_eq!(next_notification(&mut second).await, changed, "and again when it changed again");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_within_a_second() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let caller = session(&gateway, Scope::ALL).await;
    let mut feed = gateway.feed(&caller).expect("a legacy client");
    let mut versions = [0; 3];
    for list in List::ALL {
        let started = tokio::time::Instant::now();
        versions[list as usize] += 1;
        lists(&server, versions);
        server.say(Event::Changed(list));
        assert!(next_notification(&mut feed).await.expect("told").contains(list.changed()));
        // The longest delay is right after another change: its discovery, and the shortest pause between two.
        assert!(started.elapsed() <= Duration::from_millis(600), "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_hears_what_it_asked_for_under_its_own_id() {
    let server = server();
    let gateway = gateway(&[("s", &server)]).await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let params = raw(&json!({"notifications": {"promptsListChanged": true, "unknown": true}}));
    let (id, caller) = (RequestId::from_u64(7), modern());
    let listening = listen(&gateway, &caller, (&id, Some(&params)), &event_sender);
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        lists(&server, [1, 1, 0]);
        server.say(Event::Changed(List::Tools));
        server.say(Event::Changed(List::Resources));
        assert_eq!(next_text(&mut receiver).await, None, "it did not ask for these");
        lists(&server, [1, 1, 1]);
        server.say(Event::Changed(List::Prompts));
        let notice = next_text(&mut receiver).await.expect("a notice");
        gateway.shutdown.begin();
        (ack, notice)
    };
    let (end, (ack, notice)) = tokio::join!(listening, heard);
    let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
    assert_eq!(
        ack,
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"promptsListChanged":true}},{tag}}}}}"#
        )
    );
    assert_eq!(
        notice,
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{{{tag}}}}}"#)
    );
    assert!(end.expect("a result").as_str().contains(r#""io.modelcontextprotocol/subscriptionId":7"#));
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_list_that_no_server_has_are_not_promised() {
    let server = Fake::new(Version::V2025_11_25);
    let gateway = gateway(&[("s", &server)]).await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let params = raw(&json!({ "notifications": all }));
    let (id, caller) = (RequestId::from_u64(7), modern());
    tokio::select! {
        end = listen(&gateway, &caller, (&id, Some(&params)), &event_sender) => panic!("{end:?}"),
        ack = next_text(&mut receiver) => {
            assert!(ack.expect("said").contains(r#""notifications":{"toolsListChanged":true}"#));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_listens_before_a_server_connects_is_notified_of_all_its_lists() {
    let (server, other) = (server(), Fake::new(Version::V2025_11_25));
    server.dial(Dial::Refuse);
    server.answer(|call| {
        let lists = match call.method.as_str() {
            method::PROMPTS_LIST => json!({"prompts": [{"name": "p"}]}),
            method::RESOURCES_LIST => json!({"resources": [{"uri": "a:1", "name": "r"}]}),
            method::RESOURCE_TEMPLATES_LIST => json!({"resourceTemplates": []}),
            _ => return None,
        };
        Some(Answer::result(&lists))
    });
    let gateway = gateway(&[("s", &server), ("t", &other)]).await;
    let (event_sender, mut receiver) = EventSender::new(8);
    let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    let params = raw(&json!({ "notifications": all }));
    let (id, caller) = (RequestId::from_u64(7), modern());
    let heard = async {
        let ack = next_text(&mut receiver).await.expect("an acknowledgement");
        assert!(List::ALL.iter().all(|list| ack.contains(list.filter())), "{ack}");
        server.dial(Dial::Accept);
        tokio::time::sleep(Duration::from_mins(5)).await;
        let mut notices = Vec::new();
        while let Some(notice) = next_text(&mut receiver).await {
            notices.push(notice);
        }
        for list in List::ALL {
            let count = notices.iter().filter(|notice| notice.contains(list.changed())).count();
            assert_eq!(count, 1, "{list:?}: {notices:?}");
        }
        assert_eq!(notices.len(), List::ALL.len(), "{notices:?}");
    };
    tokio::select! {
        end = listen(&gateway, &caller, (&id, Some(&params)), &event_sender) => panic!("{end:?}"),
        () = heard => {}
    }
    let at_other = Scope::of_server("t");
    let lists = honoured(&gateway.manager().snapshot(), &at_other, &raw(&all));
    assert_eq!(lists, Lists::NONE.with(List::Tools), "that one was heard");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_switched_off_is_not_waited_for() {
    let mut off = fake::config("s");
    off.enabled = false;
    let gateway = of_servers(vec![off], &[&server()]).await;
    let all = raw(&json!({"toolsListChanged": true, "promptsListChanged": true}));
    let lists = honoured(&gateway.manager().snapshot(), &Scope::ALL, &all);
    assert_eq!(lists, Lists::NONE.with(List::Tools));
}
