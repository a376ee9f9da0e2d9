//! Tests of documents that R2R was stopped in the middle of, and never resumes.

use tokio::time::{Instant, sleep, timeout};

use super::fixture::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn documents_that_were_left_behind_hold_up_nobody_and_are_sent_again() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next(vec![Sending::Orphaned("parsing"); UPLOADS]);
    let mut ids = Vec::new();
    for number in 0..UPLOADS {
        let name = format!("{number}.md");
        place.write(&name, &name);
        ids.push(place.begin(&ingest, &name).await);
    }
    while place.fake.world().documents.len() < UPLOADS {
        sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let next = timeout(Duration::from_mins(1), place.call(&ingest, "a.md")).await;
    next.expect("nobody stands in its way").expect("it went well");
    place.settled(&ingest).await;
    assert!(begun.elapsed() < Duration::from_mins(15), "{:?}", begun.elapsed());
    for id in ids {
        assert_eq!(place.fake.document(&id).expect("there").ingestion_status, "success");
        assert!(ingest.ours(serde_json::from_value(id.into()).expect("an id")).is_none());
    }
    let log = place.fake.log();
    let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((count("send"), count("remove")), (2 * UPLOADS + 1, UPLOADS));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_left_behind_again_is_not_sent_a_third_time_and_said_to_have_failed() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Orphaned("parsing"), Sending::Orphaned("embedding")]);
    let id = place.begin(&ingest, "a.md").await;
    place.settled(&ingest).await;
    assert_eq!(place.fake.log(), ["collection", "send one", "remove", "send one"]);
    let known = ingest.ours(serde_json::from_value(id.into()).expect("an id"));
    let Some(LocalState::Failed(known)) = known else { panic!("{known:?}") };
    assert!(known.reason.contains("no answer within"), "{known:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_on_slowly_or_is_in_a_queue_is_left_alone() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Orphaned("parsing")]);
    let id = place.begin(&ingest, "a.md").await;
    let at = |status: &str| {
        for there in place.fake.world().documents.values_mut() {
            status.clone_into(&mut there.ingestion_status);
        }
    };
    for status in ["chunking", "embedding", "storing", "success"] {
        sleep(Duration::from_mins(9)).await;
        at(status);
    }
    place.settled(&ingest).await;
    assert_eq!(place.fake.log(), ["collection", "send one", "join"]);
    assert!(ingest.ours(serde_json::from_value(id.into()).expect("an id")).is_none());
    place.write("b.md", "bee");
    place.fake.next([Sending::Queued(Duration::from_mins(100))]);
    place.begin(&ingest, "b.md").await;
    place.settled(&ingest).await;
    assert_eq!(place.fake.log(), ["collection", "send bee"], "R2R said that it has it");
}
