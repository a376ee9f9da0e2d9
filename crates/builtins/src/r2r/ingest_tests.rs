//! Tests of the ingestion tools together with the tools that find the documents.

use std::fs;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use super::double::Fault;
use super::fixture::{Fixture, SEARCH, options};
use super::ingest::ABOUT;
use super::resources::CONTEXT;
use super::{R2r, double};
use crate::{Builtin, Report, server_context};
use json::Raw;
use runtime::shutdown::Shutdown;
use upstream::api::{CallEvent, Error, Event, EventSender, Events};

const TOOL: &str = ABOUT.name;
const MONITOR: &str = "r2r_monitor_task";
const SEND: &str = "POST /v3/documents";
const REMOVE: &str = "DELETE /v3/documents/{}";

/// R2R and the gateway, with an allowed folder `docs` that contains `a.md`.
struct Place {
    fixture: Fixture,
    dir: TempDir,
}

impl Place {
    async fn new() -> Self {
        Self::limited(8 << 20).await
    }

    /// A place where files of at most `bytes` bytes are allowed.
    async fn limited(bytes: u64) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let docs = dir.path().join("docs");
        fs::create_dir(&docs).expect("made");
        let fixture = Fixture::with(|options| {
            options.ingest_roots = vec![docs];
            options.max_file_bytes = bytes;
        });
        let place = Self { fixture: fixture.await, dir };
        place.write("a.md", "The walrus sings at noon.");
        place
    }

    fn r2r(&self) -> &double::R2r {
        &self.fixture.r2r
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join("docs").join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Calls the tool and waits for the document.
    async fn ingest(&self, name: &str) -> Result<Value, String> {
        self.ingest_with(name, json!({"run_async": false})).await
    }

    /// Returns the answer of the tool, or the text of its error.
    async fn ingest_with(&self, name: &str, mut arguments: Value) -> Result<Value, String> {
        arguments["file_path"] = json!(self.path(name));
        match self.fixture.reply(TOOL, &arguments, &Report::none()).await {
            Ok(reply) => {
                let result: Value = reply.expect("a result").read().expect("JSON");
                let is_error = result["isError"] == true;
                let text = result["content"][0]["text"].as_str().expect("text").to_owned();
                if is_error { Err(text) } else { Ok(result["structuredContent"].clone()) }
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn status(&self, id: &Value) -> String {
        let monitored = self.fixture.ask(MONITOR, json!({"document_id": id})).await;
        monitored["ingestion_status"].as_str().expect("text").to_owned()
    }

    /// Waits until the document has this status.
    async fn until(&self, id: &Value, status: &str) {
        while self.status(id).await != status {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn pending_document_is_followed_until_it_is_found() {
    let place = Place::new().await;
    let found = place.fixture.ask(SEARCH, json!({"query": "walrus"})).await;
    assert_eq!(found["count"], 0);
    place.r2r().ingestion_time(Duration::from_secs(1));
    let answered = place.ingest_with("a.md", json!({})).await.expect("accepted");
    assert_eq!((&answered["status"], &answered["file_name"]), (&json!("pending"), &json!("a.md")));
    assert_eq!(answered["collection_id"], json!(place.fixture.own().await));
    let id = &answered["document_id"];
    let monitored = place.fixture.ask(MONITOR, json!({"document_id": id})).await;
    assert_eq!(
        (&monitored["ingestion_status"], &monitored["title"], &monitored["progress"]),
        (&json!("parsing"), &json!("a.md"), &json!(0.1)),
        "R2R itself says how far it is"
    );
    place.until(id, "success").await;
    let found = place.fixture.ask(SEARCH, json!({"query": "walrus"})).await;
    assert_eq!((&found["count"], &found["cached"]), (&json!(1), &json!(false)));
    let again = place.ingest("a.md").await.expect("there");
    assert_eq!((&again["status"], &again["document_id"]), (&json!("success"), id));
    assert_eq!(place.r2r().count(SEND), 1);
    let found = place.fixture.ask(SEARCH, json!({"query": "walrus"})).await;
    assert_eq!(found["cached"], true, "nothing has changed");
}

#[tokio::test]
async fn invalid_argument_is_refused_by_field() {
    let place = Place::limited(1000).await;
    place.write("long.md", &"x".repeat(1001));
    place.write("x.bin", "\0\0");
    let foreign = place.r2r().foreign_collection("theirs");
    let path = place.path("a.md");
    for (arguments, field) in [
        (json!({"file_path": "/etc/hostname"}), "file_path"),
        (json!({"file_path": place.path("../a.md")}), "file_path"),
        (json!({"file_path": place.path("long.md")}), "file_path"),
        (json!({"file_path": place.path("x.bin")}), "file_path"),
        (json!({"file_path": path, "ingestion_mode": "slow"}), "ingestion_mode"),
        (json!({"file_path": path, "metadata": {"collection_ids": []}}), "metadata.collection_ids"),
        (json!({"file_path": path, "collection_id": foreign}), "collection_id"),
        (
            json!({"file_path": path, "collection_id": "00000000-0000-0000-0000-000000000001"}),
            "collection_id",
        ),
        (json!({"file_path": path, "collection_id": "x"}), "collection_id"),
        (json!({"file_path": path, "chunks": []}), "chunks"),
    ] {
        assert_eq!(place.fixture.refused(TOOL, arguments.clone()).await["field"], field, "{arguments}");
    }
    assert_eq!(place.r2r().count(SEND), 0);
}

#[tokio::test]
async fn file_is_sent_with_its_path_its_length_and_its_metadata() {
    let place = Place::new().await;
    let answered = place.ingest_with("a.md", json!({"run_async": false, "metadata": {"tag": "x"}})).await;
    let sent = place.r2r().seen().into_iter().find(|seen| format!("{} {}", seen.method, seen.path) == SEND);
    let sent = sent.expect("sent");
    assert!(sent.headers.iter().any(|(name, _)| name == "content-length"), "{:?}", sent.headers);
    assert!(sent.body.contains(r#"filename="docs/a.md""#), "{}", sent.body);
    let there = &place.r2r().documents()[0];
    assert_eq!((&there["title"], &there["id"]), (&json!("a.md"), &answered.expect("sent")["document_id"]));
    assert_eq!(there["collection_ids"], json!([place.fixture.own().await]));
    for (name, value) in [
        ("tag", "x"),
        ("ingested_by", "switchyard"),
        ("source_path", "docs/a.md"),
        ("ingestion_mode", "fast"),
        ("content_sha256", "b12f1722901d91c68cf300c2d77d50c01c0a60f95c2a182ddbf50a0b3b6a8806"),
    ] {
        assert_eq!(there["metadata"][name], value);
    }
    assert!(there["metadata"]["ingested_at"].as_str().is_some_and(|at| at.ends_with('Z')));
    place.write("main.rs", "fn main() {}");
    assert_eq!(place.ingest("main.rs").await.expect("text")["file_name"], "main.rs");
}

#[tokio::test]
async fn changed_file_replaces_its_document_and_unchanged_file_is_not_sent() {
    let place = Place::new().await;
    let sent = || (place.r2r().count(SEND), place.r2r().count(REMOVE));
    let first = place.ingest("a.md").await.expect("sent");
    assert_eq!(place.ingest("a.md").await.expect("there"), first);
    assert_eq!(sent(), (1, 0));
    place.write("a.md", "another text");
    assert_eq!(place.ingest("a.md").await.expect("sent"), first);
    assert_eq!(sent(), (2, 1));
    let tagged = json!({"run_async": false, "metadata": {"tag": "x"}});
    for _ in 0..2 {
        place.ingest_with("a.md", tagged.clone()).await.expect("sent");
        assert_eq!(sent(), (3, 2), "other metadata make another document");
    }
    assert_eq!(place.r2r().documents().len(), 1);
}

#[tokio::test]
async fn equal_calls_at_once_send_once() {
    let place = Place::new().await;
    place.r2r().ingestion_time(Duration::from_millis(300));
    let all = join_all((0..20).map(|_| place.ingest("a.md"))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((place.r2r().count(SEND), place.r2r().documents().len()), (1, 1));
}

#[tokio::test]
async fn call_for_a_document_under_way_is_answered_at_once() {
    let place = Place::new().await;
    place.r2r().ingestion_time(Duration::from_secs(3));
    let started = Instant::now();
    let first = place.ingest_with("a.md", json!({})).await.expect("accepted");
    let more = join_all((0..100).map(|_| place.ingest_with("a.md", json!({})))).await;
    assert!(more.iter().all(|one| one.as_ref() == Ok(&first)), "equal calls take no place: {more:?}");
    place.write("a.md", "The walrus sings at one.");
    let other = place.ingest_with("a.md", json!({})).await.expect_err("another version has to wait");
    assert!(other.contains("too many calls"), "{other}");
    assert!(started.elapsed() < Duration::from_secs(3), "nobody waited for the end of the ingestion");
    assert_eq!(place.r2r().count(SEND), 1);
    place.until(&first["document_id"], "success").await;
    place.ingest("a.md").await.expect("the other version");
    let again = place.ingest_with("a.md", json!({})).await.expect("nothing changed");
    assert_eq!((&again["status"], place.r2r().count(SEND)), (&json!("success"), 2));
}

#[tokio::test]
async fn refused_file_fails_the_call_with_the_reason_of_r2r() {
    let place = Place::new().await;
    // More than R2R accepts for this type.
    place.write("long.md", &"x".repeat(2_100_000));
    let refused = place.ingest_with("long.md", json!({})).await.expect_err("refused");
    assert!(refused.contains("size") && !refused.contains("earlier version"), "{refused}");
    place.ingest("a.md").await.expect("sent");
    place.write("a.md", &"y".repeat(2_100_000));
    let refused = place.ingest_with("a.md", json!({})).await.expect_err("refused");
    assert!(refused.ends_with("(the earlier version was removed before)"), "{refused}");
    assert!(place.r2r().documents().is_empty());
}

#[tokio::test]
async fn failed_ingestion_gives_its_reason_and_can_be_repeated() {
    let place = Place::new().await;
    place.r2r().fail_ingestion(Some("no model"));
    place.ingest("a.md").await.expect_err("it fails before the answer");
    let listed = place.fixture.ask("r2r_list_documents", json!({"status_filter": "failed"})).await;
    let counts = place.fixture.read(CONTEXT, &Report::none()).await;
    assert_eq!((&listed["total"], &counts["ingestion_status"]["failed"]), (&json!(1), &json!(1)));
    place.r2r().fail_ingestion(None);
    place.ingest("a.md").await.expect("sent");
    place.r2r().queued();
    place.r2r().fail_ingestion(Some("no model"));
    place.write("b.md", "bee");
    let failed = place.ingest("b.md").await.expect_err("it fails later");
    assert!(failed.contains("no model"), "{failed}");
    place.write("c.md", "sea");
    let pending = place.ingest_with("c.md", json!({})).await.expect("R2R has it");
    place.until(&pending["document_id"], "failed").await;
    let monitored = place.fixture.ask(MONITOR, json!({"document_id": pending["document_id"]})).await;
    assert_eq!(monitored["failure"], "no model");
}

#[tokio::test]
async fn lost_answer_is_looked_up_before_the_file_is_sent_again() {
    let place = Place::new().await;
    place.r2r().fail_next(SEND, 1, Fault::Lost);
    place.ingest("a.md").await.expect("it arrived");
    assert_eq!(place.r2r().count(SEND), 1);
    place.write("b.md", "bee");
    place.r2r().fail_next(SEND, 1, Fault::Status(502));
    place.ingest("b.md").await.expect_err("the gateway repeats the call");
    assert_eq!(place.r2r().count(SEND), 1 + 1);
}

#[tokio::test]
async fn document_that_r2r_works_on_is_followed_and_an_abandoned_one_is_replaced() {
    let place = Place::new().await;
    place.r2r().queued();
    let id = place.ingest_with("a.md", json!({})).await.expect("R2R has it")["document_id"].clone();
    assert_eq!(place.ingest("a.md").await.expect("followed")["document_id"], id);
    assert_eq!((place.r2r().count(SEND), place.r2r().count(REMOVE)), (1, 0));
    place.r2r().abandon_documents();
    place.ingest("a.md").await.expect("sent");
    assert_eq!((place.r2r().count(SEND), place.r2r().count(REMOVE)), (2, 1));
}

#[tokio::test]
async fn too_many_documents_under_way_are_refused_with_a_time_to_wait() {
    let place = Place::new().await;
    place.r2r().ingestion_time(Duration::from_secs(2));
    let names: Vec<String> = (0..80).map(|number| format!("{number}.md")).collect();
    for name in &names {
        place.write(name, name);
    }
    let all = join_all(names.iter().map(|name| place.ingest_with(name, json!({})))).await;
    let refused: Vec<_> = all.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!((refused.len(), all.len() - refused.len()), (16, 64), "{refused:?}");
    for answer in all.iter().flatten() {
        place.until(&answer["document_id"], "success").await;
    }
    place.ingest("a.md").await.expect("there is room again");
}

#[tokio::test]
async fn file_that_changes_while_it_is_sent_never_arrives() {
    let place = Place::new().await;
    place.write("a.md", &"x".repeat(900_000));
    // The digest of the file is computed before R2R is asked for the document.
    place.r2r().delay("/v3/documents", Duration::from_millis(300));
    let cut = async {
        while place.r2r().count("GET /v3/documents/{}") == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        fs::File::options()
            .write(true)
            .open(place.path("a.md"))
            .expect("open")
            .set_len(300_000)
            .expect("cut");
    };
    let (refused, ()) = tokio::join!(place.ingest("a.md"), cut);
    let refused = refused.expect_err("cut");
    assert!(refused.contains("file_path") && refused.contains("changed while it was read"), "{refused}");
    assert!(place.r2r().documents().is_empty());
}

#[tokio::test]
async fn progress_of_an_awaited_document_only_grows() {
    let place = Place::new().await;
    place.r2r().queued();
    let (event_sender, mut receiver) = EventSender::new(64);
    let arguments = json!({"file_path": place.path("a.md"), "run_async": false});
    let reply = place.fixture.reply(TOOL, &arguments, &Report::new(&event_sender, true)).await;
    reply.expect("reached").expect("a result");
    let (mut shares, mut messages) = (Vec::new(), Vec::new());
    while let Ok(CallEvent::Notice(notice)) = receiver.try_recv() {
        let params = notice.params.expect("parameters");
        shares.push(params.get_as::<f64>("progress").expect("a number"));
        messages.extend(params.get_as::<String>("message"));
    }
    assert!(shares.is_sorted_by(|a, b| a < b), "{shares:?}");
    assert!(messages.contains(&"embedding".into()), "{messages:?}");
}

#[tokio::test]
async fn upload_continues_after_its_client_left_and_ends_with_the_gateway() {
    let (r2r, dir) = (double::R2r::start(), tempfile::tempdir().expect("a folder"));
    let mut options = options(&r2r, &dir);
    (options.ingest_roots, options.max_file_bytes) = (vec![dir.path().to_owned()], 1000);
    let (shutdown, (events, mut reported)) = (Shutdown::new(), Events::channel());
    let context = server_context(&shutdown);
    let server = R2r::open(&"r2r".into(), &options, &context, events).await.expect("it lets us in");
    let call = async |name: &str| {
        fs::write(dir.path().join(name), name).expect("written");
        let arguments = Raw::of(&json!({"file_path": dir.path().join(name), "run_async": false}));
        server.call(TOOL, arguments, &Report::none()).await
    };
    r2r.ingestion_time(Duration::from_millis(500));
    tokio::time::timeout(Duration::from_millis(250), call("a.md")).await.expect_err("the client left");
    let Some(Event::Notice(notice)) = reported.recv().await else { panic!("no notification") };
    assert_eq!(notice.params.expect("parameters").get_as::<String>("uri").as_deref(), Some(CONTEXT));
    assert_eq!(r2r.documents()[0]["ingestion_status"], "success");
    r2r.ingestion_time(Duration::from_mins(1));
    let stop = async {
        while r2r.documents().len() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
        shutdown.begin();
    };
    let (ended, ()) = tokio::join!(call("b.md"), stop);
    assert!(matches!(ended, Err(Error::Unavailable { .. })), "{ended:?}");
}

#[tokio::test]
async fn call_fails_soon_while_r2r_is_away() {
    let mut place = Place::new().await;
    place.ingest("a.md").await.expect("sent");
    place.write("a.md", "another text");
    place.fixture.r2r.kill();
    for arguments in [json!({}), json!({"run_async": false})] {
        place.ingest_with("a.md", arguments).await.expect_err("nothing listens");
    }
    place.fixture.r2r.restart();
    place.ingest("a.md").await.expect("sent");
    assert_eq!(place.r2r().documents().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_files_of_a_megabyte_at_once_all_arrive() {
    let place = Place::new().await;
    let names: Vec<String> = (0..50).map(|number| format!("{number}.md")).collect();
    for name in &names {
        place.write(name, &name.repeat((1 << 20) / name.len()));
    }
    let all = join_all(names.iter().map(|name| place.ingest(name))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((place.r2r().documents().len(), place.r2r().count(SEND)), (50, 50));
}
