//! Places: how many, for whom, and that they come back.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::*;
use crate::shutdown::Shutdown;

const LIMITS: config::Limits =
    config::Limits { connections: 1, concurrent_calls: 2, waiting_calls: 3, message_bytes: 1 };

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn is_overloaded<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Overloaded { .. }))
}

async fn enter(bulkhead: &Bulkhead, lane: Lane, deadline: Instant) -> Result<Slot<'_>, Error> {
    bulkhead.enter(lane, &mut Frame::until(deadline)).await
}

/// Lets `count` callers queue up; each holds its place for a second once it has one.
fn queue_up(bulkhead: &Arc<Bulkhead>, shutdown: &Shutdown, count: usize) -> Vec<oneshot::Receiver<bool>> {
    let caller = |_| {
        let (bulkhead, (done, told)) = (Arc::clone(bulkhead), oneshot::channel());
        shutdown.spawn(async move {
            let slot = enter(&bulkhead, Lane::Calls, soon()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = done.send(slot.is_ok());
        });
        told
    };
    (0..count).map(caller).collect()
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
async fn who_waits_too_long_or_leaves_frees_the_place_in_the_queue() {
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
