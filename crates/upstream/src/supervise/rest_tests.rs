//! Programs that are started on demand, in random schedules of calls, crashes, subscriptions and pauses.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{FuturesUnordered, StreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::config::Start;
use crate::fake::{Answer, Fake, config, tool_call};
use crate::{Error, EventSender, Offer, Remembered, State, Subject, Upstream};
use json::Raw;
use protocol::feature::Effect;
use protocol::lifecycle::Peer;
use protocol::{Version, method};
use runtime::shutdown::Shutdown;

const IDLE: Duration = Duration::from_secs(20);

struct Scene {
    server: Fake,
    upstream: Arc<Upstream>,
    _shutdown: Shutdown,
}

/// A server whose offer is remembered, so that it does not run.
fn resting(seed: u64) -> Scene {
    let server = Fake::new(Version::V2025_11_25);
    server.capabilities(&serde_json::json!({"tools": {}, "resources": {"subscribe": true}}));
    let mut random = StdRng::seed_from_u64(seed);
    let time = Duration::from_millis(random.random_range(0..30_000));
    let answer = Answer::After(time, Ok(Raw::empty_object()));
    server.answer(move |call| (call.method == method::TOOLS_CALL).then(|| answer.clone()));
    let mut config = config("fake");
    (config.lifecycle.start, config.lifecycle.idle_timeout) = (Start::OnDemand, Some(IDLE));
    (config.timeout, config.health_check_interval) = (Duration::from_mins(2), Duration::from_secs(7));
    let peer = Peer {
        version: Version::V2025_11_25,
        info: Raw::empty_object(),
        capabilities: Raw::empty_object(),
        instructions: None,
    };
    let (offer, read_at) = (Offer::empty(peer).to_stored(), SystemTime::now());
    let remembered =
        Remembered { offer: Some(offer), principals: Arc::default(), read_at, signs: Vec::new() };
    let (updates, mut unread) = mpsc::channel(16);
    let shutdown = Shutdown::new();
    let upstream =
        Upstream::start_remembered(config, server.connector(), Some(&remembered), updates, &shutdown);
    shutdown.spawn_until_end(async move { while unread.recv().await.is_some() {} });
    Scene { server, upstream, _shutdown: shutdown }
}

async fn call(upstream: &Arc<Upstream>) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_mins(5);
    let answered = upstream.call(&tool_call(Effect::Unsafe), deadline, &EventSender::none()).await;
    answered?.body.collect().await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn no_schedule_loses_or_doubles_a_call_or_stops_a_program_that_is_needed() {
    let (mut calls, mut starts, mut crashes) = (0, 0, 0);
    for seed in 0..1_000 {
        let Scene { server, upstream, _shutdown } = resting(seed);
        let mut random = StdRng::seed_from_u64(seed);
        let (mut open, mut watched) = (FuturesUnordered::new(), None);
        let (mut made, mut lost, mut has_crashed) = (0, 0, false);
        for _ in 0..random.random_range(1..12) {
            match random.random_range(0..8) {
                0..=3 => {
                    made += 1;
                    open.push(call(&upstream));
                }
                4 => {
                    let subject = Subject::Resource("file:///a".into());
                    let deadline = Instant::now() + Duration::from_mins(1);
                    let watch = upstream.watch((&"key:a".into(), None), subject, deadline).await;
                    watched = watch.ok().and_then(Result::ok);
                }
                5 => watched = None,
                6 if random.random_range(0..4) == 0 => {
                    has_crashed = true;
                    crashes += usize::from(server.live() > 0);
                    server.die("crash");
                }
                _ => {}
            }
            let pause = sleep(Duration::from_millis(random.random_range(0..60_000)));
            let mut pause = std::pin::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(ended) = open.next() => lost += usize::from(ended.is_err()),
                }
            }
            let is_needed = !open.is_empty() || watched.is_some();
            assert!(has_crashed || !is_needed || server.live() > 0, "seed {seed}: stopped while needed");
            assert!(server.live() <= 1, "seed {seed}: {} processes", server.live());
        }
        while let Some(ended) = open.next().await {
            lost += usize::from(ended.is_err());
        }
        drop(watched);
        let executed = server.executed(method::TOOLS_CALL);
        assert!(executed <= made, "seed {seed}: {executed} of {made} calls were executed");
        assert!(
            has_crashed || (lost == 0 && executed == made),
            "seed {seed}: {lost} of {made} calls were lost"
        );
        sleep(IDLE * 4).await;
        assert_eq!(server.live(), 0, "seed {seed}: it runs though nothing needs it");
        assert!(
            has_crashed || upstream.status().state == State::Idle,
            "seed {seed}: {:?}",
            upstream.status().state
        );
        (calls, starts) = (calls + made, starts + server.connects());
    }
    eprintln!("{calls} calls, {starts} starts, {crashes} crashes");
    assert!(
        calls > 1_000 && starts > 500 && crashes > 10,
        "{calls} calls, {starts} starts, {crashes} crashes"
    );
}
