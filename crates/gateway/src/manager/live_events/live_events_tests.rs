//! Tests of the ring of events: its limits, gaps, and the memory budget.

use super::*;

fn note(events: &LiveEvents, reason: usize) {
    let what = EventContent::Server { state: "failed", reason: Some("x".repeat(reason)) };
    events.changed(&"s".into(), what);
}

fn is_event(next: Option<&Next>) -> bool {
    matches!(next, Some(Next::Event(_)))
}

#[test]
fn a_watcher_that_does_not_read_keeps_one_mebibyte_and_learns_what_it_missed() {
    let events = LiveEvents::new();
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    (0..3_000).for_each(|_| note(&events, 1_000));
    let kept = events.lock().ring.len();
    assert!(events.lock().bytes <= RING_BYTES && kept > 500, "{kept}");
    let missed = 3_000 - kept as u64;
    assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(count), _)) if count == missed));
    (0..kept).for_each(|_| assert!(is_event(watcher.try_next().as_ref())));
    assert!(watcher.try_next().is_none());
}

#[test]
fn a_resumed_watcher_continues_after_the_last_event_it_has_seen() {
    let events = LiveEvents::new();
    let mut first = events.watch(&"p".into(), None).expect("room");
    (0..3).for_each(|_| note(&events, 1));
    let Some(Next::Event(event)) = first.try_next() else { panic!("no event") };
    let mut second = events.watch(&"p".into(), Some(event.number)).expect("room");
    let Some(Next::Event(next)) = second.try_next() else { panic!("no event") };
    assert_eq!(next.number, event.number + 1);
    let mut ancient = events.watch(&"p".into(), Some(7)).expect("room");
    assert!(matches!(ancient.try_next(), Some(Next::Gap(None, _))), "events of an earlier run");
}

#[test]
fn a_pause_without_watchers_is_told_as_a_gap() {
    let events = LiveEvents::new();
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    note(&events, 1);
    let Some(Next::Event(event)) = watcher.try_next() else { panic!("no event") };
    drop(watcher);
    assert!(!events.is_watched());
    let mut watcher = events.watch(&"p".into(), Some(event.number)).expect("room");
    assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(1), _))));
    (0..3).for_each(|_| note(&events, 1));
    let mut batch = Vec::new();
    watcher.take(&mut batch, 2);
    assert_eq!(batch.len(), 2);
    watcher.take(&mut batch, 2);
    let number = |next: Next| if let Next::Event(event) = next { Some(event.number) } else { None };
    let numbers: Vec<_> = batch.into_iter().filter_map(number).collect();
    assert_eq!(numbers, [2, 3, 4].map(|after| event.number + after), "each event after the gap, once");
}

#[test]
fn watchers_are_limited_for_each_principal_and_in_sum() {
    let events = LiveEvents::new();
    let of = |name: usize| events.watch(&name.to_string().into(), None);
    let own: Vec<_> = (0..WATCHERS_EACH).map(|_| of(0).expect("room")).collect();
    assert!(of(0).is_none() && of(1).is_some());
    let all: Vec<_> = (WATCHERS_EACH..WATCHERS).map(|name| of(name).expect("room")).collect();
    assert!(of(1).is_none());
    drop((own, all));
    assert!(of(0).is_some());
}

#[test]
fn the_ring_is_charged_to_the_memory_budget_and_shrinks_with_it() {
    let budget = runtime::memory::Budget::of_size(1024 * 1024);
    let events = LiveEvents::new();
    events.lock().charge = budget.open(Account::LiveEvents, ChargeKind::Notice);
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    (0..3_000).for_each(|_| note(&events, 1_000));
    let used = budget.usage().used;
    let bytes = events.lock().bytes;
    // Three quarters of five eighths.
    assert!(bytes <= used && used <= 480 * 1024 && bytes > 400 * 1024, "{bytes} of {used}");
    assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(_), _))), "it learns what it missed");
    drop((watcher, events));
    assert_eq!(budget.usage().used, 0);
}

#[tokio::test(start_paused = true)]
async fn watchers_that_wait_are_woken_by_each_event() {
    let events = LiveEvents::new();
    let [mut one, mut other] = [1, 2].map(|_| events.watch(&"p".into(), None).expect("room"));
    for _ in 0..2 {
        let begun = tokio::time::Instant::now();
        let patience = Duration::from_mins(1);
        let (one, other, ()) = tokio::join!(one.next(patience), other.next(patience), async {
            tokio::task::yield_now().await;
            note(&events, 1);
        });
        assert!(is_event(one.as_ref()) && is_event(other.as_ref()));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
