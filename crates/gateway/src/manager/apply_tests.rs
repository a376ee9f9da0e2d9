//! Another configuration over servers in memory, under paused time.

use std::time::Duration;

use super::*;
use crate::manager::{Error, Scope};
use json::Raw;
use protocol::feature::List;
use protocol::{ErrorObject, Version};
use runtime::shutdown::Shutdown;
use upstream::fake::{self, Answer, Dial, Fake};
use upstream::{State, Subject};

fn config(servers: Vec<upstream::Config>) -> Config {
    Config::of(servers)
}

fn server(tools: &[&'static str]) -> Fake {
    let fake = Fake::new(Version::V2025_11_25);
    fake.tools(tools);
    fake
}

/// A manager of servers called `a` and `b`, both up, and their settings.
async fn two(a: &Fake, b: &Fake) -> (Arc<Manager>, [upstream::Config; 2]) {
    let servers = ["a", "b"].map(fake::config);
    let connectors = vec![a.connector(), b.connector()];
    let manager = Manager::with_connectors(config(servers.to_vec()), connectors, Shutdown::new());
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    (manager, servers)
}

/// `server` with other settings.
fn changed(server: &upstream::Config) -> upstream::Config {
    upstream::Config { source: settings::Fingerprint::default(), ..server.clone() }
}

fn offered(manager: &Manager) -> Vec<String> {
    let tools = manager.list_tools(None).expect("all scopes exist");
    tools.into_iter().map(|entry| entry.exposed).collect()
}

fn names(list: &[Arc<str>]) -> Vec<&str> {
    list.iter().map(AsRef::as_ref).collect()
}

async fn call(manager: &Manager, server: &str) -> Result<super::super::CallResponse, Error> {
    manager.call_tool(server, "t", &Raw::empty_object(), None).await
}

#[tokio::test(start_paused = true)]
async fn unchanged_servers_continue_while_others_are_added_and_removed() {
    let (a, b, c) = (server(&["t", "of_a"]), server(&["t"]), server(&["of_c"]));
    c.dial(Dial::AcceptAfter(Duration::from_secs(2)));
    let (manager, [of_a, _]) = two(&a, &b).await;
    let before = manager.snapshot();
    let revision = before.revisions(&Scope::ALL).of(List::Tools);
    assert_eq!(offered(&manager), ["a__t", "of_a", "b__t"]);

    let next = config(vec![fake::config("c"), of_a]);
    let applied = manager.apply_with(next, |_| Ok(c.connector())).await.expect("applied");
    let Applied { added, changed, removed, unchanged, .. } = &applied;
    assert_eq!(
        [added, changed, removed, unchanged].map(|list| names(list)),
        [vec!["c"], vec![], vec!["b"], vec!["a"]]
    );
    assert_eq!(offered(&manager), ["t", "of_a"], "b is gone at once, and with it the clash");
    let now = manager.snapshot();
    assert!(now.has_started() && !now.is_settled(&Scope::ALL), "nobody waits for the gateway because of c");
    assert!(
        matches!(call(&manager, "b").await, Err(Error::ServerNotFound { available, .. }) if available == ["c", "a"])
    );
    call(&manager, "a").await.expect("as before");

    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    assert_eq!(offered(&manager), ["of_c", "t", "of_a"], "in the order of the new file");
    let now = manager.snapshot();
    let upstream = |snapshot: &Snapshot| Arc::clone(&snapshot.server("a").expect("there").upstream);
    assert!(Arc::ptr_eq(&upstream(&before), &upstream(&now)));
    assert_eq!(a.connects(), 1, "nobody connected to it again");
    assert!(now.revisions(&Scope::ALL).of(List::Tools) > revision, "clients are told");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(b.live(), 0, "nobody holds a connection to what is gone");
    assert!(manager.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn a_changed_server_is_replaced_without_its_names_going_away() {
    let (a, b, next_a) = (server(&["t"]), server(&["u"]), server(&["t", "new"]));
    next_a.dial(Dial::AcceptAfter(Duration::from_secs(2)));
    a.answer_calls(Answer::After(Duration::from_secs(5), Ok(Raw::empty_object())));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    let running = tokio::join!(call(&manager, "a"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let next = config(vec![changed(&of_a), of_b.clone()]);
        let applied = manager.apply_with(next, |_| Ok(next_a.connector())).await.expect("applied");
        assert_eq!((names(&applied.changed), names(&applied.unchanged)), (vec!["a"], vec!["b"]));
        assert_eq!(offered(&manager), ["t", "u"], "before the new one was asked");
        call(&manager, "a").await.expect("by the new one, as soon as it is up");
        assert_eq!((a.executed("tools/call"), next_a.executed("tools/call")), (1, 1));
    });
    running.0.expect("a call that ran ends where it began");
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    assert_eq!(offered(&manager), ["t", "new", "u"]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((a.live(), next_a.live()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn how_long_calls_took_is_counted_by_how_they_ended_and_outlives_a_reload() {
    let (a, b, next_a) = (server(&["t"]), server(&["u"]), server(&["t"]));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    a.answer_calls(Answer::After(Duration::from_secs(3), Ok(Raw::empty_object())));
    call(&manager, "a").await.expect("after three seconds");
    for text in [r#"{"content":[],"isError":true}"#, r#"{"isError":false,"content":[{"isError":true}]}"#] {
        a.answer_calls(Answer::Reply(Ok(Raw::parse(&text.into()).expect("JSON"))));
        call(&manager, "a").await.expect("a result").reply.expect("a result");
    }
    a.answer_calls(Answer::Reply(Err(ErrorObject::new(-32602, "no such city"))));
    call(&manager, "a").await.expect("an answer").reply.expect_err("an error");
    a.answer_calls(Answer::Fail(upstream::Error::Lost { reason: "on purpose".into() }));
    call(&manager, "a").await.expect_err("it is lost");
    manager.disconnect("a").await.expect("done");
    call(&manager, "a").await.expect_err("it is refused");
    let counted = || manager.server("a").expect("it is there").durations.counted();
    let [result, tool_error, rpc_error, failed, refused] = counted();
    assert_eq!(result.sum, Duration::from_secs(3));
    let all = [&result, &tool_error, &rpc_error, &failed, &refused];
    assert_eq!(all.map(|one| one.buckets.iter().sum::<u64>()), [2, 1, 1, 1, 1]);
    let next = config(vec![changed(&of_a), of_b]);
    manager.apply_with(next, |_| Ok(next_a.connector())).await.expect("applied");
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    call(&manager, "a").await.expect("by the new one");
    assert_eq!(counted()[0].buckets.iter().sum::<u64>(), 3);
    assert_eq!(counted()[4], refused);
}

#[tokio::test(start_paused = true)]
async fn another_target_offers_nothing_until_it_was_asked() {
    let (a, b, other) = (server(&["t"]), server(&["u"]), server(&["v"]));
    other.dial(Dial::AcceptAfter(Duration::from_secs(2)));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    let elsewhere = upstream::Config { target: "elsewhere".into(), ..changed(&of_a) };
    let off = upstream::Config { enabled: false, ..changed(&of_b) };
    manager.apply_with(config(vec![elsewhere, off]), |_| Ok(other.connector())).await.expect("applied");
    assert_eq!(offered(&manager), [""; 0], "its old tools are not its own, and b is disabled");
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    assert_eq!(offered(&manager), ["v"]);
}

#[tokio::test(start_paused = true)]
async fn a_further_request_of_a_call_obeys_a_reload_since_its_first() {
    use upstream::config::Tools;
    use upstream::{Call, EventSender, Owner};

    let tools = |allow: Option<&str>, deny: &[&str]| Tools {
        allow: allow.map(|tool| vec![tool.to_owned()]),
        deny: deny.iter().map(ToString::to_string).collect(),
        ..Tools::default()
    };
    for (policy, may) in
        [(tools(None, &["t"]), false), (tools(Some("u"), &[]), false), (tools(Some("t"), &["u"]), true)]
    {
        let (a, b, next_a) = (server(&["t", "u"]), server(&["v"]), server(&["t", "u"]));
        let (manager, [of_a, of_b]) = two(&a, &b).await;
        let params = Raw::of(&serde_json::json!({"name": "t", "arguments": {}}));
        let call = Call { owner: Owner::new(), ..Call::of_gateway("tools/call", Some(params)) };
        let found = manager.tool_request(&Scope::ALL, "t", call, None).await.expect("offered");
        let stricter = upstream::Config { tools: policy, ..changed(&of_a) };
        manager.apply_with(config(vec![stricter, of_b]), |_| Ok(next_a.connector())).await.expect("applied");
        let renewed = manager.renewed(found).expect("the server is there");
        let called = manager.call(&renewed, &EventSender::none()).await;
        let is_unknown = matches!(&called, Err(Error::NameNotFound { name, .. }) if name == "t");
        assert_eq!((called.is_ok(), is_unknown), (may, !may), "{called:?}");
        assert_eq!((a.executed("tools/call"), next_a.executed("tools/call")), (0, usize::from(may)));
        manager.apply_with(config(Vec::new()), |_| Ok(next_a.connector())).await.expect("applied");
        assert!(matches!(manager.renewed(renewed), Err(Error::ServerNotFound { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn a_further_request_of_a_call_obeys_a_view_that_was_narrowed_since_its_first() {
    use upstream::{Affinity, Call, Owner};

    let scope = Scope::of_view("v");
    for (deny, may) in [(["a/t"].as_slice(), false), (["a/u"].as_slice(), true)] {
        let (a, b) = (server(&["t", "u"]), server(&["v"]));
        let (manager, [of_a, of_b]) = two(&a, &b).await;
        let apply = async |deny: &[&str]| {
            let views =
                vec![Arc::new(crate::manager::View::of("v", Some(&["a"]), None, deny).expect("rules"))];
            let config = Config { views, ..config(vec![of_a.clone(), of_b.clone()]) };
            manager.apply_with(config, |_| unreachable!("no server is new")).await.expect("applied");
        };
        apply(&[]).await;
        let params = Raw::of(&serde_json::json!({"name": "t", "arguments": {}}));
        let affinity = Affinity::of_program("p".into(), None).through(scope.view.clone());
        let call = Call::of_gateway("tools/call", Some(params));
        let call = Call { owner: Owner::new(), affinity: Some(affinity.clone()), ..call };
        let viewer = crate::manager::Viewer { scope: &scope, affinity: Some(&affinity) };
        let found = manager.tool_request(viewer, "t", call, None).await.expect("offered");
        apply(deny).await;
        let renewed = manager.renewed(found);
        let is_unknown = matches!(&renewed, Err(Error::NameNotFound { name, .. }) if name == "t");
        assert_eq!((renewed.is_ok(), is_unknown), (may, !may), "{renewed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_used_changes_nothing() {
    let (a, b) = (server(&["t"]), server(&["u"]));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    let before = manager.snapshot();
    let next = config(vec![changed(&of_b), changed(&of_a)]);
    let broken = |server: &upstream::Config| match server.name.as_ref() {
        "a" => Err(upstream::Error::Connect { reason: "no".into() }),
        _ => Ok(b.connector()),
    };
    manager.apply_with(next, broken).await.expect_err("a cannot be made");
    assert!(Arc::ptr_eq(&before, &manager.snapshot()));
    call(&manager, "a").await.expect("as before");
    assert_eq!((a.connects(), b.connects()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn subscriber_is_notified_by_the_replacement_server() {
    let (a, b, next_a) = (server(&["t"]), server(&["u"]), server(&["t"]));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    let mut notices = manager.notices();
    let watched = manager
        .watch((&"key:a".into(), None), "a", Subject::Resource("file:///x".into()))
        .await
        .expect("a is up");
    let (_, _watching) = watched.expect("it agrees");
    let next = config(vec![changed(&of_a), of_b]);
    manager.apply_with(next, |_| Ok(next_a.connector())).await.expect("applied");
    let change = notices.recv().await.expect("told");
    assert_eq!(change.server.as_ref(), "a");
    assert!(change.notice.is_none(), "it may have changed while nobody listened");
    assert_eq!(next_a.executed("resources/subscribe"), 1);
}

#[tokio::test(start_paused = true)]
async fn disabled_server_ends_with_its_calls_and_returns_when_it_is_enabled() {
    let (a, b) = (server(&["t"]), server(&["u"]));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    a.answer_calls(Answer::After(Duration::from_secs(3), Ok(Raw::empty_object())));
    let running = call(&manager, "a");
    let disabled = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = manager.set_enabled("a", false).await.expect("disabled");
        assert_eq!((status.status.state, status.config.enabled), (State::Disabled, false));
        assert_eq!(offered(&manager), ["u"]);
        let refused = call(&manager, "a").await.expect_err("it is disabled");
        assert!(refused.problem().hint.contains("/servers/a/enable"), "{}", refused.problem().hint);
    };
    let (ended, ()) = tokio::join!(running, disabled);
    ended.expect("a call that ran ends where it began");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((a.live(), b.live()), (0, 1), "its connections have ended, and only its own");
    manager.reconnect("a", None).await.expect_err("it is disabled");
    let status = manager.set_enabled("a", true).await.expect("enabled");
    assert_eq!(status.status.state, State::Ready);
    assert_eq!(offered(&manager), ["t", "u"]);
    let same = manager.apply_with(config(vec![of_a, of_b]), |_| panic!("nothing changed")).await;
    assert_eq!(same.expect("applied").unchanged.len(), 2);
    manager.set_enabled("nowhere", true).await.expect_err("no such server");
}

#[tokio::test(start_paused = true)]
async fn configuration_decides_again_whether_a_server_is_enabled() {
    let (a, b, next_a) = (server(&["t"]), server(&["u"]), server(&["t"]));
    let (manager, [of_a, of_b]) = two(&a, &b).await;
    manager.set_enabled("a", false).await.expect("disabled");
    let applied = manager.apply_with(config(vec![of_a, of_b]), |_| Ok(next_a.connector())).await;
    assert_eq!(applied.expect("applied").changed, [Arc::from("a")]);
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    assert_eq!(offered(&manager), ["t", "u"]);
}
