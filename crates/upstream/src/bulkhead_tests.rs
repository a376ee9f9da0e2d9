//! Slots: how many there are, for whom, and that they are freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::*;
use runtime::shutdown::Shutdown;

const LIMITS: config::Limits = config::Limits {
    connections: 1,
    concurrent_calls: 2,
    waiting_calls: 3,
    message_bytes: 1,
    requests_per_minute: None,
};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn is_overloaded<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Overloaded { .. }))
}

async fn enter(bulkhead: &Bulkhead, lane: Lane, deadline: Instant) -> Result<Slot<'_>, Error> {
    bulkhead.enter(lane, None, &mut Frame::until(deadline), || {}).await
}

/// Starts `count` callers that wait for a slot and keep it for a second.
fn queue_up(bulkhead: &Arc<Bulkhead>, shutdown: &Shutdown, count: usize) -> Vec<oneshot::Receiver<bool>> {
    (0..count).map(|_| queue_up_for(None, bulkhead, shutdown)).collect()
}

/// Starts one caller of `who` that waits for a slot and keeps it for a second.
fn queue_up_for(who: Option<&str>, bulkhead: &Arc<Bulkhead>, shutdown: &Shutdown) -> oneshot::Receiver<bool> {
    let (bulkhead, (done, receiver)) = (Arc::clone(bulkhead), oneshot::channel());
    let who = who.map(Arc::<str>::from);
    shutdown.spawn(async move {
        let slot = bulkhead.enter(Lane::Calls, who.as_ref(), &mut Frame::until(soon()), || {}).await;
        if slot.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let _ = done.send(slot.is_ok());
    });
    receiver
}

/// Returns the time of the result in whole seconds, and the result.
async fn timed(receiver: oneshot::Receiver<bool>, since: Instant) -> (u64, bool) {
    let was_let_in = receiver.await.expect("told");
    (since.elapsed().as_secs(), was_let_in)
}

#[tokio::test(start_paused = true)]
async fn two_run_three_wait_and_the_next_is_refused_at_once() {
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&LIMITS)), Shutdown::new());
    let callers = queue_up(&bulkhead, &shutdown, 5);
    tokio::task::yield_now().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (2, 3));
    let before = Instant::now();
    assert!(is_overloaded(&enter(&bulkhead, Lane::Calls, soon()).await));
    assert_eq!(before.elapsed(), Duration::ZERO);
    for caller in callers {
        assert!(caller.await.expect("told"), "everyone who waited got a place");
    }
    bulkhead.idle().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
    assert_eq!(before.elapsed().as_secs(), 3, "two, two and one of them, a second each");
}

#[tokio::test(start_paused = true)]
async fn caller_that_times_out_or_leaves_frees_its_place_in_the_queue() {
    let bulkhead = Bulkhead::new(&LIMITS);
    let running = (enter(&bulkhead, Lane::Calls, soon()).await, enter(&bulkhead, Lane::Calls, soon()).await);
    for _ in 0..10 {
        let deadline = Instant::now() + Duration::from_secs(1);
        assert!(is_overloaded(&enter(&bulkhead, Lane::Calls, deadline).await), "the deadline ends the wait");
        let leaver = enter(&bulkhead, Lane::Calls, soon());
        assert!(tokio::time::timeout(Duration::from_millis(1), leaver).await.is_err(), "left while waiting");
    }
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (2, 0));
    drop(running);
    assert!(is_overloaded(&enter(&bulkhead, Lane::Calls, Instant::now()).await), "a place, but no time");
    assert!(enter(&bulkhead, Lane::Calls, soon()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn our_own_requests_do_not_queue_behind_calls() {
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&LIMITS)), Shutdown::new());
    let _callers = queue_up(&bulkhead, &shutdown, 5);
    tokio::task::yield_now().await;
    let (before, _one) = (Instant::now(), enter(&bulkhead, Lane::Own, soon()).await.expect("a place"));
    let _two = enter(&bulkhead, Lane::Own, soon()).await.expect("another");
    assert_eq!((before.elapsed(), bulkhead.running()), (Duration::ZERO, 2), "and take no call's place");
    let too_late = before + Duration::from_millis(1);
    assert!(is_overloaded(&enter(&bulkhead, Lane::Own, too_late).await), "but their number is bounded too");
    let before = Instant::now();
    let _lists =
        enter(&bulkhead, Lane::ClientLists, soon()).await.expect("lists of one client are not behind them");
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn idle_lets_others_in_while_it_waits() {
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&LIMITS)), Shutdown::new());
    let early = queue_up(&bulkhead, &shutdown, 1);
    tokio::task::yield_now().await;
    let idle = bulkhead.idle();
    let late = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        enter(&bulkhead, Lane::Calls, soon()).await.is_ok()
    };
    let ((), let_in) = tokio::join!(idle, late);
    assert!(let_in);
    assert_eq!(early.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_principal_has_all_places_until_another_one_comes() {
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&LIMITS)), Shutdown::new());
    let started = Instant::now();
    let of_alice = [(); 6].map(|()| queue_up_for(Some("alice"), &bulkhead, &shutdown));
    tokio::task::yield_now().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (2, 3), "nobody else wants any");
    let of_bob = [(); 2].map(|()| queue_up_for(Some("bob"), &bulkhead, &shutdown));
    tokio::task::yield_now().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (2, 3), "one of bob instead of one of alice");
    let alice = join_all(of_alice.into_iter().map(|receiver| timed(receiver, started))).await;
    // The sixth call found no room, and the fifth was replaced by the first call of bob.
    assert_eq!(alice, [(1, true), (1, true), (2, true), (3, true), (0, false), (0, false)]);
    let bob = join_all(of_bob.into_iter().map(|receiver| timed(receiver, started))).await;
    assert!(bob[0].1 && !bob[1].1, "two of alice to one of bob: none has to go for a second");
    bulkhead.idle().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn places_are_given_to_principals_in_turn() {
    let limits = config::Limits { concurrent_calls: 1, waiting_calls: 8, ..LIMITS };
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&limits)), Shutdown::new());
    let started = Instant::now();
    let callers = ["alice", "alice", "alice", "alice", "bob", "bob", "carol"];
    let receiver = callers.map(|who| queue_up_for(Some(who), &bulkhead, &shutdown));
    let ended = join_all(receiver.into_iter().map(|receiver| timed(receiver, started))).await;
    let ended: Vec<_> = ended.into_iter().map(|(after, _)| after).collect();
    assert_eq!(ended, [1, 2, 5, 7, 3, 6, 4]);
}

#[tokio::test(start_paused = true)]
async fn caller_that_leaves_as_it_is_admitted_hands_its_slot_on() {
    let limits = config::Limits { concurrent_calls: 1, ..LIMITS };
    let bulkhead = Bulkhead::new(&limits);
    let running = enter(&bulkhead, Lane::Calls, soon()).await.expect("a place");
    let mut frames = [Frame::until(soon()), Frame::until(soon())];
    let [first, second] = &mut frames;
    let mut leaver = Box::pin(bulkhead.enter(Lane::Calls, None, first, || {}));
    let mut stays = Box::pin(bulkhead.enter(Lane::Calls, None, second, || {}));
    assert!(futures_util::poll!(&mut leaver).is_pending() && futures_util::poll!(&mut stays).is_pending());
    drop(running);
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (1, 1), "the first one was called");
    drop(leaver);
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (1, 0));
    assert!(stays.await.is_ok());
    assert_eq!(bulkhead.running(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_that_come_and_go_at_once_lose_no_place() {
    let limits = config::Limits { concurrent_calls: 3, waiting_calls: 4, ..LIMITS };
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&limits)), Shutdown::new());
    let receiver = (0..12_usize).map(|number| {
        let (bulkhead, (done, receiver)) = (Arc::clone(&bulkhead), oneshot::channel());
        let who: Arc<str> = ["alice", "bob", "carol"][number % 3].into();
        shutdown.spawn(async move {
            let mut let_in = 0;
            for round in 0..500 {
                let mut frame = Frame::until(soon());
                let slot = bulkhead.enter(Lane::Calls, Some(&who), &mut frame, || {});
                // Some callers leave while they wait.
                let slot =
                    if round % 5 == 0 { slot.now_or_never().and_then(Result::ok) } else { slot.await.ok() };
                assert!(bulkhead.running() <= 3 && bulkhead.waiting() <= 4);
                let_in += u32::from(slot.is_some());
                tokio::task::yield_now().await;
            }
            let _ = done.send(let_in);
        });
        receiver
    });
    let receiver: Vec<_> = receiver.collect();
    let let_in = join_all(receiver).await;
    // One of a principal's four callers may find its share taken every time. All four together may not.
    for principal in 0..3 {
        let let_in =
            let_in.iter().skip(principal).step_by(3).map(|let_in| let_in.as_ref().expect("no panic"));
        assert!(let_in.sum::<u32>() > 0);
    }
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
    let mut all = Vec::new();
    for who in ["alice", "bob"] {
        all.push(bulkhead.enter(Lane::Calls, Some(&who.into()), &mut Frame::until(soon()), || {}).await);
    }
    assert!(all.iter().all(Result::is_ok), "every place came back");
}

/// Takes as many slots for `who` as it gets at once.
fn fill<'a>(bulkhead: &'a Bulkhead, lane: Lane, who: &str) -> Vec<Slot<'a>> {
    let (who, mut slots) = (Arc::<str>::from(who), Vec::new());
    loop {
        let mut frame = Frame::until(soon());
        match bulkhead.enter(lane, Some(&who), &mut frame, || {}).now_or_never() {
            Some(slot) => slots.push(slot.expect("there is room to wait")),
            None => return slots,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn new_principal_finds_a_slot_however_many_calls_of_another_run() {
    let limits = config::Limits { concurrent_calls: 64, waiting_calls: 8, ..LIMITS };
    let bulkhead = Bulkhead::new(&limits);
    let alice = fill(&bulkhead, Lane::Calls, "alice");
    assert_eq!(alice.len(), 64, "nobody is limited while alone");
    let bob = Arc::<str>::from("bob");
    let mut frame = Frame::until(soon());
    let mut first = Box::pin(bulkhead.enter(Lane::Calls, Some(&bob), &mut frame, || {}));
    assert!(futures_util::poll!(&mut first).is_pending(), "who runs is not interrupted");
    drop(alice);
    drop(first.await.expect("a place"));
    // From now on another principal is active.
    let alice = fill(&bulkhead, Lane::Calls, "alice");
    assert_eq!(alice.len(), 56);
    let others = ["bob", "carol", "dave", "eve"].map(|who| fill(&bulkhead, Lane::Calls, who));
    assert_eq!(others.each_ref().map(Vec::len), [4, 2, 1, 1]);
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (64, 0));
    drop((alice, others));
    tokio::time::advance(shares::LATELY).await;
    assert_eq!(fill(&bulkhead, Lane::Calls, "alice").len(), 64, "alone again");
    assert_eq!(bulkhead.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn principal_at_its_quota_waits_for_its_own_slots_and_blocks_nobody() {
    let limits = config::Limits { concurrent_calls: 4, waiting_calls: 8, ..LIMITS };
    let (bulkhead, shutdown) = (Arc::new(Bulkhead::new(&limits)), Shutdown::new());
    let started = Instant::now();
    drop(
        bulkhead
            .enter(Lane::Calls, Some(&"bob".into()), &mut Frame::until(soon()), || {})
            .await
            .expect("a place"),
    );
    let alice = [(); 4].map(|()| queue_up_for(Some("alice"), &bulkhead, &shutdown));
    tokio::task::yield_now().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (2, 2), "the other half is kept");
    let bob = queue_up_for(Some("bob"), &bulkhead, &shutdown);
    tokio::task::yield_now().await;
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (3, 2), "not behind those of alice");
    let ended = join_all(alice.into_iter().chain([bob]).map(|receiver| timed(receiver, started))).await;
    assert_eq!(ended, [(1, true), (1, true), (2, true), (2, true), (1, true)]);
    assert_eq!((bulkhead.running(), bulkhead.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_tasks_takes_no_slot_of_calls_or_task_requests() {
    let bulkhead = Bulkhead::new(&LIMITS);
    let lanes =
        [method::TASKS_RESULT, method::TASKS_CANCEL, method::TASKS_GET, method::TOOLS_CALL].map(Lane::of);
    assert_eq!(lanes, [Lane::Results, Lane::Tasks, Lane::Tasks, Lane::Calls]);
    let waiting = fill(&bulkhead, Lane::Results, "alice");
    assert_eq!((waiting.len(), bulkhead.running()), (2, 2), "their number is bounded too");
    for lane in [Lane::Tasks, Lane::Calls, Lane::Own] {
        assert_eq!(fill(&bulkhead, lane, "alice").len(), 2, "{lane:?}");
    }
    let idle = bulkhead.idle();
    tokio::pin!(idle);
    assert!(futures_util::poll!(&mut idle).is_pending(), "whoever ends a server waits for them as well");
    drop(waiting);
    idle.await;
}

#[tokio::test(start_paused = true)]
async fn calls_make_way_only_while_others_wait_or_are_refused() {
    let bulkhead = Bulkhead::new(&LIMITS);
    let ways = AtomicUsize::new(0);
    let enter = |seconds| {
        let (bulkhead, ways) = (&bulkhead, &ways);
        let deadline = Instant::now() + Duration::from_secs(seconds);
        async move {
            let make_way = || _ = ways.fetch_add(1, Ordering::Relaxed);
            bulkhead.enter(Lane::Calls, None, &mut Frame::until(deadline), make_way).await
        }
    };
    let running = (enter(9).await.expect("a slot"), enter(9).await.expect("a slot"));
    assert_eq!(ways.load(Ordering::Relaxed), 0, "there is room");
    assert!(enter(3).await.is_err());
    assert_eq!(ways.load(Ordering::Relaxed), 3, "at once, and each second");
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(enter(60))).collect();
    for caller in &mut waiting {
        assert!(caller.now_or_never().is_none());
    }
    assert!(enter(60).await.is_err(), "nobody else can wait");
    assert_eq!(ways.load(Ordering::Relaxed), 4, "one of them in each second");
    drop(running);
    assert!(waiting.remove(0).await.is_ok());
    assert_eq!(ways.load(Ordering::Relaxed), 4);
    let tasks = fill(&bulkhead, Lane::Tasks, "alice");
    let make_way = || panic!("no call has one of these slots");
    assert!(bulkhead.enter(Lane::Tasks, None, &mut Frame::until(soon()), make_way).await.is_err());
    drop(tasks);
}
