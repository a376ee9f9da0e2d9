//! Tests of streamed answers that grow, end and break off.

use futures_util::stream;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

#[allow(clippy::unnecessary_wraps)] // the streams have fallible elements
fn event(name: &str, data: &Value) -> Result<Event, Error> {
    let data = Bytes::from(data.to_string());
    Ok(Event { name: Bytes::copy_from_slice(name.as_bytes()), data, ..Event::default() })
}

fn found(collection: u128) -> Result<Event, Error> {
    let id = |n: u128| Uuid::from_u128(n).to_string();
    let chunk = json!({"id": id(1), "document_id": id(2), "collection_ids": [id(collection)], "text": "t",
        "score": 0.5, "metadata": null});
    event("search_results", &json!({"data": {"chunk_search_results": [chunk]}}))
}

fn word(text: &str) -> Result<Event, Error> {
    event("message", &json!({"delta": {"content": [{"payload": {"value": text}}]}}))
}

async fn answer_to(events: Vec<Result<Event, Error>>) -> Result<Option<RagAnswer>, Error> {
    read_answer(stream::iter(events), Id(Uuid::from_u128(9)), &Report::none()).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_complete_when_its_end_was_seen() {
    let done = || event("done", &json!("[DONE]"));
    let whole =
        answer_to(vec![found(9), word("one "), word("two"), done()]).await.expect("heard").expect("told");
    assert_eq!((whole.answer.as_str(), whole.is_complete, whole.chunks.len()), ("one two", true, 1));
    let last = event("final_answer", &json!({"generated_answer": "one, two"}));
    let whole = answer_to(vec![found(9), word("one two"), last, done()]).await.expect("heard").expect("told");
    assert_eq!(whole.answer, "one, two", "the last word is R2R's");
    let cut = || Err(Error::Cut { reason: "x".into() });
    for end in [vec![], vec![cut()]] {
        let events = [found(9), word("one ")].into_iter().chain(end).collect();
        let part = answer_to(events).await.expect("heard").expect("told");
        assert_eq!((part.answer.as_str(), part.is_complete), ("one ", false));
    }
    assert!(answer_to(vec![found(9), cut()]).await.is_err(), "there is nothing of it");
    assert!(answer_to(vec![found(9)]).await.expect("heard").is_none(), "asked again, it says why");
    assert!(answer_to(vec![]).await.expect("heard").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_costs_only_what_comes_after_it() {
    let done = || event("done", &json!("[DONE]"));
    for broken in [event("message", &json!({"delta": 1})), event("final_answer", &json!("x"))] {
        let part = answer_to(vec![found(9), word("one "), broken, word("two"), done()])
            .await
            .expect("heard")
            .expect("told");
        assert_eq!((part.answer.as_str(), part.is_complete), ("one ", false));
    }
    let nothing = [
        event("message", &json!({"delta": {"content": [{"payload": {"value": null}}]}})),
        event("message", &json!({"delta": {}})),
        event("final_answer", &json!({"generated_answer": null})),
    ];
    let events = [found(9), word("one")].into_iter().chain(nothing).chain([done()]);
    let whole = answer_to(events.collect()).await.expect("heard").expect("told");
    assert_eq!((whole.answer.as_str(), whole.is_complete), ("one", true));
    let foreign = vec![found(9), word("one"), found(8), word("two")];
    assert!(answer_to(foreign).await.is_err(), "nothing of another collection is passed on");
}

#[tokio::test(start_paused = true)]
async fn answer_without_sources_or_on_foreign_documents_is_not_passed_on() {
    let none = event("search_results", &json!({"data": {"chunk_search_results": null}}));
    let nothing = answer_to(vec![none, word("made up")]).await.expect("heard").expect("told");
    assert_eq!((nothing.answer.as_str(), nothing.chunks.len()), ("", 0));
    assert!(answer_to(vec![found(8), word("foreign")]).await.is_err());
    assert!(answer_to(vec![word("before anything was found"), found(9)]).await.expect("heard").is_none());
    assert!(answer_to(vec![found(9), event("message", &json!({"delta": 1}))]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_message_shows_the_end_of_a_long_answer_and_they_come_seldom() {
    let (event_sender, mut receiver) = upstream::api::EventSender::new(1_000);
    let report = Report::new(&event_sender, true);
    let words = (0..1_000).map(|_| word("wörd "));
    let events = [found(9)].into_iter().chain(words);
    read_answer(stream::iter(events), Id(Uuid::from_u128(9)), &report).await.expect("heard");
    let mut messages = 0;
    while let Ok(upstream::api::CallEvent::Notice(notice)) = receiver.try_recv() {
        assert!(notice.params.expect("params").bytes().len() < SHOWN + 200);
        messages += 1;
    }
    assert_eq!(messages, 2, "time stood still: the first one and the last one");
}
