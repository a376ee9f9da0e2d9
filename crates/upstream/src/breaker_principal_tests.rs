//! Tests of the breaker with several principals: whose failures concern whom.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::tests::{CONFIG, lost, timed_out};
use super::*;

/// Fails as many calls of `principal` as open a breaker.
fn fail(breaker: &Breaker, principal: &Arc<str>) {
    for _ in 0..CONFIG.threshold {
        breaker.judge(breaker.admit(Some(principal)).expect("closed for it"), &timed_out());
    }
}

fn is_open_for(breaker: &Breaker, principal: Option<&Arc<str>>) -> bool {
    breaker.refuses_for(principal).is_some()
}

// RULES R7
#[tokio::test(start_paused = true)]
async fn a_principal_whose_calls_alone_fail_shuts_out_nobody_else() {
    let (breaker, [bad, good]) = (Breaker::new(CONFIG), ["bad", "good"].map(Arc::from));
    for _ in 0..10 {
        fail(&breaker, &bad);
        assert!(is_open_for(&breaker, Some(&bad)));
        assert!(!is_open_for(&breaker, Some(&good)) && !is_open_for(&breaker, None));
        for _ in 0..3 {
            breaker.judge(breaker.admit(Some(&good)).expect("it is another one"), &Ok(()));
        }
        // A single failure of another caller does not open it for all while others succeed.
        breaker.judge(breaker.admit(Some(&good)).expect("it is another one"), &timed_out());
        breaker.forget(breaker.admit(None).expect("it is Switchyard itself"));
        assert_eq!(breaker.snapshot().state, State::Open);
        tokio::time::advance(CONFIG.timeout).await;
        let probe = breaker.admit(Some(&bad)).expect("its time is over");
        assert!(probe.is_probe() && breaker.admit(Some(&bad)).is_err(), "exactly one");
        assert!(!breaker.admit(Some(&good)).expect("it does not wait for the probe").is_probe());
        breaker.judge(probe, &Ok(()));
        assert_eq!(breaker.snapshot().state, State::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_costs_other_callers_one_call_and_is_then_closed_to_all() {
    for other in [Some(Arc::from("other")), None] {
        for failure in [timed_out(), lost()] {
            let (breaker, first) = (Breaker::new(CONFIG), Arc::from("first"));
            fail(&breaker, &first);
            breaker.judge(breaker.admit(other.as_ref()).expect("one call"), &failure);
            for principal in [Some(&first), other.as_ref(), Some(&Arc::from("third")), None] {
                assert!(is_open_for(&breaker, principal), "{principal:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failures_of_several_principals_in_a_row_open_it_for_all() {
    let breaker = Breaker::new(CONFIG);
    for at in 0..CONFIG.threshold {
        let principal = Arc::from(format!("{at}"));
        breaker.judge(breaker.admit(Some(&principal)).expect("closed"), &timed_out());
    }
    assert!(is_open_for(&breaker, Some(&Arc::from("new"))) && is_open_for(&breaker, None));
}

#[tokio::test(start_paused = true)]
async fn others_open_it_for_all_after_as_many_failures_as_usual_if_one_succeeded() {
    let (breaker, [bad, good]) = (Breaker::new(CONFIG), ["bad", "good"].map(Arc::from));
    fail(&breaker, &bad);
    breaker.judge(breaker.admit(Some(&good)).expect("it is another one"), &Ok(()));
    for _ in 0..CONFIG.threshold {
        breaker.judge(breaker.admit(Some(&good)).expect("still closed for it"), &timed_out());
    }
    assert!(is_open_for(&breaker, Some(&good)));
    breaker.reset();
    assert!(!is_open_for(&breaker, Some(&good)) && !is_open_for(&breaker, Some(&bad)));
}

// RULES R6
#[test]
fn it_is_to_one_principal_what_a_breaker_of_its_own_would_be() {
    for seed in 0..5_000 {
        let mut random = StdRng::seed_from_u64(seed);
        let (start, mut clock) = (Instant::now(), 0);
        let (shared, own) = (Breaker::new(CONFIG), Breaker::new(CONFIG));
        let [one, other] = ["one", "other"].map(Arc::from);
        let mut out = Vec::new();
        for _ in 0..80 {
            let now = start + Duration::from_secs(clock);
            match random.random_range(0..10) {
                0..3 => match (shared.admit_at(Some(&one), || now), own.admit_at(Some(&one), || now)) {
                    (Ok(permit), Ok(own)) => out.push((permit, own)),
                    (shared, own) => assert!(shared.is_err() && own.is_err(), "{seed}: {shared:?} {own:?}"),
                },
                3..7 if !out.is_empty() => {
                    let (permit, reference) = out.swap_remove(random.random_range(0..out.len()));
                    let verdict = [Verdict::Failure, Verdict::Failure, Verdict::Success, Verdict::Nothing];
                    let verdict = verdict[random.random_range(0..4)];
                    shared.settle(permit, verdict, || now);
                    own.settle(reference, verdict, || now);
                }
                // Another one, whose calls do not fail, and say nothing of those of the first.
                7 => {
                    let permit = shared.admit_at(Some(&other), || now).expect("never refused");
                    shared.settle(permit, Verdict::Nothing, || now);
                }
                _ => clock += random.random_range(1..40),
            }
            assert_eq!(shared.snapshot_at(now), own.snapshot_at(now), "in sequence {seed}");
        }
    }
}
