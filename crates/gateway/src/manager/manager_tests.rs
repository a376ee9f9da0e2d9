//! The facade over servers in memory, under paused time.

use super::*;
use protocol::Version;
use protocol::feature::Kind;
use protocol::feature::List;
use upstream::Event;
use upstream::fake::{self, Answer, Dial, Fake};

fn manager(servers: &[(&str, &Fake)]) -> Arc<Manager> {
    let config = Config::of(servers.iter().map(|(name, _)| fake::config(name)).collect());
    let connectors = servers.iter().map(|(_, fake)| fake.connector()).collect();
    Manager::with_connectors(config, connectors, Shutdown::new())
}

fn server(tools: &[&'static str]) -> Fake {
    let fake = Fake::new(Version::V2025_11_25);
    fake.tools(tools);
    fake
}

fn offered(manager: &Manager) -> Vec<String> {
    let tools = manager.list_tools(None).expect("all scopes exist");
    tools.into_iter().map(|entry| entry.exposed).collect()
}

/// Waits until a condition holds, as long as something changes within a minute.
async fn until(manager: &Manager, holds: impl Fn() -> bool) {
    let mut changes = manager.changes();
    while !holds() {
        let news = tokio::time::timeout(Duration::from_mins(1), changes.changed()).await;
        assert!(news.is_ok(), "nothing changes any more, there are {:?}", offered(manager));
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn calls_go_to_whoever_owns_the_name() {
    let (a, b) = (server(&["shared", "only_a"]), server(&["shared", "only_b"]));
    let manager = manager(&[("a", &a), ("b", &b)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let none = Raw::empty_object();

    let called = manager.route_tool("only_b", &none, None).await.expect("called");
    assert_eq!((called.server.as_ref(), called.subject.as_ref()), ("b", "only_b"));
    let called = manager.route_tool("a__shared", &none, None).await.expect("called");
    assert_eq!((called.server.as_ref(), called.subject.as_ref()), ("a", "shared"));
    let called = manager.call_tool("b", "shared", &none, None).await.expect("called");
    assert_eq!((called.server.as_ref(), called.subject.as_ref()), ("b", "shared"));
    assert_eq!((a.executed("tools/call"), b.executed("tools/call")), (1, 2));

    let refused = manager.route_tool("shared", &none, None).await.expect_err("two own it");
    let candidates = vec!["a__shared".to_owned(), "b__shared".to_owned()];
    assert_eq!(
        refused,
        Error::Ambiguous { kind: ItemKind::Tool, name: "shared".into(), candidates, before: None }
    );
    assert!(matches!(
        manager.call_tool("c", "shared", &none, None).await,
        Err(Error::ServerNotFound { server, .. }) if server == "c"
    ));
    assert!(matches!(
        manager.call_tool("a", "only_b", &none, None).await,
        Err(Error::NameNotFound { server: Some(server), .. }) if &*server == "a"
    ));
    assert_eq!((a.executed("tools/call"), b.executed("tools/call")), (1, 2), "refusals reach nobody");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_and_comes_back_changes_neither_names_nor_list() {
    let (a, b) = (server(&["shared"]), server(&["shared"]));
    let manager = manager(&[("a", &a), ("b", &b)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let page = || {
        let snapshot = manager.snapshot();
        let listing = snapshot.catalog(&Scope::ALL).expect("there").listing(Kind::Tools);
        listing.page(None, Version::NEWEST_MODERN).expect("one").items()
    };
    let (before, revision) = (page(), manager.snapshot().revisions(&Scope::ALL));

    b.dial(Dial::Refuse);
    b.die("killed");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(page(), before, "away");
    assert!(manager.route_tool("b__shared", &Raw::empty_object(), None).await.is_err());
    assert!(manager.route_tool("a__shared", &Raw::empty_object(), None).await.is_ok(), "a is not hurt");

    b.dial(Dial::Accept);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(page(), before, "back");
    assert_eq!(manager.snapshot().revisions(&Scope::ALL), revision, "nobody was told of a change");
    assert!(manager.route_tool("b__shared", &Raw::empty_object(), None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_start_delays_nobody_and_appears_later() {
    let (up, down) = (server(&["early"]), server(&["late"]));
    down.dial(Dial::Refuse);
    let started = Instant::now();
    let manager = manager(&[("up", &up), ("down", &down)]);
    manager.settled(&Scope::ALL, Duration::from_mins(1)).await;
    assert!(started.elapsed() < SECOND, "{:?}", started.elapsed());
    assert_eq!(offered(&manager), ["early"]);
    let status = manager.server("down").expect("listed");
    assert!(status.status.last_error.is_some(), "it says why");

    down.dial(Dial::Accept);
    until(&manager, || offered(&manager) == ["early", "late"]).await;
}

#[tokio::test(start_paused = true)]
async fn lists_wait_for_each_server_only_after_its_own_start() {
    let (hung, slow) = (server(&["never"]), server(&["late"]));
    hung.dial(Dial::Hang);
    slow.dial(Dial::AcceptAfter(Duration::from_millis(100)));
    let (of_hung, started) = (fake::config("hung"), Instant::now());
    let config = Config::of(vec![of_hung.clone()]);
    let manager = Manager::with_connectors(config, vec![hung.connector()], Shutdown::new());
    manager.listable(&Scope::ALL).await;
    let waited = started.elapsed();
    assert!((Duration::from_millis(300)..SECOND).contains(&waited), "{waited:?}");

    let config = Config::of(vec![of_hung, fake::config("slow")]);
    manager.apply_with(config, |_| Ok(slow.connector())).await.expect("applied");
    let started = Instant::now();
    manager.listable(&Scope::ALL).await;
    let waited = started.elapsed();
    assert!((Duration::from_millis(90)..Duration::from_millis(200)).contains(&waited), "{waited:?}");
    assert_eq!(offered(&manager), ["late"]);
}

#[tokio::test(start_paused = true)]
async fn lists_wait_for_the_tools_of_a_server_that_is_ready_already() {
    let (slow, hung) = (server(&["late"]), server(&["never"]));
    slow.dial(Dial::AcceptAfter(SECOND));
    hung.dial(Dial::Hang);
    let manager = manager(&[("slow", &slow), ("hung", &hung)]);
    let before = manager.snapshot();
    until(&manager, || offered(&manager) == ["late"]).await;
    // This list comes between the new state of the server and the snapshot with its tools.
    assert!(before.listable_at(&Scope::of_server("slow")).is_some());
    assert!(before.listable_at(&Scope::of_server("hung")).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_waits_for_servers_that_are_starting_but_not_for_ever() {
    let (slow, hung) = (server(&["late"]), server(&["never"]));
    slow.dial(Dial::AcceptAfter(Duration::from_secs(3)));
    hung.dial(Dial::Hang);
    let manager = manager(&[("slow", &slow), ("hung", &hung)]);
    let none = Raw::empty_object();
    let called = manager.route_tool("late", &none, None).await.expect("known after three seconds");
    assert_eq!(called.server.as_ref(), "slow");

    let started = Instant::now();
    assert!(matches!(manager.route_tool("never", &none, None).await, Err(Error::NameNotFound { .. })));
    assert!(started.elapsed() <= STARTUP_GRACE);
    let started = Instant::now();
    assert!(matches!(manager.route_tool("never", &none, None).await, Err(Error::NameNotFound { .. })));
    manager.listable(&Scope::ALL).await;
    assert_eq!(started.elapsed(), Duration::ZERO, "one that hangs is waited for once");
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_one_change_for_those_who_see_it() {
    let (a, b) = (server(&["x"]), server(&["y"]));
    let manager = manager(&[("a", &a), ("b", &b)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let revisions = || {
        let snapshot = manager.snapshot();
        [Scope::ALL, Scope::of_server("a"), Scope::of_server("b")]
            .map(|scope| List::ALL.map(|list| snapshot.revisions(&scope).of(list)))
    };
    let [[all, ..], [mine, ..], others] = revisions();
    a.tools(&["x", "x2"]);
    a.say_changed();
    until(&manager, || offered(&manager) == ["x", "x2", "y"]).await;
    assert_eq!(revisions(), [[all + 1, 0, 0], [mine + 1, 0, 0], others]);
}

#[tokio::test(start_paused = true)]
async fn only_a_list_that_changed_counts_as_changed_whatever_its_server_says() {
    let (a, b) = (server(&["x"]), server(&["y"]));
    let manager = manager(&[("a", &a), ("b", &b)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let tools = |scope| manager.snapshot().revisions(&scope).of(List::Tools);
    let before = [Scope::ALL, Scope::of_server("a"), Scope::of_server("b")].map(tools);
    a.say(Event::Changed(List::Tools));
    a.say(Event::Missed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(tools(Scope::ALL), before[0], "it reads the same");
    a.tools(&["x", "z"]);
    a.say(Event::Changed(List::Tools));
    a.say(Event::Changed(List::Tools));
    until(&manager, || tools(Scope::ALL) > before[0]).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = [Scope::ALL, Scope::of_server("a"), Scope::of_server("b")].map(tools);
    assert_eq!(after, [before[0] + 1, before[1] + 1, before[2]], "said twice in one breath");
    assert_eq!(manager.snapshot().revisions(&Scope::ALL).of(List::Resources), 0);
}

#[tokio::test(start_paused = true)]
async fn one_deadline_covers_everything_and_the_server_is_named() {
    let slow = server(&["slow"]);
    slow.answer_calls(Answer::Silence);
    let manager = manager(&[("s", &slow)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let started = Instant::now();
    let error = manager.route_tool("slow", &Raw::empty_object(), Some(SECOND)).await.expect_err("no answer");
    assert!(started.elapsed() < SECOND * 2);
    let Error::Upstream { server, tool, source, .. } = error else { panic!("{error}") };
    assert_eq!((server.as_ref(), tool.as_deref()), ("s", Some("slow")));
    assert!(matches!(source, upstream::Error::TimedOut { .. }));
    assert_eq!((slow.executed("tools/call"), slow.open_requests()), (1, 0), "once, and cancelled");
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_a_server_out_and_in_again() {
    let fake = server(&["x"]);
    let manager = manager(&[("s", &fake)]);
    manager.settled(&Scope::ALL, SECOND).await;
    manager.disconnect("s").await.expect("disconnected");
    assert_eq!(fake.live(), 0);
    let refused = manager.route_tool("x", &Raw::empty_object(), None).await.expect_err("out of use");
    assert!(matches!(refused, Error::Upstream { source: upstream::Error::Unavailable { .. }, .. }));
    manager.reconnect("s", None).await.expect("back");
    assert!(manager.route_tool("x", &Raw::empty_object(), None).await.is_ok());
    assert!(manager.shutdown(Duration::from_mins(1)).await, "nothing is left");
    assert_eq!(fake.live(), 0);
}

/// A server with prompts and resources beside its tools.
fn library(prompts: &'static [&'static str], resources: &'static [&'static str]) -> Fake {
    let fake = Fake::new(Version::V2025_11_25);
    fake.capabilities(&serde_json::json!({"tools": {}, "prompts": {}, "resources": {}}));
    fake.answer(move |call| {
        let list = |member: &str, key: &str, all: &[&str]| {
            let items: Vec<_> = all.iter().map(|one| serde_json::json!({key: one})).collect();
            Some(Answer::result(&serde_json::json!({member: items})))
        };
        match call.method.as_str() {
            "prompts/list" => list("prompts", "name", prompts),
            "resources/list" => list("resources", "uri", resources),
            "resources/templates/list" => list("resourceTemplates", "uriTemplate", &[]),
            _ => None,
        }
    });
    fake
}

#[tokio::test(start_paused = true)]
async fn prompts_and_uris_wait_for_servers_that_are_starting() {
    let (early, late) = (library(&["p"], &["test://x"]), library(&["q"], &["test://y"]));
    late.dial(Dial::AcceptAfter(Duration::from_secs(3)));
    let manager = manager(&[("early", &early), ("late", &late)]);
    let none = upstream::Call::of_gateway("", Some(Raw::empty_object()));
    let started = Instant::now();
    let found = manager.places(&Scope::ALL, "test://x", None).await.expect("listed");
    assert_eq!((found.len(), started.elapsed()), (1, Duration::ZERO), "who is known is not waited for");
    let found = manager.places(&Scope::ALL, "test://y", None).await.expect("listed");
    assert_eq!((found.len(), found[0].server.as_ref()), (1, "late"));
    let target = manager.prompt_request(&Scope::ALL, "late__q", none.clone(), None).await.expect("known");
    assert_eq!((target.server_name().as_ref(), target.subject.as_ref()), ("late", "q"));
    assert!(started.elapsed() <= Duration::from_secs(4));

    let missing =
        manager.prompt_request(&Scope::ALL, "r", none.clone(), None).await.expect_err("nobody has it");
    assert!(matches!(missing, Error::NameNotFound { kind: ItemKind::Prompt, .. }));
    let guessed = manager.resource_requests(&Scope::ALL, "test://z", &none).await.expect("two may");
    assert_eq!(
        guessed.iter().map(|target| target.server_name().as_ref()).collect::<Vec<_>>(),
        ["early", "late"]
    );
    let alone = Scope::of_server("late");
    let alone = manager.resource_requests(&alone, "test://early/x", &none).await.expect("asked");
    assert_eq!((alone.len(), alone[0].subject.as_ref()), (1, "test://early/x"), "verbatim");
}

#[tokio::test(start_paused = true)]
async fn each_list_counts_its_own_changes() {
    let fake = library(&["p"], &["test://x"]);
    let manager = manager(&[("s", &fake)]);
    manager.settled(&Scope::ALL, SECOND).await;
    let before = manager.snapshot().revisions(&Scope::ALL);
    fake.tools(&["echo", "echo2"]);
    fake.say_changed();
    until(&manager, || offered(&manager).len() == 2).await;
    let after = manager.snapshot().revisions(&Scope::ALL);
    let changed = List::ALL.map(|list| after.of(list) - before.of(list));
    assert_eq!((List::ALL, changed), ([List::Tools, List::Resources, List::Prompts], [1, 0, 0]));
    let status = manager.server("s").expect("listed");
    assert_eq!([status.tools, status.resources, status.templates, status.prompts], [2, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_announces_nothing_is_read_again_and_others_are_not() {
    let (silent, loud) = (Fake::new(Version::V2026_07_28), Fake::new(Version::V2026_07_28));
    loud.capabilities(&serde_json::json!({"tools": {"listChanged": true}}));
    silent.tools(&["before"]);
    let manager = manager(&[("silent", &silent), ("loud", &loud)]);
    manager.settled(&Scope::ALL, SECOND).await;
    silent.tools(&["after"]);
    until(&manager, || offered(&manager).contains(&"after".to_owned())).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let read = silent.executed("tools/list");
    assert!((5..20).contains(&read), "read {read} times in an hour, ever more seldom");
    assert_eq!(loud.executed("tools/list"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mistyped_denial_is_among_the_problems_of_its_server() {
    let a = server(&["read_file", "delete_file", "delete_folder"]);
    let mut config = fake::config("a");
    config.tools.deny = ["delete_fil", "delete_fol*"].map(str::to_owned).into();
    let manager = Manager::with_connectors(Config::of(vec![config]), vec![a.connector()], Shutdown::new());
    manager.settled(&Scope::ALL, SECOND).await;
    assert_eq!(offered(&manager), ["read_file", "delete_file"]);
    let problems = manager.server("a").expect("there").status.problems;
    assert_eq!(
        problems,
        ["`tools.deny` names `delete_fil`, and it has no such tool; the nearest is `delete_file`"]
    );
}

#[tokio::test(start_paused = true)]
async fn parameter_mirrored_in_a_header_is_sent_once_or_not_at_all() {
    let fake = Fake::new(Version::V2026_07_28);
    fake.answer(|call| {
        let region = serde_json::json!({"type": "string", "x-mcp-header": "Region"});
        let schema = serde_json::json!({"type": "object", "properties": {"region": region}});
        let tools = serde_json::json!({"tools": [{"name": "move", "inputSchema": schema}]});
        (call.method == "tools/list").then(|| Answer::result(&tools))
    });
    let mut config = fake::config("a");
    let url = "http://localhost/mcp".parse().expect("a URL");
    config.transport = upstream::config::Transport::Http(upstream::config::Http::at(url));
    let manager = Manager::with_connectors(Config::of(vec![config]), vec![fake.connector()], Shutdown::new());
    manager.settled(&Scope::ALL, SECOND).await;

    let of = |json: &'static str| Raw::parse(&bytes::Bytes::from_static(json.as_bytes())).expect("JSON");
    assert!(manager.route_tool("move", &of(r#"{"region":"us"}"#), None).await.is_ok());
    let twice = manager.route_tool("move", &of(r#"{"region":"us","region":"eu"}"#), None).await;
    assert!(
        matches!(&twice, Err(Error::AmbiguousArgument { member, .. }) if member == "arguments.region"),
        "{twice:?}"
    );
    let error_text = twice.expect_err("twice").to_string();
    assert!(error_text.contains("\"arguments.region\"") && error_text.contains("once"), "{error_text}");
    assert_eq!(fake.executed("tools/call"), 1);
}
