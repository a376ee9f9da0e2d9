//! Calls that wait for a connection of which others have the lease: who gets it, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::super::dialects::tests::{legacy, pool_of, seat};
use super::super::{Pool, PoolRequest};
use crate::connection::{Outlet, Owner};
use crate::fake::{Answer, Dial, Fake};
use protocol::Version;
use runtime::shutdown::Shutdown;

fn asking() -> Fake {
    let server = Fake::new(Version::V2025_11_25);
    server.shares_its_channel();
    server
}

/// Makes the server send a request during a call, whose client is then gone.
async fn have_it_ask(server: &Fake, pool: &Arc<Pool>) {
    server.answer_calls(Answer::Ask("elicitation/create"));
    let call = legacy();
    let seat = seat(pool, &call).await.expect("a seat");
    let outlet = Outlet::none();
    let body = seat.connection().request(&call, &outlet).await.expect("answered");
    body.collect().await.expect("whole").expect_err("nobody");
}

/// A server that was seen asking, with one connection, and room for another.
async fn with_room_for_two() -> (Fake, Arc<Pool>, Shutdown) {
    let server = asking();
    server.capacity(16);
    let (pool, shutdown) = pool_of(&server, 2);
    have_it_ask(&server, &pool).await;
    (server, pool, shutdown)
}

#[tokio::test(start_paused = true)]
async fn once_a_server_asks_it_works_for_one_owner_at_a_time() {
    let server = asking();
    let (pool, _shutdown) = pool_of(&server, 4);
    let (one, two) = (legacy(), legacy());
    let shared = (seat(&pool, &one).await, seat(&pool, &two).await);
    assert!(shared.0.is_ok() && shared.1.is_ok(), "nothing is known of it");
    drop(shared);
    have_it_ask(&server, &pool).await;
    let leased = AtomicBool::new(false);
    let first =
        (seat(&pool, &one).await.expect("a seat"), seat(&pool, &one).await.expect("its owner passes"));
    assert!(pool.seat(PoolRequest::Own, &leased).await.is_ok(), "lists and health pass");
    let waits = async {
        let begun = Instant::now();
        let seat = pool.seat(PoolRequest::of(&two), &leased).await;
        (seat.is_ok(), begun.elapsed().as_secs())
    };
    let works = async {
        sleep(Duration::from_secs(1)).await;
        assert!(leased.load(Ordering::Relaxed));
        drop(first.0);
        sleep(Duration::from_secs(1)).await;
        drop(first.1);
    };
    let (waited, ()) = tokio::join!(waits, works);
    assert_eq!(waited, (true, 2));
    assert!(!leased.load(Ordering::Relaxed));
    assert_eq!(server.connects(), 1, "a child has no second one beside it");
}

#[tokio::test(start_paused = true)]
async fn where_connections_are_many_the_next_owner_gets_one_of_its_own() {
    let (_server, pool, _shutdown) = with_room_for_two().await;
    let (one, two, three) = (legacy(), legacy(), legacy());
    let held = (seat(&pool, &one).await.expect("a seat"), seat(&pool, &two).await.expect("another"));
    assert_eq!(pool.live(), 2);
    let same = seat(&pool, &two).await.expect("its owner passes");
    assert!(std::ptr::addr_eq(same.connection(), held.1.connection()), "calls of one owner stay together");
    let leased = AtomicBool::new(false);
    let late =
        tokio::time::timeout(Duration::from_secs(5), pool.seat(PoolRequest::of(&three), &leased)).await;
    assert!(late.is_err() && leased.load(Ordering::Relaxed) && pool.live() == 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_who_wait_for_one_more_connection_one_gets_it() {
    let (server, pool, _shutdown) = with_room_for_two().await;
    let _held = seat(&pool, &legacy()).await.expect("a seat");
    server.dial(Dial::AcceptAfter(Duration::from_secs(1)));
    let (one, two) = (legacy(), legacy());
    let patient = Duration::from_secs(5);
    let (one, two) = tokio::join!(
        tokio::time::timeout(patient, seat(&pool, &one)),
        tokio::time::timeout(patient, seat(&pool, &two)),
    );
    assert!(one.is_ok() != two.is_ok(), "it asks without saying whom");
    assert_eq!(server.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn every_owner_gets_its_turn() {
    let server = asking();
    let (pool, _shutdown) = pool_of(&server, 4);
    have_it_ask(&server, &pool).await;
    let busy = Mutex::new(None);
    let turns = (0..64).map(|_| async {
        let call = legacy();
        let _seat = seat(&pool, &call).await.expect("a seat");
        assert_eq!(busy.lock().expect("lock").replace(call.owner), None::<Owner>, "two at a time");
        sleep(Duration::from_millis(10)).await;
        busy.lock().expect("lock").take();
    });
    let begun = Instant::now();
    join_all(turns).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_holds_a_lease_again_and_again_lets_the_others_in_between() {
    let server = asking();
    let (pool, _shutdown) = pool_of(&server, 4);
    have_it_ask(&server, &pool).await;
    let (busy, other) = (legacy(), legacy());
    let hogs = async {
        for _ in 0..100 {
            let seat = seat(&pool, &busy).await.expect("a seat");
            sleep(Duration::from_millis(10)).await;
            drop(seat);
        }
    };
    let waits = async {
        sleep(Duration::from_millis(1)).await;
        let begun = Instant::now();
        // A caller that gives up after it was woken must not delay the others.
        let _ = tokio::time::timeout(Duration::from_millis(5), seat(&pool, &legacy())).await;
        drop(seat(&pool, &other).await.expect("a seat"));
        begun.elapsed()
    };
    let ((), waited) = tokio::join!(hogs, waits);
    assert!(waited < Duration::from_millis(50), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_stays_behind_gets_what_those_it_is_kept_for_do_not_take() {
    let (_server, pool, _shutdown) = with_room_for_two().await;
    let (one, two, three) = (legacy(), legacy(), legacy());
    let first = seat(&pool, &one).await.expect("a seat");
    let second = seat(&pool, &two).await.expect("another");
    let mut waits = Box::pin(seat(&pool, &three));
    assert!(futures_util::poll!(waits.as_mut()).is_pending());
    // It is woken for the second connection, and finds the first one free as well.
    drop((second, first));
    let _third = waits.await.expect("a seat");
    let begun = Instant::now();
    let again = tokio::time::timeout(Duration::from_secs(5), seat(&pool, &two)).await;
    assert!(again.is_ok_and(|seated| seated.is_ok()), "it waits for somebody's whole call");
    assert!(begun.elapsed() <= Duration::from_millis(51), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_extra_connection_hears_of_one_that_comes_free() {
    for dial in [Dial::AcceptAfter(Duration::from_secs(20)), Dial::Hang, Dial::Refuse] {
        let (server, pool, _shutdown) = with_room_for_two().await;
        let held = seat(&pool, &legacy()).await.expect("a seat");
        server.dial(dial);
        let begun = Instant::now();
        let leave = async {
            sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (waiting, also) = (legacy(), legacy());
        let waits = async {
            drop(seat(&pool, &waiting).await.expect("the one that came free"));
        };
        let waits_too = async {
            drop(seat(&pool, &also).await.expect("and after that one"));
        };
        tokio::join!(waits, waits_too, leave);
        assert_eq!((begun.elapsed().as_secs(), server.connects()), (1, 2), "{dial:?}");
    }
}
