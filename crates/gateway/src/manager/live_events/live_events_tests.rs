//! Tests of the ring of events: its limits, gaps, the events of calls, and the memory budget.

use std::sync::OnceLock;

use super::*;
use runtime::memory::{Account, ChargeKind};
use upstream::EndedAttempts;

fn record(events: &LiveEvents, reason: usize) {
    let what = EventContent::Server { state: "failed", reason: Some("x".repeat(reason)) };
    events.changed(&"s".into(), what);
}

/// Records the beginning of a call, and returns the call and the number of the event.
fn begin(events: &LiveEvents, number: u64, arguments: usize) -> (Arc<ToolCall>, u64) {
    let call = Arc::new(ToolCall {
        number,
        server: "s".into(),
        tool: "t".into(),
        principal: None,
        client: None,
        request_id: None,
        arguments: Some("x".repeat(arguments)),
        end: OnceLock::new(),
    });
    (Arc::clone(&call), events.record(EventKind::CallStarted(call)))
}

fn end(events: &LiveEvents, (call, started): (Arc<ToolCall>, u64)) {
    let (duration, attempts) = (Duration::ZERO, EndedAttempts::new());
    call.end
        .set(CallEnd { outcome: "ok", code: None, error: None, duration, attempts })
        .expect("it ends once");
    events.record_end(started, call);
}

/// Reads all events of calls: the number of each call, and whether it ended.
fn read(watcher: &mut Watcher) -> Vec<(u64, bool)> {
    let read_events = |next| {
        let Next::Event(event) = next else { panic!("a gap") };
        event.call().map(|(call, end)| (call.number, end.is_some()))
    };
    std::iter::from_fn(|| watcher.try_next()).filter_map(read_events).collect()
}

fn is_event(next: Option<&Next>) -> bool {
    matches!(next, Some(Next::Event(_)))
}

#[test]
fn a_watcher_that_does_not_read_keeps_one_mebibyte_and_learns_what_it_missed() {
    let events = LiveEvents::new();
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    (0..3_000).for_each(|_| record(&events, 1_000));
    let ring_length = events.lock().ring.len();
    assert!(events.lock().bytes <= RING_BYTES && ring_length > 500, "{ring_length}");
    let missed = 3_000 - ring_length as u64;
    assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(count), _)) if count == missed));
    (0..ring_length).for_each(|_| assert!(is_event(watcher.try_next().as_ref())));
    assert!(watcher.try_next().is_none());
}

#[test]
fn a_resumed_watcher_continues_after_the_last_event_it_has_seen() {
    let events = LiveEvents::new();
    let mut first = events.watch(&"p".into(), None).expect("room");
    (0..3).for_each(|_| record(&events, 1));
    let Some(Next::Event(event)) = first.try_next() else { panic!("no event") };
    let mut second = events.watch(&"p".into(), Some(event.number)).expect("room");
    let Some(Next::Event(next)) = second.try_next() else { panic!("no event") };
    assert_eq!(next.number, event.number + 1);
    let mut ancient = events.watch(&"p".into(), Some(7)).expect("room");
    assert!(matches!(ancient.try_next(), Some(Next::Gap(None, _))), "events of an earlier run");
}

#[test]
fn a_call_that_ended_is_told_by_its_end_to_watchers_of_ends() {
    let events = LiveEvents::new();
    let watch = || events.watch(&"p".into(), None).expect("room");
    let (mut all, mut ends) = (watch(), watch().told_by_ends());
    let [first, second] = [1, 2].map(|number| begin(&events, number, 0));
    end(&events, first);
    assert_eq!(read(&mut ends), [(2, false), (1, true)], "the beginning of a call that runs is told");
    end(&events, second);
    assert_eq!(read(&mut ends), [(2, true)]);
    assert_eq!(read(&mut all), [(1, false), (2, false), (1, true), (2, true)]);
}

#[test]
fn a_watcher_that_resumes_after_an_end_gets_every_later_end() {
    let events = LiveEvents::new();
    let mut watcher = events.watch(&"p".into(), None).expect("room").told_by_ends();
    let [first, second] = [1, 2].map(|number| begin(&events, number, 0));
    end(&events, second);
    end(&events, first);
    // The stream broke after the first event that was sent, before which two were left out.
    let Some(Next::Event(seen)) = watcher.try_next() else { panic!("no event") };
    let mut resumed = events.watch(&"p".into(), Some(seen.number)).expect("room").told_by_ends();
    assert_eq!((seen.call().map(|(call, _)| call.number), read(&mut resumed)), (Some(2), vec![(1, true)]));
}

#[test]
fn a_call_is_charged_once_and_as_long_as_one_of_its_events_is_kept() {
    let events = LiveEvents::new();
    let _watcher = events.watch(&"p".into(), None).expect("room");
    let open = begin(&events, 0, 4_000);
    let early = begin(&events, 1, 4_000);
    end(&events, early);
    let bytes = events.lock().bytes;
    assert!((8_000..9_500).contains(&bytes), "{bytes}");
    (2..1_000).for_each(|number| end(&events, begin(&events, number, 4_000)));
    let ring_length = events.lock().ring.len();
    assert!(ring_length > 450, "{ring_length} events of calls with 4,000 bytes are kept");
    // Its beginning is no longer in the ring.
    let bytes = events.lock().bytes;
    end(&events, open);
    let state = events.lock();
    let held: usize = state.ring.iter().map(|recorded| recorded.size).sum();
    assert_eq!(state.bytes, held);
    assert!(
        state.bytes <= RING_BYTES && state.bytes > bytes.saturating_sub(4_500),
        "{} {bytes}",
        state.bytes
    );
    assert!(state.ring.back().is_some_and(|last| last.size > 4_000), "the end holds the call");
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_early_when_half_of_the_ring_was_recorded() {
    let events = LiveEvents::new();
    let watchers = [(); 2].map(|()| events.watch(&"p".into(), None).expect("room"));
    let (started, second) = (Instant::now(), Duration::from_secs(1));
    record(&events, RING_BYTES / 2);
    let few = async {
        tokio::task::yield_now().await;
        record(&events, RING_BYTES / 4);
    };
    tokio::join!(watchers[0].pause(started + second), few);
    assert_eq!(started.elapsed(), second, "what was recorded before counts no more");
    let much = async {
        for _ in 0..8 {
            tokio::task::yield_now().await;
            record(&events, RING_BYTES / 15);
        }
    };
    let end = started + second * 2;
    tokio::join!(watchers[0].pause(end), watchers[1].pause(end), much);
    assert_eq!(started.elapsed(), second);
}

#[test]
fn a_pause_without_watchers_is_told_as_a_gap() {
    let events = LiveEvents::new();
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    record(&events, 1);
    let Some(Next::Event(event)) = watcher.try_next() else { panic!("no event") };
    drop(watcher);
    assert!(!events.is_watched());
    let mut watcher = events.watch(&"p".into(), Some(event.number)).expect("room");
    assert!(matches!(watcher.try_next(), Some(Next::Gap(Some(1), _))));
    (0..3).for_each(|_| record(&events, 1));
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
    events.lock().charge = SteppedCharge::of(budget.open(Account::LiveEvents, ChargeKind::Notice));
    let mut watcher = events.watch(&"p".into(), None).expect("room");
    (0..3_000).for_each(|_| record(&events, 1_000));
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
        let started = tokio::time::Instant::now();
        let patience = Duration::from_mins(1);
        let (one, other, ()) = tokio::join!(one.next(patience), other.next(patience), async {
            tokio::task::yield_now().await;
            record(&events, 1);
        });
        assert!(is_event(one.as_ref()) && is_event(other.as_ref()));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
