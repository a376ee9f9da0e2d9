//! Tests of the private connections that stay, and of those that make room for others.

use serde_json::json;
use tokio::time::{advance, sleep};

use super::super::*;
use super::tests::{acquire, dual, of_home, pool_with, sessionless, settle};
use crate::fake::{Dial, Fake};
use crate::session_affinity::Affinity;
use protocol::{Era, Version};

fn somebody() -> super::Call {
    of_home(Era::Legacy, &Affinity::session())
}

/// Makes a pool of private connections that knows the eras of its server.
async fn pool_of(server: &Fake, connections: usize) -> (Arc<Pool>, Shutdown) {
    let (pool, shutdown) = pool_with(server, connections, true);
    assert!(pool.acquire(PoolRequest::Own).await.is_ok());
    (pool, shutdown)
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_its_connection_however_many_others_come() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let call = somebody();
    assert!(acquire(&pool, &call).await.is_ok());
    for _ in 0..1100 {
        assert!(matches!(acquire(&pool, &somebody()).await, Err(Error::Full { .. })));
    }
    assert!(acquire(&pool, &call).await.is_ok());
    assert_eq!((server.connects(), pool.lock().groups.len()), (2, 2), "nothing is known of the others");
}

#[tokio::test(start_paused = true)]
async fn a_private_connect_that_failed_leaves_its_room() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 2).await;
    server.dial(Dial::Refuse);
    let calls: Vec<_> = (0..5).map(|_| somebody()).collect();
    for call in &calls {
        assert!(matches!(acquire(&pool, call).await, Err(Error::Connect { .. })));
        assert_eq!(pool.lock().groups.len(), 1);
    }
    server.dial(Dial::Accept);
    assert!(acquire(&pool, &calls[4]).await.is_ok() && acquire(&pool, &somebody()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_connection_makes_room_and_gets_another_one_later() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let (affinity, other) = (Affinity::session(), Affinity::session());
    assert!(acquire(&pool, &of_home(Era::Legacy, &affinity)).await.is_ok());
    server.die_in(Era::Legacy, "gone");
    settle().await;
    assert!(
        matches!(acquire(&pool, &of_home(Era::Legacy, &other)).await, Err(Error::Full { .. })),
        "one that died a moment ago is expected back"
    );
    sleep(Duration::from_mins(2)).await;
    assert!(acquire(&pool, &of_home(Era::Legacy, &other)).await.is_ok());
    other.end();
    settle().await;
    assert!(acquire(&pool, &of_home(Era::Legacy, &affinity)).await.is_ok());
    assert_eq!((server.connects(), server.live()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connect_under_way_ends_with_its_session() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let affinity = Affinity::session();
    server.dial(Dial::AcceptAfter(Duration::from_secs(20)));
    let call = of_home(Era::Legacy, &affinity);
    let ends = async {
        sleep(Duration::from_secs(1)).await;
        affinity.end();
        settle().await;
        server.dial(Dial::Accept);
        acquire(&pool, &somebody()).await.is_ok()
    };
    let started = Instant::now();
    let (left, is_seated) = tokio::join!(acquire(&pool, &call), ends);
    let left = left.err().expect("its client is gone");
    assert!(!left.trips_breaker(), "the server is not at fault: {left}");
    assert!(is_seated && started.elapsed() < Duration::from_secs(2));
    sleep(Duration::from_secs(30)).await;
    assert_eq!((server.live(), pool.lock().groups.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_session_ended_just_then_is_closed() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let call = somebody();
    server.dial(Dial::AcceptAfter(Duration::from_secs(1)));
    let gone = async {
        settle().await;
        let key = pool.lock().groups[1].key;
        pool.lock().remove(key);
        server.dial(Dial::Refuse);
    };
    let (left, ()) = tokio::join!(acquire(&pool, &call), gone);
    assert!(matches!(left, Err(Error::Connect { .. })), "it is connected to anew");
    settle().await;
    assert_eq!((server.connects(), server.live(), pool.lock().groups.len()), (3, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_era_that_the_server_turned_out_not_to_speak_takes_no_room() {
    let server = Fake::new(Version::V2026_07_28);
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let call = somebody();
    for _ in 0..2 {
        assert!(acquire(&pool, &call).await.is_ok());
    }
    assert_eq!((server.live(), pool.lock().groups.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_task_waits_for_the_end_of_a_client_however_often_it_is_connected_to() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let affinity = Affinity::session();
    for _ in 0..20 {
        assert!(acquire(&pool, &of_home(Era::Legacy, &affinity)).await.is_ok());
        sleep(Duration::from_secs(20)).await;
        server.die_in(Era::Legacy, "gone");
        settle().await;
    }
    // The reaper of the base connection, and the task that waits for the end of the client.
    assert_eq!(pool.lock().tasks.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_capabilities_of_a_principal_get_a_connection_that_declares_them() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 2).await;
    let in_legacy =
        |principal, capabilities| super::Call { era: Era::Legacy, ..sessionless(principal, capabilities) };
    let [none, roots, form] = [json!({}), json!({"roots": {}}), json!({"elicitation": {}})];
    let other = in_legacy("key:b", &none);
    drop(acquire(&pool, &other).await.expect("a connection"));
    for capabilities in [&none, &roots, &roots, &form] {
        advance(Duration::from_secs(1)).await;
        drop(acquire(&pool, &in_legacy("key:a", capabilities)).await.expect("a connection"));
    }
    let declared: Vec<String> = server.dialects().into_iter().skip(1).map(|(_, declared)| declared).collect();
    assert_eq!(declared, [&none, &none, &roots, &form].map(serde_json::Value::to_string));
    drop(acquire(&pool, &other).await.expect("a connection"));
    assert_eq!(
        (server.connects(), pool.live()),
        (5, 3),
        "the principal's own made room, and not that of another"
    );
}

#[tokio::test(start_paused = true)]
async fn process_whose_client_does_not_answer_a_request_gives_way() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1).await;
    let (ann, bob) = (of_home(Era::Legacy, &Affinity::session()), of_home(Era::Legacy, &Affinity::session()));
    let _call = acquire(&pool, &ann).await.expect("a connection");
    assert!(matches!(acquire(&pool, &bob).await, Err(Error::Full { .. })), "its client has time to answer");
    server.asks_in_vain();
    assert!(acquire(&pool, &bob).await.is_ok());
    assert!(matches!(acquire(&pool, &ann).await, Err(Error::Full { .. })), "the other one answers");
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_costs_no_principal_its_process_for_one_that_has_more() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 3).await;
    let of = |principal: &str| super::Call { principal: Some(principal.into()), ..somebody() };
    let mut pooled = Vec::new();
    let (modest, rich) = (of("key:modest"), [of("key:rich"), of("key:rich"), of("key:rich")]);
    for call in [&modest, &rich[0], &rich[1]] {
        pooled.push(acquire(&pool, call).await.expect("a connection"));
    }
    server.asks_in_vain();
    assert!(acquire(&pool, &rich[2]).await.is_ok(), "one of its own gives way");
    let before = server.connects();
    assert!(acquire(&pool, &modest).await.is_ok());
    assert_eq!(server.connects(), before, "it kept its process");
    server.asks_in_vain();
    assert!(acquire(&pool, &of("key:new")).await.is_ok(), "one with more gives way to one with none");
}
