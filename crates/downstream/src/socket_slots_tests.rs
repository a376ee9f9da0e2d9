//! Slots: how many there are, which connection yields, and to whom a slot goes.

use std::task::Waker;

use super::*;

fn slots<const N: usize>() -> (SocketSlots, [SocketSlot; N]) {
    let slots = SocketSlots::new(N);
    let open = [(); N].map(|()| slots.open(slots.take().expect("a free slot")));
    (slots, open)
}

/// Lets time pass, so that what follows is younger.
async fn later() {
    tokio::time::advance(std::time::Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_to_its_claimant_and_to_nobody_else() {
    let (slots, [one, two]) = slots();
    let (_busy, _) = two.activity.request(|| 0);
    let mut claimed = slots.claim().expect("the idle one is asked");
    assert!(slots.claim().is_none(), "it is asked once, and the other one is busy");
    assert!(claimed.try_recv().is_err() && slots.take().is_none(), "the connection is still open");
    drop(one);
    assert!(slots.take().is_none(), "the slot is not free");
    let three = slots.open(claimed.try_recv().expect("it was given"));
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
        slot.activity.opened(Waker::noop().clone(), is_known);
        later().await;
    }
    for expected in [&stranger_early, &stranger_late, &known_early, &known_late] {
        let _claim = slots.claim().expect("one waits");
        // The others are not claimed.
        assert!(expected.activity.take_claim().is_some());
        expected.activity.identified(true);
        std::mem::forget(expected.activity.request(|| 0));
    }
    assert!(slots.claim().is_none(), "all are busy");
}

#[tokio::test(start_paused = true)]
async fn one_of_many_is_found() {
    let (slots, open) = slots::<1_000>();
    for (at, slot) in open.iter().enumerate() {
        // One of ten waits.
        if at % 10 > 0 {
            std::mem::forget(slot.activity.request(|| 0));
        }
    }
    for _ in 0..20 {
        assert!(slots.claim().is_some());
    }
}
