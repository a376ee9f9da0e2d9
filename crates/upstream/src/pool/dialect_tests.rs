//! Which dialect is spoken for whom, how many at a time, and who waits for whom.

use futures_util::future::{join, join_all};
use serde_json::json;
use tokio::time::{advance, sleep};

use super::super::super::connection::Call;
use super::super::super::fake::{Dial, Fake, tool_call};
use super::super::*;
use super::{MAX_DIALECTS, MAX_OWN};
use crate::config::Sharing;
use crate::session_affinity::{Affinity, ClientSession};
use json::Raw;
use protocol::feature::Effect;
use protocol::{Era, Notification, Version};

const BASE: &str = r#"{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}}}"#;

pub(in crate::pool) fn pool_of(server: &Fake, connections: usize) -> (Arc<Pool>, Shutdown) {
    pool_with(server, connections, false)
}

pub(in crate::pool) fn pool_with(
    server: &Fake,
    connections: usize,
    is_private: bool,
) -> (Arc<Pool>, Shutdown) {
    pool_over(server.connector(), connections, is_private)
}

pub(in crate::pool) fn pool_over(
    connector: Arc<dyn Connector>,
    connections: usize,
    is_private: bool,
) -> (Arc<Pool>, Shutdown) {
    let shutdown = Shutdown::new();
    let second = Duration::from_secs(1);
    let silence_limits = SilenceLimits { check: second, call: second };
    let limits = PoolLimits {
        connections,
        connect: Duration::from_secs(30),
        sharing: if is_private { Sharing::PerSession } else { Sharing::Shared },
        is_per_principal: false,
        silence_limits,
    };
    let (events, _) = Events::channel();
    (Pool::new(connector, events, (limits, Secrets::new(&[])), shutdown.clone()), shutdown)
}

/// Makes a call of a new client that speaks `era` and declares `capabilities`.
fn call_of(era: Era, capabilities: &serde_json::Value) -> Call {
    let mut call = Call { era, ..tool_call(Effect::Unsafe) };
    call.sender.capabilities = Raw::of(capabilities);
    call
}

pub(in crate::pool) fn legacy() -> Call {
    call_of(Era::Legacy, &json!({"elicitation": {}}))
}

fn modern() -> Call {
    call_of(Era::Modern, &json!({"elicitation": {}}))
}

pub(in crate::pool) async fn acquire(pool: &Arc<Pool>, call: &Call) -> Result<PooledConnection, Error> {
    pool.acquire(PoolRequest::of(call)).await
}

fn era(pooled: &PooledConnection) -> Era {
    pooled.connection().peer().era()
}

pub(super) fn dual() -> Fake {
    let server = Fake::new(Version::V2026_07_28);
    server.also(Version::V2025_11_25);
    server.declares_exactly();
    server.is_a_process();
    server
}

/// Lets tasks run that are ready.
pub(super) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_of_both_eras_is_spoken_to_in_that_of_the_client() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 4);
    for _ in 0..3 {
        assert_eq!(era(&acquire(&pool, &legacy()).await.expect("a connection")), Era::Legacy);
        assert_eq!(era(&acquire(&pool, &modern()).await.expect("a connection")), Era::Modern);
        let own = pool.acquire(PoolRequest::Own).await.expect("a connection");
        assert_eq!(era(&own), Era::Modern);
    }
    let elicitation = r#"{"elicitation":{"form":{}}}"#.to_owned();
    assert_eq!(server.dialects(), [(Era::Modern, BASE.into()), (Era::Legacy, elicitation)]);
    assert_eq!((pool.occupancy().borrow().live, pool.live()), (1, 2), "the base dialect says who is up");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_one_era_is_asked_once_whether_it_speaks_the_other() {
    let old = Fake::new(Version::V2025_11_25);
    let (pool, _shutdown) = pool_of(&old, 4);
    for call in [modern(), legacy(), modern()] {
        assert_eq!(era(&acquire(&pool, &call).await.expect("a connection")), Era::Legacy);
    }
    assert_eq!((old.connects(), pool.occupancy().borrow().live), (1, 1), "the probe fell back by itself");

    let new = Fake::new(Version::V2026_07_28);
    let (pool, _shutdown) = pool_of(&new, 4);
    for call in [legacy(), modern(), legacy()] {
        assert_eq!(era(&acquire(&pool, &call).await.expect("a connection")), Era::Modern);
    }
    assert_eq!(new.connects(), 2, "one of them was refused");
}

#[tokio::test(start_paused = true)]
async fn a_network_error_is_no_reason_to_speak_another_era() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 4);
    assert!(acquire(&pool, &modern()).await.is_ok());
    server.dial(Dial::Refuse);
    assert!(matches!(acquire(&pool, &legacy()).await, Err(Error::Connect { .. })));
    assert!(acquire(&pool, &modern()).await.is_ok(), "who is there already is not touched");
    server.dial(Dial::Accept);
    assert_eq!(era(&acquire(&pool, &legacy()).await.expect("a connection")), Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn many_who_come_first_make_one_connection_each_dialect() {
    let server = dual();
    server.dial(Dial::AcceptAfter(Duration::from_secs(1)));
    let (pool, _shutdown) = pool_of(&server, 4);
    let calls: Vec<Call> = (0..50).flat_map(|_| [legacy(), modern()]).collect();
    let acquired = join_all(calls.iter().map(|call| acquire(&pool, call))).await;
    assert!(
        acquired
            .iter()
            .zip(&calls)
            .all(|(pooled, call)| pooled.as_ref().is_ok_and(|pooled| era(pooled) == call.era))
    );
    assert_eq!(server.connects(), 2);
}

/// The call of a client that can do its share of everything.
fn able(number: usize) -> Call {
    let bit = |bit: usize, name: &str| (number >> bit & 1 == 1).then(|| (name.to_owned(), json!({})));
    let sampling: serde_json::Map<_, _> =
        [bit(1, "tools"), bit(2, "context")].into_iter().flatten().collect();
    let elicitation: serde_json::Map<_, _> =
        [Some(("form".to_owned(), json!({}))), bit(3, "url")].into_iter().flatten().collect();
    let mut capabilities = json!({"sampling": sampling, "elicitation": elicitation});
    if number & 1 == 1 {
        capabilities["roots"] = json!({});
    }
    call_of(Era::Legacy, &capabilities)
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_dialects_at_a_time_and_the_one_unused_for_longest_ends() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1);
    let mut pooled = Vec::new();
    for number in 0..MAX_DIALECTS {
        pooled.push(acquire(&pool, &able(number)).await.expect("a connection"));
        advance(Duration::from_secs(1)).await;
    }
    let none = call_of(Era::Legacy, &json!({}));
    let like = acquire(&pool, &none).await.expect("the dialect that is most like it, as all of them work");
    assert!(std::ptr::addr_eq(like.connection(), pooled[0].connection()));
    assert_eq!(server.connects(), MAX_DIALECTS + 1);
    pooled.remove(3);
    assert!(acquire(&pool, &none).await.is_ok());
    settle().await;
    assert_eq!((pool.live(), server.live()), (MAX_DIALECTS + 1, MAX_DIALECTS + 1));
    assert!(acquire(&pool, &able(0)).await.is_ok());
    assert_eq!(server.connects(), MAX_DIALECTS + 2, "the others were left alone");
}

/// A call on behalf of `principal`.
fn by(principal: &str, call: Call) -> Call {
    Call { principal: Some(principal.into()), ..call }
}

#[tokio::test(start_paused = true)]
async fn one_principal_has_half_of_the_dialects_and_shares_its_own_beyond_that() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 1);
    let mut pooled = Vec::new();
    for number in 0..MAX_DIALECTS {
        pooled.push(acquire(&pool, &by("key:greedy", able(number))).await.expect("a connection"));
    }
    assert_eq!(server.connects(), 1 + MAX_OWN, "the others share these");
    let other = acquire(&pool, &by("key:other", able(MAX_DIALECTS - 1))).await.expect("a connection");
    assert_eq!(server.connects(), 2 + MAX_OWN, "there is room for others");
    server.asks_in_vain();
    assert!(acquire(&pool, &by("key:greedy", able(MAX_OWN))).await.is_ok());
    assert_eq!(
        (server.connects(), pool.live()),
        (2 + MAX_OWN, 2 + MAX_OWN),
        "others may call on a shared one"
    );
    drop(pooled);
    assert!(acquire(&pool, &by("key:greedy", able(MAX_OWN))).await.is_ok());
    settle().await;
    assert_eq!((server.connects(), server.live()), (3 + MAX_OWN, 2 + MAX_OWN), "its own idle one made room");
    drop(other);
}

/// An idle client session.
struct Unused {
    since: Instant,
    affinity: Affinity,
}

impl ClientSession for Unused {
    fn unused_since(&self) -> Option<Instant> {
        Some(self.since)
    }

    fn displace(&self) {
        self.affinity.end();
    }

    fn notice(&self, _: Notification) {}
}

#[tokio::test(start_paused = true)]
async fn the_session_that_was_unused_for_longest_ends_with_its_connection() {
    let server = dual();
    let (pool, _shutdown) = pool_with(&server, 3, true);
    let unused = |after: u64| {
        let affinity = Affinity::session();
        let client = Arc::new(Unused {
            since: Instant::now() + Duration::from_secs(after),
            affinity: affinity.clone(),
        });
        affinity.belongs_to(&client);
        (affinity, client)
    };
    let of = |principal: &str, affinity: &Affinity| by(principal, of_home(Era::Legacy, affinity));
    let (in_use, (old, _old), (new, _new)) = (Affinity::session(), unused(0), unused(1));
    for (principal, affinity) in [("key:a", &in_use), ("key:a", &new), ("key:a", &old)] {
        drop(acquire(&pool, &of(principal, affinity)).await.expect("a connection"));
    }
    let (other, _other) = unused(2);
    assert!(acquire(&pool, &of("key:b", &other)).await.is_ok());
    assert!(old.is_over() && !new.is_over() && !in_use.is_over());
    let (own, _own) = unused(3);
    assert!(acquire(&pool, &of("key:b", &own)).await.is_ok());
    assert!(other.is_over() && !new.is_over(), "the principal's own goes first");
    settle().await;
    assert_eq!(server.live(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_dialect_that_nobody_uses_ends_and_the_base_one_stays() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 4);
    let held = acquire(&pool, &legacy()).await.expect("a connection");
    drop(acquire(&pool, &able(0)).await.expect("a connection"));
    assert_eq!(pool.live(), 3);
    sleep(Duration::from_secs(301)).await;
    assert_eq!((pool.live(), server.live()), (2, 2), "one of them is in use");
    drop(held);
    sleep(Duration::from_secs(301)).await;
    assert_eq!((pool.live(), server.live(), pool.occupancy().borrow().live), (1, 1, 1));
    assert!(acquire(&pool, &legacy()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_dialect_that_dies_is_no_server_that_went_away() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 4);
    assert!(acquire(&pool, &legacy()).await.is_ok());
    let occupancy = pool.occupancy();
    let before = occupancy.borrow().clone();
    server.die_in(Era::Legacy, "gone");
    settle().await;
    assert_eq!((pool.live(), occupancy.borrow().live, occupancy.borrow().arrivals), (1, 1, before.arrivals));
    assert_eq!(occupancy.borrow().lost, None);
    assert!(acquire(&pool, &legacy()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn connections_that_die_young_hold_only_their_dialect() {
    let server = dual();
    let (pool, _shutdown) = pool_of(&server, 4);
    for _ in 0..2 {
        assert!(acquire(&pool, &legacy()).await.is_ok());
        server.die_in(Era::Legacy, "crashed");
        settle().await;
    }
    let call = legacy();
    assert!(pool.check_flapping(PoolRequest::of(&call)).is_err() && acquire(&pool, &call).await.is_err());
    assert!(pool.check_flapping(PoolRequest::Own).is_ok() && acquire(&pool, &modern()).await.is_ok());
}

pub(super) fn of_home(era: Era, affinity: &Affinity) -> Call {
    Call {
        affinity: Some(affinity.clone()),
        ..call_of(era, &json!({"roots": {"listChanged": true}, "x": 1.0}))
    }
}

#[tokio::test(start_paused = true)]
async fn a_private_connection_declares_what_its_client_did_and_ends_with_the_session() {
    let server = dual();
    let (pool, _shutdown) = pool_with(&server, 2, true);
    let (one, two) = (Affinity::session(), Affinity::session());
    for _ in 0..3 {
        assert_eq!(
            era(&acquire(&pool, &of_home(Era::Legacy, &one)).await.expect("a connection")),
            Era::Legacy
        );
    }
    let exact = r#"{"roots":{"listChanged":true},"x":1.0}"#.to_owned();
    assert_eq!(server.dialects(), [(Era::Modern, BASE.into()), (Era::Legacy, exact)]);
    let other = acquire(&pool, &of_home(Era::Legacy, &two)).await.expect("a connection");
    let again = acquire(&pool, &of_home(Era::Legacy, &one)).await.expect("a connection");
    assert!(!std::ptr::addr_eq(other.connection(), again.connection()));
    assert!(acquire(&pool, &legacy()).await.is_ok(), "a program has no session, and shares");
    assert_eq!(pool.live(), 4);
    let third = of_home(Era::Legacy, &Affinity::session());
    assert!(matches!(acquire(&pool, &third).await, Err(Error::Full { .. })), "so many clients");
    drop((other, again));
    sleep(Duration::from_secs(301)).await;
    assert_eq!(pool.live(), 3, "a session's is not idle while the session lives");
    one.end();
    settle().await;
    assert_eq!((pool.live(), server.live()), (2, 2));
    assert!(acquire(&pool, &third).await.is_ok());
}

/// A call of a modern client of `principal` without a session.
pub(super) fn sessionless(principal: &str, capabilities: &serde_json::Value) -> Call {
    let affinity = Affinity::of_principal(principal.into(), &Raw::of(capabilities));
    by(principal, Call { affinity: Some(affinity), ..call_of(Era::Modern, capabilities) })
}

#[tokio::test(start_paused = true)]
async fn a_principal_without_sessions_has_one_private_connection_until_it_is_idle() {
    let server = dual();
    let (pool, _shutdown) = pool_with(&server, 1, true);
    let [one, two] = ["key:a", "key:b"].map(|principal| sessionless(principal, &json!({})));
    let held = acquire(&pool, &one).await.expect("a connection");
    assert!(acquire(&pool, &sessionless("key:a", &json!({}))).await.is_ok());
    assert_eq!(pool.live(), 2);
    assert!(matches!(acquire(&pool, &two).await, Err(Error::Full { .. })));
    drop(held);
    assert!(acquire(&pool, &two).await.is_ok(), "an idle one makes room");
    assert_eq!(pool.live(), 2);
    sleep(Duration::from_secs(301)).await;
    assert_eq!((pool.live(), server.live()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn connection_that_is_being_opened_ends_with_those_of_its_principal() {
    let server = dual();
    let (pool, _shutdown) = pool_with(&server, 2, true);
    let [one, other] = ["key:a", "key:b"].map(|principal| sessionless(principal, &json!({})));
    drop(acquire(&pool, &other).await.expect("a connection"));
    let before = server.connects();
    server.dial(Dial::AcceptAfter(Duration::from_secs(5)));
    let change = async {
        sleep(Duration::from_secs(1)).await;
        pool.end_connections_of(&"key:a".into());
    };
    let (acquired, ()) = join(acquire(&pool, &one), change).await;
    assert!(acquired.is_ok(), "its caller waits for the next one");
    assert_eq!(server.connects(), before + 2, "the first one has what the principal had before");
}
