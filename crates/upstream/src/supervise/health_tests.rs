//! Tests of servers that hang under load, and of servers that are only slow or busy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::super::tests::Scene;
use super::*;
use crate::fake::{Answer, Dial, Fake, tool_call};
use crate::{EventSender, Upstream, breaker, config};
use json::Raw;
use protocol::feature::{Effect, List};
use protocol::{Version, method};

/// Number of clients, which call in a loop.
const CLIENTS: usize = 4;

/// How a client ends a call that takes too long.
#[derive(Debug, Clone, Copy)]
enum Client {
    /// Its calls have this deadline.
    Hurried(Duration),
    /// It cancels its calls after this time.
    Impatient(Duration),
}

const BOTH: [Client; 2] =
    [Client::Hurried(Duration::from_secs(3)), Client::Impatient(Duration::from_secs(5))];

impl Client {
    /// Makes one call. Returns none if the client cancelled it.
    async fn call(self, upstream: &Arc<Upstream>) -> Option<Result<(), Error>> {
        let (call, event_sender) = (tool_call(Effect::Unsafe), EventSender::none());
        let (time, leaves) = match self {
            Self::Hurried(time) => (time, Duration::MAX),
            Self::Impatient(time) => (Duration::from_secs(30), time),
        };
        let response = upstream.call(&call, Instant::now() + time, &event_sender);
        timeout(leaves, response).await.ok().map(|result| result.map(drop))
    }
}

/// Events under load, in seconds after its beginning.
#[derive(Debug, Default)]
struct Observation {
    opened: Option<u64>,
    connected: Option<u64>,
    answered: Option<u64>,
    failed: Option<u64>,
    sent: usize,
}

/// Lets clients call for `time`, and records the events.
async fn load(scene: &mut Scene, client: Client, time: Duration) -> Observation {
    let (started, seen) = (Instant::now(), Mutex::new(Observation::default()));
    let (upstream, server) = (Arc::clone(&scene.upstream), scene.server.clone());
    let at = || Some(started.elapsed().as_secs());
    let clients = join_all((0..CLIENTS).map(async |_| {
        while started.elapsed() < time {
            let result = client.call(&upstream).await;
            let is_refused = matches!(&result, Some(Err(error)) if error.delivery() == Delivery::Refused);
            let answered = matches!(result, Some(Ok(()))).then(at).flatten();
            {
                let mut seen = seen.lock().expect("whole");
                seen.sent += usize::from(!is_refused);
                seen.answered = seen.answered.or(answered);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }));
    let look = async {
        while started.elapsed() < time {
            sleep(Duration::from_millis(100)).await;
            let mut seen = seen.lock().expect("whole");
            if upstream.breaker().state == breaker::State::Open {
                seen.opened = seen.opened.or_else(at);
            }
            if server.connects() > 1 {
                seen.connected = seen.connected.or_else(at);
            }
            if !upstream.status().is_healthy() {
                seen.failed = seen.failed.or_else(at);
            }
        }
    };
    tokio::join!(clients, look, scene.wait(time));
    seen.into_inner().expect("whole")
}

async fn ready(adjust: impl FnOnce(&mut config::Config)) -> Scene {
    let mut scene = Scene::of(Fake::new(Version::V2025_11_25), adjust);
    scene.until(State::Ready).await;
    scene
}

/// Stops the current process. A new one works.
fn stop(server: &Fake) {
    let (stopped, there) = (server.clone(), server.connects());
    server.answer(move |_| (stopped.connects() == there).then_some(Answer::Silence));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_under_load_is_found_out_and_started_anew() {
    for client in BOTH {
        for interval in [1, 30, 3600] {
            let mut scene = ready(|config| {
                config.health_check_interval = Duration::from_secs(interval);
            })
            .await;
            stop(&scene.server);
            let seen = load(&mut scene, client, Duration::from_secs(90)).await;
            let case = format!("{client:?}, every {interval} s: {seen:?}");
            assert!(seen.failed.is_some_and(|at| at <= 20), "{case}");
            assert!(seen.opened.is_some_and(|at| at <= 25), "{case}");
            assert!(seen.connected.is_some_and(|at| at <= 60), "{case}");
            assert!(seen.answered.is_some_and(|at| at <= 61), "{case}");
            assert_eq!(scene.server.executed(method::TOOLS_CALL), seen.sent, "none was made twice: {case}");
            assert!(scene.upstream.status().is_healthy(), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_started_anew_though_its_breaker_never_opens() {
    for client in BOTH {
        let mut scene = ready(|config| config.breaker.threshold = u32::MAX).await;
        stop(&scene.server);
        let seen = load(&mut scene, client, Duration::from_secs(90)).await;
        assert!(seen.opened.is_none() && seen.connected.is_some_and(|at| at <= 60), "{client:?}: {seen:?}");
        assert_eq!(scene.server.executed(method::TOOLS_CALL), seen.sent, "none was made twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_tool_is_no_fault_of_a_server_that_answers_others() {
    for client in BOTH {
        let mut scene = ready(|_| {}).await;
        scene.server.answer_calls(Answer::Silence);
        let seen = load(&mut scene, client, Duration::from_mins(3)).await;
        let failures = scene.upstream.breaker().consecutive_failures;
        assert_eq!((seen.opened, seen.connected, seen.failed, failures), (None, None, None, 0), "{client:?}");
        let pings = scene.server.executed(method::PING);
        assert!((10..=45).contains(&pings), "{pings} pings in three minutes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_at_work_on_one_thing_is_left_to_it_whoever_leaves_meanwhile() {
    for client in BOTH {
        let mut scene = ready(|config| config.health_check_interval = Duration::from_secs(1)).await;
        let (started, took, calls) = (Instant::now(), Duration::from_mins(2), AtomicUsize::new(0));
        scene.server.answer(move |call| {
            let is_first = call.method == method::TOOLS_CALL && calls.fetch_add(1, Ordering::Relaxed) == 0;
            let answer = || Answer::After(took, Ok(Raw::empty_object()));
            let others = || (started.elapsed() < took).then_some(Answer::Silence);
            if is_first { Some(answer()) } else { others() }
        });
        let upstream = Arc::clone(&scene.upstream);
        let (call, event_sender) = (tool_call(Effect::Unsafe), EventSender::none());
        let long = async {
            let result = upstream.call(&call, started + Duration::from_mins(3), &event_sender).await;
            assert!(result.is_ok(), "{client:?}: {result:?}");
        };
        let ((), seen) = tokio::join!(long, async {
            sleep(Duration::from_millis(10)).await;
            load(&mut scene, client, took + Duration::from_secs(30)).await
        });
        assert_eq!((seen.opened, seen.connected, seen.failed), (None, None, None), "{client:?}: {seen:?}");
        assert!(scene.server.executed(method::PING) < 40, "it is asked once, and then not until it is done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_from_before_has_its_own_deadline_also_where_its_server_hangs() {
    let mut scene = ready(|config| config.health_check_interval = Duration::from_secs(1)).await;
    stop(&scene.server);
    let (started, upstream) = (Instant::now(), Arc::clone(&scene.upstream));
    let (call, event_sender) = (tool_call(Effect::Unsafe), EventSender::none());
    let long = async {
        let result = upstream.call(&call, started + Duration::from_secs(100), &event_sender).await;
        assert!(matches!(result, Err(Error::TimedOut { .. })), "{result:?}");
        started.elapsed().as_secs()
    };
    let (ended, seen) = tokio::join!(long, load(&mut scene, BOTH[0], Duration::from_mins(3)));
    assert_eq!(ended, 100);
    assert!(seen.connected.is_some_and(|at| (100..170).contains(&at)), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn early_cancellation_does_not_count_even_if_the_server_hangs() {
    let scene = ready(|config| config.health_check_interval = Duration::from_secs(1)).await;
    stop(&scene.server);
    sleep(Duration::from_secs(12)).await;
    let failures = scene.upstream.breaker().consecutive_failures;
    for _ in 0..50 {
        assert!(Client::Impatient(Duration::from_millis(10)).call(&scene.upstream).await.is_none());
    }
    assert_eq!(scene.upstream.breaker().consecutive_failures, failures);
    assert!(Client::Impatient(Duration::from_secs(1)).call(&scene.upstream).await.is_none());
    assert_eq!(scene.upstream.breaker().consecutive_failures, failures + 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_asked_only_of_a_server_that_answers() {
    let server = Fake::new(Version::V2026_07_28);
    let mut scene = Scene::of(server, |_| {});
    scene.until(State::Ready).await;
    let lists = scene.server.executed(method::TOOLS_LIST);
    scene.server.dial(Dial::Hang);
    scene.server.answer(|_| Some(Answer::Silence));
    scene.wait(Duration::from_mins(2)).await;
    assert_eq!((scene.server.executed(method::TOOLS_LIST), scene.server.live()), (lists, 0));
    assert!(scene.server.connects() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_comes_costs_the_connection() {
    let server = Fake::new(Version::V2025_11_25);
    server.answer(|call| (call.method == method::TOOLS_LIST).then_some(Answer::Silence));
    let mut scene = Scene::of(server, |_| {});
    scene.until(State::Failed).await;
    assert_eq!((scene.server.connects(), scene.server.live()), (1, 0));
    scene.server.answer(|_| None);
    scene.until(State::Ready).await;
    assert_eq!((scene.server.connects(), scene.server.live()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_nothing_is_asked_for_its_tools_again() {
    for version in [Version::V2025_06_18, Version::V2026_07_28] {
        let mut scene = Scene::of(Fake::new(version), |_| {});
        scene.until(State::Ready).await;
        // It restarted between two checks. Without sessions no message reports that.
        scene.server.tools(&["echo", "more"]);
        let news = scene.wait(Duration::from_mins(2)).await;
        let tools = |change: &Change| match change {
            Change::Offered(offer) => offer.tools.len(),
            _ => 0,
        };
        assert_eq!(news.iter().map(tools).max(), Some(2), "{version}");
        assert_eq!(scene.server.connects(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_list_is_announced_to_clients_only_if_a_call_of_a_modern_server_announced_it() {
    for (version, most) in [(Version::V2025_11_25, 0), (Version::V2026_07_28, 1)] {
        let mut scene = Scene::of(Fake::new(version), |_| {});
        scene.until(State::Ready).await;
        let announced = |news: Vec<Change>| {
            news.into_iter()
                .filter(|change| matches!(change, Change::Announced(lists) if lists.has(List::Tools)))
                .count()
        };
        for _ in 0..20 {
            scene.server.say_changed();
            assert_eq!(announced(scene.wait(Duration::from_secs(5)).await), 0);
        }
        let upstream = Arc::clone(&scene.upstream);
        let slow = Answer::After(Duration::from_secs(1), Ok(Raw::empty_object()));
        scene.server.answer_calls(slow);
        let announcement = async {
            sleep(Duration::from_millis(500)).await;
            scene.server.say_changed();
        };
        let (called, ()) =
            tokio::join!(Client::Hurried(Duration::from_secs(3)).call(&upstream), announcement);
        assert_eq!(called, Some(Ok(())));
        assert_eq!(announced(scene.wait(Duration::from_mins(2)).await), most, "{version}");
    }
}
