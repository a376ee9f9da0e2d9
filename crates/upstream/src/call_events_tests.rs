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

fn ask(outlet: &Outlet) -> Answer {
    outlet.ask("elicitation/create".into(), Some(Raw::of(&json!({"message": "?"}))))
}

async fn question(inlet: &mut Inlet) -> Question {
    match inlet.recv().await {
        Some(CallEvent::Question(question)) => question,
        other => panic!("a question, not {other:?}"),
    }
}

#[tokio::test]
async fn a_slow_reader_loses_notices_by_number_and_by_size_and_they_are_counted() {
    let (outlet, mut inlet) = Outlet::new(3);
    for _ in 0..5 {
        outlet.offer(notice(1));
    }
    assert_eq!(outlet.dropped(), 2);
    while inlet.try_recv().is_ok() {}
    outlet.offer(notice(700_000));
    outlet.offer(notice(700_000));
    assert_eq!(outlet.dropped(), 3, "more than a mebibyte waits");
    assert!(inlet.recv().await.is_some());
    outlet.offer(notice(2_000_000));
    assert_eq!(outlet.dropped(), 3, "one alone passes whatever its size");
}

#[tokio::test(start_paused = true)]
async fn a_question_waits_for_room_and_is_answered() {
    let (outlet, mut inlet) = Outlet::new(1);
    outlet.offer(notice(1));
    let read = async {
        assert!(matches!(inlet.recv().await, Some(CallEvent::Notice(_))));
        question(&mut inlet).await.answer(Ok(Raw::of(&json!({"action": "accept"}))));
    };
    let (answer, ()) = tokio::join!(ask(&outlet), read);
    assert!(answer.expect("an answer").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_when_either_end_lets_go() {
    let (outlet, mut inlet) = Outlet::new(4);
    let answer = ask(&outlet);
    let mut asked = question(&mut inlet).await;
    drop(answer);
    asked.withdrawn().await;
    assert!(asked.is_withdrawn());
    let answer = ask(&outlet);
    drop(question(&mut inlet).await);
    assert!(answer.await.is_none(), "refused");
    drop(inlet);
    assert!(ask(&outlet).await.is_none(), "nobody reads any more");
    assert!(ask(&Outlet::none()).await.is_none(), "nobody ever did");
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_call_are_limited_in_number_and_in_time() {
    let (outlet, _inlet) = Outlet::new(100);
    let mut open: Vec<Answer> = (0..MAX_QUESTIONS).map(|_| ask(&outlet)).collect();
    assert!(ask(&outlet).await.is_none(), "one too many");
    let begun = Instant::now();
    assert!(open.remove(0).await.is_none());
    assert_eq!(begun.elapsed(), QUESTION_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_stands_still_while_a_question_is_open() {
    let (outlet, mut inlet) = Outlet::new(4);
    let begun = Instant::now();
    let waiting = async {
        outlet.expired(begun + Duration::from_secs(10)).await;
        begun.elapsed()
    };
    let people = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (one, two) = (ask(&outlet), ask(&outlet));
        let (first, second) = (question(&mut inlet).await, question(&mut inlet).await);
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
        let (outlet, _inlet) = Outlet::new(1);
        let begun = Instant::now();
        let deadline = Deadline::moving(begun, timeout, 100 * timeout);
        let flood = async {
            loop {
                (0..count).for_each(|_| outlet.offer(notice(100)));
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = flood => {}
            () = outlet.expired(deadline) => {}
            () = tokio::time::sleep(5 * timeout) => {}
        }
        assert_eq!(begun.elapsed() >= 5 * timeout, is_extended, "{:?}", begun.elapsed());
        // After some seconds of silence, messages are signs of life again.
        tokio::time::sleep(Duration::from_secs(9)).await;
        let before = outlet.moved(deadline);
        outlet.offer(notice(100));
        assert!(outlet.moved(deadline) > before);
    }
}
