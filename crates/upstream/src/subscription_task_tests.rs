//! The subscriptions of a server, under paused time.

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::fake::{self, Answer, Fake};
use crate::{Change, Upstream, Watching};
use protocol::{ErrorObject, Version};
use runtime::shutdown::Shutdown;

const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    server: Fake,
    upstream: Arc<Upstream>,
    updates: mpsc::Receiver<crate::Update>,
}

impl Scene {
    async fn new(version: Version, capabilities: &serde_json::Value) -> Self {
        let server = Fake::new(version);
        server.capabilities(capabilities);
        let (sender, updates) = mpsc::channel(1_024);
        let upstream = Upstream::start(fake::config("s"), server.connector(), sender, &Shutdown::new());
        let mut scene = Self { server, upstream, updates };
        scene.settle().await;
        scene
    }

    async fn legacy() -> Self {
        Self::new(Version::V2025_11_25, &json!({"resources": {"subscribe": true}})).await
    }

    async fn modern() -> Self {
        Self::new(Version::V2026_07_28, &json!({"tools": {"listChanged": true}, "resources": {}})).await
    }

    /// Waits for the end of all pending work.
    async fn settle(&mut self) {
        tokio::time::sleep(SECOND * 40).await;
    }

    /// Returns how often everything counted as changed since the last call.
    fn missed(&mut self) -> usize {
        let updates = std::iter::from_fn(|| self.updates.try_recv().ok());
        updates.filter(|update| matches!(update.change, Change::Missed)).count()
    }

    async fn watch(&self, uri: &str) -> Result<Result<(Raw, Watching), WatchRefusal>, Error> {
        self.upstream
            .watch((&"key:a".into(), None), Subject::Resource(uri.into()), Instant::now() + SECOND * 5)
            .await
    }

    /// Returns the server's refusal of a subscription to `uri`.
    async fn refusal(&self, uri: &str) -> ErrorObject {
        match self.watch(uri).await.expect("no failure").expect_err("refused") {
            WatchRefusal::Refused(words) => words,
            WatchRefusal::LeftOut => panic!("it said nothing"),
        }
    }

    async fn watching(&self, uri: &str) -> Watching {
        self.watch(uri).await.expect("no failure").expect("no refusal").1
    }
}

const TOOLS: &str = r#"{"toolsListChanged":true}"#;
const ONE: &str = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:1"]}"#;
const BOTH: &str = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:1","a:2"]}"#;

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_asked_once_for_each_resource_and_told_when_nobody_wants_it() {
    let mut scene = Scene::legacy().await;
    let (one, too) = tokio::join!(scene.watching("a:1"), scene.watching("a:1"));
    let other = scene.watching("a:2").await;
    assert_eq!(scene.server.executed(method::RESOURCES_SUBSCRIBE), 2);
    assert_eq!(scene.server.subscribed(), ["a:1", "a:2"]);
    drop(one);
    scene.settle().await;
    assert_eq!(scene.server.subscribed(), ["a:1", "a:2"], "somebody still wants it");
    drop((too, other));
    scene.settle().await;
    assert_eq!((scene.server.subscribed().len(), scene.upstream.watched()), (0, 0));
    assert_eq!(scene.missed(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_renews_what_is_wanted_and_nothing_else() {
    let mut scene = Scene::legacy().await;
    let (_held, gone) = (scene.watching("a:1").await, scene.watching("a:2").await);
    scene.server.die("killed");
    drop(gone);
    scene.settle().await;
    assert_eq!(scene.server.subscribed(), ["a:1"]);
    assert_eq!(scene.missed(), 1, "what changed meanwhile was told to nobody");
    let before = scene.server.executed(method::RESOURCES_SUBSCRIBE);
    let _too = scene.watching("a:1").await;
    assert_eq!(scene.server.executed(method::RESOURCES_SUBSCRIBE), before, "known already");
}

#[tokio::test(start_paused = true)]
async fn answer_of_the_server_settles_the_subscription() {
    let scene = Scene::legacy().await;
    scene.server.answer(|call| {
        (call.method == method::RESOURCES_SUBSCRIBE)
            .then(|| Answer::Reply(Err(ErrorObject::new(-32002, "there is none"))))
    });
    assert_eq!((scene.refusal("a:1").await.code(), scene.upstream.watched()), (-32002, 0));
    scene.server.answer(|call| {
        (call.method == method::RESOURCES_SUBSCRIBE).then(|| Answer::result(&json!({"own": 1})))
    });
    let (answer, _held) = scene.watch("a:1").await.expect("no failure").expect("no refusal");
    assert_eq!(answer.as_str(), r#"{"own":1}"#, "asked again after a refusal");
    scene.server.answer(|_| Some(Answer::Silence));
    assert!(matches!(scene.watch("a:2").await, Err(Error::TimedOut { .. })));
    assert_eq!(scene.upstream.watched(), 1, "who got no answer wants nothing any more");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_listened_to_without_a_gap() {
    let mut scene = Scene::modern().await;
    assert_eq!(scene.server.listening(), [TOOLS]);
    let one = scene.watching("a:1").await;
    assert_eq!(scene.server.listening(), [ONE]);
    let two = scene.watching("a:2").await;
    assert_eq!(scene.server.listening(), [BOTH]);
    drop((one, two));
    scene.settle().await;
    assert_eq!((scene.server.listening(), scene.missed()), (vec![TOOLS.to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn large_requests_to_listen_are_paced_by_their_size() {
    let scene = Scene::modern().await;
    let uri = |number: usize| format!("a:{number}{}", "x".repeat(8_000));
    let (mut held, mut started) = (Vec::new(), Instant::now());
    for number in 0..7 {
        held.push(scene.watching(&uri(number)).await);
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "small ones are not");
    started = Instant::now();
    for number in 7..20 {
        held.push(scene.watching(&uri(number)).await);
    }
    let alone = started.elapsed();
    started = Instant::now();
    held.extend(
        futures_util::future::join_all((20..40).map(async |number| scene.watching(&uri(number)).await)).await,
    );
    let together = started.elapsed();
    assert!((1_000..2_000).contains(&alone.as_millis()), "{alone:?} for 13 requests of 64 to 160 kB");
    assert!((100..600).contains(&together.as_millis()), "{together:?} for 20 changes at once");
}

#[tokio::test(start_paused = true)]
async fn the_stream_before_ends_only_when_the_next_one_is_acknowledged() {
    let scene = Scene::modern().await;
    scene.server.answer(|call| (call.method == method::SUBSCRIPTIONS_LISTEN).then_some(Answer::Silence));
    let started = Instant::now();
    let watching = scene.watching("a:1");
    tokio::pin!(watching);
    tokio::select! {
        _ = &mut watching => panic!("nobody acknowledged it"),
        () = tokio::time::sleep(SECOND * 2) => {}
    }
    assert_eq!(scene.server.listening(), [TOOLS], "still open");
    let _held = watching.await;
    assert_eq!(started.elapsed(), SECOND * 3, "silence is consent");
    assert!(scene.server.listening().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_acknowledged_is_refused() {
    let mut scene = Scene::modern().await;
    scene.server.honours_lists_only();
    let refused = scene.watch("a:1").await.expect("no failure").expect_err("not honoured");
    assert_eq!(refused, WatchRefusal::LeftOut);
    scene.settle().await;
    assert_eq!((scene.server.listening(), scene.upstream.watched()), (vec![TOOLS.to_owned()], 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_opened_again_and_what_was_missed_counts_as_changed() {
    let mut scene = Scene::modern().await;
    let _held = scene.watching("a:1").await;
    scene.server.end_streams();
    tokio::time::sleep(SECOND / 4).await;
    assert!(scene.server.listening().is_empty(), "after a pause");
    scene.settle().await;
    assert_eq!((scene.server.listening(), scene.missed()), (vec![ONE.to_owned()], 1));
    scene.server.die("killed");
    scene.settle().await;
    assert_eq!((scene.server.listening(), scene.missed()), (vec![ONE.to_owned()], 1), "a new connection");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_such_a_stream_is_left_alone() {
    let mut scene = Scene::modern().await;
    scene.server.answer(|call| {
        let refusal = || Answer::Reply(Err(ErrorObject::new(-32601, "no such method")));
        (call.method == method::SUBSCRIPTIONS_LISTEN).then(refusal)
    });
    scene.server.end_streams();
    scene.settle().await;
    let before = scene.server.executed(method::SUBSCRIPTIONS_LISTEN);
    scene.settle().await;
    assert_eq!(scene.server.executed(method::SUBSCRIPTIONS_LISTEN), before, "not asked over and over");
    assert_eq!(scene.refusal("a:1").await.code(), -32601, "its own words");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_forgot_does_not_end_the_stream_of_everything_else() {
    let mut scene = Scene::modern().await;
    let held = scene.watching("a:1").await;
    let task = Subject::Task("t".into());
    let watched = scene.upstream.watch((&"key:a".into(), None), task, Instant::now() + SECOND * 5).await;
    let _task = watched.expect("no failure").expect("no refusal");
    let all = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:1"],"taskIds":["t"]}"#;
    assert_eq!(scene.server.listening(), [all]);
    scene.server.answer(|call| {
        let has_task = call.params.as_ref().is_some_and(|params| params.as_str().contains("taskIds"));
        let declared = call.sender.capabilities.as_str();
        assert_eq!(
            has_task,
            declared == r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
            "{declared}"
        );
        has_task.then(|| Answer::Reply(Err(ErrorObject::new(-32602, "no such task"))))
    });
    scene.server.end_streams();
    scene.settle().await;
    assert_eq!((scene.server.listening(), scene.upstream.watched()), (vec![ONE.to_owned()], 1));
    drop(held);
}
