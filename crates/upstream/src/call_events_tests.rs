//! Messages during a call: only some may be lost, and the deadline is paused while a user answers.

use serde_json::json;

use super::pauses::MAX_QUESTIONS;
use super::*;

fn notice(bytes: usize) -> Notification {
    Notification {
        method: "notifications/message".into(),
        params: Some(Raw::of(&json!({"x": "y".repeat(bytes)}))),
    }
}

fn ask(event_sender: &EventSender) -> Answer {
    event_sender.ask("elicitation/create".into(), Some(Raw::of(&json!({"message": "?"}))))
}

async fn question(receiver: &mut EventReceiver) -> Question {
    match receiver.recv().await {
        Some(CallEvent::Question(question)) => question,
        other => panic!("a question, not {other:?}"),
    }
}

#[tokio::test]
async fn a_slow_reader_loses_notices_by_number_and_by_size_and_they_are_counted() {
    let (event_sender, mut receiver) = EventSender::new(3);
    for _ in 0..5 {
        event_sender.offer(notice(1));
    }
    assert_eq!(event_sender.dropped(), 2);
    while receiver.try_recv().is_ok() {}
    event_sender.offer(notice(700_000));
    event_sender.offer(notice(700_000));
    assert_eq!(event_sender.dropped(), 3, "more than a mebibyte waits");
    assert!(receiver.recv().await.is_some());
    event_sender.offer(notice(2_000_000));
    assert_eq!(event_sender.dropped(), 3, "one alone passes whatever its size");
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_room_and_is_answered() {
    let (event_sender, mut receiver) = EventSender::new(1);
    event_sender.offer(notice(1));
    let read = async {
        assert!(matches!(receiver.recv().await, Some(CallEvent::Notice(_))));
        question(&mut receiver).await.answer(Ok(Raw::of(&json!({"action": "accept"}))));
    };
    let (answer, ()) = tokio::join!(ask(&event_sender), read);
    assert!(answer.expect("an answer").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_when_either_end_lets_go() {
    let (event_sender, mut receiver) = EventSender::new(4);
    let answer = ask(&event_sender);
    let mut request = question(&mut receiver).await;
    drop(answer);
    request.withdrawn().await;
    assert!(request.is_withdrawn());
    let answer = ask(&event_sender);
    drop(question(&mut receiver).await);
    assert!(answer.await.is_none(), "refused");
    drop(receiver);
    assert!(ask(&event_sender).await.is_none(), "nobody reads any more");
    assert!(ask(&EventSender::none()).await.is_none(), "nobody ever did");
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_call_are_limited_in_number_and_in_time() {
    let (event_sender, _receiver) = EventSender::new(100);
    let mut open: Vec<Answer> = (0..MAX_QUESTIONS).map(|_| ask(&event_sender)).collect();
    assert!(ask(&event_sender).await.is_none(), "one too many");
    let started = Instant::now();
    assert!(open.remove(0).await.is_none());
    assert_eq!(started.elapsed(), QUESTION_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_stands_still_while_a_question_is_open() {
    let (event_sender, mut receiver) = EventSender::new(4);
    let started = Instant::now();
    let waiting = async {
        event_sender.expired(started + Duration::from_secs(10)).await;
        started.elapsed()
    };
    let people = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (one, two) = (ask(&event_sender), ask(&event_sender));
        let (first, second) = (question(&mut receiver).await, question(&mut receiver).await);
        tokio::time::sleep(Duration::from_mins(2)).await;
        first.answer(Ok(Raw::empty_object()));
        assert!(one.await.is_some());
        tokio::time::sleep(Duration::from_mins(1)).await;
        second.answer(Ok(Raw::empty_object()));
        assert!(two.await.is_some());
    };
    let (lasted, ()) = tokio::join!(waiting, people);
    assert!(
        (lasted.as_secs_f64() - 190.0).abs() < 0.1,
        "10 s of its own and 3 minutes of waiting, not {lasted:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_does_not_extend_its_call_but_an_ordinary_pace_does() {
    let timeout = Duration::from_secs(10);
    for (count, is_extended) in [(1, true), (20, false)] {
        let (event_sender, _receiver) = EventSender::new(1);
        let started = Instant::now();
        let deadline = Deadline::moving(started, timeout, 100 * timeout);
        let flood = async {
            loop {
                (0..count).for_each(|_| event_sender.offer(notice(100)));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = flood => {}
            () = event_sender.expired(deadline) => {}
            () = tokio::time::sleep(5 * timeout) => {}
        }
        assert_eq!(started.elapsed() >= 5 * timeout, is_extended, "{:?}", started.elapsed());
        // After some seconds of silence, messages are signs of life again.
        tokio::time::sleep(Duration::from_secs(9)).await;
        let before = event_sender.moved(deadline);
        event_sender.offer(notice(100));
        assert!(event_sender.moved(deadline) > before);
    }
}
