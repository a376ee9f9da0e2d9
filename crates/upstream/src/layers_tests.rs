//! The path of one call: deadline, retries, breaker, and what is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::super::fake::{Answer, Dial, Fake, config, tool_call};
use super::super::{Config, Update, breaker, config::BreakerConfig};
use super::*;
use json::Raw;
use protocol::{Reply, Version, feature::Effect, method};
use runtime::shutdown::Shutdown;

/// A server, the way to it, and what keeps both alive.
struct Scene {
    server: Fake,
    upstream: Arc<Upstream>,
    shutdown: Shutdown,
    _news: mpsc::Receiver<Update>,
}

impl Scene {
    fn new(adjust: impl FnOnce(&mut Config)) -> Self {
        let (server, shutdown) = (Fake::new(Version::V2025_11_25), Shutdown::new());
        let (updates, news) = mpsc::channel(64);
        let mut config = config("fake");
        // The supervisor is tested elsewhere; here it stays out of the way after its first look.
        config.health_check_interval = Duration::from_hours(10);
        adjust(&mut config);
        let upstream = Upstream::start(config, server.connector(), updates, &shutdown);
        Self { server, upstream, shutdown, _news: news }
    }

    async fn ready(adjust: impl FnOnce(&mut Config)) -> Self {
        let scene = Self::new(adjust);
        while scene.upstream.offer().is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        scene
    }

    async fn call(&self, effect: Effect) -> Result<Reply, Error> {
        let answered = self.upstream.call(&tool_call(effect), in_seconds(30), &EventSender::none()).await;
        answered?.body.collect().await
    }

    fn executed(&self) -> usize {
        self.server.executed(method::TOOLS_CALL)
    }

    fn nothing_is_left(&self) -> bool {
        let (status, runs) = (self.upstream.status(), self.upstream.liveness.runs());
        (status.running, status.waiting, self.server.open_requests(), runs) == (0, 0, 0, 0)
    }
}

fn in_seconds(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

fn lost() -> Answer {
    Answer::Fail(Error::Lost { reason: "reset".into() })
}

/// Fails as `failure` says `times` times, then answers.
fn failing(times: u32, failure: Answer) -> impl Fn(&Call) -> Option<Answer> + Send + Sync {
    let seen = AtomicU32::new(0);
    move |call| {
        let is_tool = call.method == method::TOOLS_CALL;
        (is_tool && seen.fetch_add(1, Ordering::SeqCst) < times).then(|| failure.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn answer_of_a_server_passes_untouched_and_never_counts() {
    let scene = Scene::ready(|_| {}).await;
    let raw =
        Raw::parse(&bytes::Bytes::from_static(br#"{"isError":true,"n":1e400, "x":null}"#)).expect("JSON");
    scene.server.answer_calls(Answer::Reply(Ok(raw.clone())));
    assert_eq!(scene.call(Effect::Unsafe).await.expect("answered"), Ok(raw));
    let refusal = protocol::ErrorObject::new(-32602, "bad");
    scene.server.answer_calls(Answer::Reply(Err(refusal.clone())));
    for _ in 0..20 {
        assert_eq!(scene.call(Effect::ReadOnly).await.expect("answered"), Err(refusal.clone()));
    }
    let status = scene.upstream.status();
    assert_eq!((status.breaker.consecutive_failures, status.counters.calls), (0, 21));
    assert_eq!((status.counters.failures, status.counters.retries, scene.executed()), (0, 0, 21));
}

// RULES R11
#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_deadline_and_opens_the_breaker() {
    let scene = Scene::ready(|_| {}).await;
    scene.server.answer_calls(Answer::Silence);
    for failures in 1..=5 {
        let started = Instant::now();
        let error = scene.call(Effect::Unsafe).await.expect_err("silence");
        assert_eq!(error, Error::TimedOut { after: Duration::from_secs(30) });
        assert_eq!(started.elapsed().as_secs(), 30);
        assert_eq!(scene.upstream.breaker().consecutive_failures, failures);
    }
    let started = Instant::now();
    assert!(matches!(scene.call(Effect::Unsafe).await, Err(Error::CircuitOpen { .. })));
    assert_eq!((started.elapsed(), scene.executed()), (Duration::ZERO, 5));
    assert_eq!(scene.server.cancelled(), 5, "each was cancelled at the server");
    assert!(scene.nothing_is_left());
}

#[tokio::test(start_paused = true)]
async fn short_deadlines_of_callers_do_not_open_the_breaker() {
    let scene = Scene::ready(|_| {}).await;
    scene.server.answer_calls(Answer::Silence);
    let call = tool_call(Effect::Unsafe);
    for milliseconds in [1, 1, 1, 1, 1, 100, 1_000, 4_000, 4_000] {
        let deadline = Instant::now() + Duration::from_millis(milliseconds);
        let error = scene.upstream.call(&call, deadline, &EventSender::none()).await.expect_err("silence");
        assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
        assert_eq!(scene.upstream.breaker().consecutive_failures, 0, "{milliseconds} ms");
    }
    assert!(scene.upstream.call(&call, in_seconds(5), &EventSender::none()).await.is_err());
    assert_eq!(scene.upstream.breaker().consecutive_failures, 1, "five seconds of silence count");

    let slow = Scene::new(|_| {});
    slow.server.dial(Dial::Hang);
    for _ in 0..10 {
        let deadline = Instant::now() + Duration::from_millis(1);
        let error =
            slow.upstream.call(&call, deadline, &EventSender::none()).await.expect_err("nobody there");
        assert_eq!(error.delivery(), Delivery::NotSent);
    }
    assert_eq!(slow.upstream.breaker().consecutive_failures, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_a_short_timeout_is_judged_by_that() {
    let scene = Scene::ready(|config| config.timeout = Duration::from_secs(2)).await;
    scene.server.answer_calls(Answer::Silence);
    let call = tool_call(Effect::Unsafe);
    for (milliseconds, failures) in [(1_500, 0), (1_990, 1)] {
        let deadline = Instant::now() + Duration::from_millis(milliseconds);
        assert!(scene.upstream.call(&call, deadline, &EventSender::none()).await.is_err());
        assert_eq!(scene.upstream.breaker().consecutive_failures, failures, "{milliseconds} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_was_given_no_time_leaves_the_seat_to_the_next() {
    let scene = Scene::ready(|config| {
        config.breaker = BreakerConfig { threshold: 1, successes: 1, timeout: Duration::from_secs(1) };
    })
    .await;
    scene.server.answer_calls(lost());
    assert!(scene.call(Effect::Unsafe).await.is_err());
    sleep(Duration::from_secs(1)).await;
    scene.server.answer_calls(Answer::Silence);
    let deadline = Instant::now() + Duration::from_millis(1);
    let hurried = scene.upstream.call(&tool_call(Effect::Unsafe), deadline, &EventSender::none()).await;
    assert!(matches!(hurried, Err(Error::TimedOut { .. })), "{hurried:?}");
    assert_eq!(scene.upstream.breaker().state, breaker::State::HalfOpen);
    scene.server.answer(|_| None);
    assert!(scene.call(Effect::Unsafe).await.is_ok(), "this one is the probe");
}

#[tokio::test(start_paused = true)]
async fn call_that_may_have_run_is_never_sent_again() {
    let cut = Answer::Fail(Error::Cut { reason: "half".into() });
    for failure in [lost(), cut, Answer::Silence] {
        let scene = Scene::ready(|_| {}).await;
        scene.server.answer(failing(1, failure.clone()));
        assert!(scene.call(Effect::Unsafe).await.is_err(), "{failure:?}");
        assert_eq!((scene.executed(), scene.upstream.status().counters.retries), (1, 0), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_was_not_sent_or_is_idempotent_is_retried() {
    let not_sent = Answer::Fail(Error::NotSent { reason: "closed".into() });
    for (effect, failure, executed) in
        [(Effect::Unsafe, not_sent, 1), (Effect::ReadOnly, lost(), 3), (Effect::Idempotent, lost(), 3)]
    {
        let scene = Scene::ready(|_| {}).await;
        scene.server.answer(failing(2, failure));
        assert!(scene.call(effect).await.is_ok(), "{effect:?}");
        assert_eq!((scene.executed(), scene.upstream.status().counters.retries), (executed, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_end_at_the_configured_number() {
    let scene = Scene::ready(|config| config.breaker.threshold = 100).await;
    scene.server.answer_calls(lost());
    assert!(matches!(scene.call(Effect::ReadOnly).await, Err(Error::Lost { .. })));
    assert_eq!(scene.executed(), 4, "one and three more");
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_we_refuse_leaves_the_real_failure_to_tell() {
    let scene = Scene::ready(|config| config.breaker.threshold = 2).await;
    scene.server.answer_calls(lost());
    let started = Instant::now();
    assert!(matches!(scene.call(Effect::ReadOnly).await, Err(Error::Lost { .. })));
    assert_eq!(scene.executed(), 2, "the second failure opened the breaker");
    assert!(started.elapsed() <= Duration::from_secs(1), "and nobody waits half a minute for a refusal");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_during_a_pause_does_not_hide_what_happened() {
    let scene = Scene::ready(|config| {
        config.breaker = BreakerConfig { threshold: 2, successes: 1, timeout: Duration::from_hours(1) };
        config.retry.delay = Duration::from_secs(20);
    })
    .await;
    scene.server.answer_calls(lost());
    let other = async {
        sleep(Duration::from_millis(1)).await;
        assert!(scene.call(Effect::Unsafe).await.is_err());
        assert_eq!(scene.upstream.breaker().state, breaker::State::Open);
    };
    let (result, ()) = tokio::join!(scene.call(Effect::ReadOnly), other);
    assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}");
}

// RULES R8
#[tokio::test(start_paused = true)]
async fn an_outage_never_becomes_a_flood() {
    let scene = Scene::ready(|config| config.breaker.threshold = u32::MAX).await;
    scene.server.answer_calls(lost());
    let (requests, seconds) = (2_000_u32, 10);
    let calls = (0..requests).map(|number| {
        let scene = &scene;
        async move {
            sleep(Duration::from_secs(seconds) * number / requests).await;
            assert!(scene.call(Effect::ReadOnly).await.is_err());
        }
    });
    let started = Instant::now();
    join_all(calls).await;
    let took = u32::try_from(started.elapsed().as_secs() + 1).expect("short");
    let attempts = u32::try_from(scene.executed()).expect("few");
    let most = requests + requests / 5 + 3 * took;
    assert!(attempts <= most, "{attempts} attempts, allowed are {most}");
    assert!(attempts > requests + requests / 10, "{attempts} attempts: some are retried");
}

// RULES R32
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_pause_gets_it() {
    let scene = Scene::ready(|_| {}).await;
    let busy =
        Error::Status { status: 503, retry_after: Some(Duration::from_secs(4)), detail: <_>::default() };
    scene.server.answer(failing(1, Answer::Fail(busy.clone())));
    let started = Instant::now();
    assert!(scene.call(Effect::Unsafe).await.is_ok());
    assert!((4..5).contains(&started.elapsed().as_secs()));
    scene.server.answer(failing(1, Answer::Fail(busy.clone())));
    let hurried = scene.upstream.call(&tool_call(Effect::Unsafe), in_seconds(3), &EventSender::none()).await;
    assert_eq!(hurried.map(drop), Err(busy), "no time left for the pause");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_gives_everything_back() {
    let scene = Scene::ready(|config| {
        config.breaker = BreakerConfig { threshold: 1, successes: 1, timeout: Duration::from_secs(1) };
        config.limits.concurrent_calls = 1;
    })
    .await;
    scene.server.answer_calls(lost());
    assert!(scene.call(Effect::Unsafe).await.is_err());
    assert_eq!(scene.upstream.breaker().state, breaker::State::Open);
    sleep(Duration::from_secs(1)).await;
    scene.server.answer_calls(Answer::Silence);
    for left in 1..=3 {
        // Each one is the only probe and has the only place, so the next needs both back.
        let call = scene.call(Effect::Unsafe);
        assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
        assert_eq!(
            (scene.server.cancelled(), scene.upstream.breaker().state),
            (left, breaker::State::HalfOpen)
        );
        assert!(scene.nothing_is_left());
    }
    scene.server.answer(|_| None);
    assert!(scene.call(Effect::Unsafe).await.is_ok());
    assert_eq!(scene.upstream.breaker().state, breaker::State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_on_connect_says_that_nothing_was_sent() {
    let scene = Scene::new(|_| {});
    scene.server.dial(Dial::Hang);
    let call = tool_call(Effect::Unsafe);
    let started = Instant::now();
    let error =
        scene.upstream.call(&call, in_seconds(5), &EventSender::none()).await.expect_err("nobody there");
    assert_eq!((error.delivery(), started.elapsed().as_secs()), (Delivery::NotSent, 5));
    assert!(error.to_string().contains("5.0 s"), "{error}");
    assert_eq!((scene.server.connects(), scene.upstream.breaker().consecutive_failures), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_deadline_has_passed_is_not_sent() {
    let scene = Scene::ready(|_| {}).await;
    let call = tool_call(Effect::Unsafe);
    let result = scene.upstream.call(&call, Instant::now(), &EventSender::none()).await;
    assert_eq!((result.is_err(), scene.executed()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_are_shed_at_once_and_health_still_passes() {
    let scene = Scene::ready(|config| {
        config.limits.concurrent_calls = 2;
        config.limits.waiting_calls = 2;
    })
    .await;
    scene.server.answer_calls(Answer::Silence);
    let calls = join_all((0..10).map(|_| scene.call(Effect::Unsafe)));
    let look = async {
        sleep(Duration::from_secs(1)).await;
        let status = scene.upstream.status();
        assert_eq!((status.running, status.waiting, status.counters.refusals), (2, 2, 6));
        assert!(scene.upstream.health_check().await.is_ok());
    };
    let (results, ()) = tokio::join!(calls, look);
    let shed = results.iter().filter(|result| matches!(result, Err(Error::Overloaded { .. }))).count();
    let timed_out = results.iter().filter(|result| matches!(result, Err(Error::TimedOut { .. }))).count();
    assert_eq!((shed, timed_out), (8, 2), "six at once, two when their deadline ended their wait");
    assert_eq!(scene.upstream.breaker().consecutive_failures, 2, "and those eight count for nothing");
}

#[tokio::test(start_paused = true)]
async fn one_principal_cannot_keep_a_server_from_the_others() {
    let scene =
        Scene::ready(|config| (config.limits.concurrent_calls, config.limits.waiting_calls) = (2, 2)).await;
    scene.server.answer_calls(Answer::After(Duration::from_secs(1), Ok(Raw::empty_object())));
    let call = |who: &str| {
        let (upstream, call) =
            (&scene.upstream, Call { principal: Some(who.into()), ..tool_call(Effect::Unsafe) });
        async move { upstream.call(&call, in_seconds(30), &EventSender::none()).await.is_ok() }
    };
    let (of_alice, of_bob) = tokio::join!(join_all((0..10).map(|_| call("alice"))), call("bob"));
    assert!(of_bob, "the last of alice who waited gave its room");
    assert_eq!(of_alice.iter().filter(|answered| **answered).count(), 3);
    assert!(scene.nothing_is_left());
}

#[tokio::test(start_paused = true)]
async fn one_crash_is_one_failure_for_all_who_were_there() {
    let scene = Scene::ready(|_| {}).await;
    scene.server.answer_calls(Answer::Silence);
    let crash = async {
        sleep(Duration::from_secs(1)).await;
        scene.server.answer(|_| None);
        scene.server.die("crashed");
    };
    let (results, ()) = tokio::join!(join_all((0..50).map(|_| scene.call(Effect::Unsafe))), crash);
    assert!(results.iter().all(|result| matches!(result, Err(Error::Lost { .. }))));
    assert!(scene.call(Effect::Unsafe).await.is_ok(), "the next call connects anew");
    assert_eq!(scene.upstream.breaker().state, breaker::State::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_server_is_never_contacted() {
    let scene = Scene::new(|config| config.enabled = false);
    let disabled = Error::Unavailable { state: "disabled" };
    sleep(Duration::from_mins(10)).await;
    assert_eq!(scene.call(Effect::ReadOnly).await, Err(disabled.clone()));
    assert_eq!(scene.upstream.health_check().await, Err(disabled.clone()));
    assert_eq!(scene.upstream.reconnect(in_seconds(5)).await, Err(disabled.clone()));
    assert_eq!(scene.upstream.connect(in_seconds(5)).await, Err(disabled.clone()));
    assert_eq!(scene.upstream.disconnect().await, Err(disabled));
    assert_eq!(scene.server.connects(), 0);
    scene.upstream.stop(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_calls_and_then_leaves_nothing() {
    let scene = Scene::ready(|_| {}).await;
    scene.server.answer_calls(Answer::After(Duration::from_secs(3), Ok(Raw::empty_object())));
    let started = Instant::now();
    let (result, ()) = tokio::join!(scene.call(Effect::Unsafe), scene.upstream.stop(Duration::from_secs(10)));
    assert!(result.is_ok() && started.elapsed() < Duration::from_secs(4));
    assert_eq!(scene.server.live(), 0);
    assert_eq!(scene.call(Effect::Unsafe).await, Err(Error::Unavailable { state: "shutting down" }));
    scene.shutdown.begin();
    assert!(scene.shutdown.wait(Duration::from_secs(1)).await, "no task is left");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_task_blocks_no_call_and_no_task_request() {
    let scene = Scene::ready(|config| config.limits.concurrent_calls = 1).await;
    scene.server.answer(|call| (call.method == method::TASKS_RESULT).then_some(Answer::Silence));
    let calls = ["tasks/result", "tasks/get", "tasks/cancel", "tools/call"]
        .map(|method| Call { method: method.into(), ..tool_call(Effect::ReadOnly) });
    let quiet = EventSender::none();
    let ask = |call| scene.upstream.call(call, in_seconds(5), &quiet);
    let answered = join_all(calls.iter().map(ask)).await;
    assert_eq!(answered.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true, true]);
}

#[tokio::test(start_paused = true)]
async fn failing_lists_of_one_principal_open_the_breaker_for_that_principal_only() {
    let scene = Scene::ready(|_| {}).await;
    scene.server.answer(|call| (call.method == method::TOOLS_LIST).then(lost));
    let call = Call { principal: Some("key:ann".into()), ..tool_call(Effect::ReadOnly) };
    for _ in 0..10 {
        let discovery = scene.upstream.discovery(in_seconds(30), mpsc::channel(1).0);
        let read = scene.upstream.read_offer(&discovery, PoolRequest::Of(&call)).await;
        assert!(read.is_err());
    }
    let refuses = |principal: &str| scene.upstream.breaker.refuses_for(Some(&principal.into())).is_some();
    assert!(refuses("key:ann") && !refuses("key:bob"));
}
