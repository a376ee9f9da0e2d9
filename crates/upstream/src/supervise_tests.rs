//! Servers that are down, come up, change, die and hang, seen through the events that the manager receives.

use super::super::fake::{Answer, Dial, Fake, config, tool_call};
use super::super::{Config, EventSender};
use super::*;
use protocol::feature::Effect;
use protocol::{ErrorObject, Version, method};
use runtime::shutdown::Shutdown;

/// A server under supervision, and the manager's ear.
pub(super) struct Scene {
    pub(super) server: Fake,
    pub(super) upstream: Arc<Upstream>,
    updates: mpsc::Receiver<Update>,
    shutdown: Shutdown,
}

impl Scene {
    pub(super) fn of(server: Fake, adjust: impl FnOnce(&mut Config)) -> Self {
        let shutdown = Shutdown::new();
        let (sender, updates) = mpsc::channel(4);
        let mut config = config("fake");
        adjust(&mut config);
        let upstream = Upstream::start(config, server.connector(), sender, &shutdown);
        Self { server, upstream, updates, shutdown }
    }

    async fn ready() -> Self {
        let mut scene = Self::of(Fake::new(Version::V2025_11_25), |_| {});
        assert_eq!(scene.next_offer().await, ["echo"]);
        scene.until(State::Ready).await;
        scene
    }

    async fn next(&mut self) -> Change {
        let limit = Duration::from_mins(10);
        let update =
            tokio::time::timeout(limit, self.updates.recv()).await.expect("news in time").expect("open");
        assert_eq!((update.server.as_ref(), update.id), ("fake", self.upstream.id()));
        update.change
    }

    /// The tools of the next offer; states before it are skipped.
    async fn next_offer(&mut self) -> Vec<String> {
        loop {
            if let Change::Offered(offer) = self.next().await {
                return offer.tools.iter().map(|tool| tool.name.clone()).collect();
            }
        }
    }

    /// Waits for the state; other news before it is skipped.
    pub(super) async fn until(&mut self, expected: State) {
        while !matches!(self.next().await, Change::State(state) if state == expected) {}
    }

    /// Lets time pass while the manager reads on.
    pub(super) async fn wait(&mut self, time: Duration) -> Vec<Change> {
        let (mut news, end) = (Vec::new(), Instant::now() + time);
        while let Ok(update) = tokio::time::timeout_at(end, self.updates.recv()).await {
            news.push(update.expect("open").change);
        }
        news
    }

    async fn call(&self) -> Result<protocol::Reply, Error> {
        let call = tool_call(Effect::Unsafe);
        let answered = self.upstream.call(&call, in_seconds(30), &EventSender::none()).await;
        answered?.body.collect().await
    }
}

fn in_seconds(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_start_appears_when_it_comes_up() {
    let server = Fake::new(Version::V2026_07_28);
    server.dial(Dial::Refuse);
    let started = Instant::now();
    let mut scene = Scene::of(server, |_| {});
    assert_eq!(started.elapsed(), Duration::ZERO, "the start is not delayed");
    scene.until(State::Failed).await;
    let status = scene.upstream.status();
    assert_eq!((status.state, status.last_error.as_deref()), (State::Failed, Some("connection refused")));
    assert!(!status.is_healthy() && scene.upstream.offer().is_none());
    scene.wait(Duration::from_mins(2)).await;
    scene.server.dial(Dial::Accept);
    assert_eq!(scene.next_offer().await, ["echo"]);
    scene.until(State::Ready).await;
    assert!(scene.upstream.status().is_healthy());
    assert_eq!(scene.upstream.version(), Some(Version::V2026_07_28));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_asked_rarely_and_by_the_breakers_leave() {
    let server = Fake::new(Version::V2025_11_25);
    server.dial(Dial::Refuse);
    let mut scene = Scene::of(server, |_| {});
    for _ in 0..10 {
        let before = scene.server.connects();
        scene.wait(Duration::from_mins(1)).await;
        let connects = scene.server.connects() - before;
        assert!((1..=10).contains(&connects), "{connects} connects in a minute");
    }
    assert_ne!(scene.upstream.breaker().consecutive_failures, 0, "connects count");
}

// RULES R20
#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_slow() {
    let mut scene = Scene::ready().await;
    for _ in 0..5 {
        let (before, end) = (scene.server.connects(), Instant::now() + Duration::from_mins(1));
        while Instant::now() < end {
            scene.server.die("crash loop");
            scene.wait(Duration::from_millis(50)).await;
        }
        assert!(scene.server.connects() <= before + 10, "{before} and {} connects", scene.server.connects());
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_exits_on_probe_is_not_probed_in_a_loop() {
    let server = Fake::new(Version::V2025_11_25);
    server.answer(|call| (call.method == method::TOOLS_LIST).then_some(Answer::Die));
    let mut scene = Scene::of(server, |config| config.breaker.threshold = u32::MAX);
    for _ in 0..5 {
        let before = scene.server.connects();
        scene.wait(Duration::from_mins(1)).await;
        let connects = scene.server.connects() - before;
        assert!((1..=10).contains(&connects), "{connects} connects in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_waited_for_and_no_longer() {
    let server = Fake::new(Version::V2025_11_25);
    server.dial(Dial::Refuse);
    let open_for = Duration::from_mins(5);
    let mut scene = Scene::of(server, |config| {
        config.breaker =
            super::super::config::BreakerConfig { threshold: 1, successes: 1, timeout: open_for };
    });
    scene.until(State::Failed).await;
    let opened = Instant::now();
    scene.server.dial(Dial::Accept);
    scene.until(State::Ready).await;
    assert_eq!((opened.elapsed().as_secs(), scene.server.connects()), (open_for.as_secs(), 2));
}

#[tokio::test(start_paused = true)]
async fn server_that_exits_after_a_long_run_is_back_within_a_second() {
    let mut scene = Scene::ready().await;
    for _ in 0..30 {
        scene.wait(Duration::from_mins(2)).await;
        scene.server.tools(&["new"]);
        let died = Instant::now();
        scene.server.die("killed");
        scene.until(State::Connecting).await;
        assert!(scene.upstream.status().last_error.expect("told").contains("killed"));
        assert_eq!(scene.next_offer().await, ["new"]);
        assert!(died.elapsed() <= Duration::from_secs(1), "{:?}", died.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_handshake_has_a_deadline() {
    let server = Fake::new(Version::V2025_11_25);
    server.dial(Dial::Hang);
    let mut scene = Scene::of(server, |config| config.max_timeout = Duration::from_mins(2));
    let started = Instant::now();
    scene.until(State::Failed).await;
    assert_eq!(started.elapsed().as_secs(), 120);
    assert!(scene.upstream.status().last_error.expect("told").contains("no handshake within 120.0 s"));
    scene.server.dial(Dial::AcceptAfter(Duration::from_secs(5)));
    assert_eq!(scene.next_offer().await, ["echo"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_counts_and_is_tried_again() {
    let server = Fake::new(Version::V2025_11_25);
    server.answer(|call| (call.method == method::TOOLS_LIST).then_some(Answer::Silence));
    let mut scene = Scene::of(server, |_| {});
    scene.until(State::Failed).await;
    assert_eq!(scene.upstream.breaker().consecutive_failures, 1);
    assert_eq!(scene.server.open_requests(), 0);
    scene.server.answer(|_| None);
    assert_eq!(scene.next_offer().await, ["echo"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_to_list_is_no_fault_and_keeps_the_old_offer() {
    let mut scene = Scene::ready().await;
    let refusal = ErrorObject::new(-32603, "database locked");
    scene
        .server
        .answer(move |call| (call.method == method::TOOLS_LIST).then(|| Answer::Reply(Err(refusal.clone()))));
    scene.server.say_changed();
    scene.until(State::Failed).await;
    assert_eq!(scene.upstream.breaker().consecutive_failures, 0);
    assert!(scene.upstream.status().last_error.expect("told").contains("database locked"));
    assert_eq!(scene.upstream.offer().expect("still known").tools.len(), 1);
    assert!(scene.call().await.is_ok(), "calls go on");
}

#[tokio::test(start_paused = true)]
async fn swarms_of_change_notices_are_one_discovery() {
    let mut scene = Scene::ready().await;
    scene.wait(Duration::from_secs(5)).await;
    let (lists, sent_at) = (scene.server.executed(method::TOOLS_LIST), Instant::now());
    scene.server.tools(&["echo", "more"]);
    for _ in 0..100 {
        scene.server.say_changed();
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.next_offer().await, ["echo", "more"]);
    assert!(sent_at.elapsed() < Duration::from_secs(1), "soon enough for who listens");
    scene.wait(Duration::from_secs(5)).await;
    assert_eq!(scene.server.executed(method::TOOLS_LIST) - lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_notice_during_a_discovery_is_not_lost() {
    let mut scene = Scene::ready().await;
    let slow = Answer::After(Duration::from_secs(2), Ok(json::Raw::of(&serde_json::json!({"tools": []}))));
    scene.server.answer(move |call| (call.method == method::TOOLS_LIST).then(|| slow.clone()));
    scene.server.say_changed();
    scene.wait(Duration::from_secs(1)).await;
    scene.server.answer(|_| None);
    scene.server.say_changed();
    assert!(scene.next_offer().await.is_empty(), "the answer from before the notice");
    assert_eq!(scene.next_offer().await, ["echo"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_connects_first_has_the_offer_read_again() {
    let mut scene = Scene::ready().await;
    scene.server.tools(&["restarted"]);
    scene.server.die("killed");
    assert!(scene.call().await.is_ok(), "a call does not wait for the background");
    assert_eq!(scene.next_offer().await, ["restarted"]);
    assert_eq!(scene.server.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_nobody_saw_is_noticed() {
    let mut scene = Scene::ready().await;
    // The manager does not read: the supervisor ends up waiting for room to tell the fifth offer.
    for name in ["one", "two", "three", "four", "five"] {
        scene.server.tools(&[name]);
        scene.server.say_changed();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    scene.server.tools(&["restarted"]);
    scene.server.die("killed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(scene.call().await.is_ok(), "a call connects meanwhile");
    let mut news = scene.wait(Duration::from_secs(5)).await;
    assert!(matches!(news.pop(), Some(Change::Offered(offer)) if offer.tools[0].name == "restarted"));
    assert!(!news.iter().any(|change| matches!(change, Change::State(_))), "it was never seen away");
}

#[tokio::test(start_paused = true)]
async fn health_is_asked_in_the_way_of_the_era() {
    for (version, method) in [(Version::V2025_11_25, method::PING), (Version::V2026_07_28, method::DISCOVER)]
    {
        let server = Fake::new(version);
        server.capabilities(&serde_json::json!({"tools": {"listChanged": true}})); // else lists are read instead
        let mut scene = Scene::of(server, |_| {});
        scene.wait(Duration::from_mins(5)).await;
        assert!((9..=12).contains(&scene.server.executed(method)), "{}", scene.server.executed(method));
        assert!(scene.upstream.status().latency.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_answering_is_connected_anew() {
    let mut scene = Scene::ready().await;
    scene.server.answer(|call| (call.method == method::PING).then_some(Answer::Silence));
    scene.until(State::Failed).await;
    assert_eq!(scene.server.connects(), 1, "one missed ping is not the end");
    scene.server.tools(&["fresh"]);
    assert_eq!(scene.next_offer().await, ["fresh"]);
    assert_eq!((scene.server.connects(), scene.server.live()), (2, 1));
    scene.until(State::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_busy_with_a_long_call_is_left_to_it() {
    let mut scene = Scene::ready().await;
    let long = Answer::After(Duration::from_mins(9), Ok(json::Raw::empty_object()));
    scene.server.answer(move |call| {
        Some(if call.method == method::TOOLS_CALL { long.clone() } else { Answer::Silence })
    });
    let upstream = Arc::clone(&scene.upstream);
    let call = tool_call(Effect::Unsafe);
    let (event_sender, deadline) = (EventSender::none(), in_seconds(600));
    let (result, _) =
        tokio::join!(upstream.call(&call, deadline, &event_sender), scene.wait(Duration::from_mins(9)));
    assert!(result.is_ok());
    let pings = scene.server.executed(method::PING);
    assert!(pings <= 1, "{pings} pings while it was busy");
    assert_eq!(scene.server.connects(), 1);
}

#[tokio::test(start_paused = true)]
async fn disconnect_holds_until_connect() {
    let mut scene = Scene::ready().await;
    scene.upstream.disconnect().await.expect("done");
    scene.until(State::Disconnected).await;
    assert_eq!((scene.server.live(), scene.upstream.status().connections), (0, 0));
    assert_eq!(scene.call().await, Err(Error::Unavailable { state: "disconnected" }));
    assert!(scene.wait(Duration::from_mins(10)).await.is_empty());
    assert_eq!(scene.server.connects(), 1, "nobody connects meanwhile");
    scene.server.tools(&["after"]);
    let (offer, listed) = {
        let upstream = Arc::clone(&scene.upstream);
        tokio::join!(async move { upstream.connect(in_seconds(5)).await }, scene.next_offer())
    };
    assert_eq!(
        (offer.expect("connected").tools[0].name.as_str(), listed),
        ("after", vec!["after".to_owned()])
    );
    assert!(scene.call().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn reconnect_says_how_it_went() {
    let mut scene = Scene::ready().await;
    scene.server.dial(Dial::Refuse);
    let upstream = Arc::clone(&scene.upstream);
    let (failed, _) = tokio::join!(upstream.reconnect(in_seconds(5)), scene.wait(Duration::from_millis(100)));
    assert_eq!(failed, Err(Error::Connect { reason: "connection refused".into() }));
    scene.server.dial(Dial::Hang);
    let started = Instant::now();
    let (failed, _) = tokio::join!(upstream.reconnect(in_seconds(5)), scene.wait(Duration::from_secs(6)));
    assert!(failed.expect_err("hangs").to_string().contains("no connection within 5.0 s"));
    assert_eq!(started.elapsed().as_secs(), 6);
    for _ in 0..5 {
        assert!(upstream.health_check().await.is_err());
        scene.wait(Duration::from_secs(1)).await;
    }
    assert_eq!(upstream.breaker().state.as_str(), "open");
    scene.server.dial(Dial::Accept);
    let (offer, _) = tokio::join!(upstream.reconnect(in_seconds(5)), scene.wait(Duration::from_millis(100)));
    assert!(offer.is_ok());
    let (again, _) = tokio::join!(upstream.connect(in_seconds(5)), scene.wait(Duration::from_millis(100)));
    assert_eq!((again, scene.server.live()), (offer, 1), "connecting what is connected changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_command_interrupts_what_hangs() {
    let server = Fake::new(Version::V2025_11_25);
    server.dial(Dial::Hang);
    let mut scene = Scene::of(server, |_| {});
    scene.wait(Duration::from_secs(1)).await;
    let started = Instant::now();
    scene.upstream.disconnect().await.expect("done");
    assert_eq!(started.elapsed(), Duration::ZERO);
    scene.until(State::Disconnected).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_closes_the_breaker_without_any_caller() {
    let mut scene = Scene::ready().await;
    scene.server.answer_calls(Answer::Silence);
    let (upstream, call) = (Arc::clone(&scene.upstream), tool_call(Effect::Unsafe));
    let event_sender = EventSender::none();
    let calls = (0..5).map(|_| upstream.call(&call, in_seconds(5), &event_sender));
    let (results, _) =
        tokio::join!(futures_util::future::join_all(calls), scene.wait(Duration::from_secs(6)));
    assert!(results.iter().all(Result::is_err));
    assert_eq!(scene.upstream.breaker().state.as_str(), "open");
    scene.wait(Duration::from_secs(65)).await;
    assert_eq!(scene.upstream.breaker().state.as_str(), "closed");
}

#[tokio::test(start_paused = true)]
async fn the_end_closes_everything() {
    let scene = Scene::ready().await;
    scene.shutdown.begin();
    assert!(scene.shutdown.wait(Duration::from_secs(20)).await, "whoever waits for the end waits for it");
    assert_eq!((scene.server.live(), scene.server.open_requests()), (0, 0));
    let gone = Error::Unavailable { state: "shutting down" };
    assert_eq!(scene.call().await, Err(gone.clone()));
    assert_eq!(scene.upstream.reconnect(in_seconds(1)).await, Err(gone));
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_does_not_read_holds_up_nobody_else() {
    let server = Fake::new(Version::V2025_11_25);
    let (sender, updates) = mpsc::channel(1);
    let shutdown = Shutdown::new();
    let upstream = Upstream::start(config("fake"), server.connector(), sender, &shutdown);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(upstream.call(&tool_call(Effect::Unsafe), in_seconds(5), &EventSender::none()).await.is_ok());
    shutdown.begin();
    assert!(shutdown.wait(Duration::from_secs(20)).await, "and not the end");
    drop(updates);
}
