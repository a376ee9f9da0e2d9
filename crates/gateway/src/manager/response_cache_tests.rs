//! Tests of the response cache: what is cached, for whom, and for how long.

use std::sync::atomic::AtomicUsize;

use serde_json::{Value, json};

use super::*;
use crate::manager::config::Config;
use crate::manager::{Scope, ServerStatus};
use protocol::meta::Sender;
use protocol::method;
use runtime::shutdown::Shutdown;
use upstream::config::OnChange;
use upstream::fake::{self, Answer, Fake};
use upstream::{CallEvent, Owner, State};

const TTL: Duration = Duration::from_mins(1);

/// A gateway with one server, `s`, whose results are cached for a minute. `read` is read-only, `write` is
/// not.
struct Scene {
    manager: Arc<Manager>,
    server: Fake,
}

impl Scene {
    /// The server answers each call with its number and the members of `more`.
    async fn of(version: Version, more: Value) -> Self {
        let (server, count) = (Fake::new(version), AtomicUsize::new(0));
        server.answer(move |call| {
            let tools = json!({"tools": [{"name": "read", "annotations": {"readOnlyHint": true}}, {"name": "write"}]});
            match call.method.as_str() {
                "tools/list" => Some(Answer::result(&tools)),
                "tools/call" => {
                    let number = count.fetch_add(1, Ordering::SeqCst).to_string();
                    let mut result = json!({"content": [{"type": "text", "text": number}]});
                    let members = more.as_object().expect("an object").clone();
                    result.as_object_mut().expect("an object").extend(members);
                    Some(Answer::After(Duration::from_millis(10), Ok(Raw::of(&result))))
                }
                _ => None,
            }
        });
        let mut config = fake::config("s");
        config.tools.cache_ttl = Some(TTL);
        let config = Config::of(vec![config]);
        let manager = Manager::with_connectors(config, vec![server.connector()], Shutdown::new());
        manager.settled(&Scope::ALL, TTL).await;
        Self { manager, server }
    }

    /// Returns the result for `principal`, and whether the server was called for it.
    async fn ask(&self, principal: &str, params: Value) -> (String, bool) {
        self.ask_as(call(Some(principal)), params, &EventSender::none()).await.expect("an answer")
    }

    async fn ask_as(
        &self,
        call: Call,
        params: Value,
        event_sender: &EventSender,
    ) -> Result<(String, bool), Error> {
        let (before, params) = (self.calls(), Raw::of(&params));
        let name: String = params.get_as("name").expect("a name");
        let call = Call { params: Some(params), ..call };
        let request = self.manager.tool_request(&Scope::ALL, &name, call, None).await?;
        let response = request.whole(self.manager.call(&request, event_sender).await?).await?;
        let reply = response.body.expect("a result");
        Ok((reply.as_str().to_owned(), self.calls() > before))
    }

    fn calls(&self) -> usize {
        self.server.executed("tools/call")
    }
}

fn call(principal: Option<&str>) -> Call {
    let call = Call::of_gateway(method::TOOLS_CALL, None);
    Call { owner: Owner::new(), principal: principal.map(Into::into), ..call }
}

fn reading() -> Value {
    json!({"name": "read", "arguments": {"x": 1}})
}

#[tokio::test(start_paused = true)]
async fn cached_answer_of_one_principal_is_returned_to_no_other() {
    for (version, more) in [
        (Version::V2025_11_25, json!({})),
        // Only a modern server can declare this.
        (Version::V2025_11_25, json!({"cacheScope": "public"})),
        (Version::NEWEST_MODERN, json!({})),
        (Version::NEWEST_MODERN, json!({"cacheScope": "private"})),
        (Version::NEWEST_MODERN, json!({"cacheScope": ["public"]})),
    ] {
        let scene = Scene::of(version, more).await;
        let mut answers = std::collections::BTreeSet::new();
        for round in 0..3 {
            for principal in 0..64 {
                let (answer, is_new) = scene.ask(&format!("key:{principal}"), reading()).await;
                assert_eq!(is_new, round == 0, "{principal}");
                answers.insert(answer);
            }
        }
        assert_eq!((answers.len(), scene.calls()), (64, 64), "0 of 64 × 3 were another's");
    }
}

#[tokio::test(start_paused = true)]
async fn public_answer_of_a_modern_server_is_shared_by_all_principals() {
    let scene = Scene::of(Version::NEWEST_MODERN, json!({"cacheScope": "public"})).await;
    let (first, is_new) = scene.ask("ann", reading()).await;
    assert!(is_new);
    assert_eq!(scene.ask("bob", reading()).await, (first, false));
}

#[tokio::test(start_paused = true)]
async fn equal_calls_of_one_principal_at_once_are_one() {
    let scene = Scene::of(Version::NEWEST_MODERN, json!({})).await;
    let all = futures_util::future::join_all((0..64).map(|_| scene.ask("ann", reading()))).await;
    assert!(all.iter().all(|(answer, _)| *answer == all[0].0));
    assert_eq!(scene.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn incomplete_or_failed_answer_is_not_cached() {
    for more in [
        json!({"isError": true}),
        json!({"resultType": "input_required"}),
        json!({"resultType": "task"}),
        json!({"task": {"taskId": "1"}}),
        json!({"ttlMs": 0}),
        json!({"ttlMs": "soon"}),
        json!({"ttlMs": -5, "cacheScope": "public"}),
    ] {
        let scene = Scene::of(Version::NEWEST_MODERN, more.clone()).await;
        for _ in 0..2 {
            assert!(scene.ask("ann", reading()).await.1, "{more}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writing_or_resumed_or_unowned_call_is_not_cached() {
    let scene = Scene::of(Version::NEWEST_MODERN, json!({})).await;
    for params in [
        json!({"name": "write", "arguments": {}}),
        json!({"name": "read", "arguments": {}, "inputResponses": {}}),
        json!({"name": "read", "arguments": {}, "requestState": "s"}),
        json!({"name": "read", "arguments": {}, "task": {}}),
    ] {
        for _ in 0..2 {
            assert!(scene.ask("ann", params.clone()).await.1, "{params}");
        }
    }
    for _ in 0..2 {
        let response = scene.ask_as(call(None), reading(), &EventSender::none()).await;
        assert!(response.expect("an answer").1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_with_its_time_and_its_own_word_makes_that_shorter() {
    for (more, lives) in [
        (json!({}), TTL),
        (json!({"ttlMs": 5_000}), Duration::from_secs(5)),
        (json!({"ttlMs": 1_000_000_000}), TTL),
    ] {
        let scene = Scene::of(Version::NEWEST_MODERN, more).await;
        scene.ask("ann", reading()).await;
        tokio::time::advance(lives.saturating_sub(Duration::from_millis(20))).await;
        assert!(!scene.ask("ann", reading()).await.1);
        tokio::time::advance(Duration::from_millis(20)).await;
        assert!(scene.ask("ann", reading()).await.1);
    }
}

#[tokio::test(start_paused = true)]
async fn other_parameters_eras_and_abilities_are_other_calls_and_other_meta_is_not() {
    let scene = Scene::of(Version::NEWEST_MODERN, json!({})).await;
    scene.ask("ann", reading()).await;
    let with_meta = json!({"name": "read", "arguments": {"x": 1}, "_meta": {"progressToken": 7}});
    assert!(!scene.ask("ann", with_meta).await.1);
    assert!(scene.ask("ann", json!({"name": "read", "arguments": {"x": 2}})).await.1);
    let able = Sender { capabilities: Raw::of(&json!({"sampling": {}})), ..Sender::gateway() };
    let able = Call { sender: able, ..call(Some("ann")) };
    assert!(scene.ask_as(able, reading(), &EventSender::none()).await.expect("an answer").1);
    let legacy = Call { era: Era::Legacy, ..call(Some("ann")) };
    assert!(scene.ask_as(legacy, reading(), &EventSender::none()).await.expect("an answer").1);
}

#[tokio::test(start_paused = true)]
async fn when_its_list_of_tools_changes_what_a_server_answered_is_dropped() {
    let scene = Scene::of(Version::V2025_11_25, json!({})).await;
    scene.ask("ann", reading()).await;
    assert!(!scene.ask("ann", reading()).await.1);
    let mut changes = scene.manager.changes();
    changes.mark_unchanged();
    scene.server.answer(move |call| {
        let read = json!({"name": "read", "annotations": {"readOnlyHint": true}, "description": "changed"});
        let result = json!({"content": [{"type": "text", "text": "another"}]});
        Some(Answer::result(&if call.method == "tools/list" { json!({"tools": [read]}) } else { result }))
    });
    scene.server.say_changed();
    changes.changed().await.expect("it goes on");
    assert!(scene.ask("ann", reading()).await.1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_while_its_server_was_replaced_is_made_at_the_new_one() {
    let scene = Scene::of(Version::NEWEST_MODERN, json!({})).await;
    let snapshot = scene.manager.snapshot();
    let call = Call { params: Some(Raw::of(&reading())), ..call(Some("ann")) };
    let request = scene.manager.tool_request(&Scope::ALL, "read", call, None).await;
    let request = request.expect("it is offered");
    let old = snapshot.server("s").expect("it is there");
    let waiting = CacheableCall::of(old, &request).expect("its answers are kept");
    let next = upstream::Config { source: settings::Fingerprint::default(), ..old.upstream.config().clone() };
    let apply = |next| scene.manager.apply_with(Config::of(next), |_| Ok(scene.server.connector()));
    apply(vec![next]).await.expect("applied");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(old.upstream.check_open().is_err(), "nothing runs there, so it has ended");
    let (called, _) = scene.manager.recall(&waiting, &EventSender::none()).await.expect("by its successor");
    assert!(called.collect().await.expect("an answer").body.is_ok());
    assert_eq!(scene.calls(), 1);
    apply(Vec::new()).await.expect("applied");
    let gone = scene.manager.recall(&waiting, &EventSender::none()).await;
    assert!(matches!(gone, Err(Error::ServerNotFound { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn call_that_waits_for_an_equal_one_is_refused_if_its_tool_is_held_meanwhile() {
    for limit in [None, Some(Duration::from_millis(1_800))] {
        let mut config = fake::config("s");
        (config.tools.cache_ttl, config.tools.on_change) = (Some(TTL), OnChange::Block);
        let server = Fake::new(Version::V2025_11_25);
        let answer_with = |description: &'static str| {
            server.answer(move |call| {
                let read = json!({"name": "read", "annotations": {"readOnlyHint": true}, "description": description});
                let result = Ok(Raw::of(&json!({"content": []})));
                Some(if call.method == "tools/list" {
                    Answer::result(&json!({"tools": [read]}))
                } else {
                    Answer::After(Duration::from_secs(1), result)
                })
            });
        };
        answer_with("first");
        let config = Config::of(vec![config]);
        let manager = Manager::with_connectors(config, vec![server.connector()], Shutdown::new());
        manager.settled(&Scope::ALL, TTL).await;
        let scene = Scene { manager, server: server.clone() };
        let called = async |timeout| {
            let call = Call { params: Some(Raw::of(&reading())), ..call(Some("ann")) };
            let request = scene.manager.tool_request(&Scope::ALL, "read", call, None).await.expect("offered");
            scene.manager.call(&RoutedRequest { timeout, ..request }, &EventSender::none()).await
        };
        let changed = async {
            let mut changes = scene.manager.changes();
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer_with("second");
            server.say_changed();
            changes.changed().await.expect("a snapshot");
        };
        let (first, second, ()) = tokio::join!(called(None), called(limit), changed);
        assert!(first.is_ok(), "it ran before the change");
        assert!(matches!(second, Err(Error::ToolChanged { .. })), "{limit:?}: {second:?}");
        assert_eq!(scene.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_disconnected_is_not_answered_for_and_one_that_is_down_is() {
    let scene = Scene::of(Version::V2025_11_25, json!({})).await;
    let (answer, _) = scene.ask("ann", reading()).await;
    scene.server.die("gone");
    assert_eq!(scene.ask("ann", reading()).await, (answer, false));
    let ServerStatus { status, .. } = scene.manager.disconnect("s").await.expect("it goes");
    assert_eq!(status.state, State::Disconnected);
    let refused = scene.ask_as(call(Some("ann")), reading(), &EventSender::none()).await;
    assert!(matches!(refused, Err(Error::Upstream { source: upstream::Error::Unavailable { .. }, .. })));
}

#[tokio::test(start_paused = true)]
async fn answer_after_a_server_request_is_not_cached_and_blocks_nobody() {
    let scene = Scene::of(Version::V2025_11_25, json!({})).await;
    let list = json!({"tools": [{"name": "read", "annotations": {"readOnlyHint": true}}]});
    scene.server.answer(move |call| match call.method.as_str() {
        "tools/list" => Some(Answer::result(&list)),
        "tools/call" => Some(Answer::work(|_, event_sender: EventSender| async move {
            let answer = event_sender.ask("elicitation/create".into(), None).await;
            Ok(answer.and_then(Result::ok).unwrap_or_else(|| Raw::of(&json!({"content": []}))))
        })),
        _ => None,
    });
    let (event_sender, mut receiver) = EventSender::new(4);
    let request = call(Some("ann"));
    let mut asking = Box::pin(scene.ask_as(request, reading(), &event_sender));
    let question = tokio::select! {
        _ = &mut asking => panic!("it asks first"),
        said = receiver.recv() => said,
    };
    // Ann has not answered yet. Meanwhile a second call with equal arguments comes from her principal.
    let (other, _) = scene.ask("ann", reading()).await;
    assert_eq!(other, r#"{"content":[]}"#, "asked nobody, after half of its time");
    let Some(CallEvent::Question(question)) = question else { panic!("a question") };
    question.answer(Ok(Raw::of(&json!({"content": [], "said": "by Ann"}))));
    assert!(asking.await.expect("an answer").0.contains("by Ann"));
    assert!(scene.ask("ann", reading()).await.1, "what she said is not said again");
}

#[test]
fn cached_answer_is_read_as_it_was_written() {
    let result = Raw::of(&json!({"content": [], "n": 1}));
    let cached = written(&result, Version::V2025_11_25);
    assert_eq!(super::read(&cached), Some((result, Version::V2025_11_25)));
    for broken in ["", "{}", "2025-11-25\n", "2025-11-25\n[]", "2025-11-25\n{", "1999-01-01\n{}"] {
        assert_eq!(super::read(&Bytes::from(broken)), None, "{broken}");
    }
}
