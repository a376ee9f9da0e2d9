//! Tests of trust: which changes are found, which definitions are stored, and how the manager uses them.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::manager::config::Config;
use crate::manager::{CallResponse, Manager, Scope};
use protocol::feature::Tool;
use protocol::{Version, method};
use runtime::shutdown::Shutdown;
use upstream::fake::{self, Answer, Fake};
use upstream::{Call, EventSender, Owner};

/// The names and definitions of `tools`.
fn pairs(tools: &[Tool]) -> impl Iterator<Item = (&str, &Raw)> {
    tools.iter().map(|tool| (tool.name.as_str(), &tool.definition))
}

fn tool(text: &str) -> Tool {
    Tool::from_definition(Raw::parse(&Bytes::from(text.to_owned())).expect("JSON")).expect("a tool")
}

/// Makes the tool `name` with this description.
fn saying(name: &str, description: &str) -> Tool {
    tool(&json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string())
}

/// Returns the configuration of an operator.
fn choice(on_change: OnChange) -> Tools {
    Tools { on_change, ..Tools::default() }
}

/// Returns the state after a server listed each of `lists`.
fn seen(lists: &[&[Tool]]) -> Trust {
    lists.iter().fold(Trust::default(), |trust, tools| {
        trust.reviewed(pairs(tools), &choice(OnChange::Block), Holding::default())
    })
}

fn changed(trust: &Trust) -> Vec<(&str, Vec<&'static str>)> {
    trust.changes().map(|change| (change.tool.as_str(), change.changed.clone())).collect()
}

#[test]
fn a_change_is_told_by_the_members_that_changed() {
    let first = r#"{"name":"t","title":"T","description":"d","inputSchema":{"a":1,"b":[2]},"x":1,"y":2}"#;
    for (second, expected) in [
        (first, None),
        (
            r#"{ "y":2, "x":1, "inputSchema":{"b":[2],"a":1},"description":"\u0064","title":"T","name":"t"}"#,
            None,
        ),
        (
            r#"{"name":"t","title":"T","description":"e","inputSchema":{"a":1,"b":[2]},"x":1,"y":2}"#,
            Some(vec!["description"]),
        ),
        (
            r#"{"name":"t","title":"T","description":"d","inputSchema":{"a":1,"b":[2.0]},"x":1,"y":2}"#,
            Some(vec!["inputSchema"]),
        ),
        (
            r#"{"name":"t","title":"T","description":"d","inputSchema":{"a":1,"b":[2]},"x":1}"#,
            Some(vec!["other members"]),
        ),
        (
            r#"{"name":"t","title":"T","description":"d","inputSchema":{"a":1,"b":[2]},"x":2,"y":1}"#,
            Some(vec!["other members"]),
        ),
        (
            r#"{"name":"t","description":"d","inputSchema":{"a":1,"b":[2]},"x":1,"y":2,"outputSchema":null,"annotations":{},"icons":[],"execution":{},"_meta":{}}"#,
            Some(vec!["title", "outputSchema", "annotations", "icons", "execution", "_meta"]),
        ),
        (
            r#"{"name":"t","title":"T","description":"d","description":"e","inputSchema":{"a":1,"b":[2]},"x":1,"y":2}"#,
            Some(vec!["description"]),
        ),
    ] {
        let trust = seen(&[&[tool(first)], &[tool(second)]]);
        let expected: Vec<_> = expected.map(|members| ("t", members)).into_iter().collect();
        assert_eq!(changed(&trust), expected, "{second}");
    }
}

#[test]
fn a_new_tool_and_one_that_goes_are_no_change_and_one_that_comes_back_is_compared() {
    let (a, b, other_b) = (saying("a", "1"), saying("b", "1"), saying("b", "2"));
    let both: &[Tool] = &[a.clone(), b];
    assert!(changed(&seen(&[&both[..1], both])).is_empty());
    assert!(changed(&seen(&[both, &both[..1], both])).is_empty());
    let back: &[Tool] = &[a, other_b];
    let changes = [("b", vec!["description"])];
    assert_eq!(changed(&seen(&[both, &both[..1], back])), changes);
    assert_eq!(changed(&seen(&[both, &[], back, back])), changes, "seeing it again is no approval");
    assert!(changed(&seen(&[both, back, both])).is_empty(), "it is what it was");
}

#[test]
fn where_changes_are_allowed_nothing_is_remembered() {
    let trust = seen(&[&[saying("a", "1")]]).reviewed(
        pairs(&[saying("a", "2")]),
        &choice(OnChange::Allow),
        Holding::default(),
    );
    assert!(trust.known.is_empty() && changed(&trust).is_empty());
    let trust = trust.reviewed(pairs(&[saying("a", "3")]), &choice(OnChange::Block), Holding::default());
    assert!(changed(&trust).is_empty(), "trust begins with what is there now");
}

#[test]
fn a_definition_that_the_registry_file_names_is_trusted_from_the_start_and_no_other() {
    let (one, other) = (saying("a", "1"), saying("a", "2"));
    let named = |tool: &Tool| {
        let trusted = [("a".to_owned(), whole_hash(&tool.definition))].into();
        Tools { trusted, ..choice(OnChange::Block) }
    };
    let trust = |lists: &[&Tool], choice: &Tools| {
        lists.iter().fold(Trust::default(), |trust, tool| {
            trust.reviewed(pairs(&[(*tool).clone()]), choice, Holding::default())
        })
    };
    assert!(changed(&trust(&[&one], &named(&one))).is_empty());
    let first = trust(&[&other], &named(&one));
    assert_eq!(changed(&first), [("a", vec!["definition"])], "also the very first that is seen");
    let change = first.held("a").expect("held back");
    assert_eq!(change.trusted_sha256(), Some(hex::encode(whole_hash(&one.definition))));
    assert_eq!(first.sha256("a"), Some(change.sha256()));
    assert!(changed(&trust(&[&other, &one], &named(&one))).is_empty());
    let approved = first
        .approved(Approval::default(), &"s".into(), pairs(std::slice::from_ref(&other)))
        .expect("approved");
    assert!(
        changed(&approved.reviewed(pairs(std::slice::from_ref(&other)), &named(&one), Holding::default()))
            .is_empty(),
        "until the end"
    );
    let later = trust(&[&one], &choice(OnChange::Block)).reviewed(
        pairs(std::slice::from_ref(&other)),
        &named(&other),
        Holding::default(),
    );
    assert!(changed(&later).is_empty(), "the file was changed with it");
    let late = Tools { trusted: named(&one).trusted, ..choice(OnChange::Warn) };
    assert!(trust(&[&other], &late).held("a").is_none() && changed(&trust(&[&other], &late)).len() == 1);
}

#[test]
fn only_where_changes_are_blocked_a_tool_is_held_back() {
    for (policy, holds) in [(OnChange::Warn, false), (OnChange::Block, true)] {
        let trust = seen(&[&[saying("a", "1")]]).reviewed(
            pairs(&[saying("a", "2")]),
            &choice(policy),
            Holding::default(),
        );
        assert_eq!((trust.changes().count(), trust.held("a").is_some()), (1, holds));
        assert!(trust.held("b").is_none());
    }
}

#[test]
fn remembered_definitions_are_bounded_and_those_beyond_are_not_trusted() {
    let (server, now) = ("s".into(), [saying("late", "1"), saying("0", "1")]);
    let mut full = seen(&[&now[1..]]);
    let seal = DefinitionDigest::of(&now[0].definition, whole_hash(&now[0].definition));
    Arc::make_mut(&mut full.known).extend((1..MOST).map(|number| (name_hash(&number.to_string()), seal)));
    let full = full.reviewed(pairs(&now), &choice(OnChange::Block), Holding::default());
    assert_eq!((changed(&full), full.known.len()), (vec![("late", vec![])], MOST));
    let refusal = full.held("late").expect("held back").refusal(&server).to_string();
    assert!(refusal.contains("\"late\"") && refusal.contains("more tools than are remembered"), "{refusal}");
    let approved = full.approved(Approval::default(), &server, pairs(&now)).expect("approved");
    let approved = approved.reviewed(pairs(&now), &choice(OnChange::Block), Holding::default());
    assert!(changed(&approved).is_empty() && approved.known.len() == 2, "those that are gone made room");
    assert_eq!(
        changed(&approved.reviewed(pairs(&[saying("0", "2")]), &choice(OnChange::Block), Holding::default()))
            .len(),
        1,
        "and nobody else"
    );
}

#[test]
fn an_approval_is_of_what_was_looked_at() {
    let (server, now): (Arc<str>, _) = ("s".into(), [saying("a", "2"), saying("b", "2"), saying("c", "1")]);
    let trust = seen(&[&[saying("a", "1"), saying("b", "1"), saying("c", "1")], &now]);
    let looked_at = trust.held("a").expect("held back").sha256();
    let approve = |tool, sha256| {
        trust.approved(Approval { tool: Some(tool), sha256, previous_owner: None }, &server, pairs(&now))
    };
    let left = |approved: Result<Trust, Error>| {
        let approved =
            approved.expect("approved").reviewed(pairs(&now), &choice(OnChange::Block), Holding::default());
        approved.changes().map(|change| change.tool.clone()).collect::<Vec<_>>()
    };
    assert_eq!(left(approve("a", Some(&looked_at))), ["b"]);
    assert_eq!(left(approve("b", None)), ["a"]);
    assert_eq!(left(approve("c", None)), ["a", "b"], "it is trusted already");
    assert_eq!(left(trust.approved(Approval::default(), &server, pairs(&now))), [""; 0]);
    let other = approve("b", Some(&looked_at)).expect_err("another definition");
    assert!(matches!(&other, Error::OtherDefinition { tool, .. } if tool == "b"), "{other}");
    approve("c", Some(&looked_at)).expect_err("another definition");
    assert!(matches!(approve("d", None), Err(Error::NameNotFound { .. })));
}

#[test]
fn the_hash_is_that_of_the_one_spelling() {
    let trust = seen(&[&[saying("a", "1")], &[tool(r#"{"name":"a", "b":[1, 2], "a":"\u0041"}"#)]]);
    let change = trust.held("a").expect("held back");
    assert_eq!(change.sha256(), hex::encode(Sha256::digest(r#"{"a":"A","b":[1,2],"name":"a"}"#)));
    let first =
        hex::encode(Sha256::digest(r#"{"description":"1","inputSchema":{"type":"object"},"name":"a"}"#));
    assert_eq!(change.trusted_sha256(), Some(first));
}

/// Returns the state after a server listed each of `lists` to a view that holds new tools.
fn seen_by_holding(lists: &[&[Tool]], policy: OnChange) -> Trust {
    let views = [holding_view()];
    let holding = Holding { views: &views, server: "s" };
    lists.iter().fold(Trust::default(), |trust, tools| trust.reviewed(pairs(tools), &choice(policy), holding))
}

fn holding_view() -> Arc<crate::manager::View> {
    let view = crate::manager::View::of("v", Some(&["s"]), None, &["s/denied"]).expect("rules");
    Arc::new(view.holding_new_tools())
}

#[test]
fn tool_that_comes_later_is_new_until_it_is_approved() {
    for policy in [OnChange::Allow, OnChange::Warn, OnChange::Block] {
        let (one, two, denied) = (saying("a", "1"), saying("b", "1"), saying("denied", "1"));
        let trust = seen_by_holding(
            &[std::slice::from_ref(&one), &[one.clone(), two.clone(), denied.clone()]],
            policy,
        );
        assert_eq!(changed(&trust), [("b", vec!["new"])], "{policy:?}");
        assert!(trust.is_new("b") && trust.is_new("denied") && !trust.is_new("a"));
        assert!(trust.held("b").is_none(), "it is blocked in views only");
        let bytes = (trust.to_bytes(), trust.new_to_bytes());
        let restored = Trust::from_bytes(&bytes.0, &bytes.1).expect("what was written");
        assert!(restored.remembers_the_same(&trust) && restored.is_new("b"));
        let now = [one, two, denied];
        let approved = trust.approved(Approval::default(), &"s".into(), pairs(&now)).expect("approved");
        let views = [holding_view()];
        let holding = Holding { views: &views, server: "s" };
        let again = approved.reviewed(pairs(&now), &choice(policy), holding);
        assert!(changed(&again).is_empty() && !again.is_new("b"), "{policy:?}");
        let gone = again.reviewed(pairs(&now[..1]), &choice(policy), holding);
        let back = gone.reviewed(pairs(&now), &choice(policy), holding);
        assert!(changed(&back).is_empty() && !back.is_new("b"), "it came back");
    }
}

#[test]
fn tool_that_views_would_select_otherwise_is_new_under_every_policy() {
    for policy in [OnChange::Allow, OnChange::Warn, OnChange::Block] {
        for member in
            ["\"annotations\":{\"readOnlyHint\":true}", "\"_meta\":{\"ui\":{\"visibility\":[\"app\"]}}"]
        {
            let other = tool(&format!(r#"{{"name":"a","description":"1",{member}}}"#));
            let trust = seen_by_holding(&[&[saying("a", "1")], std::slice::from_ref(&other)], policy);
            assert!(trust.is_new("a"), "{policy:?} {member}");
            let text = seen_by_holding(&[&[saying("a", "1")], &[saying("a", "2")]], policy);
            assert!(!text.is_new("a"), "a text selects nothing: {policy:?}");
        }
    }
}

#[test]
fn without_a_view_that_holds_new_tools_none_is_new() {
    let (one, two) = (saying("a", "1"), saying("b", "1"));
    let trust = seen_by_holding(&[std::slice::from_ref(&one), &[one.clone(), two.clone()]], OnChange::Warn);
    let open =
        trust.reviewed(pairs(&[one.clone(), two.clone()]), &choice(OnChange::Warn), Holding::default());
    assert!(changed(&open).is_empty() && !open.is_new("b"));
    let first = seen_by_holding(&[&[], &[one, two]], OnChange::Warn);
    assert!(changed(&first).is_empty(), "the first tools are known");
}

#[test]
fn definition_of_a_new_tool_that_changes_is_both() {
    let (one, two, other) = (saying("a", "1"), saying("b", "1"), saying("b", "2"));
    let lists: [&[Tool]; 3] = [std::slice::from_ref(&one), &[one.clone(), two], &[one.clone(), other]];
    let trust = seen_by_holding(&lists, OnChange::Block);
    assert_eq!(changed(&trust), [("b", vec!["new", "description"])]);
    assert!(trust.held("b").is_some() && trust.is_new("b"));
}

/// A server whose tool list can be changed.
#[derive(Clone)]
struct ChangingServer {
    server: Fake,
    list: Arc<Mutex<serde_json::Value>>,
}

impl ChangingServer {
    fn new(tools: &[(&str, &str)]) -> Self {
        let shifty = Self { server: Fake::new(Version::V2025_11_25), list: Arc::default() };
        shifty.write(tools);
        let list = Arc::clone(&shifty.list);
        shifty.server.answer(move |call| {
            let listed = || Answer::result(&list.lock().expect("free"));
            (call.method == method::TOOLS_LIST).then(listed)
        });
        shifty
    }

    fn write(&self, tools: &[(&str, &str)]) {
        let tool = |(name, says): &(&str, &str)| json!({"name": name, "description": says});
        let tools: Vec<_> = tools.iter().map(tool).collect();
        *self.list.lock().expect("free") = json!({"tools": tools});
    }

    /// Changes the tool list, and waits until `manager` knows it.
    async fn shift(&self, manager: &Manager, tools: &[(&str, &str)]) {
        self.write(tools);
        let mut changes = manager.changes();
        changes.mark_unchanged();
        self.server.say_changed();
        let news = tokio::time::timeout(Duration::from_mins(1), changes.changed()).await;
        news.expect("in time").expect("it runs");
    }

    fn calls(&self) -> usize {
        self.server.executed(method::TOOLS_CALL)
    }
}

fn settings(name: &str, on_change: OnChange) -> upstream::Config {
    let mut config = fake::config(name);
    config.tools.on_change = on_change;
    config
}

async fn manager(servers: &[(&str, &ChangingServer)], on_change: OnChange) -> Arc<Manager> {
    let config = Config::of(servers.iter().map(|(name, _)| settings(name, on_change)).collect());
    let connectors = servers.iter().map(|(_, shifty)| shifty.server.connector()).collect();
    let manager = Manager::with_connectors(config, connectors, Shutdown::new());
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    manager
}

fn offered(manager: &Manager) -> Vec<String> {
    let tools = manager.list_tools(None).expect("all scopes exist");
    tools.into_iter().map(|entry| entry.exposed).collect()
}

async fn call(manager: &Manager, tool: &str) -> Result<CallResponse, Error> {
    manager.route_tool(tool, &Raw::empty_object(), None).await
}

fn is_held<T>(called: &Result<T, Error>) -> bool {
    matches!(called, Err(Error::ToolChanged { changed, .. }) if *changed == ["description"])
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_held_back_is_neither_listed_nor_called_until_it_is_approved() {
    let a = ChangingServer::new(&[("t", "1"), ("u", "1")]);
    let manager = manager(&[("a", &a)], OnChange::Block).await;
    a.shift(&manager, &[("t", "2"), ("u", "1")]).await;
    assert_eq!(offered(&manager), ["u"]);
    assert!(is_held(&call(&manager, "t").await) && is_held(&call(&manager, "a__t").await));
    let by_server = manager.call_tool("a", "t", &Raw::empty_object(), None).await;
    assert!(is_held(&by_server));
    let error_text = by_server.expect_err("held back");
    assert!(
        error_text.to_string().contains("\"t\" of server \"a\"")
            && error_text.to_string().contains("description")
    );
    assert!(error_text.problem().hint.contains("/servers/a/tools/approve"));
    assert_eq!(a.calls(), 0, "it was not asked");
    call(&manager, "u").await.expect("it did not change");

    let status =
        manager.approve("a", Approval { tool: Some("t"), ..Approval::default() }).await.expect("approved");
    assert_eq!((status.trust.changes().count(), status.tools), (0, 2));
    assert_eq!(offered(&manager), ["t", "u"]);
    call(&manager, "t").await.expect("approved");
    assert_eq!(a.calls(), 2);
    assert!(matches!(manager.approve("b", Approval::default()).await, Err(Error::ServerNotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_held_back_does_not_become_another_servers() {
    let (a, b) = (ChangingServer::new(&[("t", "1")]), ChangingServer::new(&[("t", "1")]));
    let manager = manager(&[("a", &a), ("b", &b)], OnChange::Block).await;
    a.shift(&manager, &[("t", "2")]).await;
    assert_eq!(offered(&manager), ["b__t"]);
    assert!(matches!(call(&manager, "t").await, Err(Error::Ambiguous { .. })));
    assert_eq!((a.calls(), b.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_further_request_of_a_call_is_not_made_after_the_tool_changed() {
    let a = ChangingServer::new(&[("t", "1")]);
    let manager = manager(&[("a", &a)], OnChange::Block).await;
    let params = Raw::of(&json!({"name": "t"}));
    let call = Call { owner: Owner::new(), ..Call::of_gateway("tools/call", Some(params)) };
    let request = manager.tool_request(&Scope::ALL, "t", call, None).await.expect("found");
    a.shift(&manager, &[("t", "2")]).await;
    let request = manager.renewed(request).expect("the server is there");
    let called = manager.call(&request, &EventSender::none()).await;
    assert!(is_held(&called) && a.calls() == 0);
}

#[tokio::test(start_paused = true)]
async fn where_it_is_told_only_or_allowed_the_call_passes() {
    for (on_change, error_text) in [(OnChange::Warn, 1), (OnChange::Allow, 0)] {
        let a = ChangingServer::new(&[("t", "1")]);
        let manager = manager(&[("a", &a)], on_change).await;
        a.shift(&manager, &[("t", "2")]).await;
        assert_eq!(offered(&manager), ["t"]);
        call(&manager, "t").await.expect("called");
        let status = manager.server("a").expect("there");
        assert_eq!((status.trust.changes().count(), a.calls()), (error_text, 1), "{on_change:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn trust_outlives_connections_and_reloads_and_ends_with_its_server() {
    let a = ChangingServer::new(&[("t", "1")]);
    let manager = manager(&[("a", &a)], OnChange::Warn).await;
    a.write(&[("t", "2")]);
    manager.reconnect("a", None).await.expect("connected");
    let others = |on_change| {
        let servers = vec![settings("a", on_change)];
        manager.apply_with(Config::of(servers), |_| Ok(a.server.connector()))
    };
    others(OnChange::Block).await.expect("applied");
    assert!(is_held(&call(&manager, "t").await), "also before the new connection is there");
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    assert!(is_held(&call(&manager, "t").await) && a.calls() == 0);

    manager.apply_with(Config::of(Vec::new()), |_| Ok(a.server.connector())).await.expect("applied");
    others(OnChange::Block).await.expect("applied");
    manager.settled(&Scope::ALL, Duration::from_secs(5)).await;
    call(&manager, "t").await.expect("it is new");
}
