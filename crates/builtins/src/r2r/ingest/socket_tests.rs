//! Tests of ingesting over sockets, against an R2R that answers as recorded.

use std::fs;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::fixture::Place;
use super::remote::{MakeForm, R2rApi};
use super::*;
use crate::r2r::client::Client;
use crate::r2r::config::{CacheTtl, Credentials};
use crate::r2r::double::{EMAIL, Fault, PASSWORD, R2r};
use crate::r2r::model::R2rDocument;
use crate::server_context;

const SEND: &str = "POST /v3/documents";

async fn client(r2r: &R2r) -> Client {
    let email = EMAIL.to_owned().into();
    let options = config::R2rOptions {
        url: r2r.url().parse().expect("a URL"),
        credentials: Credentials::Account { email, password: PASSWORD.to_owned().into() },
        project: config::ProjectName { name: "p".into(), path: None },
        follows_client: false,
        pace: None,
        auto_create_collections: false,
        collection_mapping_file: None,
        ingest_roots: Vec::new(),
        max_file_bytes: 1,
        advanced_search: config::AdvancedSearch::default(),
        cache_ttl: CacheTtl::default(),
    };
    let server_context = server_context(&Shutdown::new());
    Client::open(&options, &server_context).await.expect("it lets us in")
}

/// Starts an R2R with a collection, and opens the tool.
async fn opened(place: &Place) -> (R2r, Id, Ingest) {
    let r2r = R2r::start();
    let client = client(&r2r).await;
    let made: Value = client.post(&["collections"], &json!({"name": "docs"})).await.expect("made");
    let collection = serde_json::from_value(made["results"]["id"].clone()).expect("an id");
    (r2r, collection, place.open_over(client))
}

async fn call(place: &Place, ingest: &Ingest, collection: Id, name: &str) -> Result<Ingested, Failure> {
    let target = Target { collection, is_known: false, resource: None };
    ingest.ingest(place.arguments(name, &json!({"run_async": false})), target, &Report::none()).await
}

#[tokio::test]
async fn a_file_is_sent_once_with_its_path_its_length_and_all_that_is_said_about_it() {
    let place = Place::new();
    let (r2r, collection, ingest) = opened(&place).await;
    for _ in 0..2 {
        call(&place, &ingest, collection, "a.md").await.expect("taken in");
    }
    assert_eq!(r2r.count(SEND), 1);
    let sent = r2r.seen().into_iter().find(|seen| seen.method == "POST" && seen.path == "/v3/documents");
    let sent = sent.expect("sent");
    assert!(sent.headers.iter().any(|(name, _)| name == "content-length"), "{:?}", sent.headers);
    assert!(
        sent.body.contains(r#"filename="docs/a.md""#) && sent.body.contains("ingested_at"),
        "{}",
        sent.body
    );
    let there = &r2r.documents()[0];
    assert_eq!((&there["title"], &there["collection_ids"]), (&json!("a.md"), &json!([collection])));
    place.write("a.md", "another text");
    call(&place, &ingest, collection, "a.md").await.expect("taken in");
    assert_eq!((r2r.count(SEND), r2r.count("DELETE /v3/documents/{}"), r2r.documents().len()), (2, 1, 1));
}

#[tokio::test]
async fn a_collection_of_nobody_or_of_others_gets_nothing() {
    let place = Place::new();
    let (r2r, _, ingest) = opened(&place).await;
    let foreign = Id(Uuid::parse_str(&r2r.foreign_collection("theirs")).expect("an id"));
    for collection in [foreign, Id(Uuid::from_u128(7))] {
        let refused = call(&place, &ingest, collection, "a.md").await.expect_err("not ours");
        assert!(
            matches!(&refused, Failure::Refused(refusal) if refusal.field() == "collection_id"),
            "{refused:?}"
        );
    }
    assert_eq!(r2r.count(SEND), 0);
}

#[tokio::test]
async fn a_failed_ingestion_says_why_and_can_be_done_again() {
    let place = Place::new();
    let (r2r, collection, ingest) = opened(&place).await;
    r2r.fail_ingestion(Some("no model"));
    let failed = call(&place, &ingest, collection, "a.md").await.expect_err("it fails");
    assert!(matches!(&failed, Failure::Failed(Error::Backend { status: 400, .. })), "{failed:?}");
    r2r.fail_ingestion(None);
    call(&place, &ingest, collection, "a.md").await.expect("taken in");
    r2r.queued();
    r2r.fail_ingestion(Some("no model"));
    place.write("b.md", "bee");
    let failed = call(&place, &ingest, collection, "b.md").await.expect_err("it fails later");
    let said =
        matches!(&failed, Failure::Failed(Error::Backend { detail, .. }) if detail.contains("no model"));
    assert!(said, "{failed:?}");
    assert_eq!((r2r.count(SEND), r2r.documents().len()), (3, 2));
}

#[tokio::test]
async fn an_answer_of_a_proxy_is_looked_behind_and_a_limit_is_waited_out() {
    let place = Place::new();
    let (r2r, collection, ingest) = opened(&place).await;
    r2r.fail_next("/v3/documents", 2, Fault::Status(502));
    call(&place, &ingest, collection, "a.md").await.expect("taken in");
    assert_eq!(r2r.documents().len(), 1);
    place.write("b.md", "bee");
    r2r.fail_next("/v3/documents", 2, Fault::RateLimited(Some(0)));
    call(&place, &ingest, collection, "b.md").await.expect("taken in");
    assert_eq!(r2r.documents().len(), 2);
}

#[tokio::test]
async fn a_promise_outlives_r2r_and_the_gateway() {
    let place = Place::new();
    let (mut r2r, collection, ingest) = opened(&place).await;
    let target = Target { collection, is_known: false, resource: None };
    call(&place, &ingest, collection, "a.md").await.expect("taken in");
    r2r.kill();
    for number in 0..8 {
        let name = format!("{number}.md");
        place.write(&name, &name);
        let begun = ingest.ingest(place.arguments(&name, &json!({})), target, &Report::none()).await;
        assert_eq!(begun.expect("nothing is asked of R2R").status, Status::Pending);
    }
    drop(ingest);
    r2r.restart();
    let next = place.open_over(client(&r2r).await);
    while r2r.documents().len() < 9 || place.journal() != "[]" {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(r2r.count(SEND), 9);
    drop(next);
}

#[tokio::test]
async fn nobody_who_does_not_wait_waits_for_a_service_that_hangs() {
    let place = Place::new();
    let (r2r, collection, ingest) = opened(&place).await;
    r2r.fail_next("/v3/documents", 1, Fault::Hang);
    let target = Target { collection, is_known: false, resource: None };
    let begun = ingest.ingest(place.arguments("a.md", &json!({})), target, &Report::none()).await;
    assert_eq!(begun.expect("answered").status, Status::Pending);
    assert!(r2r.documents().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_files_of_a_megabyte_at_once_are_all_there() {
    let place = Place::new();
    let (r2r, collection, ingest) = opened(&place).await;
    let names: Vec<String> = (0..50).map(|number| format!("{number}.md")).collect();
    for name in &names {
        place.write(name, &name.repeat((1 << 20) / name.len()));
    }
    let all = join_all(names.iter().map(|name| call(&place, &ingest, collection, name))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!((r2r.documents().len(), r2r.count(SEND)), (50, 50));
}

/// Truncates the file after its digest was computed and before it is sent.
struct Cutting(Client, String);

impl R2rApi for Cutting {
    fn who(&self) -> BoxFuture<'_, Result<String, Error>> {
        R2rApi::who(&self.0)
    }

    fn has_collection(&self, id: Uuid) -> BoxFuture<'_, Result<bool, Error>> {
        self.0.has_collection(id)
    }

    fn document(&self, id: Uuid) -> BoxFuture<'_, Result<Option<R2rDocument>, Error>> {
        self.0.document(id)
    }

    fn content(&self, id: Uuid) -> BoxFuture<'_, Result<Option<Bytes>, Error>> {
        self.0.content(id)
    }

    fn remove(&self, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        self.0.remove(id)
    }

    fn create<'a>(&'a self, form: MakeForm<'a>) -> BoxFuture<'a, Result<(), Error>> {
        fs::File::options().write(true).open(&self.1).expect("open").set_len(300_000).expect("cut");
        self.0.create(form)
    }

    fn join(&self, collection: Uuid, id: Uuid) -> BoxFuture<'_, Result<(), Error>> {
        self.0.join(collection, id)
    }
}

#[tokio::test]
async fn half_a_file_is_never_taken() {
    let place = Place::new();
    let (r2r, collection, _) = opened(&place).await;
    place.write("b.md", &"x".repeat(900_000));
    let ingest = place.open_over(Cutting(client(&r2r).await, place.path("b.md")));
    let refused = call(&place, &ingest, collection, "b.md").await.expect_err("cut");
    assert!(matches!(&refused, Failure::Refused(refusal) if refusal.field() == "file_path"), "{refused:?}");
    assert!(r2r.documents().is_empty());
}
