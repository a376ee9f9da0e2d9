//! Connections: how many connects there are, which connection a caller gets, and the handling of closed ones.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::super::fake::{Dial, Fake};
use super::*;
use protocol::Version;

const CONNECT_LIMIT: Duration = Duration::from_secs(30);

fn pool_of(server: &Fake, connections: usize) -> (Arc<Pool>, Shutdown) {
    let shutdown = Shutdown::new();
    let silence_limits = SilenceLimits { check: CONNECT_LIMIT, call: CONNECT_LIMIT };
    let limits = PoolLimits {
        connections,
        connect: CONNECT_LIMIT,
        sharing: Sharing::Shared,
        is_per_principal: false,
        silence_limits,
    };
    let (events, _) = Events::channel();
    (Pool::new(server.connector(), events, (limits, Secrets::new(&[])), shutdown.clone()), shutdown)
}

async fn acquire(pool: &Arc<Pool>) -> Result<PooledConnection, Error> {
    pool.acquire(PoolRequest::Own).await
}

fn server() -> Fake {
    Fake::new(Version::V2025_11_25)
}

/// Lets ready tasks run.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_callers_wait_for_one_connect() {
    let server = server();
    server.dial(Dial::AcceptAfter(Duration::from_secs(2)));
    let (pool, _shutdown) = pool_of(&server, 10);
    let started = Instant::now();
    let pooled = join_all((0..100).map(|_| acquire(&pool))).await;
    assert!(pooled.iter().all(Result::is_ok));
    assert_eq!((server.connects(), started.elapsed().as_secs()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_connect_is_told_to_all_and_tried_anew_by_the_next() {
    let server = server();
    server.dial(Dial::Refuse);
    let (pool, _shutdown) = pool_of(&server, 10);
    for failed in join_all((0..100).map(|_| acquire(&pool))).await {
        assert_eq!(failed.err(), Some(Error::Connect { reason: "connection refused".into() }));
    }
    assert_eq!(server.connects(), 1);
    server.dial(Dial::Accept);
    assert!(acquire(&pool).await.is_ok(), "at once");
    assert_eq!(server.connects(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelled_caller_does_not_end_the_connect_for_the_others() {
    let server = server();
    server.dial(Dial::AcceptAfter(Duration::from_secs(2)));
    let (pool, _shutdown) = pool_of(&server, 10);
    assert!(timeout(Duration::from_secs(1), acquire(&pool)).await.is_err(), "the first one leaves");
    let started = Instant::now();
    assert!(acquire(&pool).await.is_ok());
    assert_eq!((server.connects(), started.elapsed().as_secs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_hangs_ends_by_itself() {
    let server = server();
    server.dial(Dial::Hang);
    let (pool, _shutdown) = pool_of(&server, 10);
    let started = Instant::now();
    let error = acquire(&pool).await.err().expect("hangs");
    assert_eq!(
        (error.to_string().as_str(), started.elapsed()),
        ("no handshake within 30.0 s", CONNECT_LIMIT)
    );
}

#[tokio::test(start_paused = true)]
async fn another_connection_only_when_all_are_full_and_never_more_than_allowed() {
    let server = server();
    server.capacity(2);
    let (pool, _shutdown) = pool_of(&server, 3);
    let mut pooled = Vec::new();
    for expected in [1, 1, 2, 2, 2, 3, 3, 3, 3, 3] {
        pooled.push(acquire(&pool).await.expect("a connection"));
        settle().await;
        assert_eq!(pool.live(), expected, "with {} requests", pooled.len());
    }
    let mut loads: Vec<_> =
        pool.lock().groups[0].live.iter().map(|live| live.requests.load(Ordering::Relaxed)).collect();
    loads.sort_unstable();
    assert_eq!(loads, [3, 3, 4], "the least loaded comes first");
    drop(pooled);
    assert!(pool.lock().groups[0].live.iter().all(|live| live.requests.load(Ordering::Relaxed) == 0));
}

#[tokio::test(start_paused = true)]
async fn no_caller_waits_for_a_second_connection() {
    let server = server();
    server.capacity(1);
    let (pool, _shutdown) = pool_of(&server, 3);
    let _first = acquire(&pool).await.expect("a connection");
    server.dial(Dial::Refuse);
    let started = Instant::now();
    for _ in 0..20 {
        assert!(acquire(&pool).await.is_ok());
        let _held = acquire(&pool).await.expect("a connection");
        settle().await;
    }
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(server.connects(), 2, "and a refused second one is not tried again and again");
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_leaves_by_itself() {
    let server = server();
    let (pool, _shutdown) = pool_of(&server, 3);
    let mut occupancy = pool.occupancy();
    let _held = acquire(&pool).await.expect("a connection");
    assert_eq!((pool.live(), occupancy.borrow_and_update().arrivals), (1, 1));
    server.die("gone");
    occupancy.changed().await.expect("told");
    assert_eq!((pool.live(), occupancy.borrow().lost.as_deref()), (0, Some("gone")));
    assert!(acquire(&pool).await.is_ok());
    assert_eq!((server.connects(), occupancy.borrow().arrivals), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_every_connection_at_once_leaves_none_behind() {
    let server = server();
    let (pool, _shutdown) = pool_of(&server, 3);
    for _ in 0..50 {
        if let Some(until) = pool.held_until() {
            tokio::time::sleep_until(until).await;
        }
        let _seat = acquire(&pool).await.expect("a connection");
        server.die("go away");
        settle().await;
        assert_eq!(pool.live(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_do_not_start_a_server_over_and_over_that_dies_of_them() {
    let server = server();
    let (pool, _shutdown) = pool_of(&server, 3);
    for _ in 0..5 {
        let (before, end) = (server.connects(), Instant::now() + Duration::from_mins(1));
        while Instant::now() < end {
            match acquire(&pool).await {
                Ok(_seat) => server.die("died of a call"),
                Err(Error::Connect { reason }) => {
                    assert!(reason.contains("the next one is made in"), "{reason}");
                }
                Err(other) => panic!("{other:?}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
        let connects = server.connects() - before;
        assert!((1..=11).contains(&connects), "{connects} connects in a minute");
    }
    sleep(Duration::from_mins(1)).await;
    let grown_up = acquire(&pool).await.expect("a connection");
    sleep(Duration::from_secs(10)).await;
    drop(grown_up);
    server.die("after a long life");
    settle().await;
    assert!(acquire(&pool).await.is_ok(), "at once");
    server.die("young");
    settle().await;
    assert!(acquire(&pool).await.is_ok(), "one early death is no row");
    // The pauses are random from zero on, so a single one may be over before it is checked.
    let mut deaths = 1;
    loop {
        server.die("young again");
        settle().await;
        deaths += 1;
        if acquire(&pool).await.is_err() {
            break;
        }
        assert!(deaths < 6, "nobody waits after {deaths} early deaths");
    }
    pool.open();
    assert!(acquire(&pool).await.is_ok(), "an operator does not wait");
}

#[tokio::test(start_paused = true)]
async fn close_all_ends_live_ones_and_begins_anew_for_who_waits() {
    let server = server();
    let (pool, shutdown) = pool_of(&server, 3);
    let _held = acquire(&pool).await.expect("a connection");
    pool.close_all().await;
    assert_eq!((pool.live(), server.live()), (0, 0));
    server.dial(Dial::AcceptAfter(Duration::from_secs(5)));
    let close = async {
        sleep(Duration::from_secs(4)).await;
        pool.close_all().await;
    };
    let started = Instant::now();
    let (seated, ()) = tokio::join!(acquire(&pool), close);
    assert!(seated.is_ok());
    assert_eq!((started.elapsed().as_secs(), server.live()), (9, 1), "the connect of before was dropped");
    shutdown.begin();
    settle().await;
    assert_eq!(server.live(), 0);
    assert_eq!(acquire(&pool).await.err(), Some(Error::Unavailable { state: "shutting down" }));
}

#[tokio::test(start_paused = true)]
async fn a_shut_pool_lets_nobody_in_until_it_opens() {
    let server = server();
    server.dial(Dial::Hang);
    let (pool, _shutdown) = pool_of(&server, 3);
    let shut = async {
        settle().await;
        pool.shut("disconnected");
        pool.close_all().await;
    };
    let (waited, ()) = tokio::join!(acquire(&pool), shut);
    assert_eq!(waited.err(), Some(Error::Unavailable { state: "disconnected" }));
    server.dial(Dial::Accept);
    pool.open();
    assert!(acquire(&pool).await.is_ok());
}
