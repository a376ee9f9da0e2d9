//! Slots: how many there are, which connection yields, and to whom a slot goes.

use std::task::Waker;

use super::*;
use auth::Role;

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn principal(id: &str) -> Principal {
    Principal::new(id, Role::Caller)
}

fn slots<const N: usize>() -> (SocketSlots, [SocketSlot; N]) {
    let slots = SocketSlots::new(N, SocketCounts::default());
    let open = [(); N].map(|()| slots.open(slots.take().expect("a free slot"), LOCAL));
    (slots, open)
}

/// Lets time pass, so that what follows is younger.
async fn later() {
    tokio::time::advance(std::time::Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_to_its_claimant_and_to_nobody_else() {
    let (slots, [one, two]) = slots();
    let (_busy, _) = two.client.activity().request(|| 0);
    let mut claimed = slots.claim().expect("the idle one is asked");
    assert!(slots.claim().is_none(), "it is asked once, and the other one is busy");
    assert!(claimed.try_recv().is_err() && slots.take().is_none(), "the connection is still open");
    drop(one);
    assert!(slots.take().is_none(), "the slot is not free");
    let three = slots.open(claimed.try_recv().expect("it was given"), LOCAL);
    assert!(slots.take().is_none());
    drop((two, three));
    assert!(slots.take().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claimant_that_has_gone_takes_no_slot_with_it() {
    let (slots, [one, two]) = slots();
    drop(slots.claim().expect("asked"));
    let given = slots.claim().expect("the other one is asked");
    drop((one, two));
    assert!(slots.take().is_some(), "that of the first one");
    drop(given);
    let both = (slots.take(), slots.take());
    assert!(both.0.is_some() && both.1.is_some() && slots.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_credential_yields_before_one_with_it_and_then_the_one_that_waited_longest() {
    let (slots, [known_early, stranger_late, stranger_early, known_late]) = slots();
    for (slot, is_known) in
        [(&known_early, true), (&stranger_early, false), (&stranger_late, false), (&known_late, true)]
    {
        slot.client.activity().opened(Waker::noop().clone());
        if is_known {
            slot.client.identified(&principal("one"), None).expect("a share");
        }
        later().await;
    }
    for expected in [&stranger_early, &stranger_late, &known_early, &known_late] {
        let _claim = slots.claim().expect("one waits");
        // The others are not claimed.
        assert!(expected.client.activity().take_claim().is_some());
        std::mem::forget(expected.client.activity().request(|| 0));
    }
    assert!(slots.claim().is_none(), "all are busy");
}

#[tokio::test(start_paused = true)]
async fn one_of_many_is_found() {
    let (slots, open) = slots::<1_000>();
    for (at, slot) in open.iter().enumerate() {
        // One of ten waits.
        if at % 10 > 0 {
            std::mem::forget(slot.client.activity().request(|| 0));
        }
    }
    for _ in 0..20 {
        assert!(slots.claim().is_some());
    }
}

/// A request of `id` that does not end.
fn hangs(slot: &SocketSlot, id: &str) -> Result<(), ShareTaken> {
    std::mem::forget(slot.client.activity().request(|| 0));
    slot.client.identified(&principal(id), None)
}

#[test]
fn one_principal_cannot_keep_all_slots_with_requests_that_run_and_another_one_gets_the_rest() {
    let (_slots, open) = slots::<64>();
    let count = open.iter().filter(|slot| hangs(slot, "one").is_ok()).count();
    assert_eq!(count, 56);
    let others: Vec<_> = open[count..].iter().map(|slot| hangs(slot, "two").is_ok()).collect();
    // A sixteenth is for those that keep few.
    assert_eq!(others, [true, true, true, true, false, false, false, false]);
    assert_eq!(hangs(&open[63], "one"), Err(ShareTaken { held: 56 }));
    assert!(hangs(&open[63], "three").is_ok());
}

#[test]
fn connections_between_two_requests_do_not_count_toward_the_share() {
    let (_slots, open) = slots::<64>();
    for _ in 0..3 {
        for slot in &open {
            let request = slot.client.activity().request(|| 0);
            assert_eq!(slot.client.identified(&principal("one"), None), Ok(()));
            drop(request);
            slot.client.activity().flushed();
        }
    }
    drop(open);
}

#[test]
fn one_connection_may_carry_requests_of_many_principals() {
    let (slots, [slot]) = slots();
    for at in 0..100 {
        let one = principal(&at.to_string());
        slot.client.identified(&one, None).expect("a share");
        assert!(slot.client.activity().is_kept_for(one.id()));
    }
    slot.client.identified(&Principal::anonymous(), None).expect("a share of its address");
    assert!(!slot.client.activity().is_kept());
    slot.client.unidentified();
    assert!(slots.shares.keep(&Owner::Principal("one".into())).is_ok(), "it is kept for nobody");
}

#[test]
fn a_closed_connection_gives_its_share_back() {
    let (slots, [slot]) = slots();
    hangs(&slot, "one").expect("a share");
    // Something of the connection may still exist for a moment.
    let _client = slot.client.clone();
    drop(slot);
    assert!(slots.shares.keep(&Owner::Principal("one".into())).is_ok());
}

#[test]
fn clients_without_a_credential_have_one_share_for_each_address_and_keep_nothing() {
    let (slots, open) = slots::<64>();
    let stranger = Principal::anonymous();
    let running: Vec<_> = open.iter().map(|slot| slot.client.activity().request(|| 0)).collect();
    let (served, refused): (Vec<_>, Vec<_>) =
        open.iter().partition(|slot| slot.client.identified(&stranger, None).is_ok());
    assert_eq!((served.len(), refused.len()), (56, 8));
    assert!(served.iter().all(|slot| slot.client.identified(&stranger, None).is_ok()), "it is counted once");
    assert!(open.iter().all(|slot| !slot.client.activity().is_kept()));
    refused[0].client.identified(&principal("one"), None).expect("a credential has a share of its own");
    let other = Owner::Address(std::net::IpAddr::from([192, 0, 2, 1]).into());
    assert!(slots.shares.keep(&other).is_ok(), "so has another address");
    drop(running);
}

#[test]
fn clients_without_a_credential_behind_a_proxy_have_one_share_each() {
    let (_slots, open) = slots::<64>();
    let (stranger, [one, other]) =
        (Principal::anonymous(), [1, 2].map(|at| Some(IpAddr::from([192, 0, 2, at]).into())));
    let running: Vec<_> = open.iter().map(|slot| slot.client.activity().request(|| 0)).collect();
    let (served, refused): (Vec<_>, Vec<_>) =
        open.iter().partition(|slot| slot.client.identified(&stranger, one).is_ok());
    assert_eq!((served.len(), refused.len()), (56, 8));
    assert!(refused[..4].iter().all(|slot| slot.client.identified(&stranger, other).is_ok()));
    assert!(refused[4].client.identified(&stranger, one).is_err());
    drop(running);
    // A connection of the proxy carries requests of both, one after the other, and counts for the last one.
    let (slots, [slot]) = self::slots();
    for client in [one, other].repeat(100) {
        slot.client.identified(&stranger, client).expect("a share");
        assert!(slot.client.activity().is_counted_for(client.expect("an address")));
    }
    assert!(slots.shares.keep(&Owner::Address(one.expect("an address"))).is_err(), "the only slot is taken");
}
