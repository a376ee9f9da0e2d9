//! R28: with a cache in Redis no call fails and no outdated answer is returned, whether Redis is
//! killed, paused or slow. Needs `redis-server`; each test starts its own.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use runtime::shutdown::Shutdown;
use runtime::store::{Fetched, Group, Key, Store};
use switchyard_mcp::program::Config;

use crate::support::eventually;
use crate::support::redis::{Redis, SlowWay};

const TTL: Duration = Duration::from_mins(10);
/// A call that takes longer has waited for more than a few commands, and has failed.
const SOON: Duration = Duration::from_secs(5);
/// Time limits of a command, in seconds: one that Redis must miss, and one that it must meet even on
/// a busy machine.
const SHORT: f64 = 0.5;
const LONG: f64 = 5.0;

/// The cache of one gateway.
struct Gateway {
    store: Store,
    shutdown: Shutdown,
}

impl Gateway {
    /// A gateway with its cache at `url`, which must be reachable.
    async fn at(url: &str, limit: f64) -> Self {
        let yaml = format!("cache: {{type: redis, url: \"{url}\", command_timeout: {limit}}}\n");
        let config = Config::parse(Path::new("c.yaml"), yaml.as_bytes(), &|name| std::env::var(name));
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let (store, shutdown) = (Store::open(&config.manager.cache), Shutdown::new());
        shutdown.spawn_until_end(store.clone().maintain());
        let gateway = Self { store, shutdown };
        gateway.uses_it().await;
        gateway
    }

    async fn uses_it(&self) {
        eventually("redis is used", async || self.store.is_there().then_some(())).await;
    }

    /// Requests answer `at`, which would be computed as `text`.
    async fn ask(&self, at: u32, text: &str) -> Fetched {
        let key = Key::new(&group(), &at);
        let make = async { Ok::<_, Infallible>(Bytes::copy_from_slice(text.as_bytes())) };
        let asking = self.store.fetch(&key, TTL, make);
        tokio::time::timeout(SOON, asking).await.expect("nobody waits for redis").expect("no call fails")
    }

    /// Requests many answers at a time, and returns how many were not cached.
    async fn ask_many(&self, text: &str) -> usize {
        let all = join_all((0..64).map(|at| self.ask(at, text))).await;
        assert!(all.iter().all(|fetched| fetched.value == text), "something else was given out");
        all.iter().filter(|fetched| !fetched.cached).count()
    }

    async fn forget(&self) {
        let group = group();
        tokio::time::timeout(SOON, self.store.forget(&group)).await.expect("nobody waits for redis");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

fn group() -> Group {
    Group::new(&["tests", "a"])
}

fn fetched(text: &'static str, cached: bool) -> Fetched {
    Fetched { value: Bytes::from_static(text.as_bytes()), cached }
}

#[tokio::test]
async fn entry_of_one_gateway_is_shared_with_and_invalidated_for_the_other() {
    let redis = Redis::start().await;
    let (one, other) = (Gateway::at(&redis.url(), LONG).await, Gateway::at(&redis.url(), LONG).await);
    assert_eq!(one.ask(1, "old").await, fetched("old", false));
    assert_eq!(other.ask(1, "new").await, fetched("old", true));
    other.forget().await;
    assert_eq!(one.ask(1, "new").await, fetched("new", false));
    assert_eq!(other.ask(1, "newer").await, fetched("new", true));
    let counts = other.store.counts()["tests"];
    assert_eq!((counts.hits, counts.misses, counts.faults), (2, 0, 0));
}

#[tokio::test]
async fn entry_computed_while_another_gateway_forgets_is_not_stored() {
    let redis = Redis::start().await;
    let (one, other) = (Gateway::at(&redis.url(), LONG).await, Gateway::at(&redis.url(), LONG).await);
    let key = Key::new(&group(), &1);
    let make = async {
        other.forget().await;
        Ok::<_, Infallible>(Bytes::from_static(b"old"))
    };
    assert_eq!(one.store.fetch(&key, TTL, make).await, Ok(fetched("old", false)));
    assert_eq!(one.ask(1, "new").await, fetched("new", false));
    assert_eq!(other.ask(1, "newer").await, fetched("new", true));
}

// RULES R28
#[tokio::test]
async fn when_redis_is_killed_and_comes_back_no_call_fails() {
    let redis = Redis::start().await;
    let gateway = Gateway::at(&redis.url(), SHORT).await;
    assert_eq!(gateway.ask_many("old").await, 64);
    assert_eq!(gateway.ask_many("old").await, 0);
    let port = redis.kill();
    for text in ["new", "newer"] {
        assert_eq!(gateway.ask_many(text).await, 64, "they are worked out");
    }
    assert!(!gateway.store.is_there());
    gateway.forget().await;
    let _redis = Redis::start_on(port).await;
    gateway.uses_it().await;
    assert_eq!(gateway.ask_many("newest").await, 64);
    assert_eq!(gateway.ask_many("newest").await, 0);
}

// RULES R28
#[tokio::test]
async fn entry_forgotten_while_redis_is_paused_is_never_returned_again() {
    let redis = Redis::start().await;
    let gateway = Gateway::at(&redis.url(), SHORT).await;
    assert_eq!(gateway.ask_many("old").await, 64);
    redis.pause();
    gateway.forget().await; // within the time limit of a command
    assert_eq!(gateway.ask_many("new").await, 64, "they are worked out, at once");
    redis.resume();
    gateway.uses_it().await;
    // All old answers are still in Redis and have not expired.
    assert_eq!(gateway.ask_many("new").await, 64, "none of the old ones is given out");
    assert_eq!(gateway.ask_many("new").await, 0);
}

#[tokio::test]
async fn when_redis_is_paused_without_anybody_forgetting_no_call_fails_either() {
    let redis = Redis::start().await;
    let gateway = Gateway::at(&redis.url(), SHORT).await;
    assert_eq!(gateway.ask_many("same").await, 64);
    redis.pause();
    for _ in 0..3 {
        assert_eq!(gateway.ask_many("same").await, 64);
    }
    assert!(!gateway.store.is_there(), "it is left alone");
    redis.resume();
    gateway.uses_it().await;
    assert_eq!(gateway.ask_many("same").await, 0, "what it has is good");
    assert!(gateway.store.counts()["tests"].faults >= 3);
}

// RULES R28
#[tokio::test]
async fn when_redis_is_slow_no_call_fails_and_nothing_old_is_given_out() {
    let redis = Redis::start().await;
    let way = SlowWay::to(&redis);
    let gateway = Gateway::at(&way.url(), SHORT).await;
    assert_eq!(gateway.ask_many("old").await, 64);
    way.take(Duration::from_millis(1_500));
    assert_eq!(gateway.ask_many("old").await, 64);
    gateway.forget().await;
    assert_eq!(gateway.ask_many("new").await, 64);
    way.take(Duration::ZERO);
    gateway.uses_it().await;
    assert_eq!(gateway.ask_many("new").await, 64, "none of the old ones is given out");
    assert_eq!(gateway.ask_many("new").await, 0);
}

#[tokio::test]
async fn cancelled_forget_still_removes_the_group() {
    let redis = Redis::start().await;
    let gateway = Gateway::at(&redis.url(), SHORT).await;
    assert_eq!(gateway.ask(1, "old").await, fetched("old", false));
    redis.pause();
    {
        let group = group();
        let mut forgetting = Box::pin(gateway.store.forget(&group));
        assert!(futures_util::poll!(&mut forgetting).is_pending());
    }
    assert_eq!(gateway.ask(1, "new").await, fetched("new", false));
    redis.resume();
    gateway.uses_it().await;
    assert_eq!(gateway.ask(1, "newer").await, fetched("newer", false));
}

#[tokio::test]
async fn five_thousand_keys_of_one_group_are_forgotten_at_once_and_the_others_stay() {
    let redis = Redis::start().await;
    let gateway = Gateway::at(&redis.url(), LONG).await;
    let key = |at: u32| Key::new(&Group::new(&["tests", if at < 5_000 { "a" } else { "ab" }]), &at);
    for begin in (0..5_100).step_by(100) {
        let puts = (begin..begin + 100).map(|at| {
            let make = async { Ok::<_, Infallible>(Bytes::from_static(b"x")) };
            let store = &gateway.store;
            async move { store.fetch(&key(at), TTL, make).await }
        });
        join_all(puts).await;
    }
    gateway.forget().await;
    for at in [9, 4_999] {
        assert_eq!(gateway.ask(at, "new").await, fetched("new", false));
        assert_eq!(gateway.ask(at, "newer").await, fetched("new", true));
    }
    let other = gateway.store.fetch(&key(5_050), TTL, async { Ok::<_, Infallible>(Bytes::new()) }).await;
    assert_eq!(other, Ok(fetched("x", true)));
}
