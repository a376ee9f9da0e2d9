//! The phases of a connection, its deadlines, and when it yields its slot.

use super::*;
use crate::socket_shares::SocketShares;

const TIMES: Times =
    Times { head: Duration::from_secs(10), idle: Duration::from_secs(75), write: Duration::from_secs(30) };

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Seconds from now until the deadline.
fn left(activity: &Activity) -> Option<u64> {
    activity.deadline(&TIMES).map(|at| at.duration_since(Instant::now()).as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_connection_walks_through_its_phases() {
    let activity = Activity::new(HeadBudget::default());
    assert_eq!(left(&activity), Some(10));
    pass(4).await;
    activity.received(1, 1);
    assert_eq!(left(&activity), Some(6), "the first byte wins no time");
    let (request, _share) = activity.request(|| 0);
    activity.received(1, 1);
    assert_eq!(left(&activity), None, "a body is not a head");
    drop(request);
    assert_eq!(left(&activity), Some(75));
    pass(50).await;
    activity.received(1, 1);
    assert_eq!(left(&activity), Some(10), "a head has begun");
    pass(9).await;
    activity.received(1, 1);
    assert_eq!(left(&activity), Some(1), "more bytes win no time");
}

#[tokio::test]
async fn buffers_are_renewed_only_where_nothing_is_in_them() {
    let activity = Activity::new(HeadBudget::default());
    activity.received(100, USUAL_BUFFER + 1);
    assert_eq!(activity.rest(), IdleAction::Wait, "a head has begun");
    let (request, share) = activity.request(|| 100);
    activity.wrote(true);
    assert_eq!((share.is_some(), activity.rest()), (true, IdleAction::Wait), "a request runs");
    drop(request);
    assert_eq!(activity.rest(), IdleAction::Wait, "its answer is not flushed");
    activity.flushed();
    assert_eq!((activity.rest(), activity.rest()), (IdleAction::Renew, IdleAction::Wait), "once");
    activity.received(100, USUAL_BUFFER + 1);
    let request = activity.request(|| 100);
    activity.left_body();
    drop(request);
    assert_eq!(activity.rest(), IdleAction::Wait, "the connection may be reading the body that was left");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_given_up() {
    let activity = Activity::new(HeadBudget::default());
    let _request = activity.request(|| 0);
    activity.wrote(false);
    pass(20).await;
    activity.wrote(false);
    assert_eq!(left(&activity), Some(10), "from the first blocked write on");
    activity.wrote(true);
    assert_eq!(left(&activity), None);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_next_to_nothing_of_an_answer_is_given_up() {
    let activity = Activity::new(HeadBudget::default());
    let (request, _share) = activity.request(|| 0);
    request.handed();
    pass(60).await;
    activity.wrote(false);
    activity.wrote(true);
    assert_eq!(left(&activity), Some(60), "a byte now and then wins no time");
    request.next_requested();
    assert_eq!(left(&activity), None, "the answer itself has its own");
    request.handed();
    drop(request);
    assert_eq!(left(&activity), Some(75), "it was the last part");
}

/// A share of a principal in the slots.
fn held() -> HeldSlot {
    SocketShares::new(1).keep(&crate::socket_shares::Owner::Principal("one".into())).expect("a share")
}

/// Whether the connection yields its slot: kept for nobody, and kept for a principal.
fn yields(activity: &Activity) -> [bool; 2] {
    let _deadline = activity.deadline(&TIMES);
    [false, true].map(|is_kept| {
        activity.keep(is_kept.then(held));
        activity.waits().is_some()
    })
}

#[tokio::test(start_paused = true)]
async fn a_connection_yields_only_while_it_waits_for_its_client() {
    let activity = Activity::new(HeadBudget::default());
    assert_eq!(yields(&activity), [true, true], "before the first byte");
    activity.received(1, 1);
    assert_eq!(yields(&activity), [true, false], "in a head");
    let (request, _share) = activity.request(|| 0);
    assert_eq!(yields(&activity), [false, false], "a request runs");
    activity.body_blocked(true);
    assert_eq!(yields(&activity), [true, false], "in a body");
    activity.body_blocked(false);
    assert_eq!(yields(&activity), [false, false], "the body has arrived");
    activity.wrote(false);
    assert_eq!(yields(&activity), [true, false], "its answer is not read");
    activity.wrote(true);
    assert_eq!(yields(&activity), [false, false], "it is read again");
    drop(request);
    assert_eq!(yields(&activity), [true, false], "a part of the answer is not with the system");
    activity.flushed();
    assert_eq!(yields(&activity), [true, true], "between two requests");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_became_busy_refuses_the_claim_on_its_slot() {
    let activity = Activity::new(HeadBudget::default());
    activity.keep(Some(held()));
    let claim = || {
        let (claim, claimed) = oneshot::channel();
        activity.claim(claim);
        claimed
    };
    let mut claimed = claim();
    assert_eq!((activity.waits(), activity.rest()), (None, IdleAction::YieldIfIdle));
    let request = activity.request(|| 0);
    assert_eq!(activity.rest(), IdleAction::Wait);
    let is_refused = matches!(claimed.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    assert!(is_refused, "a new connection asks another one");
    drop(request);
    activity.flushed();
    let _claimed = claim();
    activity.refuse_claim();
    let _claimed = claim();
    assert_eq!(activity.rest(), IdleAction::YieldIfIdle, "as often as a request has arrived");
}

#[test]
fn a_connection_is_released_only_between_two_requests() {
    let activity = Activity::new(HeadBudget::default());
    activity.keep(Some(held()));
    let stays = |why: &str| {
        activity.release_if_idle();
        assert!(activity.is_kept_for(&Arc::from("one")), "{why}");
    };
    let (request, _share) = activity.request(|| 0);
    stays("a request runs");
    drop(request);
    stays("the connection may have the last part of the answer");
    activity.wrote(true);
    stays("a part of the answer is not with the system");
    activity.flushed();
    activity.received(1, 1);
    stays("in a head");
    drop(activity.request(|| 0));
    activity.flushed();
    activity.refuse_claim();
    activity.release_if_idle();
    assert!(!activity.is_kept_for(&Arc::from("one")), "between two requests");
    let (claim, _claimed) = oneshot::channel();
    activity.claim(claim);
    assert_eq!(activity.rest(), IdleAction::YieldIfIdle, "what it refused before does not count");
}

#[tokio::test(start_paused = true)]
async fn requests_sent_ahead_without_a_credential_save_a_connection_once() {
    let activity = Activity::new(HeadBudget::default());
    for expected in [IdleAction::YieldIfIdle, IdleAction::Yield] {
        drop(activity.request(|| 0));
        activity.flushed();
        activity.deadline(&TIMES);
        let (claim, _claimed) = oneshot::channel();
        activity.claim(claim);
        assert_eq!(activity.rest(), expected);
        activity.refuse_claim();
    }
}

mod head_budget {
    use super::*;

    #[test]
    fn heads_of_one_listener_share_one_sum_and_small_ones_are_free() {
        let (budget, other, most) = (HeadBudget::default(), HeadBudget::default(), IN_SUM / 1_000);
        let mut shares: Vec<Share> = Vec::new();
        let full = loop {
            let mut share = Share::default();
            if !share.resize(most + FREE, &budget) {
                break share;
            }
            shares.push(share);
        };
        assert_eq!((shares.len(), full.bytes), (1_000, 0));
        let mut small = Share::default();
        assert!(small.resize(FREE, &budget), "a small head needs no room");
        assert!(!small.resize(2 * FREE + most, &budget));
        let mut elsewhere = Share::default();
        assert!(elsewhere.resize(FREE + IN_SUM, &other), "another listener has its own sum");
        assert!(
            shares[0].resize(FREE, &budget) && small.resize(FREE + most, &budget),
            "what one gives back another one takes"
        );
        drop((shares, small, full, elsewhere));
        assert_eq!([budget, other].map(|budget| budget.0.load(Ordering::Relaxed)), [0, 0]);
    }

    #[test]
    fn the_size_counts_target_names_values_and_entries() {
        let request = Request::get("/a?b").header("x", "12345").header("y", "").body(()).expect("a request");
        assert_eq!(size_of(&request), 4 + 6 + 1 + 2 * ENTRY);
    }
}
