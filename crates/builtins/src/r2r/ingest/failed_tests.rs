//! Tests of the records of documents that could not be ingested.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::r2r::ingest::fixture::{COLLECTION, Place, Sending, collection, document, status};
use crate::r2r::ingest::{Ingest, LocalState};
use upstream::api::Error;

/// Returns the failure of the document `id`.
fn failed(ingest: &Ingest, id: &str) -> Option<FailedDocument> {
    match ingest.ours(serde_json::from_value(json!(id)).expect("an id"))? {
        LocalState::Failed(failed) => Some(failed),
        under_way @ LocalState::UnderWay(_) => panic!("{under_way:?}"),
    }
}

/// Ingests `a.md`, whose content R2R then loses, and replaces it with a request that ends as `sending`.
/// Returns the failure.
async fn replaced(place: &Place, ingest: &Ingest, sending: Sending) -> FailedDocument {
    place.call(ingest, "a.md").await.expect("it went well");
    place.fake.world().contents.clear();
    place.write("a.md", "another text");
    place.fake.next([sending]);
    let id = place.begin(ingest, "a.md").await;
    place.settled(ingest).await;
    failed(ingest, &id).expect("remembered")
}

#[tokio::test(start_paused = true)]
async fn who_was_promised_a_document_that_is_refused_finds_out_why_also_in_the_next_life() {
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Refused(status(413, "too large"))]);
    let id = place.begin(&ingest, "a.md").await;
    place.settled(&ingest).await;
    let known = failed(&ingest, &id).expect("remembered");
    assert_eq!((known.reason.as_str(), known.file_name.as_str(), known.size), ("too large", "a.md", 3));
    assert_eq!(ingest.failed(collection()), std::slice::from_ref(&known));
    assert_eq!(ingest.failed(Id(Uuid::nil())), [], "it is of another collection");
    assert_eq!(place.journal(), "[]");
    drop(ingest);
    let next = place.open();
    while failed(&next, &id).is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(next.failed(collection()), [known]);
    place.call(&next, "a.md").await.expect("it went well");
    assert!(failed(&next, &id).is_none() && next.failed(collection()).is_empty(), "that is over");
}

#[tokio::test(start_paused = true)]
async fn who_loses_the_earlier_version_is_told_however_it_ends() {
    let gone = "(the earlier version was removed before)";
    let lost = Error::Lost { reason: "cut".into() };
    for sending in [Sending::Refused(status(413, "too large")), Sending::Fails("no model"), Sending::Hangs] {
        let place = Place::new();
        let known = replaced(&place, &place.open(), sending.clone()).await;
        assert!(known.reason.ends_with(gone), "{sending:?}: {known:?}");
    }
    let place = Place::new();
    let ingest = place.open();
    place.fake.next([Sending::Lost(true), Sending::Refused(lost.clone()), Sending::Refused(lost.clone())]);
    let known = replaced(&place, &ingest, Sending::Refused(lost)).await;
    assert!(known.reason.contains("outcome is unknown") && known.reason.ends_with(gone), "{known:?}");
}

#[test]
fn what_r2r_shows_counts_if_it_came_of_that_wish_or_a_later_one() {
    let time = |text: &str| {
        OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).expect("a time")
    };
    let known = FailedDocument {
        document: Id(Uuid::nil()),
        collection: collection(),
        file_name: "a.md".into(),
        size: 3,
        since: time("2026-11-22T10:00:00Z"),
        at: time("2026-11-22T12:00:00Z"),
        reason: "no answer within 7200.0 s".into(),
    };
    for (status, sent, wanted) in [
        ("success", "2026-11-22T09:00:00Z", false), // the version to be replaced
        ("success", "2026-11-22T10:00:01Z", true),  // the ingestion succeeded after all
        ("failed", "2026-11-22T10:00:01Z", false),  // Switchyard has the better reason
        ("parsing", "2026-11-22T10:00:01Z", false), // left behind
        ("parsing", "2026-11-22T12:00:01Z", true),  // another program tries it
    ] {
        let there = document(status, &json!({"ingested_at": sent}), &[COLLECTION]);
        assert_eq!(known.is_outlived_by(&there), wanted, "{status} {sent}");
    }
}

#[test]
fn the_newest_are_remembered_and_of_each_the_last_word() {
    let mut all = AllFailed::default();
    let now = OffsetDateTime::now_utc();
    let known = |number: u128, reason: &str| FailedDocument {
        document: Id(Uuid::from_u128(number)),
        collection: collection(),
        file_name: "a.md".into(),
        size: 0,
        since: now,
        at: now,
        reason: reason.into(),
    };
    for number in 0..=1000 {
        all.put(known(number, "first"));
    }
    all.put(known(1, "again"));
    assert_eq!(all.iter().count(), 1000);
    assert!(all.get(Id(Uuid::from_u128(0))).is_none(), "the oldest went");
    assert_eq!(all.iter().next().map(|one| one.reason.as_str()), Some("again"));
    assert_eq!(reason(&Failure::Failed(status(400, &"ж".repeat(400)))).len(), 500);
}
