//! Tests of the backup of an earlier version, if the new one is not ingested.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tokio::time::sleep;

use super::fixture::*;
use super::*;

fn said(called: Result<Ingested, Failure>) -> String {
    match called.expect_err("it went well") {
        Failure::Refused(refusal) => refusal.message().to_owned(),
        Failure::Failed(error) => error.to_string(),
    }
}

/// Returns the backup files.
fn kept(place: &Place) -> Vec<PathBuf> {
    let all = fs::read_dir(place.dir.path()).expect("a folder").map(|entry| entry.expect("readable").path());
    all.filter(|path| path.extension().is_some_and(|ending| ending == "earlier")).collect()
}

async fn until_done(place: &Place) {
    while place.journal() != "[]" {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Ingests `a.md` and then changes its text. Returns the document as R2R shows it.
async fn changed(place: &Place, ingest: &Ingest) -> R2rDocument {
    let wish =
        json!({"run_async": false, "ingestion_mode": "custom", "metadata": {"tag": "x", "title": "A"}});
    let first = place.call_with(ingest, "a.md", &wish).await.expect("taken in");
    place.write("a.md", "two");
    assert_eq!(place.fake.log(), ["collection", "send one"]);
    place.fake.document(&first.document_id.to_string()).expect("there")
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_leaves_the_earlier_version_as_it_was() {
    for (sending, log) in [
        (Sending::Refused(status(413, "too large")), &["remove", "send two", "send one"][..]),
        (Sending::Fails("no model"), &["remove", "send two", "remove", "send one"]),
    ] {
        let place = Place::new();
        let ingest = place.open();
        let before = changed(&place, &ingest).await;
        place.fake.next([sending]);
        let said = said(place.call(&ingest, "a.md").await);
        assert!(said.ends_with("(the earlier version was put back)"), "{said}");
        assert_eq!(place.fake.log(), log);
        let (id, there) = place
            .fake
            .world()
            .documents
            .first_key_value()
            .map(|(id, one)| (Id(*id), one.clone()))
            .expect("one");
        assert_eq!((&there.metadata, &there.collection_ids), (&before.metadata, &before.collection_ids));
        let ours = ingest.ours(id).expect("it failed");
        assert!(
            matches!(&ours, LocalState::Failed(_)) && ours.is_newer_than(&there),
            "what was wished for is not there"
        );
        assert_eq!((kept(&place), place.journal().as_str()), (vec![], "[]"));
        place.call(&ingest, "a.md").await.expect("the next time it is taken in");
        assert_eq!(place.fake.log(), ["remove", "send two"]);
        assert_eq!(kept(&place), [""; 0].map(PathBuf::from));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_between_removing_and_sending_forgets_nothing() {
    for is_file_gone in [false, true] {
        let place = Place::new();
        let ingest = place.open();
        let before = changed(&place, &ingest).await;
        place.fake.world().removals_hang = true;
        let id = place.begin(&ingest, "a.md").await;
        while !place.fake.world().log.contains(&"remove".to_owned()) {
            sleep(Duration::from_millis(50)).await;
        }
        drop(ingest);
        sleep(Duration::from_secs(1)).await;
        assert!(
            place.fake.document(&id).is_none() && place.journal().contains("\"removed\":{"),
            "it is noted"
        );
        let [file] = kept(&place).try_into().expect("it is kept");
        let mode = fs::metadata(&file).expect("there").permissions().mode() & 0o777;
        assert_eq!((fs::read_to_string(&file).expect("text"), mode), ("one".to_owned(), 0o600));
        place.fake.world().removals_hang = false;
        if is_file_gone {
            fs::remove_file(place.path("a.md")).expect("removed");
        } else {
            place.fake.next([Sending::Refused(status(415, "not a type"))]);
        }
        let next = place.open();
        until_done(&place).await;
        let there = place.fake.document(&id).expect("it is back");
        assert_eq!(there.metadata, before.metadata);
        let ours = next.ours(serde_json::from_value(json!(id)).expect("an id"));
        let Some(LocalState::Failed(failed)) = ours else { panic!("{ours:?}") };
        assert!(failed.reason.ends_with("(the earlier version was put back)"), "{failed:?}");
        assert_eq!(kept(&place), [""; 0].map(PathBuf::from));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_after_which_the_new_one_is_taken_in_puts_nothing_back() {
    let place = Place::new();
    let ingest = place.open();
    changed(&place, &ingest).await;
    place.fake.world().removals_hang = true;
    let id = place.begin(&ingest, "a.md").await;
    while kept(&place).is_empty() || !place.fake.world().log.contains(&"remove".to_owned()) {
        sleep(Duration::from_millis(50)).await;
    }
    drop(ingest);
    place.fake.world().removals_hang = false;
    let _next = place.open();
    until_done(&place).await;
    assert_eq!(place.fake.log(), ["remove", "send two"], "it was asked for the collection before");
    assert!(place.fake.document(&id).is_some() && kept(&place).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_can_not_be_put_back_stays_on_disk_until_the_document_is_taken_in() {
    let place = Place::new();
    let ingest = place.open();
    changed(&place, &ingest).await;
    place.fake.next(vec![Sending::Refused(status(413, "too large")); 2]);
    let said = said(place.call(&ingest, "a.md").await);
    assert_eq!(said, "too large (the earlier version was removed before)");
    let [file] = kept(&place).try_into().expect("it is kept");
    assert_eq!(fs::read_to_string(file).expect("text"), "one");
    place.call(&ingest, "a.md").await.expect("taken in");
    assert_eq!(kept(&place), [""; 0].map(PathBuf::from));
}

#[tokio::test(start_paused = true)]
async fn what_r2r_does_not_give_out_as_it_was_is_not_kept_and_its_loss_is_told() {
    for hides in [
        (|world: &mut World| world.content_errors.extend(vec![status(500, "no storage"); 9]))
            as fn(&mut World),
        |world| world.contents.values_mut().for_each(|content| content.push('!')),
        |world| world.contents.clear(),
    ] {
        let place = Place::new();
        let ingest = place.open();
        changed(&place, &ingest).await;
        hides(&mut place.fake.world());
        place.fake.next([Sending::Refused(status(413, "too large"))]);
        let said = said(place.call(&ingest, "a.md").await);
        assert_eq!(said, "too large (the earlier version was removed before)");
        assert_eq!(
            (place.fake.log(), kept(&place)),
            (vec!["remove".to_owned(), "send two".to_owned()], vec![])
        );
    }
    let place = Place::new();
    let ingest = place.open();
    changed(&place, &ingest).await;
    place.fake.world().content_errors.extend(vec![away(); 9]);
    assert!(place.call(&ingest, "a.md").await.is_err(), "who waits hears early");
    assert_eq!(place.fake.log(), [""; 0], "nothing is removed while R2R is away");
}
