//! Tests of recorded streams under paused time: resumption, limits of storage, and access.

use serde_json::json;

use super::*;
use json::Raw;
use protocol::{Notification, Request, Response};

fn replay() -> Replay {
    Replay::new(Arc::default(), RetainedBytes::default(), &"a".into())
}

fn notice(text: &str) -> Message {
    let params = Some(Raw::of(&json!({ "data": text })));
    Message::Notification(Notification { method: "notifications/message".into(), params })
}

fn answer(text: &str) -> Message {
    Message::Response(Response { id: Some(RequestId::from_u64(1)), reply: Ok(Raw::of(&text)) })
}

/// Returns id and data of an event.
fn read(text: &Bytes) -> (String, String) {
    let text = std::str::from_utf8(text).expect("UTF-8");
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    (field("id: ").to_owned(), field("data: ").to_owned())
}

/// Returns the events that can be read without waiting.
async fn rest(reader: &mut Reader) -> Vec<(String, String)> {
    let mut events = Vec::new();
    while let Ok(Some(text)) = tokio::time::timeout(Duration::ZERO, reader.next()).await {
        events.push(read(&text));
    }
    events
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_read_on_from_any_event_nothing_lost_and_nothing_twice() {
    let replay = replay();
    let (log, other) = (replay.open(), replay.open());
    log.prime(Duration::from_secs(1));
    let mut first = log.reader_from_start();
    for number in 0..10 {
        log.push(&notice(&number.to_string()));
        other.push(&notice("of another stream"));
    }
    let events = rest(&mut first).await;
    assert_eq!(events.len(), 11);
    assert_eq!(events[0].1, "", "the first event has an id and no data");
    log.push(&answer("done"));
    replay.end(&log);
    let mut all = events.clone();
    all.extend(rest(&mut replay.resume(&events[10].0).expect("known")).await);
    for (at, (id, _)) in all.iter().enumerate().take(11) {
        let mut reader = replay.resume(id).expect("known");
        assert_eq!(rest(&mut reader).await, all[at + 1..], "after event {at}");
        assert!(reader.next().await.is_none(), "the stream has ended");
    }
    assert!(first.next().await.is_none(), "a newer reader ended the first one");
    assert!(replay.resume(&all[11].0).expect("known").is_at_end(), "nothing comes behind the answer");
}

#[tokio::test(start_paused = true)]
async fn ids_of_other_sessions_and_ids_that_were_never_given_are_unknown() {
    let (mine, retained) = (replay(), RetainedBytes::default());
    let log = mine.open();
    log.push(&notice("secret"));
    let (id, _) = read(&log.reader_from_start().next().await.expect("an event"));
    let mut found = 0;
    for _ in 0..1_000 {
        let foreign = Replay::new(Arc::default(), retained.clone(), &"a".into());
        foreign.open().push(&notice("theirs"));
        found += usize::from(foreign.resume(&id).is_some());
    }
    assert_eq!(found, 0, "a foreign id found something");
    let stem = id.strip_suffix('0').expect("the first event");
    for changed in [
        format!("{stem}1"),
        format!("{stem}00"),
        format!("{stem}+0"),
        format!("{stem}-1"),
        format!("{stem}18446744073709551615"),
        id.replace("-1-", "-2-"),
        id.replace("-1-", "-01-"),
        id.replace("-1-", "--"),
        id.to_uppercase(),
        format!(" {id}"),
        stem.to_owned(),
        String::new(),
        "-".into(),
        "0".into(),
    ] {
        assert!(changed == id || mine.resume(&changed).is_none(), "{changed:?}");
    }
    assert!(mine.resume(&id).is_some());
}

// RULES R16
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_gone_costs_a_bounded_amount_and_the_answer_is_not_lost() {
    let replay = replay();
    let log = replay.open();
    log.prime(Duration::from_secs(1));
    let (start, _) = read(&log.reader_from_start().next().await.expect("an event"));
    for number in 0..1_000 {
        log.push(&notice(&number.to_string()));
    }
    assert_eq!(log.lock().events.len(), MAX_EVENTS);
    let large = "x".repeat(100_000);
    for _ in 0..30 {
        log.push(&notice(&large));
        assert!(log.lock().notice_bytes <= MAX_BYTES);
    }
    log.push(&notice(&large.repeat(20)));
    assert_eq!(log.lock().events.len(), 1, "one that is too large for all others stays alone");
    log.push(&notice("after"));
    log.push(&answer(&large.repeat(30)));
    log.push(&notice("an answer leaves notices alone"));
    let lengths = |got: &[(String, String)]| -> Vec<usize> {
        got.iter().map(|(_, data)| data.len() / 100_000).filter(|length| *length > 0).collect()
    };
    let got = rest(&mut replay.resume(&start).expect("known")).await;
    assert_eq!((got.len(), lengths(&got)), (3, vec![30]));
    for number in 0..2 * MAX_EVENTS {
        log.push(&notice(&number.to_string()));
    }
    replay.end(&log);
    let got = rest(&mut replay.resume(&start).expect("known")).await;
    assert_eq!((got.len(), lengths(&got)), (MAX_EVENTS, vec![30]), "nothing pushes an answer out");
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_as_long_as_it_is_open() {
    let replay = replay();
    let log = replay.open();
    let (event_sender, mut receiver) = upstream::EventSender::new(1);
    let _answer = event_sender.ask("roots/list".into(), None);
    let Some(upstream::CallEvent::Question(question)) = receiver.recv().await else { panic!("a question") };
    let (open_request, request) = replay.questions.ask(question).expect("room");
    let closed = Request { id: RequestId::from_u64(99), method: "roots/list".into(), params: None };
    log.push(&request);
    log.push(&Message::Request(closed));
    for number in 0..2 * MAX_EVENTS {
        log.push(&notice(&number.to_string()));
    }
    let first = read(&log.reader_from_start().next().await.expect("an event")).1;
    assert_eq!(first, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    drop(open_request);
    log.push(&notice("one more"));
    let first = read(&log.reader_from_start().next().await.expect("an event")).1;
    assert!(first.contains("notifications/message"), "{first}");
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_is_kept_for_a_while_and_within_bounds() {
    let retained = RetainedBytes::default();
    let replay = Replay::new(Arc::default(), retained.clone(), &"a".into());
    let ended = |size: usize| {
        let log = replay.open();
        log.push(&notice("x"));
        log.push(&answer(&"x".repeat(size)));
        replay.end(&log);
        format!("{}-0", log.name)
    };
    let first = ended(10);
    tokio::time::advance(KEEP.saturating_sub(Duration::from_secs(1))).await;
    assert!(replay.resume(&first).is_some());
    let second = ended(10);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(replay.resume(&first).is_none() && replay.resume(&second).is_some());
    for _ in 0..MAX_ENDED {
        ended(10);
    }
    assert!(replay.resume(&second).is_none(), "the oldest went for the newest");
    assert_eq!(replay.lock().logs.len(), MAX_ENDED);
    let huge = ended(MAX_KEPT_BYTES - 1_000);
    assert!(replay.resume(&huge).is_some() && replay.lock().logs.len() < MAX_ENDED);
    let other = Replay::new(Arc::default(), retained.clone(), &"a".into());
    let log = other.open();
    log.push(&notice("x"));
    log.push(&answer(&"x".repeat(2_000)));
    let mut reader = log.reader_from_start();
    other.end(&log);
    assert!(other.resume(&format!("{}-0", log.name)).is_none(), "no room is left for anybody");
    assert_eq!(rest(&mut reader).await.len(), 2, "who reads already reads to the end");
    replay.close();
    assert_eq!(retained.bytes(), 0);
    assert!(replay.resume(&huge).is_none() && replay.lock().logs.is_empty());
    replay.end(&replay.open());
    assert_eq!((retained.bytes(), replay.lock().ended.len()), (0, 0), "nothing is kept after the end");
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_the_connection_of_who_reads_now_after_what_was_said() {
    let replay = replay();
    let log = replay.open();
    log.push(&notice("before"));
    let mut reader = log.reader_from_start();
    log.pause(Duration::from_millis(100));
    let (id, data) = read(&reader.next().await.expect("an event"));
    assert!(data.contains("before"));
    assert_eq!(reader.next().await.expect("an event"), "retry: 100\n\n");
    assert!(reader.next().await.is_none());
    let mut again = replay.resume(&id).expect("known");
    log.push(&answer("after"));
    assert!(read(&again.next().await.expect("an event")).1.contains("after"), "it goes on");
    drop(again);
    log.pause(Duration::from_millis(100));
    let mut later = replay.resume(&id).expect("known");
    replay.end(&log);
    assert_eq!(rest(&mut later).await.len(), 1, "a pause is for the reader there was");
}
