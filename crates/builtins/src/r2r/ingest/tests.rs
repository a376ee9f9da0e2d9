//! Tests of the tool with an R2R in memory, under paused time.

use std::fs;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::fixture::*;
use super::*;
use runtime::store::{Group, Key};
use upstream::api::{CallEvent, Outlet};

fn ok(called: Result<Ingested, Failure>) -> Ingested {
    called.expect("it went well")
}

fn detail(called: Result<Ingested, Failure>) -> String {
    match called.expect_err("it went well") {
        Failure::Refused(refusal) => refusal.raw().as_str().to_owned(),
        Failure::Failed(error) => error.to_string(),
    }
}

fn error(called: Result<Ingested, Failure>) -> Error {
    match called.expect_err("it went well") {
        Failure::Failed(error) => error,
        refused @ Failure::Refused(_) => panic!("{refused:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pending_answer_comes_before_anything_is_sent_and_its_id_is_true() {
    let mut place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Queued(Duration::from_secs(90))]);
    let id = place.begin(&ingest, "a.md").await;
    assert_eq!(place.fake.log(), ["collection"]);
    assert!(place.journal().contains("a.md"), "it is noted before it is promised");
    let known: Id = serde_json::from_value(json!(id)).expect("an id");
    let old = document("success", &json!({"ingested_at": "2020-01-01T00:00:00Z"}), &[COLLECTION]);
    let ours = ingest.ours(known).expect("under way");
    assert!(
        matches!(&ours, LocalState::UnderWay(ours) if ours.file_name == "a.md") && ours.is_newer_than(&old)
    );
    place.settled(&ingest).await;
    let there = place.fake.document(&id).expect("there");
    assert!(!ours.is_newer_than(&there) && ingest.ours(known).is_none());
    assert_eq!(there.ingestion_status, "success");
    assert_eq!(place.fake.log(), ["send one"]);
    assert_eq!(place.told(), [RESOURCE]);
    assert_eq!(place.journal(), "[]");
    for (name, value) in [
        ("ingested_by", "switchyard"),
        ("source_path", "docs/a.md"),
        ("ingestion_mode", "fast"),
        ("content_sha256", "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"),
    ] {
        assert_eq!(there.metadata[name], value);
    }
    assert!(there.metadata["ingested_at"].as_str().is_some_and(|at| at.ends_with('Z')));
}

#[tokio::test(start_paused = true)]
async fn the_same_file_again_is_nothing_and_a_changed_one_takes_its_place() {
    let place = Place::new();
    let ingest = place.open();
    let first = ok(place.call(&ingest, "a.md").await);
    assert_eq!((first.status, first.file_name.as_str()), (Status::Success, "a.md"));
    assert_eq!(place.fake.log(), ["collection", "send one"]);
    assert_eq!(ok(place.call(&ingest, "a.md").await), first);
    assert_eq!(place.fake.log(), [""; 0], "and the collection is known for a while");
    place.write("a.md", "two");
    assert_eq!(ok(place.call(&ingest, "a.md").await), first);
    assert_eq!(place.fake.log(), ["remove", "send two"]);
    let rest = json!({"run_async": false, "metadata": {"tag": "x"}});
    ok(place.call_with(&ingest, "a.md", &rest).await);
    assert_eq!(place.fake.log(), ["remove", "send two"], "what is said about it is another");
    ok(place.call_with(&ingest, "a.md", &rest).await);
    assert_eq!(place.fake.log(), [""; 0]);
    assert_eq!(place.fake.world().documents.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_spells_what_it_is_told_in_its_own_way_is_not_sent_to_again_and_again() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.world().forgets = Some("tag".into());
    let rest = json!({"run_async": false, "metadata": {"tag": "x"}});
    ok(place.call_with(&ingest, "a.md", &rest).await);
    assert_eq!(place.fake.log(), ["collection", "send one"]);
}

#[tokio::test(start_paused = true)]
async fn equal_calls_at_once_send_once() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.world().sending_time = Duration::from_secs(3);
    let all = join_all((0..20).map(|_| place.call(&ingest, "a.md"))).await;
    assert!(all.into_iter().map(ok).all(|one| one.status == Status::Success));
    let sent = place.fake.log().iter().filter(|line| line.starts_with("send")).count();
    assert_eq!((sent, place.fake.world().documents.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_looked_for_before_it_is_done_again() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Lost(true)]);
    ok(place.call(&ingest, "a.md").await);
    assert_eq!(place.fake.log(), ["collection", "send one"]);
    place.write("b.md", "bee");
    place.fake.next([Sending::Lost(false), Sending::Lost(false)]);
    ok(place.call(&ingest, "b.md").await);
    assert_eq!(place.fake.log(), ["send bee"; 3]);
    place.write("c.md", "sea");
    place.fake.next([Sending::Lost(false), Sending::Lost(false), Sending::Lost(false)]);
    let error = error(place.call(&ingest, "c.md").await);
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    assert_eq!(place.fake.log(), ["send sea"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_ingestion_says_why_and_the_next_call_tries_again() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Fails("the model is out")]);
    let said = detail(place.call(&ingest, "a.md").await);
    assert!(said.contains("the model is out") && !said.contains("removed"), "{said}");
    assert_eq!(place.fake.log(), ["collection", "send one"]);
    ok(place.call(&ingest, "a.md").await);
    assert_eq!(place.fake.log(), ["remove", "send one"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_the_old_one_was_removed_says_that_it_is_gone() {
    let place = Place::new();
    let ingest = place.open();
    ok(place.call(&ingest, "a.md").await);
    place.fake.world().contents.clear();
    place.write("a.md", "two");
    place.fake.next([Sending::Refused(status(413, "too large"))]);
    let said = detail(place.call(&ingest, "a.md").await);
    assert_eq!(said, "too large (the earlier version was removed before)");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_away_is_waited_for_unless_somebody_waits_for_the_answer() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next(vec![Sending::Refused(away()); 20]);
    place.fake.world().look_errors.extend(vec![away(); 20]);
    let id = place.begin(&ingest, "a.md").await;
    place.settled(&ingest).await;
    assert!(place.fake.document(&id).is_some());
    place.write("b.md", "bee");
    place.fake.world().look_errors.extend(vec![away(); 20]);
    let begun = Instant::now();
    assert_eq!(error(place.call(&ingest, "b.md").await), away());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_out() {
    let place = Place::new();
    let ingest = place.open();
    let limited = Error::Backend {
        status: 429,
        detail: "slow".into(),
        retry_after: Some(Duration::from_secs(9)),
        facts: None,
    };
    place.fake.next([Sending::Refused(limited)]);
    let begun = Instant::now();
    ok(place.call(&ingest, "a.md").await);
    assert!(begun.elapsed() >= Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_document_that_somebody_works_on_is_followed_and_one_left_behind_is_replaced() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Queued(Duration::from_secs(20))]);
    let id = ok(place.call(&ingest, "a.md").await).document_id;
    assert_eq!(place.fake.log(), ["collection", "send one"]);
    let mut old = document("embedding", &json!({}), &[]);
    old.updated_at = Some("2020-01-01T00:00:00.5Z".into());
    place.fake.world().documents.insert(id.0, old);
    ok(place.call(&ingest, "a.md").await);
    assert_eq!(place.fake.log(), ["remove", "send one"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_sending_and_joining_is_made_good_by_the_next_life() {
    let mut place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Unjoined]);
    place.fake.world().joins_hang = true;
    let id = place.begin(&ingest, "a.md").await;
    while !place.fake.world().log.contains(&"join".to_owned()) {
        sleep(Duration::from_millis(50)).await;
    }
    drop(ingest);
    sleep(Duration::from_secs(1)).await;
    assert!(place.journal().contains("a.md") && place.told().is_empty());
    assert_eq!(place.fake.log(), ["collection", "send one", "join"]);
    place.fake.world().joins_hang = false;
    let next = place.open();
    while place.told().is_empty() {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(place.fake.log(), ["join"], "and it is not sent again");
    assert_eq!(place.fake.document(&id).expect("there").collection_ids, [collection()]);
    place.settled(&next).await;
    assert_eq!(place.journal(), "[]");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_it_is_sent_or_waits_loses_nothing() {
    let place = Place::new();
    let ingest = place.open();
    let names: Vec<String> = (0..10).map(|number| format!("{number}.md")).collect();
    place.fake.next(vec![Sending::Hangs; UPLOADS]);
    let mut ids = Vec::new();
    for name in &names {
        place.write(name, name);
        ids.push(place.begin(&ingest, name).await);
    }
    while place.fake.world().documents.len() < UPLOADS {
        sleep(Duration::from_millis(50)).await;
    }
    drop(ingest);
    // R2R continues with the documents that it has after the client has left.
    for there in place.fake.world().documents.values_mut() {
        there.ingestion_status = "success".into();
    }
    let next = place.open();
    while place.fake.world().documents.len() < 10 || place.journal() != "[]" {
        sleep(Duration::from_millis(50)).await;
    }
    place.settled(&next).await;
    let sent = place.fake.log().iter().filter(|line| line.starts_with("send")).count();
    assert_eq!(sent, 10, "each once");
    let joined = |id: &String| place.fake.document(id).expect("there").collection_ids == [collection()];
    assert!(ids.iter().all(joined));
}

#[tokio::test(start_paused = true)]
async fn four_are_sent_at_a_time_and_too_many_are_refused_with_a_hint() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.world().sending_time = Duration::from_secs(2);
    let begun = join_all((0..MOST_JOBS).map(|number| {
        let name = format!("{number}.md");
        place.write(&name, &name);
        let (place, ingest) = (&place, &ingest);
        async move { place.begin(ingest, &name).await }
    }));
    let ids: std::collections::BTreeSet<String> = begun.await.into_iter().collect();
    let refused = error(place.call(&ingest, "a.md").await);
    assert!(matches!(refused, Error::Overloaded { retry_in } if retry_in == TRY_AGAIN));
    place.settled(&ingest).await;
    assert_eq!((ids.len(), place.fake.world().documents.len()), (MOST_JOBS, MOST_JOBS));
    assert_eq!(place.fake.world().at_once, (0, UPLOADS));
    ok(place.call(&ingest, "a.md").await);
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_not_there_is_refused_before_anything_is_sent() {
    let place = Place::new();
    let ingest = place.open();
    let target = Target { collection: Id(Uuid::from_u128(1)), is_known: false, resource: None };
    let said = detail(ingest.ingest(place.arguments("a.md", &json!({})), target, &Report::none()).await);
    assert!(said.contains("collection_id") && said.contains("r2r_list_collections"), "{said}");
    assert_eq!(place.fake.log(), ["collection"]);
    assert_eq!(place.journal(), "");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_while_it_is_sent_is_refused_and_not_there() {
    let place = Place::new();
    let ingest = place.open();
    place.write("a.md", &"x".repeat(1 << 20));
    let path = place.path("a.md");
    let cut = move || fs::File::options().write(true).open(&path).expect("open").set_len(500).expect("cut");
    place.fake.world().before_reading = Some(Box::new(cut));
    let said = detail(place.call(&ingest, "a.md").await);
    assert!(said.contains("file_path") && said.contains("changed while it was read"), "{said}");
    assert!(place.fake.world().documents.is_empty());
    assert_eq!(place.fake.log(), ["collection"]);
}

#[tokio::test(start_paused = true)]
async fn what_r2r_can_not_read_is_refused_at_once() {
    let place = Place::new();
    let ingest = place.open();
    place.write("x.bin", "\0\0");
    place.write("main.rs", "fn main() {}");
    let said = detail(place.call(&ingest, "x.bin").await);
    assert!(said.contains("no text"), "{said}");
    assert_eq!(ok(place.call(&ingest, "main.rs").await).file_name, "main.rs");
    let said = detail(place.call(&ingest, "../a.md").await);
    assert!(said.contains("invalid_path"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_how_far_it_is_and_it_only_grows() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Queued(Duration::from_secs(4))]);
    place.fake.world().sending_time = Duration::from_secs(1);
    let (outlet, mut inlet) = Outlet::new(64);
    let report = Report::new(&outlet, true);
    let target = Target { collection: collection(), is_known: false, resource: None };
    let called = ingest.ingest(place.arguments("a.md", &json!({"run_async": false})), target, &report).await;
    assert_eq!(ok(called).status, Status::Success);
    let mut shares = Vec::new();
    let mut messages = Vec::new();
    while let Ok(CallEvent::Notice(notice)) = inlet.try_recv() {
        let params = notice.params.expect("parameters");
        shares.push(params.get_as::<f64>("progress").expect("a number"));
        messages.extend(params.get_as::<String>("message"));
    }
    assert!(shares.is_sorted_by(|a, b| a < b), "{shares:?}");
    assert!(messages.contains(&"uploading".into()) && messages.contains(&"embedding".into()), "{messages:?}");
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_leave_what_was_promised_to_the_next_life() {
    let place = Place::new();
    let ingest = place.open();
    let refused = Error::AuthFailed { reason: "another password".into() };
    place.fake.next([Sending::Refused(refused.clone()), Sending::Refused(refused)]);
    assert!(matches!(error(place.call(&ingest, "a.md").await), Error::AuthFailed { .. }));
    assert_eq!(place.journal(), "[]", "who waited was told");
    place.begin(&ingest, "a.md").await;
    place.settled(&ingest).await;
    assert!(place.journal().contains("a.md"));
    drop(ingest);
    let next = place.open();
    let done = async {
        while place.journal() != "[]" {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_mins(1), done).await.expect("it goes on");
    place.settled(&next).await;
    assert_eq!(place.fake.world().documents.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cached_answers_of_the_collection_and_the_lists_are_dropped_and_no_others() {
    let place = Place::new();
    let ingest = place.open();
    let key = |last: &str| Key::new(&Group::new(&["r2r", "r2r", "me", last]), "q");
    let kept = async |last: &str| {
        let made = async { Ok::<_, Error>(Bytes::new()) };
        place.store.fetch(&key(last), Duration::from_secs(1000), made).await.expect("made").cached
    };
    for last in [COLLECTION, "lists", "other"] {
        assert!(!kept(last).await);
    }
    ok(place.call(&ingest, "a.md").await);
    assert_eq!((kept(COLLECTION).await, kept("lists").await, kept("other").await), (false, false, true));
    ok(place.call(&ingest, "a.md").await);
    assert!(kept(COLLECTION).await, "nothing is another than before");
}
