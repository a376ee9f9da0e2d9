//! Tests of private connections whose server hangs, or is only slow or busy.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::config::Sharing;
use crate::fake::{Answer, Dial, Fake, config, tool_call};
use crate::{Affinity, Call, Error, EventSender, Upstream, WaitFor};
use json::Raw;
use protocol::feature::Effect;
use protocol::{Version, method};
use runtime::shutdown::Shutdown;

const SECOND: Duration = Duration::from_secs(1);

/// Starts a server with a private connection for each client and without periodic health checks.
async fn server() -> (Fake, Arc<Upstream>, Shutdown) {
    let (fake, shutdown) = (Fake::new(Version::V2025_11_25), Shutdown::new());
    let mut config = config("fake");
    (config.sharing, config.health_check_interval) = (Sharing::PerSession, Duration::from_hours(1));
    config.timeout = 10 * SECOND;
    let (updates, mut news) = mpsc::channel(4);
    let upstream = Upstream::start(config, fake.connector(), updates, &shutdown);
    shutdown.spawn_until_end(async move { while news.recv().await.is_some() {} });
    sleep(SECOND).await;
    assert!(upstream.status().is_healthy());
    (fake, upstream, shutdown)
}

/// Makes a call of a client with its own session, identified by `name`.
fn client(name: &str) -> Call {
    let params = Raw::of(&serde_json::json!({"name": name, "arguments": {}}));
    Call { affinity: Some(Affinity::session()), params: Some(params), ..tool_call(Effect::Unsafe) }
}

/// Repeats the call for `time`, each with `silence_limits`. Returns the results.
async fn calls(
    upstream: &Arc<Upstream>,
    call: &Call,
    silence_limits: Duration,
    time: Duration,
) -> Vec<Option<bool>> {
    let (started, mut ends) = (Instant::now(), Vec::new());
    while started.elapsed() < time {
        let event_sender = EventSender::none();
        let response = upstream.call(call, Instant::now() + 30 * SECOND, &event_sender);
        ends.push(
            timeout(silence_limits, response).await.ok().map(|result: Result<_, Error>| result.is_ok()),
        );
        sleep(SECOND).await;
    }
    ends
}

fn is_of(call: &Call, name: &str) -> bool {
    call.params.as_ref().is_some_and(|params| params.as_str().contains(name))
}

#[tokio::test(start_paused = true)]
async fn a_private_server_that_hangs_is_replaced_for_its_client_alone() {
    let (fake, upstream, _shutdown) = server().await;
    let (one, two) = (client("one"), client("two"));
    for call in [&one, &two] {
        assert_eq!(calls(&upstream, call, SECOND, SECOND).await, [Some(true)]);
    }
    assert_eq!((fake.connects(), fake.live()), (3, 3));
    // The first client's process hangs. The processes of other clients get only calls.
    let stopped = fake.clone();
    fake.answer(move |call| {
        let is_heard = stopped.connects() > 3 || is_of(call, "two");
        (!is_heard && (is_of(call, "one") || call.method == method::PING)).then_some(Answer::Silence)
    });
    let before = fake.executed(method::TOOLS_CALL);
    let (hung, well) = tokio::join!(
        calls(&upstream, &one, 5 * SECOND, 60 * SECOND),
        calls(&upstream, &two, SECOND, 60 * SECOND),
    );
    assert!(well.iter().all(|end| *end == Some(true)), "the other one notices nothing: {well:?}");
    let answered = hung.iter().position(|end| *end == Some(true)).expect("it is replaced");
    assert!((4..=7).contains(&answered), "after two checks, and the time of a call: {hung:?}");
    assert!(hung[answered..].iter().all(|end| *end == Some(true)), "{hung:?}");
    assert_eq!((fake.connects(), fake.live()), (4, 3), "only that one");
    let sent = fake.executed(method::TOOLS_CALL) - before;
    assert_eq!(sent, hung.len() + well.len(), "no call was made twice");
    assert!(upstream.status().is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_private_server_that_is_slow_or_at_work_is_left_alone() {
    let (fake, upstream, _shutdown) = server().await;
    let (slow, fast) = (client("slow"), client("fast"));
    let hurried = Call { params: Some(Raw::of(&serde_json::json!({"name": "hurried"}))), ..slow.clone() };
    // It answers health checks, and calls too late.
    fake.answer(|call| is_of(call, "slow").then_some(Answer::Silence));
    tokio::join!(
        calls(&upstream, &slow, 5 * SECOND, 60 * SECOND),
        calls(&upstream, &fast, SECOND, 60 * SECOND)
    );
    assert_eq!((fake.connects(), fake.live()), (3, 3), "who answers checks does not hang");

    // For 25 seconds it works on an earlier call and answers nothing else.
    let started = Instant::now();
    fake.answer(move |call| {
        let done = Answer::result(&serde_json::json!({}));
        let left = (25 * SECOND).saturating_sub(started.elapsed());
        let Answer::Reply(reply) = done else { return None };
        (!is_of(call, "fast")).then_some(Answer::After(left, reply))
    });
    let (worked, ..) = tokio::join!(
        calls(&upstream, &slow, 30 * SECOND, SECOND),
        async {
            sleep(SECOND).await;
            calls(&upstream, &hurried, 2 * SECOND, 23 * SECOND).await
        },
        calls(&upstream, &fast, SECOND, 40 * SECOND),
    );
    assert_eq!(worked, [Some(true)], "it was left to its work");
    assert_eq!((fake.connects(), fake.live()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_private_connection_block_no_other() {
    let (fake, upstream, _shutdown) = server().await;
    let (one, two) = (client("one"), client("two"));
    fake.answer(|call| is_of(call, "one").then_some(Answer::Silence));
    let hung = (0..12).map(|_| calls(&upstream, &one, 60 * SECOND, SECOND));
    let (ended, well) =
        tokio::join!(futures_util::future::join_all(hung), calls(&upstream, &two, SECOND, 30 * SECOND));
    assert!(ended.iter().all(|ends| *ends == [Some(false)]), "they had all their time: {ended:?}");
    assert!(well.iter().all(|end| *end == Some(true)), "{well:?}");
    let failures = || upstream.breaker().consecutive_failures;
    assert!(failures() <= 1, "{} failures of one program", failures());

    // Invalid answers shortly before the deadline and repeated crashes do not count either.
    for fault in
        [Error::Malformed { reason: "on purpose".into() }, Error::Lost { reason: "on purpose".into() }]
    {
        let failure = fault.clone();
        fake.answer(move |call| is_of(call, "one").then(|| Answer::Fail(failure.clone())));
        for time in [3 * SECOND, 60 * SECOND] {
            for _ in 0..8 {
                let response = upstream.call(&one, Instant::now() + time, &EventSender::none()).await;
                assert_eq!(response.err(), Some(fault.clone()));
            }
        }
        assert!(failures() <= 1, "{} failures of one program", failures());
    }
    let mortal = fake.clone();
    fake.answer(move |call| is_of(call, "one").then(|| Answer::Die));
    let connects = mortal.connects();
    calls(&upstream, &one, SECOND, 30 * SECOND).await;
    assert!(mortal.connects() > connects + 2, "it was started anew");
    assert!(failures() <= 1, "{} failures of one program", failures());

    // A private connection that cannot be opened does not count either.
    fake.dial(Dial::Refuse);
    let refused = calls(&upstream, &client("three"), SECOND, 30 * SECOND).await;
    assert!(refused.len() > 10 && refused.iter().all(|end| *end != Some(true)), "{refused:?}");
    assert_eq!(calls(&upstream, &two, SECOND, SECOND).await, [Some(true)]);
    // It counts if the shared connection cannot be opened either.
    fake.die("gone");
    sleep(SECOND).await;
    let refused = calls(&upstream, &client("four"), SECOND, 30 * SECOND).await;
    assert!(refused.iter().all(|end| *end != Some(true)), "{refused:?}");
    assert!(failures() > 3, "{}", failures());
}

#[tokio::test(start_paused = true)]
async fn call_whose_connect_outlasts_the_task_of_its_client_is_read_for_by_the_next_task() {
    let (fake, upstream, _shutdown) = server().await;
    let call = client("one");
    upstream.open_session(&call, WaitFor::Connection).await;
    assert!(!upstream.is_unread(call.affinity.as_ref()));
    fake.dial(Dial::AcceptAfter(20 * SECOND));
    fake.die("gone");
    sleep(SECOND).await;
    let started = Instant::now();
    let read = upstream.read_first(&call, (Instant::now() + 60 * SECOND).into(), &EventSender::none()).await;
    assert_eq!((read, upstream.is_unread(call.affinity.as_ref())), (Ok(()), false));
    assert!(started.elapsed() < 25 * SECOND, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn call_that_connected_between_two_attempts_is_read_for_without_another_wake_up() {
    let (fake, upstream, _shutdown) = server().await;
    let call = client("one");
    fake.dial(Dial::Refuse);
    upstream.open_session(&call, WaitFor::Connection).await;
    fake.dial(Dial::Accept);
    // The task of the client pauses after the failed attempt, and counts this call as one that it has served.
    let started = Instant::now();
    let read = upstream.read_first(&call, (started + 60 * SECOND).into(), &EventSender::none()).await;
    assert_eq!((read, upstream.is_unread(call.affinity.as_ref())), (Ok(()), false));
    assert!(started.elapsed() < 8 * SECOND, "{:?}", started.elapsed());
}
