//! Properties that every backend of the cache has.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::*;

const TTL: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FetchError(u8);

fn memory() -> Store {
    Store::open(&Config::default())
}

fn group() -> Group {
    Group::new(&["tests", "a"])
}

#[allow(clippy::unnecessary_wraps)] // the callers expect a `Result`
fn value(text: &'static str) -> Result<Bytes, FetchError> {
    Ok(Bytes::from_static(text.as_bytes()))
}

async fn fetch(store: &Store, text: &'static str) -> Fetched {
    store.fetch(&Key::new(&group(), &1), TTL, async { value(text) }).await.expect("no error")
}

fn fetched(text: &'static str, cached: bool) -> Fetched {
    Fetched { value: Bytes::from_static(text.as_bytes()), cached }
}

#[tokio::test(start_paused = true)]
async fn the_first_works_it_out_and_the_next_has_it_until_its_time_is_over() {
    let store = memory();
    assert_eq!(fetch(&store, "one").await, fetched("one", false));
    assert_eq!(fetch(&store, "two").await, fetched("one", true));
    tokio::time::advance(TTL).await;
    assert_eq!(fetch(&store, "three").await, fetched("three", false));
    assert_eq!(store.counts()["tests"], Counts { hits: 1, misses: 2, faults: 0 });
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_for_no_time_and_nobody_waits_for_it() {
    let (store, key) = (memory(), Key::new(&group(), &1));
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let one = || {
        let both = Arc::clone(&both);
        store.fetch(&key, Duration::ZERO, async move {
            both.wait().await; // never, if one waited for the other
            value("x")
        })
    };
    let (first, second) = tokio::join!(one(), one());
    assert_eq!((first, second), (Ok(fetched("x", false)), Ok(fetched("x", false))));
    assert_eq!(fetch(&store, "new").await, fetched("new", false));
}

#[tokio::test(start_paused = true)]
async fn equal_requests_are_computed_once() {
    let (store, count) = (memory(), AtomicUsize::new(0));
    let wish = |which: usize| {
        let (store, count) = (&store, &count);
        async move {
            let key = Key::new(&group(), &(which % 2));
            let make = async {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                value("x")
            };
            store.fetch(&key, TTL, make).await
        }
    };
    let all = join_all((0..100).map(wish)).await;
    assert!(all.iter().all(|fetched| fetched.as_ref().is_ok_and(|fetched| fetched.value == "x")));
    assert_eq!(count.load(Ordering::Relaxed), 2, "one of each key");
    assert_eq!(store.counts()["tests"], Counts { hits: 0, misses: 100, faults: 0 });
    assert_eq!(store.0.flights.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_the_one_who_works_it_out_leaves_another_takes_over() {
    let (store, key) = (memory(), Key::new(&group(), &1));
    let mut first = Box::pin(store.fetch(&key, TTL, std::future::pending::<Result<Bytes, FetchError>>()));
    assert!(futures_util::poll!(&mut first).is_pending());
    let turns = Mutex::new(Vec::new());
    let wait = |name: usize| {
        let turns = &turns;
        store.fetch(&key, TTL, async move {
            turns.lock().expect("fine").push(name);
            value("x")
        })
    };
    let mut rest = Box::pin(join_all((0..10).map(wait)));
    assert!(futures_util::poll!(&mut rest).is_pending());
    assert_eq!(store.0.flights.waiters(), 11);
    drop(first);
    let all = rest.await;
    assert!(all.iter().all(|one| *one == Ok(fetched("x", false))), "{all:?}");
    assert_eq!(*turns.lock().expect("fine"), [0], "only one of them, and the one who waited longest");
    assert_eq!(store.0.flights.under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelled_caller_leaves_no_entry_behind() {
    let (store, key) = (memory(), Key::new(&group(), &1));
    let wait = || Box::pin(store.fetch(&key, TTL, std::future::pending::<Result<Bytes, FetchError>>()));
    let mut all = [wait(), wait(), wait()];
    for one in &mut all {
        assert!(futures_util::poll!(one).is_pending());
    }
    drop(all);
    assert_eq!(store.0.flights.under_way(), 0);
    assert_eq!(fetch(&store, "x").await, fetched("x", false));
}

#[tokio::test(start_paused = true)]
async fn an_error_goes_to_all_who_waited_and_is_not_kept() {
    let (store, key, count) = (memory(), Key::new(&group(), &1), AtomicUsize::new(0));
    let wish = |_| {
        store.fetch(&key, TTL, async {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
            Err::<Bytes, _>(FetchError(7))
        })
    };
    let all = join_all((0..10).map(wish)).await;
    assert!(all.iter().all(|one| *one == Err(FetchError(7))), "{all:?}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(fetch(&store, "x").await, fetched("x", false));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_type_that_a_waiter_does_not_know_is_not_its_own() {
    let (store, key) = (memory(), Key::new(&group(), &1));
    let failing = store.fetch(&key, TTL, async {
        yield_now().await;
        Err::<Bytes, _>(FetchError(7))
    });
    let other = store.fetch(&key, TTL, async { Ok::<_, String>(Bytes::from_static(b"mine")) });
    let (failed, other) = tokio::join!(failing, other);
    assert_eq!((failed, other), (Err(FetchError(7)), Ok(fetched("mine", false))));
}

#[tokio::test(start_paused = true)]
async fn entry_computed_while_its_group_is_forgotten_is_not_stored_and_not_joined() {
    let (store, go) = (memory(), Notify::new());
    let key = Key::new(&group(), &1);
    let mut old = Box::pin(store.fetch(&key, TTL, async {
        go.notified().await;
        value("old")
    }));
    assert!(futures_util::poll!(&mut old).is_pending());
    store.forget(&Group::new(&["tests"])).await;
    assert_eq!(fetch(&store, "new").await, fetched("new", false), "it does not wait for the old one");
    go.notify_one();
    assert_eq!(old.await, Ok(fetched("old", false)), "who asked before has what was made for it");
    assert_eq!(fetch(&store, "newer").await, fetched("new", true));
}

#[tokio::test(start_paused = true)]
async fn forgetting_drops_a_group_and_nothing_else() {
    let store = memory();
    let keys: Vec<Key> = (0..5_000)
        .map(|at: u32| Key::new(&Group::new(&["tests", if at.is_multiple_of(2) { "a" } else { "ab" }]), &at))
        .collect();
    for key in &keys {
        store.fetch(key, TTL, async { value("x") }).await.expect("no error");
    }
    store.forget(&group()).await;
    for (at, key) in keys.iter().enumerate() {
        let found = store.fetch(key, TTL, async { value("y") }).await.expect("no error");
        assert_eq!(found.cached, at % 2 == 1, "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_itself_for_whom_it_is() {
    let store = memory();
    let key = |who: &str| Key::new(&Group::new(&["tests", who]), &1);
    let common = key("everybody");
    let ask = async |who: &str, keep: CacheScope| {
        let own = key(who);
        let places = CacheKeys { own: &own, common: Some(&common) };
        let made = Made { value: Bytes::copy_from_slice(who.as_bytes()), keep };
        let fetched = store.fetch_made(places, async { Ok::<_, FetchError>(made) }).await.expect("no error");
        (String::from_utf8(fetched.value.to_vec()).expect("UTF-8"), fetched.cached)
    };
    assert_eq!(ask("ann", CacheScope::Own(TTL)).await, ("ann".into(), false));
    assert_eq!(ask("bob", CacheScope::Not).await, ("bob".into(), false), "nobody has what is Ann's");
    assert_eq!(
        ask("bob", CacheScope::Common(TTL)).await,
        ("bob".into(), false),
        "what is for nobody is not kept"
    );
    assert_eq!(ask("cid", CacheScope::Own(TTL)).await, ("bob".into(), true));
    assert_eq!(ask("ann", CacheScope::Own(TTL)).await, ("ann".into(), true));
}

#[tokio::test(start_paused = true)]
async fn unshared_value_is_computed_by_all_callers_at_once() {
    let (store, key) = (memory(), Key::new(&group(), &1));
    let (first, rest) = (Arc::new(Notify::new()), Arc::new(tokio::sync::Barrier::new(9)));
    let wish = |at: usize| {
        let (first, rest, key, store) = (Arc::clone(&first), Arc::clone(&rest), &key, &store);
        async move {
            let make = async {
                if at == 0 {
                    first.notified().await;
                } else {
                    rest.wait().await;
                }
                Ok::<_, FetchError>(Made { value: Bytes::from(at.to_string()), keep: CacheScope::Not })
            };
            store.fetch_made(CacheKeys { own: key, common: None }, make).await
        }
    };
    let mut all = Box::pin(join_all((0..10).map(wish)));
    assert!(futures_util::poll!(&mut all).is_pending());
    first.notify_one();
    let all = all.await;
    assert!(
        all.iter().enumerate().all(|(at, one)| one.as_ref().is_ok_and(|one| one.value == at.to_string()))
    );
}

mod counts {
    use super::*;

    #[test]
    fn areas_have_a_bound() {
        let counters = Counters::default();
        for at in 0..1_000 {
            counters.of(&at.to_string(), |counts| counts.hits += 1);
        }
        let all = counters.all();
        assert_eq!(all.len(), MAX_AREAS + 1);
        assert_eq!(all[OTHERS].hits, 1_000 - MAX_AREAS as u64);
    }
}
