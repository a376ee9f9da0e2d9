//! Calls that wait for a connection, and the order in which they are woken.

use futures_util::FutureExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_stays_of_who_waits_no_more() {
    let queue = Queue::default();
    let lease = Lease::new(&queue);
    let (busy, hasty, patient) = (Owner::new(), Owner::new(), Owner::new());
    // The calls overlap, so there is always one.
    assert!(lease.take(busy, true, false) && lease.take(busy, true, false));
    let waits = queue.join(patient);
    for _ in 0..1000 {
        assert!(!lease.take(hasty, true, false));
        let mut turn = Box::pin(queue.join(hasty).comes());
        assert!(turn.as_mut().now_or_never().is_none());
        drop(turn);
        assert_eq!(queue.lock().len(), 1, "only who still waits");
    }
    lease.release(busy);
    lease.release(busy);
    assert!(waits.comes().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_and_leaves_wakes_the_next() {
    let queue = Queue::default();
    let (one, two) = (queue.join(Owner::new()), queue.join(Owner::new()));
    assert!(queue.wake_next());
    drop(one);
    assert!(two.comes().now_or_never().is_some());
    assert!(!queue.wake_next());
}
